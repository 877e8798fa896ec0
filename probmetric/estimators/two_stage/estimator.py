"""``TwoStageMixture``: similarity as the probability of a common source.

The model is ``models.two_stage``, and the fits are in ``inference.two_stage``.
"""

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Annotated, Literal

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from sklearn.base import DensityMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from probmetric.data.chunked import Chunked, chunked
from probmetric.data.containers import Groups, Pairs, Points
from probmetric.data.groups import as_groups
from probmetric.data.scaling import check_sizes, standardize_features
from probmetric.data.unlabeled import leave_out
from probmetric.estimators._labeled import checked_rows, forget, report
from probmetric.estimators._learner import Learner, Run
from probmetric.estimators._settings import (
    Count,
    NonNegative,
    Number,
    RandomState,
    Share,
    Unknown,
    check_settings,
    settings,
)
from probmetric.estimators.two_stage import inputs
from probmetric.estimators.two_stage.calibration import (
    FitSettings,
    Recipe,
    calibrate,
    flattened,
)
from probmetric.estimators.two_stage.draws import to_tree
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.sampling.sample import Method
from probmetric.inference.solvers.result import Fit, Result
from probmetric.inference.two_stage import choice, online
from probmetric.inference.two_stage.draws import draw, metrics, with_database_noise
from probmetric.inference.two_stage.few import prior_of_groups
from probmetric.inference.two_stage.fit import fit
from probmetric.inference.two_stage.pairs import fit_alpha
from probmetric.inference.two_stage.strength import ChosenPrior, choose_prior, settled
from probmetric.inference.two_stage.target import Fitted
from probmetric.metric import PairSimilarity
from probmetric.metric.feature_names import (
    blocks_of,
    with_factors_in_rows,
    with_names,
)
from probmetric.metric.pair_similarity import Calibration, Score
from probmetric.models.two_stage import (
    Covariance,
    TwoStageParams,
    TwoStagePrior,
    proportional,
    to_metric,
)
from probmetric.typing import ArrayLike, Self, no_type_check


