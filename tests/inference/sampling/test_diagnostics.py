"""Each diagnosis is triggered by draws that have what it finds, none by good ones."""

import json

import numpy as np
import pytest
import xarray as xr

import probmetric as pm
from probmetric.inference.sampling import SamplingWarning, diagnose
from probmetric.inference.sampling.diagnostics import UNDETERMINED
from probmetric.inference.sampling.target import Draws
from probmetric.inference.sampling.warnings import warn_of_trouble

RNG = np.random.default_rng(0)
GOOD = RNG.normal(size=(4, 1000))
CALM = {
    "diverging": np.zeros((4, 1000), bool),
    "reached_max_treedepth": np.zeros((4, 1000), bool),
    "energy": RNG.normal(size=(4, 1000)),
}
"""Energies that are drawn anew at each draw have an E-BFMI of two."""


def tree(values=GOOD, attributes=None, **statistics):
    dims = ("chain", "draw")
    ones = np.ones((4, 1000))
    groups = {
        "posterior": xr.Dataset({"b": (dims, values), "one": (dims, ones)}),
        "sample_stats": xr.Dataset(
            {k: (dims, v) for k, v in {**CALM, **statistics}.items()}
        ),
    }  # fmt: skip
    found = xr.DataTree.from_dict(groups)
    found.attrs.update(attributes or {})
    return found


def some(n):
    flags = np.zeros((4, 1000), bool)
    flags[0, :n] = True
    return flags


def equal(values):
    copied = values.copy()
    copied[3] = copied[1]
    return copied


def slow(rho):
    """AR(1) of unit variance."""
    x = RNG.normal(size=(4, 1000))
    for t in range(1, 1000):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
    return x


def uneasy():
    """Draws without memory of their sign, whose spread changes slowly."""
    return np.exp(2 * slow(0.99)) * RNG.normal(size=(4, 1000))


APART = GOOD + np.array([0, 0, 0, 4.0])[:, None]
HOLE = GOOD.copy()
HOLE[0, 0] = np.nan
CASES = {
    "divergences": (tree(diverging=some(3)), "raise target_accept"),
    "tree depth": (tree(reached_max_treedepth=some(3)), "raise max_tree_depth"),
    "E-BFMI": (tree(energy=np.cumsum(GOOD, 1)), "stronger prior on scales"),
    "not finite": (tree(HOLE), "overflow"),
    "equal chains": (tree(equal(GOOD)), "copies"),
    "R-hat": (tree(APART), "more draws will not help"),
    "bulk ESS": (tree(slow(0.98)), "raise n_draws"),
    "tail ESS": (tree(uneasy()), "n_warmup"),
    "k-hat": (tree(attributes={"khat": 0.8, "method": "svi"}), "method='nuts'"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_diagnosis_finds_what_it_is_for(name):
    draws, advice = CASES[name]
    found = {finding.name: finding for finding in diagnose(draws)}
    assert advice in found[name].advice
    assert advice in str(found[name])


@pytest.mark.parametrize("name", ["divergences", "tree depth", "E-BFMI", "k-hat"])
def test_a_diagnosis_of_the_sampler_finds_nothing_else(name):
    assert [finding.name for finding in diagnose(CASES[name][0])] == [name]


def test_good_draws_have_no_findings():
    assert diagnose(tree()) == []
    assert diagnose(tree(attributes={"khat": 0.69, "method": "laplace"})) == []
    assert diagnose(tree(APART), names=["one"]) == []
    with pytest.raises(ValueError, match="names must be among"):
        diagnose(tree(), names=["M"])


def test_chains_whose_middle_halves_touch_are_not_in_different_places():
    low = np.resize([0.0, 1.0], 1000)
    told = {f.advice for f in diagnose(tree(np.stack([low, low + 1] * 2)))}
    assert "raise n_draws, or warm up longer with method=NUTS(n_warmup=...)" in told


def test_slow_tails_of_independent_bulk_are_told_apart():
    names = [finding.name for finding in diagnose(CASES["tail ESS"][0])]
    assert "bulk ESS" not in names


def test_what_the_data_leave_undetermined_is_the_advice():
    told = tree(slow(0.98), attributes={UNDETERMINED: "set a prior"})
    assert {finding.advice for finding in diagnose(told)} == {"set a prior"}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::probmetric.inference.sampling.SamplingWarning")
def test_few_sources_need_a_prior_and_not_more_draws():
    X = RNG.normal(size=(60, 3))
    few = pm.TwoStageMixture(1).fit(X, groups=np.arange(60) % 2)
    told = few.sample("laplace", n_chains=1, n_draws=40, progress=False)
    assert "2 sources" in told.attrs[UNDETERMINED]
    json.dumps(dict(told.attrs))


def test_entries_are_named_by_features_and_those_of_a_symmetric_matrix_once():
    v = slow(0.98)
    M = np.stack([np.stack([v, 2 * v], -1), np.stack([2 * v, v**2], -1)], -2)
    calm = {name: flags for name, flags in CALM.items() if name != "energy"}
    with pytest.warns(SamplingWarning) as seen:
        warn_of_trouble(Draws({"M": M}, calm, {}), feature_names=["height", "mass"])
    for said in (str(w.message) for w in seen):
        assert "M[height, mass]" in said
        assert "M[mass, height]" not in said
    M[..., 1, 0] += 1.0  # Not symmetric: both are told, by place without names.
    with pytest.warns(SamplingWarning, match=r"M\[0, 1\].*M\[1, 0\]"):
        warn_of_trouble(Draws({"M": M}, calm, {}))
