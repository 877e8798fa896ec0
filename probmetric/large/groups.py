"""EM for grouped instances of data on disk, which are collected in one pass.

EM uses only the size n_i, the mean x̄_i and the scatter S_i = Σ_j e_ij e_ijᵀ of a group,
where e_ij are residuals (Eqs. (1) and (3) of ``two_stage.groups``). One pass collects
these statistics. The rows of a group may be anywhere in the data. Let m new rows of
group i have mean m̄ and scatter S_m. With δ = m̄ - x̄_i, the formulas of Chan, Golub and
LeVeque give the update

    x̄_i ← x̄_i + δ m/(n_i + m),      S_i ← S_i + S_m + δδᵀ n_i m/(n_i + m).         (1)

S_i is stored as rows R_i with R_iᵀ R_i = S_i. For a group of two to d members the rows
are the residuals. For a larger group they are the d rows of a root of S_i,

    R_iᵀ R_i = S_i,   R_i = diag(λ)^½ Uᵀ,   S_i = U diag(λ) Uᵀ.                    (2)

Memory is G (d + 8) numbers for G groups, plus (d + ½) Σ min(n_i, d) over groups of two
or more. With one component every responsibility is 1, so the sum

    Σ_i S_i                                                                        (3)

is sufficient, and memory is G (d + 8) numbers for any group sizes.

Groups, sorted by label, form ``BINS`` contiguous bins. A worker reads *all* rows once,
and stores only the groups of its bins. A step of EM adds the sums of the bins in order,
so results have the same bits for any number of workers. EM starts from k-means++ of the
means of all groups, or of about ``SAMPLE`` groups.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from functools import reduce as fold
from itertools import chain, pairwise
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.data.hash import row_bits
from probmetric.data.padding import pad_rows
from probmetric.data.scaling import Scaler
from probmetric.inference.mixture.start import best_of, start_mixture
from probmetric.inference.mixture.statistics import GroupStats
from probmetric.inference.solvers.em import run_em_passes
from probmetric.inference.solvers.result import Fit
from probmetric.inference.two_stage.fit import start_of, tied
from probmetric.inference.two_stage.groups import GroupData, e_step, improved
from probmetric.inference.two_stage.proportional import improved_proportional
from probmetric.large.engine import hold, run, split
from probmetric.large.passes import Pass, hash_of, kept
from probmetric.large.source import (
    BINS,
    SAMPLE,
    Source,
    bins,
    block_rows,
    blocks_of,
    n_features,
)
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior, proportional
from probmetric.precision import to_numpy
from probmetric.typing import Array

type Bins = dict[int, GroupData]
"""Groups of some consecutive bins, by bin number. All entries have one shape."""


class Collected(NamedTuple):
    """Collected groups: ``Bins`` on the workers, and the number of groups."""

    held: Any
    none: GroupData
    n_groups: int
    name: str


def _ends(n_groups: int) -> Int[np.ndarray, "_"]:
    """Return the first group number of each bin, then the number of groups."""
    return np.arange(BINS + 1) * n_groups // BINS


class _Layout:
    """Positions of groups ``low`` to ``high`` in the arrays of some bins.

    Each bin has space for ``most`` means and ``rows`` rows. ``groups`` has the groups
    of each bin. Arrays by group: ``size``, number of ``stored`` rows, index of the
    ``mean``, first row (``at``), and whether the rows are a ``root``.
    """

    def __init__(
        self, sizes: Int[np.ndarray, "G"], d: int, mine: Sequence[int], *, pooled: bool
    ) -> None:
        G, ends = len(sizes), _ends(len(sizes))
        every = np.repeat(np.arange(BINS), np.diff(ends))
        rows = np.where(sizes > 1, np.minimum(sizes, d), 0)
        if pooled:  # The first of a bin has its root.
            rows = np.zeros(G, int)
            rows[ends[:-1][np.diff(ends) > 0]] = d
        self.most = max(1, int(np.diff(ends).max()))
        self.rows = max(1, int(np.bincount(every, rows, BINS).max()))
        self.low, self.high = int(ends[mine[0]]), int(ends[mine[-1] + 1])
        some = slice(self.low, self.high)
        self.groups = [slice(ends[b] - self.low, ends[b + 1] - self.low) for b in mine]
        self.bins, of = mine, every[some] - mine[0]
        self.size, self.stored = sizes[some], rows[some]
        first = ends[every[some]] - self.low
        before = np.cumsum(self.stored) - self.stored
        self.mean = of * self.most + np.arange(len(of)) - first
        self.at = of * self.rows + (0 if pooled else before - before[first])
        self.root = np.full(len(of), True) if pooled else self.size > d


class _Collector:
    def __init__(self, layout: _Layout, d: int) -> None:
        self.layout, bins = layout, len(layout.bins)
        self.counts = np.zeros(len(layout.size), int)
        self.mean = np.zeros((bins * layout.most, d))
        self.stored = np.zeros((bins * layout.rows, d))

    def add(self, group: Int[np.ndarray, "m"], Z: Float[np.ndarray, "m d"]) -> None:
        """Add rows, Eq. (1)."""
        order = np.argsort(group, kind="stable")
        group, Z = group[order], Z[order]
        which, start, m = np.unique(group, return_index=True, return_counts=True)
        mean, to = np.add.reduceat(Z, start) / m[:, None], self.layout.mean[which]
        n = self.counts[which]
        part, off = m / (n + m), mean - self.mean[to]
        self._keep(group, Z, np.arange(len(group)) - np.repeat(start, m))
        apart = np.sqrt(n * part)[:, None] * off
        rows = np.concatenate([Z - np.repeat(mean, m, 0), apart])
        owner = np.concatenate([group, which])
        order = np.argsort(owner, kind="stable")
        self._scatter(owner[order], rows[order])
        self.mean[to] += off * part[:, None]
        self.counts[which] += m

    def _keep(self, group: np.ndarray, Z: np.ndarray, place: np.ndarray) -> None:
        layout = self.layout
        small = ~layout.root[group] & (layout.size[group] > 1)
        group_of = group[small]
        self.stored[layout.at[group_of] + self.counts[group_of] + place[small]] = Z[
            small
        ]

    def _scatter(self, group: np.ndarray, rows: np.ndarray) -> None:
        """Add the products of rows, sorted by group, to scatters."""
        root = self.layout.root[group]
        at, rows = self.layout.at[group[root]], rows[root]
        d = rows.shape[1]
        cuts = [*np.flatnonzero(np.diff(at, prepend=-1)).tolist(), len(at)]
        for a, b in pairwise(cuts):
            self.stored[at[a] : at[a] + d] += rows[a:b].T @ rows[a:b]

    def finish(self) -> Int[np.ndarray, "_"]:
        """Make residuals and roots, Eq. (2); return the group of each row."""
        layout, d = self.layout, self.mean.shape[1]
        owner = np.zeros(len(self.stored), np.int32)
        for k, groups in enumerate(layout.groups):  # Bin by bin, to limit the memory.
            place = np.repeat(
                np.arange(len(layout.stored[groups])), layout.stored[groups]
            )
            rows = slice(k * layout.rows, k * layout.rows + len(place))
            owner[rows] = place
            small = ~layout.root[groups][place]
            stored = self.stored[rows]
            stored[small] -= self.mean[k * layout.most + place[small]]
        for first in layout.at[layout.root & (layout.stored > 0)].tolist():
            values, U = np.linalg.eigh(self.stored[first : first + d])
            # Negative eigenvalues of a scatter are rounding errors.
            root = np.sqrt(np.maximum(values, 0))[:, None] * U.T
            self.stored[first : first + d] = root
        return owner


def _rows(
    source: Source, classes: np.ndarray, scaler: Scaler, low: int, high: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield groups, from 0, and standardized rows of the groups from low to high."""
    parts, size = bins(source.parts), block_rows(source)
    for block in blocks_of(source, parts, size, classes=classes):
        X, y, w = (a[: block.rows] for a in (block.X, block.y, block.w))
        odd = np.flatnonzero((w != 0) & (w != 1))
        if odd.size:
            raise ValueError(
                "weight must be 0 or 1 in every row if groups are used, got "
                f"{w[odd[0]]} in row {block.first + odd[0]} of {source.name}. Remove "
                "other weights."
            )
        chosen = (y >= low) & (y < high) & (w > 0)
        if chosen.any():
            yield y[chosen] - low, (X[chosen] - scaler.mean) / scaler.scale


