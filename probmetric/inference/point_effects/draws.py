"""Draws around a fitted LCA with point effects: M, b, b of points, the spread.

``laplace`` draws ω from its grid (``spread_posterior``), uniform within a cell, then
(W, log b, z) from the Gaussian at the mode of that cell, without its part along the
rotations of W (``hierarchical_lca.draws``). ``nuts`` is the posterior's.

P(same) of points i and j is exp(-((b_i + b_j)/2 + D/2)); of a point that was not
fitted b_i is b' of Eq. (3) of ``models.point_effects``, in each draw:

    P(same | known i, new j) = E[e^{-b_j/2}] exp(-(b_i + D)/2)
                             = exp(-((b_i + b')/2 + D/2)).                         (1)
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from probmetric.inference.hierarchical_lca.draws import off_rotations
from probmetric.inference.point_effects.fit import (
    N_GRID,
    Mode,
    SpreadPosterior,
    spread_posterior,
)
from probmetric.inference.point_effects.likelihood import rows_of
from probmetric.inference.point_effects.recipe import Fitted
from probmetric.inference.point_effects.target import TARGET, start
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import sampler_of
from probmetric.inference.sampling.target import Draws, Posterior, counts
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.inference.solvers.profile import drawn_on_grid
from probmetric.linalg_scaled import distances
from probmetric.metric import Mahalanobis
from probmetric.models.point_effects import intercept_of_new
from probmetric.typing import Names

TARGET_ACCEPT = 0.95
"""Of "nuts": at small ω the effects are free, at large ones bound."""


def _at_mode(
    mode: Mode, spread: Float[np.ndarray, "n"], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw from the Gaussian at one mode, once for each ω."""
    n = len(spread)
    W, R = np.asarray(mode.at["W"]), mode.root
    noise = rng.normal(size=(n, len(R))) @ R.T
    m = W.size
    log_b = mode.at["log_b"] + noise[:, m]
    z = mode.at["z"] + noise[:, m + 1 :]
    V = off_rotations(W, noise[:, :m].reshape(n, *W.shape))
    L = (W + V) / np.exp(np.exp(log_b) / len(W))[:, None, None]
    b_point = np.exp(log_b[:, None] + spread[:, None] * z)
    return {"M": np.swapaxes(L, 1, 2) @ L, "b": np.exp(log_b), "b_point": b_point}


def laplace_draws(found: SpreadPosterior, n: int, *, seed: int) -> dict[str, Any]:
    """Return n draws (1, n, ...) of M, b, b_point, b_new and spread, by the grid of ω.

    Parameters
    ----------
    found : SpreadPosterior
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
    >>> found = point_effects.spread_posterior(*problem, n_grid=5)
    >>> drawn = point_effects.laplace_draws(found, 200, seed=0)
    >>> b = np.median(drawn["b_point"], axis=(0, 1))
    >>> b.shape, int(b.argmax())  # No pair of point 2 was called the same.
    ((4,), 2)
    """
    values = drawn_on_grid(
        *found, lambda mode, _, own, rng: _at_mode(mode, own, rng), n, seed
    )
    # Of all draws at once: each place of the grid has another number of them.
    new = np.asarray(intercept_of_new(values["b"], values["spread"]))
    return {**values, "b_new": new}


def grid(fitted: Fitted) -> SpreadPosterior:
    """Return the posterior of ω around a fit, on its grid; one point where known."""
    with jax.enable_x64(True):
        return spread_posterior(
            fitted.fit.params,
            rows_of(fitted.pairs, fitted.learning_rate),
            fitted.prior,
            n_grid=1 if fitted.known else N_GRID,
        )


