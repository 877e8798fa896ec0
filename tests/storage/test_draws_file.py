"""Draws come back whole, and damage to their file is found before HDF5 opens it."""

import arviz as az
import h5py
import numpy as np
import pytest
import xarray as xr

from probmetric.storage.draws_file import (
    MARK,
    TAIL,
    load_draws,
    save_draws,
)


@pytest.fixture
def tree():
    M = np.random.default_rng(0).normal(size=(2, 3, 2, 2))
    posterior = xr.Dataset({"M": (("chain", "draw", "feature", "feature_bis"), M)})
    return xr.DataTree.from_dict({"posterior": posterior})


@pytest.fixture
def path(tree, tmp_path):
    save_draws(tree, tmp_path / "draws.nc")
    return tmp_path / "draws.nc"


def test_draws_come_back_whole_for_arviz_too(tree, path):
    assert load_draws(path).identical(tree)
    xr.testing.assert_identical(
        az.from_netcdf(path)["posterior"].to_dataset(), tree["posterior"].to_dataset()
    )


def test_no_byte_of_a_file_may_change(path):
    whole = path.read_bytes()
    assert whole[-TAIL:].startswith(MARK)
    for at in np.random.default_rng(1).integers(0, len(whole) - TAIL, 50):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=r"^draws .*wrong checksum"):
            load_draws(path)


def test_hdf5_sees_no_file_whose_checksum_differs(path, monkeypatch):
    path.write_bytes(b"\0" + path.read_bytes()[1:])
    monkeypatch.setattr(h5py, "File", lambda *_: pytest.fail("HDF5 opened the file"))
    with pytest.raises(ValueError, match="wrong checksum"):
        load_draws(path)


def test_a_file_without_a_checksum_is_read_as_it_is(tree, path):
    path.write_bytes(path.read_bytes()[:-TAIL])
    assert load_draws(path).identical(tree)


def test_what_another_program_changed_is_read(path):
    with h5py.File(path, "a") as file:
        file["posterior"]["M"][...] = 7.0
    assert MARK not in path.read_bytes()  # HDF5 cuts what stands after its end.
    assert (load_draws(path)["posterior"]["M"].to_numpy() == 7.0).all()
