"""The default fit of LCA from a sample of anchors, each with its nearest of *all* rows.

Nearest pairs of n points cost O(n²). A of the points are drawn as anchors; only these
look for partners, but among all rows: the k nearest of their class and the m nearest of
the others are exact, so that the pairs are a sample of the pairs of the full fit, and
the estimate falls towards it as 1/√A. To thin the *rows* and pair what is left is
another thing: neighbours of a thinned set are farther, by (n/n')^(1/d), and the fit is
of another design, with another P(same) (60 000 rows, d = 8, 8000 kept: the shape of M
off by .14-.19 where 8000 anchors are off by .05-.06, its scale by .6 where theirs is
.98 to .99). It is not offered.

Anchors are drawn within each class: of class c with n_c rows the

    A_c = max(A n_c/n, 2), at most n_c,                                            (1)

rows of least hash of (seed, row), whatever the parts that they are read in; more
anchors contain the fewer. Their pairs weigh w = n_c/A_c, scaled to a mean of 1. The
prior keeps the proportion to the likelihood that it has in the full fit: "auto" is
λ(n) A/n, and the learning rate is A/N.

Standard error of M from the drawing of anchors, by random groups. The anchors of each
class are dealt into G groups by their hash. Each group is fitted as the whole is, with
the refresh and pairs of its own, its weights times the ratio that gives the prior the
same proportion. With M_g of the groups and M̄ their mean,

    se² = (1 - A/n) Σ_g (M_g - M̄)² / (G (G - 1)),   of G - 1 degrees of freedom.    (2)

The scores of the pairs alone (a sandwich) do not do: they leave out that the refresh
finds pairs under a map that has errors too, and covered .67 where .90 was nominal, with
errors 1.5 times theirs. Nominal 90 % of Eq. (2) covered what
``benchmarks/results/anchors.md`` says. With ``n_anchors="auto"`` anchors are doubled
until ‖se‖ is below ``AGREE`` times ‖M‖.

P(same) is calibrated on the pairs of each half of the anchors under the fit to the
other half.

A pass reads every row once, in any number of processes; what is kept of it is gathered
and has the same bits on each (``neighbors.stream``). The solver runs in each of them on
all pairs, which are 2A(k + m) rows at most.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Pairs
from probmetric.data.padding import host_weights
from probmetric.data.scaling import Scaler, constant_columns
from probmetric.data.source import (
    Source,
    ahead,
    block_rows,
    class_counts,
    filled,
    n_features,
    row_bits,
    share,
)
from probmetric.inference.lca.fit import scaled_axes
from probmetric.inference.lca.recipe import (
    Fitted,
    Recipe,
    auto_regularization,
    mean_of,
    neighbors_of,
    prior_for,
    solve,
)
from probmetric.inference.moments import class_moments, standardised, total_scatter
from probmetric.inference.solvers.result import Fit
from probmetric.metric import Mahalanobis
from probmetric.models.lca import LCAParams, to_metric
from probmetric.neighbors.block import Asked, Block, Candidates, offer_block
from probmetric.neighbors.stream import over_processes
from probmetric.processes.checkpoint import Pass, hash_of, kept
from probmetric.processes.distributed import gather, together

DEFAULT = 100_000
"""Anchors of a source, where no number is given: all rows if they are fewer."""

FIRST = 1000
"""Anchors that ``n_anchors="auto"`` begins with."""

AGREE = 0.05
"""Relative standard error of M below which "auto" stops."""

LEAST = 2
"""Anchors of a class: one in each half."""

GROUPS = 8
"""Groups of anchors of which the standard error is made."""

TILE = 1024


class Rows(NamedTuple):
    """Consecutive standardised rows (b, d), class codes (b,), number of the first."""

    Z: Float[np.ndarray, "b d"]
    codes: Int[np.ndarray, "b"]
    first: int


class Reader(NamedTuple):
    """What passes read: the rows of this process in order, and what they all are.

    ``counts`` (c,) are the rows of each class in all processes, ``name`` a hash of the
    parts, ``scatter`` (d, d) that of all rows about their mean, or None.
    """

    rows: Callable[[], Iterator[Rows]]
    counts: Int[np.ndarray, "c"]
    n_features: int
    name: str
    scatter: Float[np.ndarray, "d d"] | None = None


class Anchors(NamedTuple):
    """Rows drawn, in order: numbers, points, class codes, weights, place in the class.

    Places are in the order of the hashes: they deal anchors into groups.
    """

    row: Int[np.ndarray, "A"]
    Z: Float[np.ndarray, "A d"]
    code: Int[np.ndarray, "A"]
    w: Float[np.ndarray, "A"]
    place: Int[np.ndarray, "A"]


class Anchored(NamedTuple):
    """A fit from anchors.

    Attributes
    ----------
    fitted : Fitted
    anchors : Anchors
    share : float
        A/n.
    error : array (d, d)
        Standard error of M, Eq. (2), in standardised units.
    relative : float
        ‖se‖ / ‖M‖.
    squared, y : arrays
        Squared distances of each half's pairs under the map of the other, in units of
        the link, and their labels.
    """

    fitted: Fitted
    anchors: Anchors
    share: float
    error: Float[np.ndarray, "d d"]
    relative: float
    squared: Float[np.ndarray, "N"]
    y: Int[np.ndarray, "N"]


def in_memory(Z: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"]) -> Reader:
    """Return a reader of arrays; several processes hold them all, and read a share."""

    def rows() -> Iterator[Rows]:
        rank, size = together()
        a, b = len(Z) * rank // size, len(Z) * (rank + 1) // size
        if a < b:
            yield Rows(Z[a:b], codes[a:b], a)

    name = f"{len(Z)} rows in memory"
    about = Z - Z.mean(0)
    return Reader(rows, np.bincount(codes), Z.shape[1], name, about.T @ about)


def of_source(
    source: Source, *, standardize: bool
) -> tuple[Reader, np.ndarray, Scaler]:
    """Return a reader of a source's rows, standardised; the classes; the scaler.

    Two passes: labels, which every process reads, and moments.

    Raises
    ------
    ValueError
        For rows without labels or with weights, one class, a class of one member, and
        columns that are all constant.
    """
    if not source.labelled or source.weighted:
        raise ValueError(
            f"X: expected a source with labels and without weights, got {source.name} "
            f"with labelled={source.labelled}, weighted={source.weighted}"
        )
    classes, counts = class_counts(source, source.parts)
    if len(classes) < 2 or counts.min() < 2:
        raise ValueError(
            "y: expected two or more classes of two or more members, got "
            f"{dict(zip(classes.tolist()[:5], counts.tolist(), strict=False))}"
        )
    found, origin = class_moments(source, classes)
    n, low, high, mean, square = found.columns
    d = n_features(source)
    scaler = Scaler(np.zeros(d), np.ones(d))
    if standardize:
        constant = constant_columns(np.array([low, high]))
        if constant.all():
            raise ValueError(
                "X: expected a column that varies, got constant columns alone"
            )
        scale = np.where(constant, 1.0, np.sqrt(np.asarray(square) / n))
        scaler = Scaler(np.asarray(mean), scale)
    size = block_rows(source)

    def rows() -> Iterator[Rows]:
        for parts in share(source.parts, *together()).values():
            for X, y, _, first, n in ahead(
                filled(source, parts, size, classes=classes)
            ):
                yield Rows((X[:n] - scaler.mean) / scaler.scale, y[:n], first)

    scatter = total_scatter(standardised(found, origin, scaler))
    return Reader(rows, counts, d, hash_of(source), scatter), classes, scaler


def sizes_of(counts: Int[np.ndarray, "c"], n_anchors: int) -> Int[np.ndarray, "c"]:
    """Return the anchors of each class, Eq. (1)."""
    wanted = np.rint(n_anchors * counts / counts.sum()).astype(int)
    return np.minimum(np.maximum(wanted, LEAST), counts)


def draw_anchors(reader: Reader, n_anchors: int, seed: int) -> Anchors:
    """Draw anchors in one pass."""
    sizes = sizes_of(reader.counts, n_anchors)
    A, d = int(sizes.sum()), reader.n_features
    like = (np.zeros(A, int), np.zeros((A, d)))
    which = Pass("anchors", reader.name, (sizes, np.int64(seed)))
    row, Z = kept(which, lambda: like, lambda: _least(reader, sizes, seed))
    code = np.repeat(np.arange(len(sizes)), sizes)
    rank = np.concatenate([np.arange(size) for size in sizes])
    w = np.repeat(reader.counts / sizes, sizes)
    order = np.argsort(row)
    return Anchors(
        row[order], Z[order], code[order], (w / w.mean())[order], rank[order]
    )


def _least(reader: Reader, sizes: np.ndarray, seed: int) -> tuple[Any, Any]:
    """Return number and point of the rows of least hash of each class, in order."""
    d = reader.n_features
    none = np.zeros(0, np.uint64), np.zeros(0, int), np.zeros((0, d))
    best = [none for _ in sizes]
    for Z, codes, first in reader.rows():
        row = first + np.arange(len(Z))
        hashes = row_bits(seed, row)
        for c, size in enumerate(sizes.tolist()):
            own = np.flatnonzero(codes == c)
            if len(best[c][0]) == size:
                own = own[hashes[own] <= best[c][0][-1]]
            if len(own):
                best[c] = _lowest(best[c], (hashes[own], row[own], Z[own]), size)
    A = int(sizes.sum())
    whole: list[np.ndarray] = [np.zeros((A, *a.shape[1:]), a.dtype) for a in none]
    there = np.zeros(A, bool)
    for at, found in zip(np.cumsum(sizes) - sizes, best, strict=True):
        span = slice(at, at + len(found[0]))
        there[span] = True
        for to, of in zip(whole, found, strict=True):
            to[span] = of
    there, *gathered = gather((there, *whole))
    rows: list[np.ndarray] = []
    points: list[np.ndarray] = []
    for at, size in zip(np.cumsum(sizes) - sizes, sizes.tolist(), strict=True):
        span = slice(at, at + size)
        seen = there[:, span]
        _, row, Z = _lowest(none, tuple(a[:, span][seen] for a in gathered), size)
        rows.append(row)
        points.append(Z)
    return np.concatenate(rows), np.concatenate(points)


def _lowest(a: Any, b: Any, size: int) -> Any:
    """Return the ``size`` of two lists of rows with the least hash, in order."""
    joined = [np.concatenate(both) for both in zip(a, b, strict=True)]
    order = np.lexsort((joined[1], joined[0]))[:size]
    return tuple(part[order] for part in joined)


class Design(NamedTuple):
    """Anchors, by their places in ``Anchors``, and the map under which they look."""

    which: Int[np.ndarray, "a"]
    factor: Float[np.ndarray, "p d"]


def paired(
    reader: Reader, anchors: Anchors, k: int, m: int, designs: list[Design]
) -> list[Pairs]:
    """Return anchors with their nearest k rows of their class and m of the others.

    Under ‖factor (x - x')‖ of each design; one pass for all. Pairs are in the order of
    ``nearest_pairs``: by anchor, same first, then by (distance, row).
    """
    d = reader.n_features
    like = [
        tuple(
            a
            for j in (k, m)
            for a in (np.zeros((A, j)), np.zeros((A, j), int), np.zeros((A, j, d)))
        )
        for A in (len(design.which) for design in designs)
    ]
    which = Pass("pairs", reader.name, (designs, anchors.row))
    found = kept(which, lambda: like, lambda: _found(reader, anchors, k, m, designs))
    return [
        _pairs(anchors, design.which, *one)
        for design, one in zip(designs, found, strict=True)
    ]


def _pairs(anchors: Anchors, which: np.ndarray, *found: np.ndarray) -> Pairs:
    """Return pairs of what was found: near, index and points of same, of other."""
    near, index = (np.concatenate([found[s], found[s + 3]], 1) for s in (0, 1))
    rows = np.concatenate([found[2], found[5]], 1)
    there = ~np.isnan(near)
    who, column = np.nonzero(there)
    number = np.concatenate([anchors.row[which], index[there]])
    points = np.concatenate([anchors.Z[which], rows[there]])
    _, first, place = np.unique(number, return_index=True, return_inverse=True)
    return Pairs(
        points[first],
        place[: len(which)][who],
        place[len(which) :],
        (column < found[0].shape[1]).astype(int),
        w=anchors.w[which][who],
        anchor=which[who],
    )


def _found(
    reader: Reader, anchors: Anchors, k: int, m: int, designs: list[Design]
) -> list[tuple[np.ndarray, ...]]:
    best = [[Candidates(len(design.which), j) for j in (k, m)] for design in designs]
    classes = range(len(reader.counts))
    for Z, codes, first in reader.rows():
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], [*classes, len(classes)])
        runs = [slice(*both) for both in pairwise(ends.tolist())]
        X, number = Z[order], first + order
        for (which, factor), (same, other) in zip(designs, best, strict=True):
            block = Block(
                Mahalanobis(factor), anchors.Z[which], X, number, anchors.row[which]
            )
            inside: list[Asked] = []
            outside: list[Asked] = []
            for c, run in enumerate(runs):
                mine = np.flatnonzero(anchors.code[which] == c)
                inside.append((mine, (run,)))
                outside.append((mine, (slice(0, run.start), slice(run.stop, len(X)))))
            offer_block(same, block, TILE, inside)
            offer_block(other, block, TILE, outside)
        for one in best:
            for candidates in one:
                candidates.hold(Z, first)
    flat = over_processes([c for one in best for c in one], reader.n_features)
    merged = [[np.asarray(a) for a in one] for one in flat]
    return [
        (*same, *other) for same, other in zip(merged[::2], merged[1::2], strict=True)
    ]


def fit_anchors(
    reader: Reader,
    recipe: Recipe,
    lam: float | str,
    n_anchors: int | str,
    seed: int,
) -> Anchored:
    """Run all passes of the recipe with anchors; "auto" doubles them till they agree.

    Parameters
    ----------
    reader : Reader
    recipe : Recipe
        Of nearest pairs.
    lam : float or "auto"
        "auto" is that of the fit of all rows, times A/n.
    n_anchors : int or "auto"
    seed : int
    """
    n = int(reader.counts.sum())
    if not isinstance(n_anchors, str):
        return _fit(reader, recipe, lam, int(n_anchors), seed)
    A = FIRST
    while True:
        found = _fit(reader, recipe, lam, min(A, n), seed)
        if found.relative <= AGREE or A >= min(n, DEFAULT):
            return found
        A = min(2 * A, DEFAULT)


def _fit(
    reader: Reader, recipe: Recipe, lam: float | str, n_anchors: int, seed: int
) -> Anchored:
    n, d = int(reader.counts.sum()), reader.n_features
    anchors = draw_anchors(reader, n_anchors, seed)
    share = len(anchors.row) / n
    if isinstance(lam, str):
        lam = auto_regularization(n) * share
    k, m = neighbors_of(recipe, reader.counts)
    whole = np.arange(len(anchors.row))
    parts = [whole, *(whole[anchors.place % GROUPS == g] for g in range(GROUPS))]
    parts = [part for part in parts if len(part)]
    [pairs] = paired(reader, anchors, k, m, [Design(whole, np.eye(d))])
    prior = _prior(reader, pairs, recipe, lam)

    def solved(pairs: Pairs, start: LCAParams | None) -> Fit:
        rate = recipe.learning_rate or _rate(pairs, anchors)
        return solve(pairs, prior, recipe, rate, start)

    fits = [solved(pairs, None)]
    steps = int(fits[0].n_steps)
    fits += [solved(_of(pairs, part), fits[0].params) for part in parts[1:]]
    for _ in range(recipe.n_refresh):
        maps = [np.asarray(fit.params.W, float) for fit in fits]
        designs = [Design(*both) for both in zip(parts, maps, strict=True)]
        made = paired(reader, anchors, k, m, designs)
        fits = [solved(p, f.params) for p, f in zip(made, fits, strict=True)]
        pairs, steps = made[0], steps + int(fits[0].n_steps)
    rate = recipe.learning_rate or _rate(pairs, anchors)
    mean = mean_of(recipe, reader.n_features)
    asked = recipe.n_refresh, max(1, steps), mean
    fitted = Fitted(fits[0], pairs, prior, rate, *asked)
    M, *groups = (_matrix(fit.params) for fit in fits)
    error = np.sqrt((1 - share) * np.var(groups, 0, ddof=1) / len(groups))
    relative = float(np.linalg.norm(error) / np.linalg.norm(M))
    squared, y = _held_out(fitted, anchors, recipe)
    return Anchored(fitted, anchors, share, error, relative, squared, y)


def _matrix(params: LCAParams) -> Float[np.ndarray, "d d"]:
    """Return M, in units of the link."""
    L = np.asarray(to_metric(params).factor)
    return L.T @ L


def _of(pairs: Pairs, which: np.ndarray) -> Pairs:
    """Return the pairs of some anchors."""
    used = np.isin(np.asarray(pairs.anchor), which)
    i, j, y, w, anchor = (
        np.asarray(v)[used]
        for v in (pairs.i, pairs.j, pairs.y, host_weights(pairs), pairs.anchor)
    )
    return pairs._replace(i=i, j=j, y=y, w=w, anchor=anchor)


def _rate(pairs: Pairs, anchors: Anchors) -> float:
    """Return the learning rate at which pairs, of all anchors or some, count as A."""
    return len(anchors.row) / float(np.sum(host_weights(pairs)))


def _prior(reader: Reader, pairs: Pairs, recipe: Recipe, lam: float) -> Any:
    """Return ``prior_for`` the pairs, principal axes being those of all rows."""
    mean = mean_of(recipe, reader.n_features)
    if not isinstance(mean, str) or mean != "pca" or reader.scatter is None:
        return prior_for(pairs, recipe, lam)
    V = np.linalg.eigh(reader.scatter)[1][:, ::-1][:, : recipe.n_components].T
    prior = prior_for(pairs, recipe._replace(prior_mean="identity"), lam)
    W0, c = scaled_axes(V, pairs)
    return prior._replace(mean=np.asarray(W0), c=np.asarray(c))


def _held_out(
    fitted: Fitted, anchors: Anchors, recipe: Recipe
) -> tuple[np.ndarray, np.ndarray]:
    """Return squares of the pairs of each half under the other half's fit; labels."""
    pairs = fitted.pairs
    half = anchors.place[np.asarray(pairs.anchor)] % 2
    delta = np.asarray(pairs.X)[pairs.i] - np.asarray(pairs.X)[pairs.j]
    squared = np.empty(len(half))
    for h in (0, 1):
        mine = _of(pairs, np.flatnonzero(anchors.place % 2 == h))
        rate = recipe.learning_rate or _rate(mine, anchors)
        fit = solve(mine, fitted.prior, recipe, rate, fitted.fit.params)
        L = np.asarray(to_metric(fit.params).factor)
        squared[half != h] = np.sum((delta[half != h] @ L.T) ** 2, 1)
    return squared, np.asarray(pairs.y)
