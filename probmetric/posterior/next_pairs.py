"""The next question: which pairs, or triplets, to ask an annotator about.

Draw s of the metric says p_is = P(same) of pair i, or P(near is nearer) of triplet i
(below, a pair is either), and given the metric the answers of several pairs are
independent. What the answers y_B to a batch B tell about the metric
is their mutual information with s, in nats,

    I(y_B; s) = H(y_B) - Σ_{i ∈ B} mean_s h(p_is),
    h(p) = -p log p - (1 - p) log(1 - p),                                           (1)

for one pair the difference known as BALD. A batch is chosen greedily. With k the
answers to the pairs chosen so far, q_k their probability and w_ks the weights of the
draws given them, one more pair i adds

    I(y_B, y_i; s) - I(y_B; s) = Σ_k q_k [h(Σ_s w_ks p_is) - Σ_s w_ks h(p_is)],     (2)

which is near 0 for a pair like one that was chosen: given k the draws agree on it. All
2^|B| answers k are enumerated while they are at most ``N_ANSWERS``; of more, so many
are drawn in proportion to q_k, in strata. A determinant over the covariance of log
odds, which needs no answers, would assume draws and answers to be normal, and its first
step would not be (1).

*Disagreement* needs no distribution, only moments: the variance of p_i over draws that
the best linear prediction from the answers leaves. With C_ij = Cov_s(p_is, p_js) and
v_i = mean_s p_is (1 - p_is), the covariance of answers is C_BB + diag(v_B), so it is

    C_ii - C_iB (C_BB + diag v_B)⁻¹ C_Bi,                                           (3)

C_ii for the first. With d_i = p_i - mean p_i, (3) is (‖d_i‖² - ‖U d_i‖²)/s; U gets the
row (1 - UᵀU) d_j / √(s (C_jj·B + v_j)) for each pair j that is chosen.

Gains (2) and (3) never rise as the batch grows; of (2) that is exact while all answers
are enumerated, up to ten pairs, and beyond up to the error of drawing answers. So (i) a
greedy batch has at least 63 % of the information of the best one, and (ii) a pair whose
gain was once below the best gain of now need not be looked at. By (ii) candidates are
streamed: one pass keeps the best, with their p, and they settle questions until a pair
left out could win; then comes another pass.

References
----------
Houlsby, Huszár, Ghahramani and Lengyel, "Bayesian active learning for classification
and preference learning", 2011. Kirsch, van Amersfoort and Gal, "BatchBALD", NeurIPS
2019. Minoux, "Accelerated greedy algorithms for maximizing submodular set functions",
1978.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import entr, expit

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Pairs, Triplets
from probmetric.data.inputs import pair_points
from probmetric.data.triplets import triplets_from_arrays
from probmetric.metric import Mahalanobis
from probmetric.neighbors.search import check_dimension
from probmetric.posterior import intervals as asked
from probmetric.posterior.metric import PosteriorMetric
from probmetric.posterior.stack import over_draws
from probmetric.typing import ArrayLike

N_ANSWERS = 1024
"""Answers to a batch that are kept: all of up to ten pairs."""

TILE = 1024
"""Pairs looked at in one go; a constant shape, of which one program is compiled."""

KEPT_ENTRIES = 1 << 22
"""Numbers p_is kept between passes (32 MiB)."""

DECIMALS = 12
"""Gains that agree to so many decimals are equal, whatever rounding did to them."""


class NextPairs(NamedTuple):
    """Pairs or triplets to ask about, the most telling first.

    Attributes
    ----------
    indices : array of shape (n,)
        Their numbers among the candidates, from 0.
    scores : array of shape (n,)
        What each adds to those before it: nats of information, whose sum is that of
        the batch, or the variance of the probability that they leave it.

    Examples
    --------
    Two draws of a metric, which disagree only across the second feature:

    >>> import numpy as np
    >>> import probmetric as pm
    >>> link = pm.Link(b=0.1, scale=0.5)
    >>> draws = [pm.Mahalanobis(np.diag([1.0, s]), link) for s in (0.2, 2.0)]
    >>> pairs = np.array([[[0, 0], [1, 0]], [[0, 0], [0, 1]]])
    >>> found = pm.next_pairs(pm.PosteriorMetric(draws, "prediction"), pairs, 2)
    >>> found.indices.tolist(), found.scores.round(2).tolist()
    ([1, 0], [0.33, 0.0])
    """

    indices: Int[np.ndarray, "n"]
    scores: Float[np.ndarray, "n"]


class _Criterion(NamedTuple):
    """A state in the space of draws before any answer, gains of pairs, its update."""

    start: Callable[[int], np.ndarray]
    gains: Callable[[np.ndarray, np.ndarray], np.ndarray]
    after: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


class _Kept(NamedTuple):
    """The best candidates of a pass, and the best gain among the others."""

    rows: Int[np.ndarray, "m"]
    p: Float[np.ndarray, "s m"]
    gain: Float[np.ndarray, "m"]
    outside: float
    n_candidates: int


def next_pairs(
    posterior: PosteriorMetric,
    candidates: Any,
    n: int,
    criterion: str = "information",
    *,
    X: ArrayLike | None = None,
    seed: int = 0,
) -> NextPairs:
    """Return the pairs or triplets whose answers would tell most of the metric.

    Of a pair the answer is *same* or *different*, of a triplet which of two points is
    nearer to the first (of a quadruplet: which pair's points are nearer to each other).

    Parameters
    ----------
    posterior : PosteriorMetric
        At least two draws. For pairs they define P(same), as of
        ``LCA().fit_pairs(pairs, y).posterior_metric("prediction", n_draws=200)``; for
        triplets they are those of ``TripletMetric`` or ``TripletEmbedding``, whose
        squared distances are log odds. *Not* checked: that draws without P(same) are
        of these two.
    candidates : array-like of shape (N, k, d), or (N, k) of integers; container; blocks
        Points side by side, rows of ``X`` (objects of an embedding: its
        ``objects_``), or ``Pairs`` or ``Triplets``, whose answers are not looked at;
        k is 2 of pairs, 3 of triplets (the first, and the two that are compared), 4 of
        quadruplets (a pair, and a pair). Or a list of such arrays or
        containers, or a function without arguments that returns an iterable of them:
        it is called once for each pass, and must give the same blocks each time.
    n : int ≥ 1
        Questions, at most the number of candidates. Those of a batch are chosen
        before any is answered; no candidate is asked twice.
    criterion : {"information", "disagreement"}, default="information"
        The expected information of the answers about the metric, Eq. (2) of
        ``posterior.next_pairs``; or how much draws differ in the probability, its
        variance, less what the answers before will explain, Eq. (3).
    X : array-like of shape (n_points, d), optional
        The points that integers refer to.
    seed : int, default=0
        Of the answers that are drawn for batches of more than ten pairs, by
        information. Nothing else is random.

    Returns
    -------
    NextPairs
        ``indices`` and ``scores``, in the order of choice. Equal scores (to 12
        decimals) go by the order of the candidates.

    Raises
    ------
    ValueError
        For something else than draws, a single draw; draws without P(same) for pairs,
        or with it for triplets; an unknown criterion; n above the number of
        candidates; candidates of a wrong shape, of other features, NaN; an iterator,
        which cannot be read again.

    Notes
    -----
    Start with pairs drawn at random, and keep the prior that they gave: LCA sets the
    scale of its prior from the pairs of the fit, and pairs that were chosen mislead
    it. With ``W0 = np.asarray(first.fitted_.prior.mean)`` of the first fit, later ones
    are ``LCA(standardize=False, prior_mean=W0, regularization=3)``, of features that
    you standardised. Measured beside random choice, with it and without:
    benchmarks/results/next_question.md. Of triplets neither criterion was found to save
    answers, for they teach less of the unit: benchmarks/results/next_triplets.md.

    Information refers to the model: pairs that it finds telling need not be those
    from which it predicts best. They are not drawn at random, so that the answers give
    no honest estimate of an error, a calibration, or the share of *same*: judge on
    other pairs.

    The information of a batch is at most the logarithm of the number of draws, and
    draws near that bound are used up: 200 draws (5.3 nats) serve batches of about
    ten. Memory: up to 200 MiB, however many candidates, beside them or one block of
    them. One pass serves 40 000 candidates under 100 draws; with more candidates, at
    most n passes are made. Of more than ten questions by information, answers are
    drawn: a pair whose gain that error alone made rise may be passed over.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> link = pm.Link(b=0.1, scale=0.5)
    >>> draws = [pm.Mahalanobis(np.diag([1.0, s]), link) for s in (0.2, 1.0, 2.0)]
    >>> posterior = pm.PosteriorMetric(draws, "prediction")
    >>> pairs = np.array([[[0, 0], [1, 0]], [[0, 0], [0, 1]], [[0, 0], [0, 1.01]]])
    >>> found = next_pairs(posterior, pairs, 2)
    >>> found.indices.tolist(), found.scores.round(3).tolist()
    ([2, 1], [0.224, 0.142])
    """
    _check_draws(posterior)
    check_choice("criterion", criterion, tuple(CRITERIA))
    n = check_number("n", n, 1, whole=True)
    rule, rng = CRITERIA[criterion], np.random.default_rng(seed)
    blocks = _blocks(candidates, X)
    state = rule.start(posterior.n_draws)
    indices: list[int] = []
    scores: list[float] = []
    known: int | None = None
    while len(indices) < n:
        kept = _one_pass(rule, state, posterior, blocks(), indices)
        _check_size(n, kept.n_candidates, known)
        known = kept.n_candidates
        gain, settled = kept.gain.copy(), False
        while len(indices) < n:
            best = _refresh(rule, state, kept, gain)
            if settled and best <= kept.outside:
                break
            (ties,) = np.nonzero(gain == best)
            at = ties[np.argmin(kept.rows[ties])]
            indices.append(int(kept.rows[at]))
            scores.append(float(best))
            state, gain[at] = rule.after(state, kept.p[:, at], rng), -np.inf
            settled = True
    return NextPairs(np.array(indices), np.array(scores))


def _check_draws(posterior: Any) -> None:
    """Raise for what has no draws of P(same)."""
    if not isinstance(posterior, PosteriorMetric):
        raise ValueError(
            "posterior: expected draws of a metric (a PosteriorMetric, as of "
            "posterior_metric('prediction')), got "
            f"{type(posterior).__name__}"
        )
    if posterior.n_draws < 2:
        raise ValueError(
            "posterior: expected at least 2 draws, which may disagree, got one"
        )


def _check_answer(draw: Any, *, pairs: bool) -> None:
    """Raise for a draw that does not define the probability of such answers."""
    same = hasattr(draw, "same_probability") and getattr(draw, "link", 0) is not None
    if pairs and not same:
        raise ValueError(
            "posterior: expected draws that define P(same), got draws of "
            f"{type(draw).__name__} without it"
        )
    if not pairs and (same or not isinstance(draw, Mahalanobis)):
        raise ValueError(
            "posterior: expected draws of TripletMetric or TripletEmbedding for "
            f"triplets, got draws of {type(draw).__name__}{' with P(same)' * same}"
        )


def _check_size(n: int, found: int, known: int | None) -> None:
    """Raise for too few candidates, or other ones than in the pass before."""
    if n > found:
        raise ValueError(
            f"n: expected at most the number of candidates ({found}), got {n}"
        )
    if known not in (None, found):
        raise ValueError(
            "candidates: expected the same blocks each time they are read, got "
            f"{known} pairs and then {found}"
        )


def _blocks(
    candidates: Any, X: ArrayLike | None
) -> Callable[[], Iterator[list[np.ndarray]]]:
    """Return a function that reads the candidates as tiles: points of each place."""
    if isinstance(candidates, Iterator):
        raise ValueError(
            "candidates: expected pairs, or blocks of them that can be read again (a "
            "list, or a function that returns an iterator), got "
            f"{type(candidates).__name__}, which can be read once"
        )
    listed = _is_list_of_blocks(candidates, X)

    def tiles() -> Iterator[list[np.ndarray]]:
        again: Any = candidates() if callable(candidates) else candidates
        for block in again if callable(candidates) or listed else [candidates]:
            points, *places = _points_of(block, X)
            for start in range(0, len(places[0]), TILE):
                yield [points[place[start : start + TILE]] for place in places]

    return tiles


def _is_list_of_blocks(candidates: Any, X: ArrayLike | None) -> bool:
    """Tell a list of blocks from a list of pairs, by what it holds."""
    listed = isinstance(candidates, list | tuple)
    if not listed or isinstance(candidates, Pairs | Triplets) or len(candidates) == 0:
        return False
    first: Any = candidates[0]
    dims = 3 if X is None else 2
    array = isinstance(first, np.ndarray)
    return isinstance(first, Pairs | Triplets) or (array and first.ndim == dims)


def _points_of(block: Any, X: ArrayLike | None) -> tuple[np.ndarray, ...]:
    """Return points, and the rows of each place, of any form of pairs or triplets."""
    if isinstance(block, Pairs | Triplets):
        if X is not None:
            name = type(block).__name__
            raise ValueError(
                f"X: expected None with {name}, which hold their points, got X"
            )
        X = np.asarray(block.X)
        if isinstance(block, Pairs):
            block = np.stack([block.i, block.j], 1)
        else:
            anchor, near, far, *other = map(np.asarray, block.ends)
            block = np.stack([anchor, near, *other, far], 1)
    if not _has_triplets(block):
        return pair_points(block, X, "candidates")
    found = triplets_from_arrays(block, X=X, name="candidates")
    anchor, near, far, *other = map(np.asarray, found.ends)
    return np.asarray(found.X), anchor, near, *other, far


def _has_triplets(block: Any) -> bool:
    """Tell triplets and quadruplets from all else, by the points in a row."""
    try:
        shape = np.shape(block)
    except ValueError:  # Rows of different lengths.
        return False
    return len(shape) > 1 and shape[1] in (3, 4)


def _one_pass(
    rule: _Criterion,
    state: np.ndarray,
    posterior: PosteriorMetric,
    tiles: Iterable[list[np.ndarray]],
    chosen: list[int],
) -> _Kept:
    """Return the best candidates under a state; without those that were chosen."""
    size = max(TILE, KEPT_ENTRIES // posterior.n_draws)
    kept = _Kept(
        np.empty(0, int),
        np.empty((posterior.n_draws, 0)),
        np.empty(0),
        -np.inf,
        0,
    )
    waiting: list[_Kept] = [kept]
    for ends in tiles:
        p = _yes(posterior, ends)
        rows = kept.n_candidates + np.arange(p.shape[1])
        gain = _gains(rule, state, p)
        new = ~np.isin(rows, chosen)
        waiting.append(_Kept(rows[new], p[:, new], gain[new], -np.inf, 0))
        kept = kept._replace(n_candidates=kept.n_candidates + len(rows))
        if sum(len(part.rows) for part in waiting) > 2 * size:
            kept = _best_of(waiting, size, kept)
            waiting = [kept]
    return _best_of(waiting, size, kept)


def _best_of(parts: list[_Kept], size: int, last: _Kept) -> _Kept:
    """Return the ``size`` candidates of largest gain, the first of equals."""
    rows = np.concatenate([part.rows for part in parts])
    gain = np.concatenate([part.gain for part in parts])
    order = np.lexsort((rows, -gain))
    left_out = gain[order[size:]]
    order = np.sort(order[:size])
    p = np.concatenate([part.p for part in parts], 1)[:, order]
    outside = max(last.outside, left_out.max(initial=-np.inf))
    return _Kept(rows[order], p, gain[order], outside, last.n_candidates)


def _yes(
    posterior: PosteriorMetric, ends: list[np.ndarray]
) -> Float[np.ndarray, "s m"]:
    """Return P(same) or P(near) under every draw, computed in one shape."""
    check_dimension(posterior.draws[0], ends[0], "candidates")
    _check_answer(posterior.draws[0], pairs=len(ends) == 2)
    n = len(ends[0])
    rows = np.append(np.arange(n), np.zeros(TILE - n, int))  # The first, once more.
    ends = [points[rows] for points in ends]
    if len(ends) == 2:
        p = over_draws(asked.same, posterior.draws, *ends)
    else:
        first, near, *other, far = ends
        second = other[0] if other else first
        apart = over_draws(asked.between_rows, posterior.draws, second, far)
        p = expit(
            apart**2 - over_draws(asked.between_rows, posterior.draws, first, near) ** 2
        )
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(
            "posterior: expected probabilities in [0, 1] of every draw and candidate, "
            "got another number or NaN"
        )
    return p[:, :n]


def _refresh(
    rule: _Criterion, state: np.ndarray, kept: _Kept, gain: np.ndarray
) -> float:
    """Return the best gain; gains that could be it are brought up to date, in place."""
    best = -np.inf
    order = np.lexsort((kept.rows, -gain))
    order = order[gain[order] > -np.inf]
    for start in range(0, len(order), TILE):
        rows = order[start : start + TILE]
        if gain[rows[0]] < best:
            break
        gain[rows] = _gains(rule, state, kept.p[:, rows])
        best = max(best, float(gain[rows].max()))
    return best


def _gains(rule: _Criterion, state: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return gains, rounded so that ties are ties."""
    return np.round(rule.gains(state, p), DECIMALS) + 0.0  # No -0.


# --- Information: the state is the joint probability of answers k and draws s ---------


def _entropy(p: np.ndarray) -> np.ndarray:
    return entr(p) + entr(1 - p)


def _no_answers(n_draws: int) -> Float[np.ndarray, "k s"]:
    return np.full((1, n_draws), 1 / n_draws)


def _information(
    joint: Float[np.ndarray, "k s"], p: Float[np.ndarray, "s m"]
) -> Float[np.ndarray, "m"]:
    """Return Eq. (2) of each pair."""
    q = joint.sum(1)
    predicted = np.clip(joint @ p / q[:, None], 0, 1)  # 1 + eps by rounding.
    return q @ _entropy(predicted) - joint.sum(0) @ _entropy(p)


def _answered(
    joint: Float[np.ndarray, "k s"],
    p: Float[np.ndarray, "s"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "m s"]:
    """Return the joint with one answer more; at most ``N_ANSWERS`` of them."""
    joint = np.concatenate([joint * p, joint * (1 - p)])
    q = joint.sum(1)
    joint, q = joint[q > 0], q[q > 0]
    if len(joint) <= N_ANSWERS:
        return joint
    # One of each stratum of equal probability: rare answers are neither lost nor kept.
    u = (np.arange(N_ANSWERS) + rng.random(N_ANSWERS)) / N_ANSWERS
    drawn = np.searchsorted(np.cumsum(q) / q.sum(), u, side="right")
    drawn = np.minimum(drawn, len(q) - 1)  # A sum that rounding left below 1.
    return joint[drawn] / q[drawn, None] / N_ANSWERS


# --- Disagreement: the state is U, what answers explain in the space of draws ---------


def _nothing_explained(n_draws: int) -> Float[np.ndarray, "b s"]:
    return np.empty((0, n_draws))


def _disagreement(
    U: Float[np.ndarray, "b s"], p: Float[np.ndarray, "s m"]
) -> Float[np.ndarray, "m"]:
    """Return Eq. (3) of each pair."""
    d = p - p.mean(0)
    return np.mean(d**2, 0) - np.sum((U @ d) ** 2, 0) / len(d)


def _explained(
    U: Float[np.ndarray, "b s"],
    p: Float[np.ndarray, "s"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "c s"]:
    """Return U with the row of a pair that will be answered; nothing is drawn."""
    d = p - p.mean()
    left = d - U.T @ (U @ d)
    variance = np.mean(d * left) + np.mean(p * (1 - p))
    if not variance > 0:  # All draws are sure of the answer: it explains nothing.
        return U
    return np.concatenate([U, left[None] / np.sqrt(len(d) * variance)])


CRITERIA = {
    "information": _Criterion(_no_answers, _information, _answered),
    "disagreement": _Criterion(_nothing_explained, _disagreement, _explained),
}
