"""A Gaussian across the rotations of a map, against dense null spaces."""

import numpy as np
import pytest
from scipy.linalg import null_space

from probmetric.inference.rotations import inverse_root, root_across


def precision(q, rng):
    """Return a positive definite matrix (q, q)."""
    A = rng.normal(size=(q + 3, q))
    return A.T @ A


@pytest.mark.parametrize("further", [0, 2])
@pytest.mark.parametrize("p, d", [(1, 4), (2, 3), (3, 3)])
def test_it_is_the_gaussian_on_the_complement_of_the_tangents(p, d, further):
    rng = np.random.default_rng(p)
    W, q = rng.normal(size=(p, d)), p * d + further
    H = precision(q, rng)
    tangents = np.zeros((q, p * (p - 1) // 2))
    for k, (a, b) in enumerate(zip(*np.triu_indices(p, 1), strict=True)):
        skew = np.zeros((p, p))
        skew[a, b], skew[b, a] = 1, -1
        tangents[: p * d, k] = (skew @ W).ravel()
    N = null_space(tangents.T) if tangents.size else np.eye(q)
    wanted = N @ np.linalg.solve(N.T @ H @ N, N.T)
    root = root_across(H, W)
    assert root.shape == (q, q - tangents.shape[1])
    np.testing.assert_allclose(root @ root.T, wanted, rtol=1e-9, atol=1e-12)
    assert np.abs(tangents.T @ root).max(initial=0) < 1e-12
    if tangents.size:  # What is left out is not nothing.
        assert np.abs(np.linalg.inv(H) - wanted).max() > 1e-3


def test_rotations_within_a_null_space_are_refused():
    rng = np.random.default_rng(0)
    W, H = rng.normal(size=(3, 4)), precision(12, rng)
    one = W - np.outer(W[:, 0], W[0]) / W[0, 0]  # Rank 2,
    assert root_across(H, one).shape == (12, 9)
    for rank_one in (np.outer(W[:, 0], W[0]), np.diag([1.0, 0, 0]) @ W):
        with pytest.raises(ValueError, match=r"params: .* got 2\."):
            root_across(H, rank_one)


def test_a_precision_that_is_indefinite_across_is_refused():
    H, W = np.eye(6), np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 2.0]])
    along = np.concatenate([W[1], -W[0]])
    along /= np.linalg.norm(along)
    flat = H - np.outer(along, along)
    assert root_across(flat, W).shape == (6, 5)  # Rotations need no precision,
    with pytest.raises(ValueError, match="params must be a posterior mode"):
        inverse_root(flat)
    across = W.ravel() / np.linalg.norm(W)  # the length of W does.
    with pytest.raises(ValueError, match="params must be a posterior mode"):
        root_across(H - 2 * np.outer(across, across), W)
