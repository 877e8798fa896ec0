"""Leave out groups of rows on disk by weights that depend on (seed, row number).

The jackknife refits a learner without each group of rows. No row is copied. The groups
do not depend on parts, workers or order. Learners must ignore rows of weight 0, as
every ``Reduction`` does.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from probmetric.arguments import check_number
from probmetric.data.hash import row_bits
from probmetric.large.source import (
    Block,
    Source,
    View,
    class_counts,
    n_rows,
    refuse_arrays,
)
from probmetric.metric import Dissimilarity
from probmetric.posterior.interval_metric import IntervalMetric, refits, same_size
from probmetric.posterior.jackknife import QUARTERS, REPEATS, factor_of
from probmetric.progress import progress_bar

BEYOND = 1 << 62
"""A row number that does not occur: its bits are the seed of the groups."""


@dataclass(frozen=True)
class _Without:
    """Set the weights of a group of rows to 0 (of one row if ``n_groups`` is None)."""

    group: int
    n_groups: int | None
    seed: int

    def __call__(self, block: Block) -> Block:
        own = block.first + np.arange(len(block.X))
        if self.n_groups is not None:
            own = group_of(own, self.n_groups, self.seed)
        w = (own != self.group).astype(float)
        return block._replace(w=w if block.w is None else block.w * w)


def group_of(
    row: Int[np.ndarray, "m"], n_groups: int, seed: int = 0
) -> Int[np.ndarray, "m"]:
    """Return independent uniform groups 0..n_groups-1 by the hash of row numbers."""
    key = row_bits(seed, np.array([BEYOND]))[0]
    return (row_bits(int(key), row) % np.uint64(n_groups)).astype(int)


def without_group(
    source: Source, group: int, *, n_groups: int = 50, seed: int = 0
) -> View:
    """Set the weights of one group of rows to 0, for a delete-group jackknife.

    Rows are divided at random into groups. Fit once without each group.

    Parameters
    ----------
    source : Source
        Result of ``pm.open``. Its rows are not copied.
    group : int
        Number of the group, 0 to ``n_groups`` - 1.
    n_groups : int, default=50
        Number of groups of rows. If it is at least the number of rows, each row is a
        group.
    seed : int, default=0
        Seed of the division into groups. Use the same seed for all groups.

    Raises
    ------
    ValueError
        If ``group`` is out of range, or if there are fewer than two groups.

    Examples
    --------
    >>> import probmetric as pm
    >>> rows = without_group(pm.open(np.ones((6, 2))), 4, n_groups=6)
    >>> [block.w.tolist() for part in rows.parts for block in rows.read(part, 6)]
    [[1.0, 1.0, 1.0, 1.0, 0.0, 1.0]]
    """
    n_groups = check_number("n_groups", n_groups, 2, whole=True)
    most = min(n_groups, n_rows(source)) - 1
    group = check_number("group", group, 0, most, whole=True)
    seed = check_number("seed", seed, 0, 2**32 - 1, whole=True)
    name = f"{source.name} without group {group} of {n_groups}, {seed}"
    several = None if n_groups >= n_rows(source) else n_groups
    return View(source, _Without(group, several, seed), name, weighted=True)


def with_intervals(
    learn: Callable[[Source], Dissimilarity],
    X: Source,
    y: object = None,
    *,
    groups: object = None,
    seed: int = 0,
    about: str = "",
    n_jobs: int | None = None,
) -> IntervalMetric:
    """Fit a learner to rows on disk with jackknife refits (``pm.with_intervals``)."""
    refuse_arrays(y=y)
    if groups is not None:
        raise ValueError(
            "groups must be None for a dataset on disk, got groups. Pass arrays to "
            "leave out whole groups."
        )
    n = n_rows(X)
    if n < 2 * QUARTERS:
        raise ValueError(f"X must have at least {2 * QUARTERS} rows, got {n}")
    rests = (
        without_group(X, k, n_groups=QUARTERS, seed=(seed * REPEATS + repeat) % 2**32)
        for repeat in range(REPEATS)
        for k in range(QUARTERS)
    )
    samples = [(X,), *zip(rests, strict=True)]
    samples = progress_bar(samples, "intervals", None, "refit")
    metric, *left_out = same_size(refits(learn, samples, n_jobs))
    about = about or f"{n} rows of {X.name}"
    counts = class_counts(X)[1] if X.labeled else np.array([n])
    df = min(max(1, n - len(counts)), len(left_out) - 1)
    factor = factor_of(counts)
    return IntervalMetric(metric, left_out, factor=factor, df=df, about=about)
