"""Fit of the linear map W: a posterior mode, by L-BFGS from the prior mean or a start.

``fit`` maximizes Eq. (1) of ``triplet_comparisons.likelihood`` by L-BFGS in the
coordinates √τ(W - W₀), in which the Hessian of the prior is the identity. Triplets are
padded by rows of weight 0 to a few sizes, so datasets share compiled programs. The
density is not concave in W. The result is the mode reached from W₀, and rotations of W
can have other modes. Raters who differ add the coordinates z, Eq. (5) of
``triplet_comparisons.likelihood``. A learned lapse rate adds the coordinate u, Eq. (4)
of ``triplet_comparisons.likelihood``. ``curvature.gap`` is the certificate of the mode.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Triplets
from probmetric.inference.solvers.lbfgs_traced import Minimum, minimize
from probmetric.inference.solvers.result import Fit
from probmetric.inference.triplet_comparisons.likelihood import value_and_gradient
from probmetric.inference.triplet_comparisons.start import as_arrays, check_prior
from probmetric.inference.triplet_comparisons.statistics import Differences, differences
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
from probmetric.precision import native_arrays
from probmetric.typing import Array


@partial(jax.jit, static_argnums=4)
def _climb(
    data: Differences, prior: TripletPrior, start: Array, tol: Array, max_steps: int
) -> tuple[TripletParams, Minimum]:
    root, size = jnp.sqrt(prior.lam) / prior.c, prior.mean.size
    learned, differ = prior.lapse is not None, prior.spread is not None

    def at(x: Array) -> tuple[Array, Differences]:
        W = prior.mean + x[:size].reshape(prior.mean.shape) / root
        rate = jax.nn.sigmoid(x[-1]) if learned else data.lapse
        z = x[size : len(x) - learned] if differ else None
        return W, data._replace(lapse=rate, z=z)

    def descent(x: Array) -> tuple[Array, Array]:
        value, in_W, in_effects = value_and_gradient(*at(x), prior)
        slope = jnp.append(in_W.ravel() / root, in_effects)
        return -jnp.asarray(value), -slope

    x = ((start - prior.mean) * root).ravel()
    if prior.spread is not None:
        x = jnp.append(x, jnp.zeros(len(prior.spread) - 1, x.dtype))
    if prior.lapse is not None:  # From the prior mean α/(α + β).
        x = jnp.append(x, jnp.log(prior.lapse[0] / prior.lapse[1]))
    end = minimize(descent, x, max_steps=max_steps, tol=tol)
    W, rated = at(end.x)
    sharpness = None if rated.z is None else prior.sharpness(rated.z)
    return TripletParams(W, rated.lapse if learned else None, sharpness), end


@native_arrays
def fit(
    triplets: Triplets,
    prior: TripletPrior,
    *,
    start: Float[np.ndarray, "p d"] | None = None,
    learning_rate: float = 1.0,
    lapse_rate: float = 0.0,
    max_steps: int = 500,
    tol: float = 1e-12,
) -> Fit:
    """Fit the linear map W by a local mode of the posterior.

    Parameters
    ----------
    triplets : Triplets
        Triplets with responses y in {0, 1}, or odd-one-out with y in {0, 1, 2}.
    prior : TripletPrior
        A proper prior. Without ``start`` it must not be centered at zero.
    start : array of shape (p, d), optional
        Starting value of W for L-BFGS. Default: the prior mean.
    learning_rate : float, default=1
        Power η on the likelihood.
    lapse_rate : float in [0, 1), default=0
        Probability ε that a response ignores the objects. If ``prior.lapse`` is not
        None, ε is learned instead.
    max_steps : int, default=500
        Maximum number of L-BFGS steps.
    tol : float, default=1e-12
        L-BFGS stops if the estimated gap in nats is below ``tol`` times the absolute
        objective, or at the level of rounding errors.

    Returns
    -------
    Fit
        ``objective`` is the log joint density at the local mode. The function ``gap``
        checks that the fit is a mode.

    Raises
    ------
    ValueError
        If the triplets have no responses, if the prior is flat or has another
        dimension, or if it is centered at zero and there is no ``start``.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> X = np.array([[0.0, 0.0], [0.0, 2.0], [1.0, 0.0]])  # Near is farther.
    >>> triplets = Triplets(X, a, near, far, y)
    >>> params = m.fit(triplets, prior := m.prior_for(triplets)).params
    >>> np.diag(params.W.T @ params.W).round(2).tolist()  # The first counts more.
    [1.54, 0.12]
    >>> m.gap(params, triplets, prior) < 1e-6
    True
    """
    X = np.asarray(triplets.X)
    check_prior(prior, X.shape[1], started=start is not None)
    start = np.asarray(prior.mean if start is None else start, X.dtype)
    if start.shape != np.shape(prior.mean):
        raise ValueError(
            f"start must have shape {np.shape(prior.mean)}, got {start.shape}."
        )
    dtype = X.dtype
    with jax.enable_x64(dtype == np.float64):
        tol = max(float(tol), 4 * float(np.finfo(dtype).eps))
        data = differences(triplets, learning_rate, lapse_rate)
        prior = as_arrays(prior, dtype)
        tolerance = np.asarray(tol, dtype)
        params, end = _climb(data, prior, start, tolerance, max_steps)
        return Fit(
            jax.tree.map(np.asarray, params),
            np.asarray(-end.value),
            np.asarray(end.result),
            np.asarray(end.n_steps),
            np.asarray(end.n_evaluations),
            -np.asarray(end.trace),
        )
