"""``LCA``: a Mahalanobis distance and a probability of *same*, from labels or pairs.

The model is ``probmetric.models.lca``, the fit ``probmetric.inference.lca.fit``, the
default recipe ``probmetric.estimators.lca.settings``; this file holds no mathematics.
"""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Literal, Unpack, overload

import numpy as np
import xarray as xr
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.scaling import Scaler, taught_scale
from probmetric.data.source import Source, is_source
from probmetric.estimators._labelled import (
    holds_pairs,
    labelled_data,
    pair_data,
    report,
)
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import (
    Count,
    Natural,
    PairSet,
    Positive,
    RandomState,
    settings,
)
from probmetric.estimators.lca.anchors import fit_source, from_anchors, store
from probmetric.estimators.lca.link import Asked, asked, calibrate
from probmetric.estimators.lca.posterior import (
    Options,
    drawable,
    metric_for,
    refit,
    refuse_anchors,
    refuse_weights,
    to_tree,
)
from probmetric.estimators.lca.rank import RankChoice, choose_rank
from probmetric.estimators.lca.settings import PriorMean, recipe_of, refuse_rank
from probmetric.estimators.lca.tuning import Choice, fit_given_pairs, fit_labels
from probmetric.inference.lca.anchors.rows import in_memory
from probmetric.inference.lca.bootstrap import Bootstrap
from probmetric.inference.lca.draws import LCA_SAMPLERS, LCAMethod, draw, metrics
from probmetric.inference.lca.fit import Solver
from probmetric.inference.lca.recipe import Fitted
from probmetric.inference.sampling.sample import sampler_of
from probmetric.metric import Link, Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.metric.link import AnyLink
from probmetric.models.lca import to_metric
from probmetric.posterior.draws import posterior_metric
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Preprocessor, Purpose, no_type_check


