"""Choice of the two-stage model: number of components, flattening, blending.

Flattening shrinks the off-diagonal entries and keeps the variances: Σ_s = sΣ + (1 - s)
diag Σ with s in [0, 1]. For s < 1 a singular Σ with positive diagonal becomes regular.
Flattening is applied after EM, because within EM it would destroy monotonicity.

Blending averages over models n with weights π_n. Q and Y have the same model, even if
they have different sources:

    log ratio = LSE_n[log π_n + log Pr_n(Q, Y)]
                - LSE_n[log π_n + log Pr_n(Q) + log Pr_n(Y)].                      (1)

The paper's "choose the shortest code" differs by at most log(number of models).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Points
from probmetric.data.hash import canonical_order, first_best
from probmetric.inference.choose import choose
from probmetric.inference.two_stage.fit import fit
from probmetric.metric import PairSimilarity
from probmetric.metric.pair_similarity import Score
from probmetric.models.two_stage import TwoStageParams, to_metric
from probmetric.neighbors.strength import Fold
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

FLATTENING, SWEEPS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0), 2
"""Values of s tried for each component; number of passes over all components."""


@numpy_in_numpy_out
def flatten(params: TwoStageParams, s: Float[Array, "k"] | float) -> TwoStageParams:
    """Shrink the off-diagonal entries of W and B by s in [0, 1], one per component."""
    s = jnp.broadcast_to(jnp.asarray(s, params.means.dtype), params.weights.shape)
    eye = jnp.eye(params.means.shape[1], dtype=bool)
    factor = jnp.where(eye, 1.0, s[:, None, None])
    return params._replace(
        within=factor * params.within, between=factor * params.between
    )


def choose_flattening(
    params: TwoStageParams, X: Float[Array, "n d"]
) -> Float[Array, "k"]:
    """Choose s of each component by held-out likelihood, coordinate by coordinate."""
    s = np.ones(len(params.weights))
    for _ in range(SWEEPS):
        for k in range(len(s)):
            trials = [np.where(np.arange(len(s)) == k, t, s) for t in FLATTENING]
            metrics = [to_metric(flatten(params, t)) for t in trials]
            values = [float(np.mean(m.log_marginal(X))) for m in metrics]
            # A singular covariance gives NaN, which ``first_best`` ignores.
            s = trials[first_best(np.array(values))]
    return s


def blend(
    models: Sequence[TwoStageParams],
    log_pi: Float[Array, "models"] | None = None,
    *,
    score: Score = "log_ratio",
) -> PairSimilarity:
    """Average the similarity over models (log weights ``log_pi``) by Eq. (1)."""
    if not models:
        raise ValueError(
            "models must contain at least one model, got none. Add a model."
        )
    raw = np.zeros(len(models)) if log_pi is None else np.asarray(log_pi, float)
    weight = raw - np.logaddexp.reduce(raw)
    metrics = [to_metric(m) for m in models]
    log_weights = [m.log_weights + p for m, p in zip(metrics, weight, strict=True)]
    return PairSimilarity(
        np.concatenate(log_weights).astype(metrics[0].means.dtype),
        *(
            np.concatenate([np.asarray(getattr(m, name)) for m in metrics])
            for name in ("means", "between", "noise")
        ),
        score=score,
        blocks=tuple(len(m.log_weights) for m in metrics),
    )


def bic(params: TwoStageParams, X: Float[Array, "n d"]) -> float:
    """Compute log p(X) - ½ (free parameters) log n, an approximate log evidence."""
    k, d = params.means.shape
    free = (k - 1) + k * d + k * d * (d + 1) / 2
    log_p = to_metric(params).log_marginal(X)
    return float(np.sum(log_p) - 0.5 * free * np.log(len(X)))


class Choice(NamedTuple):
    """Candidates, mean held-out log densities, standard errors, and the best."""

    candidates: tuple[int, ...]
    log_density: Float[Array, "c"]
    standard_error: Float[Array, "c"]
    best: int


def choose_components(
    X: Float[Array, "n d"],
    candidates: Sequence[int],
    *,
    n_folds: int = 5,
    seed: int = 0,
    n_starts: int = 1,
) -> Choice:
    """Choose the (first) number of components of highest held-out likelihood."""
    X = np.asarray(X)[canonical_order(X)]
    fold = np.random.default_rng(seed).permutation(len(X)) % n_folds
    parts = [
        (np.flatnonzero(fold != n), np.flatnonzero(fold == n)) for n in range(n_folds)
    ]

    def learn(rows: np.ndarray) -> Iterator[TwoStageParams]:
        for k in candidates:
            part = Points(X[rows])
            yield fit(part, n_components=k, seed=seed, n_starts=n_starts).params

    def losses(params: TwoStageParams, part: Fold) -> np.ndarray:
        return -np.asarray(to_metric(params).log_marginal(X[part.asked]))

    return choose(
        candidates,
        learn,
        losses,
        _likeliest,
        folds=[Fold(train, train, test) for train, test in parts],
        points=np.arange(len(X)),
        name="n_components",
    )


def _likeliest(losses: Float[np.ndarray, "c n"], candidates: Sequence[int]) -> Choice:
    """Choose the number of components of smallest mean loss, minus the log density."""
    mean, error = -losses.mean(1), losses.std(1, ddof=1) / np.sqrt(losses.shape[1])
    return Choice(tuple(candidates), mean, error, candidates[first_best(mean)])
