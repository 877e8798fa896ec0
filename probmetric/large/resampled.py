"""Resample data on disk by weights that are a function of (seed, row number).

A fit to resampled data is a refit: without a group of rows for a jackknife, or with the
weights of a Bayesian bootstrap. No row is copied. The result does not depend on parts,
workers and order. Learners must ignore rows of weight 0, as every ``Reduction`` does.

References
----------
Rubin, "The Bayesian bootstrap", Ann. Statist. 9 (1981).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_number
from probmetric.data.hash import row_bits
from probmetric.large.source import Block, Source, View, class_counts, n_rows
from probmetric.metric import Dissimilarity
from probmetric.posterior.interval_metric import IntervalMetric, refits, same_size
from probmetric.posterior.jackknife import FACTOR, QUARTERS, REPEATS

BEYOND = 1 << 62
"""A row number that does not occur: its bits are the seeds of streams."""


@dataclass(frozen=True)
class _Weighted:
    """Multiplies the weights of a block by ``factor(row numbers, *arguments)``."""

    factor: Callable[..., Float[np.ndarray, "m"]]
    arguments: tuple[int, ...]

    def __call__(self, block: Block) -> Block:
        w = self.factor(block.first + np.arange(len(block.X)), *self.arguments)
        return block._replace(w=w if block.w is None else block.w * w)


def _reweighted(
    source: Source, factor: Callable[..., np.ndarray], about: str, *arguments: int
) -> View:
    """Multiply the weights by ``factor(row numbers, *arguments)``."""
    change = _Weighted(factor, arguments)
    return View(source, change, f"{source.name} {about}", weighted=True)


def _stream(seed: int, stream: int, row: Int[np.ndarray, "m"]) -> np.ndarray:
    key = row_bits(seed, np.array([BEYOND + stream]))[0]
    return row_bits(int(key), row)


def group_of(
    row: Int[np.ndarray, "m"], n_groups: int, seed: int = 0
) -> Int[np.ndarray, "m"]:
    """Return independent uniform groups 0..n_groups-1 by the hash of row numbers."""
    return (_stream(seed, 0, row) % np.uint64(n_groups)).astype(int)


def without_group(
    source: Source, group: int, *, n_groups: int = 50, seed: int = 0
) -> View:
    """Set the weights of one group of rows to 0, for a delete-group jackknife.

    Parameters
    ----------
    source : Source
    group : int
        Number of the group, 0 to ``n_groups`` - 1.
    n_groups : int, default=50
        Number of groups of rows. If it is at least the number of rows, each row is a
        group.
    seed : int, default=0

    Raises
    ------
    ValueError
        If ``group`` is out of range.
        If there are fewer than two groups.

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
    about = f"without group {group} of {n_groups}, {seed}"
    if n_groups >= n_rows(source):
        return _reweighted(source, _without_row, about, group)
    return _reweighted(source, _without_group, about, group, n_groups, seed)


def _without_row(row: np.ndarray, number: int) -> np.ndarray:
    return (row != number).astype(float)


def _without_group(row: np.ndarray, group: int, n_groups: int, seed: int) -> np.ndarray:
    return (group_of(row, n_groups, seed) != group).astype(float)


def bootstrapped(source: Source, replicate: int, *, seed: int = 0) -> View:
    """Multiply the weights by random weights of a Bayesian bootstrap.

    Random weights are independent Exp(1). Divided by their sum, which is about n, they
    are Dirichlet(1, ..., 1).

    Parameters
    ----------
    source : Source
    replicate : int ≥ 0
        Number of the replicate. Replicates are independent.
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
    replicate = check_number("replicate", replicate, 0, 2**32, whole=True)
    seed = check_number("seed", seed, 0, 2**32 - 1, whole=True)
    about = f"bootstrap {replicate}, {seed}"
    return _reweighted(source, _exponential, about, replicate, seed)


def _exponential(row: np.ndarray, replicate: int, seed: int) -> np.ndarray:
    bits = _stream(seed, 1 + replicate, row) >> np.uint64(11)
    return -np.log((bits + 0.5) / 2.0**53)


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
    if y is not None:
        raise ValueError(
            "y must be None for a dataset on disk, got labels. Use "
            "pm.open(..., label=)."
        )
    if groups is not None:
        raise ValueError(
            "groups must be None for a dataset on disk, got groups. Whole groups are "
            "only left out of arrays."
        )
    n = n_rows(X)
    if n < 2 * QUARTERS:
        raise ValueError(f"X must have {2 * QUARTERS} rows or more, got {n}")
    rests = (
        without_group(X, k, n_groups=QUARTERS, seed=(seed * REPEATS + repeat) % 2**32)
        for repeat in range(REPEATS)
        for k in range(QUARTERS)
    )
    samples = chain([(X,)], zip(rests, strict=True))
    metric, *left_out = same_size(refits(learn, samples, n_jobs))
    about = about or f"{n} rows of {X.name}"
    n_classes = len(class_counts(X)[0]) if X.labeled else 1
    df = min(max(1, n - n_classes), len(left_out) - 1)
    return IntervalMetric(metric, left_out, factor=FACTOR, df=df, about=about)
