"""Hostile words in place of a path: exit code 2 and one line."""

import numpy as np
import pytest

import probmetric as pm
from tests.cli.runs import refused, write_data

NO_FILES = (
    *("", ".", "..", "/", "~", "~no_such_user/a", "no/such/file", "a" * 300, "é" * 200),
    *("-", "[a", "**", "a\nb", "\x1b[31m", "\u202e", "/dev/null/a", "http://a.b/c"),
)


COMMANDS = (
    "fit lda --data WORD --out out",
    "evaluate --metric metric.npz --data WORD",
    "neighbors --metric metric.npz --data data.csv --queries WORD",
    "neighbors --metric WORD --data data.csv",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write data and a metric."""
    folder = tmp_path_factory.mktemp("hostile")
    write_data(folder)
    pm.save_metric(pm.Mahalanobis(np.eye(3)), folder / "metric.npz")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("word", NO_FILES)
def test_what_is_no_file_is_refused(command, word, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert refused(*(word if w == "WORD" else w for w in command.split()))
