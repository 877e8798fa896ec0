"""``TwoStageMixture``: similarity as the probability of a common source.

Its model is ``models.two_stage``, its fits ``inference.two_stage``; no mathematics.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Groups, Pairs, Points
from probmetric.data.groups import as_groups
from probmetric.data.hash import canonical_order
from probmetric.data.scaling import check_sizes, standardise
from probmetric.data.source import Source
from probmetric.data.unlabeled import leave_out
from probmetric.estimators._labelled import checked_rows, report
from probmetric.estimators._settings import (
    Count,
    NonNegative,
    Number,
    RandomState,
    Share,
    check_settings,
    settings,
)
from probmetric.estimators.two_stage import inputs
from probmetric.estimators.two_stage.draws import to_tree
from probmetric.estimators.two_stage.prior import by_votes, prior_for, sampled
from probmetric.estimators.two_stage.stream import fit_source
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.sampling.sample import Method
from probmetric.inference.solvers.result import Fit, Result
from probmetric.inference.two_stage import choice, online
from probmetric.inference.two_stage.draws import draw, metrics
from probmetric.inference.two_stage.fit import fit
from probmetric.inference.two_stage.pairs import fit_alpha
from probmetric.inference.two_stage.strength import settled
from probmetric.inference.two_stage.target import Fitted
from probmetric.metric import PairSimilarity
from probmetric.metric.feature_names import with_names
from probmetric.metric.pair_similarity import Score
from probmetric.models.two_stage import (
    Covariance,
    TwoStageParams,
    TwoStagePrior,
    proportional,
    to_metric,
)
from probmetric.posterior.draws import posterior_metric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Purpose, no_type_check


@settings
class TwoStageMixture(DensityMixin, BaseEstimator):
    """A normal mixture whose instances share hidden sources.

    A component k gives a representative x ~ N(μ_k, B_k), and a representative gives
    instances ~ N(x, W_k). Two observations are similar when one representative behind
    both is more probable than two. ``fit(X)`` learns from unlabelled points, with
    W = αΣ for a given α; ``fit(X, groups=)`` and ``fit_pairs`` learn W and B.

    Parameters
    ----------
    n_components : int or sequence of int, default=1
        A sequence is a range of models: the count is chosen by held-out likelihood
        (5 folds), or all are blended (``blend``).
    alpha : float in (0, 1], default=0.5
        Share of an instance's variance that is noise about its representative.
        Points cannot tell it; groups and pairs can, and then it only starts the fit.
    covariance : {"free", "proportional"}, default="free"
        What groups and pairs learn: W_k and B_k, or Σ_k and one α.
    prior : {"default", "flat", "cv"} or TwoStagePrior, default="default"
        The weak prior of Fraley and Raftery or, of no more groups than features (one
        component, W and B free), one by which W is about a multiple of I, as 8 points
        a feature say it, and B loosely; none (maximum likelihood, which may diverge);
        or one in the units of the fit (standardised). "cv", of groups that are
        classes: W and B are about multiples of I, by as many points as soft votes of
        neighbours choose in folds (1 to 256, or ∞: the score orders as Euclid's
        distance and probabilities mean nothing), at the cost of 25 to 75 small fits.
    similarity : str, default="log_ratio"
        Score of ``get_metric`` and ``pair_score``; see ``PairSimilarity``.
    blend : {None, "flat", "bic", "held-out"}, default=None
        Weights of the models of a range.
    flattening : None, float in [0, 1] or "held-out", default=None
        Factor on the covariances' off-diagonal entries after the fit; chosen per
        component by the likelihood of a fifth of the points left out.
    database_noise : float >= 0, default=1.0
        Factor on W for database elements, the second of a pair: 0 takes them for
        representatives themselves (EQ-5 of the paper). Fits take no notice of it.
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    n_starts, max_iter, tol, random_state
        Starts of EM (k-means++); limits of each; seed.
    unlabeled : label, default="warn"
        Rows with this label in ``groups`` are left out, for example -1; NaN also stands
        for None. None and "warn" use every label as a group, and
        "warn" warns about a -1.

    Attributes
    ----------
    weights_, means_, within_, between_ : arrays (k,), (k, d), (k, d, d), (k, d, d)
        In input units; components in no particular order.
    prior_strength_ : float
        Points that the prior counts as, with ``prior="cv"``.
    alpha_ : float or None
        The common share of noise; None where W is free.
    metric_ : PairSimilarity
        What ``get_metric`` returns.
    objective_, converged_, n_iter_
        Log joint density in the units of the fit; outcome and steps of EM.
    choice_ : Choice
        Held-out log densities of a range of component counts.

    Notes
    -----
    NaN entries are missing at random and integrated out of all fits (but that of α
    alone, ``fit_alpha``, and of ``partial_fit``) and all scores. The optimum is local.
    After Yianilos, "Metric learning via normal mixtures", NEC Research Institute, 1995.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = TwoStageMixture(2).fit(X)
    >>> model.same_probability([[X[0], X[1]]]).shape
    (1,)
    """

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
    unlabeled: Any = "warn"

    def __sklearn_tags__(self) -> Tags:
        """Say that missing values are handled."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @no_type_check
    def fit(
        self,
        X: ArrayLike | Source,
        y: object = None,
        *,
        groups: ArrayLike | Literal["label"] | None = None,
        components: ArrayLike | None = None,
    ) -> "TwoStageMixture":
        """Learn from points, or from points grouped by source.

        Parameters
        ----------
        X : array-like of shape (n, d), or Source
            NaN is a missing entry. Of a source (``pm.open``) no row is kept.
        y : ignored, as in scikit-learn's mixtures
            Labels that say which rows share a source are given as ``groups``.
        groups : array-like of shape (n,), or "label"; optional
            Equal labels share a source: teaches W and B. With rows of a ``Source``
            "label": its labels (``pm.open(..., label=column)``) are the groups, whose
            rows may lie anywhere.
        components : array-like of int, shape (n,), optional
            Known component (class or superclass) of a point, -1 where unknown; equal
            within a group. Needs one ``n_components``.
        """
        check_settings(self)
        counts = inputs.component_counts(self)
        if isinstance(X, Source):
            return fit_source(self, X, counts, groups, components)
        groups, rows, components = leave_out(
            self.unlabeled, groups, X, components, name="groups"
        )
        rows = self._standardised(checked_rows(self, rows, reset=True), reset=True)
        known = inputs.known_components(components, len(rows), min(counts))
        if known is not None and len(counts) > 1:
            raise ValueError(
                "components: expected one n_components with known components, got "
                f"{list(counts)}"
            )
        if groups is None:
            return self._fit(Points(rows), known)
        codes = inputs.group_codes(groups, len(rows), self.unlabeled)
        if np.bincount(codes).max() == 1:
            inputs.warn_alone(self.alpha)
            return self._fit(Points(rows), known)
        if known is not None:
            known = inputs.components_of_groups(known, codes)
        return self._fit(Groups(rows, codes), known)

    def fit_pairs(
        self, pairs: ArrayLike, y: ArrayLike | None = None
    ) -> "TwoStageMixture":
        """Learn W and B from pairs known to share a source, or not.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d)
            NaN marks a missing entry.
        y : array-like of shape (N,), optional
            1 where a pair shares a source, 0 or -1 where not; all 1 by default.
            A pair that does not counts as two single instances.

        Raises
        ------
        ValueError
            On bad input, or no pair that shares a source: nothing then tells W from B.
        """
        check_settings(self)
        given = inputs.pair_array(pairs)
        same = inputs.same_source(y, len(given))
        self.n_features_in_ = given.shape[2]
        for name in ("feature_names_in_", "_columns"):
            vars(self).pop(name, None)
        rows = self._standardised(given.reshape(-1, given.shape[2]), reset=True)
        i = np.arange(0, len(rows), 2)
        return self._fit(as_groups(Pairs(rows, i, i + 1, same)), None)

    def _standardised(
        self, rows: Float[np.ndarray, "n d"], *, reset: bool = False
    ) -> Float[np.ndarray, "n d"]:
        if reset:
            names = getattr(self, "feature_names_in_", None)
            standardize = bool(self.standardize)
            Z, self._scaler = standardise(rows, names, standardize=standardize)
            return Z
        return (rows - self._scaler.mean) / self._scaler.scale

    def _fit(
        self, data: Points | Groups, known: Int[np.ndarray, "_"] | None
    ) -> "TwoStageMixture":
        """Fit one model or a range of them, on standardised data."""
        counts = inputs.component_counts(self)
        X = np.asarray(data.X)
        if isinstance(data, Points):
            inputs.check_most(max(counts), len(X), "rows")
        else:
            inputs.check_most(max(counts), int(np.max(data.group)) + 1, "groups")
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1000))
        for name in ("online_", "choice_", "prior_strength_"):
            vars(self).pop(name, None)
        self._chosen = by_votes(self, data, known)
        if self._chosen is not None:
            self.prior_strength_ = self._chosen.strength
        if len(counts) > 1 and self.blend in (None, "held-out"):
            self.choice_ = choice.choose_components(
                X, counts, seed=self._seed, n_starts=int(self.n_starts)
            )
            counts = (self.choice_.best,) if self.blend is None else counts
        fits = [self._fit_one(data, k, known) for k in counts]
        models = [self._flattened(end.params, X) for end in fits]
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
        prior = prior_for(self, data, len(best.params.weights))
        alpha = self.alpha if points else None
        share = None if alpha is None else float(alpha)
        self._learned = Fitted(data, prior, best.params, proportional, share)
        self._known, self._flattening = known is not None, self.flattening
        self._changed_by: str | None = None
        return self

    def _fit_one(
        self, data: Points | Groups, k: int, known: Int[np.ndarray, "_"] | None
    ) -> Fit:
        end = fit(
            data,
            n_components=k,
            prior=prior_for(self, data, k),
            covariance=self.covariance,
            alpha=self.alpha,
            known=known,
            n_starts=int(self.n_starts),
            seed=self._seed,
            max_steps=self.max_iter,
            tol=self.tol,
        )
        end = end if self._chosen is None else settled(end, self._chosen.strength)
        report(end, type(self).__name__)
        return end

    def _flattened(
        self, params: TwoStageParams, X: Float[np.ndarray, "n d"]
    ) -> TwoStageParams:
        if self.flattening is None:
            return params
        if self.flattening != "held-out":
            return choice.flatten(params, float(self.flattening))
        rng = np.random.default_rng(self._seed)
        out = np.empty(len(X), bool)
        out[canonical_order(X)] = rng.permutation(len(X)) < max(len(X) // 5, 1)
        # From the full fit, so that components correspond.
        k = len(params.weights)
        part = fit(Points(X[~out]), n_components=k, start=params, max_steps=200)
        return choice.flatten(params, choice.choose_flattening(part.params, X[out]))

    def _set(
        self,
        models: list[TwoStageParams],
        log_pi: Float[np.ndarray, "models"] | None = None,
    ) -> None:
        """Store one model, or a blend of several, of standardised features."""
        self._single = models[0] if len(models) == 1 else None
        own = [inputs.to_input_units(m, self._scaler) for m in models]
        if len(own) == 1:
            metric = to_metric(own[0], score=self.similarity)
        else:
            metric = choice.blend(own, log_pi, score=self.similarity)
        self.metric_ = inputs.with_database_noise(metric, self.database_noise)
        self.weights_ = np.exp(np.asarray(self.metric_.log_weights))
        self.means_ = np.asarray(self.metric_.means)
        self.within_ = np.asarray(self.metric_.noise)
        self.between_ = np.asarray(self.metric_.between)

    def _mixture(self, caller: str) -> MixtureParams:
        """Return the mixture of single instances, of standardised features."""
        check_is_fitted(self, "metric_")
        if self._single is None:
            raise ValueError(f"{caller}: expected one model, got a blend of several")
        weights, means, within, between = self._single
        return MixtureParams(weights, means, within + between)

    def fit_alpha(self, pairs: ArrayLike) -> "TwoStageMixture":
        """Learn α from same-source pairs, all else as fitted by ``fit(X)``.

        Sets W = αΣ and B = (1 - α)Σ for ``Σ = within_ + between_``.
        """
        mixture = self._mixture("fit_alpha")
        given = inputs.pair_array(pairs, self.n_features_in_)
        if np.isnan(given).any():
            raise ValueError("pairs: expected complete pairs to learn from, got NaN")
        first, second = (self._standardised(given[:, end]) for end in (0, 1))
        alpha = float(fit_alpha(mixture, first, second).params)
        if not np.isfinite(alpha):
            raise ValueError(
                "pairs: expected instances that differ, got equal ones only"
            )
        return self._changed(mixture, alpha, "fit_alpha")

    def partial_fit(self, X: ArrayLike, y: object = None) -> "TwoStageMixture":
        """Add complete rows to what was learned from single instances.

        The first call is ``fit``; each further one adds its statistics and maximises
        once. Passing a part again counts it again.
        """
        if not hasattr(self, "online_"):
            rows = self.fit(X)._complete(X)
            prior = prior_for(self, Points(rows), len(self.weights_))
            self.online_ = online.start(self._mixture("partial_fit"), rows, prior)
            return self
        return self._advanced(online.add(self.online_, self._complete(X)))

    def merge(self, other: "TwoStageMixture") -> "TwoStageMixture":
        """Add what another estimator has learned since both began from one part.

        Both must be copies (``copy.deepcopy``) of one estimator after its first
        ``partial_fit``, so that scales and components correspond.

        Raises
        ------
        ValueError
            When they did not begin alike.
        """
        message = "other: expected one after its first partial_fit, got one before it"
        for estimator in (self, other):
            check_is_fitted(estimator, "online_", msg=message)
        return self._advanced(online.merge(self.online_, other.online_))

    def _complete(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Return rows without NaN, standardised."""
        rows = checked_rows(self, X, finite=True)
        check_sizes(rows)
        rows = self._standardised(rows)
        check_sizes(rows)
        return rows

    def _advanced(self, state: online.State) -> "TwoStageMixture":
        self.online_ = state
        share = self.alpha if self.alpha_ is None else self.alpha_
        return self._changed(state.params, share, "further parts")

    def _changed(
        self, mixture: MixtureParams, alpha: float, by: str
    ) -> "TwoStageMixture":
        """Store another mixture, or another share of noise, than the fit's."""
        self.alpha_ = alpha
        self._set([proportional(*mixture, alpha)])
        self._changed_by = by
        return self

    def score_samples(self, X: ArrayLike) -> Float[np.ndarray, "n"]:
        """Return the log density of each row, NaN entries integrated out."""
        check_is_fitted(self, "metric_")
        return np.asarray(self.metric_.log_marginal(checked_rows(self, X)))

    def score(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: ArrayLike, y: object = None
    ) -> float:
        """Return the mean log density of the rows; larger is better."""
        return float(np.mean(self.score_samples(X)))

    def bic(self, X: ArrayLike) -> float:
        """Return -2 log p(X) + m log n with m free parameters; lower is better.

        As scikit-learn's ``GaussianMixture.bic``: m counts weights, means and full
        covariances; ``alpha``, prior and ``flattening`` do not count. A ValueError for
        a blend of models.
        """
        return self._criterion(X, np.log)

    def aic(self, X: ArrayLike) -> float:
        """Return -2 log p(X) + 2m; lower is better, see ``bic``."""
        return self._criterion(X, lambda _: 2.0)

    def _criterion(self, X: ArrayLike, price: Callable[[int], float]) -> float:
        log_p, (k, d) = self.score_samples(X), self.metric_.means.shape
        if self.metric_.blocks:
            raise ValueError(f"blend: expected one model, got {self.metric_.blocks}")
        free = (k - 1) + k * d + k * d * (d + 1) // 2
        return float(-2 * np.sum(log_p) + free * price(len(log_p)))

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n k"]:
        """Return P(component | x) of each row; components have no names."""
        check_is_fitted(self, "metric_")
        rows = checked_rows(self, X)
        return np.exp(np.asarray(self.metric_.log_responsibilities(rows)))

    def predict(self, X: ArrayLike) -> Int[np.ndarray, "n"]:
        """Return the likeliest component of each row."""
        return self.predict_proba(X).argmax(1)

    def pair_score(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the score of each pair (N, 2, d): higher is more similar."""
        check_is_fitted(self, "metric_")
        given = inputs.pair_array(pairs, self.n_features_in_)
        return np.asarray(self.metric_.pair_score(given[:, 0], given[:, 1]))

    def same_probability(
        self, pairs: ArrayLike, *, prior_odds: float = 1.0
    ) -> Float[np.ndarray, "N"]:
        """Return P(one source) of each pair (N, 2, d), given the prior odds."""
        check_is_fitted(self, "metric_")
        given = inputs.pair_array(pairs, self.n_features_in_)
        args = given[:, 0], given[:, 1]
        return np.asarray(self.metric_.same_probability(*args, prior_odds=prior_odds))

    def pair_distance(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Raise: the similarity is no distance."""
        raise ValueError(
            "pair_distance: a two-stage mixture learns a similarity, not a distance "
            "(no triangle inequality, Q need not be its own best match): use pair_score"
        )

    @with_names
    def get_metric(self) -> PairSimilarity:
        """Return the learned similarity; larger score, smaller dissimilarity."""
        check_is_fitted(self, "metric_")
        return self.metric_

    def sample(
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
        """Draw from the posterior about the fit, given the data of the fit.

        After ``fit(X)`` α stays as given; groups and pairs inform it, or W and B.

        Parameters
        ----------
        method : sampler, or "nuts", "laplace", "svi"; default="nuts"
            A name stands for ``NUTS()``, ``Laplace()``, ``SVI()``. NUTS is exact up
            to Monte Carlo error, within the optimum that the fit found (others, up to
            the names of components, it need not visit). The other two are
            approximations and say their k-hat.
        n_draws : int, default=1000
        n_chains : int, optional
            Default: 4 for NUTS, otherwise 1.
            All but NUTS make ``n_draws * n_chains`` independent draws, one chain.
        seed : int, default=0
        log_likelihood : bool, default=False
            Store log p of every point, or source, under every draw, for ``loo``:
            leaving one out is what says how well k components predict. Data weights
            are left out of it, and forbid ``loo``.
        log_prior : bool, default=True
            Store the log prior of each site and the log likelihood of all data, some
            numbers a draw: ``az.psense_summary`` stands on them.
        predictive : bool, default=False
            Store points X, as many in each source, under every draw,
            ``posterior_predictive``.
        prior_draws : int, optional
            Store as many draws of the prior, held as the fit set it from the data, and
            of points X under them: ``prior``, ``prior_predictive``. Default: none.
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

        Returns
        -------
        DataTree
            In input units. Group ``posterior``: mean, within_average (Σ c_k W_k),
            covariance_total of an instance, and α where it was sampled, on which
            R-hat is judged. Group ``components``: weights, means, within, between,
            relabelled to the fit; where components overlap, names are forced.

        Raises
        ------
        ValueError
            For a flat prior, a blend, a flattened fit, known components, or a fit
            that was changed since.
        """
        check_is_fitted(self, "metric_")
        fitted = sampled(self)
        size: Any = {"n_draws": n_draws, "n_chains": n_chains, "progress": progress}
        drawn = draw(fitted, method, seed=seed, **size)
        if not log_prior:
            drawn = drawn._replace(log_prior={}, log_likelihood=None)
        return to_tree(
            drawn,
            fitted,
            self._scaler,
            getattr(self, "feature_names_in_", None),
            pointwise=log_likelihood,
            predictive=predictive,
            prior_draws=prior_draws,
            seed=seed,
            attributes=self._score(),
        )

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
        """Return draws of the pair similarity.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
            One posterior serves both, as far as the model holds.
        draws : DataTree, optional
            Of ``sample``. Default: 4 chains of 500 draws, or more, by ``method``.
        method : sampler, or "nuts", "laplace", "svi"; optional
            Default: "nuts".
        n_draws : int, optional
            In all, evenly spaced over the chains. Default: 100.
        seed : int, default=0
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        kept = 100 if n_draws is None else n_draws
        kept = check_number("n_draws", kept, 1, whole=True)
        if draws is None:
            size: Any = {"n_draws": max(500, -(-kept // 4)), "progress": progress}
            draws = self.sample(method or "nuts", n_chains=4, seed=seed, **size)
        # The score is that of the estimator as it is set now.
        draws = draws.copy()
        draws.attrs.update(self._score())
        return posterior_metric(
            draws, [metrics], purpose, n_draws=kept, pairs_independent=True
        )

    def _score(self) -> dict[str, Any]:
        return {"similarity": self.similarity, "database_noise": self.database_noise}
