"""How the two-stage mixture sees its data: sources, each with its instances."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpyro.distributions import constraints

from probmetric.data import Groups, Pairs, Points
from probmetric.typing import Array

__all__ = ["Stacks", "Weighted", "as_groups", "stack"]


class Stacks(NamedTuple):
    """Groups sorted by size: ``X[b]`` (G_b, n_b, d) and group weights ``w[b]`` (G_b,).

    The sizes are shapes, so that a compiled function knows them.
    """

    X: tuple[Float[Array, "_ _ d"], ...]
    w: tuple[Float[Array, "_"], ...]


class Weighted(dist.Distribution):
    """A distribution whose log density is multiplied by ``weight`` ≥ 0.

    ``sample`` ignores the weight.
    """

    arg_constraints = {"weight": constraints.nonnegative}  # noqa: RUF012  NumPyro's own
    pytree_data_fields = ("base_dist", "weight")

    def __init__(self, base_dist: Any, weight: Any, *, validate_args: Any = None):
        self.base_dist, self.weight = base_dist, weight
        shape: Any = jnp.broadcast_shapes(base_dist.batch_shape, jnp.shape(weight))
        super().__init__(shape, base_dist.event_shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        """The support of the distribution that is weighted."""
        return self.base_dist.support

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw from the distribution that is weighted."""
        return self.base_dist.expand(self.batch_shape).sample(key, sample_shape)

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return weight · log density."""
        return self.weight * self.base_dist.log_prob(value)


def as_groups(data: Points | Pairs | Groups) -> Groups:
    """Return single instances, or pairs, as groups with a common source.

    A pair with y = 1 is a group of two; with y = 0 it is two groups of one.

    Raises
    ------
    ValueError
        For pairs without labels.
    """
    if isinstance(data, Groups):
        return data
    if isinstance(data, Points):
        return Groups(data.X, np.arange(len(data.X)), data.w)
    if data.y is None:
        raise ValueError(
            "y: wanted which pairs share a source (1) or not (0), got None"
        )
    same = np.asarray(data.y) == 1
    first = np.cumsum(np.r_[0, np.where(same, 1, 2)])[:-1]
    group = np.stack([first, np.where(same, first, first + 1)], 1).ravel()
    rows = np.stack([np.asarray(data.i), np.asarray(data.j)], 1).ravel()
    w = None if data.w is None else data.w[np.repeat(np.arange(len(same)), 2)]
    return Groups(data.X[rows], group, w)


def stack(data: Points | Pairs | Groups | Stacks) -> Stacks:
    """Sort groups by size. The weight of a group is the mean over its points."""
    if isinstance(data, Stacks):
        return data
    groups = as_groups(data)
    codes = np.asarray(groups.group)
    order = np.argsort(codes, kind="stable")
    _, start, size = np.unique(codes[order], return_index=True, return_counts=True)
    X = groups.X
    w = np.ones(len(X), X.dtype) if groups.w is None else groups.w
    rows = [
        order[start[size == n][:, None] + np.arange(n)]
        for n in sorted(set(size.tolist()))
    ]
    return Stacks(tuple(X[r] for r in rows), tuple(w[r].mean(1) for r in rows))
