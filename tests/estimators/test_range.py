"""Every learner at the ends of float64: the right answer or a refusal by name."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

import probmetric as pm
from probmetric.linalg_scaled import distances
from tests.learners import LEARNERS, make
from tests.oracles import exact_square


def data():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    return rng.normal(size=(30, 3)) + 0.8 * y[:, None], y


X, Y = data()


@pytest.fixture(scope="module")
def fitted():
    """Each learner, fitted once at scale 1."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = make(name).fit(X, Y)
        return made[name]

    return get


def one_column(factor):
    return X * np.array([factor, 1.0, 1.0])


OUT_OF_RANGE = {
    "subnormal": X * 1e-310,
    "one subnormal column": one_column(5e-324),
    "squares are subnormal": one_column(1e-160),
    "squares overflow": one_column(1e160),
    "range overflows": one_column(1e308 / 3),
}


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("name", [n for n in LEARNERS if n != "ClassicalMDS"])
@pytest.mark.parametrize("which", OUT_OF_RANGE)
def test_a_column_whose_squares_float64_does_not_hold_is_refused(
    name, which, standardize
):
    learner = make(name, standardize=standardize)
    with pytest.raises(ValueError, match=r"X: .*squares|const"):
        learner.fit(OUT_OF_RANGE[which], Y)


@pytest.mark.parametrize("scale", [1e-310, 1e-170, 1e160])
@pytest.mark.parametrize("name", ["PairLDA", "LCA", "EigDML", "TwoStageMixture"])
def test_pairs_whose_squares_float64_does_not_hold_are_refused(name, scale):
    pairs, same = np.stack([X[:15], X[15:]], 1), np.arange(15) % 2
    with pytest.raises(ValueError, match=r"X: .*squares|const"):
        make(name).fit_pairs(pairs * scale, same)


@pytest.mark.long
@pytest.mark.parametrize("scale", [2.0**-490, 2.0**490])
@pytest.mark.parametrize("name", LEARNERS)
def test_near_the_limits_all_that_is_learned_is_finite(fitted, name, scale):
    if name == "ClassicalMDS":
        scale = np.sqrt(scale) / 1e3 ** np.sign(np.log(scale))  # Fourth powers.
    learner = make(name).fit(X * scale, Y)
    held = [v for k, v in vars(learner).items() if k.endswith("_")]
    arrays = [v for v in held if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    assert arrays or name == "GLML"
    assert all(np.isfinite(a).all() for a in arrays if a is not None)
    if hasattr(learner, "get_mahalanobis_matrix"):
        M, at_one = (e.get_mahalanobis_matrix() for e in (learner, fitted(name)))
        # 1e-6 relative: iterative learners stop elsewhere after rounding.
        units = 1.0 if name == "ClassicalMDS" else scale**2  # It maps into input units.
        np.testing.assert_allclose(M * units, at_one, rtol=1e-6, atol=1e-9)


def true_distances(L, A, B):
    """Return |L(a - b)| of matching rows, by whole numbers of more than 100 bits."""
    return np.array([root(exact_square(L, a, b)) for a, b in zip(A, B, strict=True)])


def root(square):
    bits = 110 + max(0, square.denominator.bit_length() - square.numerator.bit_length())
    return float(
        Fraction(isqrt((square.numerator << 2 * bits) // square.denominator)) / 2**bits
    )


def test_distances_of_mixed_sizes_are_right():
    rng = np.random.default_rng(1)
    L, A, B = (rng.normal(size=s) for s in ((2, 3), (20, 3), (20, 3)))
    size = np.array([1e200, 1.0, 1e-250])
    found = distances(L / size, A * size, B * size, "pairs")
    expected = true_distances(L / size, A * size, B * size)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    far = distances(np.eye(1), np.array([[1e308]]), np.array([[-7e307]]), "pairs")
    assert far == pytest.approx(1.7e308, rel=1e-15)
    with pytest.raises(ValueError, match=r"pairs: distances overflow float64"):
        distances(np.eye(1), np.array([[1.7e308]]), np.array([[-1.7e308]]), "pairs")
    # Control: the plain formula is not what it is held against.
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.linalg.norm((A - B) * 1e200, axis=1)
    assert not np.isfinite(plain).any()


@pytest.mark.long
@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal"])
@pytest.mark.parametrize("missing", [False, True], ids=["whole", "missing"])
def test_far_queries_of_student_t_classes_get_their_limit(covariance, missing):
    """Log odds of t densities have a limit along a ray; 1e30 is at it, 1e160 too."""
    how = "integrate" if missing else "error"
    classes = pm.GaussianClasses(covariance=covariance, missing=how).fit(X, Y)
    Q = X[:4].copy()
    if missing:
        Q[:, 1] = np.nan
    expected = classes.predict_log_proba(Q * 1e30)
    # Log densities are ν log‖x‖ and more; their differences are exact to its rounding.
    nu = np.max(classes.posterior_.nu)
    if covariance == "diagonal" or len(set(classes.posterior_.nu.ravel())) == 1:
        for scale in (1e100, 1e160, 1e250):
            found = classes.predict_log_proba(Q * scale)
            limit = max(1e-9, 1e-12 * nu)
            np.testing.assert_allclose(found, expected, rtol=limit, atol=limit)
    nearer = classes.predict_log_proba(Q)
    assert np.abs(nearer - expected).max() > 1e-3  # It is not a constant.
