"""``GDM.fit_sites``: geographic distance, cover, factors, importance, maps."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.interpolate import BSpline
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from scipy.special import xlogy

import probmetric as pm
from probmetric.data.hash import canonical_order
from probmetric.posterior import importance
from tests.dump import assert_refused


def survey(seed=0, n=30, n_species=60):
    """Cover of species along rain, longitude and soil; the last column is noise."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "rain": rng.gamma(2.0, size=n),
            "lon": rng.uniform(-10, 10, n),
            "soil": rng.choice(["clay", "peat", "sand"], n),
            "lat": rng.uniform(40, 55, n),
            "noise": rng.normal(size=n),
        }
    )
    optimum, home = rng.uniform(0, 6, n_species), rng.uniform(-14, 14, n_species)
    P = np.exp(-0.5 * (X[["rain"]].to_numpy() - optimum) ** 2)
    P *= np.exp(-0.01 * (X[["lon"]].to_numpy() - home) ** 2)
    P[np.ix_((X["soil"] == "peat").to_numpy(), np.arange(n_species) % 3 == 0)] *= 0.1
    cover = P * rng.random(P.shape) * (rng.random(P.shape) < 0.7)
    names = pd.Index([f"p{k}" for k in range(n)], name="plot")
    return X.set_index(names), pd.DataFrame(cover, names)


@pytest.fixture(scope="module")
def fitted():
    X, cover = survey()
    return pm.GDM(coordinates=("lon", "lat")).fit_sites(X, cover, measure="cover")


def haversine(lon, lat):
    """Distances in km by another formula, (n, n)."""
    lon, lat = np.radians(lon), np.radians(lat)
    dlat, dlon = lat[:, None] - lat, lon[:, None] - lon
    h = np.sin(dlat / 2) ** 2 + np.cos(lat[:, None]) * np.cos(lat) * (
        np.sin(dlon / 2) ** 2
    )
    return 2 * 6371.0088 * np.arcsin(np.sqrt(h))


def by_scipy(values, i, j, D):
    """Fit by L-BFGS-B with integrals of SciPy's B-splines; return P and heights.

    ``values`` are pairs (first, second) of each predictor, as in R's gdm.
    """
    columns = [np.ones(len(D))]
    for first, second in values:
        every = np.append(first, second)
        low, middle, high = np.quantile(every[every > 0], [0, 0.5, 1])
        if second.any():  # A covariate; a distance is compared with 0.
            low, middle, high = np.quantile(np.unique(every), [0, 0.5, 1])
        knots = np.array([low, low, middle, high, high])
        for k, weight in enumerate(np.eye(3)):
            scale = 2 / (knots[k + 2] - knots[k])
            integral = BSpline(knots, weight * scale, 1).antiderivative()
            ends = [integral(np.clip(v, low, high)) for v in (first, second)]
            columns.append(np.abs(ends[0] - ends[1]))
    Z = np.stack(columns, 1)

    def loss(beta):
        t = np.maximum(Z @ beta, 1e-300)
        slope = Z.T @ ((1 - D) - D / np.expm1(t))
        return (1 - D) @ t - D @ np.log(-np.expm1(-t)), slope

    bounds = [(0, None)] * Z.shape[1]
    options = {"maxiter": 10_000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-10}
    start = np.full(Z.shape[1], 0.1)
    found = minimize(loss, start, jac=True, bounds=bounds, options=options)
    return -np.expm1(-Z @ found.x), found.x[1:].reshape(-1, 3).sum(1)


def deviance(D, P):
    return 2 * np.sum(xlogy(D, D / P) + xlogy(1 - D, (1 - D) / (1 - P)))


def test_a_fit_with_geographic_distance_agrees_with_an_independent_optimizer():
    X, cover = survey()
    X = X.drop(columns="soil")
    flat = {"prior_scale": 1e4, "intercept_scale": 1e4}
    model = pm.GDM(coordinates=("lon", "lat"), **flat)
    model.fit_sites(X, cover, measure="cover")
    D = pdist(cover.to_numpy(), "braycurtis")
    i, j = np.triu_indices(len(X), 1)
    far = haversine(X["lon"].to_numpy(), X["lat"].to_numpy())[i, j]
    covariates = [X[name].to_numpy() for name in ("rain", "noise")]
    values = [*((v[i], v[j]) for v in covariates), (far, 0 * far)]
    P, heights = by_scipy(values, i, j, D)
    np.testing.assert_allclose(model.heights_, heights, rtol=0.002, atol=0.002)
    share = 1 - deviance(D, P) / deviance(D, D.mean())
    np.testing.assert_allclose(model.deviance_explained_, share, atol=1e-4)
    pairs = X.to_numpy()[np.stack([i, j], 1)]
    np.testing.assert_allclose(model.pair_dissimilarity(pairs), P, atol=1e-3)
    assert model.curve_names_ == ("rain", "noise", "distance (km)")


