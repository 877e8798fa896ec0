"""Draws of the identified M (d, d), b and log σ² near a fitted LCA, by every method.

All methods sample the same target, the pooled log joint density (``lca.target``). The
cost of its gradient does not depend on the number of y = 1 pairs.

``log_likelihood`` computes the log likelihood of every pair under every draw, for LOO.
M and b are sufficient, because -log P(y=1) = b + δᵀMδ/2.
"""

from typing import Unpack

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from probmetric.data.containers import Pairs, checked_rows
from probmetric.data.padding import pad_pairs
from probmetric.inference.lca.recipe import Fitted
from probmetric.inference.lca.target import TARGET, position, start, target_data
from probmetric.inference.sampling.datatree import OWN_MODEL
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.sampling.predictive import prior_draws
from probmetric.inference.sampling.sample import Method, sampler_of
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Call, Draws, Posterior, Run
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.metric import Mahalanobis
from probmetric.models.lca import lca, observation
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, Names


def posterior(fitted: Fitted, sampler: object) -> Posterior:
    """Return the posterior near a fit as the input of a sampler, with padded shapes.

    NUTS starts at over-dispersed draws around the mode, with the scales of the
    Laplace approximation. ``Laplace`` does not draw rotations of W, which do not change
    M.
    """
    pairs, prior, rate = fitted.pairs, fitted.prior, fitted.learning_rate
    params = fitted.fit.params
    padded = pad_pairs(pairs)
    data = target_data(padded, prior, rate, params)
    if isinstance(sampler, SVI):
        return Posterior(TARGET, data, position(params))
    around = start(params, data, quotient=isinstance(sampler, Laplace))
    return Posterior(TARGET, data, around)


def draw(
    fitted: Fitted,
    method: Method,
    *,
    scale: Float[np.ndarray, "d"],
    warn_khat: bool = True,
    feature_names: Names | None = None,
    **run: Unpack[Run],
) -> Draws:
    """Draw M, b and log σ² near the fitted mode, with M in input units.

    The features of the fit were divided by ``scale`` s (d,). The returned M is
    diag(1/s) M diag(1/s). ``warn_khat`` turns on the warning for k-hat ≥ 0.7.
    """
    sampler = sampler_of(method)
    drawn = sampler.draw(posterior(fitted, sampler), **run)
    checked = drawn if warn_khat else drawn._replace(attributes={})
    warn_of_trouble(checked, feature_names=feature_names)
    M = drawn.values["M"] / np.outer(scale, scale)
    return drawn._replace(values={**drawn.values, "M": M})


def metrics(draws: Draws | xr.DataTree) -> list[Mahalanobis] | None:
    """Return one metric per draw of M, with P(same) for LCA's b; None without M."""
    values = joined(draws)
    user_model = isinstance(draws, xr.DataTree) and draws.attrs.get(OWN_MODEL)
    if "M" not in values or joined(draws, "components"):
        return None
    if "b_new" in values and not user_model:
        return None  # Point effects: P(same) of new points uses b_new.
    return mahalanobis(values["M"], None if user_model else values.get("b"))


@numpy_in_numpy_out
def log_likelihood(
    M: Float[Array, "s c d d"],
    b: Float[Array, "s c"],
    pairs: Pairs,
    learning_rate: Float[Array, ""] | float = 1.0,
) -> Float[Array, "s c n"]:
    """Compute η · weight · log p(y | M, b) of each draw and pair."""
    return _log_likelihood(M, b, checked_rows(pairs), np.asarray(learning_rate))


def new_labels(
    M: Float[np.ndarray, "s c d d"],
    b: Float[np.ndarray, "s c"],
    pairs: Pairs,
    *,
    seed: int,
) -> Int[np.ndarray, "s c n"]:
    """Draw new labels or counts of the pairs under every draw of M and b."""
    ones = pairs._replace(y=np.ones(len(pairs.i), int), w=None, trials=None)
    log_p = np.asarray(log_likelihood(M, b, ones))
    if pairs.trials is not None:
        P = np.exp(np.minimum(log_p, 0.0))
        made = np.random.default_rng(seed).binomial(np.asarray(pairs.trials), P)
        return made.astype(np.int32)
    # log U < log P is accurate also if P underflows.
    exponential = np.random.default_rng(seed).exponential(size=log_p.shape)
    return (-exponential < log_p).astype(np.int32)


def draws_of_prior(
    fitted: Fitted, n: int, *, scale: Float[np.ndarray, "d"], seed: int
) -> dict[str, np.ndarray]:
    """Return n prior draws (1, n, ...) of M, b and log σ², and labels y given them."""
    prior = jax.tree.map(np.asarray, fitted.prior)
    with jax.enable_x64(True):
        draws = prior_draws(Call(lca, (fitted.pairs, prior)), n, seed=seed)
    M = draws["M"] / np.outer(scale, scale)
    log_sigma2 = np.log(draws["sigma2"])
    return {"M": M, "b": draws["b"], "log_sigma2": log_sigma2, "y": draws["y"]}


@jax.jit
def _log_likelihood(M: Array, b: Array, pairs: Pairs, learning_rate: Array) -> Array:
    delta = jnp.subtract(pairs.X[pairs.i], pairs.X[pairs.j])
    y = pairs.y
    assert y is not None

    def of_draw(draw: tuple[Array, Array]) -> Array:
        t = draw[1] + 0.5 * jnp.sum((delta @ draw[0]) * delta, -1)
        return observation(-t, pairs, learning_rate).log_prob(y)

    flat = M.reshape(-1, *M.shape[2:]), b.ravel()
    return jax.lax.map(of_draw, flat).reshape(*b.shape, -1)
