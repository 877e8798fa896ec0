"""LCA's posterior density for samplers: pooled, and symmetric under a reflection of W.

The NumPyro model has one term per pair. The target in this module is the same density,
at a cost that does not depend on the number of y = 1 pairs. A position is {W, log_b}.
The reported quantities are identified by the likelihood: M, b and log σ².

The likelihood of HW equals the likelihood of W for every orthogonal H, but the prior
N(W₀, c²/λ) is not invariant. The posterior of W therefore has two sheets, det(WW₀ᵀ) > 0
and < 0, with different heights and different M. No sampler crosses the barrier between
them, and chains on different sheets never agree. Samplers therefore use, instead of the
prior p(W), the mixture with a fixed reflection H = I - 2uuᵀ,

    ½ p(W) + ½ p(HW) = ½ p(W) (1 + e^{-a}),       a = 2 (λ/c²) uᵀW W₀ᵀu.           (1)

W → HW preserves volume, likelihood and M. Under Eq. (1), M and b therefore have *the
same distribution* as under the model with its two sheets. The sheets of Eq. (1) are
mirror images, and a chain on either sheet draws from that distribution. The normalizer,
and the prior draws of M, do not change. u is the weakest axis of WW₀ᵀ at the mode,
along which the other sheet is nearest. With u = 0, Eq. (1) is the prior of the model.

Reported W are on the sheet a ≥ 0. The prior density folded onto this sheet is

    p(W) + p(HW) = p(W) (1 + e^{-a}),                                              (2)

and its log is the log prior of each draw. Prior draws are folded in the same way.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from probmetric.data.containers import Pairs
from probmetric.data.padding import pad_pairs
from probmetric.inference.lca.fit import check_prior, fit
from probmetric.inference.lca.laplace import laplace
from probmetric.inference.lca.likelihood import (
    log_likelihood,
    log_priors,
    objective,
    to_params,
)
from probmetric.inference.lca.statistics import Statistics, prepare
from probmetric.inference.sampling.target import Arrays, Gaussian, Posterior, Target
from probmetric.inference.sampling.warnings import SamplingWarning
from probmetric.inference.solvers.result import Result
from probmetric.models.lca import (
    LCAParams,
    LCAPrior,
    identified,
    log_b_of,
    weakest_axis,
)
from probmetric.typing import Array, Scalar

type TargetData = tuple[Statistics, LCAPrior, Array, Array]
"""Statistics, prior, learning rate, and u of Eq. (1)."""


def _log_odds(at: Arrays, data: TargetData) -> Array:
    """Return a of Eq. (1), the log ratio of the prior densities of W and HW."""
    prior, u = data[1], data[3]
    return 2 * prior.lam / prior.width**2 * (u @ at["W"]) @ (prior.mean.T @ u)


def _log_density(at: Arrays, data: TargetData) -> Scalar:
    mirrored = jnp.logaddexp(0.0, -_log_odds(at, data)) - np.log(2)
    return objective(at, data) + mirrored


def _parts(at: Arrays, data: TargetData) -> tuple[Arrays, Scalar]:
    """Return the log prior of W, Eq. (2), and of log b, and the log likelihood."""
    stats, prior, rate, _ = data
    params = to_params(at)
    sites = log_priors(params, prior)
    # Both sheets give the same value: a changes its sign.
    folded = sites["W"] + jnp.logaddexp(0.0, -_log_odds(at, data))
    likelihood = rate * jnp.asarray(log_likelihood(params, stats))
    return {**sites, "W": folded}, likelihood


def _functionals(at: Arrays, data: PyTree) -> Arrays:
    del data
    params = to_params(at)
    return {**identified(params), "log_sigma2": params.log_sigma2}


def _sites(at: Arrays, data: TargetData) -> Arrays:
    params, W, u = to_params(at), at["W"], data[3]
    W = jnp.where(_log_odds(at, data) < 0, W - 2 * jnp.outer(u, jnp.asarray(u @ W)), W)
    sigma2 = jnp.exp(params.log_sigma2)
    return {"W": W, "log_b": at["log_b"], "sigma2": sigma2, **identified(params)}


TARGET = Target(_log_density, _functionals, _parts)
"""Target for positions {W, log_b} and data (statistics, prior, learning rate, u)."""

MODEL_TARGET = Target(_log_density, _sites, _parts)
"""Target with the same density that reports the sites of ``models.lca.lca``."""


def target_data(
    pairs: Pairs, prior: LCAPrior, learning_rate: float, mode: LCAParams | None = None
) -> TargetData:
    """Return the data of ``TARGET``: statistics, prior, learning rate, u.

    If ``mode`` is None, u is 0 and the target is the density of the model, with two
    sheets. The prior must be proper.
    """
    stats = prepare(pairs)
    dtype = stats.T.dtype
    prior = LCAPrior(*(np.asarray(v, dtype) for v in prior))
    u = np.zeros(len(prior.mean), dtype)
    if mode is not None:
        u = weakest_axis(np.asarray(mode.W), prior.mean).astype(dtype)
    return stats, prior, np.asarray(learning_rate, dtype), u


def start(params: LCAParams, data: TargetData, *, quotient: bool = False) -> Gaussian:
    """Return the Laplace approximation at the mode, for data from ``target_data``.

    NUTS starts from this approximation, and scales the coordinates by it. Its
    covariance includes rotations of W, whose variance is finite because the prior is
    not centered at zero. If ``quotient`` is True, the variance along rotations is zero
    (``lca.laplace``). ``Laplace`` draws from this Gaussian.
    """
    root = laplace(params, *data[:3], quotient=quotient).root
    return Gaussian(position(params), root)


def position(params: LCAParams) -> Arrays:
    """Return parameters as a position of ``TARGET``."""
    W = np.asarray(params.W)
    log_b = log_b_of(np.asarray(params.log_sigma2), len(W))
    return {"W": W, "log_b": np.asarray(log_b, W.dtype)}


def closed_form(
    pairs: Pairs, prior: object, *, learning_rate: Scalar | int = 1.0, **options: object
) -> Posterior | None:
    """Return the closed-form posterior of ``models.lca.lca``, with its mode as start.

    There is no closed form for a user's prior, a hyperprior, a flat prior, the latent
    form, or pairs without labels. In these cases the result is None. If the fit has no
    mode with a Laplace approximation, the result is None with a warning.
    """
    if not isinstance(prior, LCAPrior) or options or pairs.y is None:
        return None
    if not np.isscalar(prior.lam) and not hasattr(prior.lam, "dtype"):
        return None  # a hyperprior
    if not float(prior.lam) > 0 or not float(prior.b_shape) > 0:
        return None
    check_prior(prior)
    pairs = jax.tree.map(np.asarray, pad_pairs(pairs))
    prior = LCAPrior(*(np.asarray(v) for v in prior))
    mode = fit(pairs, prior, learning_rate=float(learning_rate))
    params = jax.tree.map(np.asarray, mode.params)
    data = target_data(pairs, prior, float(learning_rate), params)
    trouble = f"the fit ended with {Result(int(mode.result)).name}"
    if mode.result == Result.CONVERGED:
        try:
            return Posterior(MODEL_TARGET, data, start(params, data))
        except ValueError as error:
            trouble = str(error)
    warnings.warn(
        f"lca: the chains of draws start at random points, not at the fit ({trouble}). "
        "They may stay near different maxima of the posterior and disagree. Check that "
        "R-hat (az.summary) is near 1, or set a stronger prior.",
        SamplingWarning,
        stacklevel=4,
    )
    return None
