"""Choice of the two-stage model: number of components, flattening, blending.

Flattening believes the variances before the covariances: Σ_s = sΣ + (1 - s) diag Σ
with s in [0, 1]. It keeps variances, makes a singular Σ with positive diagonal regular
for s < 1, and is applied after EM (inside, it would break monotonicity).

Blending over models n with weights π_n keeps the model common to Q and Y, also where
they do not share a source (maths 1.11):

    log ratio = LSE_n[log π_n + log Pr_n(Q, Y)]
                - LSE_n[log π_n + log Pr_n(Q) + log Pr_n(Y)].                      (1)

The paper's "choose the shortest code" errs by at most log(number of models).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Points
from probmetric.data.hash import canonical_order, first_best
from probmetric.inference.two_stage.fit import fit
from probmetric.metric import PairSimilarity
from probmetric.metric.pair_similarity import Score
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior, to_metric
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array


@numpy_in_numpy_out
def flatten(params: TwoStageParams, s: Float[Array, "k"] | float) -> TwoStageParams:
    """Shrink the off-diagonal entries of W and B by s in [0, 1], one a component."""
    s = jnp.broadcast_to(jnp.asarray(s, params.means.dtype), params.weights.shape)
    eye = jnp.eye(params.means.shape[1], dtype=bool)
    factor = jnp.where(eye, 1.0, s[:, None, None])
    return params._replace(
        within=factor * params.within, between=factor * params.between
    )


def _held_out(params: TwoStageParams, X: Array) -> float:
    """Return the mean log density of single instances."""
    return float(np.mean(to_metric(params).log_marginal(X)))


def choose_flattening(
    params: TwoStageParams,
    X: Float[Array, "n d"],
    *,
    grid: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0),
    sweeps: int = 2,
) -> Float[Array, "k"]:
    """Return the s of each component that X, unseen by EM, makes likeliest.

    Coordinate ascent over the grid, from no flattening (s = 1).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import two_stage
    >>> from probmetric.models.two_stage import proportional
    >>> S = np.array([[[1.0, 0.9], [0.9, 1.0]]])
    >>> params = proportional(np.ones(1), np.zeros((1, 2)), S, alpha=0.5)
    >>> X = np.random.default_rng(0).normal(size=(50, 2))  # Not correlated
    >>> two_stage.choose_flattening(params, X).tolist()
    [0.25]
    """
    s = np.ones(len(params.weights))
    for _ in range(sweeps):
        for k in range(len(s)):
            trials = [np.where(np.arange(len(s)) == k, t, s) for t in grid]
            values = [_held_out(flatten(params, t), X) for t in trials]
            # A grid point where a covariance is singular gives NaN and loses.
            s = trials[first_best(np.array(values))]
    return s


def blend(
    models: Sequence[TwoStageParams],
    log_pi: Float[Array, "models"] | None = None,
    *,
    score: Score = "log_ratio",
) -> PairSimilarity:
    """Return the similarity averaged over models, Eq. (1).

    Parameters
    ----------
    models : sequence of TwoStageParams
        Of any component counts, in one feature space.
    log_pi : array of shape (models,), optional
        Log weights, up to a constant; flat by default.
    score : str, default="log_ratio"
    """
    if not models:
        raise ValueError("models: expected at least one, got none")
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
    """Return log p(X) - ½ (free parameters) log n: larger is better, log evidence.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import two_stage
    >>> from probmetric.models.two_stage import proportional
    >>> one = np.ones((1, 1, 1))
    >>> params = proportional(np.ones(1), np.zeros((1, 1)), one, alpha=0.5)
    >>> round(two_stage.bic(params, np.zeros((4, 1))), 4)  # -½ 4 log 2π - ½ 2 log 4
    -5.062
    """
    k, d = params.means.shape
    free = (k - 1) + k * d + k * d * (d + 1) / 2
    log_p = to_metric(params).log_marginal(X)
    return float(np.sum(log_p) - 0.5 * free * np.log(len(X)))


class Choice(NamedTuple):
    """Component counts, mean held-out log densities, their s.e. and the best count."""

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
    prior: TwoStagePrior | Literal["default"] | None = "default",
    max_steps: int = 1000,
) -> Choice:
    """Return the number of components of highest held-out likelihood, and scores.

    Parameters
    ----------
    X : array of shape (n, d)
    candidates : sequence of int
        Component counts; ties go to the first.
    n_folds : int, default=5
    seed : int, default=0
    n_starts, prior, max_steps
        As in ``fit``; the default prior is made from each fold's training part.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import two_stage
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 1)) + np.repeat([[-9.0], [9.0]], 20, axis=0)
    >>> found = two_stage.choose_components(X, (1, 2), n_folds=2)
    >>> found.best, bool(found.log_density[1] > found.log_density[0] + 1)
    (2, True)
    """
    X = np.asarray(X)[canonical_order(X)]
    place = np.random.default_rng(seed).permutation(len(X)) % n_folds
    log_p = np.empty((len(candidates), len(X)))
    for row, k in enumerate(candidates):
        for train, test in ((place != n, place == n) for n in range(n_folds)):
            end = fit(
                Points(X[train]),
                n_components=k,
                seed=seed,
                n_starts=n_starts,
                prior=prior,
                max_steps=max_steps,
            )
            log_p[row, test] = to_metric(end.params).log_marginal(X[test])
    mean = log_p.mean(1)
    error = log_p.std(1, ddof=1) / np.sqrt(len(X))
    return Choice(tuple(candidates), mean, error, candidates[first_best(mean)])
