"""Draw every public figure: examples for the gallery, hard inputs for a contact sheet.

    python tools/gallery.py [FIGURE ...]      writes the sheet, out/figures/index.html

``EXAMPLES`` has a few lines of code for each function of ``probmetric.plots``. The
gallery of the site runs them (``site_pages.py``). The contact sheet runs only the last
statement of each, with names that are made for each hard input. A cell of the sheet is
a figure, or the message of a ValueError. Any other exception stops the command.
"""

import ast
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

import probmetric as pm
from probmetric.checks import ModelVerdict, uniformity
from probmetric.checks.criticism import Finding, Part
from probmetric.checks.uniformity import Ranks
from probmetric.metric import SplineCityBlock
from probmetric.metric.feature_names import named
from probmetric.posterior import PosteriorMetric, curves

OUT = Path(__file__).parents[1] / "out/figures"

EXAMPLES = {
    "matrix": """
data = pm.datasets.load("wine")
learned = pm.LDA().fit(data.frame, data.y)
pm.plots.matrix(learned, data.frame)
""",
    "metric": """
data = pm.datasets.load("wine")
learned = pm.LCA().fit(data.frame, data.y)
draws = learned.sample("laplace")
pm.plots.metric(draws)
""",
    "importance": """
data = pm.datasets.load("wine")
learned = pm.LCA().fit(data.frame, data.y)
refits = learned.posterior_metric("intervals")
pm.plots.importance(refits, data.frame)
""",
    "eigenvalues": """
data = pm.datasets.load("wine")
learned = pm.LCA().fit(data.frame, data.y)
draws = learned.sample("laplace")
pm.plots.eigenvalues(draws)
""",
    "embedding": """
data = pm.datasets.load("wine")
learned = pm.LDA().fit(data.frame, data.y)
pm.plots.embedding(
    learned, data.frame, data.y, links=3,
    target_names=data.target_names,
)
""",
    "before_after": """
data = pm.datasets.load("wine")
learned = pm.LDA().fit(data.frame, data.y)
pm.plots.before_after(
    learned, data.frame, data.y,
    target_names=data.target_names,
)
""",
    "neighbor_probabilities": """
data = pm.datasets.load("iris")
learned = pm.LCA().fit(data.X, data.y)
near = learned.posterior_metric("prediction")
query = data.X[50:].mean(0)  # between two species
pm.plots.neighbor_probabilities(
    near, query, data.X, 5, y=data.y,
    target_names=data.target_names,
)
""",
    "pair_histogram": """
data = pm.datasets.load("wine")
learned = pm.LDA().fit(data.frame, data.y)
pm.plots.pair_histogram(learned, data.frame, data.y)
""",
    "local_ellipses": """
data = pm.datasets.load("iris")
learned = pm.GLML().fit(data.frame, data.y)
pm.plots.local_ellipses(
    learned, data.frame, data.y,
    target_names=data.target_names,
)
""",
    "objects": """
names = np.array(["Rome", "Oslo", "Paris", "Vienna", "Athens", "Madrid"])
place = np.array([[12, 42], [11, 60], [2, 49], [16, 48], [24, 38], [-4, 40]])
far = np.linalg.norm(place[:, None] - place, axis=-1)
a, b, c = np.argwhere(far[:, :, None] < far[:, None]).T
asked = np.stack([a, b, c], 1)[a != b]  # b is nearer to a than c is
places = pm.TripletEmbedding(2).fit(names[asked])
pm.plots.objects(places)
""",
    "curves": """
crust = pm.datasets.biocrust()
water = pm.GDM().fit_sites(crust.covariates, crust.species)
heights = water.curves(water.posterior_metric("intervals"))
pm.plots.curves(heights)
""",
    "calibration": """
data = pm.datasets.load("breast_cancer")
train, test = slice(0, None, 2), slice(1, None, 2)
X = data.X[:, :2]  # two features, so that many rows are uncertain
knn = pm.KNeighborsClassifier(pm.LDA()).fit(X[train], data.y[train])
y, P = data.y[test], knn.predict_proba(X[test])[:, 1]
pm.plots.calibration(y, P, label="P(benign)", band=0.9)
""",
    "predictive_check": """
data = pm.datasets.load("wine")
i, j = np.random.default_rng(0).permutation(178).reshape(2, 89)
pairs = pm.Pairs(data.X, i, j, data.y[i] == data.y[j])
learned = pm.LCA(2).fit_pairs(data.X[np.stack([i, j], 1)], pairs.y)
draws = learned.sample("nuts", n_chains=2)
pm.plots.predictive_check(draws, pairs, bins=6)
""",
    "model_check": """
data = pm.datasets.load("wine")
verdict = pm.check_model(pm.LCA().fit(data.X, data.y))
pm.plots.model_check(verdict)
""",
    "sbc": """
import numpyro
import numpyro.distributions as dist

def model(data):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("x", dist.Normal(mu, sigma).expand([8]), obs=data["x"])

found = pm.sbc(model, {"x": np.zeros(8)}, n_draws=39)
pm.plots.sbc(found)
""",
    "det": """
data = pm.datasets.load("iris")
learned = pm.LDA().fit(data.X[::2], data.y[::2])
i, j = np.triu_indices(75, 1)  # all pairs of the other rows
same = data.y[1::2][i] == data.y[1::2][j]
score = -learned.pair_distance(data.X[1::2][np.stack([i, j], 1)])
pm.plots.det(score, same)
""",
    "likelihood_ratios": """
data = pm.datasets.load("wine")
learned = pm.TwoStageMixture().fit(data.X[::2], groups=data.y[::2])
i, j = np.triu_indices(89, 1)  # all pairs of the other rows
same = data.y[1::2][i] == data.y[1::2][j]
ratio = learned.pair_score(data.X[1::2][np.stack([i, j], 1)])
pm.plots.likelihood_ratios(ratio, same)
""",
    "typicality": """
data = pm.datasets.load("iris")
known = data.y < 2  # the third species is not in the training data
train = known & (np.arange(150) % 2 == 0)
knn = pm.KNeighborsClassifier(pm.RCA()).fit(data.X[train], data.y[train])
p, known = knn.typicality(data.X[~train]), known[~train]
pm.plots.typicality(p, known)
""",
}
"""Code for each public figure. Its last statement returns the figure."""


PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Contact sheet</title>
<style>
img { width: 420px }
td { max-width: 420px; vertical-align: top }
th { position: sticky; left: 0; background: white }
</style>
<table>
"""


def run(code: str, names: dict[str, Any] | None = None) -> Figure:
    """Return the figure of an example, or of its last statement with other names."""
    *before, last = ast.parse(code).body
    assert isinstance(last, ast.Expr)
    space = {"np": np, "pm": pm} | (names or {})
    if names is None:
        exec(compile(ast.Module(before, []), "example", "exec"), space)
    return eval(compile(ast.Expression(last.value), "example", "eval"), space)


def hard_inputs() -> Iterator[tuple[str, pm.datasets.Dataset]]:
    """Yield data that figures must show, or refuse in words."""
    wine = pm.datasets.load("wine")
    rng = np.random.default_rng(0)
    many = rng.normal(size=(26, 4))[np.repeat(np.arange(26), 12)]
    letters = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    hole, constant = wine.X.copy(), wine.X.copy()
    hole[3, 2], constant[:, 4] = np.nan, 7.0
    unit = ", in milligrams per liter of sample "
    long = [f"{name}{unit}{k}" for k, name in enumerate(wine.feature_names)]
    foreign = (
        "αλκοόλη мутность 灰分 むらさき マグネシウム قلوية שקיפות Größe 색상 ผลไม้ "
        "naïve œuvre ørred"
    )
    yield "as it is", wine
    yield "30 features", pm.datasets.load("breast_cancer")
    yield (
        "26 classes",
        replace(
            wine,
            X=many + 0.3 * rng.normal(size=many.shape),
            y=np.repeat(np.arange(26), 12),
            feature_names=wine.feature_names[:4],
            target_names=letters,
        ),
    )
    places = ("Piemonte", "Franche-Comté", "Rheinhessen")
    yield (
        "long names",
        replace(
            wine,
            feature_names=tuple(long),
            target_names=tuple(
                f"wine of the region of {place}, 1978" for place in places
            ),
        ),
    )
    yield (
        "non-Latin names",
        replace(
            wine,
            feature_names=tuple(foreign.split()),
            target_names=("красное", "白葡萄酒", "ροζέ"),
        ),
    )
    yield "dark style", wine
    yield "NaN", replace(wine, X=hole)
    yield "one class", replace(wine, y=np.zeros_like(wine.y))
    yield "one row", replace(wine, X=wine.X[:1], y=wine.y[:1])
    yield (
        "one feature",
        replace(wine, X=wine.X[:, :1], feature_names=wine.feature_names[:1]),
    )
    yield "a constant feature", replace(wine, X=constant)
    yield "units of 1e5 and 1e-5", replace(wine, X=wine.X * np.resize([1e5, 1e-5], 13))
    yield (
        "70 classes",
        replace(
            wine,
            y=np.arange(178) % 70,
            target_names=tuple(f"class {k}" for k in range(70)),
        ),
    )


def made(data: pm.datasets.Dataset) -> dict[str, Any]:
    """Return the names of the last statements, made from data without a fit."""
    rng = np.random.default_rng(0)
    (n, d), X, y = data.X.shape, data.X, data.y
    missing = np.isnan(X).any()
    hole = np.nan if missing else 1.0  # a factor of one entry of what is not from X
    names = list(data.feature_names)
    sd = np.nanstd(X, 0)
    scale = 1 / np.where(sd > 0, sd, 1)
    learned = pm.Mahalanobis(np.diag(scale))
    factors = rng.uniform(0.7, 1.3, (20, d)) * scale
    metrics = [pm.Mahalanobis(np.diag(factor)) for factor in factors]
    W = np.linalg.qr(rng.normal(size=(d, d)))[0] * np.geomspace(2, 0.05, d)[:, None]
    A = (W + 0.15 * rng.normal(size=(2, 60, d, d))) * scale
    A[0, 0, 0, 0] *= hole
    dims = ("chain", "draw", "feature", "feature_bis")
    posterior = xr.Dataset(
        {"M": (dims, np.einsum("...pi,...pj->...ij", A, A)),
         "b": (dims[:2], rng.gamma(50, 0.01, (2, 60)))},
        {"chain": [0, 1], "draw": range(60), "feature": names, "feature_bis": names},
    )  # fmt: skip
    groups = {
        "posterior": posterior,
        "constant_data": xr.Dataset({"X": (("point", "feature"), X)}),
    }
    i, j = rng.integers(n, size=(2, 400))
    at = np.linspace(0.05, 0.95, min(n, 10))
    share = np.exp(-2 * at) * np.r_[hole, np.ones(len(at) - 1)]
    band = {"low": share * 0.8, "high": share * 1.1, "pairs": 40}
    bins = pd.DataFrame({"at": at, "observed": share, "expected": share} | band)
    finding = Finding("predictive", 1.0, 0.4, 0.1, 1.0, "", "", bins)
    ranks = Ranks({name: rng.integers(0, 40, 200) for name in names}, 39)
    knots = np.nanquantile(X, [0, 0.5, 1], axis=0).T
    rises = rng.uniform(size=(20, d, 3))
    splines = [SplineCityBlock(knots + [0, 1e-9, 2e-9], rise) for rise in rises]
    uncertain = PosteriorMetric(splines, "intervals", pairs_independent=True)
    # A probability and a score for each row and class, better for some classes.
    happened = rng.random(n) < 0.5
    labels = [data.target_names[c] for c in np.unique(y)]
    noise = rng.normal(size=(len(labels), len(happened)))
    score = noise + np.linspace(1, 2, len(labels))[:, None] * (2 * happened - 1)
    score[0, 0] *= hole
    P = 1 / (1 + np.exp(-score))
    return {
        "data": data,
        "learned": learned,
        "near": PosteriorMetric(metrics, "prediction"),
        "refits": PosteriorMetric(metrics, "intervals", pairs_independent=True),
        "draws": xr.DataTree.from_dict(groups),
        "places": named(pm.Mahalanobis(rng.normal(size=(2, d)) * hole), names),
        "heights": curves(splines[0], uncertain)._replace(names=tuple(names)),
        "y": happened.astype(int),
        "P": dict(zip(labels, P, strict=True)),
        "pairs": pm.Pairs(X, i, j, (y[i] == y[j]).astype(int)),
        "verdict": ModelVerdict("lca", (Part(finding, 0.4, "adequate"),)),
        "found": SimpleNamespace(
            ranks=ranks, table=uniformity(ranks), model="model", verdict="agree"
        ),
        "score": dict(zip(labels, score, strict=True)),
        "ratio": score[0],
        "same": happened if len(labels) > 1 else np.ones_like(happened),
        "p": P[0],
        "known": happened,
        "query": X[0],
    }


def sheet(chosen: list[str]) -> str:
    """Draw the contact sheet, and return its page."""
    OUT.mkdir(parents=True, exist_ok=True)
    inputs = list(hard_inputs())
    rows = "<tr><th>" + "".join(f"<th>{escape(title)}" for title, _ in inputs)
    cells: dict[str, str] = dict.fromkeys(chosen, "")
    for column, (title, data) in enumerate(inputs):
        names = made(data)
        for name in chosen:
            cells[name] += f"<td>{cell(name, title, column, names)}"
    rows += "".join(f"<tr><th>{name}{cells[name]}" for name in chosen)
    return PAGE + rows


def cell(name: str, title: str, column: int, names: dict[str, Any]) -> str:
    """Return the figure or the refusal of one input, as HTML."""
    path = OUT / f"{name}_{column}.png"
    style = "dark_background" if title == "dark style" else "default"
    with plt.style.context(style), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            run(EXAMPLES[name], names).savefig(path)
        except ValueError as error:
            print(f"{name}, {title}: {error}", flush=True)
            return f"ValueError: {escape(str(error))}"
        finally:
            plt.close("all")
    for one in said:
        print(f"{name}, {title}: warning: {one.message}", flush=True)
    return f'<img src="{path.name}" alt="{name}, {escape(title)}">'


if __name__ == "__main__":
    page = sheet(sys.argv[1:] or [*EXAMPLES])
    (OUT / "index.html").write_text(page, encoding="utf-8")
    print(OUT / "index.html")
