"""Calls of the metrics, and of what takes one: neighbours, evaluation, storage."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from exact_neighbours import fractions, squared, wrong_figure, wrong_neighbours
from random_inputs import (
    SHAPES,
    WRONG,
    Call,
    as_floats,
    choice,
    factor,
    labels,
    points,
    queries,
)
from random_learners import fitted

import probmetric as pm
from probmetric.data import all_pairs, impostor_pairs, nearest_pairs
from probmetric.metric import ClassDistribution, Link, LocalFisher, PairSimilarity


def nearest(rng: np.random.Generator) -> Call:
    """`pm.nearest` under a Mahalanobis metric, held against exact arithmetic."""
    shape = choice(rng, SHAPES)
    P, words = points(rng, shape)
    own = rng.random() < 0.3
    Q, more = (P, "the same") if own else queries(rng, shape[1])
    if not own and rng.random() < 0.5:  # Queries where the points are.
        Q, more = P[:3], "the first"
    L, of = factor(rng, shape[1])
    k = int(rng.integers(1, 4)) if rng.random() < 0.9 else choice(rng, WRONG)

    def check(result: Any) -> str | None:
        D, index = result
        wrong = wrong_neighbours(L, Q, P, k, index, exclude_self=own)
        if wrong:
            return wrong
        exact = fractions(L), fractions(Q), fractions(P)
        for i, row in enumerate(index):
            for place, j in enumerate(row):
                truth = squared(exact[0], exact[1][i], exact[2][j])
                wrong = wrong_figure(D[i, place], *truth)
                if wrong:
                    return f"query {i}, place {place}: {wrong}"
        return None

    return Call(
        "nearest",
        f"nearest(Mahalanobis({of}), {more}, {words}, {k!r}, exclude_self={own})",
        lambda: pm.nearest(pm.Mahalanobis(L), Q, P, k, exclude_self=own),
        (L, Q, P),
        check,
    )


@cache
def kinds() -> dict[str, Any]:
    """Return one metric of each other kind, on three features."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(2, 3, 3))
    parts = (
        rng.normal(size=(2, 3)),
        np.log(np.full((3, 2), 1 / 6)),
        2 * rng.normal(size=(3, 2, 2)),
        np.broadcast_to(np.eye(2), (3, 1, 2, 2)).copy(),
    )
    return {
        "LocalMahalanobis": fitted("GLML").get_metric(),
        "PairSimilarity": PairSimilarity(
            np.log(np.array([0.4, 0.6])),
            2 * rng.normal(size=(2, 3)),
            A @ np.swapaxes(A, 1, 2) + np.eye(3),
            np.broadcast_to(0.3 * np.eye(3), (2, 3, 3)).copy(),
        ),
        "ClassDistribution": ClassDistribution(*parts),
        "LocalFisher": LocalFisher(*parts),
    }


def nearest_other(rng: np.random.Generator) -> Call:
    """`pm.nearest` under another kind: sorted, and as its own dissimilarity says."""
    name = choice(rng, sorted(kinds()))
    metric = kinds()[name]
    P, words = points(rng, choice(rng, ((30, 3), (12, 3))))
    Q, more = queries(rng, 3)
    k = int(rng.integers(1, 4))

    def check(result: Any) -> str | None:
        D, index = result
        for i, q in enumerate(np.asarray(Q, float)):
            own = np.asarray(metric.dissimilarity(q, np.asarray(P, float)))
            room = 1e-6 * (1 + np.abs(own).max())
            if not np.all(np.diff(D[i]) >= 0) or len(set(index[i].tolist())) != k:
                return f"query {i}: {index[i]} at {D[i]}"
            if np.any(own[index[i]] > np.sort(own)[:k] + room):
                return f"query {i}: {index[i]}, expected {np.argsort(own)[:k]}"
        return None

    return Call(
        "nearest, other",
        f"nearest({name}, {more}, {words}, {k})",
        lambda: pm.nearest(metric, Q, P, k),
        (Q, P),
        check,
    )


