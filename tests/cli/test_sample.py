"""``sample``: draws that survive, and refusals that name what is wrong."""

import errno
import json
import os
import re
import shutil
import warnings

import arviz as az
import numpy as np
import pytest

from probmetric import LCA, TwoStageMixture
from probmetric.cli import sample as cli_sample
from probmetric.datasets import loading as datasets
from probmetric.report.sample import _chains
from probmetric.storage.draws_file import load_draws, posterior_of
from tests.cli.runs import NAMES, refused, run, table, write_data

pytestmark = pytest.mark.filterwarnings("always")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    paths = write_data(tmp_path_factory.mktemp("data"))
    np.savez(paths["npz"], X=table(seed=9)[NAMES].to_numpy(), z=np.arange(60) % 2)
    return paths["csv"]


def sample(data, out, *more, method="laplace", draws=40):
    words = ("--method", method, "--draws", draws, "--set", "n_components=2")
    return run("sample", "lca", "--data", data, "--out", out, *words, *more)


@pytest.fixture(scope="module")
def laplace(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "laplace"
    done = sample(data, out)
    assert done.exit_code == 0, done.output
    return out


@pytest.mark.parametrize(
    ("method", "size"),
    [("laplace", "1 x 1000"), ("nuts", "4 x 1000")],
)
def test_the_default_number_of_draws_is_that_of_the_help(
    data, tmp_path, monkeypatch, method, size
):
    def sample(*_, n_chains, n_draws, **__):
        raise ValueError(f"asked: {n_chains} x {n_draws}")

    monkeypatch.setattr(LCA, "sample", sample)
    words = "--data", data, "--method", method, "--set", "n_components=2"
    line = refused("sample", "lca", *words, "--out", tmp_path / "out")
    assert line == f"probmetric: asked: {size}"


@pytest.mark.long
def test_the_draws_are_those_of_the_estimator_and_arviz_reads_them(data, laplace):
    loaded = datasets.load(data)
    fitted = LCA(2, random_state=0).fit(loaded.frame, loaded.y)
    direct = fitted.sample("laplace", n_draws=40, n_chains=1, seed=0)
    tree = az.from_netcdf(laplace / "draws.nc")
    np.testing.assert_array_equal(tree["posterior"]["M"], direct["posterior"]["M"])
    assert list(tree["posterior"]["feature"].to_numpy()) == NAMES
    tree.close()


@pytest.mark.long
def test_draws_stand_for_the_metrics_of_the_estimator(data, laplace):
    loaded = datasets.load(data)
    posterior = posterior_of(load_draws(laplace / "draws.nc"))
    assert posterior.n_draws == 40
    assert posterior.source == "laplace"
    tree = load_draws(laplace / "draws.nc")
    M = tree["posterior"]["M"].to_numpy()[0]
    delta = loaded.X[:3] - loaded.X[3:6]
    wanted = np.einsum("ni,sij,nj->sn", delta, M, delta)
    found = posterior.pair_draws(loaded.X[:3], loaded.X[3:6]) ** 2
    np.testing.assert_allclose(found, wanted, rtol=1e-8)
    assert posterior_of(tree, max_draws=7).n_draws == 7


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def unwritten(data, tmp_path_factory):
    """Return NUTS whose draws could not be written, its folder, blocks and options."""
    folder = tmp_path_factory.mktemp("unwritten")
    words = ("--chains", 2, "--checkpoint", folder / "blocks")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("always")
        patch.setattr(cli_sample, "save_draws", full)
        done = sample(data, folder / "run", *words, method="nuts", draws=25)
    return done, folder


def test_an_interrupt_before_the_first_block_claims_no_blocks(
    data, tmp_path, monkeypatch
):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_sample, "learn", interrupted)
    blocks = tmp_path / "blocks"
    done = sample(data, tmp_path / "run", "--checkpoint", blocks, method="nuts")
    assert done.exit_code == 130
    assert f"no block was saved in {blocks} yet" in done.stderr
    assert "--resume" not in done.stderr


@pytest.mark.long
def test_a_full_disk_keeps_the_blocks_and_says_how_to_go_on(unwritten):
    done, folder = unwritten
    assert done.exit_code == 2
    assert "No space left on device" in done.stderr
    assert "use --resume to continue" in done.stderr
    assert list((folder / "blocks").glob("block_*.npz"))
    assert not list((folder / "run").iterdir())


