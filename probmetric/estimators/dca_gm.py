"""``DCAGM``: a discriminative projection, a classifier on it, and metrics from it.

The model is ``probmetric.models.dca_gm``, the fit
``probmetric.inference.dca_gm.fit``; this file holds no mathematics but the change of
units: with x = (u - m)/s for an input u, y = (A/s) u - (A/s) m, so that in input units
A becomes A/s and centres move by (A/s) m.

``DCAGMDrawsMixin`` gives draws of a fitted one: J and class probabilities, and metrics
under J.
"""

from typing import Any, get_args

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils.validation import check_is_fitted, validate_data

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Labelled
from probmetric.data.padding import pad_labelled
from probmetric.data.scaling import fit_scaler
from probmetric.estimators._labelled import check_labelled, report
from probmetric.estimators._mahalanobis import MahalanobisMixin
from probmetric.inference.dca_gm.draws import TARGET, TARGET_A, metrics, prepare
from probmetric.inference.dca_gm.fit import Conditioned, default_prior, fit
from probmetric.inference.dca_gm.likelihood import class_log_probability, fix_gauge
from probmetric.inference.dca_gm.start import start
from probmetric.inference.sampling.sample import sample
from probmetric.inference.sampling.units import LIKELIHOOD, set_apart
from probmetric.inference.solvers.result import Fit
from probmetric.linalg_scaled import no_nan
from probmetric.metric import ClassDistribution, LocalFisher, Mahalanobis
from probmetric.models.dca_gm import DCAGMParams, DCAGMPrior, MetricKind, to_metric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.precision import to_numpy

__all__ = ["DCAGM", "DCAGMDrawsMixin"]


