"""Fit and draws of triplet comparisons: log joint density, gradient, mode.

Symbols as ``models.triplet_comparisons``: rows u_i = x_a - x_far, v_i = x_a - x_near of
U, V (N, d), t_i of its Eq. (1), signs s_i = 2 y_i - 1, data weights w_i, learning rate
η, prior W ~ N(W₀, c²/λ) by entry. With τ = λ/c²,

    log p(y, W) = -η Σ_i w_i log(1 + e^{-s_i t_i})
                  - (τ/2) ‖W - W₀‖² + (pd/2) log(τ/2π),                            (1)
    ∂/∂W = 2W (Uᵀdiag(r) U - Vᵀdiag(r) V) - τ (W - W₀),
    r_i = η w_i s_i / (1 + e^{s_i t_i}).                                           (2)

``fit`` climbs (1) by L-BFGS in the coordinates √τ(W - W₀), in which the Hessian of the
prior is the identity; rows of weight 0 fill U and V up to few sizes, so that data sets
share a program. The likelihood is log-concave in M, (1) is not concave in W: the mode
is the one reached from W₀, and there may be others on other sheets of rotations.

The certificate of a mode is the gap ½ gᵀH⁻¹g in nats, g the gradient (2) and H minus
the Hessian, which must be positive definite: by so much the mode of the quadratic at
hand is higher.                                                                   (3)
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from probmetric.data.containers import Triplets, weights
from probmetric.data.padding import bucket, pad_rows
from probmetric.data.triplets import weighing
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import sampler_of
from probmetric.inference.sampling.target import Draws, Gaussian, Posterior, Target
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.inference.solvers.lbfgs_traced import minimise
from probmetric.inference.solvers.result import Fit
from probmetric.metric import Mahalanobis
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array


class Differences(NamedTuple):
    """U, V (N, d) of Eq. (2), signs s (N,) and weights ηw (N,), padded by weight 0.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [2.0]]), a, near, far, y)
    >>> data = m.differences(triplets)
    >>> float(data.u[0, 0]), float(data.v[0, 0]), float(data.w.sum())
    (-2.0, -1.0, 1.0)
    """

    u: Float[Array, "N d"]
    v: Float[Array, "N d"]
    sign: Float[Array, "N"]
    w: Float[Array, "N"]


def differences(triplets: Triplets, learning_rate: float = 1.0) -> Differences:
    """Return the differences of answered triplets, padded to a bucket.

    Raises
    ------
    ValueError
        For triplets without answers.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far, no = np.array([[0], [1], [2], [0]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [2.0]]), a, near, far, no)
    >>> data = m.differences(triplets, learning_rate=0.5)
    >>> float(data.sign[0]), float(data.w.sum())
    (-1.0, 0.5)
    """
    if triplets.y is None:
        raise ValueError("triplets.y: expected answers 0 or 1, got None")
    X, size = np.asarray(triplets.X), bucket(len(triplets.anchor))
    a, near, far = (np.asarray(k) for k in triplets[1:4])
    sign = np.where(np.asarray(triplets.y) == 1, 1.0, -1.0).astype(X.dtype)
    w = (learning_rate * np.asarray(weights(triplets))).astype(X.dtype)
    rows = (X[a] - X[far], X[a] - X[near], sign, w)
    return Differences(*(pad_rows(each, size) for each in rows))


def _margin(W: Any, data: Differences) -> Any:
    return data.sign * (
        jnp.sum((data.u @ W.T) ** 2, -1) - jnp.sum((data.v @ W.T) ** 2, -1)
    )


def _log_prior(W: Any, prior: TripletPrior) -> Any:
    tau = prior.lam / jnp.square(prior.c)
    normal = 0.5 * W.size * jnp.log(tau / (2 * np.pi))
    return normal - 0.5 * tau * jnp.sum((W - prior.mean) ** 2)


def _log_likelihood(W: Any, data: Differences) -> Any:
    return jnp.sum(data.w * jax.nn.log_sigmoid(_margin(W, data)))


@numpy_in_numpy_out
def log_joint(W: Any, data: Differences, prior: TripletPrior) -> Any:
    """Return the log joint density (Eq. 1), constants included.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> from probmetric.models.triplet_comparisons import TripletPrior
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [2.0]]), a, near, far, y)
    >>> one, data = np.eye(1), m.differences(triplets)
    >>> value = m.log_joint(one, data, TripletPrior(one))
    >>> round(float(value), 4)  # -log(1 + e^{1² - 2²}) - ½ log 2π
    -0.9675
    """
    return _log_likelihood(W, data) + _log_prior(W, prior)


@numpy_in_numpy_out
def value_and_gradient(
    W: Any, data: Differences, prior: TripletPrior
) -> tuple[Any, Any]:
    """Return Eq. (1) and its gradient (Eq. 2), of shape (p, d).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> from probmetric.models.triplet_comparisons import TripletPrior
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [2.0]]), a, near, far, y)
    >>> one, data = np.eye(1), m.differences(triplets)
    >>> _, gradient = m.value_and_gradient(one, data, TripletPrior(one))
    >>> round(float(gradient[0, 0]), 4)  # 2W(u² - v²)/(1 + e^{u² - v²}), u² - v² = 3
    0.2846
    """
    margin = _margin(W, data)
    r = data.w * data.sign * jax.nn.sigmoid(-margin)
    pull = (data.u * r[:, None]).T @ data.u - (data.v * r[:, None]).T @ data.v
    tau = prior.lam / jnp.square(prior.c)
    value = jnp.sum(data.w * jax.nn.log_sigmoid(margin)) + _log_prior(W, prior)
    return value, 2 * W @ pull - tau * (W - prior.mean)


def _climb(
    data: Differences, prior: TripletPrior, tol: Any, max_steps: int
) -> tuple[Any, ...]:
    root = jnp.sqrt(prior.lam) / prior.c

    def at(x: Any) -> Any:
        return prior.mean + x.reshape(prior.mean.shape) / root

    def descent(x: Any) -> tuple[Any, Any]:
        value, slope = value_and_gradient(at(x), data, prior)
        return -value, -slope.ravel() / root

    origin = jnp.zeros(prior.mean.size, prior.mean.dtype)
    found = minimise(descent, origin, max_steps=max_steps, tol=tol)
    return at(found.x), found


_climb_compiled = jax.jit(_climb, static_argnums=3)


def _arrays(prior: TripletPrior, dtype: Any) -> TripletPrior:
    return TripletPrior(*(np.asarray(value, dtype) for value in prior))


def check_prior(prior: TripletPrior, d: int) -> None:
    """Raise ValueError for a prior of another dimension, flat, or centred at zero.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import triplet_comparisons as m
    >>> from probmetric.models.triplet_comparisons import TripletPrior
    >>> m.check_prior(TripletPrior(np.eye(2)), d=2)
    >>> try:
    ...     m.check_prior(TripletPrior(np.zeros((2, 2))), d=2)
    ... except ValueError as error:
    ...     print(str(error)[:39])
    prior.mean: expected a map other than 0
    """
    shape = np.shape(prior.mean)
    if len(shape) != 2 or shape[1] != d:
        raise ValueError(f"prior.mean: expected shape (p, {d}), got {shape}")
    if not np.any(np.asarray(prior.mean)):
        raise ValueError(
            "prior.mean: expected a map other than 0, where the gradient vanishes "
            "whatever the answers, got zeros"
        )
    for name in ("c", "lam"):
        value = getattr(prior, name)
        if not np.all(np.asarray(value) > 0):
            raise ValueError(f"prior.{name}: expected a number > 0, got {value}")


SPREAD = 2.0
"""Root mean square of the log odds under W₀ (P = .88), before any answer is seen."""


def prior_for(
    triplets: Triplets, n_components: int | None = None, lam: float = 1.0
) -> TripletPrior:
    """Return a prior around the Euclidean map cI, from the questions without answers.

    c is such that log odds of the triplets under W₀ have root mean square 2. With p < d
    rows W₀ is c times the leading principal directions of the points, each as
    often as triplets use it. Triplets of weight 0 are left out; the others count alike.

    Parameters
    ----------
    triplets : Triplets
    n_components : int, optional
        p, default d.
    lam : float > 0, default=1
        λ: the prior standard deviation of an entry of W is c/√λ.

    Raises
    ------
    ValueError
        Where all triplets have near and far at one distance: nothing is asked; where
        all have weight 0.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far = np.array([[0], [1], [2]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [3.0]]), a, near, far, y=None)
    >>> float(m.prior_for(triplets).c ** 2)  # c²(3² - 1²) = 2
    0.25
    """
    X, triplets = np.asarray(triplets.X), weighing(triplets)
    if not len(triplets.anchor):
        raise ValueError("triplets.w: expected a positive weight, got none")
    p = X.shape[1] if n_components is None else n_components
    W = np.eye(X.shape[1], dtype=X.dtype)
    if p < len(W):
        ends = X[np.concatenate([np.asarray(k) for k in triplets[1:4]])]
        centred = ends - ends.mean(0)
        W = np.linalg.eigh(centred.T @ centred)[1].T[::-1][:p]
        W = W * np.where(W.sum(1, keepdims=True) < 0, -1, 1)
    Z = X @ W.T
    a, near, far = (np.asarray(k) for k in triplets[1:4])
    t = ((Z[a] - Z[far]) ** 2).sum(1) - ((Z[a] - Z[near]) ** 2).sum(1)
    size = np.sqrt(np.mean(t**2))
    if not size > 0:
        raise ValueError(
            "triplets: expected some in which near and far are at different distances "
            "of the anchor, got none"
        )
    c = np.sqrt(SPREAD / size).astype(X.dtype)
    return TripletPrior(c * W, c, lam)


def rate_for(triplets: Triplets) -> float:
    """Return n/N, at most 1: the learning rate of triplets made from labels.

    n points are used by N triplets, which are not independent observations.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far = np.array([[0, 1, 2, 0], [1, 0, 1, 2], [2, 2, 0, 1]])
    >>> triplets = Triplets(np.zeros((3, 1)), a, near, far, y=None)
    >>> m.rate_for(triplets)  # 3 points, 4 triplets
    0.75
    """
    n = len(np.unique(np.concatenate([np.asarray(k) for k in triplets[1:4]])))
    return min(1.0, n / len(triplets.anchor))


def fit(
    triplets: Triplets,
    prior: TripletPrior,
    *,
    learning_rate: float = 1.0,
    max_steps: int = 500,
    tol: float = 1e-12,
) -> Fit:
    """Fit the map: the posterior mode reached from the prior's centre.

    Parameters
    ----------
    triplets : Triplets
        With answers y in {0, 1}.
    prior : TripletPrior
        Proper, and not centred at zero.
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
        ``objective`` is Eq. (1) there. A local mode; ``gap`` certifies it.

    Raises
    ------
    ValueError
        Triplets without answers; a prior that is flat, centred at zero, or of another
        dimension.

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
    check_prior(prior, X.shape[1])
    dtype = X.dtype
    with jax.enable_x64(dtype == np.float64):
        tol = max(float(tol), 4 * float(np.finfo(dtype).eps))
        data, prior = differences(triplets, learning_rate), _arrays(prior, dtype)
        W, found = _climb_compiled(data, prior, np.asarray(tol, dtype), max_steps)
        return Fit(
            TripletParams(np.asarray(W)),
            np.asarray(-found.value),
            np.asarray(found.result),
            np.asarray(found.n_steps),
            np.asarray(found.n_evaluations),
            -np.asarray(found.trace),
        )


