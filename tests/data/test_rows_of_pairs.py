"""Row numbers that the points do not have are one clear error, wherever pairs enter."""

import jax
import numpy as np
import pytest

import probmetric as pm
from probmetric import models
from probmetric.data.groups import as_groups
from probmetric.data.padding import pad_pairs
from probmetric.data.pairs import as_labels
from probmetric.inference import (
    effects,
    eig_dml,
    lca,
    pair_lda,
    triplet_comparisons,
)
from probmetric.inference.effects import points
from probmetric.inference.gdm.likelihood import rows_of
from probmetric.inference.lca.draws import log_likelihood
from probmetric.inference.lca.fit import scaled_identity
from probmetric.inference.triplet_comparisons.statistics import differences
from probmetric.models.gdm import GDMParams
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior
from probmetric.models.lca import LCAParams, LCAPrior

X = np.array([[0.0], [1.0], [3.0]])
KEY, ONE = jax.random.key(0), np.eye(1)
PRIOR = LCAPrior(ONE)


def lca_model(data):
    """Call the NumPyro model of LCA."""
    models.lca.lca(data, PRIOR)


OF_PAIRS = {
    "statistics": lca.prepare,
    "prior center": scaled_identity,
    "likelihood": lambda p: log_likelihood(ONE[None, None], np.ones((1, 1)), p),
    "labels": as_labels,
    "padding": pad_pairs,
    "groups": as_groups,
    "game": eig_dml.fit,
    "moments": pair_lda.fit,
    "splines": lambda p: rows_of(
        p, GDMParams(0.0, np.zeros((1, 2)), np.array([[0.0, 1.0]]))
    ),
    "groups of pairs": lambda p: effects.fit(p, HierarchicalLCAPrior(PRIOR)),
    "point effects": points.rows_of,
    "simulation": lambda p: models.lca.simulate(KEY, LCAParams(ONE, 0.0), p),
    "sampling": lambda p: pm.sample(lca_model, p, n_draws=1, n_chains=1),
}


@pytest.mark.parametrize("row", [-1, 3])
@pytest.mark.parametrize("name", OF_PAIRS)
def test_rows_of_pairs_are_rows_of_the_points(name, row):
    i, y = np.array([0, 0]), np.array([1, 0])
    pairs = pm.Pairs(X, i, np.array([1, row]), y, anchor=np.array([0, 0]))
    with pytest.raises(ValueError, match=f"^j must be .*0 to 2.* got {row} in row 1"):
        OF_PAIRS[name](pairs)


OF_TRIPLETS = {
    "differences": differences,
    "prior": triplet_comparisons.prior_for,
    "simulation": lambda t: models.triplet_comparisons.simulate(
        KEY, models.triplet_comparisons.TripletParams(ONE), t
    ),
}


@pytest.mark.parametrize("row", [-1, 3])
@pytest.mark.parametrize("column", ["anchor", "near", "far", "other"])
@pytest.mark.parametrize("name", OF_TRIPLETS)
def test_rows_of_triplets_are_rows_of_the_points(name, column, row):
    numbers = {"anchor": [0], "near": [1], "far": [2], "other": [0], column: [row]}
    rows = {k: np.array(v) for k, v in numbers.items()}
    triplets = pm.Triplets(X, y=np.array([1]), **rows)
    with pytest.raises(ValueError, match=f"^{column} must be .*0 to 2.* got {row} in"):
        OF_TRIPLETS[name](triplets)
