"""What commands refuse, note and exit with: all command lines in one text.

A line of the text that begins with "$ " is a command line; others are added there. Each
sentence was compared with the files of ``tests.cli.world`` and the options given.
"""

import numpy as np
import pandas as pd
import pytest

from probmetric.cli.inputs import parse_settings
from tests.cli.runs import run
from tests.cli.world import NAMES, world, write_world  # noqa: F401
from tests.expected import FOLDER, assert_expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.long
def test_what_is_refused_and_how(tmp_path, monkeypatch):
    monkeypatch.chdir(write_world(tmp_path))
    mine = pd.read_csv("mine.csv")
    mine.assign(a=[np.nan, np.inf, *mine["a"][2:]]).to_csv("hole.csv", index=False)
    mine.assign(kind=["x", *mine["kind"][1:]]).to_csv("single.csv", index=False)
    mine[[*NAMES[::-1], "kind"]].to_csv("turned.csv", index=False)
    mine.assign(kind=[*"xy", *mine["kind"][2:]]).to_csv("other.csv", index=False)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "ragged.csv").write_text("a,y\n1,0\n1,2,1\n")
    (tmp_path / "one.csv").write_text("a,y\n1,0\n2,0\n")
    sources = pd.read_csv("sources.csv")
    sources.assign(who=sources["a"] > 0).to_csv("two.csv", index=False)
    sources.assign(who=range(len(sources))).to_csv("alone.csv", index=False)
    pairs = pd.read_csv("some.csv").assign(y=1)
    pairs.assign(j=[1, 2, 9, 11, 0, 7]).to_csv("high.csv", index=False)
    pairs.assign(j=[1, 2, -1, 0.5, 0, 7]).to_csv("half.csv", index=False)
    triplets = pd.read_csv("triplets.csv")[["anchor", "near", "far"]]
    triplets.map(lambda n: f"o{n}").to_csv("named.csv", index=False)
    sites = pd.read_csv("sites.csv")
    sites.assign(pH=[1, 2, np.nan, 4, 5]).to_csv("gap.csv", index=False)
    for name in "world.txt", "made.csv", "blocks/block_0.npz", "made/metric.npz":
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    lines = []
    told = (FOLDER / "cli/refused.txt").read_text("utf8").splitlines()
    for words in [line[2:] for line in told if line.startswith("$ ")]:
        done = run(*words.split())
        lines += [f"$ {words}", f"{done.exit_code}: {done.output.strip()}"]
    assert not (tmp_path / "out").exists() or not [*(tmp_path / "out").glob("*")]
    assert_expected("\n".join(lines), "cli/refused.txt", WORLD=tmp_path)


def test_settings_are_literals_or_words():
    given = "a=1 b=0.5 c=None d=none e=True f=false g=inf h='x' i=word j=[1,2] k= 3"
    assert parse_settings(given.replace("k= 3", "k=1=2").split()) == {
        "a": 1, "b": 0.5, "c": None, "d": None, "e": True, "f": False,
        "g": float("inf"), "h": "x", "i": "word", "j": [1, 2], "k": "1=2",
    }  # fmt: skip
    assert parse_settings([" l = 2 "]) == {"l": 2}
    assert parse_settings(None) == {}
    for wrong in "=1", "1a=2", "a", "a=":
        with pytest.raises(ValueError, match="--set must be NAME=VALUE"):
            parse_settings([wrong])
