"""Draws near a fitted LCA with an effect: M, b, the spread, and groups or points.

``laplace_draws`` draws ω from its grid (``effects.fit``), uniform within a cell, then
(W, log b, effect) from the Gaussian at the mode of that cell. M = WᵀW/τ² does not
change along the rotations ΩW, Ω skew, but a Gaussian that spreads along them leaves the
orbit and inflates M. So the component along the rotations is removed from V, the draw
of W minus the mode Ŵ = U S Aᵀ. With Y = Uᵀ V A, for each a < b ≤ p,

    Y_ab -= k S_b,  Y_ba += k S_a,    k = (S_b Y_ab - S_a Y_ba)/(S_a² + S_b²).       (1)

``new_groups`` draws the metric of a group without pairs, which has the map W + ωcE. A
rotation of W rotates this map, because the distribution of E is invariant. So with any
factor L of a draw of M,

    M_new = (L + ωcE/τ)ᵀ (L + ωcE/τ),    τ² = e^{2b/p}.                             (2)

P(same) of points i and j is exp(-((b_i + b_j)/2 + D/2)). For a point outside the fit,
b' of Eq. (3) of ``models.point_effects`` is used in each draw:

    P(same | fitted i, new j) = E[e^{-b_j/2}] exp(-(b_i + D)/2)
                              = exp(-((b_i + b')/2 + D/2)).                        (3)
"""

from typing import TYPE_CHECKING, Literal

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from probmetric.inference.effects.fit import (
    GROUPS,
    N_GRID,
    POINTS,
    Mode,
    SpreadPosterior,
    group_data,
    point_data,
    posterior_on_grid,
)
from probmetric.inference.effects.profile import drawn_on_grid
from probmetric.inference.effects.recipe import Fitted
from probmetric.inference.effects.target import GROUP_TARGET, POINT_TARGET, start
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import sampler_of
from probmetric.inference.sampling.target import Draws, Posterior, counts
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.linalg_scaled import distances
from probmetric.metric import Link, Mahalanobis
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior
from probmetric.models.point_effects import intercept_of_new
from probmetric.typing import Names

if TYPE_CHECKING:
    Method = Literal["nuts", "laplace"] | NUTS | Laplace
else:
    Method = object

TARGET_ACCEPT = 0.95
"""Acceptance of "nuts": the posterior of ω and the effects is a funnel."""

GROUPED = {"M_group": ("group", "feature", "feature_bis")}


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


