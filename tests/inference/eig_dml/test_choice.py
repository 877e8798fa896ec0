"""Eig-DML mixed with the Euclidean metric: limits, and what folds try."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from probmetric.data.containers import Labeled
from probmetric.data.pairs import nearest_pairs
from probmetric.inference import eig_dml
from probmetric.inference.eig_dml import choice
from probmetric.inference.eig_dml.choice import shrunk
from probmetric.linalg import row_signs
from probmetric.neighbors.strength import STRENGTHS, folds, strongest
from probmetric.neighbors.votes import BANDWIDTHS

RAW, Y = load_iris(return_X_y=True)
X = ((RAW - RAW.mean(0)) / RAW.std(0))[::4]
Y = Y[::4]


def made(part):
    return nearest_pairs(part.X, part.y)


def optimum(rows):
    return eig_dml.fit(
        made(Labeled(X[rows], Y[rows])),
        ridge=1e-6,
        solver="pdhg",
        tol=choice.FOLD_GAP,
        max_steps=choice.FOLD_STEPS,
    ).params


def matrix(params):
    return params.factor.T @ params.factor


@pytest.mark.parametrize("r", [1, 3])
def test_the_mixture_has_the_trace_and_the_axes_of_the_optimum(r):
    factor = np.random.default_rng(r).normal(size=(r, 3))
    params = eig_dml.EigDMLParams(factor, np.eye(3), np.ones(1), 1.0, 1.0, 0.0)
    M = factor.T @ factor
    for s in (0.0, 1e-9, 2.0, 1e9, np.inf):
        found = shrunk(params, s, 6)
        share = 1.0 if np.isinf(s) else s / (6 + s)
        expected = (1 - share) * M + share * np.trace(M) / 3 * np.eye(3)
        np.testing.assert_allclose(matrix(found), expected, atol=1e-13 * np.trace(M))
        if 0 < s < np.inf:
            lengths = np.linalg.norm(found.factor, axis=1)
            assert np.all(np.diff(lengths) <= 1e-13 * lengths[0])
            np.testing.assert_array_equal(row_signs(found.factor), np.ones((3, 1)))


@pytest.mark.parametrize("s", [2.0, np.inf])
def test_constant_columns_have_no_part_in_the_mixture(s):
    factor = np.random.default_rng(0).normal(size=(2, 3))
    params = eig_dml.EigDMLParams(factor, np.eye(3), np.ones(1), 1.0, 1.0, 0.0)
    live = np.array([True, False, True, True])
    wider = params._replace(factor=np.insert(factor, 1, 0.0, axis=1))
    M = matrix(shrunk(wider, s, 6, live=live))
    alone = matrix(shrunk(params, s, 6))
    np.testing.assert_allclose(M[np.ix_(live, live)], alone, rtol=1e-12, atol=1e-14)
    assert not M[1].any()
    assert not np.allclose(matrix(shrunk(wider, s, 6))[0, 0], alone[0, 0])


def test_the_choice_is_that_of_all_folds_by_hand():
    """Votes written out: kernels of distances, the class shares mixed in at .02."""
    losses = np.zeros((len(STRENGTHS), len(BANDWIDTHS), len(X)))
    for learned, voters, asked in folds(X, Y, 5, 3):
        params = optimum(learned)
        shares = np.array([np.mean(Y[voters] == c) for c in Y[asked]])
        for a, s in enumerate(STRENGTHS):
            M = matrix(shrunk(params, s, len(learned)))
            own = X[voters][:, None] - X[voters]
            near = np.sort(np.einsum("ijk,kl,ijl->ij", own, M, own), 1)[:, 5]
            gap = X[asked][:, None] - X[voters]
            D = np.einsum("ijk,kl,ijl->ij", gap, M, gap)
            for b, h in enumerate(BANDWIDTHS):
                w = np.exp(-(D - D.min(1, keepdims=True)) / (2 * h * np.median(near)))
                votes = np.sum(w * (Y[asked][:, None] == Y[voters]), 1) / w.sum(1)
                losses[a, b, asked] -= np.log(0.98 * votes + 0.02 * shares) / 3
    chosen = eig_dml.choose_strength(Labeled(X, Y), made, ridge=1e-6)
    strength, means, _ = strongest(losses, STRENGTHS, choice.TOLERANCE)
    assert chosen.strength == strength
    np.testing.assert_allclose(chosen.losses, means, rtol=1e-8)


def test_folds_that_teach_nothing_leave_euclid():
    doubled = np.concatenate([X, X]), np.concatenate([Y, (Y + 1) % 3])
    assert eig_dml.choose_strength(Labeled(*doubled), made).strength == np.inf
