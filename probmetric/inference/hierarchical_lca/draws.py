"""Draws around a fitted hierarchical LCA: M, M_group, b and the spread.

``laplace`` draws ω from its grid (``spread_posterior``), uniform within a cell, then
(W, log b, E) from the Gaussian at the mode of that cell. M_g = W_gᵀW_g/τ² does not
change along the rotations ΩW_g, Ω skew, but a Gaussian that spreads along them leaves
the orbit and inflates M_g. So from V, what is drawn of W_g less its mode Ŵ = U S Aᵀ,
that part is taken away: in Y = Uᵀ V A, for each a < b ≤ p,

    Y_ab -= k S_b,  Y_ba += k S_a,    k = (S_b Y_ab - S_a Y_ba)/(S_a² + S_b²).       (1)

``new_groups`` draws the metric of a group of which there are no pairs. Its map is
W + ωcE; turning W turns it, as the law of E does not change, so with any factor L of
a draw of M

    M_new = (L + ωcE/τ)ᵀ (L + ωcE/τ),    τ² = e^{2b/p}.                             (2)
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float

from probmetric.inference.hierarchical_lca.evidence import root
from probmetric.inference.hierarchical_lca.fit import (
    N_GRID,
    Mode,
    SpreadPosterior,
    spread_posterior,
)
from probmetric.inference.hierarchical_lca.likelihood import stacked
from probmetric.inference.hierarchical_lca.recipe import Fitted
from probmetric.inference.hierarchical_lca.target import TARGET, start
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import sampler_of
from probmetric.inference.sampling.target import Draws, Posterior, counts
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.inference.solvers.profile import drawn_on_grid
from probmetric.linalg_scaled import distances
from probmetric.metric import Mahalanobis
from probmetric.typing import Names

TARGET_ACCEPT = 0.95
"""Of "nuts": where groups tell their maps well ω and E are tightly bound together."""


def off_rotations(
    W: Float[np.ndarray, "p d"], V: Float[np.ndarray, "s p d"]
) -> Float[np.ndarray, "s p d"]:
    """Return V without its part along the rotations of W, Eq. (1)."""
    U, S, At = np.linalg.svd(W)
    Y = U.T @ V @ At.T
    for a in range(len(W)):
        for b in range(a + 1, len(W)):
            if not S[a] > 0:  # No rotation moves what is zero.
                continue
            k = (S[b] * Y[:, a, b] - S[a] * Y[:, b, a]) / (S[a] ** 2 + S[b] ** 2)
            Y[:, a, b] -= k * S[b]
            Y[:, b, a] += k * S[a]
    return U @ Y @ At


def _at_mode(
    mode: Mode, n: int, step: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw n times from the Gaussian at one mode; step is ωc."""
    assert mode.factors is not None
    W, W_groups = np.asarray(mode.params.W), np.asarray(mode.params.W_groups)
    R = root(mode.factors)
    noise = rng.normal(size=(n, len(R))) @ R.T
    m = W.size
    b = np.exp(mode.at["log_b"] + noise[:, m])
    V = noise[:, :m].reshape(n, *W.shape)
    E = noise[:, m + 1 :].reshape(n, *W_groups.shape)
    maps = [W + off_rotations(W, V)]
    for g, W_g in enumerate(W_groups):
        maps.append(W_g + off_rotations(W_g, V + step * E[:, g]))
    L = np.stack(maps, 1) / np.exp(b / len(W))[:, None, None, None]
    M = np.swapaxes(L, 2, 3) @ L
    return {"M": M[:, 0], "M_group": M[:, 1:], "b": b}


def laplace_draws(
    found: SpreadPosterior, width: float, n: int, *, seed: int
) -> dict[str, np.ndarray]:
    """Return n draws (1, n, ...) of M, M_group, b and spread, by the grid of ω.

    Parameters
    ----------
    found : SpreadPosterior
    width : float
        c, the unit of the spread.
    n : int
    seed : int
    """
    return drawn_on_grid(
        *found,
        lambda mode, at, own, rng: _at_mode(mode, len(own), at * width, rng),
        n,
        seed,
    )


