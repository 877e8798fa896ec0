"""A stopped run goes on to the draws of one that was never stopped."""

import errno
import os

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from probmetric.inference.sampling import checkpoint as sampling_checkpoint
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import sample
from probmetric.inference.sampling.target import Posterior, Target


def density(position, data):
    return -0.5 * jnp.sum(position**2) - jnp.sum(jnp.cosh(position - data))


def other_density(position, data):
    return 2 * density(position, data)


def changed_density(position, data):
    return density(position, data) - 1.0


def counts_model(data, *, power=1):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    numpyro.sample("count", dist.Poisson(rate**power), obs=data)


def REPORT(position, data):
    return {"x": position}


TARGET = Target(density, REPORT)
COUNTS = np.array(3)
DATA = np.array([0.3, -0.2])
POSTERIOR = Posterior(TARGET, DATA, np.zeros(2))
RUN = dict(seed=1, n_draws=23, n_chains=2)


def nuts(posterior=POSTERIOR, *, checkpoint=None, resume=False, **other):
    sampler = NUTS(n_warmup=20, block_size=10, checkpoint=checkpoint, resume=resume)
    return sampler.draw(posterior, **{**RUN, **other})


@pytest.fixture(scope="module")
def whole():
    return nuts()


def blocks(folder):
    return sorted(folder.glob("block_*.npz"))


@pytest.mark.long
def test_checkpoints_do_not_change_the_draws(whole, tmp_path):
    kept = nuts(checkpoint=tmp_path)
    np.testing.assert_array_equal(kept.values["x"], whole.values["x"])
    assert len(blocks(tmp_path)) == 5  # two of warm-up, three of draws
    with pytest.raises(ValueError, match="checkpoint must be a folder without blocks"):
        nuts(checkpoint=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("stopped_after", [0, 1, 3, 5])
def test_a_resumed_run_gives_the_same_draws(whole, tmp_path, stopped_after):
    nuts(checkpoint=tmp_path)
    for path in blocks(tmp_path)[stopped_after:]:
        path.unlink()
    (tmp_path / ".block_00009.1.part.npz").write_bytes(b"half a block")
    again = nuts(checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(again.values["x"], whole.values["x"])
    for name, column in whole.statistics.items():
        np.testing.assert_array_equal(again.statistics[name], column)


@pytest.mark.long
def test_blocks_of_another_run_are_refused_by_what_differs(tmp_path, monkeypatch):
    nuts(checkpoint=tmp_path)

    def refused(match, other=POSTERIOR, **run):
        with pytest.raises(
            ValueError, match=f"checkpoint must .*another run: .*{match}"
        ):
            nuts(other, checkpoint=tmp_path, resume=True, **run)

    refused("seed 1 instead of 2$", seed=2)
    refused("data differ in data$", POSTERIOR._replace(data=DATA + 1e-9))
    refused("data differ in start$", POSTERIOR._replace(start=np.full(2, 0.5)))
    refused("n_chains 2 instead of 3", n_chains=3)
    other = POSTERIOR._replace(target=Target(other_density, REPORT))
    refused("model density instead of other_density", other)
    same_name = POSTERIOR._replace(target=Target(changed_density, REPORT))
    monkeypatch.setattr(changed_density, "__qualname__", "density")
    refused("log density at the start", same_name)
    monkeypatch.setattr(
        sampling_checkpoint, "versions", lambda *names: dict.fromkeys(names, "0")
    )
    refused("version of jax .* instead of 0")


@pytest.mark.long
def test_models_are_told_apart_by_name_and_by_static_arguments(tmp_path):
    run = dict(n_draws=2, seed=0, n_chains=1)
    run["method"] = NUTS(n_warmup=2, checkpoint=tmp_path)
    sample(counts_model, COUNTS, options={"power": 1}, **run)
    run["method"] = NUTS(n_warmup=2, checkpoint=tmp_path, resume=True)
    with pytest.raises(ValueError, match=r"counts_model\(1,\) instead of .*\(2,\)"):
        sample(counts_model, COUNTS, options={"power": 2}, **run)


def _truncate(data):
    return data[: len(data) // 2]


def _flip(data):
    at = data.index(b"NUMPY", len(data) // 3) + 125  # of an array, not of a date
    return data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]


GARBAGE = {
    "truncated": _truncate,
    "one byte changed": _flip,
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_damaged_block_is_refused_by_its_name_and_nothing_is_lost(
    whole, tmp_path, name
):
    nuts(checkpoint=tmp_path)
    good = {path: path.read_bytes() for path in blocks(tmp_path)}
    damaged = blocks(tmp_path)[2]
    damaged.write_bytes(GARBAGE[name](good[damaged]))
    with pytest.raises(ValueError, match=r"block_00002\.npz cannot be read"):
        nuts(checkpoint=tmp_path, resume=True)
    untouched = [path for path in good if path != damaged]
    assert all(path.read_bytes() == good[path] for path in untouched)
    damaged.unlink()  # as the message says
    again = nuts(checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(again.values["x"], whole.values["x"])


def test_a_full_disk_says_so_and_keeps_the_blocks(whole, tmp_path, monkeypatch):
    calls, fsync = [], os.fsync

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"could not write block 2 .No space .* resume"):
        nuts(checkpoint=tmp_path)
    assert sorted(tmp_path.iterdir()) == blocks(tmp_path)  # no debris
    assert len(blocks(tmp_path)) == 2
    again = nuts(checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(again.values["x"], whole.values["x"])
