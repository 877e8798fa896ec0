"""``TripletEmbedding``: positions of objects without features, from triplets.

Rows, prior, start, fit and draws are in ``inference.triplet_comparisons``.
"""

from collections.abc import Iterator
from dataclasses import field
from functools import partial
from typing import Literal

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Triplets, weights
from probmetric.data.inputs import real
from probmetric.data.triplets import numbered, selected, triplets_from_arrays
from probmetric.estimators._labeled import forget
from probmetric.estimators._learner import Run
from probmetric.estimators._settings import Count, Positive, check_settings, settings
from probmetric.estimators.triplet_comparisons.shared import (
    TripletLearner,
    accuracy,
)
from probmetric.inference import triplet_comparisons as triplet
from probmetric.inference.choose import choose
from probmetric.inference.sampling.datatree import INDEPENDENT, provenance, to_datatree
from probmetric.inference.sampling.sample import NutsOrLaplace
from probmetric.inference.triplet_comparisons.embedding import (
    check_connected,
    embedding_prior,
    embedding_start,
    object_rows,
)
from probmetric.linalg import row_signs
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import named
from probmetric.models.triplet_comparisons import (
    TripletParams,
    log_probability,
    triplet_comparisons,
)
from probmetric.neighbors.strength import N_FOLDS, Fold, folds, strongest
from probmetric.typing import ArrayLike, Self

MOST_DIMENSIONS = 6
"""Largest number of dimensions that "cv" tries."""

MOST_OBJECTS = 2000
"""Largest number of objects, because each object has a row of n - 1 coordinates."""


