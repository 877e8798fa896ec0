"""A metric file that holds NaN is refused when it is read, as when it is written."""

import numpy as np
import pytest

from probmetric import load_metric, save_metric
from tests.metric_kinds import NAMES, build


def arrays_of(path):
    with np.load(path) as held:
        return dict(held)


def with_nan(array):
    array = array.copy()
    array.flat[-1] = np.nan
    return array


@pytest.mark.parametrize("kind", NAMES)
def test_nan_in_any_array_of_a_file_is_refused_by_its_name(kind, tmp_path):
    path = tmp_path / "m.npz"
    save_metric(build(kind), path)
    whole = arrays_of(path)
    names = [n for n, a in whole.items() if a.dtype.kind == "f"]
    assert names
    for name in names:
        np.savez(path, **{**whole, name: with_nan(whole[name])})
        with pytest.raises(
            ValueError, match=f"metric: arrays must be numeric, got .* in {name}"
        ):
            load_metric(path)
