"""Densities take NumPy's float64 in JAX's own precision, without a word of warning."""

import jax.numpy as jnp
import numpy as np
import pytest

from probmetric import densities

ONE = np.ones((2, 1))
CLASSES = densities.ClassDensities(
    np.log([0.5, 0.5]), 0 * ONE, 2 * ONE[..., None], ONE[..., None, None], 0 * ONE
)
CALLS = {
    "class_hessians": lambda f: densities.class_hessians(
        CLASSES._replace(loc=f(CLASSES.loc)), f(np.zeros(1))
    ),
    "class_scores": lambda f: densities.class_scores(CLASSES, f(np.zeros(1))),
    "log_posterior": lambda f: densities.log_posterior(CLASSES, f(np.zeros(1))),
    "log_student": lambda f: densities.log_student(
        f(np.array([[0.0], [1.0]])), np.ones(1), 1
    ),
    "log_normal": lambda f: densities.log_normal(f(np.eye(1)), f(np.ones(1))),
    "log_normal_seen": lambda f: densities.log_normal_seen(
        f(np.array([1.0, np.nan])), f(np.zeros(2)), f(np.eye(2))
    ),
}


# Warnings are errors here; of NumPy's float64 JAX may say that it was cut short.
@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
def test_numpy_arrays_give_what_arrays_of_jax_give(name):
    got, wanted = CALLS[name](np.asarray), CALLS[name](jnp.asarray)
    assert got.dtype == wanted.dtype == jnp.float32
    np.testing.assert_array_equal(got, wanted)
