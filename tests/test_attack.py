"""The attack script: that it notices what gives way, and a tenth of it."""

import gc
import io
import sys
import warnings
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import probmetric as pm
from probmetric.compilation import _warn_of_fork
from probmetric.files import Archive
from probmetric.storage import load_draws, save_draws
from tests.cli.runs import refused

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import attack as tool
import attack_files as files


class Done:
    """How a command ended."""

    def __init__(self, code, stdout="", stderr="", exception=None):
        self.exit_code, self.exception = code, exception
        self.stdout, self.stderr = stdout, stderr


@pytest.mark.parametrize(
    "done, kind",
    [
        (Done(0, "query,dissimilarity,label\n0,1.5,inf\n"), "answered"),
        (Done(0, "query,dissimilarity,label\n0,inf,a\n"), "SILENT"),
        (Done(2, stderr="probmetric: data: expected numbers, got text\n"), "refused"),
        (Done(2, stderr="probmetric: tuple index out of range\n"), "UNNAMED"),
        (Done(1, stderr="probmetric: data: expected numbers\n"), "EXIT CODE"),
        (Done(1, exception=TypeError("x")), "TRACEBACK"),
    ],
)
def test_what_gives_way_is_noticed(done, kind):
    assert tool.verdict("metric", "neighbors", "", done).kind == kind


def headed(path, text, size=0):
    """Write an archive whose X.npy has a header of one's own."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
        archive.writestr("X.npy", head + bytes(size))
        y = io.BytesIO()
        np.save(y, np.arange(3))
        archive.writestr("y.npy", y.getvalue())
    return path


@pytest.mark.parametrize("text", files.HEADERS)
def test_a_hostile_header_is_one_sentence(text, tmp_path):
    path = headed(tmp_path / "d.npz", text)
    line = refused("fit", "lda", "--data", path, "--out", tmp_path / "out")
    assert "data: expected " in line


def test_what_is_not_asked_for_is_not_read(tmp_path):
    path = headed(tmp_path / "d.npz", "(" * 200)  # X has no header.
    archive = Archive(path, "data: expected a file")
    assert sorted(archive) == ["X", "y"]
    np.testing.assert_array_equal(archive["y"], np.arange(3))
    assert archive.form("y") == ((3,), np.dtype(int))
    with pytest.raises(ValueError, match=r"^data: expected a file"):
        archive["X"]


@pytest.mark.parametrize(
    "part, array",
    [
        ("metric.factor", np.ones(3)),
        ("metric.factor", np.ones((0, 3))),
        ("metric.link.b", np.ones(2)),
        ("metric.factor", np.ones((2, 2, 2))),
    ],
)
def test_parts_of_another_shape_are_refused(part, array, tmp_path):
    link = pm.metric.Link(np.array(0.1), np.array(0.5))
    pm.save_metric(pm.Mahalanobis(np.eye(3), link), tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as stored:
        arrays = {**stored, part: array}
    np.savez(tmp_path / "m.npz", **arrays)
    with pytest.raises(ValueError, match=r"^metric: expected "):
        pm.load_metric(tmp_path / "m.npz")


def test_a_fork_after_use_is_warned_of_with_the_remedy():
    with pytest.warns(RuntimeWarning, match=r"get_context\('spawn'\)"):
        _warn_of_fork()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_draws_whose_attributes_are_damaged_are_refused_and_let_go(tmp_path):
    posterior = xr.Dataset({"b": (("chain", "draw"), np.zeros((1, 2)))})
    path = tmp_path / "draws.nc"
    save_draws(xr.DataTree.from_dict({"posterior": posterior}), path)
    with h5py.File(path, "a") as file:
        file.attrs["_nc3_strict"] = np.zeros(2)  # Of no truth: h5netcdf stops there.
    with pytest.raises(ValueError, match=r"^draws: expected a readable NetCDF file"):
        load_draws(path)
    gc.collect()


@pytest.mark.slow
def test_a_tenth_of_the_attack_finds_nothing(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of damaged files, as a user would see them.
        code = tool.main(["--seed", "11", "--share", "0.1", "--parts", "files"])
    assert code == 0, capsys.readouterr().out