@settings
class TwoStageMixture(DensityMixin, Learner[Method]):
    """Normal mixture of measurements (instances) that share hidden sources.

    Use this class for likelihood ratios: do two instances come from one source, or from
    two sources? Each source belongs to a mixture component k, and has a hidden
    representative x ~ N(μ_k, B_k). The instances of a source are distributed as N(x,
    W_k). B_k is the covariance between sources, and W_k the covariance within a source.

    ``fit(X, groups=)`` and ``fit_pairs`` learn B_k and W_k. ``fit(X)`` has no groups.
    It learns only their sum Σ_k, the covariance of an instance, and uses W_k = αΣ_k
    with a fixed α.

    Parameters
    ----------
    n_components : int or sequence of int, default=1
        Number of components. From a sequence, the number with the best held-out
        likelihood in five folds is chosen, unless ``blend`` is set.
    alpha : float in (0, 1], default=0.5
        Fraction α of the variance of an instance that is noise around its
        representative. Set α for ``fit(X)``, because points without groups do not
        identify α. With groups or pairs, ``alpha`` is only the starting value.
    covariance : {"free", "proportional"}, default="free"
        Parameters that are learned from groups or pairs: W_k and B_k of each component
        ("free"), or Σ_k of each component and one α ("proportional").
    prior : {"default", "flat", "cv"} or TwoStagePrior, default="default"
        - "default": a weak prior that prevents singular covariances (Fraley and
          Raftery). For one component with ``covariance="free"`` and at most as many
          groups as features, the prior is stronger. It then shrinks W_k to a multiple
          of the diagonal matrix of feature variances, and counts as much as 8 points
          per feature.
        - "flat": maximum likelihood. A maximum may not exist.
        - "cv": a prior that shrinks W_k and B_k to multiples of the identity matrix.
          Use "cv" if groups are classes. Its weight, from 1 to 256 points or ∞, is
          chosen by the log loss of ``KNeighborsClassifier`` in folds, which takes 25 to
          75 small fits. If the weight is ∞, scores order pairs by Euclidean distance,
          and probabilities are not meaningful.
        - ``TwoStagePrior``: a prior for standardized features.
    similarity : str, default="log_ratio"
        Score of ``get_metric`` and ``pair_score``. Default: the log likelihood ratio.
        For other scores see ``PairSimilarity``.
    blend : {None, "flat", "bic", "held-out"}, default=None
        None uses one model. Other values combine the models of all numbers in
        ``n_components``, with equal weights ("flat"), or weights from BIC or the
        held-out likelihood.
    flattening : None, float in [0, 1] or "held-out", default=None
        Factor that multiplies the off-diagonal entries of the covariances after the
        fit, as in the paper. "held-out" chooses a factor for each component, by the
        likelihood of a held-out fifth of the points.
    database_noise : float >= 0, default=1.0
        Factor of W_k for the second point of each pair. Use less than 1 if second
        points come from a database with less noise. With 0, they are representatives
        without noise (EQ-5 of the paper). The fit does not use ``database_noise``.
    n_starts : int, default=1
        Number of starts of EM, from different k-means++ clusterings. The best fit is
        used.
    max_iter : int, default=1000
        Maximum number of steps of EM.
    tol : float, optional
    random_state : int, RandomState or None, default=0
    calibration : {"auto", None}, default="auto"
        - "auto" calibrates likelihood ratios (LR), only after ``fit(X, groups=)`` of
          data in memory. The log LR is replaced by a nondecreasing function, fitted
          to pairs of left-out sources in five folds. With n sources of two or more
          rows, "auto" also limits ``|log LR|`` to log(n + 1). If n is below 5, or below
          three per component, this limit is the only change. Neighbors do not change.
          Metrics of posterior draws use the same calibration.
        - None does not calibrate.

    Attributes
    ----------
    weights_, means_, within_, between_ : arrays (k,), (k, d), (k, d, d), (k, d, d)
        Component weights, means μ_k, W_k and B_k, in input units. The order of
        components is arbitrary.
    prior_strength_ : float
        Weight of the prior in points. Set only with ``prior="cv"``.
    alpha_ : float or None
        Fraction α of noise in all components. None if W_k and B_k are free.
    metric_ : PairSimilarity
        Learned similarity, as returned by ``get_metric``.
    calibration_ : Calibration or None
        Function that calibrates log ratios of the model, or None.
    objective_, converged_, n_iter_
        Log joint density of standardized data and parameters, whether EM converged, and
        the number of steps.
    choice_ : Choice
        Held-out log densities for each number of components, if ``n_components`` is a
        sequence.

    Notes
    -----
    NaN entries are assumed to be missing at random. Densities use the other entries.
    ``fit_alpha`` and ``partial_fit`` do not allow NaN. The fit is a local optimum.

    The calibration is not computed in ``fit``, but at the first use of the log ratio
    (``pair_score``, ``same_probability``, ``get_metric``, ``metric_``). It takes five
    fits, or ten with fewer than 20 sources of two or more rows, and is then stored. At
    most 1000 of these sources are used and counted in the limit. Use
    ``calibration=None`` if you only need neighbors or the order of pairs. For equations
    see ``inference.two_stage.calibration``.

    After ``fit(X)``, ``sample`` does not change α. Draws of variables that do not
    depend on the order of components are stored as ``posterior``: mean and
    covariance_total (of an instance), within_average (the weighted mean of W_k), and α
    if it is sampled. Convergence is checked for these variables. Weights, means, within
    and between are stored as ``components``, relabeled to match the fit. If components
    overlap, the match is arbitrary. ``posterior_metric`` uses 100 draws from 4 chains
    of ``NUTS`` with 500 or more draws.

    References
    ----------
    Yianilos, "Metric learning via normal mixtures", NEC Research Institute, 1995.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = TwoStageMixture(2).fit(X)
    >>> model.same_probability([[X[0], X[1]]]).shape
    (1,)
    """

    _streams = True
    _thins_given_draws = True

    n_components: int | Sequence[int] = field(default=1, kw_only=False)
    alpha: Annotated[float, Number(0, 1, open_low=True)] = 0.5
    covariance: Covariance = "free"
    prior: TwoStagePrior | Literal["default", "flat", "cv"] = "default"
    similarity: Score = "log_ratio"
    blend: Literal["flat", "bic", "held-out"] | None = None
    flattening: Share | Literal["held-out"] | None = None
    database_noise: NonNegative = 1.0
    standardize: bool = True
    n_starts: Count = 1
    max_iter: Count = 1000
    tol: NonNegative | None = None
    random_state: RandomState = 0
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"
    calibration: Literal["auto"] | None = "auto"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @no_type_check
    @chunked()
    def fit(
        self,
        X: ArrayLike | Chunked,
        y: object = None,
        *,
        groups: ArrayLike | Literal["label"] | None = None,
    ) -> Self:
        """Learn from points, or from points with known sources (``groups``).

        Parameters
        ----------
        X : array-like of shape (n, d), or Source
            Points, or data on disk (``pm.open``). NaN is a missing entry. Fits to data
            on disk have no draws.
        y : ignored
            Not used, as in scikit-learn's mixtures. Pass labels as ``groups``.
        groups : array-like of shape (n,), or "label"; optional
            Source of each row. Rows with equal labels come from one source. "label"
            uses the labels of data on disk (``pm.open(..., label=column)``).
        """
        check_settings(self)
        groups, rows = leave_out(self.unlabeled, groups, X, name="groups")
        rows = self._standardized(checked_rows(self, rows, reset=True), reset=True)
        if groups is None:
            return self._fit(Points(rows))
        codes = inputs.group_codes(groups, len(rows), self.unlabeled)
        if np.bincount(codes).max() == 1:
            inputs.warn_alone(self.alpha)
            return self._fit(Points(rows))
        return self._fit(Groups(rows, codes))

    def fit_pairs(self, pairs: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the covariances within and between sources, W and B, from pairs.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d)
            NaN is a missing entry.
        y : array-like of shape (N,), optional
            1 if both points come from one source, otherwise 0 or -1. Default: 1 for all
            pairs. At least one label must be 1, because W is learned from pairs of one
            source. Each point of a pair with label 0 or -1 counts as a separate source.
        """
        check_settings(self)
        array = inputs.pair_array(pairs)
        same = inputs.same_source(y, len(array))
        self.n_features_in_ = array.shape[2]
        forget(self, "feature_names_in_", "_columns", "factors_")
        rows = self._standardized(array.reshape(-1, array.shape[2]), reset=True)
        i = np.arange(0, len(rows), 2)
        self._fit(as_groups(Pairs(rows, i, i + 1, same)))
        self._recipe = None  # Pairs may share sources, so no source can be left out.
        return self

    def _counts(self) -> tuple[int, ...]:
        return inputs.component_counts(self.n_components, self.blend)

    def _standardized(
        self, rows: Float[np.ndarray, "n d"], *, reset: bool = False
    ) -> Float[np.ndarray, "n d"]:
        if reset:
            standardize = bool(self.standardize)
            Z, self._scaler = standardize_features(
                rows, self._names, standardize=standardize, blocks=blocks_of(self)
            )
            return Z
        return (rows - self._scaler.mean) / self._scaler.scale

    def _prior_by_votes(self, data: Points | Groups) -> ChosenPrior | None:
        """Return the prior chosen by votes if ``prior="cv"``, otherwise None."""
        if isinstance(self.prior, TwoStagePrior) or self.prior != "cv":
            return None
        for requirement, missing in {
            "some groups must have at least two members": isinstance(data, Points),
            "X must not have NaN": bool(np.isnan(np.asarray(data.X)).any()),
            "n_components must be 1": self._counts() != (1,),
            "covariance must be 'free'": self.covariance != "free",
        }.items():
            if missing:
                raise ValueError(
                    f"{requirement} with prior='cv'. Fit with prior='default'"
                )
        assert isinstance(data, Groups)
        return choose_prior(data)

    def _prior_for(self, data: Points | Groups, k: int) -> TwoStagePrior | None:
        if isinstance(self.prior, TwoStagePrior):
            return self.prior
        if self._chosen is not None:
            return self._chosen.prior
        if self.prior == "default":
            return prior_of_groups(as_groups(data), k, self.covariance)
        return None

    def _fit(self, data: Points | Groups) -> Self:
        counts = self._counts()
        X = np.asarray(data.X)
        if isinstance(data, Points):
            inputs.check_most(max(counts), len(X), "rows")
        else:
            inputs.check_most(max(counts), int(np.max(data.group)) + 1, "groups")
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1000))
        forget(self, "online_", "choice_", "prior_strength_")
        self._chosen = self._prior_by_votes(data)
        if self._chosen is not None:
            self.prior_strength_ = self._chosen.strength
        if len(counts) > 1 and self.blend in (None, "held-out"):
            self.choice_ = choice.choose_components(
                X, counts, seed=self._seed, n_starts=int(self.n_starts)
            )
            counts = (self.choice_.best,) if self.blend is None else counts
        fits = [self._fit_one(data, k) for k in counts]
        models = [flattened(end.params, X, self.flattening, self._seed) for end in fits]
        best = fits[0]
        self.objective_ = float(best.objective)
        self.n_iter_ = int(max(int(end.n_steps) for end in fits))
        self.converged_ = all(int(end.result) == Result.CONVERGED for end in fits)
        weights = None
        if self.blend == "bic":
            weights = np.array([choice.bic(m, X) for m in models])
        elif self.blend == "held-out":
            weights = len(X) * np.asarray(self.choice_.log_density)
        self._set(models, weights)
        points = isinstance(data, Points)
        proportional = points or self.covariance == "proportional"
        self.alpha_ = inputs.noise_share(models[0]) if proportional else None
        prior = self._prior_for(data, len(best.params.weights))
        alpha = self.alpha if points else None
        share = None if alpha is None else float(alpha)
        self._flattening = self.flattening
        self._learned = Fitted(data, prior, best.params, proportional, share)
        self._changed_by: str | None = None
        if isinstance(data, Groups):
            settings = [self._fit_settings(data, k) for k in counts]
            self._recipe = Recipe(
                data, settings, weights, self.flattening, self.database_noise
            )
        return self

    def _fit_settings(self, data: Points | Groups, k: int) -> FitSettings:
        return FitSettings(
            n_components=k,
            prior=self._prior_for(data, k),
            covariance=self.covariance,
            alpha=float(self.alpha),
            n_starts=int(self.n_starts),
            seed=self._seed,
            max_steps=self.max_iter,
            tol=self.tol,
        )

    def _fit_one(self, data: Points | Groups, k: int) -> Fit:
        end = fit(data, **self._fit_settings(data, k))
        end = end if self._chosen is None else settled(end, self._chosen.strength)
        report(end, type(self).__name__)
        return end

    def _set(
        self,
        models: list[TwoStageParams],
        log_pi: Float[np.ndarray, "models"] | None = None,
    ) -> None:
        self._single = models[0] if len(models) == 1 else None
        params = [inputs.to_input_units(m, self._scaler) for m in models]
        if len(params) == 1:
            metric = to_metric(params[0], score=self.similarity)
        else:
            metric = choice.blend(params, log_pi, score=self.similarity)
        self._model = with_database_noise(metric, self.database_noise)
        self._recipe, self._calibration = None, None
        self.weights_ = np.exp(np.asarray(self._model.log_weights))
        self.means_ = np.asarray(self._model.means)
        self.within_ = np.asarray(self._model.noise)
        self.between_ = np.asarray(self._model.between)

    @property
    def calibration_(self) -> Calibration | None:
        """Calibration of log likelihood ratios, or None. Computed at first use."""
        check_is_fitted(self, "weights_")
        if self.calibration is None or self._recipe is None:
            return None
        if self._calibration is None:
            self._calibration = calibrate(self._recipe)
        return self._calibration

    @property
    def metric_(self) -> PairSimilarity:
        """Learned similarity, as returned by ``get_metric``."""
        return replace(self._model, calibration=self.calibration_)

    def _mixture(self, caller: str) -> MixtureParams:
        check_is_fitted(self, "weights_")
        if self._single is None:
            raise ValueError(
                f"{caller} requires a single model, got a blend of several. Fit with "
                "blend=None."
            )
        weights, means, within, between = self._single
        return MixtureParams(weights, means, within + between)

    def fit_alpha(self, pairs: ArrayLike) -> Self:
        """Learn the noise fraction α after ``fit(X)``, from pairs with a common source.

        The sum Σ = ``within_ + between_`` does not change. ``within_`` becomes αΣ, and
        ``between_`` becomes (1 - α)Σ. The other parameters do not change.
        """
        mixture = self._mixture("fit_alpha")
        pairs = with_factors_in_rows(self, pairs, "pairs")
        array = inputs.pair_array(pairs, self.n_features_in_)
        if np.isnan(array).any():
            raise ValueError(
                "pairs must not contain NaN for fit_alpha, got NaN. Set alpha to a "
                "number."
            )
        first, second = (self._standardized(array[:, end]) for end in (0, 1))
        alpha = float(fit_alpha(mixture, first, second).params)
        if not np.isfinite(alpha):
            raise ValueError(
                "pairs: at least one pair must have two different points, got only "
                "pairs of equal points. Set alpha to a number."
            )
        return self._changed(mixture, alpha, "fit_alpha")

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Update the model with a batch of rows (without groups and NaN).

        The first call is equivalent to ``fit(X)``. Each further call adds the
        statistics of the batch to the earlier statistics, and updates the parameters
        once. A batch that is passed twice counts twice.
        """
        if not hasattr(self, "online_"):
            rows = self.fit(X)._complete(X)
            prior = self._prior_for(Points(rows), len(self.weights_))
            self.online_ = online.start(self._mixture("partial_fit"), rows, prior)
            return self
        self.online_ = online.add(self.online_, self._complete(X))
        share = self.alpha if self.alpha_ is None else self.alpha_
        return self._changed(self.online_.params, share, "partial_fit")

    def _complete(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        rows = checked_rows(self, X, finite=True)
        check_sizes(rows)
        rows = self._standardized(rows)
        check_sizes(rows)
        return rows

    def _changed(self, mixture: MixtureParams, alpha: float, by: str) -> Self:
        self.alpha_ = alpha
        self._set([proportional(*mixture, alpha)])
        self._changed_by = by
        return self

    def score_samples(self, X: ArrayLike) -> Float[np.ndarray, "n"]:
        """Compute the log density of each row, with NaN entries integrated out."""
        check_is_fitted(self, "weights_")
        return np.asarray(self._model.log_marginal(checked_rows(self, X)))

    def score(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: ArrayLike, y: object = None
    ) -> float:
        """Compute the mean log density of the rows. Larger is better."""
        return float(np.mean(self.score_samples(X)))

    def bic(self, X: ArrayLike) -> float:
        """Compute the BIC, -2 log p(X) + m log n for n rows. Lower is better.

        The number m of free parameters counts weights, means and full covariances, as
        in scikit-learn's ``GaussianMixture.bic``. It does not count ``alpha``, the
        prior and ``flattening``. Raises ValueError if ``blend`` combined models.
        """
        return self._criterion(X, np.log, "bic")

    def aic(self, X: ArrayLike) -> float:
        """Compute the AIC, -2 log p(X) + 2m. Lower is better.

        m is the number of free parameters, as in ``bic``.
        """
        return self._criterion(X, lambda _: 2.0, "aic")

    def _criterion(
        self, X: ArrayLike, price: Callable[[int], float], name: str
    ) -> float:
        log_p, (k, d) = self.score_samples(X), self._model.means.shape
        if self._model.blocks:
            raise ValueError(
                f"{name} requires a single model, got a blend of "
                f"{len(self._model.blocks)} models. Fit with blend=None."
            )
        free = (k - 1) + k * d + k * d * (d + 1) // 2
        return float(-2 * np.sum(log_p) + free * price(len(log_p)))

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n k"]:
        """Compute P(component | x) of each row. The component order is arbitrary."""
        check_is_fitted(self, "weights_")
        rows = checked_rows(self, X)
        return np.exp(np.asarray(self._model.log_responsibilities(rows)))

    def predict(self, X: ArrayLike) -> Int[np.ndarray, "n"]:
        """Predict the most probable component of each row."""
        return self.predict_proba(X).argmax(1)

    def pair_score(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Compute the score of each pair (N, 2, d). Higher is more similar.

        The default score is the log likelihood ratio of one source against two sources,
        calibrated after ``fit(X, groups=)``.
        """
        return np.asarray(self.metric_.pair_score(*self._ends(pairs)))

    def same_probability(
        self, pairs: ArrayLike, *, prior_odds: float = 1.0
    ) -> Float[np.ndarray, "N"]:
        """Compute the probability that the points of each pair come from one source.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d)
        prior_odds : float > 0, default=1
            Prior odds of one source among your pairs. Default: one and two sources are
            equally probable.
        """
        ends = self._ends(pairs)
        return np.asarray(self.metric_.same_probability(*ends, prior_odds=prior_odds))

    def _ends(self, pairs: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self, "weights_")
        pairs = with_factors_in_rows(self, pairs, "pairs")
        array = inputs.pair_array(pairs, self.n_features_in_)
        return array[:, 0], array[:, 1]

    def pair_distance(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Raise ValueError, because a two-stage mixture has no distance."""
        raise ValueError(
            "pair_distance: a two-stage mixture learns a similarity, not a distance. "
            "Use pair_score."
        )

    @with_names
    def get_metric(self) -> PairSimilarity:
        """Return the learned similarity. Its dissimilarity is minus the score."""
        check_is_fitted(self, "weights_")
        return self.metric_

    @with_names
    def sample(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        method: Method = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        log_likelihood: bool = False,
        log_prior: bool = True,
        predictive: bool = False,
        prior_draws: int | None = None,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw from the posterior given the training data.

        Parameters
        ----------
        method : sampler, or "nuts", "laplace", "svi"; default="nuts"
            "nuts" starts at the fit, and does not search for other maxima of the
            posterior. "laplace" and "svi" are approximations. They are accurate if the
            attribute ``khat`` of the result is below 0.7.
        log_likelihood : bool, default=False
            Whether to store the log density of every point or source under every draw.
            ``pm.loo`` requires these values. They ignore data weights, so ``pm.loo``
            raises an error if the data have weights.

        Raises
        ------
        ValueError
            If the prior is flat.
            If ``blend`` or ``flattening`` is set.
            If ``fit_alpha`` or ``partial_fit`` changed the fit.
        """
        check_is_fitted(self, "weights_")
        fitted = self._drawable()
        run = Run(seed=seed, n_draws=n_draws, n_chains=n_chains, progress=progress)
        drawn = draw(fitted, method, **run)
        if not log_prior:
            drawn = drawn._replace(log_prior={}, log_likelihood=None)
        return to_tree(
            drawn,
            fitted,
            self._scaler,
            self._names,
            log_likelihood=log_likelihood,
            predictive=predictive,
            prior_draws=prior_draws,
            seed=seed,
            attributes=self._score(),
        )

    def _drawable(self) -> Fitted:
        fitted, chosen = self._learned, self._chosen
        nothing = chosen is not None and np.isinf(chosen.strength)
        for requirement, missing in {
            "a proper prior, got prior='flat'. Fit with prior='default'": (
                fitted.prior is None
            ),
            "a finite prior strength (with inf nothing is learned), got "
            "prior_strength_ = inf. Fit with prior='default'": nothing,
            f"one model, got blend={self.blend!r}. Fit with blend=None": (
                self._single is None
            ),
            f"flattening=None, got {self._flattening!r}. Fit with flattening=None": (
                self._flattening is not None
            ),
            f"an unchanged fit to arrays, got one changed by {self._changed_by}. Call "
            "fit again": self._changed_by is not None,
        }.items():
            if missing:
                raise ValueError(f"sample requires {requirement}")
        return fitted

    def _metrics_of(self, draws: xr.DataTree) -> list[PairSimilarity] | None:
        draws = draws.copy()
        draws.attrs.update(self._score())  # The current settings.
        models, calibration = metrics(draws), self.calibration_
        if models is None:
            return None
        return [replace(model, calibration=calibration) for model in models]

    def _size(self, n: int, method: object) -> tuple[int, int | None]:
        return max(500, -(-n // 4)), 4

    def _independent(self) -> bool:
        return True

    def _score(self) -> dict[str, str | float]:
        return {"similarity": self.similarity, "database_noise": self.database_noise}
