"""What the tests of commands share: small data on disk, and how to run a command."""

import jax
import numpy as np
import pandas as pd
from typer.testing import CliRunner

from probmetric.cli.app import app
from probmetric.report import page

NAMES = ["height", "width", "mass"]


def run(*arguments):
    """Run the command line in this process."""
    return CliRunner().invoke(app, [str(a) for a in arguments])


def ran(*arguments):
    """Run a command that must succeed."""
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done


def refused(*arguments):
    """Run a command that must exit with 2 and say why in one line; return the line."""
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    *before, last = done.stderr.strip().splitlines()
    assert last.startswith("probmetric: "), done.output
    assert not [line for line in before if line.startswith("probmetric: ")]
    return last


def table(n=60, seed=0):
    """Return points of two classes on three features, a group, and a label."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 3)) + np.outer(y, [3.0, 0.0, 0.0])
    frame = pd.DataFrame(X, columns=NAMES)
    return frame.assign(item=np.arange(n) // 3, kind=np.where(y == 0, "a", "b"))


def write_data(folder):
    """Write the data as CSV, Parquet and NPZ; return the paths by suffix."""
    frame = table().drop(columns="item")
    paths = {kind: folder / f"data.{kind}" for kind in ("csv", "parquet", "npz")}
    frame.to_csv(paths["csv"], index=False)
    frame.to_parquet(paths["parquet"])
    np.savez(
        paths["npz"],
        X=frame[NAMES].to_numpy(),
        y=(frame["kind"] == "b").to_numpy().astype(int),
        feature_names=np.array(NAMES),
        target_names=np.array(["a", "b"]),
    )
    return paths


def assert_same_metric(found, wanted):
    """Compare two metrics, bit for bit."""
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(a, b)


def draw_only(monkeypatch):
    """Let an empty picture stand for each that pages show, which is still drawn.

    To render them is two thirds of what a small fit costs.
    """
    monkeypatch.setattr(page, "_saved", lambda figure, **_: b"<svg/>")


def no_debris(folder):
    """Say whether a folder is free of files that were never finished."""
    return not [path for path in folder.rglob("*") if ".part" in path.name]