def collect(
    source: Source,
    scaler: Scaler,
    classes: np.ndarray,
    sizes: Int[np.ndarray, "G"],
    *,
    pooled: bool = False,
) -> Collected:
    """Collect groups in one pass over all rows, for each worker.

    The labels of the dataset are the groups. Rows of weight 0 are ignored. ``classes``
    and ``sizes`` are from ``class_counts``. With ``pooled``, which requires one
    component, only the total scatter is stored, Eq. (3). Raises ValueError if a weight
    is neither 0 nor 1.
    """
    d = n_features(source)
    shared = source, scaler, classes, sizes, pooled
    layout = _Layout(sizes, d, range(BINS), pooled=pooled)
    none = GroupData(
        np.zeros((layout.most, d)),
        np.ones(layout.most),
        np.zeros(layout.most),
        np.zeros((layout.rows, d)),
        np.zeros(layout.rows, np.int32),
    )
    held = hold(_collect, split(range(BINS)), *shared)
    return Collected(held, none, len(sizes), hash_of(source))


def _collect(
    mine: Sequence[int],
    source: Source,
    scaler: Scaler,
    classes: np.ndarray,
    sizes: Int[np.ndarray, "G"],
    pooled: bool,
) -> Bins:
    d = n_features(source)
    layout = _Layout(sizes, d, mine, pooled=pooled)
    collector = _Collector(layout, d)
    for group, Z in _rows(source, classes, scaler, layout.low, layout.high):
        collector.add(group, Z)
    owner, ends, collected = (
        collector.finish(),
        _ends(len(sizes)),
        dict[int, GroupData](),
    )
    for k, b in enumerate(layout.bins):
        g, r = (slice(k * n, (k + 1) * n) for n in (layout.most, layout.rows))
        members = slice(int(ends[b]), int(ends[b + 1]))
        count = members.stop - members.start
        if count:  # Fill up with groups of weight 0.
            size = pad_rows(sizes[members].astype(float), layout.most, 1)
            w = (np.arange(layout.most) < count).astype(float)
            mean, residual = collector.mean[g], collector.stored[r]
            collected[b] = GroupData(mean, size, w, residual, owner[r])
    return collected