def mahalanobis(rng: np.random.Generator) -> Call:
    """Methods of a Mahalanobis metric made directly, held against exact arithmetic."""
    d = choice(rng, (3, 3, 1))
    L, of = factor(rng, d)
    A, words = points(rng, (3, d))
    B, more = queries(rng, d)
    method = choice(rng, ("dissimilarity", "pairwise", "distance", "call", "same"))

    def run() -> Any:
        metric = pm.Mahalanobis(L, Link(np.array(0.1), np.array(0.5)))
        if method == "dissimilarity":
            return metric.dissimilarity(A[0], B)
        if method == "call":
            return metric(A[0], B[0])
        if method == "same":
            return metric.same_probability(A, B)
        return getattr(metric, method)(A, B)

    flat = np.ndim(A) == np.ndim(B) == 2  # What the check below can read.
    whole = method != "same" and flat and as_floats(L, A) and as_floats(L, B)

    def check(result: Any) -> str | None:
        if not whole:
            return None
        if L.ndim != 2:
            return f"a factor of shape {L.shape} was taken"
        values = np.atleast_1d(np.asarray(result))
        eps = float(np.finfo(values.dtype).eps)
        one = method in ("dissimilarity", "call")  # Rows beyond the first go unread.
        exact = [
            fractions(rows)
            for rows in (L, A[:1] if one else A, B[:1] if method == "call" else B)
        ]
        for at in np.ndindex(values.shape):
            i = 0 if one else at[0]
            truth = squared(
                *(exact[0], exact[1][i], exact[2][at[-1]], eps),
                by_images=method == "pairwise",
                normal=True,
            )
            root = method in ("distance", "call")
            wrong = wrong_figure(
                values[at], *truth, eps, root=root, normal=True, terms=len(L)
            )
            if wrong:
                return f"{at}: {wrong}"
        return None

    return Call(
        "Mahalanobis",
        f"Mahalanobis({of}).{method}({words}; {more})",
        run,
        (L, A, B),
        check,
    )


def kind(rng: np.random.Generator) -> Call:
    """Methods of another kind of metric."""
    name = choice(rng, sorted(kinds()))
    metric = kinds()[name]
    A, words = points(rng, (3, 3))
    B, more = queries(rng, 3)
    names = ["dissimilarity", "pairwise", "distance", "pair_score", "same_probability"]
    names += ["log_ratio", "log_conditional", "matrix_at", "log_probability"]
    method = choice(rng, [n for n in names if hasattr(metric, n)])

    def run() -> Any:
        if method == "dissimilarity":
            return metric.dissimilarity(A[0], B)
        if method in ("matrix_at", "log_probability"):
            return getattr(metric, method)(A)
        return getattr(metric, method)(A, B)

    return Call(
        "other kinds",
        f"{name}.{method}({words}; {more})",
        run,
        (A,) if method in ("matrix_at", "log_probability") else (A, B),
    )


def evaluate(rng: np.random.Generator) -> Call:
    """`pm.evaluate` under Euclid's metric; precision at 1 by exact neighbours."""
    X, words = points(rng, choice(rng, ((30, 3), (12, 3))))
    y, more = labels(rng, len(X))

    def check(result: Any) -> str | None:
        P, L = fractions(X), fractions(np.eye(len(X[0])))
        codes = np.unique(np.asarray(y), return_inverse=True)[1]
        hits = sure = asked = 0
        for i in range(len(P)):
            rest = [j for j in range(len(P)) if j != i]
            if not any(codes[i] == codes[j] for j in rest):
                continue  # No query: nobody else is of its class.
            exact = {j: squared(L, P[i], P[j]) for j in rest}
            first = min(rest, key=lambda j: (exact[j][0], j))
            edge = exact[first][0] + exact[first][1]
            sure += all(D - 4 * b > edge for j, (D, b) in exact.items() if j != first)
            hits += bool(codes[first] == codes[i])
            asked += 1
        got = result["precision_at_1"] * asked
        if abs(got - hits) > asked - sure + 1e-9:
            return f"precision_at_1: got {got} hits, expected {hits} ({sure} are sure)"
        return None

    return Call(
        "evaluate",
        f"evaluate({words}{more}, metric=Mahalanobis(eye))",
        lambda: pm.evaluate(X, y, metric=pm.Mahalanobis(np.eye(np.shape(X)[-1]))),
        (X,),
        check,
    )


