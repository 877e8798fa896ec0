"""LCA's posterior density for samplers: pooled, and one whichever way W is reflected.

The NumPyro model is per pair; this evaluates its density at a cost that does not depend
on the number of y = 1 pairs. Positions are {W, log_b}; reported is what the likelihood
identifies: M, b and log σ².

The likelihood is that of HW for every orthogonal H; the prior N(W₀, c²/λ) is not. So
the posterior of W has two sheets, det(WW₀ᵀ) ≷ 0, with a barrier between them that no
sampler crosses, of different heights and different M: chains that start on either
never agree. With a fixed reflection H = I - 2uuᵀ samplers are given, for the prior
p(W), the mixture

    ½ p(W) + ½ p(HW) = ½ p(W) (1 + e^{-a}),       a = 2 (λ/c²) uᵀW W₀ᵀu.           (1)

W → HW keeps volume, likelihood and M. So M and b have *the same distribution* under
Eq. (1) as under the model, both sheets included, and the sheets are mirror images: a
chain draws it on whichever it is. Normaliser and prior draws of M stay the Gaussian's.
u is the weakest axis of WW₀ᵀ at the mode, the one along which the other sheet is
nearest; with u = 0 the density is the model's own.

What is reported of W lies on the sheet a ≥ 0. Folded onto it, the prior's density is

    p(W) + p(HW) = p(W) (1 + e^{-a}),                                              (2)

the log prior of each draw; draws of the prior are folded likewise.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.data.containers import Pairs
from probmetric.data.padding import pad_pairs
from probmetric.inference.lca.fit import check_prior, fit
from probmetric.inference.lca.laplace import laplace
from probmetric.inference.lca.likelihood import (
    log_likelihood,
    log_prior,
    objective,
    to_params,
)
from probmetric.inference.lca.statistics import Statistics, prepare
from probmetric.inference.sampling.target import Gaussian, Posterior, Target
from probmetric.inference.sampling.warnings import SamplingWarning
from probmetric.inference.solvers.result import Result
from probmetric.models.lca import (
    LCAParams,
    LCAPrior,
    identified,
    log_b_of,
    weakest_axis,
)


def _log_odds(at: Any, data: Any) -> Any:
    """Return a of Eq. (1): the log density of W over that of HW."""
    prior, u = data[1], data[3]
    return 2 * prior.lam / prior.width**2 * (u @ at["W"]) @ (prior.mean.T @ u)


def _log_density(at: Any, data: Any) -> Any:
    mirrored = jnp.logaddexp(0.0, -_log_odds(at, data)) - np.log(2)
    return objective(at, data) + mirrored


def _parts(at: Any, data: Any) -> tuple[dict[str, Any], Any]:
    """Return the log prior of W, Eq. (2), and of log b, and the log likelihood."""
    stats, prior, rate = data[:3]
    params = to_params(at)
    flat = (
        {"lam": jnp.zeros_like(prior.lam)},
        {"b_shape": jnp.zeros_like(prior.b_shape)},
    )
    log_b, W = (jnp.asarray(log_prior(params, prior._replace(**f))) for f in flat)
    # Either sheet gives the same: a on the one is -a on the other.
    folded = W + jnp.logaddexp(0.0, -_log_odds(at, data))
    return {"W": folded, "log_b": log_b}, rate * jnp.asarray(
        log_likelihood(params, stats)
    )


def _functionals(at: Any, data: Any) -> dict[str, Any]:
    params = to_params(at)
    return {**identified(params), "log_sigma2": params.log_sigma2}


def _sites(at: Any, data: Any) -> dict[str, Any]:
    """Return the sites of the NumPyro model, W on the sheet of W₀."""
    params, W, u = to_params(at), at["W"], data[3]
    W = jnp.where(_log_odds(at, data) < 0, W - 2 * jnp.outer(u, u @ W), W)
    sigma2 = jnp.exp(params.log_sigma2)
    return {"W": W, "log_b": at["log_b"], "sigma2": sigma2, **identified(params)}


TARGET = Target(_log_density, _functionals, _parts)
"""Of positions {W, log_b} and data (statistics, prior, learning rate, u)."""

MODEL_TARGET = Target(_log_density, _sites, _parts)
"""The same density; reports the sites of ``models.lca.lca``."""


def target_data(
    pairs: Pairs,
    prior: LCAPrior,
    learning_rate: float,
    mode: LCAParams | None = None,
) -> tuple[Statistics, LCAPrior, Any, Any]:
    """Return what ``TARGET`` is evaluated on: statistics, prior, learning rate, u.

    Without a mode u is 0, and the density the model's own, of two sheets.

    Parameters
    ----------
    pairs : Pairs
        Labelled pairs; not per anchor.
    prior : LCAPrior
        Proper.
    learning_rate : float
    mode : LCAParams, optional

    Returns
    -------
    tuple
        In the dtype of the points; u of shape (p,), of length 1 or 0.

    Examples
    --------
    Of one component u can only be its axis:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import lca
    >>> from probmetric.models.lca import LCAParams, LCAPrior
    >>> X, one = np.array([[0.0], [2.0]]), np.array([1])
    >>> given = Pairs(X, one - 1, one, one), LCAPrior(np.eye(1)), 0.5
    >>> mode = LCAParams(np.eye(1), np.log(1.5))
    >>> stats, prior, rate, u = lca.target_data(*given, mode)
    >>> without = lca.target_data(*given)[3]
    >>> float(stats.n), float(rate), abs(u).tolist(), without.tolist()
    (1.0, 0.5, [1.0], [0.0])
    """
    stats = prepare(pairs)
    dtype = stats.T.dtype
    prior = LCAPrior(*(np.asarray(v, dtype) for v in prior))
    u = np.zeros(len(prior.mean), dtype)
    if mode is not None:
        u = weakest_axis(np.asarray(mode.W), prior.mean).astype(dtype)
    return stats, prior, np.asarray(learning_rate, dtype), u


def start(params: LCAParams, data: Any, *, quotient: bool = False) -> Gaussian:
    """Return the Laplace approximation at the mode, of data from ``target_data``.

    By default the whole covariance, rotations included, for NUTS's start and
    coordinates: a prior centred off zero pins them. With ``quotient`` the rotations are
    left out (``lca.laplace``), for draws.

    Parameters
    ----------
    params : LCAParams
        The mode.
    data : tuple
    quotient : bool, default=False

    Raises
    ------
    ValueError
        As ``lca.laplace``: where ``params`` are no mode, or are too many.

    Examples
    --------
    At learning rate 0 the covariance of (W, log b) is that of the prior, at b = 1:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import lca
    >>> from probmetric.models.lca import LCAParams, LCAPrior, log_sigma2_of
    >>> X, one = np.array([[0.0], [2.0]]), np.array([1])
    >>> prior = LCAPrior(np.eye(1), lam=10.0)
    >>> data = lca.target_data(Pairs(X, one - 1, one, one), prior, 0.0)
    >>> around = lca.start(LCAParams(np.eye(1), log_sigma2_of(0.0, 1)), data)
    >>> (around.factor @ around.factor.T).round(3).tolist()
    [[0.1, 0.0], [0.0, 1.0]]
    """
    found = laplace(params, *data[:3], quotient=quotient)
    return Gaussian(position(params), found.root)


def position(params: LCAParams) -> dict[str, Any]:
    """Return parameters as a position of ``TARGET``."""
    W = np.asarray(params.W)
    log_b = log_b_of(np.asarray(params.log_sigma2), len(W))
    return {"W": W, "log_b": np.asarray(log_b, W.dtype)}


def closed_form(
    pairs: Pairs, prior: Any, *, learning_rate: Any = 1.0, **options: Any
) -> Posterior | None:
    """Return the posterior of ``models.lca.lca``, to be sampled from its mode on.

    Parameters
    ----------
    pairs, prior, learning_rate, **options
        As given to the model.

    Returns
    -------
    Posterior or None
        None where there is no closed form: a prior of one's own, a hyperprior, a flat
        prior, a κ per anchor, the latent form, no labels; and, with a warning, where
        no mode with a Laplace approximation was found.

    Raises
    ------
    ValueError
        A prior centred at zero.
    """
    if not isinstance(prior, LCAPrior) or options or pairs.y is None:
        return None
    if not np.isscalar(prior.lam) and not hasattr(prior.lam, "dtype"):
        return None  # a hyperprior
    if not float(prior.lam) > 0 or not float(prior.b_shape) > 0:
        return None
    check_prior(prior)
    pairs, prior = jax.tree.map(np.asarray, (pad_pairs(pairs), prior))
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
        f"lca: chains start at random and may stay on different sheets of W: {trouble}",
        SamplingWarning,
        stacklevel=4,
    )
    return None
