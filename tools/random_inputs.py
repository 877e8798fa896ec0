"""Random hostile inputs: arrays over shapes, dtypes and scales, labels, arguments.

Every draw is a pair (value, words): the words say what is unusual about it. Few shapes
are used, so that compiled programs are shared between calls.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SHAPES = ((30, 3),) * 12 + ((12, 3), (30, 1), (4, 6), (1, 3), (0, 3), (30, 0))
SCALES = (
    *(5e-324, 1e-320, 1e-310, 1e-305, 1e-300, 1e-200, 1e-170, 1e-160, 1e-154, 1e-100),
    *(1e-30, 1e-8, 1e8, 1e30, 1e100, 1e150, 1e154, 1e160, 1e200, 1e300, 1e307),
)
KINDS = {
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "int64": lambda X: np.clip(np.rint(X * 4), -(2.0**62), 2.0**62).astype(np.int64),
    "uint8": lambda X: np.clip(np.rint(np.abs(X) * 8), 0, 255).astype(np.uint8),
    "bool": lambda X: X > 0,
    "object": lambda X: X.astype(object),
    "object with a word": lambda X: _with_word(X),
    "strings": lambda X: X.astype(str),
    "complex": lambda X: X + 5j,
    "list": lambda X: X.tolist(),
    "1-D": lambda X: X.ravel(),
    "3-D": lambda X: X[None],
    "Fortran order": lambda X: np.asfortranarray(X),
}
WRONG = (
    *(None, -1, 0, 1, 2, 2.5, float("nan"), float("inf"), -float("inf"), True, 1e300),
    *("a", "", "auto", "loo", [], [1, 2], (1,), {}, b"x", 5e-324, 3 + 4j, 10**20),
)


class Call(NamedTuple):
    """A call: what it is in words, how to make it, what else must hold of the result.

    ``given`` are the arrays handed in; ``propagates``: infinity handed in must come
    back as it was.
    """

    family: str
    text: str
    run: Callable[[], Any]
    given: tuple[Any, ...] = ()
    check: Callable[[Any], str | None] | None = None
    propagates: bool = False


def _with_word(X: np.ndarray) -> np.ndarray:
    X = X.astype(object)
    if X.size:
        X.flat[0] = "word"
    return X


def choice(rng: np.random.Generator, items: Any) -> Any:
    """Return one of the items, as it is."""
    return items[rng.integers(len(items))]


def plain(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return three classes of Gaussian points and their labels."""
    y = np.arange(n) % 3
    X = np.random.default_rng(seed).normal(size=(n, d)) + y[:, None] * 0.8
    return X, y


def scaled(rng: np.random.Generator, X: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Change the scale of all, of each column, or of one entry."""
    how = choice(rng, ("no", "no", "no", "all", "all", "columns", "entry", "rows"))
    if how == "all":
        scale = choice(rng, SCALES)
        return X * scale, [f"times {scale}"]
    if how == "columns":
        scales = [choice(rng, (1.0, *SCALES)) for _ in range(X.shape[1])]
        return X * np.array(scales), [f"columns times {scales}"]
    if how == "rows" and X.size:
        scale = choice(rng, SCALES)
        return np.concatenate([X[:1] * scale, X[1:]]), [f"row 0 times {scale}"]
    if how == "entry" and X.size:
        value = choice(rng, (*SCALES, -1e308, 1.7e308))
        X.flat[rng.integers(X.size)] = value
        return X, [f"an entry {value}"]
    return X, []


def faulty(rng: np.random.Generator, X: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Put in what data sets do hold: duplicates, constants, shifts, NaN, infinity."""
    how = choice(rng, ("no",) * 8 + ("twice", "constant", "shift", "nan", "inf", "0"))
    if how == "no" or X.size == 0:
        return X, []
    if how == "twice":
        X[len(X) // 2 :] = X[: len(X) - len(X) // 2]
    elif how == "constant":
        X[:, -1] = X[0, -1]
    elif how == "shift":
        X = X + float(np.abs(X).max()) * 1e8
    elif how == "0":
        X = X * 0
    else:
        X.flat[rng.integers(X.size)] = np.nan if how == "nan" else -np.inf
    return X, [how]


def points(
    rng: np.random.Generator, shape: tuple[int, int], seed: int = 0
) -> tuple[Any, str]:
    """Return points of a shape, and what is unusual about them."""
    X = plain(*shape, seed)[0]
    X, words = scaled(rng, X)
    X, more = faulty(rng, X)
    words += more
    if rng.random() < 0.25:
        kind = choice(rng, tuple(KINDS))
        X = KINDS[kind](X)
        words.append(kind)
    return X, f"{shape}{''.join(', ' + w for w in words)}"


def labels(rng: np.random.Generator, n: int) -> tuple[Any, str]:
    """Return labels of n points, mostly three whole classes."""
    y: Any = np.arange(n) % 3
    kinds = ("words", "one class", "mixed", "floats", "nan", "short", "none", "bool")
    how = choice(rng, ("whole",) * 16 + kinds + ("alone", "fractions"))
    if how == "words":
        y = np.array(["a", "b", "c"])[y]
    elif how == "one class":
        y = y * 0
    elif how == "mixed":
        y = ["a" if v == 0 else int(v) for v in y]
    elif how == "floats":
        y = y.astype(float)
    elif how == "nan":
        y = np.where(y == 0, np.nan, y)
    elif how == "short":
        y = y[:-1]
    elif how == "none":
        y = None
    elif how == "bool":
        y = y > 0
    elif how == "alone":
        y = np.where(np.arange(n) == 0, 9, y)
    elif how == "fractions":
        y = y + 0.5
    return y, "" if how == "whole" else f", y {how}"


def has_imaginary(values: Any) -> bool:
    """Tell whether an array given holds an imaginary part."""
    return any(
        isinstance(v, np.ndarray) and v.dtype.kind == "c" and bool(np.any(v.imag != 0))
        for v in values
    )


def is_finite(values: Any) -> bool:
    """Tell whether every array of numbers given is finite."""
    found = (np.asarray(v) for v in values if isinstance(v, (np.ndarray, float)))
    return all(
        bool(np.isfinite(v).all()) for v in found if v.dtype.kind in "fc" and v.size
    )


def queries(rng: np.random.Generator, d: int, m: int = 3) -> tuple[Any, str]:
    """Return few points, mostly of d features."""
    return points(rng, (m, d if rng.random() < 0.95 else d + 1), seed=1)


def factor(rng: np.random.Generator, d: int) -> tuple[Any, str]:
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


def as_floats(a: Any, b: Any) -> bool:
    """Tell whether an array can be read as finite float64 without loss."""
    return isinstance(a, np.ndarray) and a.dtype.kind in "fiub" and is_finite((a, b))
