"""Choose the next pairs to be judged by an annotator.

Under draw s of the metric, p_is is P(same) of pair i. Given the metric, the judgments
of several pairs are independent. The information of the judgments y_B of a batch B
about the metric is their mutual information with s, in nats,

    I(y_B; s) = H(y_B) - Σ_{i ∈ B} mean_s h(p_is),
    h(p) = -p log p - (1 - p) log(1 - p),                                           (1)

which for one pair is called BALD. A batch is chosen greedily. With k the judgments of
the pairs chosen so far, q_k the probability of these judgments and w_ks the weights of
the draws given these judgments, the gain of one more pair i is

    I(y_B, y_i; s) - I(y_B; s) = Σ_k q_k [h(Σ_s w_ks p_is) - Σ_s w_ks h(p_is)],     (2)

which is near 0 for a pair similar to a chosen one: given k the draws agree on it. All
2^|B| outcomes k are enumerated up to ``N_ANSWERS``; larger batches use a stratified
sample in proportion to q_k. A determinant over the covariance of log odds would not
need outcomes, but assumes that draws and judgments are normal, and its first step
differs from (1).

*Disagreement* needs only moments: the variance of p_i over draws that the best linear
prediction from the judgments leaves. With C_ij = Cov_s(p_is, p_js) and v_i = mean_s
p_is (1 - p_is), the covariance of the judgments is C_BB + diag(v_B); the variance is

    C_ii - C_iB (C_BB + diag v_B)⁻¹ C_Bi,                                           (3)

C_ii for the first. With d_i = p_i - mean p_i, (3) is (‖d_i‖² - ‖U d_i‖²)/s; U gets the
row (1 - UᵀU) d_j / √(s (C_jj·B + v_j)) for each chosen pair j.

Gains (2) and (3) never increase as the batch grows. For (2) this is exact if all
outcomes are enumerated (up to ten pairs), otherwise up to sampling error. Hence (i) a
greedy batch has at least 63% of the information of the best batch, and (ii) a pair
whose earlier gain is below the best current gain need not be evaluated again. Because
of (ii) candidates can be streamed: one pass stores the best candidates with their p.
Another pass follows only if a candidate that was not stored could be better.

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
from scipy.special import entr

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Pairs
from probmetric.data.inputs import pair_points
from probmetric.neighbors.search import check_dimension
from probmetric.posterior.intervals import same
from probmetric.posterior.metric import PosteriorMetric
from probmetric.posterior.stack import over_draws
from probmetric.typing import ArrayLike

N_ANSWERS = 1024
"""Maximum number of outcomes of a batch: all of up to ten pairs."""

TILE = 1024
"""Pairs computed at a time; a constant shape compiles once."""

KEPT_ENTRIES = 1 << 22
"""Maximum number of stored probabilities p_is (32 MiB)."""

DECIMALS = 12
"""Gains that agree to this many decimals are ties."""


class NextPairs(NamedTuple):
    """Rows of the chosen candidates, the most informative first, and their gains."""

    indices: Int[np.ndarray, "n"]
    scores: Float[np.ndarray, "n"]


class _Criterion(NamedTuple):
    """The state before any judgment, gains of pairs, and the update of the state."""

    start: Callable[[int], np.ndarray]
    gains: Callable[[np.ndarray, np.ndarray], np.ndarray]
    after: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


class _Stored(NamedTuple):
    rows: Int[np.ndarray, "m"]
    p: Float[np.ndarray, "s m"]
    gain: Float[np.ndarray, "m"]
    outside: float


def next_pairs(
    posterior: PosteriorMetric,
    candidates: Any,
    n: int,
    criterion: str = "information",
    *,
    X: ArrayLike | None = None,
    seed: int = 0,
) -> NextPairs:
    """Choose the pairs whose judgments (*same* or *different*) are most informative.

    Parameters
    ----------
    posterior : PosteriorMetric
        At least two draws with P(same), for example from ``LCA().fit_pairs(pairs,
        y).posterior_metric("prediction", n_draws=200)``.
    candidates : array-like of shape (N, 2, d), or (N, 2) of int; Pairs; blocks
        Pairs of points, or of row numbers of ``X``. In ``Pairs`` the judgments are
        ignored. Use blocks for many candidates: a list of such arrays or ``Pairs``, or
        a function without arguments that returns them. The function is called once for
        each pass, and must return the same blocks each time.
    n : int ≥ 1
        Number of pairs to choose (the batch), at most the number of candidates. No
        candidate is chosen twice.
    criterion : {"information", "disagreement"}, default="information"
        Quantity that each chosen pair maximizes. "information" is the expected
        information of its judgment about the metric, given the pairs chosen before (Eq.
        2 of ``posterior.next_pairs``). "disagreement" is the variance of P(same) over
        draws that the pairs chosen before do not explain (Eq. 3).
    X : array-like of shape (n_points, d), optional
        Points. Required if the candidates are row numbers.
    seed : int, default=0
        Seed for the sampled outcomes, which "information" uses for more than ten pairs.

    Returns
    -------
    NextPairs
        ``indices`` of the chosen candidates and their ``scores``, in the order of
        choice. A score is the gain of a pair, given the pairs chosen before.
        Information is in nats, and the scores sum to the information of the batch.
        Scores are ties if they agree to 12 decimals, and the first candidate is then
        chosen.

    Notes
    -----
    Start with randomly chosen pairs, and use the prior of this first fit in later fits.
    (LCA computes the scale of its prior from the training pairs, and pairs chosen by
    ``next_pairs`` would bias it.) For later fits, standardize the features and use
    ``LCA(standardize=False, prior_mean=W0, regularization=3)`` with ``W0 =
    np.asarray(first.fitted_.prior.mean)``. For a comparison with random choice see
    *Benchmarks: next question*.

    The most informative pairs are not always the best for prediction. Chosen pairs are
    not a random sample. They should not be used to estimate an error, a calibration or
    the frequency of *same*.

    The information of a batch is at most the logarithm of the number of draws. 200
    draws (5.3 nats) are enough for about ten pairs. ``next_pairs`` uses at most 200
    MiB, besides the candidates or one block of candidates. One pass is enough for
    40,000 candidates with 100 draws. More candidates require at most n passes. For more
    than ten pairs, "information" has a sampling error and may miss the best pair.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> link = pm.metric.Link(b=0.1, scale=0.5)
    >>> draws = [pm.Mahalanobis(np.diag([1.0, s]), link) for s in (0.2, 1.0, 2.0)]
    >>> posterior = pm.posterior.PosteriorMetric(draws, "prediction")
    >>> pairs = np.array([[[0, 0], [1, 0]], [[0, 0], [0, 1]], [[0, 0], [0, 1.01]]])
    >>> result = next_pairs(posterior, pairs, 2)
    >>> result.indices.tolist(), result.scores.round(3).tolist()
    ([2, 1], [0.224, 0.142])
    """
    _check_draws(posterior)
    check_choice("criterion", criterion, tuple(CRITERIA))
    n = check_number("n", n, 1, whole=True)
    rule, rng = CRITERIA[criterion], np.random.default_rng(seed)
    if isinstance(candidates, Iterator):
        raise ValueError(
            "candidates must be arrays, a list of blocks or a function that returns "
            f"blocks, got {type(candidates).__name__} (it can be read only once)"
        )
    state, total = rule.start(posterior.n_draws), None
    indices, scores = list[int](), list[float]()
    while len(indices) < n:
        stored, size = _one_pass(rule, state, posterior, _tiles(candidates, X), indices)
        if n > size:
            raise ValueError(
                f"n must be at most the number of candidates ({size}), got {n}"
            )
        if total not in (None, size):
            raise ValueError(
                "candidates must return the same blocks in each call, got "
                f"{total} pairs and then {size}"
            )
        total, settled = size, False
        while len(indices) < n:
            best = _refresh(rule, state, stored)
            if settled and best <= stored.outside:
                break
            (ties,) = np.nonzero(stored.gain == best)
            first = ties[np.argmin(stored.rows[ties])]
            indices.append(int(stored.rows[first]))
            scores.append(best)
            state = rule.after(state, stored.p[:, first], rng)
            stored.gain[first], settled = -np.inf, True
    return NextPairs(np.array(indices), np.array(scores))


def _check_draws(posterior: object) -> None:
    if not isinstance(posterior, PosteriorMetric):
        raise ValueError(
            "posterior must be a PosteriorMetric, as from "
            f"posterior_metric('prediction'), got {type(posterior).__name__}"
        )
    if posterior.n_draws < 2:
        raise ValueError(
            f"posterior must have at least 2 draws, got {posterior.n_draws}"
        )
    draw = posterior.draws[0]
    if not hasattr(draw, "same_probability") or getattr(draw, "link", 0) is None:
        raise ValueError(
            f"posterior must have draws with P(same), got {type(draw).__name__} "
            "without P(same)"
        )


def _tiles(candidates: Any, X: ArrayLike | None) -> Iterator[list[np.ndarray]]:
    """Read the candidates as tiles: the first and the second points of pairs."""
    blocks: Any = candidates() if callable(candidates) else candidates
    if not callable(candidates) and not _is_list_of_blocks(candidates, X):
        blocks = [candidates]
    for block in blocks:
        points, *places = _points_of(block, X)
        for start in range(0, len(places[0]), TILE):
            yield [points[place[start : start + TILE]] for place in places]


def _is_list_of_blocks(candidates: Any, X: ArrayLike | None) -> bool:
    if not isinstance(candidates, list | tuple) or len(candidates) == 0:
        return False
    first, ndim = candidates[0], 3 if X is None else 2
    return not isinstance(candidates, Pairs) and (
        isinstance(first, Pairs)
        or (isinstance(first, np.ndarray) and first.ndim == ndim)
    )


def _points_of(block: Any, X: ArrayLike | None) -> tuple[np.ndarray, ...]:
    if isinstance(block, Pairs):
        if X is not None:
            raise ValueError(
                "X must be None for candidates of type Pairs, which contain the "
                "points, got points"
            )
        X, block = np.asarray(block.X), np.stack([block.i, block.j], 1)
    return pair_points(block, X, "candidates")


def _one_pass(
    rule: _Criterion,
    state: np.ndarray,
    posterior: PosteriorMetric,
    tiles: Iterable[list[np.ndarray]],
    chosen: list[int],
) -> tuple[_Stored, int]:
    """Store the best candidates that are not chosen; count all candidates."""
    size = max(TILE, KEPT_ENTRIES // posterior.n_draws)
    stored, total = list[_Stored](), 0
    for points in tiles:
        p = _probabilities(posterior, points)
        rows = total + np.arange(p.shape[1])
        new, total = ~np.isin(rows, chosen), total + len(rows)
        gain = _gains(rule, state, p)[new]
        stored.append(_Stored(rows[new], p[:, new], gain, -np.inf))
        if sum(len(chunk.rows) for chunk in stored) > 2 * size:
            stored = [_best_of(stored, size)]
    return _best_of(stored, size), total


def _best_of(chunks: list[_Stored], size: int) -> _Stored:
    """Merge chunks and store the ``size`` candidates of largest gain, first if tied."""
    if not chunks:
        return _Stored(np.empty(0, int), np.empty((0, 0)), np.empty(0), -np.inf)
    rows, gain = (np.concatenate([c[i] for c in chunks]) for i in (0, 2))
    order = np.lexsort((rows, -gain))
    outside = gain[order[size:]].max(initial=max(c.outside for c in chunks))
    order = np.sort(order[:size])
    p = np.concatenate([c.p for c in chunks], 1)[:, order]
    return _Stored(rows[order], p, gain[order], float(outside))


def _probabilities(
    posterior: PosteriorMetric, points: list[np.ndarray]
) -> Float[np.ndarray, "s m"]:
    draws, n = posterior.draws, len(points[0])
    check_dimension(draws[0], points[0], "candidates")
    rows = np.append(np.arange(n), np.zeros(TILE - n, int))  # Repeat the first.
    p = over_draws(same, draws, *(X[rows] for X in points))
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(
            "posterior must have P(same) in [0, 1] for every draw and candidate, got "
            "other values. Check the link of the draws."
        )
    return p[:, :n]


def _refresh(rule: _Criterion, state: np.ndarray, stored: _Stored) -> float:
    """Return the best gain; update the gains that could be the best, in place."""
    best, gain = -np.inf, stored.gain
    order = np.lexsort((stored.rows, -gain))
    order = order[gain[order] > -np.inf]
    for start in range(0, len(order), TILE):
        rows = order[start : start + TILE]
        if gain[rows[0]] < best:
            break
        gain[rows] = _gains(rule, state, stored.p[:, rows])
        best = max(best, float(gain[rows].max()))
    return best


def _gains(rule: _Criterion, state: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.round(rule.gains(state, p), DECIMALS) + 0.0  # No -0.


# --- Information: the state is the joint probability of outcomes k and draws s --------


def _information(
    joint: Float[np.ndarray, "k s"], p: Float[np.ndarray, "s m"]
) -> Float[np.ndarray, "m"]:
    q = joint.sum(1)
    predicted = np.clip(joint @ p / q[:, None], 0, 1)  # Rounding may give 1 + ε.
    return q @ _entropy(predicted) - joint.sum(0) @ _entropy(p)


def _entropy(p: np.ndarray) -> np.ndarray:
    return entr(p) + entr(1 - p)


def _with_judgment(
    joint: Float[np.ndarray, "k s"],
    p: Float[np.ndarray, "s"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "m s"]:
    """Add one judgment to the joint; sample at most ``N_ANSWERS`` outcomes."""
    joint = np.concatenate([joint * p, joint * (1 - p)])
    q = joint.sum(1)
    joint, q = joint[q > 0], q[q > 0]
    if len(joint) <= N_ANSWERS:
        return joint
    # One per stratum of equal probability.
    u = (np.arange(N_ANSWERS) + rng.random(N_ANSWERS)) / N_ANSWERS
    drawn = np.searchsorted(np.cumsum(q) / q.sum(), u, side="right")
    drawn = np.minimum(drawn, len(q) - 1)  # Rounding may leave the sum below 1.
    return joint[drawn] / q[drawn, None] / N_ANSWERS


# --- Disagreement: the state is U, the directions of draws that judgments explain -----


def _disagreement(
    U: Float[np.ndarray, "b s"], p: Float[np.ndarray, "s m"]
) -> Float[np.ndarray, "m"]:
    d = p - p.mean(0)
    return np.mean(d**2, 0) - np.sum((U @ d) ** 2, 0) / len(d)


def _explained(
    U: Float[np.ndarray, "b s"],
    p: Float[np.ndarray, "s"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "c s"]:
    d = p - p.mean()
    left = d - U.T @ (U @ d)
    variance = np.mean(d * left) + np.mean(p * (1 - p))
    if not variance > 0:  # All draws are certain: the judgment explains nothing.
        return U
    return np.concatenate([U, left[None] / np.sqrt(len(d) * variance)])


CRITERIA = {
    "information": _Criterion(
        lambda s: np.full((1, s), 1 / s), _information, _with_judgment
    ),
    "disagreement": _Criterion(lambda s: np.empty((0, s)), _disagreement, _explained),
}
