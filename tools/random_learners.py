"""Calls of the learners: fitted to hostile data, or asked about them."""

import warnings
from functools import cache
from typing import Any

import numpy as np
from exact_neighbours import fractions, squared, wrong_figure, wrong_neighbours
from random_inputs import (
    SCALES,
    SHAPES,
    WRONG,
    Call,
    as_floats,
    choice,
    labels,
    plain,
    points,
    queries,
)

import probmetric as pm

LEARNERS: dict[str, dict[str, Any]] = {
    "LDA": {},
    "RCA": {},
    "PairLDA": {},
    "LCA": {"max_iter": 50},
    "HierarchicalLCA": {"max_iter": 50},
    "PointEffectsLCA": {"max_iter": 50},
    "TripletMetric": {"max_iter": 50},
    "LCAClassifier": {"max_iter": 50},
    "EigDML": {"max_iter": 2000},
    "DCAGM": {"n_gaussians": 1, "max_iter": 20},
    "GDM": {},
    "GLML": {"n_draws": 4, "random_state": 0},
    "GaussianClasses": {"random_state": 0},
    "TwoStageMixture": {"max_iter": 50},
    "ClassicalMDS": {},
    "KNeighborsClassifier": {},
    "KNeighborsRegressor": {},
}
WEIGHTS = (1.0, "a", [1.0], [-1.0] * 30, [float("nan")] * 30, [0.0] * 30, [1e-90] * 30)
CHEAP = ("LDA", "RCA", "PairLDA", "GaussianClasses", "ClassicalMDS", "TwoStageMixture")


@cache
def fitted(name: str) -> Any:
    """Return a learner fitted to plain data, once."""
    X, y = plain(30, 3)
    with warnings.catch_warnings(record=True):  # Of few steps, on purpose.
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
    A, words = _pairs(rng, d) if method in on_pairs or threshold else queries(rng, d)

    def check(result: Any) -> str | None:
        L = getattr(learner, "components_", None)
        if method != "pair_distance" or L is None or not as_floats(A, L):
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
        return {f"{method}()": result.threshold_} if result is learner else result

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
    entries, weights = X, {}
    if "preprocessor" in getattr(pm, name)().get_params() and rng.random() < 0.1:
        tables = (X, lambda keys: np.take(X, keys, 0, mode="wrap"))
        table = choice(rng, tables if np.size(X) else tables[:1])
        options["preprocessor"], entries = table, np.arange(shape[0])
        more += f", rows of a {'function' if callable(table) else 'table'}"
    if name == "LCA" and rng.random() < 0.3:
        weights["sample_weight"] = choice(rng, (*WEIGHTS, np.arange(shape[0]) % 4))
        more += f", sample_weight={weights['sample_weight']!r}"

    def run() -> Any:
        learner = getattr(pm, name)(**options).fit(entries, y, **weights)
        found = [
            getattr(learner, m)(entries)
            for m in asked
            if hasattr(learner, m) and not (m == "transform" and name == "ClassicalMDS")
        ]
        if hasattr(learner, "pair_distance"):
            points = np.asarray(entries, float if entries is X else int)
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
