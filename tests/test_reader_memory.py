"""Files that promise more than they contain are refused, and cost little memory.

Memory is that of NumPy and the standard library, traced by ``tracemalloc``.
"""

import tracemalloc
import zipfile

import numpy as np
import pytest

import probmetric as pm
from probmetric.files import Archive


def traced(read):
    """Return the most bytes that were held at one time."""
    tracemalloc.start()
    try:
        try:
            read()
        except ValueError:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def header(shape):
    """Return the header of an ``.npy`` file of a shape."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def test_an_archive_that_promises_much_is_refused_and_takes_little(tmp_path):
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("X.npy", header((10**12, 3)) + bytes(160))
        archive.writestr("y.npy", header((10**12,)) + bytes(160))
    with pytest.raises(ValueError, match=r"^data\b"):
        pm.datasets.load(tmp_path / "d.npz")
    assert traced(lambda: pm.datasets.load(tmp_path / "d.npz")) < 1 << 19


def test_an_array_that_is_not_used_is_not_read(tmp_path):
    np.savez(tmp_path / "y.npz", y=np.arange(3))
    with zipfile.ZipFile(tmp_path / "y.npz", "a") as archive:
        archive.writestr("X.npy", b"no header")
    stored = Archive(tmp_path / "y.npz", "data: expected a file")
    np.testing.assert_array_equal(stored["y"], np.arange(3))
    with pytest.raises(ValueError, match=r"^data\b"):
        stored["X"]


def test_an_npy_file_of_another_shape_than_it_holds_is_refused(tmp_path):
    path = tmp_path / "d.npy"
    path.write_bytes(header(f"({10**12}, 20)") + bytes(160))
    with pytest.raises(ValueError, match=r"^data: .* cannot be read"):
        pm.open(path)