class DCAGMDrawsMixin:
    """``sample`` and ``posterior_metric``."""

    _data: Labelled
    _standardized: Any
    fit_: Fit
    learning_rate: float
    params_: DCAGMParams
    prior_: DCAGMPrior
    scale_: np.ndarray

    def sample(
        self,
        method: str = "nuts",
        *,
        queries: Any = None,
        mixtures: str | None = None,
        log_likelihood: bool = False,
        seed: int = 0,
        n_chains: int = 4,
        n_draws: int = 1000,
        n_warmup: int | None = None,
        sampler: dict[str, Any] | None = None,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Sample the posterior; report J (input units) and class probabilities.

        Parameters
        ----------
        method : {"nuts", "laplace", "svi"}, default="nuts"
        queries : array-like of shape (m, d), optional
            Points at which to report p(c|x). Default: the training points.
        mixtures : {"sampled", "fixed"}, optional
            Whether θ is sampled with A or held at its mode. Default: fixed for
            "laplace", which is far off otherwise; sampled for the others.
        log_likelihood : bool, default=False
            Store log p(c|x) of every training point under every draw, for ``loo``;
            without ``queries``. Under a learning rate other than one it is stored as
            ``pseudo_log_likelihood``, times the rate.
        seed, n_chains, n_draws, n_warmup, sampler, progress
            As in ``probmetric.sample``.

        Returns
        -------
        DataTree
            Posterior ``J``, ``class_probability`` and ``log_likelihood``, which are
            identified; A and the mixtures are not, and are left out.
        """
        check_choice("method", method, ("nuts", "laplace", "svi"))
        check_is_fitted(self)
        if mixtures is None:
            mixtures = "fixed" if method == "laplace" else "sampled"
        check_choice("mixtures", mixtures, ("sampled", "fixed"))
        if log_likelihood and queries is not None:
            raise ValueError(
                "queries: expected none with log_likelihood, which is that of the "
                f"training points, got {np.shape(queries)}"
            )
        fixed = mixtures == "fixed"
        if queries is None:
            at = self._data.X[np.asarray(self._data.w) > 0]
        else:
            at = self._standardized(queries)
        given = Conditioned(self._data, self.prior_, self.learning_rate)
        with jax.enable_x64(True):
            start, data = prepare(
                self.fit_.params, given, queries=at, scale=self.scale_
            )
            tree = sample(
                TARGET_A if fixed else TARGET,
                data,
                method=method,  # pyright: ignore
                seed=seed,
                start=start.A if fixed else start,
                n_chains=n_chains,
                n_draws=n_draws,
                n_warmup=n_warmup,
                sampler=sampler,
                progress=progress,
            )
        # A target's data carry η among its arrays; here it gets its name.
        tree.attrs["learning_rate"] = float(self.learning_rate)
        return self._with_pointwise(tree) if log_likelihood else tree

    def _with_pointwise(self, tree: xr.DataTree) -> xr.DataTree:
        y = np.asarray(self._data.y)[np.asarray(self._data.w) > 0]
        P = tree["posterior"]["class_probability"].to_numpy()
        own = float(self.learning_rate) * np.log(P[:, :, np.arange(len(y)), y])
        group = xr.Dataset({"y": (("chain", "draw", "point"), own)})
        tree[LIKELIHOOD] = xr.DataTree(group)
        return set_apart(tree)

    def posterior_metric(
        self,
        purpose: str,
        *,
        draws: xr.DataTree | None = None,
        n_metrics: int = 200,
        seed: int = 0,
    ) -> PosteriorMetric:
        """Return draws of the metric under J.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
        draws : DataTree, optional
            Of ``sample``. Default: Laplace's approximation for A given the mixtures.
        n_metrics : int, default=200
            Draws to keep, evenly spaced.
        seed : int, default=0
            Where no draws are given.
        """
        check_is_fitted(self)
        if draws is None:
            draws = self.sample("laplace", seed=seed, n_chains=1, n_draws=n_metrics)
        J = draws["posterior"]["J"].to_numpy()
        J = J.reshape(-1, *J.shape[2:])
        keep = np.linspace(0, len(J) - 1, min(n_metrics, len(J))).astype(int)
        return PosteriorMetric(
            metrics(J[keep], len(self.params_.A)),
            purpose,
            pairs_independent=self.learning_rate == 1,
            source=draws.attrs.get("method", "nuts"),
        )


GLOBAL_KINDS = ("average_fisher", "subspace")


class DCAGM(
    DCAGMDrawsMixin,
    MahalanobisMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClassifierMixin,
    BaseEstimator,
):
    """Discriminative component analysis by Gaussian mixtures.

    A point is projected, y = Ax, and its class follows from a mixture of Gaussians per
    class in the projection; A is learned for the class, not for the density of x. Each
    step costs O(n), where neighbourhood components analysis costs O(n²).

    Parameters
    ----------
    n_components : int, optional
        Rows of A, 1..d. Default: 2, or 1 when there is one feature.
    n_gaussians : int or sequence of int, default=3
        Components of the mixture of every class, or of each. A class with fewer
        distinct projected points has as many as these.
    covariance : {"class", "component"}, default="class"
        One covariance per class, or one per component.
    regularization : float > 0, default=1.0
        λ: the prior standard deviation of an entry of A is c/√λ around the LDA/RCA
        start, c the root mean square of its entries.
    learning_rate : float > 0, default=1.0
        Power on the likelihood. Points are independent observations: 1 is Bayes' rule.
    solver : {"lbfgs", "hybrid", "hybrid_tied"}, default="lbfgs"
        The joint posterior mode; or the paper's alternation of EM and conjugate
        gradients, with free centres or centres that follow A, which ascends no single
        objective and returns its best iterate.
    metric : {"average_fisher", "subspace"}, default="average_fisher"
        What ``components_`` and ``transform`` stand for; see ``get_metric``.
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    max_iter : int, optional
        Default: 500 steps of L-BFGS; 30 of the hybrid, which stops there by design.
    tol : float, default=1e-5
        On the gradient.
    random_state : int, default=0
        Seed of k-means in the start.

    Attributes
    ----------
    classes_ : array of shape (c,)
    components_ : array of shape (p, d)
        Factor of the metric in input units, rows by falling share in it.
    params_ : DCAGMParams
        The fit in standardised features, in the gauge where the pooled covariance
        within components is I.
    fit_ : Fit
        As the solver returned it, before the gauge was fixed.
    prior_ : DCAGMPrior
    n_iter_ : int
    mean_, scale_ : arrays of shape (d,)
    n_features_in_, feature_names_in_

    Notes
    -----
    A local optimum. A is identified up to the gauge only; metrics and probabilities
    are not affected by it.

    References
    ----------
    Peltonen, Goldberger and Kaski, "Fast Discriminative Component Analysis for
    Comparing Examples", NIPS 2006 workshop.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> DCAGM().fit(X, y).transform(X).shape
    (178, 2)
    """

    preprocessor: Any = None

    def __init__(
        self,
        n_components: Any = None,
        *,
        n_gaussians: Any = 3,
        covariance: Any = "class",
        regularization: Any = 1.0,
        learning_rate: Any = 1.0,
        solver: Any = "lbfgs",
        metric: Any = "average_fisher",
        standardize: Any = True,
        max_iter: Any = None,
        tol: Any = 1e-5,
        random_state: Any = 0,
    ):
        self.n_components = n_components
        self.n_gaussians = n_gaussians
        self.covariance = covariance
        self.regularization = regularization
        self.learning_rate = learning_rate
        self.solver = solver
        self.metric = metric
        self.standardize = standardize
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "DCAGM":
        """Learn the projection and the mixtures.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Numbers or strings; at least two classes of at least two members.
        """
        rows, self.classes_, codes = check_labelled(self, X, y)
        self._check(rows.shape[1])
        names = getattr(self, "feature_names_in_", None)
        scaler = fit_scaler(rows, names, standardize=bool(self.standardize))
        self.mean_, self.scale_ = scaler
        data = pad_labelled(Labelled((rows - scaler.mean) / scaler.scale, codes))
        with jax.enable_x64(True):
            p = (
                min(2, rows.shape[1])
                if self.n_components is None
                else self.n_components
            )
            begin = start(
                data,
                p,
                n_gaussians=self.n_gaussians,
                covariance=self.covariance,
                seed=self.random_state,
            )
            prior = default_prior(begin, data, lam=float(self.regularization))
            found = fit(
                data,
                prior,
                solver=self.solver,
                learning_rate=float(self.learning_rate),
                init=begin,
                max_steps=self.max_iter,
                tol=float(self.tol),
            )
            self.params_ = to_numpy(fix_gauge(found.params))
        self.fit_, self.prior_ = to_numpy(found), to_numpy(prior)
        if self.solver == "lbfgs":
            report(self.fit_, type(self).__name__)
        self.n_iter_ = int(found.n_steps)
        self._data = data
        learned: Any = self.get_metric(kind=self.metric)
        self.components_ = learned.factor
        return self

    def _check(self, d: int) -> None:
        if self.n_components is not None:
            check_number("n_components", self.n_components, 1, d, whole=True)
        check_choice("covariance", self.covariance, ("class", "component"))
        check_choice("solver", self.solver, ("lbfgs", "hybrid", "hybrid_tied"))
        check_choice("metric", self.metric, GLOBAL_KINDS)
        for name in ("regularization", "learning_rate", "tol"):
            check_number(name, getattr(self, name), 0, 1e300, open_low=True)
        if self.max_iter is not None:
            check_number("max_iter", self.max_iter, 1, whole=True)
        check_number("random_state", self.random_state, 0, 2**32 - 1, whole=True)

    def _standardized(self, X: Any) -> Float[np.ndarray, "n d"]:
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, dtype=np.float64)
        with np.errstate(over="ignore"):  # Refused by name where it matters.
            return (points - self.mean_) / self.scale_

    def predict_log_proba(self, X: Any) -> Float[np.ndarray, "n c"]:
        """Return log p(c|x), columns in the order of ``classes_``."""
        points = self._standardized(X)
        found = np.asarray(class_log_probability(self.params_, points))
        return no_nan(found, "X", points)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n c"]:
        """Return p(c|x), columns in the order of ``classes_``."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each point."""
        best = np.argmax(self.predict_log_proba(X), 1)
        return self.classes_[best]

    def get_metric(
        self, *, kind: str | None = None
    ) -> Mahalanobis | LocalFisher | ClassDistribution:
        """Return a learned metric in input units, picklable.

        Parameters
        ----------
        kind : str, optional
            Default: ``metric``. "average_fisher": Mahalanobis under the average Fisher
            matrix of the class; "subspace": the Euclidean distance in the projection,
            in the fixed gauge; "local_fisher": the Fisher matrix at the query;
            "hellinger", "jensen_shannon": divergence of the class probabilities; "nca":
            scikit-learn's neighbourhood components analysis inside the projection of
            the training points (O(n²)).
        """
        check_is_fitted(self)
        kind = self.metric if kind is None else kind
        check_choice("kind", kind, (*get_args(MetricKind), "nca"))
        if kind == "nca":
            inner = NeighborhoodComponentsAnalysis(random_state=self.random_state)
            rows = np.asarray(self._data.w) > 0
            inner.fit(
                self._data.X[rows] @ self.params_.A.T, np.asarray(self._data.y)[rows]
            )
            return Mahalanobis(inner.components_ @ self.params_.A / self.scale_)
        return to_metric(self._in_input_units(), kind=kind)  # pyright: ignore

    def _in_input_units(self) -> DCAGMParams:
        A = self.params_.A / self.scale_
        return self.params_._replace(A=A, mu=self.params_.mu + A @ self.mean_)