@settings
class TripletEmbedding(TripletLearner):
    """Positions of objects from triplets, with a posterior of their distances.

    Use this class (an ordinal embedding) for objects without features, which have
    numbers 0, ..., n - 1 or names. Each object has a position in p dimensions. The log
    odds that object j is judged nearer to object a than object k are dist²(a, k) -
    dist²(a, j). The model is ``TripletMetric`` with one indicator feature for each
    object.

    Parameters
    ----------
    n_components : int or "cv", default=2
        Number p of dimensions, at most n - 1 for n objects. "cv" tries p = 1, ..., 6.
        It chooses the smallest p whose log loss of held-out responses (five folds) is
        within one standard error of the lowest loss. Intervals ignore the uncertainty
        of this choice.
    regularization : float > 0, default=1
        Strength λ of the prior. Larger values move positions toward the center. Each
        coordinate has the prior N(0, c²/λ), with a constant c such that log odds under
        the prior have root mean square 2 if λ = 1.
    n_objects : int, optional
        Number n of objects, at most 2000. Default: the largest object number plus one,
        or the number of names.
    learning_rate : float > 0, default=1
        Factor of the log likelihood: the weight of the data relative to the prior
        (not a step size).

    Attributes
    ----------
    embedding_ : array of shape (n, p)
        Fitted positions, centered and rotated to their principal axes. The data
        determine only the distances between positions.
    lapse_rate_ : float
        Probability of a lapse (see ``lapse_rate``), fitted together with the positions
        if it is learned.
    raters_ : array of shape (R,), or None
        The raters, sorted. None if the fit had no raters.
    sharpness_ : array of shape (R,), or None
        Consistency of each rater: a factor that multiplies the log odds. The geometric
        mean of all factors is 1.
    n_components_ : int
        Number p of dimensions.
    component_losses_ : array
        Mean log loss of held-out responses for p = 1, 2, ..., if ``n_components="cv"``.
    object_names_ : tuple of n str, or None
        Names of the objects, sorted, if the triplets have names.
    objects_ : array of shape (n, n)
        Identity matrix. Row i represents object i in ``get_metric`` and
        ``posterior_metric``.
    gap_ : float
        Measure of convergence, near 0 if the solver reached a local maximum (see
        ``TripletMetric``). It ignores rotations of the positions, because they do not
        change the posterior.
    triplets_, prior_, params_
        Training triplets, prior, and the linear map from ``triplets_.X`` (a row for
        each object) to positions.
    learning_rate_, n_iter_ : float, int

    Notes
    -----
    The fit is a local maximum of the posterior density. With few responses per object,
    fitted positions are too near the center. The mean over draws is less shrunk. An
    object in no triplet has position 0, with the variance of the prior.

    Use this class for up to a few hundred objects. A fit of n objects to N triplets
    stores 2 N n numbers. ``gap_`` and draws store (p n)² more numbers, take (p n)³
    operations, and require p·(n - 1) ≤ 10,000.

    ``sample`` draws M (object, object), the matrix of inner products of the centered
    positions. The squared distance of objects i and j is M_ii + M_jj - 2M_ij. A learned
    ``lapse_rate`` and the ``sharpness`` of raters are drawn too. All chains start at
    the fit, and do not find other maxima. For methods and intervals see
    ``TripletMetric``. With few triplets, intervals of ratios of distances contain the
    true ratio less often than stated. See Benchmarks: triplets.

    References
    ----------
    For these log odds: Jain, Jamieson and Nowak, "Finite Sample Prediction and Recovery
    Bounds for Ordinal Embedding", NIPS 2016. For other models of the odds: Tamuz et
    al., ICML 2011; van der Maaten and Weinberger, MLSP 2012. For odd-one-out responses:
    Zheng et al., ICLR 2019 (SPoSE).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> line = np.arange(8.0) ** 1.1
    >>> triplets = np.stack([rng.permutation(8)[:3] for _ in range(300)])
    >>> d = np.abs(line[triplets] - line[triplets[:, :1]])
    >>> y = d[:, 1] < d[:, 2]
    >>> TripletEmbedding(n_components=1).fit(triplets, y).score(triplets, y) > 0.95
    True
    """

    n_components: Count | Literal["cv"] = field(default=2, kw_only=False)
    regularization: Positive = 1.0
    n_objects: Count | None = None
    learning_rate: Positive = 1.0

    def fit(
        self,
        triplets: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        raters: ArrayLike | None = None,
    ) -> Self:
        """Learn positions of the objects.

        Parameters
        ----------
        triplets : array-like of shape (N, 3) of integers or text
            Object numbers or names. Each row is three objects (anchor, near, far). If y
            is 1, ``near`` is nearer to ``anchor`` than ``far`` is. With
            ``odd_one_out=True``, the objects are in any order. Quadruplets (a, b, c,
            d), shape (N, 4), are also allowed. If y is 1, a and b are nearer to each
            other than c and d.
        y : array-like of shape (N,), optional
            Responses: 1 if ``near`` is nearer, 0 (or -1) if ``far`` is nearer. With
            ``odd_one_out=True``, y is 1 if the third object is the odd one, 0 if the
            second is, and 2 if the first is. Default: 1 for all rows.
        sample_weight : array-like of shape (N,), optional
            Weights of the triplets, ≥ 0.
        raters : array-like of shape (N,), optional
            Rater of each response, a number or text. For each rater, the fit learns a
            factor of the log odds (``sharpness_``). Distances and probabilities
            describe a typical rater with factor 1. Default: raters do not differ.

        Raises
        ------
        ValueError
            If there are fewer than p + 1 or more than 2000 objects, for p dimensions.
            If triplets do not connect all objects. If opposite responses cancel each
            other exactly.
        """
        check_settings(self)
        triplets, self.object_names_ = numbered(triplets)
        names = self.object_names_
        if names is not None and self.n_objects not in (None, len(names)):
            raise ValueError(
                f"n_objects must be None or {len(names)}, the number of names in "
                f"triplets, got {self.n_objects}. To include objects without triplets, "
                "replace names by object numbers."
            )
        n = self._count(triplets)
        p = 1 if self.n_components == "cv" else int(self.n_components)
        if not p < n <= MOST_OBJECTS:
            raise ValueError(
                f"triplets: the number of objects must be {p + 1} (for {p} "
                f"components) to {MOST_OBJECTS}, got {n:.6g}"
            )
        rows = object_rows(n)
        odd = bool(self.odd_one_out)
        data = triplets_from_arrays(triplets, y, sample_weight, X=rows, odd_one_out=odd)
        data = self._numbered_raters(data, raters)
        check_connected(data)
        rate = float(self.learning_rate)
        forget(self, "component_losses_")
        p = self._cross_validated(data, rate) if self.n_components == "cv" else p
        prior = embedding_prior(n, p, float(self.regularization))
        params = self._solve(data, prior, rate, embedding_start(data, p))
        self.n_components_ = p
        self.embedding_ = _along_axes(rows @ np.asarray(params.W).T)
        self.objects_ = np.eye(n)
        return self

    def _cross_validated(self, data: Triplets, rate: float) -> int:
        n, y, w = len(data.X), np.asarray(data.y), np.asarray(weights(data))
        grid = range(1, min(MOST_DIMENSIONS, n - 1) + 1)
        lam = float(self.regularization)
        fixed = self._effects(embedding_prior(n, 1, lam))[1]

        def learn(rows: Int[np.ndarray, "l"]) -> Iterator[TripletParams]:
            train = selected(data, rows)
            for p in grid:
                prior, lapse_rate = self._effects(embedding_prior(n, p, lam))
                yield triplet.fit(
                    train,
                    prior,
                    start=embedding_start(train, p),
                    learning_rate=rate,
                    lapse_rate=lapse_rate,
                    max_steps=int(self.max_iter),
                ).params

        def losses(params: TripletParams, fold: Fold) -> Float[np.ndarray, "1 m"]:
            log_p = np.asarray(log_probability(params, data, fixed))
            return -(w / w.mean() * log_p[np.arange(len(y)), y])[None, fold.asked]

        questions = np.stack(data.ends, 1).astype(float)
        chosen = choose(
            grid,
            learn,
            losses,
            partial(strongest, tolerance=1.0),
            folds=folds(questions, y, N_FOLDS, 1),
            points=np.arange(len(y)),
            name="n_components",
            shape=(1,),
        )
        self.component_losses_ = chosen.losses
        return int(chosen.strength)

    def _count(self, triplets: ArrayLike) -> int:
        if self.n_objects is not None:
            return int(self.n_objects)
        numbers = real(triplets, "triplets")
        wrong = ~((numbers >= 0) & (numbers < np.inf))
        if np.any(wrong):
            raise ValueError(
                f"triplets must be integers of at least 0, got {numbers[wrong][0]:g}"
            )
        return int(np.max(numbers, initial=-1)) + 1

    def _triplets(self, triplets: ArrayLike, y: ArrayLike | None = None) -> Triplets:
        check_is_fitted(self)
        codes, names = numbered(triplets, self.object_names_)
        if self.object_names_ is None and names is not None:
            raise ValueError(
                f"triplets must be object numbers, as in fit, got {names[0]!r}. Fit "
                "with names."
            )
        odd = bool(self.odd_one_out)
        return triplets_from_arrays(codes, y, X=self.objects_, odd_one_out=odd)

    def get_metric(self) -> Mahalanobis:
        """Return the metric of objects. Its points are rows of ``objects_``."""
        check_is_fitted(self)
        return named(Mahalanobis(self.embedding_.T.copy()), self.object_names_)

    def triplet_probability(
        self, triplets: ArrayLike, raters: ArrayLike | None = None
    ) -> Float[np.ndarray, "N"]:
        """Compute the probability of the response y = 1 to each triplet.

        y = 1 means that the second object is nearer to the first than the third object
        is. With ``odd_one_out=True``, y = 1 means that the third object is the odd one.
        For quadruplets, y = 1 means that the first two objects are nearer to each other
        than the last two.

        ``raters`` (N,) are the raters of the responses, who must be raters of the fit.
        Without ``raters``, the probabilities are for a rater with ``sharpness_`` 1.
        """
        data = self._of_raters(self._triplets(triplets), raters)
        return self._probability(data)[:, 1]

    def _probability(self, data: Triplets) -> Float[np.ndarray, "N K"]:
        return self._stated(self.embedding_.T, data)

    def predict(self, triplets: ArrayLike) -> Int[np.ndarray, "N"]:
        """Predict the most probable response, coded as y in ``fit``."""
        return self._probability(self._triplets(triplets)).argmax(1)

    def score(self, triplets: ArrayLike, y: ArrayLike | None = None) -> float:
        """Compute the fraction of correct predictions. A k-way tie counts as 1/k."""
        data = self._triplets(triplets, y)
        return accuracy(self._probability(data), np.asarray(data.y))

    def _sample(self, method: str | NutsOrLaplace, run: Run) -> xr.DataTree:
        n, data, names = len(self.objects_), self.triplets_, self.object_names_
        drawn = self._draw(method, run, np.ones(n - 1), objects=True)
        options = {"prior": self.prior_, **self._rates()}
        return to_datatree(
            drawn,
            feature_names=[*map(str, range(n) if names is None else names)],
            data=data._replace(X=self.objects_),
            observed={"y": np.asarray(data.y)},
            attributes={
                **provenance(triplet_comparisons, data, options),
                INDEPENDENT: 1,
            },
            **self._axes(),
        )


def _along_axes(Z: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
    U, S, _ = np.linalg.svd(Z, full_matrices=False)
    return (U * S) * row_signs(U.T).T