@settings
class LCA(PairsMixin, BaseEstimator):
    """Latent Coincidence Analysis: a distance under which classes are apart.

    Under the model a pair of points x, x' is *same* with probability
    exp(-(b + ½ dist²)), where dist = ‖L (x - x')‖ is the learned distance. ``fit``
    makes the pairs from class labels; ``fit_pairs`` takes them as they are. The fit is
    the posterior mode in (W, log b) under a Gaussian prior centred at a scaled
    Euclidean metric, whose scale is set from the same pairs (empirical Bayes), with
    P(same) of identical points uniform on (0, 1). P(same) as stated after ``fit`` is
    calibrated on pairs held out.

    Parameters
    ----------
    n_components : int, "cv" or "loo", optional
        Rows of the map, 1..d, by default d. Or the fewest of 1, 2, 3, 4, 6, 8, ..., d
        whose soft votes for points held out, of five folds ("cv", three times below 300
        points) or by refits without each point ("loo"), are at most one standard error
        worse than the best, under λ by rule where it is "cv" (``ranks_``).
    pairs : {"nearest", "impostors", "all"}, default="nearest"
        Pairs that ``fit`` makes: nearest points of the same and of other classes; the
        paper's targets and strict impostors; or all n(n-1)/2.
    n_targets, n_impostors : int, optional
        Neighbours of a point of its own class ("nearest", "impostors") and of the
        others ("nearest"). A class that has fewer gives what it has. Default: 3, or
        what the largest class has.
    max_impostors : int, optional
        Impostors kept of each point, the nearest, with ``pairs="impostors"``.
    regularization : "auto", float > 0, "cv" or "evidence", default="auto"
        λ, in pseudo-points: the prior standard deviation of an entry of W is c/√λ.
        "auto" is 10·max(1, n/1000); "cv" chooses λ, the refresh and, where it is
        "auto", the prior mean by kNN accuracy on folds of the training data;
        "evidence" chooses λ by the marginal likelihood.
    learning_rate : "auto" or float > 0, default="auto"
        Power on the likelihood. "auto": n/N for pairs made from labels, as they share
        points; 1 for pairs given, taken as independent.
    prior_mean : "auto", "identity", "pca", "within", "half_within" or array (p, d)
        W₀ and start of the fit, for standardised features. "auto", the default, is
        c·I, or scaled principal axes where ``n_components < d``. "within" shrinks to
        the Mahalanobis distance of the covariance S within classes, W₀ ∝ S^(-½), and
        "half_within" half way, W₀ ∝ S^(-¼).
    n_refresh : int, default=1
        How often *nearest* pairs are made again under the learned distance.
    n_anchors : int or "auto", optional
        Make nearest pairs of about so many points alone, at least two a class, drawn by
        ``random_state``; their partners are sought among all points. "auto" doubles
        them from 1000 until the standard error of M is below .05 of it. Default: all.
    candidates : {"exact", "ivf"}, default="exact"
        How anchors find partners: among all points, or in lists of like ones (faiss,
        the extra ``ann``): most of them (``recall_``), sooner from 20,000 anchors on.
    per_anchor : bool, default=False
        A scale κ² for each anchor; P(same) is then not defined.
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    solver : {"lbfgs", "squarem", "em", "full_em"}, default="lbfgs"
        All climb one objective: L-BFGS, accelerated EM, EM, and the paper's full EM,
        which is slow and here for reference.
    max_iter : int, default=500
        Most iterations in one fit.
    tol : float > 0, optional
        Stop at this relative gap of EM (1.5e-8) or relative gradient of L-BFGS (1e-6).
    preprocessor : array-like of shape (n, d) or callable, optional
        X of shape (n,), and pairs (N, 2), are rows of it by number; or it is a function
        of such entries, numbers or text, that returns the points.
    random_state : int, RandomState or None, default=0
        Of the folds of ``regularization="cv"``; None makes others every time.
    link : {"auto", "calibrated", "isotonic", "model"}, default="auto"
        Where P(same) comes from: "calibrated", 1/(1 + (dist²/D₀)^γ) fitted to pairs
        held out in five folds; "isotonic", any decreasing function, to the same; or
        "model", exp(-(b + ½ dist²)). "auto" is "calibrated" after ``fit`` and "model"
        after ``fit_pairs`` or with weights: no pairs are held out. Draws have the
        model's.
    link_pairs : {"fitted", "all"}, default="fitted"
        Which held-out pairs: chosen as the fit chooses its own, ``pairs``; or all of
        them, whose link answers at ``prior_odds`` of your own.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

    Attributes
    ----------
    components_ : array of shape (p, d)
        L, in input units; identified only up to rotation and reflection of its rows.
        Zero in columns that are constant in what was learned from, as in all draws.
    intercept_ : float
        b ≥ 0, of the model: its P(same) of equal points is exp(-b). Not with
        ``per_anchor``.
    link_ : LogLogisticLink, IsotonicLink, Link or None
        Behind P(same), with the pairs it refers to; None with ``per_anchor``.
    sigma2_, kappa2_ : float, array of shape (n_anchors,)
        σ² relative to κ² = 1; the scales with ``per_anchor``.
    regularization_, learning_rate_, n_refresh_, prior_mean_ : float, float, int, str
        What was used (the mean may be an array); λ = inf, of "cv", is no learning.
    choices_ : list of Choice
        Of ``regularization="cv"``, best first: prior mean, λ, refreshes, held-out
        accuracy averaged over k = 1, 3, 5, 7, and at k = 3. Otherwise empty.
    ranks_ : list of RankChoice
        Of ``n_components="cv"`` or "loo": rows, mean held-out loss in nats a point, and
        the standard error of its gap to the least. Otherwise empty.
    classes_ : array of shape (c,)
        After ``fit``.
    n_anchors_, recall_, matrix_error_ : int, float, array of shape (d, d)
        With ``n_anchors``: how many there were, the share of their partners found
        (below .98 with a warning), and the standard error of each entry of M from
        drawing them (eight groups: quantiles are those of t with 7 degrees of freedom;
        nominal 90 % held the fit of all rows in .93 of entries at d = 3, .87 at d = 8).
        It says nothing of how far other data would have led.
    threshold_, pair_classes_ : float, array of shape (2,)
        Of ``predict`` on pairs, once calibrated or set.
    fitted_ : Fitted
        The fit and the problem that it solved, in standardised units.
    mean_, scale_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn; ``n_iter_`` counts all passes.

    Notes
    -----
    The optimum is local in general. P(same) refers to pairs chosen as those of its
    link: after ``fit`` by default to *nearest* pairs, about half of which are *same* by
    design. It is no probability for pairs met in another way: ask for
    ``link_pairs="all"``. On eleven sets with held-out pairs of the design the
    calibrated link has log loss .350 and calibration error .051, the isotonic .344 and
    .033, the model's .428 and .123 (benchmarks/results/same_probability.md); single
    sets go up to .13. Distances to the folds are a little other than of the whole fit.

    ``fit`` calibrates nothing. What needs the link first (``same_probability``,
    ``get_metric``, ``link_``) runs the recipe on up to five folds, once, and keeps the
    result with the estimator. The folds are fixed: it is a function of the fit.

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

    n_components: int | Literal["cv", "loo"] | None = field(default=None, kw_only=False)
    pairs: PairSet = "nearest"
    n_targets: Count | None = None
    n_impostors: Count | None = None
    max_impostors: Count | None = None
    regularization: Positive | Literal["auto", "cv", "evidence"] = "auto"
    learning_rate: Positive | Literal["auto"] = "auto"
    prior_mean: PriorMean = "auto"
    n_refresh: Natural = 1
    n_anchors: Count | Literal["auto"] | None = None
    candidates: Literal["exact", "ivf"] = "exact"
    per_anchor: bool = False
    solver: Solver = "lbfgs"
    standardize: bool = True
    max_iter: Count = 500
    tol: Positive | None = None
    preprocessor: Preprocessor = None
    random_state: RandomState = 0
    unlabeled: Any = "warn"
    link: Literal["auto", "calibrated", "isotonic", "model"] = "auto"
    link_pairs: Literal["fitted", "all"] = "fitted"

    def fit(
        self,
        X: ArrayLike | Source,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> "LCA":
        """Learn from class labels, or from pairs.

        Parameters
        ----------
        X : array-like of shape (n, d), or (N, 2, d) of pairs, or Source
            A source, with its labels, is fitted from ``n_anchors``, by default 100 000.
        y : array-like of shape (n,)
            Numbers or strings; at least two classes, one of two rows or more.
            Of pairs: 1 for same; 0 or -1, one of the two throughout, for different.
        sample_weight : array-like of shape (n,), optional
            Data weights ≥ 0. A pair made from points counts as often as the product of
            theirs, together they count as Σw observations; neighbours, scale and prior
            mean are those of rows of weight above 0. P(same) is then the model's.
        """
        given: Any = X
        if is_source(given):
            found, self.classes_, scaler = fit_source(self, given, y, sample_weight)
            return store(self, found, scaler)
        if y is None:
            raise ValueError(
                "y: this estimator requires y to be passed, but the target y is None"
            )
        if holds_pairs(self, given):
            return self.fit_pairs(given, y, sample_weight=sample_weight)
        if self.n_anchors is None and self.candidates != "exact":
            raise ValueError("candidates: expected n_anchors beside 'ivf', got none")
        data, self.classes_, scaler = labelled_data(self, given, y, sample_weight)
        Z, self._codes = np.asarray(data.X), np.asarray(data.y)
        recipe, lam = recipe_of(self, Z.shape[1])
        w = None if data.w is None else np.asarray(data.w)
        uncalibrated = asked(self, recipe, labelled=True, weighted=w is not None)
        recipe, ranks = choose_rank(self, recipe, lam, Z, self._codes, w)
        if self.n_anchors is not None:
            found = from_anchors(self, in_memory(Z, self._codes), recipe, lam, w)
            return store(self, found, scaler)
        given = fit_labels(Z, self._codes, recipe, lam, self.random_state, w)
        return self._store(given[0], scaler, uncalibrated, given[1], ranks)

    def fit_pairs(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        anchor: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> "LCA":
        """Learn from pairs, and calibrate ``threshold_`` on them.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        y : array-like of shape (N,)
            1 for same; 0 or -1, one of the two throughout, for different. With
            ``trials``, how often each pair was called the same.
        sample_weight : array-like of shape (N,), optional
            Data weights ≥ 0.
        anchor : array-like of shape (N,) of integers, optional
            Needed with ``per_anchor``: the group of each pair.
        trials : array-like of shape (N,) of whole numbers, optional
            How many judgments of each pair there are, at least 1. y is binomial: given
            P(same) judgments are independent. Fit and threshold are those of the labels
            counted; a bootstrap, and ``loo``, take a pair with all its judgments.

        Raises
        ------
        ValueError
            For counts above the trials, negative or not whole; all of one kind.
        """
        given, scaler = pair_data(self, pairs, y, sample_weight, anchor, trials)
        refuse_rank(self, "pairs")
        recipe, lam = recipe_of(self, given.X.shape[1])
        asked(self, recipe, labelled=False)
        learned = self._store(fit_given_pairs(given, recipe, lam), scaler)
        if trials is not None:
            return learned._calibrate_on_counts(pairs, given)
        return learned.calibrate_threshold(pairs, y)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Refuse pickles of 0.1, whose prior was another."""
        if "fitted_" in state and "_uncalibrated" not in state:
            raise ValueError(
                "LCA: expected a pickle of this version, got one of an older version, "
                "whose prior was on σ²: fit again (files of save_metric do load)"
            )
        super().__setstate__(state)

    def _store(
        self,
        fitted: Fitted,
        scaler: Scaler,
        uncalibrated: Asked | None = None,
        choices: Sequence[Choice] = (),
        ranks: Sequence[RankChoice] = (),
    ) -> "LCA":
        """Map a fit back to input units."""
        report(fitted.fit, type(self).__name__)
        params = fitted.fit.params
        metric = to_metric(params)
        self._uncalibrated, self._link = uncalibrated, metric.link
        self._set_map(metric.factor, scaler, fitted.pairs.X)
        self.sigma2_ = float(np.exp(params.log_sigma2))
        of_anchors = "n_anchors_", "recall_", "matrix_error_"
        for name in ("intercept_", "kappa2_", *of_anchors):
            self.__dict__.pop(name, None)
        if isinstance(metric.link, Link):
            self.intercept_ = float(metric.link.b)
            pairs = self.pairs if hasattr(self, "classes_") else "given"
            self._link = replace(metric.link, pairs=pairs)
        else:
            self.kappa2_ = np.asarray(params.kappa2)
        self.regularization_ = float(fitted.prior.lam)
        self.learning_rate_ = fitted.learning_rate
        self.n_refresh_, self.n_iter_ = fitted.n_refresh, fitted.n_iter
        self.choices_, self.ranks_ = list(choices), list(ranks)
        self.prior_mean_, self.fitted_ = fitted.prior_mean, fitted
        return self

    @property
    def _taught(self) -> Float[np.ndarray, "d"]:
        """What maps and draws are divided by."""
        return taught_scale(self.fitted_.pairs.X, self.scale_)

    @property
    def link_(self) -> AnyLink | None:
        """How a squared distance becomes P(same), calibrated when first asked for."""
        check_is_fitted(self)
        if (wanted := self._uncalibrated) is not None:
            found = calibrate(wanted, self.fitted_, self._codes)
            self._link, self._uncalibrated = found or self._link, None
        return self._link

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the learned metric, picklable, with a link unless ``per_anchor``.

        The first call after ``fit`` calibrates the link, at up to five more fits;
        ``link="model"`` spares them where only distances are asked for.
        """
        return Mahalanobis(self.components_.copy(), self.link_)

    def same_probability(
        self, pairs: ArrayLike, *, prior_odds: float | None = None
    ) -> Float[np.ndarray, "N"]:
        """Return P(same), shape (N,), of pairs as in ``pair_distance``.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        prior_odds : float > 0, optional
            Odds of *same* before the distance is seen, with ``link_pairs="all"`` or
            ``pairs="all"``. Default: the odds of the link's pairs, ``link_.pairs``:
            of nearest pairs about 1, whatever they are in the population.

        Raises
        ------
        ValueError
            With ``per_anchor``: each anchor then has odds of its own. For prior odds
            of a link whose pairs were chosen by their distance, or that is the
            model's.
        """
        link = self.link_
        if link is None:
            raise ValueError(
                "per_anchor: expected one scale common to all pairs for P(same), got "
                "per_anchor=True; rank pairs with pair_score instead"
            )
        distance = self.pair_distance(pairs)
        with np.errstate(over="ignore"):  # Of an infinite square P is the right 0.
            squared = distance**2
        return np.asarray(link.probability(squared, prior_odds))

    def sample(
        self,
        method: LCAMethod = "nuts",
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
        """Draw from the posterior around the fit, on the pairs of the fit.

        Parameters
        ----------
        method : sampler, or "nuts", "svi", "laplace", "bootstrap"; default="nuts"
            A name stands for ``NUTS()``, ``SVI()``, ``Laplace()``, ``Bootstrap()``.
            NUTS is exact up to Monte Carlo error; the variational guide and Laplace's
            approximation are not, and say their k-hat; the bootstrap refits under
            product weights on points.
        n_draws : int, default=1000
        n_chains : int, optional
            Default: 4 for NUTS, otherwise 1.
            All but NUTS make ``n_draws * n_chains`` independent draws, one chain. For
            the bootstrap they are as many refits.
        seed : int, default=0
        learning_rate : float > 0, optional
            Power on the likelihood. Default: that of the fit, and 1 for the
            bootstrap. A value other than the fit's refits the mode.
        log_likelihood : bool, default=False
            Store that of every pair under every draw, without learning rate or
            weights. ``loo`` takes it, and ArviZ's, after ``fit_pairs`` of pairs that
            share no point, with learning rate 1; otherwise both refuse it.
        log_prior : bool, default=True
            Store the log prior of each site and the log likelihood of all data, some
            numbers a draw: ``az.psense_summary`` stands on them.
        predictive : bool, default=False
            Store labels y of the pairs under every draw, ``posterior_predictive``. Not
            of the bootstrap.
        prior_draws : int, optional
            Store as many draws of the prior, held as the fit set it from the data, and
            of labels y under them: ``prior``, ``prior_predictive``. Default: none.
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

        Returns
        -------
        DataTree
            Posterior of M (feature, feature_bis) and b, in input units and in units
            of the link, and of log σ²; the pairs; provenance. log_prior is that of W
            and of log b, in the units of the fit: where W lies on the sheet that is
            more probable, the prior's density there and at its mirror image (Eq. 2 of
            ``inference.lca.target``), as M has one posterior over both.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> model = LCA(2).fit(*load_iris(return_X_y=True))
        >>> model.sample("laplace", n_draws=5, n_chains=1)["posterior"]["M"].shape
        (1, 5, 4, 4)
        """
        fitted, recipe = drawable(self)
        sampler = sampler_of(method, LCA_SAMPLERS)
        if isinstance(sampler, Bootstrap) and (predictive or prior_draws):
            raise ValueError(
                "predictive, prior_draws: expected none of the bootstrap, whose refits "
                f"are no draws of a posterior, got {predictive} and {prior_draws}"
            )
        rate = 1.0 if isinstance(sampler, Bootstrap) else fitted.learning_rate
        if learning_rate is not None:
            rate = float(check_number("learning_rate", learning_rate, 0, open_low=True))
        mode = refit(fitted, recipe, learning_rate=rate)
        names = getattr(self, "feature_names_in_", None)
        drawn = draw(
            mode,
            sampler,
            scale=self._taught,
            seed=seed,
            feature_names=names,
            n_draws=n_draws,
            n_chains=n_chains,
            progress=progress,
        )
        if not log_prior:
            drawn = drawn._replace(log_prior={}, log_likelihood=None)
        return to_tree(
            drawn,
            mode,
            Scaler(self.mean_, self.scale_),
            names,
            pointwise=log_likelihood,
            predictive=predictive,
            prior_draws=prior_draws,
            seed=seed,
        )

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
    def posterior_metric(
        self,
        purpose: Purpose,
        *,
        draws: xr.DataTree | None = None,
        method: LCAMethod | Literal["jackknife"] | None = None,
        n_draws: int | None = None,
        seed: int = 0,
        pairs: Literal["auto", "fitted", "all"] = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        regularization: float | Literal["auto"] = "auto",
        progress: bool | None = None,
    ) -> PosteriorMetric | IntervalMetric:
        """Return the metric with its uncertainty, for one purpose; there is no default.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
        draws : DataTree, optional
            Of ``sample``: the metrics are made of these, and but for ``n_draws``
            nothing else is looked at. Default: draws for the purpose.
        method : sampler or its name, or "jackknife"; optional
            Default: "laplace" for prediction, "jackknife" for intervals: refits
            without each point (of more than 100 points, without each of 50 groups),
            no draws; "laplace" for both after ``fit_pairs``, whose pairs are taken as
            independent.
        n_draws : int, optional
            Number of metrics drawn. Default: 32 for prediction, 100 for intervals; of
            ``draws``, all. Refused for the jackknife.
        seed : int, default=0
            Of draws, and of the groups of more than 100 points.
        pairs : {"auto", "fitted", "all"}, default="auto"
            The pairs of the fit, or all pairs of its labelled points. "auto" is
            "all" for intervals after ``fit``, otherwise "fitted". Nearest pairs are
            the closer the more points there are, and the scale of the distance with
            them: no interval for it would hold at another n. Distances from "all"
            are those of ``LCA(pairs="all")``, not of this fit's ``pair_distance``.
            P(same) of "fitted" is the model's; there is none of link="calibrated".
        learning_rate : "auto" or float > 0, default="auto"
            Power on the likelihood. "auto" after ``fit``: η_G for prediction
            (NOTATION.md), 1 for intervals; after ``fit_pairs``: that of the fit.
        regularization : "auto" or float > 0, default="auto"
            λ. "auto" after ``fit``: 1 for intervals; for prediction the best of 1,
            10, 100 by the leave-one-out log score of soft votes averaged over the
            draws. After ``fit_pairs``: that of the fit.
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

        Returns
        -------
        IntervalMetric or PosteriorMetric
            The first from the jackknife, otherwise draws. Its intervals are for the
            fit that it holds and says when printed, by default that of
            ``LCA(pairs="all", learning_rate=1, regularization=1)`` with a link
            calibrated on held-out pairs; this fit's own ``pair_distance`` may lie
            outside. Nominal 90 % covered 91-95 % of distances, 89-94 % of ratios and
            92-95 % of P(same) on six populations, n = 20 to 120; 83 % and more on each.

        Raises
        ------
        NotFittedError
            Before ``fit`` or ``fit_pairs``.
        ValueError
            For an option out of its range, "all" after ``fit_pairs``, more points than
            all pairs can be made of, a fit per anchor, ``n_draws`` without draws.
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        check_choice("pairs", pairs, ("auto", "fitted", "all"))
        fitted = drawable(self)[0]
        labelled = hasattr(self, "classes_")
        if draws is not None:
            own = {"pairs_independent": not labelled}
            return posterior_metric(draws, [metrics], purpose, n_draws=n_draws, **own)
        if labelled:
            refuse_anchors(self)
            refuse_weights(fitted)
        return metric_for(
            self,
            purpose,
            method=method,
            n_draws=n_draws,
            seed=seed,
            pairs=pairs,
            learning_rate=learning_rate,
            regularization=regularization,
            progress=progress,
        )