@pytest.mark.long
def test_nuts_with_a_checkpoint_resumes_to_the_same_draws(unwritten, data, tmp_path):
    shutil.copytree(unwritten[1] / "blocks", tmp_path / "blocks")
    words = ("--chains", 2, "--checkpoint", tmp_path / "blocks")
    first = sample(data, tmp_path / "a", *words, "--resume", method="nuts", draws=25)
    assert first.exit_code in (0, 1), first.output
    blocks = sorted((tmp_path / "blocks").glob("block_*.npz"))
    blocks[-1].unlink()
    line = refused(
        *("sample", "lca", "--data", data, "--out", tmp_path / "b"),
        *("--draws", 25, "--set", "n_components=2", *words),
    )
    assert f"{len(blocks) - 1} blocks of draws. Add --resume" in line
    again = sample(data, tmp_path / "b", *words, "--resume", method="nuts", draws=25)
    assert again.exit_code == first.exit_code, again.output
    a, b = (load_draws(tmp_path / name / "draws.nc") for name in "ab")
    np.testing.assert_array_equal(a["posterior"]["M"], b["posterior"]["M"])
    assert "50 draws in" in (tmp_path / "a" / "report.html").read_text()
    # Short chains are told as such, and the exit code says it to scripts.
    assert first.exit_code == int(bool(json.loads(
        (tmp_path / "a" / "summary.json").read_text())["notes"]))  # fmt: skip

    # Blocks of another seed, model or data go with another run.
    for more, said in {
        ("--seed", 1): "log density at the start .*, seed 0 instead of 1",
        ("--set", "regularization=3"): "data differ in .*data_1_lam",
        (
            "--data",
            data.with_name("data.npz"),
            "--label",
            "z",
        ): "data differ in data_0_",
    }.items():
        other = ("sample", "lca", "--data", data, "--out", tmp_path / "c", "--resume")
        line = refused(*other, "--draws", 25, "--set", "n_components=2", *words, *more)
        assert "checkpoint must be the folder of this run" in line
        assert re.search(f"blocks of another run: .*{said}", line), line
    # A block cut short is refused by name.
    block = sorted((tmp_path / "blocks").glob("block_*.npz"))[0]
    block.write_bytes(block.read_bytes()[:100])
    done = sample(data, tmp_path / "d", *words, "--resume", method="nuts", draws=25)
    assert done.exit_code == 2
    assert block.name in done.stderr


@pytest.mark.parametrize(
    ("method", "chains", "pictures"),
    [("nuts", 2, 2), ("nuts", 1, 0), ("laplace", 2, 0)],
)
def test_chains_of_nuts_are_shown_where_there_are_several(method, chains, pictures):
    tree = az.from_dict(
        {"posterior": {"b": np.random.default_rng(0).random((chains, 60))}}
    )
    shown = _chains(tree, {"method": method, "chains": chains})
    assert len(shown) == pictures
    assert all("R-hat" in one.caption for one in shown[:1])


@pytest.mark.long
def test_draws_of_a_mixture_stand_for_the_estimators_similarities(data, tmp_path):
    settings = ("--set", "database_noise=0.5", "--set", "similarity=kernel")
    words = ("--method", "laplace", "--draws", 40, *settings)
    done = run("sample", "two_stage", "--data", data, "--out", tmp_path, *words)
    # Two sources say little of W and B: k-hat is near its limit, and the exit code says
    # on which side.
    assert done.exit_code == ("k-hat" in done.output), done.output
    loaded = datasets.load(data)
    fitted = TwoStageMixture(database_noise=0.5, similarity="kernel")
    fitted.fit(loaded.frame, groups=loaded.y)
    tree = load_draws(tmp_path / "draws.nc")
    wanted = fitted.posterior_metric("prediction", draws=tree, n_draws=40)
    found = posterior_of(tree)
    assert found.draws[0].score == "kernel"
    np.testing.assert_allclose(
        found.pairwise(loaded.X[:4], loaded.X[:9]),
        wanted.pairwise(loaded.X[:4], loaded.X[:9]),
        rtol=1e-9,
    )
    assert "sampled" in done.stdout
