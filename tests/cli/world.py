"""A folder of small files of fixed numbers: points, judgments, metrics, draws."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import probmetric as pm
from probmetric.data import Labeled
from probmetric.data.hash import data_hash
from probmetric.metric import Link, PairSimilarity, SplineCityBlock
from probmetric.storage.draws_file import save_draws
from tests.cli.runs import run
from tests.report.test_fit import METRIC, NAMES, X, Y
from tests.report.test_sample import drawn

TEST = np.array([
    [0.2, 1.0, -0.4], [2.9, 0.6, 1.8], [-2.1, 3.9, 5.3], [-1.5, 2.2, 3.0],
    [1.0, 0.4, 0.1], [2.3, -0.3, 2.6], [-2.4, 4.4, 6.0], [-0.6, 2.9, 2.1],
    [0.7, 0.9, 4.0], [3.3, 1.7, 1.2],
])  # fmt: skip
LINKED = pm.Mahalanobis(METRIC.factor, Link(np.array(0.2), np.array(0.5)))
TABLES = {
    "pairs": pd.DataFrame({
        "i": [0, 2, 4, 1, 5, 8], "j": [1, 3, 7, 6, 2, 0], "y": [1, 3, 2, 0, 4, 1],
        "trials": [2, 3, 5, 4, 7, 6], "weight": [1.0, 2.5, 0.5, 1.5, 3.0, 2.0],
    }),
    "triplets": pd.DataFrame({
        "anchor": [0, 2, 4, 6, 8], "near": [1, 3, 1, 7, 0], "far": [4, 0, 6, 5, 7],
        "y": [1, 1, 1, 0, 1], "weight": [1, 2, 0.5, 3, 1.5],
    }),
    "quadruplets": pd.DataFrame({
        "anchor": [0, 2, 4], "near": [1, 3, 1], "other": [5, 8, 7], "far": [6, 7, 2],
    }),
    "odd": pd.DataFrame({
        "object1": [0, 2, 4, 1], "object2": [1, 3, 5, 8], "odd": [6, 8, 7, 6],
    }),
    "some": pd.DataFrame({"i": [0, 3, 4, 8, 1, 5], "j": [1, 2, 6, 7, 0, 7]}),
}  # fmt: skip
SITES = pd.DataFrame({
    "site": list("pqrst"), "rain": [0.2, 1.1, 3.0, 3.9, 2.0],
    "pH": [5.5, 4.4, 6.2, 5.0, 4.1],
})  # fmt: skip
SPECIES = pd.DataFrame({
    "site": list("pqrst"), "oak": [1, 1, 0, 0, 1], "elm": [1, 0, 1, 0, 0],
    "ash": [0, 1, 1, 1, 1], "yew": [1, 1, 0, 1, 0], "fir": [0, 0, 1, 1, 0],
})  # fmt: skip


def write_world(folder):
    """Write all files."""
    kinds = np.array(list("uvw"))
    frame = pd.DataFrame(X, columns=NAMES).assign(kind=kinds[Y])
    frame.to_csv(folder / "mine.csv", index=False)
    frame[NAMES].to_csv(folder / "points.csv", index=False)
    held = pd.DataFrame(TEST, columns=NAMES)
    held.assign(kind=kinds[[0, 1, 2, 2, 0, 1, 2, 2, 1, 1]]).to_csv(
        folder / "held.csv", index=False
    )
    sources = pd.DataFrame(np.vstack([X, TEST]), columns=NAMES)
    sources["who"] = list("aabbcbccc") + list("aeccedcdee")
    sources.to_csv(folder / "sources.csv", index=False)
    for name, table in TABLES.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    SITES.to_csv(folder / "sites.csv", index=False)
    SPECIES.to_csv(folder / "species.csv", index=False)
    origin = {
        "data": {"hash": data_hash(Labeled(X, Y))},
        "arguments": {"lapse_rate": 0.1},
    }
    for name, model in ("metric", "lca"), ("near", "triplet_comparisons"):
        about = {"model": model, **origin}
        scaled = LINKED if name == "metric" else pm.Mahalanobis(LINKED.factor / 4)
        path, names = folder / f"{name}.npz", {"feature_names": NAMES}
        pm.save_metric(scaled, path, **names, provenance=about)
    between, noise = np.diag([4.0, 2.0, 5.0]), np.diag([0.5, 1.0, 0.8])
    mean = np.array([[0.5, 1.5, 2.5]])
    similarity = PairSimilarity(np.zeros(1), mean, between[None], noise[None])
    pm.save_metric(similarity, folder / "similarity.npz", feature_names=NAMES)
    knots = np.array([[0.0, 1.5, 4.0], [4.0, 5.0, 6.5]])
    heights = np.array([[0.2, 0.3, 0.1], [0.1, 0.05, 0.25]])
    spline = SplineCityBlock(knots, heights, Link(np.array(0.15), np.array(1.0)))
    pm.save_metric(spline, folder / "gdm.npz", feature_names=["rain", "pH"])
    tree = drawn(
        1, 12, feature_names='["a", "b", "c"]', method="laplace", learner="lca"
    )
    tree["rows"] = xr.DataTree(
        xr.Dataset({"rows": ("row", np.arange(3, dtype=np.uint64))})
    )
    save_draws(tree, folder / "draws.nc")
    save_draws(drawn(1, 12), folder / "own.nc")  # Of a model of one's own.
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("world"))


def said(*words, code=0):
    """Run a command; return its exit code and all that it printed, as text."""
    done = run(*words)
    assert done.exit_code == code, done.output
    parts = {"exit code": f"{done.exit_code}\n", "stdout": done.stdout}
    parts |= {"stderr": done.stderr}
    return "\n".join(f"-- {name}\n{text}" for name, text in parts.items())


def written(folder):
    """Return the text files of a folder of results, without the page."""
    kept = [p for p in sorted(folder.iterdir()) if p.suffix in (".csv", ".json")]
    texts = [f"-- {path.name}\n{path.read_text('utf8')}" for path in kept]
    names = sorted(path.name for path in folder.iterdir())
    # The command is pytest's, and a hash cannot be checked by a reader.
    text = re.sub(r'"asked": ".*"', '"asked": ""', "\n".join(texts))
    return f"-- files\n{names}\n{re.sub(r'[0-9a-f]{64}', 'HASH', text)}"
