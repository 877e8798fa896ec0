"""NumPy float64 given to a public function is computed in float64.

No fixture switches float64 on here: a function that opens no scope of its own is found.
The tables name the functions of the stubs, and those of ``precision_rules``; estimators
are called in ``estimators/test_precision``.
"""

from functools import cache
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probmetric as pm
from probmetric.linalg import logdet_chol
from probmetric.precision import numpy_in_numpy_out
from tests.precision_given import Given
from tests.precision_inference import INFERENCE
from tests.precision_others import OTHERS
from tests.precision_rules import PARTS, sees_no_shift

CALLS = INFERENCE | OTHERS
SHIFT_FREE = {n: PARTS.get(n, lambda r: r) for n in CALLS if sees_no_shift(n)}
SHIFT = 1e7

given = cache(Given)


@cache
def result_of(name, shift):
    module, _, function = name.rpartition(".")
    called = getattr(import_module(f"probmetric.{module}"), function)
    return CALLS[name](called, given(shift))


def is_float(leaf):
    return isinstance(leaf, float) or (
        hasattr(leaf, "dtype") and np.issubdtype(np.asarray(leaf).dtype, np.floating)
    )


def offences(result):
    """Return what is not float64, or not NumPy, among the leaves of a result."""
    leaves = jax.tree.leaves(result)
    floats = [leaf for leaf in leaves if is_float(leaf)]
    if not floats:
        return ["no floating number in the result"]
    dtypes = [np.asarray(leaf).dtype for leaf in floats]
    single = [str(dtype) for dtype in dtypes if dtype != np.float64]
    return single + [str(type(a)) for a in leaves if isinstance(a, jax.Array)]


@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
def test_numpy_float64_in_gives_numpy_float64_out(name):
    assert not offences(result_of(name, 0.0))


@pytest.mark.long
@pytest.mark.parametrize("name", SHIFT_FREE)
def test_the_origin_of_the_features_does_not_matter(name):
    near, far = (SHIFT_FREE[name](result_of(name, by)) for by in (0.0, SHIFT))
    near, far = jax.tree.leaves(near), jax.tree.leaves(far)
    assert len(near) == len(far) > 0
    for a, b in zip(near, far, strict=True):
        # 450 eps of a coordinate at the shift, in units of the largest entry.
        size = max(1.0, float(np.max(np.abs(a))))
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-6 * size)


def test_a_function_that_opens_no_scope_is_found():
    def squared(x):
        return jnp.sum(jnp.asarray(x) ** 2)

    x = np.linspace(0, 1, 5)
    assert offences(squared(x))
    assert not offences(numpy_in_numpy_out(squared)(x))


def test_single_precision_would_see_the_shift():
    g = given(SHIFT)
    far = np.std(g.X.astype(np.float32).astype(float), 0)
    assert np.max(np.abs(far - np.std(given(0.0).X, 0))) > 1e-3


def test_a_random_key_does_not_make_the_result_a_jax_array():
    @numpy_in_numpy_out
    def noise(key, scale):
        return scale * jax.random.normal(key, scale.shape, scale.dtype)

    assert not offences(noise(jax.random.key(0), np.ones(3)))


def test_jax_arrays_and_traced_values_keep_their_type():
    double = numpy_in_numpy_out(lambda x: 2 * x)
    x = jnp.ones(3, jnp.float32)
    assert isinstance(double(x), jax.Array)
    assert double(x).dtype == jax.jit(double)(x).dtype == jnp.float32


def test_constants_of_a_users_own_jit_are_taken_as_they_are():
    """Their results are traced there, and cannot come back as NumPy."""
    metric, x = pm.metric.Mahalanobis(np.diag([1.0, 2.0])), np.ones((1, 2))
    for asked in (metric.transform, lambda x: metric.distance(x, 0 * x)):
        # In float32, as the program that they are constants of.
        found = jax.jit(lambda at=asked: at(x))()
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, asked(x), rtol=1e-6)
    L = np.tril(np.ones((2, 2))) + np.eye(2)
    with jax.enable_x64(True):
        found = jax.jit(lambda z: z + logdet_chol(L))(np.float64(1.0))
    np.testing.assert_allclose(found, 1 + 2 * np.log(np.diag(L)).sum(), rtol=1e-14)
