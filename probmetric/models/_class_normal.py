"""An observation given its class, as a Distribution with weight and missing entries."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

__all__ = ["ClassNormal"]


class _PartlyReal(constraints.Constraint):
    """Real vectors with NaN where an entry is missing."""

    event_dim = 1

    def __call__(self, x: Any) -> Any:
        return ~jnp.any(jnp.isinf(x), -1)

    def tree_flatten(self) -> Any:
        return (), ((), {})


_PARTLY_REAL = _PartlyReal()


class ClassNormal(dist.Distribution):
    """x ~ N(loc[y], chol[y] chol[y]ᵀ) for given class codes y (n,).

    Parameters
    ----------
    loc : array of shape (c, d)
    chol : array of shape (c, d, d), or (1, d, d) where the classes share it
        Lower Cholesky factors of the covariances.
    y : array of shape (n,)
        Class codes.
    weight : array or float, default=1
        Data weight of each point, ≥ 0; zero removes it.
    learning_rate : float, default=1
        Power η on the likelihood.
    missing : bool, default=False
        NaN entries of x are integrated out exactly: the density is that of the
        entries that are there, by one Cholesky factor a point (n d³). Otherwise a
        NaN gives NaN.

    Notes
    -----
    ``log_prob`` is η · weight · log density; ``sample`` draws whole points from the
    plain normal.
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
            batch_shape=jnp.shape(y),
            event_shape=jnp.shape(loc)[-1:],
            validate_args=validate_args,
        )

    @constraints.dependent_property(is_discrete=False, event_dim=1)  # pyright: ignore[reportArgumentType]
    def support(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Real vectors; NaN belongs to them where it stands for a missing entry."""
        return _PARTLY_REAL if self.missing else constraints.real_vector

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw whole points."""
        shape = sample_shape + self.batch_shape + self.event_shape
        noise = jax.random.normal(key, shape, jnp.result_type(self.loc))
        chol = jnp.broadcast_to(self.chol, self.loc.shape + shape[-1:])
        return self.loc[self.y] + jnp.einsum("nij,...nj->...ni", chol[self.y], noise)

    @validate_sample
    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return η · weight · log density of the entries that are there."""
        plain = self._partly(value) if self.missing else self._whole(value)
        return self.learning_rate * self.weight * plain

    def _whole(self, value: Any) -> Any:
        delta = value - self.loc[self.y]
        # One solve a class for all points, then each point's own: no n · d² factors.
        white = jax.vmap(lambda L: solve_triangular(L, delta.T, lower=True))(self.chol)
        log_diag = jnp.log(jnp.diagonal(self.chol, axis1=-2, axis2=-1))
        each = -0.5 * jnp.sum(white**2, 1) - jnp.sum(log_diag, -1)[:, None]
        own = 0 if len(self.chol) == 1 else self.y
        picked = each[own, jnp.arange(len(self.y))]
        return picked - 0.5 * value.shape[-1] * jnp.log(2 * jnp.pi)

    def _partly(self, value: Any) -> Any:
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

        return jax.vmap(one)(value, self.y)
