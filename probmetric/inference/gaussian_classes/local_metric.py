"""Local metrics of Gaussian classes and their posterior uncertainty (GLML).

``metric.glml`` computes the matrices at a point from the class densities. This module
combines them with the posterior of ``gaussian_classes.posterior``:

* ``student_metric`` uses the Student-t predictive densities, E_θ p_c(x | θ). As
  E ∇∇p = ∇∇ E p, this averages the Hessians exactly. B is cubic in the densities, so
  E B ≠ B(E p), and this inexpensive default is a plug-in estimate.               (1)
* ``drawn_metrics`` computes the metric of each posterior draw of the densities, in
  coordinates that the draw whitens. Votes and intervals of a local distance average
  over these metrics. As |A| = 1, the whitening sets the scale of a distance. If all
  draws used the whitening of (1), intervals would be too narrow.                 (2)

The error rate of a nearest neighbor at distance r under A, |A| = 1, is (1 - s) +
r²/(2D) tr(A⁻¹B) + O(r⁴), with B = Σ_i ρ_i(s - ρ_i) H̄_i. With n points of density p(x)
the expected squared distance r² of the nearest point is

    E r² ≈ Γ(1 + 2/D) (n p V_D)^(-2/D),   V_D = π^(D/2) / Γ(D/2 + 1),             (3)

for every A. The expectation belongs inside the integral in Eq. (6) of the paper
(erratum G2). With more than two classes, the local metric removes the bias of the error
rate, but not the bias of each class probability.

``choose_by_folds`` chooses the share γ of the base metric. Ranking by

    γI + D·A/tr A                                                                 (4)

needs the base distance and the distance under A only once for all γ. The densities are
fitted without the predicted points. Otherwise the choice would prefer a small γ, which
predicts badly with 20 to 40 points. The candidates, from no learning to most learning,
are

    the Euclidean metric in scaled units,  γ = ∞, 10, 3, 1, 0.3, 0.1, 0,          (5)

``choose_by_folds`` chooses the first candidate whose soft votes
(``neighbors.strength``) have a loss at most two standard errors above the best.

References
----------
Noh, Zhang and Lee, "Generative Local Metric Learning", NIPS 2010 (seed 004).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Float, Int
from scipy.spatial.distance import cdist

from probmetric.compilation import COMPILED_SOONEST
from probmetric.densities.classes import ClassDensities, posterior_and_hessians
from probmetric.inference.gaussian_classes.choice import folds_of
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    draw,
    is_diagonal,
    mean_of,
)
from probmetric.inference.gaussian_classes.predict import predictive_of
from probmetric.metric import LocalMahalanobis
from probmetric.metric.local import Rule, local_metric, local_of
from probmetric.models.gaussian_classes import GaussianClassesParams, to_densities
from probmetric.neighbors.scan import bucket, in_tiles, ready_alone, tile_of
from probmetric.neighbors.search import TILE
from probmetric.neighbors.strength import reach, strongest, vote_losses
from probmetric.neighbors.votes import BANDWIDTHS
from probmetric.precision import (
    finite,
    host_or_program,
    numpy_in_numpy_out,
    one_program,
    to_numpy,
)
from probmetric.typing import Array


@numpy_in_numpy_out
def student_metric(
    post: ClassPosterior, *, rule: Rule = "min_norm", gamma: float | int = 0.0
) -> LocalMahalanobis:
    """Compute the local metric of the Student-t predictive densities, Eq. (1).

    With a diagonal covariance, the predictive density is not a Student-t density. The
    normal density at the posterior mean is used instead, which requires ν > 2.
    """
    return _student(post, gamma, rule=rule)


def _student_of(
    xp: ModuleType, post: ClassPosterior, gamma: Array | float | int, *, rule: Rule
) -> LocalMahalanobis:
    if is_diagonal(post):
        return local_of(xp, to_densities(mean_of(xp, post)), rule, gamma)
    return local_of(xp, predictive_of(xp, post), rule, gamma)


_student = host_or_program(_student_of, static=("rule",))


type Whitened = tuple[ClassDensities, Float[Array, "..."], Float[Array, "..."]]


@jax.jit
def _whitened(params: GaussianClassesParams) -> Whitened:
    """Whiten the densities of each draw by the same draw; draws are the first axis."""

    def whiten(draw: GaussianClassesParams) -> Whitened:
        metric = local_metric(to_densities(draw))
        return metric.classes, metric.frame, metric.centre

    return jax.vmap(whiten)(params)


def _each(drawn: Whitened, base: LocalMahalanobis) -> list[LocalMahalanobis]:
    """Make one metric per draw, with rule, γ and ε of the base."""
    leaves, kind = jax.tree.flatten(to_numpy(drawn))
    each = (kind.unflatten(draw_) for draw_ in zip(*leaves, strict=True))
    return [
        replace(base, classes=classes, frame=frame, centre=center)
        for classes, frame, center in each
    ]


def drawn_metrics(
    params: GaussianClassesParams, base: LocalMahalanobis
) -> list[LocalMahalanobis]:
    """Compute one metric per draw, Eq. (2), with rule, γ and ε of the base."""
    with jax.enable_x64(np.asarray(params.mean).dtype == np.float64):
        return _each(_whitened(params), to_numpy(base))


def posterior_metrics(
    post: ClassPosterior, seed: int, n_draws: int, *, rule: Rule = "min_norm"
) -> tuple[LocalMahalanobis, list[LocalMahalanobis]]:
    """Compute the predictive metric, Eq. (1), and metrics of draws, Eq. (2)."""
    with jax.enable_x64(True):
        if not n_draws:
            return to_numpy(student_metric(post, rule=rule)), []
        base, drawn = to_numpy(_posterior_metrics(post, seed, n_draws, rule))
    return base, _each(drawn, base)


@partial(
    jax.jit, static_argnames=("n_draws", "rule"), compiler_options=COMPILED_SOONEST
)
def _posterior_metrics(
    post: ClassPosterior, seed: Array, n_draws: int, rule: Rule
) -> tuple[LocalMahalanobis, Whitened]:
    params = draw(jax.random.key(seed), post, n_draws)
    return student_metric(post, rule=rule), _whitened(params)


class LogEuclidean(NamedTuple):
    """Log-Euclidean mean exp(E log A) and spread √(E ‖log A - E log A‖²) over draws."""

    mean: Float[Array, "n d d"]
    spread: Float[Array, "n"]


@numpy_in_numpy_out
@one_program
def log_euclidean(A: Float[Array, "s n d d"]) -> LogEuclidean:
    """Compute the log-Euclidean mean and spread of matrices over draws (axis 0)."""

    def log(M: Array) -> Array:
        values, U = jnp.linalg.eigh(M)
        return jnp.einsum("...ij,...j,...kj->...ik", U, jnp.log(values), U)

    logs = log(jnp.asarray(A))
    middle = jnp.mean(logs, 0)
    values, U = jnp.linalg.eigh(middle)
    mean = jnp.einsum("...ij,...j,...kj->...ik", U, jnp.exp(values), U)
    variance = jnp.mean(jnp.sum((logs - middle) ** 2, (-2, -1)), 0)
    return LogEuclidean(mean, jnp.sqrt(variance))


@numpy_in_numpy_out
@jax.jit
def error_expansion(
    classes: ClassDensities, x: Float[Array, "d"], A: Float[Array, "d d"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Expand the error rate of a nearest neighbor in its squared distance r².

    Returns the error rate at r = 0 and the coefficient of r².

    Parameters
    ----------
    classes : ClassDensities
        The true densities, in the coordinates of x.
    x : array of shape (d,)
    A : array of shape (d, d)
        Matrix of the metric. r is the distance under A scaled to determinant 1.

    Examples
    --------
    Half way between two classes the error rate is 1/2 at any distance:

    >>> import numpy as np
    >>> from probmetric.densities.classes import ClassDensities
    >>> from probmetric.inference import gaussian_classes
    >>> loc, eye = np.array([[[-1.0]], [[1.0]]]), np.ones((2, 1, 1, 1))
    >>> zero = np.zeros((2, 1))
    >>> classes = ClassDensities(np.log([0.5, 0.5]), zero, loc, eye, zero)
    >>> parts = gaussian_classes.error_expansion(classes, np.zeros(1), np.eye(1))
    >>> [round(abs(float(part)), 3) for part in parts]
    [0.5, 0.0]
    """
    log_rho, H = posterior_and_hessians(classes, jnp.asarray(x))
    rho = jnp.exp(log_rho)
    s = jnp.sum(rho**2)
    B = jnp.einsum("c,cij->ij", rho * (s - rho), H)
    values, U = jnp.linalg.eigh(jnp.asarray(A))
    inverse = jnp.exp(jnp.mean(jnp.log(values))) / values
    slope = jnp.sum(jnp.einsum("ia,ij,ja->a", U, B, U) * inverse)
    return 1 - s, slope / (2 * len(x))


