"""The calls: each family draws one call of the public API with hostile arguments."""

import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from exact_neighbours import fractions, squared, wrong_figure, wrong_neighbours
from random_inputs import (
    SCALES,
    SHAPES,
    WRONG,
    choice,
    is_finite,
    labels,
    plain,
    points,
)

import probmetric as pm
from probmetric.metric import ClassDistribution, Link, LocalFisher, PairSimilarity
from probmetric.pairs import all_pairs, impostor_pairs, nearest_pairs

OVERFLOW = Fraction(np.finfo(np.float64).max)
LEARNERS: dict[str, dict[str, Any]] = {
    "LDA": {},
    "RCA": {},
    "PairLDA": {},
    "LCA": {"max_iter": 50},
    "LCAClassifier": {"max_iter": 50},
    "EigDML": {"max_iter": 2000},
    "DCAGM": {"n_gaussians": 1, "max_iter": 20},
    "GLML": {"n_draws": 4, "random_state": 0},
    "GaussianClasses": {"random_state": 0},
    "TwoStageMixture": {"max_iter": 50},
    "ClassicalMDS": {},
    "KNeighborsClassifier": {},
}
CHEAP = ("LDA", "RCA", "PairLDA", "GaussianClasses", "ClassicalMDS", "TwoStageMixture")


class Call(NamedTuple):
    """A call: what it is in words, how to make it, what else must hold of the result.

    ``given`` are the arrays handed in; ``propagates``: NaN and infinity handed in may
    come back (a metric's own methods, as NumPy's functions).
    """

    family: str
    text: str
    run: Callable[[], Any]
    given: tuple[Any, ...] = ()
    check: Callable[[Any], str | None] | None = None
    propagates: bool = False


def _queries(rng: np.random.Generator, d: int, m: int = 3) -> tuple[Any, str]:
    """Return few points, mostly of d features."""
    return points(rng, (m, d if rng.random() < 0.95 else d + 1), seed=1)


def _factor(rng: np.random.Generator, d: int) -> tuple[Any, str]:
    """Return a factor of a Mahalanobis metric: identity, tall, or scaled."""
    how = choice(rng, ("identity", "identity", "random", "random", "scaled", "wrong"))
    rows = int(rng.integers(1, 4))
    L = np.eye(d) if how == "identity" else rng.normal(size=(rows, d))
    if how == "scaled":
        L = L * choice(rng, SCALES)
    if how == "wrong":
        wrong = (L[0], L[None], L.astype(str), L * np.nan, L.tolist(), L + 1j, None)
        L = choice(rng, wrong)
    elif rng.random() < 0.1:
        L = L.astype(np.float32)
    return L, f"{how} factor {np.shape(L)}"


def _same(a: Any, b: Any) -> bool:
    """Tell whether an array can be read as finite float64 without loss."""
    return isinstance(a, np.ndarray) and a.dtype.kind in "fiub" and is_finite((a, b))


def nearest(rng: np.random.Generator) -> Call:
    """`pm.nearest` under a Mahalanobis metric, held against exact arithmetic."""
    shape = choice(rng, SHAPES)
    P, words = points(rng, shape)
    own = rng.random() < 0.3
    Q, more = (P, "the same") if own else _queries(rng, shape[1])
    if not own and rng.random() < 0.5:  # Queries where the points are.
        Q, more = P[:3], "the first"
    L, of = _factor(rng, shape[1])
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
    Q, more = _queries(rng, 3)
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
    L, of = _factor(rng, d)
    A, words = points(rng, (3, d))
    B, more = _queries(rng, d)
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

    whole = method != "same" and _same(L, A) and _same(L, B)

    def check(result: Any) -> str | None:
        if not whole:
            return None
        if L.ndim != 2:
            return f"a factor of shape {L.shape} was taken"
        values = np.atleast_1d(np.asarray(result))
        eps = float(np.finfo(values.dtype).eps)
        exact = fractions(L), fractions(A), fractions(B)
        for at in np.ndindex(values.shape):
            i = 0 if method in ("dissimilarity", "call") else at[0]
            truth = squared(
                *(exact[0], exact[1][i], exact[2][at[-1]], eps),
                by_images=method == "pairwise",
            )
            root = method in ("distance", "call")
            top = Fraction(float(np.finfo(values.dtype).max))
            if np.isinf(values[at]) and truth[0] + truth[1] > (top**2 if root else top):
                continue  # Beyond the type's range: infinity is the IEEE answer.
            wrong = wrong_figure(values[at], *truth, eps, root=root)
            if wrong:
                return f"{at}: {wrong}"
        return None

    return Call(
        "Mahalanobis",
        f"Mahalanobis({of}).{method}({words}; {more})",
        run,
        (L, A, B),
        check,
        propagates=whole or not is_finite((L, A, B)),  # If whole, `check` decides.
    )