def test_the_order_of_columns_and_the_origin_of_a_plane_do_not_matter():
    X, cover = survey()
    X = X.drop(columns="soil")
    model = pm.GDM(coordinates=("lon", "lat"), distance="plane")
    first = model.fit_sites(X, cover, measure="cover").heights_
    moved = X[["lat", "noise", "lon", "rain"]].assign(lat=100 - 3 * X["lat"])
    moved["lon"] = 3 * X["lon"] + 1e3
    second = model.fit_sites(moved, cover, measure="cover").heights_
    np.testing.assert_allclose(second[[1, 0, 2]], first, atol=1e-6)
    assert model.curve_names_[-1] == "distance"


def test_shares_of_the_deviance_add_up(fitted):
    shares = fitted.deviance_shares()
    assert shares["total"] == fitted.deviance_explained_
    parts = [shares[name] for name in ("covariates", "distance", "either")]
    np.testing.assert_allclose(sum(parts), shares["total"])
    X, cover = survey()
    only = pm.GDM().fit_sites(X.drop(columns=["lon", "lat"]), cover, measure="cover")
    without = shares["covariates"] + shares["either"]
    np.testing.assert_allclose(only.deviance_explained_, without, atol=1e-6)


@pytest.mark.long
def test_draws_and_files_keep_the_geographic_distance(fitted, tmp_path):
    tree = fitted.sample("bootstrap", n_draws=3, n_chains=1)
    assert tree["posterior"]["height"].coords["curve"][-1] == "distance (km)"
    pm.save_draws(tree, tmp_path / "draws.nc")
    ends = fitted.pairs_.X[:5], fitted.pairs_.X[5:10]
    read = pm.storage.posterior_of(pm.load_draws(tmp_path / "draws.nc")).draws[0]
    own = fitted.posterior_metric("intervals", draws=tree).draws[0]
    np.testing.assert_array_equal(read.distance(*ends), own.distance(*ends))
    pm.save_metric(fitted.get_metric(), tmp_path / "metric.npz")
    again = pm.load_metric(tmp_path / "metric.npz")
    wanted = fitted.get_metric().distance(*ends)
    np.testing.assert_array_equal(again.distance(*ends), wanted)
    np.testing.assert_allclose(np.diag(again.pairwise(*ends)), wanted, rtol=1e-12)


def test_importance_finds_the_predictors_and_does_not_depend_on_row_order(fitted):
    table = fitted.importance(n_repeats=9)
    assert set(table.index) == {"rain", "soil", "noise", "distance (km)"}
    assert table.index[0] == "rain"
    assert table.loc["rain", "p_value"] == 0.1
    assert table.loc["noise", "lower"] < 0
    X, cover = survey()
    turned = pm.GDM(coordinates=("lon", "lat")).fit_sites(
        X[::-1], cover[::-1], measure="cover"
    )
    again = turned.importance(n_repeats=9).loc[table.index]
    np.testing.assert_allclose(again, table, atol=1e-6)


def test_limits_of_importance_include_the_error_of_the_mean_over_permutations(
    monkeypatch,
):
    """Half² = t² (V + var / 4), with t of n - 1 = 29 degrees of freedom."""
    X, cover = survey()
    model = pm.GDM().fit_sites(X[["rain"]], cover, measure="cover")
    kept, explained = [], importance._explained
    monkeypatch.setattr(
        importance, "_explained", lambda *a: kept.append(explained(*a)) or kept[-1]
    )
    row = model.importance(n_repeats=4).loc["rain"]
    full, *each = kept
    loss = full - np.mean(each, 0)
    V = 29 / 30 * np.sum((loss[1:] - loss[1:].mean()) ** 2)
    half = 1.699127 * np.sqrt(V + np.var(each, 0, ddof=1)[0] / 4)
    wanted = loss[0] + half * np.array([0, -1, 1])
    np.testing.assert_allclose(row[:3], wanted, rtol=1e-6)


