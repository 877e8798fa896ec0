"""An observation given its class, as a Distribution with weight and missing entries."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

__all__ = ["PARTLY_REAL", "ClassNormal"]


class _PartlyReal(constraints.Constraint):
    """Real vectors with NaN where an entry is missing."""

    event_dim = 1

    def __call__(self, x: Any) -> Any:
        return ~jnp.any(jnp.isinf(x), -1)

    def tree_flatten(self) -> Any:
        return (), ((), {})


PARTLY_REAL = _PartlyReal()
"""The support of vectors of which entries may be missing."""


class ClassNormal(dist.Distribution):
    """x ~ N(loc[y], chol[y] chol[y]ᵀ) for given class codes y.

    Parameters
    ----------
    loc : array of shape (c, d)
    chol : array of shape (c, d, d), or (1, d, d) where the classes share it
        Lower Cholesky factors of the covariances.
    y : array of int, of any shape, usually (n,)
        Class codes.
    weight : array or float, default=1
        Data weight of each point, ≥ 0; zero removes it, NaN or not.
    learning_rate : float, default=1
        Power η on the likelihood.
    missing : bool, default=False
        NaN entries of x are integrated out exactly: the density is that of the
        entries that are there, by one Cholesky factor a point (n d³). Otherwise a
        NaN gives NaN.

    Notes
    -----
    ``log_prob`` is η · weight · log density; ``sample`` draws whole points from the
    plain normal, whose moments ``mean`` and ``variance`` are.
    """

    arg_constraints = {  # noqa: RUF012  NumPyro's own class attribute
        "loc": constraints.independent(constraints.real, 2),
        "chol": constraints.independent(constraints.lower_cholesky, 1),
        "weight": constraints.nonnegative,
        "learning_rate": constraints.nonnegative,
    }
    pytree_data_fields = ("loc", "chol", "y", "weight", "learning_rate")
    pytree_aux_fields = ("missing",)

    def __init__(
        self,
        loc: Any,
        chol: Any,
        y: Any,
        weight: Any = 1.0,
        learning_rate: Any = 1.0,
        *,
        missing: bool = False,
        validate_args: bool | None = None,
    ):
        # NumPy arrays cannot be indexed by traced class codes.
        self.loc, self.chol, self.y = jnp.asarray(loc), jnp.asarray(chol), y
        self.weight, self.learning_rate, self.missing = weight, learning_rate, missing
        super().__init__(
            batch_shape=jnp.broadcast_shapes(
                jnp.shape(y), jnp.shape(weight), jnp.shape(learning_rate)
            ),
            event_shape=jnp.shape(loc)[-1:],
            validate_args=validate_args,
        )

    @constraints.dependent_property(is_discrete=False, event_dim=1)  # pyright: ignore[reportArgumentType]
    def support(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Real vectors; NaN belongs to them where it stands for a missing entry."""
        return PARTLY_REAL if self.missing else constraints.real_vector

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw whole points."""
        shape = sample_shape + self.batch_shape + self.event_shape
        noise = jax.random.normal(key, shape, jnp.result_type(self.loc))
        return self.loc[self.y] + jnp.einsum("...ij,...j->...i", self._own(), noise)

    @property
    def mean(self) -> Any:
        """The class's loc."""
        return jnp.broadcast_to(self.loc[self.y], self.batch_shape + self.event_shape)

    @property
    def variance(self) -> Any:
        """The diagonal of the class's covariance."""
        diagonal = jnp.sum(self._own() ** 2, -1)
        return jnp.broadcast_to(diagonal, self.batch_shape + self.event_shape)

    def _own(self) -> Any:
        """Return each point's Cholesky factor."""
        shape = self.loc.shape + self.loc.shape[-1:]
        return jnp.broadcast_to(self.chol, shape)[self.y]

    @validate_sample
    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return η · weight · log density of the entries that are there."""
        power, value = self.learning_rate * self.weight, jnp.asarray(value)
        shape = jnp.broadcast_shapes(jnp.shape(value)[:-1], self.batch_shape)
        value = jnp.broadcast_to(value, shape + self.event_shape)
        y = jnp.broadcast_to(self.y, shape)
        # Zero times NaN would be NaN, and so would its gradient.
        gone = jnp.broadcast_to(power == 0, shape)[..., None] & ~jnp.isfinite(value)
        value = jnp.where(gone, self.loc[y], value)
        density = self._partly if self.missing else self._whole
        plain = density(value.reshape(-1, *self.event_shape), jnp.ravel(y))
        return power * plain.reshape(shape)

    def _whole(self, value: Any, y: Any) -> Any:
        delta = value - self.loc[y]
        # One solve a class for all points, then each point's own: no n · d² factors.
        white = jax.vmap(lambda L: solve_triangular(L, delta.T, lower=True))(self.chol)
        log_diag = jnp.log(jnp.diagonal(self.chol, axis1=-2, axis2=-1))
        each = -0.5 * jnp.sum(white**2, 1) - jnp.sum(log_diag, -1)[:, None]
        own = 0 if len(self.chol) == 1 else y
        picked = each[own, jnp.arange(len(y))]
        return picked - 0.5 * value.shape[-1] * jnp.log(2 * jnp.pi)

    def _partly(self, value: Any, y: Any) -> Any:
        cov = self.chol @ jnp.swapaxes(self.chol, -1, -2)
        cov = jnp.broadcast_to(cov, self.loc.shape + value.shape[-1:])

        def one(x: Any, y: Any) -> Any:
            there = ~jnp.isnan(x)
            delta = jnp.where(there, jnp.where(there, x, 0.0) - self.loc[y], 0)
            # Absent entries become independent standard normals observed at zero.
            both = there[:, None] & there
            L = jnp.linalg.cholesky(jnp.where(both, cov[y], jnp.eye(len(x))))
            white = solve_triangular(L, delta, lower=True)
            log_diag = jnp.sum(jnp.log(jnp.diagonal(L)))
            constant = 0.5 * jnp.sum(there) * jnp.log(2 * jnp.pi)
            return -0.5 * jnp.sum(white**2) - log_diag - constant

        return jax.vmap(one)(value, y)