def kind(rng: np.random.Generator) -> Call:
    """Methods of another kind of metric."""
    name = choice(rng, sorted(kinds()))
    metric = kinds()[name]
    A, words = points(rng, (3, 3))
    B, more = _queries(rng, 3)
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
        (A, B),
        propagates=not is_finite((A, B)),
    )


@cache
def fitted(name: str) -> Any:
    """Return a learner fitted to plain data, once."""
    X, y = plain(30, 3)
    return getattr(pm, name)(**LEARNERS[name]).fit(X, y)


def _pairs(rng: np.random.Generator, d: int) -> tuple[Any, str]:
    """Return pairs of hostile points."""
    X, words = points(rng, (12, d), seed=2)
    if isinstance(X, np.ndarray) and X.ndim == 2:
        X = X.reshape(6, 2, X.shape[1])
    return X, f"pairs of {words}"


def _used(rng: np.random.Generator, learner: Any, d: int) -> tuple[str, Any, Any, str]:
    """Return a method of a fitted learner with arguments, and what is checked."""
    names = ["transform", "predict", "predict_proba", "pair_distance", "pair_score"]
    names += ["same_probability", "predict_log_proba", "kneighbors", "score_samples"]
    names += ["class_log_probability", "local_metric", "get_mahalanobis_matrix"]
    names += ["set_threshold", "calibrate_threshold", "decision_function", "get_metric"]
    method = choice(rng, [n for n in names if hasattr(learner, n)])
    on_pairs = ("pair_distance", "pair_score", "same_probability")
    threshold = method in ("predict", "decision_function") and hasattr(
        learner, "set_threshold"
    )
    if method in ("get_mahalanobis_matrix", "get_metric"):
        return method, (), None, ""
    if method == "set_threshold":
        return method, (choice(rng, WRONG),), None, "a threshold"
    if method == "calibrate_threshold":
        A, words = _pairs(rng, d)
        return method, (A, np.arange(6) % 2), None, words
    A, words = _pairs(rng, d) if method in on_pairs or threshold else _queries(rng, d)

    def check(result: Any) -> str | None:
        L = getattr(learner, "components_", None)
        if method != "pair_distance" or L is None or not _same(A, L):
            return None
        exact = fractions(L)
        for i, pair in enumerate(A):
            wrong = wrong_figure(
                result[i], *squared(exact, *fractions(pair)), root=True
            )
            if wrong:
                return f"pair {i}: {wrong}"
        return None

    return method, (A,), check, words


def learned(rng: np.random.Generator) -> Call:
    """Ask a learner that was fitted to plain data about hostile data."""
    name = choice(rng, sorted(LEARNERS))
    learner = fitted(name)
    method, args, check, words = _used(rng, learner, 3)

    def run() -> Any:
        result = getattr(learner, method)(*args)
        return {"threshold": result.threshold_} if result is learner else result

    return Call("learned", f"{name}().fit(plain).{method}({words})", run, args, check)


def fit(rng: np.random.Generator) -> Call:
    """Fit a learner to hostile data or with a wrong option, then use it on them."""
    names = sorted(LEARNERS)
    name = choice(rng, CHEAP if rng.random() < 0.5 else names)
    shape = choice(rng, SHAPES)
    X, words = points(rng, shape)
    y, more = labels(rng, shape[0])
    options = dict(LEARNERS[name])
    if rng.random() < 0.15:
        known = sorted(getattr(pm, name)().get_params())
        option = choice(rng, known)
        wrong = [v for v in WRONG if v != 10**20]
        options[option] = choice(rng, wrong)
        more += f", {option}={options[option]!r}"
    if rng.random() < 0.15:
        options["standardize"] = False
        more += ", standardize=False"
    asked = ("transform", "predict_proba", "score_samples")

    def run() -> Any:
        learner = getattr(pm, name)(**options).fit(X, y)
        found = [
            getattr(learner, m)(X)
            for m in asked
            if hasattr(learner, m) and not (m == "transform" and name == "ClassicalMDS")
        ]
        if hasattr(learner, "pair_distance"):
            points = np.asarray(X, float)
            found.append(learner.pair_distance(np.stack([points, points[::-1]], 1)))
        return learner, found

    return Call("fit", f"{name}.fit({words}{more})", run, (X,))


def votes(rng: np.random.Generator) -> Call:
    """Nearest-neighbour votes: finite, and the same in any unit of the data."""
    X, y = plain(30, 3)
    Q = plain(3, 3, 1)[0]
    scale = float(choice(rng, SCALES))
    options = {"votes": choice(rng, ("soft", "count"))}
    expected = _votes(options["votes"])

    def check(result: Any) -> str | None:
        off = float(np.abs(result - expected).max())
        if off <= 1e-6:
            return None
        return f"votes are off by {off:.3g} from those at scale 1"

    exact = scale >= 1e-300  # Subnormal numbers have lost digits.
    return Call(
        "votes",
        f"KNeighborsClassifier({options}) on plain data times {scale}",
        lambda: (
            pm.KNeighborsClassifier(**options)
            .fit(X * scale, y)
            .predict_proba(Q * scale)
        ),
        (),
        check if exact else None,
    )


