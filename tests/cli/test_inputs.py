"""What commands refuse, note and exit with: all command lines in one text.

Each sentence was compared with the files of ``tests.cli.world`` and the options given.
"""

import numpy as np
import pandas as pd
import pytest

from probmetric.cli.inputs import parse_settings
from tests.cli.runs import run
from tests.cli.world import NAMES, world, write_world  # noqa: F401
from tests.expected import assert_expected

USE, FIT = "--metric metric.npz", "--data mine.csv --out out"
MINE, TEST = f"{USE} --data mine.csv", "--test held.csv"
JUDGED = "--data points.csv --answers pairs.csv"
SITES = "--sites sites.csv --species species.csv"
REFUSED = f"""
fit lca --out out
fit lca --data points.csv --out out --answers pairs.csv --groups who
fit triplet_embedding --out out
fit triplet_embedding --data mine.csv --answers triplets.csv --out out
fit triplet_embedding --answers pairs.csv --out out
fit lca --answers pairs.csv --out out
fit gdm --data points.csv --answers triplets.csv --out out
fit gdm --data points.csv --answers none.csv --out out
fit lda {FIT} --answers pairs.csv
fit lda {FIT} --set n_components
fit lda {FIT} --set n_components=1 --set n_components=2
fit lda {FIT} --set unlabeled=1
fit lda {FIT} --set nothing=1
fit lda {FIT} --label none
fit lda {FIT} --label a
fit lda {FIT} --groups kind
fit lda {FIT} --resume
fit lda {FIT} --coordinates a,b
fit lda --data hole.csv --out out
fit lda --data single.csv --out out
fit lda --data single.csv --label kind --out out
fit lda --data wein --out out
fit lda --data none.csv --out out
fit lda --data empty.csv --out out
fit lda --data ragged.csv --out out
fit lda --data one.csv --out out
fit lda --data sites.csv --out out
fit lda --data mine.csv --out world.txt
fit lda --data mine.csv --out made
fit pair_lda --data points.csv --answers high.csv --out out
fit pair_lda --data points.csv --answers half.csv --out out
fit pair_lda --data points.csv --answers named.csv --out out
fit pair_lda --data points.csv --answers sites.csv --out out
fit pair_lda --data points.csv --answers pairs.csv --unlabeled -1 --out out
fit triplet_comparisons --data points.csv --answers odd.csv --label none --out out
fit lca {SITES} --out out
fit gdm --sites sites.csv --out out
fit gdm {SITES} --label rain --out out
fit gdm {SITES} --id place --out out
fit gdm {SITES} --data wine --out out
fit gdm {SITES} --coordinates rain,la --out out
fit gdm --sites gap.csv --species species.csv --out out
sample lca {FIT} --method gibbs
sample lca {FIT} --method jackknife
sample lca {FIT} --resume
sample lca {FIT} --method laplace --checkpoint out
sample lca {FIT} --checkpoint blocks
sample lca {FIT} --checkpoint mine.csv
sample pair_lda {FIT}
sample lca {FIT} --set per_anchor=True
neighbors --data mine.csv
neighbors {MINE} --draws draws.nc
neighbors {MINE} --novelty 0.3
neighbors {MINE} --queries held.csv --novelty 0.01
neighbors {MINE} -k 9
neighbors {MINE} -k 0
neighbors {MINE} --out near.txt
neighbors {MINE} --out made.csv
neighbors {USE} --data turned.csv
neighbors {USE} --data sites.csv
neighbors --metric draws.nc --data mine.csv
neighbors --draws metric.npz --data mine.csv
neighbors --metric none.npz --data mine.csv
neighbors --metric mine.csv --data mine.csv
neighbors --draws mine.csv --data mine.csv
neighbors {MINE} --queries none.csv
neighbors {MINE} --queries turned.csv
neighbors {MINE} --queries sites.csv
neighbors {MINE} --queries sources.csv --label none
neighbors {USE} --data p/*.parquet
evaluate {MINE}
evaluate {MINE} {TEST} --folds 2
evaluate {MINE} --folds 3
evaluate --model nope {TEST} --data mine.csv
evaluate --model lda {TEST} --data turned.csv
evaluate {MINE} {TEST} --label none
evaluate {MINE} --test other.csv
evaluate {MINE} --test turned.csv
evaluate {USE} --data turned.csv --folds 2
evaluate {MINE} {TEST} --set a=1
evaluate --model lda {MINE} {TEST}
evaluate {USE} {JUDGED} --folds 2
evaluate {USE} {JUDGED} --groups kind
evaluate {USE} {JUDGED} -k 3
evaluate --model lca {JUDGED}
evaluate --model lca {JUDGED} --folds 7
evaluate --model lca {JUDGED} --test triplets.csv
evaluate {USE} --answers pairs.csv
evaluate {USE} --data sources.csv --groups who --novelty 0.2
evaluate {USE} --data sources.csv --groups whom
evaluate {USE} --data two.csv --groups who
evaluate {USE} --data alone.csv --groups who
evaluate {USE} --data hole.csv --groups kind
evaluate {USE} --data turned.csv --groups kind
evaluate {USE} --data wine --groups who
evaluate {USE} --data sources.csv --groups who --set a=1
evaluate --metric gdm.npz {SITES} --folds 2
evaluate --metric gdm.npz {SITES} -k 2
evaluate --model lca {SITES} --folds 2
evaluate --model gdm {SITES} --test mine.csv
evaluate --model gdm {SITES} --folds 6
evaluate {USE} --data p/*.npy {TEST} --folds 2
evaluate --model lca --data p/*.npy {TEST}
next --data mine.csv --draws draws.nc --criterion bald
next --data mine.csv --draws draws.nc -n 37
next --data mine.csv --draws draws.nc --candidates some.csv --random 5
next --data mine.csv --draws draws.nc --candidates triplets.csv
next --data mine.csv --draws draws.nc --answers high.csv
next --data mine.csv --draws draws.nc --max-draws 1
next --data mine.csv --draws draws.nc --candidates sites.csv
next --data mine.csv --draws draws.nc --candidates half.csv
next --data mine.csv --draws draws.nc --candidates none.csv
next --data turned.csv --draws draws.nc
next --data hole.csv --draws draws.nc
next --data mine.csv --draws mine.csv
next --data mine.csv --draws draws.nc --out new.txt
next --data mine.csv --draws draws.nc --sep ;;
lr {USE} --questioned mine.csv --known held.csv
lr --metric similarity.npz --questioned mine.csv --known held.csv --by whom
lr --metric similarity.npz --questioned mine.csv --known held.csv --prior-odds 0/3
lr --metric similarity.npz --questioned mine.csv --known held.csv --prior-odds -2
explore {MINE} --out page.txt
explore {MINE} --out page.html -k 9
explore {USE} --data turned.csv --out page.html
report none
report made
report made --explore
validate
validate lca --all
validate lca --label kind
validate lca --strict
validate lca --data mine.csv --strict --break
validate nope
validate lca --data none.csv
validate lca --data wein
validate lca --data mine.csv --out world.txt
validate lca --seed -1
validate lca --no-such-option
"""


@pytest.mark.filterwarnings("ignore")
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
    for words in REFUSED.strip().splitlines():
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