MAX_PARAMETERS = 10_000
"""p·d up to which there are second derivatives: matrices of 800 MB."""

BLOCK_ENTRIES = 1 << 22
"""Entries of a block of g_i in the Hessian (32 MiB)."""


def hessian(
    params: TripletParams, data: Differences, prior: TripletPrior
) -> Float[np.ndarray, "q q"]:
    """Return minus the Hessian of Eq. (1) in vec W, row by row, in NumPy.

    With g_i = ∂t_i/∂W and the weight k_i = ηw σ(s t)σ(-s t) it is
    Σ k_i vec g_i vec g_iᵀ - I ⊗ 2(Uᵀdiag(r) U - Vᵀdiag(r) V) + τI.
    The g_i are made in blocks: memory is a few matrices of (pd)² numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [2.0]]), a, near, far, y)
    >>> one, data = np.eye(1), m.differences(triplets)
    >>> prior, h = TripletPrior(one), 1e-5
    >>> (up, down) = (m.value_and_gradient(one + e, data, prior)[1] for e in (h, -h))
    >>> H = m.hessian(TripletParams(one), data, prior)
    >>> H.round(4).tolist(), (-(up - down) / (2 * h)).round(4).tolist()
    ([[2.3418]], [[2.3418]])
    """
    W, d = np.asarray(params.W), data.u.shape[1]
    wu, wv = data.u @ W.T, data.v @ W.T
    t = (wu**2).sum(-1) - (wv**2).sum(-1)
    p = 0.5 * (1 + np.tanh(-0.5 * data.sign * t))
    r, k = data.w * data.sign * p, data.w * p * (1 - p)
    pull = (data.u * r[:, None]).T @ data.u - (data.v * r[:, None]).T @ data.v
    tau = float(prior.lam) / float(prior.c) ** 2
    own = np.asarray(tau * np.eye(d, dtype=W.dtype) - 2 * pull)
    H = np.zeros((W.size, W.size), own.dtype)
    for row in range(0, W.size, d):
        H[row : row + d, row : row + d] = own
    size = max(1, BLOCK_ENTRIES // W.size)
    for start in range(0, len(t), size):
        at = slice(start, start + size)
        g = wu[at, :, None] * data.u[at, None] - wv[at, :, None] * data.v[at, None]
        g = 2 * g.reshape(len(g), -1)
        H += (g * k[at, None]).T @ g
    return H


def gap(
    params: TripletParams,
    triplets: Triplets,
    prior: TripletPrior,
    *,
    learning_rate: float = 1.0,
) -> float:
    """Return the certificate (Eq. 3): nats by which the quadratic's mode is higher.

    ∞ where minus the Hessian is not positive definite: not a mode. NaN, unknown, with
    more than ``MAX_PARAMETERS`` entries of W: it costs (pd)³, in every fit.

    Parameters
    ----------
    params : TripletParams
        As of ``fit``.
    triplets, prior, learning_rate
        Its problem.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [2.0]]), a, near, far, y)
    >>> params = m.fit(triplets, prior := m.prior_for(triplets)).params
    >>> m.gap(params, triplets, prior) < 1e-9  # At a mode
    True
    """
    data, W = differences(triplets, learning_rate), np.asarray(params.W)
    if W.size > MAX_PARAMETERS:
        return np.nan
    prior = _arrays(prior, W.dtype)
    with jax.enable_x64(W.dtype == np.float64):
        slope = np.asarray(_slope(W, data, prior)).ravel()
    try:
        factor = cho_factor(hessian(params, data, prior))
    except LinAlgError:
        return np.inf
    return float(0.5 * slope @ cho_solve(factor, slope))


@jax.jit
def _slope(W: Any, data: Differences, prior: TripletPrior) -> Any:
    return value_and_gradient(W, data, prior)[1]


def _log_density(at: Any, data: Any) -> Any:
    return log_joint(at["W"], *data)


def _functionals(at: Any, data: Any) -> dict[str, Any]:
    del data
    return {"M": at["W"].T @ at["W"]}


def _parts(at: Any, data: Any) -> tuple[dict[str, Any], Any]:
    differences, prior = data
    return {"W": _log_prior(at["W"], prior)}, _log_likelihood(at["W"], differences)


TARGET = Target(_log_density, _functionals, _parts)
"""Of positions {W} and data (``Differences``, prior)."""


def posterior(
    params: TripletParams,
    triplets: Triplets,
    prior: TripletPrior,
    *,
    learning_rate: float = 1.0,
) -> Posterior:
    """Return what samplers draw from, started at Laplace's Gaussian at a mode.

    Parameters
    ----------
    params : TripletParams
        As of ``fit``.
    triplets, prior, learning_rate
        Its problem.

    Raises
    ------
    ValueError
        Where the parameters are no mode; more than ``MAX_PARAMETERS`` of them.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [2.0]]), a, near, far, y)
    >>> params = m.fit(triplets, prior := m.prior_for(triplets)).params
    >>> root = m.posterior(params, triplets, prior).start.factor
    >>> H = m.hessian(params, m.differences(triplets), prior)
    >>> (root.T @ H @ root).round(6).tolist()  # The covariance is H⁻¹.
    [[1.0]]
    """
    W = np.asarray(params.W)
    if W.size > MAX_PARAMETERS:
        raise ValueError(
            f"params: expected at most {MAX_PARAMETERS} parameters (p·d) for second "
            f"derivatives, where draws start, got {W.size}: fit fewer components"
        )
    data, prior = differences(triplets, learning_rate), _arrays(prior, W.dtype)
    try:
        L = np.linalg.cholesky(hessian(params, data, prior))
    except np.linalg.LinAlgError:
        raise ValueError(
            "params: expected a mode, got a Hessian that is not negative definite: "
            "raise max_iter, or set a stronger prior"
        ) from None
    root = solve_triangular(L, np.eye(len(L)), lower=True, trans=1)
    return Posterior(TARGET, (data, prior), Gaussian({"W": W}, root))


TARGET_ACCEPT = 0.95
"""Of NUTS by name: the posterior of W lies along the arcs of its rotations."""


def draw(
    posterior: Posterior,
    method: Any,
    *,
    scale: Float[np.ndarray, "d"],
    seed: int,
    n_draws: int = 1000,
    n_chains: int = 4,
    progress: bool | None = None,
) -> Draws:
    """Draw M around a mode, in input units.

    Parameters
    ----------
    posterior : Posterior
        As of ``posterior``, of features divided by ``scale`` (d,).
    method : sampler, or "nuts", "laplace"
        By name NUTS is ``NUTS(target_accept=0.95)``. ``Laplace`` makes
        ``n_chains * n_draws`` independent draws, in one chain.
    seed : int
    n_draws, n_chains : int
    progress : bool, optional
        Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

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
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [2.0]]), a, near, far, y)
    >>> params = m.fit(triplets, prior := m.prior_for(triplets)).params
    >>> around, two = m.posterior(params, triplets, prior), np.array([2.0])
    >>> M = m.draw(around, "laplace", scale=two, seed=0, n_draws=100).values["M"]
    >>> M.shape, bool(M.min() >= 0)
    ((1, 400, 1, 1), True)
    """
    sampler: Any = sampler_of(method, (NUTS, Laplace))
    if isinstance(method, str) and isinstance(sampler, NUTS):
        sampler = NUTS(target_accept=TARGET_ACCEPT)
    size: Any = {"n_draws": n_draws, "n_chains": n_chains, "progress": progress}
    drawn = sampler.draw(posterior, seed=seed, **size)
    warn_of_trouble(drawn.values, drawn.statistics, drawn.attributes)
    return drawn._replace(values={"M": drawn.values["M"] / np.outer(scale, scale)})


def metrics(draws: Draws | xr.DataTree) -> list[Mahalanobis] | None:
    """Return one metric a draw of M; None where none was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import triplet_comparisons as m
    >>> from probmetric.inference.sampling import Draws
    >>> draws = Draws({"M": np.array([[[[4.0]], [[9.0]]]])}, {}, {})  # One chain of two
    >>> [metric(np.zeros(1), np.ones(1)) for metric in m.metrics(draws)]
    [2.0, 3.0]
    """
    values = joined(draws)
    return mahalanobis(values["M"]) if "M" in values else None