def grid(fitted: Fitted) -> SpreadPosterior:
    """Return the posterior of ω around a fit, on its grid; one point where known."""
    with jax.enable_x64(True):
        stats = stacked(fitted.pairs, fitted.n_groups)
        return spread_posterior(
            fitted.fit.params,
            stats,
            fitted.prior,
            fitted.learning_rate,
            n_grid=1 if fitted.known else N_GRID,
        )


GROUPED = {"M_group": ("group", "feature", "feature_bis")}


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
    """Draw M, M_group, b and spread around a fit, the matrices in input units.

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
    With a spread of 0 both groups have the common metric in every draw:

    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.inference import hierarchical_lca
    >>> X = np.array(2 * [[-2.0], [-1.0], [1.0], [2.0]])
    >>> y, groups = np.array(2 * [0, 0, 1, 1]), np.arange(8) // 4
    >>> model = pm.HierarchicalLCA(spread=0.0).fit(X, y, groups)
    >>> how = {"scale": model.scale_, "seed": 0, "n_draws": 10, "n_chains": 1}
    >>> drawn = hierarchical_lca.draw(model.fitted_, "laplace", **how).values
    >>> M, M_group = drawn["M"], drawn["M_group"]
    >>> M_group.shape, round(float(abs(M_group - M[:, :, None]).max()), 9)
    ((1, 10, 2, 1, 1), 0.0)
    """
    sampler: Any = sampler_of(method, (NUTS, Laplace))
    if isinstance(method, str) and isinstance(sampler, NUTS):
        sampler = NUTS(target_accept=TARGET_ACCEPT)
    if fitted.known and isinstance(sampler, NUTS):
        raise ValueError(
            "method: expected 'laplace' where the spread is given, or 0 as there is "
            "one group (LCA has NUTS for that model), got 'nuts', which draws it"
        )
    found = grid(fitted) if found is None else found
    if isinstance(sampler, Laplace):
        n_draws, n_chains = counts(n_draws, n_chains)
        width = float(fitted.prior.common.width)
        values = laplace_draws(found, width, n_draws * n_chains, seed=seed)
        drawn = Draws(values, {}, {"method": "laplace", "seed": seed})
    else:
        stats = stacked(fitted.pairs, fitted.n_groups)
        prior = jax.tree.map(lambda v: np.asarray(v, stats.T.dtype), fitted.prior)
        data = (stats, prior, np.asarray(fitted.learning_rate))
        drawn = sampler.draw(
            Posterior(TARGET, data, start(found)),
            seed=seed,
            n_draws=n_draws,
            n_chains=n_chains,
            progress=progress,
        )
        of = drawn.statistics, drawn.attributes
        warn_of_trouble(drawn.values, *of, feature_names=feature_names, dims=GROUPED)
    units = np.outer(scale, scale)
    both = {name: drawn.values[name] / units for name in ("M", "M_group")}
    return drawn._replace(values={**drawn.values, **both})


def metrics(draws: Draws | xr.DataTree) -> list[Mahalanobis] | None:
    """Return the common metric of each draw, with P(same); None for other draws."""
    values = joined(draws)
    if "M_group" not in values or "b" not in values:
        return None
    return mahalanobis(values["M"], values["b"])


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
        What features were divided by.
    p : int
        Rows of the map.
    seed : int
    """
    rng = np.random.default_rng(seed)
    L = np.stack([metric.factor[:p] for metric in mahalanobis(values["M"])])
    E = rng.normal(size=L.shape) / scale
    step = width * values["spread"] / np.exp(values["b"] / p)
    L = L + step[:, None, None] * E
    return np.swapaxes(L, 1, 2) @ L


def averaged(
    each: list[Mahalanobis],
    a: Float[np.ndarray, "N d"],
    b: Float[np.ndarray, "N d"],
) -> Float[np.ndarray, "N"]:
    """Return exp(-(b + ½ dist²)) of pairs (a, b), averaged over metrics that have b."""
    total = np.zeros(len(a))
    for metric in each:
        link: Any = metric.link
        distance = distances(np.asarray(metric.factor), a, b, "pairs")
        with np.errstate(over="ignore"):  # Of an infinite square P is the right 0.
            total += np.exp(-(link.b + 0.5 * distance**2))
    return total / len(each)
