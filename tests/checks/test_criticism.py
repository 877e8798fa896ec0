"""``check_model``: the rule of its words, and what it says of simulated data."""

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from benchmarks.model_verdict import ARMS, OUT, run
from probmetric.checks.criticism import Finding, verdict_of
from probmetric.checks.lca.criticism import _finding
from probmetric.storage.draws_file import load_draws, save_draws


def finding(p, size, part="prior"):
    return Finding(part, 1.0, p, size, 0.05, "said", "remedy")


@pytest.mark.parametrize(
    ("p", "size", "word"),
    [
        (0.03, 1.0, "adequate"),
        (0.015, 1.0, "doubtful"),
        (0.001, 1.0, "conflict"),
        (0.001, 0.05, "conflict"),  # A size that only reaches what matters.
        (0.001, 0.04, "doubtful"),
        (np.nan, 1.0, "adequate"),
    ],
)
def test_conflict_is_what_is_surprising_and_matters(p, size, word):
    found = verdict_of("lca", [finding(p, size)])
    assert found.overall == word
    assert ("remedy" in str(found)) == (word != "adequate")


@pytest.mark.parametrize(
    ("p", "words"),
    [
        ((0.015, 0.9), ("adequate", "adequate")),  # Twice 0.015 is above 0.02.
        ((0.009, 0.9), ("doubtful", "adequate")),  # And twice 0.009 is not below 0.01.
        ((0.9, 0.004), ("adequate", "conflict")),
        ((0.02,), ("adequate",)),
        ((0.01,), ("doubtful",)),
    ],
)
def test_the_levels_are_those_of_p_values_after_holm(p, words):
    result = verdict_of("lca", [finding(value, 1.0) for value in p])
    assert tuple(part.verdict for part in result.parts) == words


def test_bins_above_and_below_the_band_are_counted():
    """Sums of 10 judgments with sd 1 leave the band at about 0.25, not at 0.1."""
    stated, shares = np.array([0.2, 0.5, 0.8, 0.4]), np.array([0.6, 0.6, 0.3, 0.4])
    table = pd.DataFrame({"expected": stated, "observed": shares, "weight": 10.0})
    drawn = np.random.default_rng(0).normal(size=(999, 4))
    found = _finding("x", table, (10 * (shares - stated), drawn, np.ones(4)), "s", "r")
    assert "s: 2 of 4 bins outside the 95% band" in found.summary
    assert "largest gap: 0.80 stated, 0.30 observed" in found.summary
    assert "shape" not in found.summary


def test_a_deviation_of_the_curve_that_no_bin_shows_is_named():
    """The fifth residual is of a direction of the curve, after four bins."""
    table = pd.DataFrame({"expected": [0.5] * 4, "observed": [0.5] * 4, "weight": 10.0})
    drawn = np.random.default_rng(0).normal(size=(999, 5))
    found = _finding("x", table, (np.eye(5)[4] * 6, drawn, np.ones(5)), "s", "r")
    assert found.summary.startswith(
        "s: largest deviation: the shape of the curve (p = "
    )
    assert found.summary.endswith("; 0 of 4 bins outside the 95% band")


def test_a_largest_gap_inside_the_band_is_not_the_bin_outside():
    """Only the second of two gaps, 0.2 and 0.1, is large for its replicates."""
    stated, shares, sd = np.array([0.5, 0.1]), np.array([0.7, 0.0]), np.array([3, 0.1])
    table = pd.DataFrame({"expected": stated, "observed": shares, "weight": 10.0})
    drawn = sd * np.random.default_rng(0).normal(size=(999, 2))
    found = _finding("x", table, (10 * (shares - stated), drawn, sd), "s", "r")
    assert "s: 1 of 2 bins outside" in found.summary
    assert "largest gap (inside the band): 0.50 stated, 0.70 obs" in found.summary


@pytest.mark.long
@pytest.mark.parametrize(
    ("arm", "part"),
    [
        ("right", None),
        ("lapse", "predictive"),
        ("location", "location"),
        ("prior W", "prior"),
    ],
)
def test_a_right_model_is_adequate_and_wrong_ones_conflict(arm, part):
    found = run(arm, 0)
    assert found["overall"] == ("adequate" if part is None else "conflict")
    if part:
        assert found[part] == "conflict"


def test_the_stored_table_reaches_its_targets():
    stored = pd.read_csv(OUT)
    for arm in set(ARMS) - {"distance", "location"}:
        words = stored["overall"][stored["case"] == arm].tolist()
        wanted = "adequate" if arm == "right" else "conflict"
        assert words.count(wanted) >= 0.8 * len(words) >= 4, arm


@pytest.mark.long
@pytest.mark.parametrize("labeled", [True, False])
def test_a_fit_its_draws_and_stored_draws_have_one_verdict(labeled, tmp_path):
    rng = np.random.default_rng(0)
    X, y = (
        rng.normal(size=(40, 2)) + 2 * np.eye(2)[np.arange(40) % 2],
        np.arange(40) % 2,
    )
    pairs = X.reshape(20, 2, 2), np.arange(20) % 2
    model = pm.LCA().fit(X, y) if labeled else pm.LCA().fit_pairs(*pairs)
    expected = str(pm.check_model(model))
    for options in ({}, {"learning_rate": 0.5}):
        draws = model.sample("laplace", n_draws=5, n_chains=1, **options)
        assert str(pm.check_model(draws)) == expected
    save_draws(draws, tmp_path / "draws.nc")
    assert str(pm.check_model(load_draws(tmp_path / "draws.nc"))) == expected


@pytest.fixture(scope="module")
def random_pairs():
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(120, 2, 2))
    y = (rng.random(120) < 0.5).astype(int)
    return pm.LCA().fit_pairs(pairs, y)


def test_the_figure_shows_the_judged_bins(random_pairs):
    found = pm.check_model(random_pairs)
    axes = pm.plots.model_check(found).axes
    parts = [part for part in found.parts if part.finding.bins is not None]
    assert [a.get_title("left") for a in axes] == [
        f"{p.finding.part}: {p.verdict}" for p in parts
    ]
    assert [p.finding.part for p in parts] == ["predictive", "calibration"]
    for axis, part in zip(axes, parts, strict=True):
        bins = part.finding.bins.sort_values("at")
        np.testing.assert_array_equal(axis.lines[1].get_ydata(), bins["observed"])
        assert (bins["low"] <= bins["expected"] + 1e-9).all()
        assert bins["pairs"].sum() == 120