@cache
def _votes(how: str) -> np.ndarray:
    X, y = plain(30, 3)
    return pm.KNeighborsClassifier(votes=how).fit(X, y).predict_proba(plain(3, 3, 1)[0])


def kneighbors(rng: np.random.Generator) -> Call:
    """`KNeighborsClassifier.kneighbors`: distances, and indices of the training set."""
    shape = choice(rng, SHAPES)
    X, words = points(rng, shape)
    y = np.arange(shape[0]) % 2

    def check(result: Any) -> str | None:
        distances, index = result
        eye = np.eye(shape[1])
        wrong = wrong_neighbours(eye, X, X, 2, index, exclude_self=True)
        if wrong:
            return wrong
        L, P = fractions(eye), fractions(X)
        for at in np.ndindex(index.shape):
            truth = squared(L, P[at[0]], P[index[at]])
            wrong = wrong_figure(distances[at], *truth, root=True)
            if wrong:
                return f"{at}: {wrong}"
        return None

    return Call(
        "kneighbors",
        f"KNeighborsClassifier(votes='count').fit({words}).kneighbors()",
        lambda: (
            pm.KNeighborsClassifier(n_neighbors=2, votes="count").fit(X, y).kneighbors()
        ),
        (X,),
        check,
    )


def evaluate(rng: np.random.Generator) -> Call:
    """`pm.evaluate` under Euclid's metric; precision at 1 by exact neighbours."""
    X, words = points(rng, choice(rng, ((30, 3), (12, 3))))
    y, more = labels(rng, len(X))

    def check(result: Any) -> str | None:
        P, L = fractions(X), fractions(np.eye(len(X[0])))
        hits = sure = 0
        for i in range(len(P)):
            rest = [j for j in range(len(P)) if j != i]
            exact = {j: squared(L, P[i], P[j]) for j in rest}
            first = min(rest, key=lambda j: (exact[j][0], j))
            edge = exact[first][0] + exact[first][1]
            sure += all(D - 4 * b > edge for j, (D, b) in exact.items() if j != first)
            hits += bool(y[first] == y[i])
        got = result["precision_at_1"] * len(P)
        if abs(got - hits) > len(P) - sure + 1e-9:
            return f"precision_at_1: got {got} hits, expected {hits} ({sure} are sure)"
        return None

    return Call(
        "evaluate",
        f"evaluate({words}{more}, metric=Mahalanobis(eye))",
        lambda: pm.evaluate(X, y, metric=pm.Mahalanobis(np.eye(X.shape[1]))),
        (X,),
        check,
    )


def stored(rng: np.random.Generator) -> Call:
    """`save_metric` and `load_metric`: bit for bit."""
    L, of = _factor(rng, 3)
    b = choice(rng, (0.1, 0.1, np.nan, np.inf, 1e-320))

    def run() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "metric.npz"
            pm.save_metric(pm.Mahalanobis(L, Link(np.array(b), np.array(0.5))), path)
            return pm.load_metric(path)

    def check(result: Any) -> str | None:
        same = np.array_equal(np.asarray(result.factor), np.asarray(L))
        return None if same else f"factor: got {result.factor}, expected {L}"

    return Call("stored", f"save and load {of}, b={b}", run, (L,), check)


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
    B, more = _queries(rng, 3)
    method = choice(
        rng,
        ("pairwise", "pair_draws", "interval", "ratio", "closer", "neighbour", "rank")
        + ("same_probability", "same_interval", "mean_metric", "prob"),
    )
    L, of = (np.eye(3), "identity") if rng.random() < 0.7 else _factor(rng, 3)
    prob = choice(rng, WRONG)

    def run() -> Any:
        draws = [
            pm.Mahalanobis(L * s, Link(np.array(0.1), np.array(0.5)))
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


FAMILIES: dict[Callable[[np.random.Generator], Call], int] = {
    nearest: 20,
    nearest_other: 6,
    mahalanobis: 12,
    kind: 8,
    learned: 18,
    fit: 18,
    votes: 2,
    kneighbors: 4,
    evaluate: 3,
    stored: 2,
    loaded: 3,
    posterior: 4,
}
"""The families and their shares in per cent."""


def draw(seed: int, i: int) -> Call:
    """Return call i of a seed."""
    rng = np.random.default_rng([seed, i])
    shares = np.array([*FAMILIES.values()]) / 100
    with np.errstate(all="ignore"):  # Hostile numbers are made on purpose.
        return list(FAMILIES)[rng.choice(len(shares), p=shares)](rng)
