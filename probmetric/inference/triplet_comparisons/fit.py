"""Fit of the map: the posterior mode reached from the prior's centre, or a start.

``fit`` climbs Eq. (1) of ``triplet_comparisons.likelihood`` by L-BFGS in the
coordinates √τ(W - W₀), in which the Hessian of the prior is the identity; rows of
weight 0 fill U and V up to few sizes, so that data sets share a program. The density is
not concave in W: the mode is the one reached from W₀, and there may be others on other
sheets of rotations. ``curvature.gap`` certifies it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Triplets
from probmetric.inference.solvers.lbfgs_traced import minimise
from probmetric.inference.solvers.result import Fit
from probmetric.inference.triplet_comparisons.likelihood import value_and_gradient
from probmetric.inference.triplet_comparisons.start import as_arrays, check_prior
from probmetric.inference.triplet_comparisons.statistics import Differences, differences
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
from probmetric.precision import native_arrays


def _climb(
    data: Differences, prior: TripletPrior, start: Any, tol: Any, max_steps: int
) -> tuple[Any, ...]:
    root = jnp.sqrt(prior.lam) / prior.c

    def at(x: Any) -> Any:
        return prior.mean + x.reshape(prior.mean.shape) / root

    def descent(x: Any) -> tuple[Any, Any]:
        value, slope = value_and_gradient(at(x), data, prior)
        return -value, -slope.ravel() / root

    found = minimise(
        descent, ((start - prior.mean) * root).ravel(), max_steps=max_steps, tol=tol
    )
    return at(found.x), found


_climb_compiled = jax.jit(_climb, static_argnums=4)


@native_arrays
def fit(
    triplets: Triplets,
    prior: TripletPrior,
    *,
    start: Float[np.ndarray, "p d"] | None = None,
    learning_rate: float = 1.0,
    max_steps: int = 500,
    tol: float = 1e-12,
) -> Fit:
    """Fit the map: the posterior mode reached from the prior's centre, or a start.

    Parameters
    ----------
    triplets : Triplets
        With answers y in {0, 1}.
    prior : TripletPrior
        Proper, and not centred at zero but with a start.
    start : array of shape (p, d), optional
        Default: the prior's centre.
    learning_rate : float, default=1
        Power η on the likelihood.
    max_steps : int, default=500
        Most steps of L-BFGS.
    tol : float, default=1e-12
        It ends where the estimated gap in nats is below ``tol`` times the value's
        size; in float32 tolerances below its rounding are not reached.

    Returns
    -------
    Fit
        ``objective`` is the log joint density there. A local mode; ``gap`` certifies
        it.

    Raises
    ------
    ValueError
        Triplets without answers; a prior that is flat, centred at zero without a
        start, or of another dimension; a start of another shape than its centre.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> X = np.array([[0.0, 0.0], [0.0, 2.0], [1.0, 0.0]])  # Near is the farther.
    >>> triplets = Triplets(X, a, near, far, y)
    >>> W = m.fit(triplets, m.prior_for(triplets)).params.W
    >>> np.diag(W.T @ W).round(2).tolist()  # So the first feature counts more.
    [1.54, 0.12]
    """
    X = np.asarray(triplets.X)
    check_prior(prior, X.shape[1], started=start is not None)
    start = np.asarray(prior.mean if start is None else start, X.dtype)
    if start.shape != np.shape(prior.mean):
        raise ValueError(
            f"start: expected shape {np.shape(prior.mean)}, got {start.shape}"
        )
    dtype = X.dtype
    with jax.enable_x64(dtype == np.float64):
        tol = max(float(tol), 4 * float(np.finfo(dtype).eps))
        data, prior = differences(triplets, learning_rate), as_arrays(prior, dtype)
        tolerance = np.asarray(tol, dtype)
        W, found = _climb_compiled(data, prior, start, tolerance, max_steps)
        return Fit(
            TripletParams(np.asarray(W)),
            np.asarray(-found.value),
            np.asarray(found.result),
            np.asarray(found.n_steps),
            np.asarray(found.n_evaluations),
            -np.asarray(found.trace),
        )
