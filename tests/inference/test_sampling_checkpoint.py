"""A stopped run goes on to the draws of one that was never stopped."""

import jax.numpy as jnp
import numpy as np
import pytest

from probmetric.inference.sampling import Target, nuts


def density(position, data):
    return -0.5 * jnp.sum(position**2) - jnp.sum(jnp.cosh(position - data))


TARGET = Target(density, lambda position, data: {"x": position})
RUN = dict(start=np.zeros(2), seed=1, n_draws=23, n_warmup=20, block_size=10,
           n_chains=2, warn=False)  # fmt: skip
DATA = np.array([0.3, -0.2])


@pytest.fixture
def whole():
    return nuts(TARGET, DATA, **RUN)


def blocks(folder):
    return sorted(folder.glob("block_*.npz"))


def test_checkpoints_do_not_change_the_draws(whole, tmp_path):
    kept = nuts(TARGET, DATA, checkpoint=tmp_path, **RUN)
    np.testing.assert_array_equal(kept.values["x"], whole.values["x"])
    assert len(blocks(tmp_path)) == 5  # two of warm-up, three of draws


@pytest.mark.parametrize("stopped_after", [0, 1, 3, 5])
def test_a_resumed_run_gives_the_same_draws(whole, tmp_path, stopped_after):
    nuts(TARGET, DATA, checkpoint=tmp_path, **RUN)
    for path in blocks(tmp_path)[stopped_after:]:
        path.unlink()
    (tmp_path / "block_00009.tmp").write_bytes(b"half a block")
    again = nuts(TARGET, DATA, checkpoint=tmp_path, resume=True, **RUN)
    for name in ("x",):
        np.testing.assert_array_equal(again.values[name], whole.values[name])
    for name, column in whole.statistics.items():
        np.testing.assert_array_equal(again.statistics[name], column)


def test_blocks_of_another_run_are_refused_by_what_differs(tmp_path):
    nuts(TARGET, DATA, checkpoint=tmp_path, **RUN)
    with pytest.raises(ValueError, match=r"checkpoint: .*seed 1 and not 2"):
        nuts(TARGET, DATA, checkpoint=tmp_path, resume=True, **{**RUN, "seed": 2})
    with pytest.raises(ValueError, match=r"checkpoint: .*data_hash"):
        nuts(TARGET, DATA + 1, checkpoint=tmp_path, resume=True, **RUN)


def test_a_folder_with_blocks_is_not_overwritten(tmp_path):
    nuts(TARGET, DATA, checkpoint=tmp_path, **RUN)
    with pytest.raises(ValueError, match="resume=True"):
        nuts(TARGET, DATA, checkpoint=tmp_path, **RUN)


def test_resuming_from_nowhere_is_refused():
    with pytest.raises(ValueError, match="checkpoint: wanted a folder"):
        nuts(TARGET, DATA, resume=True, **RUN)
