"""Claims about classical MDS, and problems to check them on."""

from functools import partial

import numpy as np
from scipy.spatial.distance import cdist

from probmetric.checks.check import Problem, Values, by_algebra, zero
from probmetric.checks.problems import fitted, standardized
from probmetric.data.containers import Distances
from probmetric.inference.mds.fit import additive_constant, embed_new, fit
from probmetric.inference.solvers.result import Fit
from probmetric.typing import Array


def toy(seed: int) -> Problem[Distances]:
    """Compute distances of 40 points in three dimensions, not centered at 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) * [3.0, 2.0, 1.0] + 5.0
    return _fitted(f"simulated, seed {seed}", X)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Distances]:
    """Embed standardized data in d dimensions, without labels."""
    return _fitted("data", standardized(X, y)[0])


def fit_problem(problem: Problem[Distances]) -> Fit:
    """Embed in the number of dimensions of the points."""
    return fit(problem.data, **problem.options)


def _fitted(name: str, X: np.ndarray) -> Problem[Distances]:
    distances = Distances(cdist(X, X))
    return fitted(fit_problem, name, distances, n_components=X.shape[1])


def _embedded(Q: Array) -> Values:
    return {"D": cdist(Q, Q)}


def _by_average_anchor(problem: Problem[Distances]) -> Values:
    """Take top eigenvectors of the average of the anchored Gram matrices (P2)."""
    S = np.asarray(problem.data.D) ** 2
    rows = S.mean(1)
    values, vectors = np.linalg.eigh((rows[:, None] + rows[None] - S) / 2)
    k = problem.options["n_components"]
    return _embedded(vectors[:, -k:] * np.sqrt(np.maximum(values[-k:], 0)))


def _by_plain_distances(problem: Problem[Distances]) -> Values:
    D = np.sqrt(np.asarray(problem.data.D))
    return _embedded(fit(Distances(D), **problem.options).params.embedding)


def _distances(problem: Problem[Distances]) -> Values:
    return {"D": np.asarray(problem.data.D)}


def _replaced(problem: Problem[Distances], anchor: bool = True) -> Values:
    D = np.asarray(problem.data.D)
    params = fit(Distances(D[:-1, :-1]), **problem.options).params
    if not anchor:
        params = params._replace(self_terms=np.zeros_like(params.self_terms))
    place = np.asarray(embed_new(params, D[-1:, :-1] ** 2))
    return {"d": cdist(place, np.asarray(params.embedding))[0]}


def _bent(problem: Problem[Distances]) -> np.ndarray:
    """Return distances of distinct objects with noise, which are not Euclidean."""
    D = np.asarray(problem.data.D)
    first = np.argmin(D > 0, 1) == np.arange(len(D))
    D = D[np.ix_(first, first)]
    noise = np.random.default_rng(4).random(D.shape)
    return D * (1 + 0.3 * (noise + noise.T)) * (1 - np.eye(len(D)))


def _best_of_rank_2(problem: Problem[Distances]) -> Values:
    """Return the nearest matrix of rank 2 to the centered Gram matrix."""
    D = _bent(problem)
    C = np.eye(len(D)) - 1 / len(D)
    M = -C @ D**2 @ C / 2
    values, V = np.linalg.eigh(M)
    near = (V[:, -2:] * values[-2:]) @ V[:, -2:].T
    return {"QQ'": near, "QQ', Lanczos": near, "strain": np.linalg.norm(M - near)}


def _plane(problem: Problem[Distances], squared: bool = True) -> Values:
    """Embed in the plane; wrong: with distances that are not squared."""
    D = _bent(problem)
    data = Distances(D if squared else np.sqrt(D))
    dense = fit(data, 2, solver="eigh")
    Q, P = dense.params.embedding, fit(data, 2, solver="lanczos").params.embedding
    return {"QQ'": Q @ Q.T, "QQ', Lanczos": P @ P.T, "strain": -dense.objective}


def _corrected(problem: Problem[Distances], share: float = 1.0) -> Values:
    """Return the errors of a correction, in the smallest eigenvalue and distances."""
    D, gaps = _bent(problem), dict[str, Array]()
    n = len(D)
    C, off = np.eye(n) - 1 / n, 1 - np.eye(n)
    for name in ("lingoes", "cailliez"):
        constant = share * additive_constant(D, name) * off
        squares = D**2 + constant if name == "lingoes" else (D + constant) ** 2
        M = -C @ squares @ C / 2
        # The constant vector, whose eigenvalue is always zero, is set aside.
        values = np.linalg.eigvalsh(M + np.trace(M) / n)
        gaps[f"lowest, {name}"] = values[0] / values[-1]
        Q = fit(Distances(D), n, correction=name).params.embedding
        gaps[f"distances, {name}"] = cdist(Q, Q, "sqeuclidean") - squares
        gaps[f"distances, {name}"] /= squares.max()
    return gaps


CHECKS = (
    by_algebra(
        "Euclidean distances are recovered",
        reference=_distances,
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
    by_algebra(
        "the embedding has the least strain of its rank",
        reference=_best_of_rank_2,
        estimate=_plane,
        controls={"distances not squared": partial(_plane, squared=False)},
        rtol=1e-6,
    ),
    by_algebra(
        "the additive constant is the smallest that makes dissimilarities Euclidean",
        reference=zero,
        estimate=_corrected,
        controls={"half the constant": partial(_corrected, share=0.5)},
        atol=1e-7,
    ),
)
