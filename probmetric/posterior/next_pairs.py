"""Choose the next pairs to be judged by an annotator.

Under draw s of the metric, p_is is P(same) of pair i. Given the metric, the judgments
of several pairs are independent. The information of the judgments y_B of a batch B
about the metric is the mutual information of y_B and s, in nats,

    I(y_B; s) = H(y_B) - Σ_{i ∈ B} mean_s h(p_is),
    h(p) = -p log p - (1 - p) log(1 - p).                                           (1)

For one pair, (1) is called BALD. A batch is chosen greedily. Let k be an outcome of the
judgments of the pairs chosen so far, q_k the probability of this outcome, and w_ks the
weights of the draws given this outcome. The gain of one more pair i is

    I(y_B, y_i; s) - I(y_B; s) = Σ_k q_k [h(Σ_s w_ks p_is) - Σ_s w_ks h(p_is)],     (2)

which is near 0 if the pair is similar to a chosen pair. If there are at most
``N_ANSWERS`` outcomes, all 2^|B| outcomes are enumerated. Larger batches use a
stratified sample of outcomes in proportion to q_k.

*Disagreement* is the variance of p_i over draws that remains after the best linear
prediction from the judgments. Let C_ij = Cov_s(p_is, p_js) and v_i = mean_s p_is (1 -
p_is). The covariance of the judgments is C_BB + diag(v_B). The remaining variance is

    C_ii·B = C_ii - C_iB (C_BB + diag v_B)⁻¹ C_Bi,                                  (3)

and C_ii for the first pair. With d_i = p_i - mean p_i, (3) is (‖d_i‖² - ‖U d_i‖²)/s.
For each chosen pair j, U gets a row (1 - UᵀU) d_j / √(s (C_jj·B + v_j)).

Gains (2) and (3) never increase as the batch grows. (With more than ten pairs, (2) may
increase by sampling error.) Hence (i) a greedy batch has at least 63% of the
information of the best batch, and (ii) a pair whose earlier gain is below the best
current gain need not be evaluated again.

References
----------
Houlsby, Huszár, Ghahramani and Lengyel, "Bayesian active learning for classification
and preference learning", 2011. Kirsch, van Amersfoort and Gal, "BatchBALD", NeurIPS
2019. Minoux, "Accelerated greedy algorithms for maximizing submodular set functions",
1978.
"""

from collections.abc import Callable
from typing import NamedTuple

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
"""Maximum number of outcomes of a batch (all outcomes of up to ten pairs)."""

TILE = 1024
"""Number of pairs computed at a time. A constant shape compiles once."""

DECIMALS = 12
"""Gains that agree to this many decimals are ties."""


class NextPairs(NamedTuple):
    """Positions of the chosen candidates in the order of choice, and their scores."""

    indices: Int[np.ndarray, "n"]
    scores: Float[np.ndarray, "n"]


