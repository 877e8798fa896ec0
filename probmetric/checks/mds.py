"""The checks of classical MDS, and problems to run them on."""

import numpy as np
from scipy.spatial.distance import cdist

from probmetric.checks.check import Problem, Values, by_algebra
from probmetric.checks.problems import fitted, standardised
from probmetric.data.containers import Distances
from probmetric.inference.mds.fit import embed_new, fit
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


CHECKS = (
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
