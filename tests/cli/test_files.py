"""Files are whole or untouched, whatever happens while they are written."""

import os
import signal
import subprocess
import sys

import pandas as pd
import pytest

from probmetric.cli.files import claim
from probmetric.files import replacing


def test_a_failed_write_leaves_the_old_file_and_no_debris(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")

    def write_half():
        with replacing(path) as part:
            part.write_text("new, but only half")
            raise RuntimeError("half")

    with pytest.raises(RuntimeError, match="half"):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_a_readable_file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a\n1\n")
    code = (
        "import signal, sys, time; from pathlib import Path\n"
        # A shell starts what it runs in the background without SIGINT.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from probmetric.cli.files import replacing\n"
        f"with replacing(Path({str(path)!r})) as part:\n"
        "    part.write_text('a\\n1'); print('begun', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) != 0
    assert pd.read_csv(path)["a"].tolist() == [1]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with (
        pytest.raises(ValueError, match="expected a folder to write to"),
        claim(tmp_path, ("a",), force=False),
    ):
        pass