_sums = jax.jit(e_step)
_added = jax.jit(partial(jax.tree.map, lambda a, b: a + b))
_free = jax.jit(improved)
_tied = jax.jit(improved_proportional)


def _statistics(data: Bins, params: TwoStageParams) -> list[GroupStats]:
    with jax.enable_x64(True):
        return [to_numpy(_sums(params, groups)) for groups in data.values()]


def statistics(groups: Collected, params: TwoStageParams, given: object) -> GroupStats:
    """Compute the expected statistics of the E-step over all groups.

    ``given`` are further values that identify the pass in a checkpoint.
    """

    def compute() -> GroupStats:
        sums = chain.from_iterable(run(_statistics, groups.held, params))
        return to_numpy(fold(_added, sums))

    which = Pass("groups", groups.name, (params, given))
    with jax.enable_x64(True):
        return kept(which, lambda: _statistics({0: groups.none}, params)[0], compute)


def _chosen_means(
    data: Bins, chosen: Int[np.ndarray, "m"], n_groups: int
) -> list[np.ndarray]:
    ends = _ends(n_groups)
    return [
        np.asarray(groups.mean)[
            chosen[(chosen >= ends[b]) & (chosen < ends[b + 1])] - ends[b]
        ]
        for b, groups in data.items()
    ]


def _means(groups: Collected, seed: int) -> Float[np.ndarray, "m d"]:
    """Collect the means of groups in order, or of a sample if there are many."""
    chosen = np.arange(groups.n_groups)
    if len(chosen) > SAMPLE:
        rate = SAMPLE / len(chosen)
        chosen = np.flatnonzero(row_bits(seed, chosen) / 2.0**64 < rate)
    means = run(_chosen_means, groups.held, chosen, groups.n_groups)
    return np.concatenate(list(chain.from_iterable(means)))


def _scatters(data: Bins) -> list[Float[np.ndarray, "d d"]]:
    residuals = (np.asarray(groups.residual) for groups in data.values())
    return [R.T @ R for R in residuals]


def scatter_within(groups: Collected) -> Float[np.ndarray, "d d"]:
    """Compute the scatter within groups, summed over all groups."""
    return fold(np.add, chain.from_iterable(run(_scatters, groups.held)))


def fit_groups(
    groups: Collected,
    sizes: Int[np.ndarray, "G"],
    *,
    n_components: int,
    prior: TwoStagePrior | None,
    covariance: Literal["free", "proportional"] = "free",
    alpha: float = 0.5,
    n_starts: int = 1,
    seed: int = 0,
    max_steps: int = 1000,
    tol: float | None = None,
) -> Fit:
    """Fit the two-stage mixture to collected groups by EM, without reading rows.

    ``groups`` may be pooled only with one component.
    """
    em = partial(run_em_passes, max_steps=max_steps, tol=tol)
    mean, scatter = _means(groups, seed), scatter_within(groups)
    degrees = float((sizes - 1).sum())

    def step(
        params: Any, to_params: Callable[..., TwoStageParams], improve: Any
    ) -> Any:
        stats = statistics(groups, to_params(*params), prior)
        with jax.enable_x64(True):
            return improve(params, stats, prior)

    def solve(seed: int) -> Fit:
        mixture = start_mixture(mean, np.ones(len(mean)), n_components, seed=seed)
        first = start_of(mixture, scatter, degrees, alpha)
        if covariance == "free":
            return em(
                partial(step, to_params=TwoStageParams, improve=_free), params=first
            )
        end = em(
            partial(step, to_params=_host_proportional, improve=_tied),
            params=tied(first),
        )
        return end._replace(params=proportional(*end.params))

    return best_of([solve(s) for s in range(seed, seed + n_starts)])


def _host_proportional(*params: Array) -> TwoStageParams:
    return to_numpy(proportional(*params))
