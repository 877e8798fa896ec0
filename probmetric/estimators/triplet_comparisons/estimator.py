"""``TripletMetric``: a metric from responses to "which of the two is nearer?".

Model: ``models.triplet_comparisons``; fit, draws: ``inference.triplet_comparisons``.
"""

from dataclasses import field
from typing import Literal

import numpy as np
import xarray as xr
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import OddOneOut, Triplets
from probmetric.data.hash import canonical_order
from probmetric.data.scaling import Scaler, standardize_features, taught_scale
from probmetric.data.triplets import nearest_triplets, triplets_from_arrays
from probmetric.estimators._labeled import (
    forget,
    labeled_data,
    remember_preprocessor,
    remember_rows,
    stood_for,
)
from probmetric.estimators._learner import Run, input_units
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import (
    Count,
    Positive,
    Unknown,
    check_settings,
    settings,
)
from probmetric.estimators.lca.settings import n_rows
from probmetric.estimators.triplet_comparisons.shared import (
    TripletLearner,
    accuracy,
)
from probmetric.inference import triplet_comparisons as triplet
from probmetric.inference.sampling.sample import NutsOrLaplace
from probmetric.inference.triplet_comparisons.start import rate_for
from probmetric.metric.feature_names import with_factors_in_rows
from probmetric.models.triplet_comparisons import to_metric, triplet_comparisons
from probmetric.typing import ArrayLike, Preprocessor, Self

INDEPENDENT_LAM = 0.3
"""λ of ``fit_triplets``: weak, because sharp responses need maps larger than cI."""


def _check_responses(triplets: ArrayLike | Triplets) -> None:
    if isinstance(triplets, Triplets) and triplets.y is None:
        raise ValueError("triplets.y must be responses 0 or 1, got None")


