"""Draws near a fitted LCA with an effect: M, b, the spread, and groups or points.

``laplace_draws`` first draws ω from its grid (``effects.fit``), uniform within a cell.
It then draws (W, log b, effect) from the Gaussian at the mode of that cell. M = WᵀW/τ²
does not change along the rotations ΩW, Ω skew. But a Gaussian that spreads along these
directions leaves the set of rotated maps and inflates M. Let V be the draw of W minus
the mode Ŵ = U S Aᵀ. The component of V along the rotations is removed: with Y = Uᵀ V A,
for each a < b ≤ p,

    Y_ab -= k S_b,  Y_ba += k S_a,    k = (S_b Y_ab - S_a Y_ba)/(S_a² + S_b²).       (1)

``new_groups`` draws the metric of a group without pairs, which has the map W + ωcE. The
distribution of E is invariant to rotations, so W/τ can be any factor L of a draw of M:

    M_new = (L + ωcE/τ)ᵀ (L + ωcE/τ),    τ² = e^{2b/p}.                             (2)

P(same) of points i and j is exp(-((b_i + b_j)/2 + D/2)). For a point j outside the fit,
the intercept b' of Eq. (3) of ``models.point_effects`` averages over b_j in each draw:

    P(same | fitted i, new j) = E[e^{-b_j/2}] exp(-(b_i + D)/2)
                              = exp(-((b_i + b')/2 + D/2)).                        (3)
"""

from collections.abc import Iterable
from typing import Unpack

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float

from probmetric.inference.effects.fit import (
    GROUPS,
    N_GRID,
    Mode,
    Prior,
    SpreadPosterior,
    data_of,
    spread_posterior,
)
from probmetric.inference.effects.profile import drawn_on_grid
from probmetric.inference.effects.recipe import Fitted
from probmetric.inference.effects.target import GROUP_TARGET, POINT_TARGET
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import NutsOrLaplace, careful
from probmetric.inference.sampling.target import (
    Draws,
    Gaussian,
    Posterior,
    Run,
    seed_and_total,
)
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.linalg_scaled import distances
from probmetric.metric import Mahalanobis
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior
from probmetric.models.point_effects import intercept_of_new
from probmetric.typing import Names


def off_rotations(
    W: Float[np.ndarray, "p d"], V: Float[np.ndarray, "s p d"]
) -> Float[np.ndarray, "s p d"]:
    """Return V without the component along the rotations of W, Eq. (1)."""
    U, S, At = np.linalg.svd(W)
    Y = U.T @ V @ At.T
    for a in range(len(W)):
        for b in range(a + 1, len(W)):
            if not S[a] > 0:  # Rotations do not move a map of zeros.
                continue
            k = (S[b] * Y[:, a, b] - S[a] * Y[:, b, a]) / (S[a] ** 2 + S[b] ** 2)
            Y[:, a, b] -= k * S[b]
            Y[:, b, a] += k * S[a]
    return U @ Y @ At