class _Criterion(NamedTuple):
    """Functions for the initial state, the gains of pairs, and updates of the state."""

    start: Callable[[int], np.ndarray]
    gains: Callable[[np.ndarray, np.ndarray], np.ndarray]
    after: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def next_pairs(
    posterior: PosteriorMetric,
    candidates: ArrayLike | Pairs,
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
        At least two draws of a metric with P(same), the probability that a pair is
        judged *same*. For example ``LCA().fit_pairs(pairs,
        y).posterior_metric("prediction", n_draws=200)``.
    candidates : array-like of shape (N, 2, d), or (N, 2) of int; or Pairs
        Pairs of points, or of row numbers of ``X``. In ``Pairs`` the judgments are
        ignored.
    n : int ≥ 1
        Number of pairs to choose (the batch), at most the number of candidates. No
        candidate is chosen twice.
    criterion : {"information", "disagreement"}, default="information"
        Pairs are chosen one after the other. Each pair maximizes a quantity, given the
        pairs chosen before:

        - "information": how much its judgment is expected to reveal about the metric
          (mutual information).
        - "disagreement": the variance of P(same) over draws that the judgments of
          earlier pairs do not explain.
    X : array-like of shape (n_points, d), optional
        Points. Required if the candidates are row numbers.
    seed : int, default=0
        Seed for sampling possible judgments, which "information" needs for more than
        ten pairs.

    Returns
    -------
    NextPairs
        In the order of choice:

        - ``indices``: positions of the chosen pairs in ``candidates``. If scores agree
          to 12 decimals, the first candidate is chosen.
        - ``scores``: value of the criterion, given the pairs chosen before. Information
          uses natural logarithms. Its scores sum to the information of the batch.

    Notes
    -----
    Fit ``LCA`` first to randomly chosen pairs, and keep the prior of this fit in later
    fits. Otherwise ``LCA`` computes the scale of its prior from all training pairs, and
    the chosen pairs bias it. To keep the prior:

    1. Standardize the features yourself, and use ``LCA(standardize=False)``.
    2. After the first fit, let ``W0 = np.asarray(first.fitted_.prior.mean)``.
    3. In later fits, add ``prior_mean=W0`` and ``regularization=3``.

    For a comparison with random choice see *Benchmarks: next question*.

    The most informative pairs are not always the best for prediction. Chosen pairs are
    not a random sample. Do not use them to estimate an error, a calibration or the
    frequency of *same*.

    200 draws are enough for about ten pairs, because the information of a batch is at
    most the logarithm of the number of draws. For more than ten pairs, "information"
    has a sampling error and may miss the best pair. Memory is 8 bytes for each
    candidate and draw. If there are too many pairs, use a random sample of them.

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
    ends = _ends_of(candidates, X)
    size = len(ends[0])
    if n > size:
        raise ValueError(
            f"n must be at most the number of candidates ({size}), got {n}"
        )
    p = _probabilities(posterior, ends)
    gain = np.full(size, np.inf)
    state = rule.start(posterior.n_draws)
    indices, scores = list[int](), list[float]()
    for _ in range(n):
        best = _refresh(rule, state, p, gain)
        first = int(np.argmax(gain == best))
        indices.append(first)
        scores.append(best)
        state = rule.after(state, p[:, first], rng)
        gain[first] = -np.inf
    return NextPairs(np.array(indices), np.array(scores))


def _check_draws(posterior: object) -> None:
    if not isinstance(posterior, PosteriorMetric):
        raise ValueError(
            f"posterior must be a PosteriorMetric, got {type(posterior).__name__}. "
            "Use posterior_metric('prediction') of a learner"
        )
    if posterior.n_draws < 2:
        raise ValueError(
            f"posterior must have at least 2 draws, got {posterior.n_draws}"
        )
    draw = posterior.draws[0]
    if not hasattr(draw, "same_probability") or getattr(draw, "link", 0) is None:
        raise ValueError(
            f"posterior: draws must have P(same), got {type(draw).__name__} without "
            "P(same). Use a learner such as LCA, after fit_pairs"
        )


def _ends_of(
    candidates: ArrayLike | Pairs, X: ArrayLike | None
) -> list[Float[np.ndarray, "N d"]]:
    """Return the first and the second points of the candidates."""
    if isinstance(candidates, Pairs):
        if X is not None:
            raise ValueError(
                "X must be None if candidates are Pairs, got points. Pairs contain "
                "the points."
            )
        X = np.asarray(candidates.X)
        candidates = np.stack([candidates.i, candidates.j], 1)
    points, *rows = pair_points(candidates, X, "candidates")
    return [points[i] for i in rows]


def _probabilities(
    posterior: PosteriorMetric, ends: list[Float[np.ndarray, "N d"]]
) -> Float[np.ndarray, "s N"]:
    draws, n = posterior.draws, len(ends[0])
    check_dimension(draws[0], ends[0], "candidates")
    p = np.empty((len(draws), n))
    for start in range(0, n, TILE):
        rows = np.arange(start, start + TILE)
        rows[rows >= n] = start  # Repeat the first.
        probabilities = over_draws(same, draws, *(X[rows] for X in ends))
        p[:, start : start + TILE] = probabilities[:, : n - start]
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(
            "posterior: P(same) must be in [0, 1] for every draw and candidate, got "
            "other values. Check the method same_probability of the draws."
        )
    return p


def _refresh(
    rule: _Criterion,
    state: np.ndarray,
    p: Float[np.ndarray, "s N"],
    gain: Float[np.ndarray, "N"],
) -> float:
    """Return the best gain. Gains that could be the best are updated in place."""
    best = -np.inf
    order = np.argsort(-gain, kind="stable")
    order = order[gain[order] > -np.inf]
    for start in range(0, len(order), TILE):
        rows = order[start : start + TILE]
        if gain[rows[0]] < best:
            break
        gain[rows] = _gains(rule, state, p[:, rows])
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
    """Add one judgment to the outcomes, and sample at most ``N_ANSWERS`` of them."""
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