@settings
class TripletMetric(PairsMixin, TripletLearner):
    """A Mahalanobis metric from triplets: "a is nearer to p than to q".

    The log odds that p is judged nearer to a than q are dist²(a, q) - dist²(a, p).
    Squared distances are therefore in units of log odds. They are larger if responses
    are more consistent.

    Parameters
    ----------
    regularization : "auto" or float > 0, default="auto"
        Strength of the prior of the linear map. With larger values, the learned metric
        is closer to the prior mean, a multiple of the Euclidean metric. "auto" uses 0.3
        in ``fit_triplets`` and 1 in ``fit``. For the prior see the theory page.
    n_targets, n_impostors : int, default=3
        Number of nearest points of the same class (targets) and of other classes
        (impostors). ``fit`` makes triplets (point, target, impostor) for each target
        and impostor of a point.
    learning_rate : "auto" or float > 0, default="auto"
        Factor of the log likelihood: the weight of the data relative to the prior
        (not a step size). In ``fit_triplets``, "auto" uses 1, for independent triplets.
        In ``fit``, triplets share points, and "auto" uses the number of points divided
        by the number of triplets.

    Attributes
    ----------
    components_ : array of shape (p, d)
        Linear map in input units, unique up to rotation and reflection.
    learning_rate_ : float
    lapse_rate_ : float
        Probability of a lapse (see ``lapse_rate``), fitted together with the linear map
        if it is learned.
    raters_ : array of shape (R,), or None
        The raters, sorted. None if the fit had no raters.
    sharpness_ : array of shape (R,), or None
        Consistency of each rater: a factor that multiplies the log odds. The geometric
        mean of all factors is 1.
    gap_ : float
        Estimated difference in log posterior density between the nearest local maximum
        and the fit. Near 0 if the solver converged. Infinite if the fit is not a local
        maximum. NaN (not computed) if ``components_`` has more than 10,000 entries.
    classes_
        Class labels, sorted. Set only by ``fit``.
    threshold_, pair_classes_
        Threshold and labels of ``predict`` for pairs, as in ``LCA``.
    triplets_, prior_, params_
        Training triplets, prior, and fitted linear map, in standardized units.
    mean_, scale_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The fit is a local maximum of the posterior density.

    ``sample`` draws the matrix M (feature, feature_bis) of the metric in input units,
    by "nuts" (default) or "laplace". A learned ``lapse_rate`` and the ``sharpness`` of
    raters are drawn too. All chains start at the fit. ``sample`` requires a finite
    ``gap_``, so ``components_`` must have at most 10,000 entries. "laplace" warns if it
    is inaccurate. ``posterior_metric`` uses NUTS by default. Intervals require
    independent triplets. See Benchmarks: triplets.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, triplets = rng.normal(size=(50, 2)), rng.permuted(
    ...     np.tile(np.arange(50), (200, 1)), axis=1
    ... )[:, :3]
    >>> d2 = (X[triplets] - X[triplets[:, :1]])[..., 0] ** 2  # Only the first feature
    >>> y = d2[:, 1] < d2[:, 2]
    >>> model = TripletMetric(preprocessor=X).fit_triplets(triplets, y)
    >>> bool(model.triplet_score(triplets, y) > 0.95)
    True
    """

    n_components: int | None = field(default=None, kw_only=False)
    regularization: Positive | Literal["auto"] = "auto"
    n_targets: Count = 3
    n_impostors: Count = 3
    learning_rate: Positive | Literal["auto"] = "auto"
    standardize: bool = True
    preprocessor: Preprocessor = None
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from triplets that are made from class labels."""
        data, self.classes_, scaler = labeled_data(self, X, y)
        Z, codes = np.asarray(data.X), np.asarray(data.y)
        sizes = np.bincount(codes)
        k = min(int(self.n_targets), int(sizes.max()) - 1)
        m = min(int(self.n_impostors), len(Z) - int(sizes.min()))
        order = canonical_order(Z, codes)  # Breaks ties of neighbors.
        made = nearest_triplets(Z[order], codes[order], k, m)
        anchor, near, far = (order[np.asarray(ends)] for ends in made[1:4])
        kind = OddOneOut if self.odd_one_out else Triplets
        made, self.raters_ = kind(Z, anchor, near, far, made.y), None
        return self._store(made, rate_for(made), 1.0, scaler)

    def fit_triplets(
        self,
        triplets: ArrayLike | Triplets,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        raters: ArrayLike | None = None,
    ) -> Self:
        """Learn from triplets, assumed to be independent.

        Parameters
        ----------
        triplets : array-like of shape (N, 3, d), or ``Triplets``
            Each triplet is three points (anchor, near, far). If y is 1, ``near`` is
            nearer to ``anchor`` than ``far`` is. With ``odd_one_out=True``, the points
            are in any order. With ``preprocessor``, triplets are references to points,
            shape (N, 3). Quadruplets (a, b, c, d), shape (N, 4, d) or (N, 4), are also
            allowed. If y is 1, a and b are nearer to each other than c and d. With the
            containers ``Triplets`` and ``OddOneOut``, the parameter ``odd_one_out`` is
            ignored. Responses name the odd one only in ``OddOneOut``.
        y : array-like of shape (N,), optional
            Responses: 1 if ``near`` is nearer, 0 (or -1) if ``far`` is nearer. With
            ``odd_one_out=True``, y is 1 if the third point is the odd one, 0 if the
            second is, and 2 if the first is. Default: 1 for all rows. ``Triplets`` and
            ``OddOneOut`` already contain y.
        sample_weight : array-like of shape (N,), optional
            Weights of the triplets, ≥ 0. Triplets of weight 0 are removed.
        raters : array-like of shape (N,), optional
            Rater of each response, a number or text. For each rater, the fit learns a
            factor of the log odds (``sharpness_``). Distances and probabilities
            describe a typical rater with factor 1. Default: raters do not differ.
        """
        check_settings(self)
        forget(self, "factors_")
        _check_responses(triplets)
        data = self._triplets(triplets, y, sample_weight)
        if isinstance(triplets, Triplets) and raters is None:
            raters = triplets.rater
        data = self._numbered_raters(data, raters)
        # Points count as often as triplets use them: all forms give the same fit.
        ends = np.concatenate(data.ends)
        _, first, place = np.unique(ends, return_index=True, return_inverse=True)
        forget(self, "threshold_", "pair_classes_")
        X = np.asarray(data.X)
        remember_rows(self, None)
        self.n_features_in_ = X.shape[1]
        blocks, standardize = remember_preprocessor(self), bool(self.standardize)
        Z, scaler = standardize_features(
            X[ends], standardize=standardize, blocks=blocks
        )
        names = "anchor", "near", "far", "other"
        places = place.reshape(len(data.ends), -1)
        data = data._replace(X=Z[first], **dict(zip(names, places, strict=False)))
        return self._store(data, 1.0, INDEPENDENT_LAM, scaler)

    def _triplets(
        self,
        triplets: ArrayLike | Triplets,
        y: ArrayLike | None = None,
        w: ArrayLike | None = None,
    ) -> Triplets:
        stored = None
        if not isinstance(triplets, Triplets):
            entries = stood_for(self, triplets, "triplets", 2)
            stored, triplets = entries or (None, triplets)
            triplets = with_factors_in_rows(self, triplets, "triplets")
        odd = bool(self.odd_one_out)
        return triplets_from_arrays(triplets, y, w, X=stored, odd_one_out=odd)

    def _store(self, data: Triplets, rate: float, lam: float, scaler: Scaler) -> Self:
        if self.learning_rate != "auto":
            rate = float(self.learning_rate)
        if self.regularization != "auto":
            lam = float(self.regularization)
        p = n_rows(self.n_components, data.X.shape[1])
        prior = triplet.prior_for(data, p, lam)
        params = self._solve(data, prior, rate)
        self._set_map(to_metric(params).factor, scaler, data.X)
        return self

    def triplet_probability(
        self, triplets: ArrayLike | Triplets, raters: ArrayLike | None = None
    ) -> Float[np.ndarray, "N"]:
        """Compute the probability of the response y = 1 to each triplet.

        y = 1 means that the second point is nearer to the first than the third point
        is. With ``odd_one_out=True``, y = 1 means that the third point is the odd one.
        For quadruplets, y = 1 means that the first two points are nearer to each other
        than the last two.

        ``raters`` (N,) are the raters of the responses, who must be raters of the fit.
        Without ``raters``, the probabilities are for a rater with ``sharpness_`` 1.
        """
        data = self._of_raters(self._triplets(triplets), raters)
        return self._probability(data)[:, 1]

    def _probability(self, data: Triplets) -> Float[np.ndarray, "N K"]:
        check_is_fitted(self)
        d = self.components_.shape[1]
        if data.X.shape[1] != d:
            raise ValueError(
                f"triplets must have {d} features, as in fit, got {data.X.shape[1]}"
            )
        return self._stated(self.components_, data)

    def triplet_score(
        self, triplets: ArrayLike | Triplets, y: ArrayLike | None = None
    ) -> float:
        """Compute the fraction of correct predictions. A k-way tie counts as 1/k."""
        _check_responses(triplets)
        data = self._triplets(triplets, y)
        return accuracy(self._probability(data), np.asarray(data.y))

    def _sample(self, method: str | NutsOrLaplace, run: Run) -> xr.DataTree:
        data = self.triplets_
        scale = taught_scale(np.asarray(data.X), self.scale_)
        drawn = self._draw(method, run, scale)
        shown = input_units(data, Scaler(self.mean_, self.scale_))
        options = {"prior": self.prior_, **self._rates()}
        return self._tree(drawn, triplet_comparisons, shown, options, **self._axes())
