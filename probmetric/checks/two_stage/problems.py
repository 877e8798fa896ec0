"""Problems to check the two-stage mixture on: simulated, or from labeled data."""

import jax
import numpy as np

from probmetric.checks.check import Problem
from probmetric.checks.problems import (
    fitted,
    permuted,
    renamed,
    standardized,
    translated,
)
from probmetric.data.containers import Groups
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.solvers.result import Fit
from probmetric.inference.two_stage.fit import fit
from probmetric.models.two_stage import TwoStageParams, simulate
from probmetric.precision import to_numpy


def toy(seed: int) -> Problem[Groups]:
    """Simulate 40 weighted sources of 1 to 3 instances from two components in d = 2."""
    group = np.repeat(np.arange(40), 1 + np.arange(40) % 3)
    spread = np.array([[[1.0, 0.3], [0.3, 0.6]], [[0.5, -0.2], [-0.2, 1.2]]])
    truth = TwoStageParams(
        np.array([0.6, 0.4]), np.array([[0.0, 0.0], [6.0, 2.0]]), 0.3 * spread, spread
    )
    with jax.enable_x64(True):
        empty = Groups(np.zeros((len(group), 2)), group)
        simulated = simulate(jax.random.key(seed), truth, empty)
        assert isinstance(simulated, Groups)
        groups = to_numpy(simulated)
    prior = default_prior(groups.X, 2, strength=0.2, alpha=(2.0, 5.0))
    other = 0.6 * prior.within_scale + 0.1
    prior = prior._replace(concentration=1.5, within_df=5.5, within_scale=other)
    # Instances of one source weigh the same.
    groups = groups._replace(w=0.5 + 0.5 * (group % 3))
    return fitted(fit_problem, f"simulated, seed {seed}", groups, prior, n_components=2)


MOST_ENTRIES = 1200
"""Entries per source: rows of the covariance that the NumPyro model stacks."""


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Groups]:
    """Use classes as sources (at most ``MOST_ENTRIES`` entries) and one component."""
    Z, codes = standardized(X, y)
    Z = Z[:, Z.any(0)]  # Features that vary.
    most = max(2, MOST_ENTRIES // Z.shape[1])
    rows = [np.flatnonzero(codes == c) for c in np.unique(codes)]
    few = [r[np.linspace(0, len(r) - 1, min(len(r), most), dtype=int)] for r in rows]
    used = np.concatenate(few)
    name = "data" if len(used) == len(Z) else f"data, {len(used)} of {len(Z)} points"
    Z, codes = Z[used], codes[used]
    prior = default_prior(Z, 1)
    return fitted(fit_problem, name, Groups(Z, codes), prior, n_components=1)


def fit_problem(problem: Problem[Groups]) -> Fit:
    """Fit a problem with free W and B, from its k-means start."""
    return fit(
        problem.data,
        prior=problem.prior,
        **problem.options,
        tol=1e-13,
        max_steps=5000,
    )


invariants = {
    "order of the points": permuted,
    "names of the groups": renamed,
    "translation of points and prior mean": translated,
}
"""Changes of a problem that must not change the learned metric."""
