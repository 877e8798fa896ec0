"""Files are whole or untouched, whatever happens while they are written."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.files import replacing
from tests.cli.runs import ran, refused, table


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_no_debris(tmp_path, error):
    path = tmp_path / "report.html"
    path.write_text("old")

    def write_half():
        with replacing(path) as part:
            part.write_text("new, but only half")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_counts_as_a_file_and_is_replaced_not_followed(tmp_path):
    target, link, data = (tmp_path / name for name in ("there.csv", "l.csv", "t.csv"))
    link.symlink_to(target)  # To nothing.
    table().drop(columns="item").to_csv(data, index=False)
    pm.save_metric(pm.Mahalanobis(np.eye(3)), tmp_path / "m.npz")
    words = ("neighbors", "--metric", tmp_path / "m.npz", "--data", data)
    words += ("--label", "kind", "--out", link)
    assert "Add --force" in refused(*words)
    target.write_text("mine")
    assert "Add --force" in refused(*words)
    ran(*words, "--force")
    assert target.read_text() == "mine"
    assert link.is_file()
    assert not link.is_symlink()
