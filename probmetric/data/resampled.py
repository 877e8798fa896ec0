"""Resampling of a ``Source``: rows weighted by a function of (seed, number of the row).

What a learner makes of such a source is a refit: without a group of the rows for a
jackknife, or under the weights of a Bayesian bootstrap. No row is copied, and as a
weight depends on the row's number alone, a refit is the same in any parts, processes
and order. A learner that takes weights of 0 for rows that are not there, as every
``Reduction`` does, needs to know nothing of it.

References
----------
Rubin, "The Bayesian bootstrap", Ann. Statist. 9 (1981).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_number
from probmetric.data.source import Block, Part, Source, n_rows, row_bits

BEYOND = 1 << 62
"""A number that no row has: its bits are the seeds of the streams below."""


@dataclass(frozen=True)
class Resampled:
    """A source with other weights.

    Parameters
    ----------
    source : Source
    weight : callable
        ``weight(numbers) -> weights``, numbers of rows (m,) to factors ≥ 0 (m,) of the
        weights that they have.
    about : str
        What the weights are; with the source's name it says which source this is.
    """

    source: Source
    weight: Callable[[Int[np.ndarray, "m"]], Float[np.ndarray, "m"]]
    about: str

    @property
    def name(self) -> str:
        """Where the rows are, and how they are weighted."""
        return f"{self.source.name} {self.about}"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.feature_names

    @property
    def parts(self) -> Sequence[Part]:
        """Those of the source."""
        return self.source.parts

    @property
    def labelled(self) -> bool:
        """Whether the source's rows have labels."""
        return self.source.labelled

    @property
    def weighted(self) -> bool:
        """Always."""
        return True

    def read(self, part: Part, rows: int, *, features: bool = True) -> Iterator[Block]:
        """Yield the rows of a part with their weights, as ``Source.read``."""
        for block in self.source.read(part, rows, features=features):
            w = self.weight(block.first + np.arange(len(block.X)))
            yield block._replace(w=w if block.w is None else block.w * w)


def _stream(seed: int, stream: int, row: Int[np.ndarray, "m"]) -> np.ndarray:
    """Return ``row_bits`` of one of the streams of a seed."""
    key = row_bits(seed, np.array([BEYOND + stream]))[0]
    return row_bits(int(key), row)


def group_of(
    row: Int[np.ndarray, "m"], n_groups: int, seed: int = 0
) -> Int[np.ndarray, "m"]:
    """Return the group, 0 to ``n_groups`` - 1, of rows, by the hash of their numbers.

    Groups are independent and uniform: their sizes vary, about n / n_groups.
    """
    return (_stream(seed, 0, row) % np.uint64(n_groups)).astype(int)


def without_group(
    source: Source, group: int, *, n_groups: int = 50, seed: int = 0
) -> Resampled:
    """Return the source without one of its groups of rows: a delete-group jackknife's.

    Parameters
    ----------
    source : Source
    group : int
        0 to ``n_groups`` - 1: rows of it have weight 0.
    n_groups : int, default=50
        As ``group_of``; as many as there are rows, or more, make each row a group.
    seed : int, default=0

    Raises
    ------
    ValueError
        For a group that there is not, or fewer than two groups.

    Examples
    --------
    >>> import probmetric as pm
    >>> rows = without_group(pm.open(np.ones((6, 2))), 4, n_groups=6)
    >>> [block.w.tolist() for part in rows.parts for block in rows.read(part, 6)]
    [[1.0, 1.0, 1.0, 1.0, 0.0, 1.0]]
    """
    check_number("n_groups", n_groups, 2, whole=True)
    check_number("group", group, 0, min(n_groups, n_rows(source)) - 1, whole=True)
    check_number("seed", seed, 0, 2**32 - 1, whole=True)
    alone = n_groups >= n_rows(source)

    def weight(row: np.ndarray) -> np.ndarray:
        own = row if alone else group_of(row, n_groups, seed)
        return (own != group).astype(float)

    return Resampled(source, weight, f"without group {group} of {n_groups}, {seed}")


def bootstrapped(source: Source, replicate: int, *, seed: int = 0) -> Resampled:
    """Return the source under the weights of one replicate of a Bayesian bootstrap.

    Weights are independent Exp(1), which are those of Dirichlet(1, ..., 1) but for
    their sum: about n, not n.

    Parameters
    ----------
    source : Source
    replicate : int ≥ 0
    seed : int, default=0

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = pm.datasets.load("iris")
    >>> source = pm.open(X, label=y)
    >>> fits = [
    ...     pm.LDA(prior_strength=1).fit(bootstrapped(source, r)) for r in range(20)
    ... ]
    >>> spread = np.std([fit.get_metric().distance(X[0], X[60]) for fit in fits])
    >>> bool(0 < spread < 1)
    True
    """
    check_number("replicate", replicate, 0, 2**32, whole=True)
    check_number("seed", seed, 0, 2**32 - 1, whole=True)

    def weight(row: np.ndarray) -> np.ndarray:
        bits = _stream(seed, 1 + replicate, row) >> np.uint64(11)
        return -np.log((bits + 0.5) / 2.0**53)

    return Resampled(source, weight, f"bootstrap {replicate}, {seed}")
