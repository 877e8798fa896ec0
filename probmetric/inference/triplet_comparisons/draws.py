"""Draws of the metric of triplets by every method, in input units."""

from typing import Unpack

import numpy as np
import xarray as xr
from jaxtyping import Float

from probmetric.data.containers import Triplets
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.sampling.sample import NutsOrLaplace, careful
from probmetric.inference.sampling.target import Draws, Run
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.inference.triplet_comparisons.embedding import of_objects
from probmetric.inference.triplet_comparisons.target import posterior
from probmetric.metric import Mahalanobis
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
from probmetric.precision import native_arrays


@native_arrays
def draw(
    params: TripletParams,
    triplets: Triplets,
    prior: TripletPrior,
    method: NutsOrLaplace | str = "nuts",
    *,
    scale: Float[np.ndarray, "d"],
    learning_rate: float = 1.0,
    lapse_rate: float = 0.0,
    objects: bool = False,
    **run: Unpack[Run],
) -> Draws:
    """Draw the metric M = WᵀW, in input units, and a learned lapse rate.

    The draws are from the posterior around a local posterior mode of the linear map W.

    Parameters
    ----------
    params : TripletParams
        From ``fit``.
    triplets, prior, learning_rate, lapse_rate
        Arguments of ``fit``. The features were divided by ``scale``.
    method : sampler, or "nuts", "laplace"; default="nuts"
        "nuts" is ``NUTS(target_accept=0.95)``. ``Laplace`` does not draw rotations of
        W, which do not change M.
    scale : array of shape (d,)
        Scale s by which the features were divided. M_ij is divided by s_i s_j, which
        converts draws to input units.
    objects : bool, default=False
        If True, return the Gram matrix of the embedded objects (``of_objects``).
    seed, n_draws, n_chains, progress
        See ``pm.sample``.

    Raises
    ------
    ValueError
        If ``method`` is unknown or its settings are invalid, or ``params`` is not a
        mode.

    Warns
    -----
    SamplingWarning

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [2.0]]), a, near, far, y)
    >>> params = m.fit(triplets, prior := m.prior_for(triplets)).params
    >>> problem, options = (params, triplets, prior), {"seed": 0, "n_draws": 100}
    >>> M = m.draw(*problem, "laplace", scale=np.array([2.0]), **options).values["M"]
    >>> M.shape, bool(M.min() >= 0)
    ((1, 100, 1, 1), True)
    """
    sampler = careful(method)
    quotient = isinstance(sampler, Laplace)
    rates = {"learning_rate": learning_rate, "lapse_rate": lapse_rate}
    around = posterior(params, triplets, prior, **rates, quotient=quotient)
    drawn = sampler.draw(around, **run)
    M = drawn.values["M"] / np.outer(scale, scale)
    drawn = drawn._replace(values={**drawn.values, "M": M})
    drawn = of_objects(drawn) if objects else drawn
    warn_of_trouble(drawn)
    return drawn


def metrics(draws: Draws | xr.DataTree) -> list[Mahalanobis] | None:
    """Return one metric per draw of M, or None if there are no draws of M."""
    values = joined(draws)
    return mahalanobis(values["M"]) if "M" in values else None
