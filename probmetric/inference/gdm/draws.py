"""Draws of the generalised dissimilarity model: by name, and as metrics.

``nuts``, ``laplace``
    of the posterior (Eq. 1 of ``gdm.target``): the units of a pair, and the pairs,
    taken as independent.
``bootstrap``
    fits under weights on sites (``gdm.bootstrap``): what other sites would give; on
    pairs that share none.
"""

import json
from typing import Any

import numpy as np
import xarray as xr

from probmetric.data.containers import Pairs
from probmetric.inference.gdm.bootstrap import refits, site_weights, units_of
from probmetric.inference.gdm.likelihood import padded, rows_of
from probmetric.inference.gdm.target import TARGET, start
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.metrics import joined
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import sampler_of
from probmetric.inference.sampling.target import Draws, Posterior, counts
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.metric import SplineCityBlock
from probmetric.models.gdm import GDMParams, GDMPrior, height, to_metric

TARGET_ACCEPT = 0.95
"""Of NUTS by name: heights near 0 have long tails on the log scale."""


def posterior(
    params: GDMParams, pairs: Pairs, prior: GDMPrior, *, learning_rate: float = 1.0
) -> Posterior:
    """Return what samplers draw from, started at Laplace's Gaussian.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import gdm
    >>> from probmetric.models.gdm import GDMPrior
    >>> i, j, y = np.array([[0, 0, 1], [1, 2, 2], [1, 0, 1]])
    >>> pairs = Pairs(np.array([[0.0], [1.0], [2.0]]), i, j, y)
    >>> prior = GDMPrior(gdm.knots_for(pairs.X))
    >>> params = gdm.fit(pairs, prior).params
    >>> sorted(gdm.posterior(params, pairs, prior).start.mean)
    ['log_b', 'log_theta']
    """
    rows = padded(rows_of(pairs, params.knots, learning_rate))
    prior = GDMPrior(*(np.asarray(v, float) for v in prior))
    return Posterior(TARGET, (rows, prior), start(params, rows, prior))


def draw(
    params: GDMParams,
    pairs: Pairs,
    prior: GDMPrior,
    method: Any = "nuts",
    *,
    learning_rate: float = 1.0,
    seed: int = 0,
    n_draws: int = 1000,
    n_chains: int | None = None,
    progress: bool | None = None,
) -> Draws:
    """Draw b, heights of I-splines θ and heights of curves, around a fit.

    Parameters
    ----------
    params, pairs, prior, learning_rate
        The fit and its problem; for the bootstrap points of pairs are sites, each
        there once.
    method : sampler, or "nuts", "laplace", "bootstrap"; default="nuts"
        By name NUTS is ``NUTS(target_accept=0.95)``. Laplace and the bootstrap make
        ``n_draws * n_chains`` independent draws, in one chain.
    seed, n_draws, n_chains, progress
        As of ``pm.sample``.

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
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import gdm
    >>> from probmetric.models.gdm import GDMPrior
    >>> i, j, y = np.array([[0, 0, 1], [1, 2, 2], [1, 0, 1]])
    >>> pairs = Pairs(np.array([[0.0], [1.0], [2.0]]), i, j, y)
    >>> prior = GDMPrior(gdm.knots_for(pairs.X))
    >>> params = gdm.fit(pairs, prior).params
    >>> drawn = gdm.draw(params, pairs, prior, "bootstrap", n_draws=5, n_chains=1)
    >>> drawn.values["theta"].shape, drawn.attributes["method"]
    ((1, 5, 1, 3), 'bootstrap')
    """
    if isinstance(method, str) and method == "bootstrap":
        drawn = _bootstrap(params, pairs, prior, learning_rate, seed, n_draws, n_chains)
    else:
        sampler: Any = sampler_of(method, (NUTS, Laplace))
        if isinstance(method, str) and isinstance(sampler, NUTS):
            sampler = NUTS(target_accept=TARGET_ACCEPT)
        target = posterior(params, pairs, prior, learning_rate=learning_rate)
        size: Any = {"n_draws": n_draws, "n_chains": n_chains, "progress": progress}
        drawn = sampler.draw(target, seed=seed, **size)
        warn_of_trouble(drawn.values, drawn.statistics, drawn.attributes)
    knots = json.dumps(np.asarray(params.knots, float).tolist())
    return drawn._replace(attributes={**drawn.attributes, "knots": knots})


def _bootstrap(
    params: GDMParams,
    pairs: Pairs,
    prior: GDMPrior,
    learning_rate: float,
    seed: int,
    n_draws: int,
    n_chains: int | None,
) -> Draws:
    n_draws, n_chains = counts(n_draws, n_chains)
    unit = units_of(pairs)
    n = int(unit.max()) + 1
    power = 1.0 if n == len(unit) else 0.5  # Of a pair: its two ends share its weight.
    each = (site_weights(n, k, seed)[unit] for k in range(n_draws * n_chains))
    u = (weight**power for weight in each)
    found = refits(pairs, prior, params, u, learning_rate=learning_rate)
    values: dict[str, Any] = {
        "b": found.b,
        "theta": found.theta,
        "height": height(found.theta, found.knots),
    }
    values = {name: np.asarray(value)[None] for name, value in values.items()}
    return Draws(values, {}, {"method": "bootstrap", "seed": seed})


def metrics(draws: Draws | xr.DataTree) -> list[SplineCityBlock] | None:
    """Return one metric a draw; None where these are draws of something else.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import gdm
    >>> from probmetric.inference.sampling import Draws
    >>> values = {"b": np.zeros((1, 1)), "theta": np.ones((1, 1, 1, 2))}
    >>> draws = Draws(values, {}, {"knots": "[[0.0, 1.0]]"})
    >>> [metric(np.zeros(1), np.ones(1)) for metric in gdm.metrics(draws)]
    [2.0]
    """
    attributes = draws.attributes if isinstance(draws, Draws) else draws.attrs
    values = joined(draws)
    if "theta" not in values or "knots" not in attributes:
        return None
    knots = np.asarray(json.loads(str(attributes["knots"])))
    each = zip(values["b"], values["theta"], strict=True)
    return [to_metric(GDMParams(np.asarray(b), theta, knots)) for b, theta in each]
