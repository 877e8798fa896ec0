"""``LCA``: a Mahalanobis distance and P(same), learned from labels or pairs.

The model is ``probmetric.models.lca``, and the fit is in ``probmetric.inference.lca``.
This file has no mathematics.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Literal, Unpack, overload

import numpy as np
import xarray as xr
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.chunked import Chunked, chunked
from probmetric.data.scaling import Scaler, taught_scale
from probmetric.estimators._labeled import (
    forget,
    holds_pairs,
    labeled_data,
    pair_data,
    report,
    required,
)
from probmetric.estimators._learner import Learner, Run
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import (
    Count,
    Natural,
    PairSet,
    Positive,
    RandomState,
    Unknown,
    settings,
)
from probmetric.estimators.lca.anchors import from_anchors, store
from probmetric.estimators.lca.posterior import (
    Options,
    check_no_anchors,
    check_no_weights,
    drawable,
    metric_for,
    record,
    refit,
    to_tree,
)
from probmetric.estimators.lca.rank import RankChoice, choose_rank
from probmetric.estimators.lca.settings import (
    PriorMean,
    check_groups,
    recipe_of,
    refuse_groups,
    refuse_rank,
)
from probmetric.estimators.lca.tuning import Choice, fit_given_pairs, fit_labels
from probmetric.inference.lca.anchors.rows import Reader
from probmetric.inference.lca.draws import draw, metrics
from probmetric.inference.lca.fit import Solver
from probmetric.inference.lca.recipe import Fitted
from probmetric.inference.sampling.datatree import INDEPENDENT
from probmetric.inference.sampling.sample import Method
from probmetric.metric import Link, Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.models.lca import to_metric
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Preprocessor, Purpose, Self, no_type_check


@settings
class LCA(PairsMixin, Learner[Method]):
    """Latent Coincidence Analysis: a Mahalanobis distance that separates classes.

    Use ``fit`` for points with class labels, and ``fit_pairs`` for pairs labeled *same*
    or *different*. The learned distance between points x and x' is dist = ‖L (x - x')‖,
    with a linear map L. In the model, a pair is *same* with probability
    P(same) = exp(-(b + ½ dist²)), with an intercept b ≥ 0. ``fit`` makes pairs from the
    class labels, and fits the model to these pairs. After ``fit``, ``same_probability``
    uses class probabilities instead of this formula.

    A Gaussian prior of the linear map shrinks the learned distance to a *prior
    distance*. With little data, the two distances are close. By default, the prior
    distance is Euclidean in ``fit_pairs``. ``fit`` chooses it by cross-validation.

    Parameters
    ----------
    n_components : int or "cv", optional
        Dimension p of the transformed points (number of rows of L), from 1 to the
        number of features d. Default: d. "cv" chooses p in ``fit`` by cross-validation
        (see Notes).
    pairs : {"nearest", "impostors", "all"}, default="nearest"
        Pairs that ``fit`` makes from the class labels. "nearest" pairs each point with
        its nearest points of the same class and of other classes. "all" uses every pair
        of points. "impostors", as in the paper, pairs each point with its targets and
        impostors. Targets are its ``n_targets`` nearest points of the same class.
        Impostors are all points of other classes that are nearer than the farthest
        target.
    max_impostors : int, optional
        Maximum number of impostors of each point with ``pairs="impostors"``. The
        nearest impostors are used. Default: no maximum.
    regularization : "auto", float > 0, "cv" or "evidence", default="auto"
        Strength λ of the prior. A larger λ brings the learned distance closer to the
        prior distance. In ``fit``, "auto" uses λ = 10 for up to 1000 points, and
        λ = n/100 for n > 1000 points. "evidence" chooses the λ with the largest
        marginal likelihood, which is the likelihood averaged over the prior. In
        ``fit_pairs``, "auto" chooses the smallest λ whose marginal likelihood is close
        to the largest. "cv" (only in ``fit``) chooses λ and ``n_refresh`` by the
        accuracy of nearest neighbors in held-out folds. If ``prior_mean`` is "auto",
        "cv" chooses it too.
    prior_mean : "auto", float in [0, 1], str or array (p, d), default="auto"
        Prior distance, defined by the prior mean W₀ of the linear map. With a number g,
        the matrix of this distance is proportional to S^(-g), where S is the covariance
        of standardized features within classes. So g = 0 is the Euclidean distance, and
        g = 1 is the Mahalanobis distance of S. "auto" chooses g by cross-validation
        (see Notes) in ``fit`` without sample weights and without ``n_anchors``.
        Otherwise "auto" uses g = 0. If ``n_components < d``, the prior distance uses
        only the first principal axes. "pca", "half_within" and "within" are names
        for g = 0, ½ and 1. "identity" is g = 0, but with the first ``n_components``
        features instead of principal axes. An array is W₀ itself, for standardized
        features.
    n_refresh : int, default=1
        Number of refits after the first fit, if ``pairs="nearest"``. Each refit uses
        new pairs of nearest points under the learned distance.
    n_anchors : int or "auto", optional
        For large data: approximate size of a random sample of points, the *anchors*.
        Only anchors are paired with their nearest points, which are found among all
        points. Default: all points are anchors, or a sample of at least 10,000 if there
        are more than 32,000 points. "auto" starts with 1000 anchors, and doubles their
        number until the standard error of the metric is below 5% (see
        ``matrix_error_``), up to 100,000. A sample has at least two points of each
        class.
    solver : {"lbfgs", "em", "full_em"}, default="lbfgs"
        L-BFGS, EM, or the slower EM of the paper, for the same objective.
    tol : float > 0, optional
        L-BFGS stops if an iteration increases the log posterior density by less than
        ``tol``. EM stops if the estimated relative distance from the maximum is below
        ``tol``. Default: 1e-8 for L-BFGS, and 1.5e-8 for EM.
    random_state : int, RandomState or None, default=0
        Seed of the folds of ``regularization="cv"``, and of the choice of anchors.

    Attributes
    ----------
    components_ : array of shape (p, d)
        Linear map L in input units, unique only up to rotation and reflection of
        its rows. Columns of constant features are zero, also in posterior draws.
    intercept_ : float
        Intercept b. P(same) of two equal points is exp(-b) in the model.
    link_ : Link or None
        After ``fit_pairs``, the function that computes P(same) from the squared
        distance. None after ``fit``.
    sigma2_ : float
        Variance σ² of the noise in the paper's model. It determines the intercept:
        b = ½ p log(1 + 2σ²).
    regularization_, learning_rate_, n_refresh_, prior_mean_ : float, float, int, object
        Values used by the fit. ``prior_mean_`` is a number g, a name or an array.
        ``regularization_`` is infinite if ``regularization="cv"`` chose the prior
        distance without learning.
    choices_ : list of Choice
        Settings that ``regularization="cv"`` tried, best first (otherwise empty). Each
        has the mean held-out accuracy of k nearest neighbors over k = 1, 3, 5, 7, and
        the accuracy for k = 3.
    ranks_ : list of RankChoice
        Numbers of rows that ``n_components="cv"`` tried (otherwise empty). Each has the
        mean held-out loss per point, and the standard error of its difference from the
        smallest loss.
    classes_ : array of shape (c,)
        Sorted class labels, after ``fit``.
    n_anchors_ : int
        Number of anchors, if ``n_anchors`` is set.
    matrix_error_ : array of shape (d, d)
        Standard error of each entry of M = LᵀL due to the random choice of anchors (not
        of the data), if ``n_anchors`` is set. It has 7 degrees of freedom. See
        Benchmarks: anchors.
    threshold_, pair_classes_ : float, array of shape (2,)
        Largest distance that ``predict`` classifies as *same*, and the two labels that
        it returns. Set by ``fit_pairs``, ``calibrate_threshold`` or ``set_threshold``.
    fitted_ : Fitted
        Result of the fit, with its pairs and prior, for standardized features.
    mean_, scale_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn. ``n_iter_`` counts the iterations of all refits.

    Notes
    -----
    The paper's parameters are the noise variance σ² (``sigma2_``) and the linear map
    W = √(1 + 2σ²) L. The fit maximizes the posterior density of W and log b, for
    standardized features. It may be a local maximum. The prior of W is normal with mean
    W₀. Every entry has standard deviation ‖W₀‖/√(pλ), with the Frobenius norm.
    Unless ``prior_mean`` is an array, the scale of W₀ is computed from the pairs
    (empirical Bayes). The prior of exp(-b) is uniform on (0, 1).

    To choose ``prior_mean`` and ``n_components``, cross-validation uses the log loss of
    ``KNeighborsClassifier`` in five folds. With fewer than 300 points, the folds are
    repeated three times.

    * ``prior_mean="auto"`` tries g = 0, ¼, ½, ¾ and 1, or 0 and ¼ with fewer than 30
      points. With ``regularization="cv"`` it tries g = 0, ½ and 1, by kNN accuracy in
      four folds.
    * ``n_components="cv"`` tries p = 1, 2, 3, 4, 6, 8, ..., d. It uses the smallest p
      whose loss is within one standard error of the lowest loss.
    * ``regularization="auto"`` in ``fit_pairs`` tries λ = 1, 3, 10, 30 and 100. It uses
      the smallest λ whose log marginal likelihood is within 3 of the largest.

    For pairs made from class labels, exp(-(b + ½ dist²)) is not a calibrated
    probability, because such pairs are not a sample from the model. For calibration
    errors of ``same_probability`` see Benchmarks: same_probability.

    References
    ----------
    Der and Saul, "Latent Coincidence Analysis", NIPS 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> LCA().fit(X, y).transform(X).shape
    (178, 13)
    """

    _streams = True

    n_components: int | Literal["cv"] | None = field(default=None, kw_only=False)
    pairs: PairSet = "nearest"
    n_targets: Count | None = None
    n_impostors: Count | None = None
    max_impostors: Count | None = None
    regularization: Positive | Literal["auto", "cv", "evidence"] = "auto"
    learning_rate: Positive | Literal["auto"] = "auto"
    prior_mean: PriorMean = "auto"
    n_refresh: Natural = 1
    n_anchors: Count | Literal["auto"] | None = None
    solver: Solver = "lbfgs"
    standardize: bool = True
    max_iter: Count = 500
    tol: Positive | None = None
    preprocessor: Preprocessor = None
    random_state: RandomState = 0
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"

    @chunked()
    def fit(
        self,
        X: ArrayLike | Chunked,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from class labels, or from pairs.

        Parameters
        ----------
        X : array-like of shape (n, d), or (N, 2, d) for pairs, or Source
            Points, pairs, or labeled data on disk (``pm.open``). Pairs are passed to
            ``fit_pairs``, which describes their labels. For data on disk, y must be
            None. ``fit`` then makes pairs only for a random sample of about
            ``n_anchors`` points (default: 100,000).
        sample_weight : array-like of shape (n,), optional
            Weights of the points, ≥ 0. The weight of a pair is the product of the
            weights of its points. "auto" of ``learning_rate`` and ``regularization``
            uses the sum of the weights as the number of points. The choice of pairs,
            the feature scales and the prior mean ignore the weights, except that points
            of weight 0 are removed.
        groups : array-like of shape (n,), optional
            Group of each row, such as its subject, specimen or file. Use groups if rows
            of a group are copies or are dependent. Rows of one group are not paired
            with each other, and are in the same cross-validation fold. For
            ``learning_rate="auto"`` and ``regularization="auto"``, a group counts as
            one observation. Default: rows are independent.

        Raises
        ------
        ValueError
            If ``groups`` are set for pairs, data on disk or unsupported settings.
            If no class has rows in two groups.

        Notes
        -----
        Groups are not supported for ``pairs="impostors"``, ``n_anchors``,
        ``n_components="cv"``, pairs and data on disk. After a fit with groups,
        ``posterior_metric`` requires ``draws``, or the jackknife. ``same_probability``
        ignores the groups, except with ``new_classes=True``.
        """
        rows: Any = X
        y = required(self, y)
        if holds_pairs(self, rows):
            refuse_groups(groups, "X contains pairs")
            return self.fit_pairs(rows, y, sample_weight=sample_weight)
        data, self.classes_, scaler = labeled_data(
            self, rows, y, sample_weight, groups=groups
        )
        Z, self._codes = np.asarray(data.X), np.asarray(data.y)
        recipe, lam = recipe_of(self, Z.shape[1])
        if data.groups is not None:
            check_groups(self, self._codes, np.asarray(data.groups))
        recipe, ranks = choose_rank(self, recipe, lam, data)
        if self.n_anchors is not None:
            anchored = from_anchors(self, Reader(Z, self._codes), recipe, lam, data.w)
            return store(self, anchored, scaler)
        fitted, choices = fit_labels(data, recipe, lam, self.random_state)
        return self._store(fitted, scaler, choices, ranks)

    def fit_pairs(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> Self:
        """Learn from labeled pairs, and choose the threshold of ``predict`` from them.

        Parameters
        ----------
        y : array-like of shape (N,)
            Labels of the pairs: 1 for same, 0 for different. Labels 1 and -1 are also
            allowed. If ``trials`` is set, y is the number of *same* judgments of each
            pair.
        trials : array-like of shape (N,) of integers, optional
            Number of judgments of each pair, at least 1. Given P(same), judgments are
            assumed independent, so y is binomial. Counts give the same fit and
            threshold as one label for each judgment. ``pm.loo`` treats all judgments of
            a pair as one observation.
        """
        checked, scaler = pair_data(self, pairs, y, sample_weight, trials)
        refuse_rank(self, "the data are pairs")
        recipe, lam = recipe_of(self, checked.X.shape[1])
        learned = self._store(fit_given_pairs(checked, recipe, lam), scaler)
        if trials is not None:
            return learned._calibrate_on_counts(pairs, checked)
        return learned.calibrate_threshold(pairs, y)

    def __setstate__(self, state: dict[str, object]) -> None:
        if "fitted_" in state and not {"_uncalibrated", "link_"} & state.keys():
            raise ValueError(
                "LCA: pickles of version 0.1 cannot be loaded, because that version "
                "used another prior. Fit again. Files written by save_metric can "
                "still be loaded."
            )
        super().__setstate__(state)

    def _store(
        self,
        fitted: Fitted,
        scaler: Scaler,
        choices: Sequence[Choice] = (),
        ranks: Sequence[RankChoice] = (),
    ) -> Self:
        report(fitted.fit, type(self).__name__)
        params = fitted.fit.params
        metric, labeled = to_metric(params), hasattr(self, "classes_")
        self.link_ = None if labeled else metric.link
        self._set_map(metric.factor, scaler, fitted.pairs.X)
        self.sigma2_ = float(np.exp(params.log_sigma2))
        forget(self, "n_anchors_", "matrix_error_")
        assert isinstance(metric.link, Link)
        self.intercept_ = float(metric.link.b)
        self.regularization_ = float(fitted.prior.lam)
        self.learning_rate_ = fitted.learning_rate
        self.n_refresh_, self.n_iter_ = fitted.n_refresh, fitted.n_iter
        self.choices_, self.ranks_ = list(choices), list(ranks)
        self.prior_mean_, self.fitted_ = fitted.prior_mean, fitted
        return self

    @property
    def _taught(self) -> Float[np.ndarray, "d"]:
        """Return the scale by which maps are divided, infinite for constant columns."""
        return taught_scale(self.fitted_.pairs.X, self.scale_)

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the learned metric. After ``fit_pairs`` it also computes P(same)."""
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy(), self.link_)

    def _model_probability(
        self, A: Float[np.ndarray, "N d"], B: Float[np.ndarray, "N d"]
    ) -> Float[np.ndarray, "N"]:
        return np.asarray(self.get_metric().same_probability(A, B))

    @with_names
    def sample(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        method: Method = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        learning_rate: int | float | None = None,
        log_likelihood: bool = False,
        log_prior: bool = True,
        predictive: bool = False,
        prior_draws: int | None = None,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw from the posterior given the training pairs.

        Samplers start at the fitted parameters.

        Parameters
        ----------
        method : sampler, or "nuts", "svi", "laplace"; default="nuts"
            Name of a method, or a sampler such as ``pm.NUTS()``. "nuts" is exact up to
            Monte Carlo error. "svi" (variational inference) and "laplace" (a Gaussian
            at the fit) are approximations. They are accurate if the diagnostic k-hat is
            below 0.7.
        learning_rate : float > 0, optional
            Power to which the likelihood is raised, as in the class. Default: the
            learning rate of the fit. With another value, ``sample`` first fits the same
            pairs again.
        log_likelihood : bool, default=False
            Whether to store the log likelihood of every pair under every draw, computed
            without learning rate and weights. ``pm.loo`` requires these values. It also
            requires ``fit_pairs``, learning rate 1, and pairs that share no point.
        predictive : bool, default=False
            Whether to simulate labels y of the pairs under every draw, and store them
            as ``posterior_predictive``.

        Returns
        -------
        DataTree
            Posterior draws, the pairs, and provenance (versions, seed, settings). The
            draws are the matrix M (feature, feature_bis) of the metric in input units,
            the intercept b, and ``log_sigma2``, the log noise variance. P(same) of
            points with difference δ is exp(-(b + ½ δᵀMδ)).

        Notes
        -----
        After ``fit_pairs`` with independent pairs, the draws can be used for intervals.
        After ``fit``, use the draws for figures and model checks. For intervals and
        probabilities of neighbors, use ``posterior_metric("intervals")`` without draws.

        Draws after ``fit`` do not measure sampling error, because their pairs share
        points. Distances usually vary more over these draws than over fits to other
        samples. No learning rate corrects this (see Benchmarks: label_draws).

        ``log_prior`` in the result is the log prior density of log b and of the linear
        map W of standardized features, summed over W and -W.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> model = LCA(2).fit(*load_iris(return_X_y=True))
        >>> model.sample("laplace", n_draws=5, n_chains=1)["posterior"]["M"].shape
        (1, 5, 4, 4)
        """
        fitted, recipe = drawable(self)
        rate = fitted.learning_rate
        if learning_rate is not None:
            rate = float(check_number("learning_rate", learning_rate, 0, open_low=True))
        mode = refit(fitted, recipe, learning_rate=rate)
        run = Run(seed=seed, n_draws=n_draws, n_chains=n_chains, progress=progress)
        names = self._names
        drawn = draw(mode, method, scale=self._taught, feature_names=names, **run)
        if not log_prior:
            drawn = drawn._replace(log_prior={}, log_likelihood=None)
        tree = to_tree(
            drawn,
            mode,
            Scaler(self.mean_, self.scale_),
            names,
            log_likelihood=log_likelihood,
            predictive=predictive,
            prior_draws=prior_draws,
            seed=seed,
        )
        tree.attrs[INDEPENDENT] = int(self._independent())
        return tree.assign({"fit": xr.DataTree(record(self))})

    @overload
    def posterior_metric(
        self, purpose: Literal["prediction"], **options: Unpack[Options]
    ) -> PosteriorMetric: ...

    @overload
    def posterior_metric(
        self, purpose: Purpose, **options: Unpack[Options]
    ) -> PosteriorMetric | IntervalMetric: ...

    @with_names
    @no_type_check
    def posterior_metric(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        purpose: Purpose,
        *,
        draws: xr.DataTree | None = None,
        method: Method | Literal["jackknife"] | None = None,
        n_draws: int | None = None,
        seed: int = 0,
        target: Literal["fit", "all_pairs"] = "fit",
        progress: bool | None = None,
    ) -> PosteriorMetric | IntervalMetric:
        """Return the metric with its uncertainty, for prediction or for intervals.

        Parameters
        ----------
        draws : DataTree, optional
            Draws that ``sample`` of this fit returned. The other options, except
            ``n_draws``, are then ignored. Default: refits for intervals after ``fit``,
            otherwise new draws.
        method : sampler or its name, or "jackknife"; optional
            Default: "jackknife" for intervals after ``fit``, otherwise "laplace". The
            jackknife repeats the fit 52 times, each time without a quarter of the
            points. If ``fit`` had ``groups``, it leaves out a quarter of the groups. It
            is the only method for intervals after ``fit``, and is not available
            otherwise. For the samplers see ``sample``. Intervals after ``fit_pairs``
            assume independent pairs.
        n_draws : int, optional
            Number of metrics, one for each draw. Default: 32 for prediction and 100 for
            intervals, or the number of ``draws``. Not supported by the jackknife, which
            makes no draws.
        seed : int, default=0
            Seed of the draws, or of the division into quarters. Limits of intervals and
            probabilities depend on it.
        target : {"fit", "all_pairs"}, default="fit"
            Fit that the jackknife repeats. "fit" repeats this fit. Parameters of the
            class with value "auto" or "evidence" are chosen again in each refit, but
            values chosen by "cv" are kept. "all_pairs" repeats a fit with
            ``pairs="all"``, ``learning_rate=1`` and ``regularization=1``. Its distances
            have a scale that does not depend on the number of points. With "fit" the
            scale may change, because nearest pairs become closer with more points.

        Returns
        -------
        IntervalMetric or PosteriorMetric
            ``IntervalMetric`` from the jackknife, otherwise ``PosteriorMetric``. An
            interval of an ``IntervalMetric`` is for the mean distance over fits to new
            samples of this size. It contains the distance of the fit that ``target``
            names. For coverage see Benchmarks: intervals.

        Raises
        ------
        ValueError
            If ``n_draws`` is set for the jackknife, or ``target="all_pairs"`` for a
            sampler.
            If ``method`` is a sampler for intervals after ``fit``.

        Notes
        -----
        New draws come from the following posteriors.

        * Prediction after ``fit``: the learning rate is estimated from the pairs. The
          strength λ of the prior is 1, 10 or 100. It is chosen by the leave-one-out log
          score of ``KNeighborsClassifier`` with these draws.
        * After ``fit_pairs``: the learning rate and λ of the fit.
        """
        self._check(purpose)
        check_choice("target", target, ("fit", "all_pairs"))
        fitted = drawable(self)[0]
        if draws is not None:
            return self._posterior_metric(
                purpose, draws, method, n_draws, seed, progress
            )
        if hasattr(self, "classes_"):
            check_no_anchors(self)
            check_no_weights(fitted)
        return metric_for(self, purpose, method, n_draws, seed, target, progress)

    def _metrics_of(self, draws: xr.DataTree) -> list[Mahalanobis] | None:
        return metrics(draws)
