"""``DCAGM``: a discriminative projection, a classifier on it, and metrics from it.

The model is ``probmetric.models.dca_gm``, the fit
``probmetric.inference.dca_gm.fit``; this file holds no mathematics but the change of
units: with x = (u - m)/s for an input u, y = (A/s) u - (A/s) m, so that in input units
A becomes A/s and centres move by (A/s) m.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any, Literal, get_args

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.padding import bucket, pad_labelled, pad_rows
from probmetric.data.scaling import constant_columns
from probmetric.data.truth import TellsClasses
from probmetric.estimators._labelled import checked_rows, labelled_data, report
from probmetric.estimators._mahalanobis import MahalanobisMixin
from probmetric.estimators._settings import Count, Extended, Number, Seed, settings
from probmetric.inference.dca_gm.choice import choose_strength, close_prior
from probmetric.inference.dca_gm.draws import (
    TARGET,
    TARGET_A,
    draws_of_prior,
    metrics,
    new_classes,
    prepare,
)
from probmetric.inference.dca_gm.fit import Conditioned, default_prior, fit
from probmetric.inference.dca_gm.likelihood import class_log_probability, fix_gauge
from probmetric.inference.dca_gm.start import default_rows, start
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.sample import Method, sample, sampler_of
from probmetric.inference.sampling.units import with_terms
from probmetric.linalg import mixed_with_identity
from probmetric.linalg_scaled import no_nan
from probmetric.metric import ClassDistribution, LocalFisher, Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.models.dca_gm import DCAGMParams, MetricKind, to_metric
from probmetric.posterior.draws import posterior_metric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.precision import to_numpy
from probmetric.typing import ArrayLike, Preprocessor, Purpose, no_type_check

type GlobalKind = Literal["average_fisher", "subspace"]
Ordinary = Annotated[float, Number(0, 1e300, open_low=True)]


@settings
class DCAGM(
    MahalanobisMixin,
    TellsClasses,
    BaseEstimator,
):
    """Discriminative component analysis by Gaussian mixtures.

    A point is projected, y = Ax, and its class follows from a mixture of Gaussians per
    class in the projection; A is learned for the class, not for the density of x. Each
    step costs O(n), where neighbourhood components analysis costs O(n²).

    Parameters
    ----------
    n_components : int, optional
        Rows of A, 1..d, and of the metric. Default: one fewer than there are
        classes, at least 2, at most d; and the metric is mixed with the Euclidean one,
        of full rank.
    n_gaussians : int or sequence of int, default=3
        Components of the mixture of every class, or of each. A class with fewer
        distinct projected points has as many as these.
    covariance : {"class", "component"}, default="class"
        One covariance per class, or one per component.
    prior_strength : "cv" or float ≥ 0, default="cv"
        s, in points, of a prior where few points teach too much. In the LDA/RCA start
        the features' variances count as s points beside the covariance within classes;
        A keeps to that start by 10 (1 + s/n), s/n at most 100; and in the metric the
        Euclidean distance of standardised features has weight s/(n + s), unless
        ``n_components`` is given or the metric is "subspace". Whatever s > 0, the prior
        of the mixtures counts as 22 points ("lbfgs"; the hybrids have that of their
        EM). ∞ is not to learn a metric, or there the start that variances alone whiten;
        0 is no such prior, the default before 0.2. "cv" chooses among 1, 4, 16, 64, 256
        and ∞ by soft votes of neighbours under the start in folds, at the bandwidth
        that each fold's points choose (``inference.dca_gm.choice``), which compiles and
        fits nothing.
    regularization : float > 0, default=1.0
        λ: the prior standard deviation of an entry of A is c/√(10 λ(1 + s/n)) around
        the LDA/RCA start, c the root mean square of its entries, s of
        ``prior_strength``; without the 10 where s is 0.
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
    preprocessor : array-like of shape (n, d) or callable, optional
        X of shape (n,), and pairs (N, 2), are rows of it by number; or it is a function
        of such entries, numbers or text, that returns the points.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

    Attributes
    ----------
    classes_ : array of shape (c,)
    components_ : array of shape (p, d), or (d, d) where it is mixed
        Factor of the metric in input units, rows by falling share in it. Zero in
        constant columns, where it is mixed.
    prior_strength_ : float
        s in use; ∞ where "cv" found nothing worth learning for votes (of a metric that
        is not mixed: where T alone whitens the start).
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

    With 20 to 160 labels votes of its metric have a lower log loss than those of the
    Euclidean distance (-.080 ± .020, eleven sets, splits that chose nothing), and so
    have its own probabilities (-.071 ± .019; Ledoit-Wolf's LDA +.338 ± .144 without the
    4 of 84 fits that it refused). With 20 labels alone the votes have -.017 ± .007 and
    -.013 ± .015 (splits 8 and 9, 10 to 13), the own probabilities -.007 ± .030 and
    +.038 ± .042; on iris that LDA is ahead of these (by .09, splits 8 to 13).

    References
    ----------
    Peltonen, Goldberger and Kaski, "Fast Discriminative Component Analysis for
    Comparing Examples", NIPS 2006 workshop.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> learned = DCAGM(2).fit(X, y)
    >>> learned.transform(X).shape, bool(learned.prior_strength_ > 0)
    ((178, 2), True)
    """

    n_components: int | None = field(default=None, kw_only=False)
    n_gaussians: int | Sequence[int] = 3
    covariance: Literal["class", "component"] = "class"
    prior_strength: Extended | Literal["cv"] = "cv"
    regularization: Ordinary = 1.0
    learning_rate: Ordinary = 1.0
    solver: Literal["lbfgs", "hybrid", "hybrid_tied"] = "lbfgs"
    metric: GlobalKind = "average_fisher"
    standardize: bool = True
    max_iter: Count | None = None
    tol: Ordinary = 1e-5
    random_state: Seed = 0
    preprocessor: Preprocessor = None
    unlabeled: Any = "warn"

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> "DCAGM":
        """Learn the projection and the mixtures.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Numbers or strings; at least two classes, one of two rows or more.
        """
        data, self.classes_, scaler = labelled_data(self, X, y)
        d = data.X.shape[1]
        p = default_rows(len(self.classes_), d)
        if self.n_components is not None:
            p = check_number("n_components", self.n_components, 1, d, whole=True)
        # A constant column teaches nothing, in any unit: taken at 0 it has no weight.
        constant = constant_columns(np.asarray(data.X))
        self.mean_ = scaler.mean + scaler.scale * np.where(constant, data.X[0], 0.0)
        self.scale_ = scaler.scale
        data = data._replace(X=np.where(constant, 0.0, data.X))
        mixed = self.n_components is None and self.metric != "subspace"
        if isinstance(self.prior_strength, str):
            self.prior_strength_ = choose_strength(data, p, mixed=mixed).strength
        else:
            self.prior_strength_ = float(self.prior_strength)
        self._euclid = self.prior_strength_ if mixed else 0.0
        n, self._live, data = len(data.X), ~constant, pad_labelled(data)
        with jax.enable_x64(True):
            begin = start(
                data,
                p,
                n_gaussians=self.n_gaussians,
                covariance=self.covariance,
                strength=self.prior_strength_,
                seed=self.random_state,
            )
            prior = default_prior(begin, data, lam=float(self.regularization))
            prior = close_prior(prior, self.prior_strength_, n)
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

    def _standardized(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        check_is_fitted(self)
        points = checked_rows(self, X, finite=True)
        with np.errstate(over="ignore"):  # Refused where it matters.
            return (points - self.mean_) / self.scale_

    def predict_log_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Return log p(c|x), columns in the order of ``classes_``."""
        points = self._standardized(X)
        # In few sizes: most other numbers of points compile nothing.
        rows = pad_rows(points, bucket(len(points)))
        found = np.asarray(class_log_probability(self.params_, rows))
        return no_nan(found[: len(points)], "X", points)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Return p(c|x), columns in the order of ``classes_``."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the most probable class of each point."""
        best = np.argmax(self.predict_log_proba(X), 1)
        return self.classes_[best]

    @with_names
    @no_type_check
    def get_metric(
        self, *, kind: MetricKind | Literal["nca"] | None = None
    ) -> Mahalanobis | LocalFisher | ClassDistribution:
        """Return a learned metric in input units, picklable.

        Parameters
        ----------
        kind : str, optional
            Default: ``metric``. "average_fisher": Mahalanobis under the average Fisher
            matrix of the class, mixed as ``prior_strength`` says; "subspace": the
            Euclidean distance in the projection, in the fixed gauge; "local_fisher":
            the Fisher matrix at the query; "hellinger", "jensen_shannon": divergence of
            the class probabilities; "nca": scikit-learn's neighbourhood components
            analysis inside the projection of the training points (O(n²)).
        """
        check_is_fitted(self)
        kind = self.metric if kind is None else kind
        check_choice("kind", kind, (*get_args(MetricKind.__value__), "nca"))
        if kind == "nca":
            from sklearn.neighbors import NeighborhoodComponentsAnalysis

            inner = NeighborhoodComponentsAnalysis(random_state=self.random_state)
            rows = np.asarray(self._data.w) > 0
            inner.fit(
                self._data.X[rows] @ self.params_.A.T, np.asarray(self._data.y)[rows]
            )
            return Mahalanobis(inner.components_ @ self.params_.A / self.scale_)
        metric = to_metric(self._in_input_units(), kind=kind)
        strength = self._strength_of_euclid()
        if kind != "average_fisher" or strength == 0:
            return metric
        assert isinstance(metric, Mahalanobis)
        n = float(np.asarray(self._data.w).sum())
        factor = np.asarray(metric.factor) * self.scale_
        factor = mixed_with_identity(factor, strength, n, self._live)
        return Mahalanobis(factor / self.scale_)

    def _strength_of_euclid(self) -> float:
        """Return s in the metric; 0 in a subspace, and of a pickle of 0.1."""
        return getattr(self, "_euclid", 0.0)

    def _in_input_units(self) -> DCAGMParams:
        A = self.params_.A / self.scale_
        return self.params_._replace(A=A, mu=self.params_.mu + A @ self.mean_)

    @no_type_check
    def sample(
        self,
        method: Method = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        queries: ArrayLike | None = None,
        mixtures: Literal["sampled", "fixed"] | None = None,
        log_likelihood: bool = False,
        log_prior: bool = True,
        predictive: bool = False,
        prior_draws: int | None = None,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Sample the posterior; report J (input units) and class probabilities.

        Parameters
        ----------
        method : sampler, or "nuts", "laplace", "svi"; default="nuts"
            A name stands for ``NUTS()``, ``Laplace()``, ``SVI()``.
        n_draws : int, default=1000
        n_chains : int, optional
            Default: 4 for NUTS, otherwise 1.
            All but NUTS make ``n_draws * n_chains`` independent draws, one chain.
        seed : int, default=0
        queries : array-like of shape (m, d), optional
            Points at which to report p(c|x). Default: the training points.
        mixtures : {"sampled", "fixed"}, optional
            Whether θ is sampled with A or held at its mode. Default: fixed for
            "laplace", which is far off otherwise; sampled for the others.
        log_likelihood : bool, default=False
            Store log p(c|x) of every training point under every draw, for ``loo``;
            without ``queries``. A learning rate is left out of it, and one other than
            one forbids ``loo``.
        log_prior : bool, default=True
            Store the log prior of each site and the log likelihood of all data, some
            numbers a draw: ``az.psense_summary`` stands on them. With fixed mixtures
            that of A alone.
        predictive : bool, default=False
            Store classes of the training points under every draw,
            ``posterior_predictive``; without ``queries``.
        prior_draws : int, optional
            Store as many draws of the prior, held as the fit set it from the data, and
            of classes under them: ``prior``, ``prior_predictive``; without
            ``queries``, with sampled mixtures. Default: none.
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

        Returns
        -------
        DataTree
            Posterior ``J``, ``class_probability`` and ``log_likelihood``, which are
            identified; A and the mixtures are not, and are left out.
        """
        sampler = sampler_of(method)
        check_is_fitted(self)
        if mixtures is None:
            mixtures = "fixed" if isinstance(sampler, Laplace) else "sampled"
        check_choice("mixtures", mixtures, ("sampled", "fixed"))
        if (log_likelihood or predictive or prior_draws) and queries is not None:
            raise ValueError(
                "queries: expected none with log_likelihood, predictive or prior_draws,"
                f" which are of the training points, got {np.shape(queries)}"
            )
        if prior_draws is not None:
            prior_draws = check_number("prior_draws", prior_draws, 1, whole=True)
            if mixtures == "fixed":
                raise ValueError(
                    "prior_draws: expected none with mixtures='fixed', which have no "
                    f"prior, got {prior_draws}"
                )
        real = np.asarray(self._data.w) > 0
        at = self._data.X[real] if queries is None else self._standardized(queries)
        given = Conditioned(self._data, self.prior_, self.learning_rate)
        with jax.enable_x64(True):
            start, data = prepare(
                self.fit_.params, given, queries=at, scale=self.scale_
            )
            fixed = mixtures == "fixed"
            tree = sample(
                TARGET_A if fixed else TARGET,
                data,
                method=sampler,
                seed=seed,
                start=start.A if fixed else start,
                n_chains=n_chains,
                n_draws=n_draws,
                log_prior=log_prior,
                progress=progress,
            )
        # A target's data are arrays without names; here they get them.
        tree.attrs.update(
            model="dca_gm",
            sum_of_weights=float(np.asarray(self._data.w).sum()),
            learning_rate=float(self.learning_rate),
            n_components=len(self.params_.A),
        )
        strength = self._strength_of_euclid()
        if strength > 0:
            share = 1 / (1 + tree.attrs["sum_of_weights"] / strength)  # s may be ∞.
            scale = np.where(self._live, self.scale_, 0.0)
            tree.attrs.update(prior_share=share, prior_scale=scale.tolist())
        if queries is not None:
            return tree
        y = np.asarray(self._data.y)[real]
        P = tree["posterior"]["class_probability"].to_numpy()
        axes = ("chain", "draw", "point")
        groups = {"observed_data": xr.Dataset({"y": (axes[2:], y)})}
        if predictive:
            new = new_classes(P, seed=seed)
            groups["posterior_predictive"] = xr.Dataset({"y": (axes, new)})
        if prior_draws is not None:
            found = draws_of_prior(data, int(prior_draws), seed=seed)
            new = new_classes(found["class_probability"], seed=seed)
            groups["prior_predictive"] = xr.Dataset({"y": (axes, new)})
            dims = {k: v.dims for k, v in tree["posterior"].data_vars.items()}
            prior = {k: (dims[k], found[str(k)]) for k in dims}
            groups["prior"] = xr.Dataset(prior)
        tree = tree.assign({k: xr.DataTree(v) for k, v in groups.items()})
        if not log_likelihood:
            return tree
        own = xr.DataArray(np.log(P[:, :, np.arange(len(y)), y]), dims=axes)
        return with_terms(tree, {"y": own})

    @with_names
    def posterior_metric(
        self,
        purpose: Purpose,
        *,
        draws: xr.DataTree | None = None,
        method: Method | None = None,
        n_draws: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> PosteriorMetric:
        """Return draws of the metric under J, mixed as the fit's is.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
        draws : DataTree, optional
            Of ``sample``. Default: one chain by ``method``.
        method : sampler, or "laplace", "nuts", "svi"; optional
            Default: "laplace", for A given the mixtures.
        n_draws : int, optional
            In all, evenly spaced over chains joined. Default: 200.
        seed : int, default=0
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        kept = 200 if n_draws is None else n_draws
        if draws is None:
            run: Any = {"n_draws": kept, "n_chains": 1, "progress": progress}
            draws = self.sample(method or "laplace", seed=seed, **run)
        own = self.learning_rate == 1
        return posterior_metric(
            draws, [metrics], purpose, n_draws=kept, pairs_independent=own
        )
