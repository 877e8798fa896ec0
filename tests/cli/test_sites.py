"""Tables of sites and species: fit, sample, evaluate, report, and refusals."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import probmetric as pm
from probmetric.data import site_pairs
from tests.cli.runs import assert_same_metric, ran, refused
from tests.expected import assert_expected


def survey():
    """Return covariates and counts of 24 plots."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "rain": rng.gamma(2.0, size=24).round(3),
            "lon": rng.uniform(-10, 10, 24).round(3),
            "lat": rng.uniform(40, 50, 24).round(3),
            "soil": rng.choice(["clay", "sand"], 24),
        },
        index=pd.Index([f"p{k:02}" for k in range(24)], name="plot"),
    )
    optimum = rng.uniform(0, 5, 40)
    rate = 5 * np.exp(-0.5 * (X[["rain"]].to_numpy() - optimum) ** 2)
    names = [f"sp{k}" for k in range(40)]
    return X, pd.DataFrame(rng.poisson(rate), X.index, names)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Write the tables: wide and long, with rows in another order."""
    folder = tmp_path_factory.mktemp("sites")
    X, species = survey()
    X.to_csv(folder / "env.csv")
    species[::-1].to_csv(folder / "wide.csv")
    long = species.stack().rename("count").rename_axis(["plot", "name"]).reset_index()
    long[long["count"] > 0][::-1].to_csv(folder / "long.csv", index=False)
    (species > 0).astype(int).to_csv(folder / "presence.csv")
    seen = long.loc[long["count"] > 0, ["plot", "name"]]
    seen.to_csv(folder / "seen.csv", index=False)
    (species / 7).to_csv(folder / "cover.csv")
    return folder


def sites(tables, species="wide.csv"):
    return "--sites", tables / "env.csv", "--species", tables / species


PLACES = "--coordinates", "lon,lat"


@pytest.mark.parametrize(
    "file, measure",
    [
        ("long.csv", "counts"),
        ("seen.csv", "counts"),
        ("wide.csv", "presence"),
        ("cover.csv", "cover"),
    ],
)
def test_wide_and_long_tables_give_the_fit_of_python(tables, tmp_path, file, measure):
    out = tmp_path / "fit"
    asked = *sites(tables, file), *PLACES, "--measure", measure
    ran("fit", "gdm", *asked, "--out", out)
    X, species = survey()
    species = species > 0 if file in ("presence.csv", "seen.csv") else species
    model = pm.GDM(coordinates=("lon", "lat"))
    model.fit_sites(X, species, measure=measure)
    assert_same_metric(pm.load_metric(out / "metric.npz"), model.get_metric())
    results = json.loads((out / "summary.json").read_text())["gdm"]
    assert results["deviance_explained"] == model.deviance_explained_
    assert results["effects"]["rain"]["estimate"] == model.heights_[0]
    assert results["shares"] == model.deviance_shares()
    page = (out / "report.html").read_text()
    assert f"{model.deviance_explained_:.1%}" in page
    assert "24 × 5" in page
    assert "only by geographic distance" in page


def test_the_jackknife_writes_curves_with_limits(tables, tmp_path):
    out = tmp_path / "limits"
    done = ran("sample", "gdm", *sites(tables), *PLACES, "--out", out)
    assert "Sampling by jackknife ...\n" in done.stdout  # It has no draws.
    assert not (out / "draws.nc").exists()
    model = pm.GDM(coordinates=("lon", "lat")).fit_sites(*survey())
    made = model.posterior_metric("intervals")
    wanted, table = model.curves(made), pd.read_csv(out / "curves.csv")
    assert tuple(table["curve"].unique()) == model.curve_names_
    for name in ("x", "s", "lower", "upper"):
        np.testing.assert_allclose(table[name], getattr(wanted, name).ravel())
    results = json.loads((out / "summary.json").read_text())["gdm"]
    effects = pd.DataFrame(results["effects"]).T
    np.testing.assert_allclose(effects, model.effects(made))
    page = (out / "report.html").read_text()
    assert "pointwise 90% limits" in page
    ran("report", out)
    assert (out / "report.html").read_text() == page


def test_folds_are_of_sites(tables, tmp_path):
    out = tmp_path / "judged"
    asked = *sites(tables), "--drop", "soil", "--folds", 3, "--out", out
    ran("evaluate", "--model", "gdm", *asked)
    found = pd.read_csv(out / "predictions.csv")
    own = found[found["method"] == "gdm"]
    X, species = survey()
    X = X.drop(columns="soil")
    pairs = site_pairs(X, species)
    observed, trials = np.zeros((24, 24)), np.zeros((24, 24), int)
    trials[pairs.i, pairs.j] = trials[pairs.j, pairs.i] = pairs.trials
    observed[pairs.i, pairs.j] = observed[pairs.j, pairs.i] = 1 - pairs.y / pairs.trials
    tested: list[str] = []
    scores = pd.read_csv(out / "evaluation.csv")
    scores = scores.set_index(["method", "split"])
    base = found[found["method"] == "mean dissimilarity"]
    for number, split in own.groupby("split"):
        # A held-out site is in pairs with all others.
        ends = pd.concat([split["site_a"], split["site_b"]])
        test = ends.value_counts().loc[lambda n: n == 23].index
        tested += [*test]
        rest = ~X.index.isin(test)
        model = pm.GDM().fit_sites(X[rest], species[rest])
        a, b = (X.index.get_indexer(split[name]) for name in ("site_a", "site_b"))
        wanted = model.pair_dissimilarity(X.to_numpy()[np.stack([a, b], 1)])
        np.testing.assert_allclose(split["predicted"], wanted, atol=1e-8)
        np.testing.assert_allclose(split["dissimilarity"], observed[a, b])
        gap, m = observed[a, b] - wanted, trials[a, b]
        y = np.rint(m * (1 - observed[a, b]))
        constant = base.loc[base["split"] == number, "predicted"]
        best, ours, flat = (
            binom.logpmf(y, m, p).sum() for p in (y / m, 1 - wanted, 1 - constant)
        )
        row = scores.loc[("gdm", number)]
        expected = 1 - (best - ours) / (best - flat), np.sqrt(np.mean(gap**2))
        expected = *expected, np.abs(gap).mean()
        np.testing.assert_allclose(row, expected, rtol=1e-6)
    assert sorted(tested) == [*X.index]
    assert (scores.loc["mean dissimilarity", "deviance_explained"] == 0).all()
    assert 0.3 < scores.loc["gdm", "deviance_explained"].mean() < 1
    page = (out / "report.html").read_text()
    assert "of the deviance explained" in page
    rmse = scores["rmse"].groupby("method").mean()
    said = f"{rmse['gdm']:.3f}. For the mean dissimilarity, RMSE is {rmse.iloc[1]:.3f}"
    assert said in page


def test_a_stored_metric_is_evaluated_on_sites(tables, tmp_path):
    fit = ran("fit", "gdm", *sites(tables), "--permutations", 3, "--out", tmp_path)
    assert "add --coordinates LON,LAT" in fit.stderr
    results = json.loads((tmp_path / "summary.json").read_text())["gdm"]
    assert set(results["importance"]) == {"rain", "lon", "lat", "soil"}
    metric = "--metric", tmp_path / "metric.npz"
    done = ran("evaluate", *metric, *sites(tables))
    # Deviances are relative to the same constant.
    assert f"{results['deviance_explained']:.4f}" in done.stdout
    assert "was learned from the same points" in done.stderr
    equal = edited(
        tables,
        tmp_path,
        "wide.csv",
        lambda t: t.assign(**dict.fromkeys(t.columns[1:], 1)),
    )
    line = refused("evaluate", *metric, *sites(tables, equal))
    assert "pairs of sites must differ in dissimilarity" in line


def edited(tables, tmp_path, name, edit):
    path = tmp_path / name
    edit(pd.read_csv(tables / name)).to_csv(path, index=False)
    return path


WRONG = [
    ("env.csv", lambda t: t[1:]),
    ("wide.csv", lambda t: t[2:]),
    ("env.csv", lambda t: t.rename(columns={"plot": "site"})),
    ("env.csv", lambda t: t.assign(rain=t["rain"].mask(t["plot"] == "p03"))),
    (
        "env.csv",
        lambda t: t.assign(
            rain=t["rain"]
            .astype(str)
            .replace("1.0", "?")
            .where(t["plot"] != "p03", "wet")
        ),
    ),
    ("env.csv", lambda t: t.assign(soil=t["plot"] + "x")),
    ("env.csv", lambda t: pd.concat([t, t[:1].assign(rain=9)])),
    ("wide.csv", lambda t: pd.concat([t, t[:1]])),
    ("wide.csv", lambda t: t.assign(sp1=-t["sp1"] - 1)),
    ("wide.csv", lambda t: t.assign(sp1="+")),
    ("wide.csv", lambda t: t.assign(sp1=t["sp1"] + 0.5)),
    ("long.csv", lambda t: t.assign(count=-t["count"])),
]


def test_wrong_tables_are_refused_in_one_sentence(tables, tmp_path):
    lines = []
    for name, edit in WRONG:
        path = edited(tables, tmp_path, name, edit)
        files = {"--sites": tables / "env.csv", "--species": tables / "wide.csv"}
        files["--sites" if name == "env.csv" else "--species"] = path
        words = [word for pair in files.items() for word in pair]
        lines.append(refused("fit", "gdm", *words, "--out", tmp_path / "out"))
    assert_expected("\n".join(lines), "cli/sites.txt", FOLDER=tmp_path, TABLES=tables)