@numpy_in_numpy_out
def expected_squared_reach(
    log_density: Float[Array, "*n"] | float, n: int, d: int
) -> Float[Array, "*n"]:
    """Compute E r² of the nearest of n points from the natural log density, Eq. (3).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import gaussian_classes
    >>> reach = gaussian_classes.expected_squared_reach(np.log(0.5), 100, 2)
    >>> round(float(reach), 5)  # 1/(nπp) in two dimensions
    0.00637
    """
    log_ball = 0.5 * d * jnp.log(jnp.pi) - gammaln(0.5 * d + 1.0)
    log_r2 = gammaln(1 + 2 / d) - 2 / d * (jnp.log(n) + log_density + log_ball)
    return jnp.exp(log_r2)


EUCLID = "Euclid"
"""Name of the metric of Eq. (5) without learning."""

LADDER = (EUCLID, float("inf"), 10.0, 3.0, 1.0, 0.3, 0.1, 0.0)
"""Candidates of ``choose_by_folds``, from no learning to most."""

TOLERANCE = 2.0
"""Number of standard errors by which an earlier entry of Eq. (5) may be worse."""


def choose_by_folds(
    learn: Callable[[Int[np.ndarray, "m"]], LocalMahalanobis | None],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
) -> tuple[str | float, Float[np.ndarray, "g"]]:
    """Choose the Euclidean metric or the weight γ, Eq. (5), by cross-validation.

    X are scaled points. ``learn`` returns the local metric of the training rows, or
    None if the metric cannot be fitted. The γ of this metric is not used. The result is
    an entry of ``LADDER``, and the mean held-out log score of every entry.
    """
    parts = list(folds_of(X, codes))
    losses = np.zeros((len(LADDER), len(BANDWIDTHS), len(X)))
    for rows, voters, queries in parts:
        voters = np.sort(voters)
        labels = codes[voters], codes[queries]
        D = cdist(X[queries], X[voters], "sqeuclidean")
        losses[0][:, queries] += vote_losses(D, reach(X[voters]), *labels)
        metric = learn(rows)
        if metric is None:
            losses[1:, :, queries] += np.inf
            continue
        metric = replace(metric, gamma=np.zeros(()))
        local = _local_distances(metric, X, queries)[:, voters]
        Z = (X - metric.centre) @ metric.frame.T
        base, scale = cdist(Z[queries], Z[voters], "sqeuclidean"), reach(Z[voters])
        for at, gamma in enumerate(LADDER[1:], 1):
            share = 1.0 if gamma == np.inf else gamma / (1 + gamma)
            D = share * base + (1 - share) * local
            losses[at][:, queries] += vote_losses(D, scale, *labels)
    points = np.unique(np.concatenate([part.asked for part in parts]))
    times = sum(len(part.asked) for part in parts) / len(points)
    names = [float(place) for place in range(len(LADDER))]
    chosen, means, _ = strongest(losses[:, :, points] / times, names, TOLERANCE)
    return LADDER[int(chosen)], -means


