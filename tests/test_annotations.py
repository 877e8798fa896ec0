"""Annotations are checked at run time in tests, but for those of local functions."""

import os

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError

from probmetric.neighbors.strength import reach
from tests.annotations import checked

off = os.environ.get("JAXTYPING_DISABLE") == "1"


@pytest.mark.skipif(off, reason="annotations are left alone")
def test_an_array_of_another_shape_is_refused():
    with pytest.raises(TypeCheckError, match="reach"):
        reach(np.arange(6.0))
    assert reach(np.arange(6.0)[:, None]) > 0


def test_they_can_be_left_alone(unchecked):
    with pytest.raises(IndexError, match="tuple index out of range"):
        reach(np.arange(6.0))


def half(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return x / 2


def test_functions_within_functions_are_not_checked():
    def local(x: Float[np.ndarray, "n"]) -> None: ...

    assert checked(local) is local
    assert checked(half) is not half