def laplace_draws(
    posterior: SpreadPosterior, prior: Prior, n: int, *, seed: int
) -> dict[str, np.ndarray]:
    """Return n draws (1, n, ...) of M, b, spread, and M_group or (b_point, b_new)."""
    width = float(prior.common.width)
    of_groups = isinstance(prior, HierarchicalLCAPrior)

    def at_mode(
        mode: Mode, omega: float, spread: np.ndarray, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        assert mode.factors is not None  # A cell with probability has a mode.
        R, W = mode.factors.root, np.asarray(mode.at["W"])
        n, m = len(spread), W.size
        noise = rng.normal(size=(n, len(R))) @ R.T
        log_b = mode.at["log_b"] + noise[:, m]
        b, V = np.exp(log_b), noise[:, :m].reshape(n, *W.shape)
        maps = [W + off_rotations(W, V)]
        if of_groups:
            W_groups = np.asarray(mode.params[1])
            E = noise[:, m + 1 :].reshape(n, *W_groups.shape)
            for g, W_g in enumerate(W_groups):
                maps.append(W_g + off_rotations(W_g, V + omega * width * E[:, g]))
        L = np.stack(maps, 1) / np.exp(b / len(W))[:, None, None, None]
        M = np.swapaxes(L, 2, 3) @ L
        if of_groups:
            return {"M": M[:, 0], "M_group": M[:, 1:], "b": b}
        z = mode.at["z"] + noise[:, m + 1 :]
        b_point = np.exp(log_b[:, None] + spread[:, None] * z)
        return {"M": M[:, 0], "b": b, "b_point": b_point}

    values = drawn_on_grid(*posterior, at_mode, n, seed)
    if of_groups:
        return values
    # For all draws at once: cells have different numbers of draws, and shapes compile.
    with jax.enable_x64(True):
        new = np.asarray(intercept_of_new(values["b"], values["spread"]))
    return {**values, "b_new": new}


def start(posterior: SpreadPosterior) -> Gaussian:
    """Return a Gaussian approximation of the posterior, from which NUTS starts.

    The Gaussian is Laplace's approximation given the median ω. In it, log ω is
    independent, with the standard deviation of its grid (at least 0.05).
    """
    middle = int(np.searchsorted(np.cumsum(posterior.probability), 0.5))
    mode, log = posterior.modes[middle], np.log(posterior.spread)
    assert mode.factors is not None  # A cell with probability has a mode.
    mean = posterior.probability @ log
    sd = np.sqrt(posterior.probability @ (log - mean) ** 2)
    root = mode.factors.root
    q, m = len(root), mode.at["W"].size
    R = np.zeros((q + 1, q + 1))
    R[:q, :q], R[q, q] = root, max(float(sd), 0.05)
    # Rows of R are (W, log b, effect, log ω); rows of a position are sorted by name.
    (effect,) = mode.at.keys() - {"W", "log_b"}
    rows = {"W": np.arange(m), "log_b": [m], effect: np.arange(m + 1, q), "spread": [q]}
    order = np.concatenate([rows[name] for name in sorted(rows)])
    return Gaussian({**mode.at, "spread": np.asarray(log[middle])}, R[order])


def grid(fitted: Fitted) -> SpreadPosterior:
    """Return the posterior of ω on a grid near the fit; one point if ω is known."""
    with jax.enable_x64(True):
        return spread_posterior(
            fitted.fit.params,
            fitted.pairs,
            fitted.prior,
            n_groups=fitted.n_groups,
            learning_rate=fitted.learning_rate,
            n_grid=1 if fitted.known else N_GRID,
        )


def draw(
    fitted: Fitted,
    method: NutsOrLaplace | str,
    *,
    scale: Float[np.ndarray, "d"],
    posterior: SpreadPosterior | None = None,
    feature_names: Names | None = None,
    **run: Unpack[Run],
) -> Draws:
    """Draw from the posterior near a fit, with matrices in input units.

    The draws have the metric M, the intercept b, and ``spread``: the standard deviation
    ω of the random effect. With groups they also have M_group, the metric of each
    group. With point effects they also have the intercepts ``b_point`` of the points
    and ``b_new`` of a new point.

    Parameters
    ----------
    fitted : Fitted
        The fit in standardized units: features were divided by ``scale`` (d,).
    method : sampler, or "nuts", "laplace"
        ``Laplace`` draws ω from its posterior on a grid, and the other parameters from
        a Gaussian at each grid point. ``NUTS`` starts at the median of ω. "nuts" is
        ``NUTS(target_accept=0.95)``.
    posterior : SpreadPosterior, optional
        Posterior of ω on a grid. Default: computed by ``spread_posterior``.
    feature_names : sequence of d str, optional
        Names of the features in warnings.
    seed, n_draws, n_chains, progress
        See ``pm.sample``.

    Raises
    ------
    ValueError
        If ``method`` is unknown or its settings are invalid, or if ``method`` is NUTS
        and ω was fixed in the fit.

    Warns
    -----
    SamplingWarning

    Examples
    --------
    With a spread of 0 both groups have the common metric in every draw:

    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.inference import effects
    >>> X = np.array(2 * [[-2.0], [-1.0], [1.0], [2.0]])
    >>> y, groups = np.array(2 * [0, 0, 1, 1]), np.arange(8) // 4
    >>> model = pm.HierarchicalLCA(spread=0.0).fit(X, y, groups)
    >>> options = {"scale": model.scale_, "seed": 0, "n_draws": 10, "n_chains": 1}
    >>> values = effects.draw(model.fitted_, "laplace", **options).values
    >>> M, M_group = values["M"], values["M_group"]
    >>> M_group.shape, round(float(abs(M_group - M[:, :, None]).max()), 9)
    ((1, 10, 2, 1, 1), 0.0)
    """
    sampler = careful(method)
    if fitted.known and isinstance(sampler, NUTS):
        raise ValueError(
            "method must be 'laplace' if the fit has one group or a fixed spread, "
            "got 'nuts'. If the spread is 0, use LCA."
        )
    posterior = grid(fitted) if posterior is None else posterior
    if isinstance(sampler, Laplace):
        seed, n = seed_and_total(**run)
        values = laplace_draws(posterior, fitted.prior, n, seed=seed)
        drawn = Draws(values, {}, {"method": "laplace", "seed": seed})
    else:
        effect, data = data_of(
            fitted.pairs, fitted.prior, fitted.learning_rate, fitted.n_groups
        )
        target, dims = POINT_TARGET, None
        if effect is GROUPS:
            target = GROUP_TARGET
            dims = {"M_group": ("group", "feature", "feature_bis")}
        drawn = sampler.draw(Posterior(target, data, start(posterior)), **run)
        warn_of_trouble(drawn, feature_names=feature_names, dims=dims)
    units = np.outer(scale, scale)
    matrices = {k: v / units for k, v in drawn.values.items() if k in ("M", "M_group")}
    return drawn._replace(values={**drawn.values, **matrices})


def metrics(draws: Draws | xr.DataTree) -> list[Mahalanobis] | None:
    """Return one metric per draw, for a new group or new points, or None."""
    values = joined(draws)
    if {"M", "M_group", "b"} <= values.keys():
        return mahalanobis(values["M"], values["b"])
    if {"M", "b_new"} <= values.keys():
        return mahalanobis(values["M"], values["b_new"])
    return None


def new_groups(
    values: dict[str, np.ndarray],
    *,
    width: float,
    scale: Float[np.ndarray, "d"],
    p: int,
    seed: int,
) -> Float[np.ndarray, "s d d"]:
    """Return the matrix of a new group for each draw of M, b and spread, Eq. (2)."""
    rng = np.random.default_rng(seed)
    L = np.stack([metric.factor[:p] for metric in mahalanobis(values["M"])])
    E = rng.normal(size=L.shape) / scale
    step = width * values["spread"] / np.exp(values["b"] / p)
    L = L + step[:, None, None] * E
    return np.swapaxes(L, 1, 2) @ L


def averaged(
    M: Float[np.ndarray, "s d d"],
    intercepts: Iterable[Float[np.ndarray, "N"] | float],
    a: Float[np.ndarray, "N d"],
    b: Float[np.ndarray, "N d"],
) -> Float[np.ndarray, "N"]:
    """Average P(same) = exp(-(intercept + D/2)) of pairs over draws."""
    total = np.zeros(len(a))
    for metric, intercept in zip(mahalanobis(M), intercepts, strict=True):
        distance = distances(np.asarray(metric.factor), a, b, "pairs")
        with np.errstate(over="ignore"):  # An infinite square gives P = 0.
            total += np.exp(-(intercept + 0.5 * distance**2))
    return total / len(M)