def with_euclids_distance(metric: LocalMahalanobis) -> LocalMahalanobis:
    """Make the Euclidean metric (γ = ∞, frame I) with the densities of ``metric``."""
    frame, classes = metric.frame, metric.classes
    loc = np.linalg.solve(frame, classes.loc[..., None])[..., 0]
    factor = np.tril(np.linalg.solve(frame, classes.factor))
    classes = classes._replace(loc=loc, factor=factor)
    eye, infinite = np.eye(len(frame)), np.asarray(np.inf)
    return replace(metric, classes=classes, frame=eye, gamma=infinite)


def _local_distances(
    metric: LocalMahalanobis, X: Float[np.ndarray, "n d"], rows: Int[np.ndarray, "m"]
) -> Float[np.ndarray, "m n"]:
    """Compute squared distances of ``rows`` to X under D·A/tr A (NaN to itself)."""
    (n, d), (n_tiles, side) = X.shape, bucket(len(X), TILE)
    Q, index = (in_tiles(a, (1, side))[0] for a in (X[rows], rows))
    shared = ready_alone(metric, Q)
    A = np.asarray(shared.matrices)[: len(rows)]
    finite(A, "frame_matrix_at", X[rows])
    parts: list[np.ndarray] = []
    with jax.enable_x64(True):
        for t, P in enumerate(in_tiles(X, (n_tiles, side))):
            D, _ = tile_of(metric, Q, shared, P, n - t * side, index - t * side)
            parts.append(np.asarray(D)[: len(rows)])
    local = np.concatenate(parts, 1)[:, :n]
    return local * (d / np.trace(A, axis1=1, axis2=2))[:, None]