@pytest.mark.long
def test_limits_of_importance_are_those_of_refits_without_each_site(fitted):
    """Refit without each site. The limits hold the coefficients fixed (first order)."""
    X, cover = survey()
    X, cover = X[["rain", "noise"]], cover
    model = pm.GDM().fit_sites(X, cover, measure="cover")
    table = model.importance(n_repeats=1)
    permuted = X.copy()
    order = canonical_order(X.to_numpy())
    drawn = np.random.default_rng(0).permutation(len(X))
    permuted.iloc[order, 0] = X["rain"].to_numpy()[order[drawn]]
    knots = model.knots_

    def loss(rows):
        fits = [
            pm.GDM(knots=knots).fit_sites(
                part.iloc[rows], cover.iloc[rows], measure="cover"
            )
            for part in (X, permuted)
        ]
        return fits[0].deviance_explained_ - fits[1].deviance_explained_

    everything = np.arange(len(X))
    np.testing.assert_allclose(
        loss(everything), table.loc["rain", "importance"], atol=1e-6
    )
    each = np.array([loss(np.delete(everything, k)) for k in everything])
    n = len(each)
    V = (n - 1) / n * np.sum((each - each.mean()) ** 2)
    half = table.loc["rain", "upper"] - table.loc["rain", "importance"]
    np.testing.assert_allclose(half, 1.699127 * np.sqrt(V), rtol=0.15)  # t of 29


def test_factors_are_columns_of_0_and_1(fitted):
    X, cover = survey()
    dummies = pd.get_dummies(X, columns=["soil"], prefix_sep="=", dtype=float)
    other = pm.GDM(coordinates=("lon", "lat"))
    other.fit_sites(dummies[fitted.feature_names_in_], cover, measure="cover")
    np.testing.assert_array_equal(other.heights_, fitted.heights_)
    np.testing.assert_array_equal(
        fitted.transform(X), other.transform(dummies[fitted.feature_names_in_])
    )
    assert fitted.factors_ == {"soil": ("clay", "peat", "sand")}
    with pytest.raises(ValueError, match=r"factor 'soil' .*one of clay, peat, sand"):
        fitted.transform(X.assign(soil="rock"))


def test_maps_are_transformed_and_missing_cells_stay_missing(fitted):
    X, _ = survey()
    grid = {
        "rain": (("y", "x"), X["rain"].to_numpy().reshape(5, 6).copy()),
        "noise": (("x", "y"), X["noise"].to_numpy().reshape(5, 6).T.copy()),
        "soil": (("y", "x"), X["soil"].to_numpy(object).reshape(5, 6)),
    }
    maps = xr.Dataset(grid, coords={"x": np.arange(6) * 10.0}, attrs={"crs": "known"})
    maps["rain"][2, 3] = np.nan
    found = fitted.transform(maps)
    wanted = fitted.transform(X).T
    for name, values in zip(fitted.get_feature_names_out(), wanted, strict=True):
        image = found[name].transpose("y", "x").to_numpy()
        values = np.where(np.arange(30) == 15, np.nan, values)
        np.testing.assert_array_equal(image.ravel(), values)
    assert found.attrs == {"crs": "known"}
    assert found["rain"].coords["x"][1] == 10.0
    with pytest.raises(
        ValueError, match=r"variables rain, soil, noise, got no variable 'soil'"
    ):
        fitted.transform(maps.drop_vars("soil"))


def test_effects_have_the_limits_of_the_jackknife(fitted):
    made = fitted.posterior_metric("intervals")
    table = fitted.effects(made)
    curves = fitted.curves(made)
    np.testing.assert_allclose(table["upper"].iloc[1:], curves.upper[:, -1])
    b = np.array([float(metric.link.b) for metric in made.left_out])
    half = 1.699127 * np.sqrt(29 / 30 * np.sum((b - b.mean()) ** 2))  # t of 29
    upper = table.loc["intercept", "upper"]
    np.testing.assert_allclose(upper, fitted.intercept_ + half, rtol=1e-6)
    assert table.index[0] == "intercept"
    assert list(fitted.effects()) == ["estimate"]


PLACES = pm.GDM(coordinates=("lon", "lat"))
REFUSED = [
    lambda X, s: pm.GDM().fit_sites(X, s),
    lambda X, s: pm.GDM().fit_sites(X, -s, measure="cover"),
    lambda X, s: pm.GDM().fit_sites(X, s.mask(s > 0.4), measure="cover"),
    lambda X, s: pm.GDM().fit_sites(X, 0 * s, measure="cover"),
    lambda X, s: pm.GDM(coordinates=("lon", "x")).fit_sites(X, s, measure="cover"),
    lambda X, s: PLACES.fit_sites(X.assign(lat=X["lat"] + 60), s, measure="cover"),
    lambda X, s: pm.GDM().fit_sites(X, s, measure="cover").deviance_shares(),
    lambda X, s: pm.GDM().fit_sites(X.assign(soil="clay"), s, measure="cover"),
    lambda X, s: pm.GDM().fit_sites(X, s[::-1], measure="cover"),
]


def test_wrong_tables_of_sites_are_refused_in_one_sentence():
    calls = [partial(call, *survey(n=8)) for call in REFUSED]
    assert_refused(calls, "estimators/gdm_sites.txt")
