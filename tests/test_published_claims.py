"""Figures on the page of published claims are measured."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = "benchmarks/published_claims.md"


def result(name):
    """Return a stored table of the benchmarks."""
    return (ROOT / "benchmarks" / "results" / f"{name}.md").read_text()


def claims():
    """Return the page about published claims on one line."""
    return " ".join((ROOT / PAGE).read_text().split())


def points(number, digits=2):
    """Write a number with its sign, as the pages do."""
    return f"{number:+.{digits}f}"


def lca_means():
    """Return the mean accuracy by method, and each set's, of the table of LCA."""
    text = result("lca_accuracy")
    heads = re.search(r"^method +(.*)$", text, re.M)[1].split()
    means = re.search(r"^mean +(.*)$", text, re.M)[1].split()
    rows = {
        line.split()[0]: dict(
            zip(heads, map(float, re.findall(r"([\d.]+) ± ", line)), strict=True)
        )
        for line in text.splitlines()
        if line.count(" ± ") == len(heads)
    }
    return dict(zip(heads, map(float, means), strict=True)), rows


def test_the_literal_recipe_of_lca_is_told_as_measured():
    means, rows = lca_means()
    assert len(rows) == 11
    above = [name for name, row in rows.items() if row["paper"] > row["euclid"]]
    text = claims()
    wanted = f"{means['paper']:.1f}% against {means['euclid'] + 1e-9:.1f}%"
    assert wanted in text
    assert re.search(rf"above it on {len(above)} of (11 sets|them)", text)
    assert "not reproduced" in text
    assert f"({', '.join(above)})" in text
    digits = rows["digits"]
    assert f"digits {digits['paper']}% against {digits['euclid']}%" in text
    assert f"has {means['lca']:.1f}%" in text


def test_the_figure_of_glml_is_told_as_measured():
    text, stored = claims(), result("glml_figure3")
    mean, error = map(
        float,
        re.search(
            r"GLML, paper - Euclid, mean over 7 real sets: \+([\d.]+) ± ([\d.]+)",
            stored,
        ).groups(),
    )
    assert mean < 2 * error, "not shown is no longer true"
    assert f"{points(mean, 3)} ± {points(error, 3)[1:]}" in text
    assert "not shown" in text
    line = re.search(r"GLML, paper - Euclid, synthetic: (.*)", stored)[1]
    gains = re.findall(r"D = \d+: \+(0\.\d+)", line)
    assert len(gains) == 3
    assert ", ".join(f"+{gain}" for gain in gains) in text


def test_the_figure_of_dca_gm_is_told_as_measured():
    text, stored = claims(), result("dca_gm")
    mean, bound = re.search(
        r"mean over sets (\+[\d.]+), lower 95 % bound (\+[\d.]+)", stored
    ).groups()
    assert f"{mean} points" in text
    assert f"lower 95% bound {bound}" in text
    ours, nca = (
        float(re.search(rf"^balance +{name} +([\d.]+)", stored, re.M)[1])
        for name in ("DCA-GM", "NCA")
    )
    assert f"below NCA, {ours:.1f}% against {nca:.1f}%" in text


def test_the_gain_without_labels_is_told_as_measured():
    text, stored = claims(), result("two_stage_retrieval")
    found = re.findall(
        r"log ratio, alpha=0\.5 .*?vs euclid ([+-][\d.]+) ± ([\d.]+)", stored
    )
    assert len(found) == 2
    for gain, error in found:
        assert float(gain) < 2 * float(error), "none seen is no longer true"
        written = f"{points(float(gain), 3)} ± {points(float(error), 3)[1:]}"
        assert written in text
