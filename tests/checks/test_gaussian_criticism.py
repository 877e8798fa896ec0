"""Statistics of Gaussian classes against their definitions, and what they detect."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import multivariate_t

import probmetric as pm
from benchmarks.model_verdict import MISFITS, OUT, classes
from probmetric.checks.criticism import verdict_of
from probmetric.checks.gaussian_classes import criticism
from probmetric.checks.gaussian_classes.criticism import (
    blocks_of,
    criticize,
    replicated,
)

SHAPES = ("full", "tied", "diagonal")


def draws_of(X, y, covariance):
    """Return the part of draws of Gaussian classes that ``check_model`` reads."""
    data = xr.Dataset({"X": (("point", "feature"), X), "y": ("point", y)})
    tree = xr.DataTree.from_dict({"constant_data": data})
    tree.attrs["model_arguments"] = json.dumps({"covariance": covariance})
    return tree


def normal_classes(n=60, d=3, n_classes=3, seed=0):
    return classes("right", np.random.default_rng(seed), d, n_classes, False)


@pytest.mark.parametrize("covariance", SHAPES)
def test_replicates_have_the_means_and_scatter_of_the_data(covariance):
    X, y = normal_classes()
    for block in blocks_of(X, y, covariance):
        for U in (block.U, *replicated(block, 3, np.random.default_rng(0))):
            scatter = U.T @ U
            sums = np.eye(len(block.sizes))[block.codes].T @ U
            np.testing.assert_allclose(sums, 0, atol=1e-12)
            np.testing.assert_allclose(np.diag(scatter), 1, atol=1e-12)
            if covariance != "diagonal":
                np.testing.assert_allclose(scatter, np.eye(3), atol=1e-12)


def test_held_out_density_is_the_student_t_of_the_other_points():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 2))
    (block,) = blocks_of(X, np.zeros(12, int), "full")
    expected = []
    for i in range(12):
        rest = np.delete(X, i, 0)
        R, df = rest - rest.mean(0), 11 - 2
        shape = R.T @ R * (1 + 1 / 11) / df
        expected.append(multivariate_t(rest.mean(0), shape, df).logpdf(X[i]))
    U = np.stack([block.U * (np.arange(12) == i)[:, None] for i in range(12)])
    terms = criticism._sums(block, U)["tails"]  # One point each: the others add log 1.
    np.testing.assert_allclose(terms - expected, (terms - expected)[0], rtol=1e-10)


def test_third_moments_are_summed_over_all_triples():
    X, y = normal_classes(d=3)
    block = blocks_of(X, y, "full")[0]
    q = block.U * np.sqrt(block.free)
    third = np.einsum("ni,nj,nk->ijk", q, q, q) / len(q)
    found = criticism._sums(block, block.U[None])["skewness"]
    np.testing.assert_allclose(found, len(q) * np.sum(third**2), rtol=1e-12)


def test_correlations_are_squared_and_each_pair_of_features_counts_once():
    X, y = normal_classes(d=3)
    for block, c in zip(blocks_of(X, y, "diagonal"), np.unique(y), strict=True):
        i, j = np.triu_indices(3, 1)
        expected = np.sum(y == c) * np.sum(np.corrcoef(X[y == c].T)[i, j] ** 2)
        found = criticism._sums(block, block.U[None])["correlations"]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_smallest_kurtosis_is_found_off_the_axes():
    rng = np.random.default_rng(2)
    e = rng.normal(size=(400, 4))
    e[:, 0] = rng.choice([-1, 1], 400) + 0.3 * e[:, 0]
    turned = e @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    (block,) = blocks_of(turned, np.zeros(400, int), "full")
    found = criticism._sums(block, block.U[None])["clusters"] / 400
    x = e[:, 0] - e[:, 0].mean()
    assert found <= np.mean(x**4) / np.mean(x**2) ** 2 + 0.02


@pytest.mark.parametrize(
    ("misfit", "part"),
    [
        ("right", None),
        ("uniform", "clusters"),
        ("bimodal", "clusters"),
        ("outliers", "tails"),
        ("banana", "skewness"),
        ("label noise", "labels"),
        ("unequal", "covariances"),
    ],
)
def test_each_misfit_is_a_conflict_in_its_part(misfit, part):
    tied = misfit == "unequal"
    X, y = classes(misfit, np.random.default_rng(3), 4, 3, tied)
    found = verdict_of("", criticize(draws_of(X, y, "tied" if tied else "full")))
    conflicts = {p.finding.part for p in found.parts if p.verdict == "conflict"}
    assert (part in conflicts) if part else not conflicts


def test_the_verdict_does_not_depend_on_rows_units_or_the_order_of_classes():
    X, y = normal_classes()
    order = np.random.default_rng(0).permutation(len(y))
    first = criticize(draws_of(X, y, "full"))
    other = criticize(draws_of((X * [1e3, 1, 1e-3])[order], y[order], "full"))
    for a, b in zip(first, other, strict=True):
        assert a.p_value == b.p_value
        assert a.statistic == pytest.approx(b.statistic, abs=1e-6)


def test_p_values_are_uniform_for_small_classes_of_unequal_covariance(monkeypatch):
    """11 points a class in d = 3: each p-value ≤ 0.1 in at most 18 of 100.

    A right statistic fails with probability 0.005, and there are four.
    """
    monkeypatch.setattr(criticism, "N_REPLICATES", 99)
    low = dict.fromkeys(("tails", "skewness", "clusters", "labels"), 0)
    for seed in range(100):
        X, y = normal_classes(seed=seed)
        for finding in criticize(draws_of(X[:33], y[:33], "full"), seed=seed):
            low[finding.part] += finding.p_value <= 0.1
            count = 100 * finding.p_value  # The data and 99 replicates.
            assert count == pytest.approx(max(1, round(count)))
    assert max(low.values()) <= 18, low


def test_rows_with_missing_entries_and_constant_features_are_left_out():
    X, y = normal_classes()
    wider = np.column_stack([X, np.ones(len(X))])
    wider = np.vstack([wider, np.full(4, np.nan)])
    first = criticize(draws_of(X, y, "full"))
    other = criticize(draws_of(wider, np.append(y, 0), "full"))
    assert [f.p_value for f in first] == [f.p_value for f in other]
    with pytest.raises(ValueError, match="fit must have at least 4 complete rows"):
        criticize(draws_of(X[:6], y[:6], "full"))


@pytest.mark.long
@pytest.mark.parametrize(
    "model",
    [
        pm.GaussianClasses(prior="evidence"),
        pm.GaussianClasses(prior="evidence", covariance="tied"),
        pm.GLML(gamma=1.0),
        pm.LDA(prior_strength=1.0),
        pm.RCA(prior_strength=1.0),
    ],
    ids=repr,
)
def test_a_fit_and_its_draws_have_one_verdict(model):
    X, y = normal_classes()
    model.fit(X, y)
    assert str(pm.check_model(model.sample(n_draws=2))) == str(pm.check_model(model))


def test_stored_error_rates_reach_their_targets():
    stored = pd.read_csv(OUT)
    conflict, case = stored["overall"] == "conflict", stored["case"]
    right = case.str.contains(": right")
    assert right.sum() >= 200
    assert conflict[right].mean() <= 0.05
    for shape in set(case[case.str.startswith("d =")].str.split(":").str[0]):
        found = [conflict[case == f"{shape}: {m}"].mean() for m in MISFITS]
        assert sum(rate > 0.5 for rate in found) >= 8, shape
    same = stored["as draws"].dropna()
    assert len(same) >= 100
    assert all(same)


@pytest.mark.parametrize("learner", [pm.GaussianClasses(prior="evidence"), pm.LDA()])
def test_weighted_fits_are_refused(learner):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    fit = learner.fit(X, y, sample_weight=1.0 + y)
    with pytest.raises(ValueError, match="fit must not use sample_weight"):
        pm.check_model(fit)