def _noise(mode: Mode, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n q"]:
    """Draw n times (W, log b, effect) minus its mode."""
    assert mode.factors is not None  # A cell with probability has a mode.
    R = mode.factors.root
    return rng.normal(size=(n, len(R))) @ R.T


def group_laplace_draws(
    posterior: SpreadPosterior, width: float, n: int, *, seed: int
) -> dict[str, np.ndarray]:
    """Return n draws (1, n, ...) of M, M_group, b and spread from the grid of ω.

    ``width`` is c, the unit of the spread.
    """

    def at_mode(
        mode: Mode, omega: float, spread: np.ndarray, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        n = len(spread)
        W, W_groups = np.asarray(mode.params[0]), np.asarray(mode.params[1])
        noise = _noise(mode, n, rng)
        m = W.size
        b = np.exp(mode.at["log_b"] + noise[:, m])
        V = noise[:, :m].reshape(n, *W.shape)
        E = noise[:, m + 1 :].reshape(n, *W_groups.shape)
        maps = [W + off_rotations(W, V)]
        for g, W_g in enumerate(W_groups):
            maps.append(W_g + off_rotations(W_g, V + omega * width * E[:, g]))
        L = np.stack(maps, 1) / np.exp(b / len(W))[:, None, None, None]
        M = np.swapaxes(L, 2, 3) @ L
        return {"M": M[:, 0], "M_group": M[:, 1:], "b": b}

    return drawn_on_grid(*posterior, at_mode, n, seed)


def laplace_draws(
    found: SpreadPosterior, n: int, *, seed: int
) -> dict[str, np.ndarray]:
    """Return n draws (1, n, ...) of M, b, b_point, b_new and spread from the grid.

    Parameters
    ----------
    found : SpreadPosterior
        From ``point_effects.spread_posterior``.
    n : int
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import point_effects
    >>> from probmetric.models.lca import LCAPrior
    >>> from probmetric.models.point_effects import PointEffectsPrior
    >>> i, j, y = np.array([[0, 0, 1, 3, 3], [1, 2, 2, 1, 2], [1, 0, 0, 1, 0]])
    >>> pairs = Pairs(np.zeros((4, 1)), i, j, y)
    >>> prior = PointEffectsPrior(LCAPrior(np.eye(1)))
    >>> params = point_effects.fit(pairs, prior, spread=1.0).params
    >>> problem = params, point_effects.rows_of(pairs), prior
    >>> posterior = point_effects.spread_posterior(*problem, n_grid=5)
    >>> draws = point_effects.laplace_draws(posterior, 200, seed=0)
    >>> b = np.median(draws["b_point"], axis=(0, 1))
    >>> b.shape, int(b.argmax())  # No pair of point 2 was called the same.
    ((4,), 2)
    """

    def at_mode(
        mode: Mode, omega: float, spread: np.ndarray, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        n, W = len(spread), np.asarray(mode.at["W"])
        noise = _noise(mode, n, rng)
        m = W.size
        log_b = mode.at["log_b"] + noise[:, m]
        z = mode.at["z"] + noise[:, m + 1 :]
        V = off_rotations(W, noise[:, :m].reshape(n, *W.shape))
        L = (W + V) / np.exp(np.exp(log_b) / len(W))[:, None, None]
        b_point = np.exp(log_b[:, None] + spread[:, None] * z)
        return {"M": np.swapaxes(L, 1, 2) @ L, "b": np.exp(log_b), "b_point": b_point}

    values = drawn_on_grid(*found, at_mode, n, seed)
    # For all draws at once: cells have different numbers of draws, and shapes compile.
    new = np.asarray(intercept_of_new(values["b"], values["spread"]))
    return {**values, "b_new": new}


def grid(fitted: Fitted) -> SpreadPosterior:
    """Return the posterior of ω on a grid near the fit; one point if ω is known."""
    n_grid = 1 if fitted.known else N_GRID
    params, pairs, prior = fitted.fit.params, fitted.pairs, fitted.prior
    with jax.enable_x64(True):
        if isinstance(prior, HierarchicalLCAPrior):
            data = group_data(pairs, prior, fitted.learning_rate, fitted.n_groups)
            return posterior_on_grid(GROUPS, params, data, n_grid=n_grid)
        data = point_data(pairs, prior, fitted.learning_rate)
        return posterior_on_grid(POINTS, params, data, n_grid=n_grid)


def draw(
    fitted: Fitted,
    method: Method,
    *,
    scale: Float[np.ndarray, "d"],
    seed: int,
    n_draws: int = 1000,
    n_chains: int | None = None,
    progress: bool | None = None,
    found: SpreadPosterior | None = None,
    feature_names: Names | None = None,
) -> Draws:
    """Draw from the posterior near a fit, with matrices in input units.

    The draws have M, b and spread. With groups they also have M_group. With point
    effects they also have b_point and b_new.

    Parameters
    ----------
    fitted : Fitted
        The fit in standardized units: features were divided by ``scale`` (d,).
    method : sampler, or "nuts", "laplace"
        ``Laplace`` uses the grid of ω with a Gaussian at each grid point. ``NUTS``
        starts at the median of ω. "nuts" is ``NUTS(target_accept=0.95)``.
    seed, n_draws, n_chains, progress
        See ``pm.sample``.
    found : SpreadPosterior, optional
        The result of ``grid(fitted)``. Default: it is computed.
    feature_names : sequence of d str, optional
        Names of the features in warnings.

    Raises
    ------
    ValueError
        If the method is unknown, or is NUTS and the spread is known. See also the
        sampler.

    Warns
    -----
    SamplingWarning

    Examples
    --------
    With a spread of 0 both groups have the common metric in every draw:

    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.inference import hierarchical_lca, point_effects
    >>> X = np.array(2 * [[-2.0], [-1.0], [1.0], [2.0]])
    >>> y, groups = np.array(2 * [0, 0, 1, 1]), np.arange(8) // 4
    >>> model = pm.HierarchicalLCA(spread=0.0).fit(X, y, groups)
    >>> options = {"scale": model.scale_, "seed": 0, "n_draws": 10, "n_chains": 1}
    >>> values = hierarchical_lca.draw(model.fitted_, "laplace", **options).values
    >>> M, M_group = values["M"], values["M_group"]
    >>> M_group.shape, round(float(abs(M_group - M[:, :, None]).max()), 9)
    ((1, 10, 2, 1, 1), 0.0)

    Four points in four judged pairs:

    >>> X, y = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([1, 1, 0, 0])
    >>> pairs = np.array([[0, 1], [2, 3], [0, 2], [1, 3]])  # Rows of X
    >>> model = pm.PointEffectsLCA(spread=1.0, preprocessor=X).fit_pairs(pairs, y)
    >>> options = {"scale": model.scale_, "seed": 0, "n_draws": 50}
    >>> values = point_effects.draw(model.fitted_, "laplace", **options).values
    >>> values["M"].shape, bool((values["spread"] == 1.0).all())  # Known: one mode
    ((1, 50, 1, 1), True)
    """
    sampler = sampler_of(method, (NUTS, Laplace))
    if isinstance(method, str) and isinstance(sampler, NUTS):
        sampler = NUTS(target_accept=TARGET_ACCEPT)
    if fitted.known and isinstance(sampler, NUTS):
        raise ValueError(
            "method must be 'laplace' if the spread is known or there is one group, "
            "got 'nuts'. If the spread is 0, use LCA."
        )
    found = grid(fitted) if found is None else found
    prior, rate = fitted.prior, fitted.learning_rate
    if isinstance(sampler, Laplace):
        n_draws, n_chains = counts(n_draws, n_chains)
        n = n_draws * n_chains
        if isinstance(prior, HierarchicalLCAPrior):
            values = group_laplace_draws(found, float(prior.common.width), n, seed=seed)
        else:
            with jax.enable_x64(True):
                values = laplace_draws(found, n, seed=seed)
        drawn = Draws(values, {}, {"method": "laplace", "seed": seed})
    else:
        if isinstance(prior, HierarchicalLCAPrior):
            data = group_data(fitted.pairs, prior, rate, fitted.n_groups)
            posterior, dims = Posterior(GROUP_TARGET, data, start(found)), GROUPED
        else:
            data = point_data(fitted.pairs, prior, rate)
            posterior, dims = Posterior(POINT_TARGET, data, start(found)), None
        drawn = sampler.draw(
            posterior,
            seed=seed,
            n_draws=n_draws,
            n_chains=n_chains,
            progress=progress,
        )
        warn_of_trouble(
            drawn.values,
            drawn.statistics,
            drawn.attributes,
            feature_names=feature_names,
            dims=dims,
        )
    units = np.outer(scale, scale)
    matrices = {k: v / units for k, v in drawn.values.items() if k in ("M", "M_group")}
    return drawn._replace(values={**drawn.values, **matrices})


def group_metrics(draws: Draws | xr.DataTree) -> list[Mahalanobis] | None:
    """Return the common metric of each draw, with P(same); None for other models."""
    values = joined(draws)
    if not {"M_group", "b"} <= values.keys():
        return None
    return mahalanobis(values["M"], values["b"])


def point_metrics(draws: Draws | xr.DataTree) -> list[Mahalanobis] | None:
    """Return one metric per draw, with P(same) of new points; None for other models."""
    values = joined(draws)
    if not {"M", "b_new"} <= values.keys():
        return None
    return mahalanobis(values["M"], values["b_new"])


def new_groups(
    values: dict[str, np.ndarray],
    *,
    width: float,
    scale: Float[np.ndarray, "d"],
    p: int,
    seed: int,
) -> Float[np.ndarray, "s d d"]:
    """Return the matrix of a new group for each draw, Eq. (2).

    Parameters
    ----------
    values : dict of arrays of shape (s, ...)
        Draws of M, b and spread, in input units.
    width : float
        c, the unit of the spread.
    scale : array of shape (d,)
        Scales by which the features were divided.
    p : int
        Number of rows of the map.
    seed : int
    """
    rng = np.random.default_rng(seed)
    L = np.stack([metric.factor[:p] for metric in mahalanobis(values["M"])])
    E = rng.normal(size=L.shape) / scale
    step = width * values["spread"] / np.exp(values["b"] / p)
    L = L + step[:, None, None] * E
    return np.swapaxes(L, 1, 2) @ L


def group_probability(
    metrics: list[Mahalanobis],
    a: Float[np.ndarray, "N d"],
    b: Float[np.ndarray, "N d"],
) -> Float[np.ndarray, "N"]:
    """Return P(same) of pairs (a, b), averaged over metrics with the link of LCA."""
    total = np.zeros(len(a))
    for metric in metrics:
        assert isinstance(metric.link, Link)
        distance = distances(np.asarray(metric.factor), a, b, "pairs")
        with np.errstate(over="ignore"):  # An infinite square gives P = 0.
            total += np.exp(-(metric.link.b + 0.5 * distance**2))
    return total / len(metrics)


def point_probability(
    values: dict[str, np.ndarray],
    a: Float[np.ndarray, "N d"],
    b: Float[np.ndarray, "N d"],
    i: Int[np.ndarray, "N"],
    j: Int[np.ndarray, "N"],
) -> Float[np.ndarray, "N"]:
    """Return P(same) of pairs (a, b), averaged over draws (Eq. 3).

    ``i`` and ``j`` are indices of fitted points; -1 is a new point.
    """
    total = np.zeros(len(a))
    draws = zip(
        mahalanobis(values["M"]), values["b_point"], values["b_new"], strict=True
    )
    for metric, b_point, b_new in draws:
        b_of = np.append(b_point, b_new)
        distance = distances(np.asarray(metric.factor), a, b, "pairs")
        with np.errstate(over="ignore"):  # An infinite square gives P = 0.
            total += np.exp(-0.5 * (b_of[i] + b_of[j] + distance**2))
    return total / len(values["M"])
