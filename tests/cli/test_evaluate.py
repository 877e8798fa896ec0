"""``evaluate``: all that a run prints and writes, of files of fixed numbers.

Computed again with NumPy from the files: P and distances of judgments, their scores,
dissimilarities of sites, likelihood ratios as stacked normal densities, costs.
"""

import pytest

from tests.cli.world import said, world, written  # noqa: F401
from tests.expected import assert_expected


def evaluated(world, tmp_path, name, *words, files=True):  # noqa: F811
    words = [
        world / word if "." in f"{word}" and isinstance(word, str) else word
        for word in words
    ]
    out = tmp_path / "out"
    text = said("evaluate", *words, *(("--out", out) if files else ()))
    text += written(out) if files else ""
    assert_expected(text, f"cli/evaluate_{name}.txt", OUT=out, WORLD=world)


@pytest.mark.parametrize("kind", ["pairs", "triplets", "quadruplets", "odd"])
def test_judgments_under_a_stored_metric(world, tmp_path, kind):  # noqa: F811
    metric = "metric.npz" if kind == "pairs" else "near.npz"
    words = "--metric", metric, "--data", "points.csv", "--answers", f"{kind}.csv"
    evaluated(world, tmp_path, kind, *words)


def test_judgments_of_a_metric_without_their_probability(world, tmp_path):  # noqa: F811
    words = (
        "--metric",
        "metric.npz",
        "--data",
        "points.csv",
        "--answers",
        "triplets.csv",
    )
    evaluated(world, tmp_path, "order", *words)
    words = "--draws", "draws.nc", "--data", "points.csv", "--answers", "pairs.csv"
    evaluated(world, tmp_path, "draws", *words, files=False)


def test_votes_on_a_test_file(world, tmp_path):  # noqa: F811
    words = (
        "--metric",
        "metric.npz",
        "--data",
        "mine.csv",
        "--test",
        "held.csv",
        "-k",
        3,
    )
    evaluated(world, tmp_path, "votes", *words)
    words = *words, "--novelty", 0.2, "--label", "kind", "-q"
    evaluated(world, tmp_path, "novelty", *words, files=False)


def test_votes_in_folds_of_a_metric_that_saw_the_points(world, tmp_path):  # noqa: F811
    words = "--metric", "metric.npz", "--data", "mine.csv", "--folds", 2, "--seed", 3
    evaluated(world, tmp_path, "folds", *words, files=False)


@pytest.mark.filterwarnings("ignore")
def test_pairs_of_sources(world, tmp_path):  # noqa: F811
    words = "--metric", "similarity.npz", "--data", "sources.csv", "--groups", "who"
    evaluated(world, tmp_path, "sources", *words)


def test_sites_under_a_stored_metric(world, tmp_path):  # noqa: F811
    words = "--metric", "gdm.npz", "--sites", "sites.csv", "--species", "species.csv"
    evaluated(world, tmp_path, "sites", *words)
