"""``neighbors``, ``next`` and ``explore``: all that a run prints and writes.

Computed again with NumPy: distances (x - y)'M(x - y), ranks, shares of the draws,
p-values of places, P(same) of the link.
"""

import json
import re

from tests.cli.world import said, world  # noqa: F401
from tests.expected import assert_expected


def shown(world, name, *words, out=None):  # noqa: F811
    words = [
        world / word if "." in f"{word}" and isinstance(word, str) else word
        for word in words
    ]
    text = said(*words, *(() if out is None else ("--out", out)))
    text += "" if out is None else f"-- {out.name}\n{out.read_text('utf8')}"
    assert_expected(text, f"cli/{name}.txt", WORLD=world, OUT=out and out.parent)


def test_neighbors_under_a_metric(world, tmp_path):  # noqa: F811
    words = "neighbors", "--data", "mine.csv", "--metric", "metric.npz"
    shown(world, "neighbors", *words, "-k", 2)
    asked = "--queries", "held.csv", "-k", 3
    shown(
        world,
        "neighbors_of",
        *words,
        *asked,
        "--novelty",
        0.3,
        out=tmp_path / "n.csv",
    )


def test_neighbors_under_draws(world):  # noqa: F811
    words = "neighbors", "--data", "mine.csv", "--draws", "draws.nc"
    shown(world, "neighbors_draws", *words, "-k", 2, "--max-draws", 5)


def test_the_next_pairs(world, tmp_path):  # noqa: F811
    words = "next", "--data", "mine.csv", "--draws", "draws.nc", "-n", 2
    some = "--candidates", "some.csv", "--answers", "pairs.csv"
    shown(world, "next", *words, *some)
    own = ["own.nc" if word == "draws.nc" else word for word in words]
    shown(world, "next", *own, *some)
    shown(world, "next_file", *words, *some, out=tmp_path / "next.csv")
    rule = "--criterion", "disagreement"
    shown(
        world,
        "next_random",
        *words,
        "--random",
        20,
        "--seed",
        4,
        *rule,
        out=tmp_path / "m.csv",
    )


def test_the_data_of_the_page_to_explore(world, tmp_path):  # noqa: F811
    out = tmp_path / "page.html"
    data = "--data", world / "mine.csv", "-k", 2, "--out", out
    for option, name in ("--metric", "metric.npz"), ("--draws", "draws.nc"):
        text = said("explore", option, world / name, *data, "--force")
        page = out.read_text("utf8")
        content = json.loads(re.search(r"const data = (\{.*\});", page)[1])
        lines = [f"{key}: {json.dumps(value)}" for key, value in content.items()]
        texts = re.findall(
            r"<h1>.*</h1>|<title>.*</title>|<p class=\"soft\">.*</p>", page
        )
        text = "\n".join([text, *texts, *lines])
        assert_expected(text, f"cli/explore_{name}.txt", OUT=tmp_path)