def stored(rng: np.random.Generator) -> Call:
    """`save_metric` and `load_metric`: bit for bit, and no NaN, put in later or not."""
    L, of = factor(rng, 3)
    b = choice(rng, (0.1, 0.1, np.nan, np.inf, 1e-320))
    spoilt = choice(rng, (None, None, None, "metric.factor", "metric.link.b"))

    def run() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "metric.npz"
            pm.save_metric(pm.Mahalanobis(L, Link(np.array(b), np.array(0.5))), path)
            if spoilt is not None:
                with np.load(path) as held:
                    arrays = dict(held)
                arrays[spoilt] = arrays[spoilt] * np.nan
                np.savez(path, **arrays)
            return pm.load_metric(path)

    def check(result: Any) -> str | None:
        if spoilt is not None:
            return f"NaN in {spoilt} was read"
        same = np.array_equal(np.asarray(result.factor), np.asarray(L))
        if not same or result.link.b != b:
            return f"got {result}, expected factor {L}, b {b}"
        return None

    # Infinity is kept as it is: a metric's own parameters may hold it (gamma).
    text = f"save and load {of}, b={b}, NaN in {spoilt} of the file"
    return Call("stored", text, run, (L,), check, propagates=True)


def loaded(rng: np.random.Generator) -> Call:
    """`pm.datasets.load` and pairs made from labels."""
    if rng.random() < 0.4:
        names = ("wine", "iris", "twonorm", "ringnorm", "waveform", "no", "")
        name = choice(rng, names)
        n = choice(rng, (None, 30, 1, 0, -1, 2.5, "a", float("nan")))
        seed = choice(rng, (0, 0, 1, -1, "a", None))
        return Call(
            "data and pairs",
            f"datasets.load({name!r}, n={n!r}, seed={seed!r})",
            lambda: tuple(pm.datasets.load(name, n=n, seed=seed)),
        )
    make = choice(rng, (nearest_pairs, impostor_pairs, all_pairs))
    X, words = points(rng, choice(rng, SHAPES))
    y, more = labels(rng, len(X))
    k = (2, 2) if make is nearest_pairs else (2,) if make is impostor_pairs else ()
    return Call(
        "data and pairs",
        f"{make.__name__}({words}{more})",
        lambda: make(X, y, *k),
        (X,),
    )


def posterior(rng: np.random.Generator) -> Call:
    """Questions to a posterior made of given draws; rarely one that LCA makes."""
    if rng.random() < 0.05:
        return Call(
            "posterior",
            "LCA.posterior_metric('prediction', method='laplace', n_draws=4)",
            lambda: fitted("LCA").posterior_metric(
                "prediction", method="laplace", n_draws=4
            ),
        )
    A, words = points(rng, (3, 3))
    B, more = queries(rng, 3)
    method = choice(
        rng,
        ("pairwise", "pair_draws", "interval", "ratio", "closer", "neighbour", "rank")
        + ("same_probability", "same_interval", "mean_metric", "prob"),
    )
    L, of = (np.eye(3), "identity") if rng.random() < 0.7 else factor(rng, 3)
    prob = choice(rng, WRONG)
    numbers = isinstance(L, np.ndarray) and L.dtype.kind in "fc"

    def run() -> Any:
        draws = [
            pm.Mahalanobis(L * s if numbers else L, Link(np.array(0.1), np.array(0.5)))
            for s in (1.0, 1.5, 0.5, 2.0)
        ]
        asked = pm.PosteriorMetric(
            draws, "intervals", pairs_independent=True, source="bootstrap"
        )
        return {
            "ratio": lambda: asked.ratio_interval((A, B), (B, A)),
            "closer": lambda: asked.closer_probability(A, B, B[::-1]),
            "neighbour": lambda: asked.neighbor_probability(A, B, 2),
            "rank": lambda: asked.rank_interval(A[0], B),
            "mean_metric": lambda: asked.mean_metric().dissimilarity(A[0], B),
            "prob": lambda: asked.interval(A, B, prob=prob),
        }.get(method, lambda: getattr(asked, method)(A, B))()

    text = f"posterior of draws ({of}).{method}({words}; {more})"
    if method == "prob":
        text += f", prob={prob!r}"
    return Call("posterior", text, run, (L, A, B))
