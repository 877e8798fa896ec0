"""Draws of the generalized dissimilarity model, and metrics of draws.

``nuts``, ``laplace``
    Draws from the posterior (Eq. 1 of ``gdm.target``), which assumes that pairs, and
    the units of a pair, are independent.
``bootstrap``
    Refits under weights on sites (``gdm.bootstrap``), or on pairs if no site is in two
    pairs.
"""

import json
from dataclasses import asdict
from typing import Unpack

import numpy as np
import xarray as xr

from probmetric.data.containers import Pairs
from probmetric.inference.gdm.bootstrap import refits, site_weights, units_of
from probmetric.inference.gdm.likelihood import in_float64, padded, rows_of
from probmetric.inference.gdm.target import TARGET, start
from probmetric.inference.sampling.metrics import joined
from probmetric.inference.sampling.sample import NutsOrLaplace, careful
from probmetric.inference.sampling.target import Draws, Posterior, Run, seed_and_total
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.metric import SplineCityBlock
from probmetric.metric.splines import Coordinates
from probmetric.models.gdm import GDMParams, GDMPrior, height, to_metric


def posterior(
    params: GDMParams, pairs: Pairs, prior: GDMPrior, *, learning_rate: float = 1.0
) -> Posterior:
    """Return the posterior for samplers, with Laplace's Gaussian as start."""
    rows = padded(rows_of(pairs, params, learning_rate))
    prior = in_float64(prior)
    return Posterior(TARGET, (rows, prior), start(params, rows, prior))


def draw(
    params: GDMParams,
    pairs: Pairs,
    prior: GDMPrior,
    method: NutsOrLaplace | str = "nuts",
    *,
    learning_rate: float = 1.0,
    **run: Unpack[Run],
) -> Draws:
    """Draw the intercept b, the coefficients θ of the I-splines, and the curves.

    A curve is represented by its total height.

    Parameters
    ----------
    params, pairs, prior, learning_rate
        The fit, and the arguments of ``fit``. The bootstrap resamples sites, so each
        site must be one row of ``pairs.X``.
    method : sampler, or "nuts", "laplace", "bootstrap"; default="nuts"
        "nuts" is ``NUTS(target_accept=0.95)``. Laplace and the bootstrap return
        ``n_draws * n_chains`` independent draws in one chain.
    seed, n_draws, n_chains, progress
        See ``pm.sample``.

    Raises
    ------
    ValueError
        If ``method`` is unknown, or its settings are invalid.

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
    run.setdefault("seed", 0)
    if isinstance(method, str) and method == "bootstrap":
        drawn = _bootstrap(params, pairs, prior, learning_rate, run)
    else:
        sampler = careful(method)
        target = posterior(params, pairs, prior, learning_rate=learning_rate)
        drawn = sampler.draw(target, **run)
        warn_of_trouble(drawn)
    attributes = {"knots": json.dumps(np.asarray(params.knots, float).tolist())}
    if params.coordinates is not None:
        attributes["places"] = json.dumps(asdict(params.coordinates))
    return drawn._replace(attributes={**drawn.attributes, **attributes})


def _bootstrap(
    params: GDMParams,
    pairs: Pairs,
    prior: GDMPrior,
    learning_rate: float,
    run: Run,
) -> Draws:
    seed, n_draws = seed_and_total(**run)
    unit = units_of(pairs)
    n = int(unit.max()) + 1
    power = 1.0 if n == len(unit) else 0.5  # Two ends of a pair share its weight.
    u = (site_weights(n, k, seed)[unit] ** power for k in range(n_draws))
    refitted = refits(pairs, prior, params, u, learning_rate=learning_rate)
    values = {"b": refitted.b, "theta": refitted.theta}
    values["height"] = height(refitted.theta, refitted.knots)
    values = {name: np.asarray(value)[None] for name, value in values.items()}
    return Draws(values, {}, {"method": "bootstrap", "seed": seed})


def metrics(draws: Draws | xr.DataTree) -> list[SplineCityBlock] | None:
    """Return one metric per draw, or None for draws of another model."""
    attributes = draws.attributes if isinstance(draws, Draws) else draws.attrs
    values = joined(draws)
    if "theta" not in values or "knots" not in attributes:
        return None
    knots = np.asarray(json.loads(str(attributes["knots"])))
    places = None
    if "places" in attributes:  # NetCDF has its own "coordinates".
        stored = json.loads(str(attributes["places"]))
        places = Coordinates((*stored["columns"],), stored["plane"])
    return each_metric(GDMParams(values["b"], values["theta"], knots, places))


def each_metric(params: GDMParams) -> list[SplineCityBlock]:
    """Return one metric for each entry of the leading axis of b and θ."""
    sites = zip(np.asarray(params.b), np.asarray(params.theta), strict=True)
    return [to_metric(params._replace(b=np.asarray(b), theta=t)) for b, t in sites]
