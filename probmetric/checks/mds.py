"""The checks of classical MDS, and problems to run them on."""

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from probmetric.checks.check import Check, Problem
from probmetric.data.containers import Distances
from probmetric.inference.mds.fit import embed_new, fit
from probmetric.inference.solvers.result import Fit

__all__ = ["CHECKS", "fit_problem", "from_labels", "toy"]


def toy(seed: int) -> Problem:
    """Distances of 40 points in three dimensions, off the origin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) * [3.0, 2.0, 1.0] + 5.0
    return _fitted(f"simulated, seed {seed}", X)


def from_labels(X: np.ndarray, y: np.ndarray, *, name: str = "data") -> Problem:
    """Embed a standardised data set in as many dimensions as it has; no label used."""
    Z = np.asarray(X, float)
    scale = Z.std(0)
    return _fitted(name, (Z - Z.mean(0)) / np.where(scale > 0, scale, 1.0))


def fit_problem(problem: Problem) -> Fit:
    """Embed in as many dimensions as the points had."""
    return fit(_distances(problem), problem.options["n_components"])


def _fitted(name: str, X: np.ndarray) -> Problem:
    problem = Problem(
        name, None, Distances(cdist(X, X)), None, {"n_components": X.shape[1]}
    )
    return problem._replace(params=fit_problem(problem).params)


def _distances(problem: Problem) -> Distances:
    data: Any = problem.data
    return data


def _embedded(Q: Any) -> dict[str, Any]:
    return {"D": cdist(np.asarray(Q), np.asarray(Q))}


def _by_average_anchor(problem: Problem) -> dict[str, Any]:
    """Erratum P2: top eigenvectors of the average of the anchored Gram matrices."""
    S = np.asarray(_distances(problem).D) ** 2
    rows = S.mean(1)
    gram = (rows[:, None] + rows[None] - S) / 2
    values, vectors = np.linalg.eigh(gram)
    k = problem.options["n_components"]
    return _embedded(vectors[:, -k:] * np.sqrt(np.maximum(values[-k:], 0)))


def _by_plain_distances(problem: Problem) -> dict[str, Any]:
    D = np.sqrt(np.asarray(_distances(problem).D))
    return _embedded(
        fit(Distances(D), problem.options["n_components"]).params.embedding
    )


def _replaced(problem: Problem, anchor: bool) -> dict[str, Any]:
    """Leave the last object out, then place it as a new one."""
    D = np.asarray(_distances(problem).D)
    known = fit(Distances(D[:-1, :-1]), problem.options["n_components"]).params
    if not anchor:
        known = known._replace(self_terms=np.zeros_like(known.self_terms))
    place = np.asarray(embed_new(known, D[-1:, :-1] ** 2))
    return {"d": cdist(place, np.asarray(known.embedding))[0]}


CHECKS = (
    Check(
        "Euclidean distances are recovered",
        "exact",
        reference=lambda p: {"D": np.asarray(_distances(p).D)},
        estimate=lambda p: _embedded(p.params.embedding),
        controls={
            "average over anchors (erratum P2)": _by_average_anchor,
            "distances not squared": _by_plain_distances,
        },
        rtol=1e-6,
    ),
    Check(
        "a new object is placed at its distances",
        "exact",
        reference=lambda p: {"d": np.asarray(_distances(p).D)[-1, :-1]},
        estimate=lambda p: _replaced(p, anchor=True),
        controls={"diag(M) left out": lambda p: _replaced(p, anchor=False)},
        rtol=1e-6,
    ),
)
