"""The checks of classical MDS, and problems to run them on."""

from functools import partial

import numpy as np
from scipy.spatial.distance import cdist

from probmetric.checks.check import Problem, Values, by_algebra, zero
from probmetric.checks.problems import fitted, standardised
from probmetric.data.containers import Distances
from probmetric.inference.mds.fit import (
    additive_constant,
    corrected_squares,
    embed_new,
    fit,
)
from probmetric.inference.mds.landmarks import fit_landmarks, spread_out
from probmetric.inference.solvers.result import Fit
from probmetric.typing import Array


def toy(seed: int) -> Problem[Distances]:
    """Distances of 40 points in three dimensions, off the origin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) * [3.0, 2.0, 1.0] + 5.0
    return _fitted(f"simulated, seed {seed}", X)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Distances]:
    """Embed a standardised data set in as many dimensions as it has; no label used."""
    return _fitted("data", standardised(X, y)[0])


def fit_problem(problem: Problem[Distances]) -> Fit:
    """Embed in as many dimensions as the points had."""
    return fit(problem.data, **problem.options)


def _fitted(name: str, X: np.ndarray) -> Problem[Distances]:
    distances = Distances(cdist(X, X))
    return fitted(fit_problem, name, distances, n_components=X.shape[1])


def _embedded(Q: Array) -> Values:
    return {"D": cdist(Q, Q)}


def _by_average_anchor(problem: Problem[Distances]) -> Values:
    """Erratum P2: top eigenvectors of the average of the anchored Gram matrices."""
    S = np.asarray(problem.data.D) ** 2
    rows = S.mean(1)
    gram = (rows[:, None] + rows[None] - S) / 2
    values, vectors = np.linalg.eigh(gram)
    k = problem.options["n_components"]
    return _embedded(vectors[:, -k:] * np.sqrt(np.maximum(values[-k:], 0)))


def _by_plain_distances(problem: Problem[Distances]) -> Values:
    D = np.sqrt(np.asarray(problem.data.D))
    return _embedded(fit(Distances(D), **problem.options).params.embedding)


def _replaced(problem: Problem[Distances], anchor: bool = True) -> Values:
    """Leave the last object out, then place it as a new one."""
    D = np.asarray(problem.data.D)
    known = fit(Distances(D[:-1, :-1]), **problem.options).params
    if not anchor:
        known = known._replace(self_terms=np.zeros_like(known.self_terms))
    place = np.asarray(embed_new(known, D[-1:, :-1] ** 2))
    return {"d": cdist(place, np.asarray(known.embedding))[0]}


def _bent(problem: Problem[Distances]) -> np.ndarray:
    """Return dissimilarities of no points: distances with noise of their own.

    Of distinct objects: those at zero are one object, which no correction moves apart.
    """
    D = np.asarray(problem.data.D)
    first = np.argmin(D > 0, 1) == np.arange(len(D))
    D = D[np.ix_(first, first)]
    noise = np.random.default_rng(4).random(D.shape)
    return D * (1 + 0.3 * (noise + noise.T)) * (1 - np.eye(len(D)))


def _strain_by_hand(problem: Problem[Distances]) -> Values:
    """Centre by the matrix C, and keep the leading eigenvalues."""
    D = _bent(problem)
    n = len(D)
    C = np.eye(n) - 1 / n
    M = -C @ D**2 @ C / 2
    values, V = np.linalg.eigh(M)
    near = (V[:, -2:] * values[-2:]) @ V[:, -2:].T
    share = -values[values < 0].sum() / np.abs(values).sum()
    return {
        "QQ'": near,
        "QQ', Lanczos": near,
        "strain": np.linalg.norm(M - near),
        "lowest": values[0],
        "negative share": share,
        "λ": values[-2:][::-1],
        "diag(M)": np.diag(M),
    }


def _strain(problem: Problem[Distances], squared: bool = True) -> Values:
    """Return the same of the package; of distances not squared, if asked."""
    D = _bent(problem)
    data = Distances(D if squared else np.sqrt(D))
    found = fit(data, 2, solver="eigh")
    p, quick = found.params, fit(data, 2, solver="lanczos").params
    return {
        "QQ'": p.embedding @ p.embedding.T,
        "QQ', Lanczos": quick.embedding @ quick.embedding.T,
        "strain": -found.objective,
        "lowest": p.min_eigenvalue,
        "negative share": p.negative_share,
        "λ": p.eigenvalues,
        "diag(M)": p.self_terms,
    }


def _lowest_corrected(problem: Problem[Distances], share: float = 1.0) -> Values:
    """Return the lowest eigenvalue of M after a correction, by the matrix C."""
    D, found = _bent(problem), dict[str, Array]()
    n = len(D)
    C, off = np.eye(n) - 1 / n, 1 - np.eye(n)
    for name in ("lingoes", "cailliez"):
        constant = share * additive_constant(D, name)
        by_hand = (
            D**2 + constant * off if name == "lingoes" else (D + constant * off) ** 2
        )
        squares = np.asarray(corrected_squares(D, constant, name))
        # The constant vector set aside, whose eigenvalue is zero in any case.
        M = -C @ by_hand @ C / 2
        values = np.linalg.eigvalsh(M + np.trace(M) / n)
        found[f"lowest, {name}"] = values[0] / values[-1]
        found[f"squares, {name}"] = (squares - by_hand) / by_hand.max()
        embedded = fit(Distances(D), n, correction=name).params.embedding
        rest = cdist(embedded, embedded, "sqeuclidean") - by_hand
        found[f"distances, {name}"] = rest / by_hand.max()
    return found


def _landmarks_by_hand(problem: Problem[Distances]) -> Values:
    """Take the distances themselves, and each farthest point by all that are chosen."""
    D = np.asarray(problem.data.D)
    chosen = [3]
    for _ in range(7):
        chosen.append(int(np.argmax(D[:, chosen].min(1))))
    k = problem.options["n_components"]
    return {
        "D": D,
        "landmarks": np.array(chosen, float),
        "kept rows": D[chosen],
        "mean": np.zeros(k),
        "products of columns": np.zeros((k, k)),
        "places again": np.zeros((len(D), k)),
    }


def _landmarks(problem: Problem[Distances], squares: bool = True) -> Values:
    """Embed from a few rows of D; of distances not squared, if asked."""
    D = np.asarray(problem.data.D)
    k = problem.options["n_components"]
    chosen, rows = spread_out(lambda i: D[i], 3, 8)
    every = np.arange(0, len(D), max(len(D) // 12, 1))
    every = every if len(every) > k else np.arange(len(D))
    p = fit_landmarks(every, D[every] if squares else np.sqrt(D[every]), k)
    Q = p.embedding
    places = np.asarray(embed_new(p, (D[every] ** 2).T))
    return {
        **_embedded(Q),
        "landmarks": chosen.astype(float),
        "kept rows": rows,
        "mean": Q.mean(0),
        "products of columns": Q.T @ Q - np.diag(p.eigenvalues),
        "places again": places - Q,
    }


CHECKS = (
    by_algebra(
        "dissimilarities that are no distances: the best of its rank, and its strain",
        reference=_strain_by_hand,
        estimate=_strain,
        controls={"distances not squared": partial(_strain, squared=False)},
        rtol=1e-6,
    ),
    by_algebra(
        "a correction makes them distances, and no more than that",
        reference=zero,
        estimate=_lowest_corrected,
        controls={"half the constant": partial(_lowest_corrected, share=0.5)},
        atol=1e-7,
    ),
    by_algebra(
        "landmarks give the embedding of all",
        reference=_landmarks_by_hand,
        estimate=_landmarks,
        controls={"distances not squared": partial(_landmarks, squares=False)},
        rtol=1e-6,
        atol=1e-6,
    ),
    by_algebra(
        "Euclidean distances are recovered",
        reference=lambda p: {"D": np.asarray(p.data.D)},
        estimate=lambda p: _embedded(p.params.embedding),
        controls={
            "average over anchors (erratum P2)": _by_average_anchor,
            "distances not squared": _by_plain_distances,
        },
        rtol=1e-6,
    ),
    by_algebra(
        "a new object is placed at its distances",
        reference=lambda p: {"d": np.asarray(p.data.D)[-1, :-1]},
        estimate=_replaced,
        controls={"diag(M) left out": lambda p: _replaced(p, anchor=False)},
        rtol=1e-6,
    ),
)
