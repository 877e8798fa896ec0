"""``DCAGM``: a discriminative projection, a classifier, and metrics.

The model is ``models.dca_gm``, and the fit is in ``inference.dca_gm.fit``. This file
only changes units. For an input u, the standardized point is x = (u - m)/s, so the
projection is y = Ax = (A/s) u - (A/s) m. In input units A is therefore A/s, and centers
move by (A/s) m.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Literal, get_args

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.padding import bucket, pad_labeled, pad_rows
from probmetric.data.scaling import constant_columns
from probmetric.estimators._labeled import checked_rows, labeled_data, report
from probmetric.estimators._learner import ClassProbabilities, Learner
from probmetric.estimators._mahalanobis import MahalanobisMixin
from probmetric.estimators._settings import (
    Count,
    Extended,
    Number,
    Seed,
    Unknown,
    settings,
)
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
from probmetric.precision import to_numpy
from probmetric.typing import ArrayLike, Preprocessor, Purpose, Self, no_type_check

type GlobalKind = Literal["average_fisher", "subspace"]
Ordinary = Annotated[float, Number(0, 1e300, open_low=True)]


@settings
class DCAGM(MahalanobisMixin, ClassProbabilities, Learner[Method]):
    """Discriminative component analysis by Gaussian mixtures.

    A point x is projected to Ax by a learned p × d matrix A. In the projection, the
    density of every class is a mixture of Gaussians. Class probabilities are computed
    from these densities. The fit maximizes the probability of the classes, not the
    density of x.

    Parameters
    ----------
    n_components : int, optional
        Number of rows p of A, from 1 to the number of features d. ``components_`` then
        has p rows. Default: the number of classes minus 1, but at least 2 and at most
        d. Only with the default, the metric is mixed with the Euclidean metric (see
        Notes) and has full rank.
    n_gaussians : int or sequence of int, default=3
        Number of mixture components of every class, or one number for each class. A
        class with fewer distinct projected points has fewer components.
    covariance : {"class", "component"}, default="class"
        Covariances of the mixtures: one for each class, or one for each component.
    prior_strength : "cv" or float ≥ 0, default="cv"
        Weight s of the prior, as a number of points. With larger s, the metric is
        closer to the Euclidean metric of scaled features (see Notes). 0 turns
        this prior off, but not that of ``regularization``. "cv" chooses s among 1, 4,
        16, 64, 256 and ∞ by the cross-validated log loss of ``KNeighborsClassifier``
        under the starting value of A.
    regularization : float > 0, default=1.0
        Strength λ of the prior that keeps A near its starting value (see Notes).
        Increase λ to keep A nearer.
    learning_rate : float > 0, default=1.0
        Factor of the log likelihood: the weight of the data relative to the prior
        (not a step size). Use 1 for independent points.
    solver : {"lbfgs", "hybrid", "hybrid_tied"}, default="lbfgs"
        - "lbfgs" maximizes the posterior density of A and the mixtures.
        - "hybrid" alternates EM and conjugate gradient steps for A, as in the paper. It
          does not maximize a single objective, and returns its best iterate. Gradient
          steps keep the centers of the mixtures fixed.
        - "hybrid_tied" is like "hybrid", but the centers are projected points that move
          with A in gradient steps.
    metric : {"average_fisher", "subspace"}, default="average_fisher"
        Metric of ``components_`` and ``transform``. "average_fisher": distances are
        long in directions in which class probabilities change much (by their Fisher
        information, averaged over the points). "subspace": the Euclidean distance after
        projection.
    max_iter : int, optional
        Maximum number of steps. Default: 500 for "lbfgs", and 30 for the hybrid
        solvers, which stop after ``max_iter`` steps by design.
    tol : float, default=1e-5
        "lbfgs" stops if an iteration increases the log posterior by less than ``tol``.
        The hybrid solvers stop if the gradient is smaller than ``tol``.
    random_state : int, default=0
        Seed of k-means, which computes the starting values of the mixtures.

    Attributes
    ----------
    classes_ : array of shape (c,)
    components_ : array of shape (p, d), or (d, d) if mixed
        Linear map L of the metric, whose matrix is LᵀL, in input units. Rows are in
        order of descending contribution to this matrix. If the metric is mixed with the
        Euclidean metric, columns of constant features are zero.
    prior_strength_ : float
        Weight s of the prior that was used. ∞ if "cv" chose the Euclidean metric.
    params_ : DCAGMParams
        Fitted parameters for standardized features. A is scaled such that the pooled
        covariance within mixture components is I. This does not change class
        probabilities.
    fit_ : Fit
        Result of the solver, before A is scaled.
    prior_ : DCAGMPrior
    n_iter_ : int
    mean_, scale_ : arrays of shape (d,)
    n_features_in_, feature_names_in_

    Notes
    -----
    The fit is a local optimum. A is unique only up to an invertible linear map, which
    does not change metrics and probabilities. By default ``posterior_metric``
    computes 200 metrics by ``method="laplace"``, with mixtures fixed at their posterior
    mode. For log losses with few labels see Benchmarks: few_mixtures.

    With n points, the weight s of ``prior_strength`` has four effects:

    - The starting value of A consists of directions of LDA and RCA, computed from the
      covariance within classes. This covariance is shrunk toward the diagonal matrix of
      feature variances, with the weight of s points.
    - An entry of A has prior standard deviation c/√(10 λ(1 + s/n)) around its starting
      value, or c/√λ if s is 0. Here λ is ``regularization``, s/n is limited to 100, and
      c is the root mean square of the starting values.
    - The metric is mixed with the Euclidean metric of standardized features, which has
      weight s/(n + s). If ``n_components`` is set or ``metric="subspace"``, the metric
      is not mixed. Then s = ∞ only makes the covariance of the starting value diagonal.
    - With ``solver="lbfgs"`` and any s > 0, the prior of the mixtures has the weight of
      22 points.

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

    _n_metrics = 200
    _thins_given_draws = True

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
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the projection A and the mixtures of the classes."""
        data, self.classes_, scaler = labeled_data(
            self, X, y, sample_weight, counts=True
        )
        d = data.X.shape[1]
        p = default_rows(len(self.classes_), d)
        if self.n_components is not None:
            p = check_number("n_components", self.n_components, 1, d, whole=True)
        # At 0, constant columns have no weight.
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
        self._live, data = ~constant, pad_labeled(data)
        n = float(np.asarray(data.w).sum())
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
            fitted = fit(
                data,
                prior,
                solver=self.solver,
                learning_rate=float(self.learning_rate),
                init=begin,
                max_steps=self.max_iter,
                tol=float(self.tol),
            )
            self.params_ = to_numpy(fix_gauge(fitted.params))
        self.fit_, self.prior_ = to_numpy(fitted), to_numpy(prior)
        if self.solver == "lbfgs":
            report(self.fit_, type(self).__name__)
        self.n_iter_ = int(fitted.n_steps)
        self._data = data
        learned = self.get_metric(kind=self.metric)
        assert isinstance(learned, Mahalanobis)
        self.components_ = learned.factor
        return self

    def _standardized(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        check_is_fitted(self)
        points = checked_rows(self, X, finite=True)
        with np.errstate(over="ignore"):  # Checked where the result is used.
            return (points - self.mean_) / self.scale_

    def predict_log_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute log P(class | x), shape (n, c), columns in order of ``classes_``."""
        points = self._standardized(X)
        rows = pad_rows(points, bucket(len(points)))  # A few sizes, to avoid compiling.
        log_p = np.asarray(class_log_probability(self.params_, rows))
        return no_nan(log_p[: len(points)], "X", points)

    @with_names
    @no_type_check
    def get_metric(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, kind: MetricKind | None = None
    ) -> Mahalanobis | LocalFisher | ClassDistribution:
        """Return a learned metric in input units.

        Parameters
        ----------
        kind : str, optional
            Kind of metric. p(c|x) are the class probabilities at a point x. Default:
            the parameter ``metric`` of the class.

            - "average_fisher": Mahalanobis distance under the Fisher information matrix
              of p(c|x), averaged over the training points. It is mixed with the
              Euclidean metric as described in the Notes of the class.
            - "subspace": Euclidean distance after the projection of ``params_``.
            - "local_fisher": Mahalanobis distance under the Fisher information matrix
              of p(c|x) at the query point.
            - "hellinger", "jensen_shannon": divergence between p(c|x) of two points.
        """
        check_is_fitted(self)
        kind = self.metric if kind is None else kind
        check_choice("kind", kind, get_args(MetricKind.__value__))
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
        """Return s of the mixed metric, or 0 if not mixed (also in pickles of 0.1)."""
        return getattr(self, "_euclid", 0.0)

    def _in_input_units(self) -> DCAGMParams:
        A = self.params_.A / self.scale_
        return self.params_._replace(A=A, mu=self.params_.mu + A @ self.mean_)

    @with_names
    @no_type_check
    def sample(  # pyright: ignore[reportIncompatibleMethodOverride]
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
        """Draw the average Fisher information matrix J and class probabilities.

        J is the matrix of the metric "average_fisher" before it is mixed with the
        Euclidean metric, in input units.

        Parameters
        ----------
        method : sampler, or "nuts", "laplace", "svi"; default="nuts"
        queries : array-like of shape (m, d), optional
            Points at which class probabilities are stored. Default: the training
            points. Must be None if ``log_likelihood``, ``predictive`` or
            ``prior_draws`` is set.
        mixtures : {"sampled", "fixed"}, optional
            Whether the parameters of the mixtures are sampled together with the
            projection A, or fixed at their posterior mode. Default: "fixed" for
            ``method="laplace"``, which is inaccurate with sampled mixtures, otherwise
            "sampled".
        log_prior : bool, default=True
            Whether to store the log prior density of each parameter and the log
            likelihood of all data, which ``az.psense_summary`` uses. With fixed
            mixtures, only the log prior of A is stored.
        prior_draws : int, optional
            Number of draws from the prior, stored as ``prior``. Classes simulated from
            them are stored as ``prior_predictive``. The prior depends on the training
            data. Requires sampled mixtures. Default: no prior draws.

        Returns
        -------
        DataTree
            Posterior draws of ``J`` (d, d) and ``class_probability`` (point, class). A
            and the mixtures are not stored, because they are not unique.
        """
        sampler = sampler_of(method)
        check_is_fitted(self)
        if mixtures is None:
            mixtures = "fixed" if isinstance(sampler, Laplace) else "sampled"
        check_choice("mixtures", mixtures, ("sampled", "fixed"))
        if (log_likelihood or predictive or prior_draws) and queries is not None:
            raise ValueError(
                "queries must be None if log_likelihood, predictive or prior_draws "
                f"is set, got shape {np.shape(queries)}. These three options use the "
                "training points. Omit queries."
            )
        if prior_draws is not None:
            prior_draws = check_number("prior_draws", prior_draws, 1, whole=True)
            if mixtures == "fixed":
                raise ValueError(
                    "prior_draws must be None if mixtures='fixed', got "
                    f"{prior_draws}. Fixed mixtures have no prior. Use "
                    "mixtures='sampled'"
                )
        real = np.asarray(self._data.w) > 0
        rows = self._data.X[real] if queries is None else self._standardized(queries)
        problem = Conditioned(self._data, self.prior_, self.learning_rate)
        with jax.enable_x64(True):
            start, data = prepare(
                self.fit_.params, problem, queries=rows, scale=self.scale_
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
        # The data of a target have no names.
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
            before = draws_of_prior(data, int(prior_draws), seed=seed)
            new = new_classes(before["class_probability"], seed=seed)
            groups["prior_predictive"] = xr.Dataset({"y": (axes, new)})
            dims = {k: v.dims for k, v in tree["posterior"].data_vars.items()}
            prior = {k: (dims[k], before[str(k)]) for k in dims}
            groups["prior"] = xr.Dataset(prior)
        tree = tree.assign({k: xr.DataTree(v) for k, v in groups.items()})
        if not log_likelihood:
            return tree
        log_p = xr.DataArray(np.log(P[:, :, np.arange(len(y)), y]), dims=axes)
        return with_terms(tree, {"y": log_p})

    def _metrics_of(self, draws: xr.DataTree) -> list[Mahalanobis] | None:
        return metrics(draws)

    def _method_for(self, purpose: Purpose) -> str:
        return "laplace"  # Of A, with fixed mixtures.

    def _size(self, n: int, method: object) -> tuple[int, int | None]:
        return n, 1

    def _independent(self) -> bool:
        return self.learning_rate == 1