def draw(
    fitted: Fitted,
    method: Any,
    *,
    scale: Float[np.ndarray, "d"],
    seed: int,
    n_draws: int = 1000,
    n_chains: int | None = None,
    progress: bool | None = None,
    found: SpreadPosterior | None = None,
    feature_names: Names | None = None,
) -> Draws:
    """Draw M, b, b_point, b_new and spread around a fit, M in input units.

    Parameters
    ----------
    fitted : Fitted
        In standardised units; features were divided by ``scale`` (d,).
    method : sampler, or "nuts", "laplace"
        ``Laplace`` is the grid of ω with Gaussians; ``NUTS`` starts at its median. By
        name it is ``NUTS(target_accept=0.95)``.
    seed : int
    n_draws : int, default=1000
    n_chains : int, optional
        Default: 4 for NUTS, otherwise 1.
        ``Laplace`` makes ``n_chains * n_draws`` independent draws, in one chain.
    progress : bool, optional
        Default: a bar in terminals and notebooks, elsewhere a line every 10 s.
    found : SpreadPosterior, optional
        ``grid(fitted)``, where it is at hand.
    feature_names : sequence of d str, optional
        What warnings call the features.

    Raises
    ------
    ValueError
        An unknown method, and as the samplers.

    Warns
    -----
    SamplingWarning

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.inference import point_effects
    >>> X, y = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([1, 1, 0, 0])
    >>> pairs = np.array([[0, 1], [2, 3], [0, 2], [1, 3]])  # Rows of X
    >>> model = pm.PointEffectsLCA(spread=1.0, preprocessor=X).fit_pairs(pairs, y)
    >>> options = {"scale": model.scale_, "seed": 0, "n_draws": 50}
    >>> values = point_effects.draw(model.fitted_, "laplace", **options).values
    >>> values["M"].shape, bool((values["spread"] == 1.0).all())  # Known: one mode
    ((1, 200, 1, 1), True)
    """
    sampler: Any = sampler_of(method, (NUTS, Laplace))
    if isinstance(method, str) and isinstance(sampler, NUTS):
        sampler = NUTS(target_accept=TARGET_ACCEPT)
    if fitted.known and isinstance(sampler, NUTS):
        raise ValueError(
            "method: expected 'laplace' where the spread is given (at 0 LCA has NUTS "
            "for that model), got 'nuts', which draws it"
        )
    found = grid(fitted) if found is None else found
    if isinstance(sampler, Laplace):
        n_draws, n_chains = counts(n_draws, n_chains)
        with jax.enable_x64(True):
            values = laplace_draws(found, n_draws * n_chains, seed=seed)
        drawn = Draws(values, {}, {"method": "laplace", "seed": seed})
    else:
        rows = rows_of(fitted.pairs, fitted.learning_rate)
        prior = jax.tree.map(lambda v: np.asarray(v, float), fitted.prior)
        drawn = sampler.draw(
            Posterior(TARGET, (rows, prior), start(found)),
            seed=seed,
            n_draws=n_draws,
            n_chains=n_chains,
            progress=progress,
        )
        of = drawn.statistics, drawn.attributes
        warn_of_trouble(drawn.values, *of, feature_names=feature_names)
    M = drawn.values["M"] / np.outer(scale, scale)
    return drawn._replace(values={**drawn.values, "M": M})


def metrics(draws: Draws | xr.DataTree) -> list[Mahalanobis] | None:
    """Return a metric a draw, with P(same) of two new points; None for other draws."""
    values = joined(draws)
    if not {"M", "b_new"} <= values.keys():
        return None
    return mahalanobis(values["M"], values["b_new"])


def averaged(
    values: dict[str, np.ndarray],
    a: Float[np.ndarray, "N d"],
    b: Float[np.ndarray, "N d"],
    i: Int[np.ndarray, "N"],
    j: Int[np.ndarray, "N"],
) -> Float[np.ndarray, "N"]:
    """Return P(same) of pairs (a, b), averaged over draws (Eq. 1).

    ``i`` and ``j`` are the places of their points among those fitted, -1 for new ones.
    """
    total = np.zeros(len(a))
    each = zip(
        mahalanobis(values["M"]), values["b_point"], values["b_new"], strict=True
    )
    for metric, known, new in each:
        b_of = np.append(known, new)
        distance = distances(np.asarray(metric.factor), a, b, "pairs")
        with np.errstate(over="ignore"):  # Of an infinite square P is the right 0.
            total += np.exp(-0.5 * (b_of[i] + b_of[j] + distance**2))
    return total / len(values["M"])
