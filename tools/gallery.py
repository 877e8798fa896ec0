"""Draw every public figure: examples for the gallery, hard inputs for a contact sheet.

    python tools/gallery.py [FIGURE ...]      writes the sheet, out/figures/index.html

``gallery_examples.py`` has a few lines of code for each function of
``probmetric.plots``. The gallery of the site runs them (``site_pages.py``). The contact
sheet runs only the last statement of each, with names that are made for each hard
input. A cell of the sheet is a figure, or the message of a ValueError. Any other
exception stops the command.
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
from gallery_examples import EXAMPLES
from matplotlib.figure import Figure

import probmetric as pm
from probmetric.checks import ModelVerdict, uniformity
from probmetric.checks.criticism import Finding, Part
from probmetric.checks.uniformity import Ranks
from probmetric.metric import SplineCityBlock
from probmetric.metric.feature_names import named
from probmetric.posterior import PosteriorMetric, curves

OUT = Path(__file__).parents[1] / "out/figures"

STYLE = """<!doctype html><meta charset="utf-8"><title>Contact sheet</title>
<style>
img { width: 420px }
td { max-width: 420px; vertical-align: top }
th { position: sticky; left: 0; background: white }
</style>
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
    X, names = wine.X, wine.feature_names
    rng = np.random.default_rng(0)
    letters = np.repeat(np.arange(26), 12)
    centers = rng.normal(size=(26, 4))
    unit = ", in milligrams per liter of sample "
    places = "Piemonte", "Franche-Comté", "Rheinhessen"
    foreign = (
        "αλκοόλη мутность 灰分 むらさき マグネシウム قلوية שקיפות Größe 색상 ผลไม้ "
        "naïve œuvre ørred"
    )
    changes: dict[str, dict[str, Any]] = {
        "as it is": {},
        "26 classes": {
            "X": centers[letters] + 0.3 * rng.normal(size=(312, 4)),
            "y": letters,
            "feature_names": names[:4],
            "target_names": tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        },
        "long names": {
            "feature_names": tuple(f"{name}{unit}{k}" for k, name in enumerate(names)),
            "target_names": tuple(f"wine of the region of {p}, 1978" for p in places),
        },
        "non-Latin names": {
            "feature_names": tuple(foreign.split()),
            "target_names": ("красное", "白葡萄酒", "ροζέ"),
        },
        "dark style": {},
        "NaN": {"X": np.where(X == X[3, 2], np.nan, X)},
        "one class": {"y": np.zeros_like(wine.y)},
        "one row": {"X": X[:1], "y": wine.y[:1]},
        "one feature": {"X": X[:, :1], "feature_names": names[:1]},
        "a constant feature": {"X": np.where(np.arange(13) == 4, 7.0, X)},
        "units of 1e5 and 1e-5": {"X": X * np.resize([1e5, 1e-5], 13)},
        "70 classes": {
            "y": np.arange(178) % 70,
            "target_names": tuple(f"class {k}" for k in range(70)),
        },
    }
    yield "30 features", pm.datasets.load("breast_cancer")
    for title, change in changes.items():
        yield title, replace(wine, **change)


def made(data: pm.datasets.Dataset) -> dict[str, Any]:
    """Return the names of the last statements, made from data without a fit."""
    rng = np.random.default_rng(0)
    (n, d), X, y = data.X.shape, data.X, data.y
    missing = np.isnan(X).any()
    hole = np.nan if missing else 1.0  # a factor for arguments other than X
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
        "near": PosteriorMetric(metrics, "intervals"),
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
    """Draw the contact sheet, and return its page: a column for each input."""
    OUT.mkdir(parents=True, exist_ok=True)
    cells: dict[str, dict[str, str]] = {}
    for title, data in hard_inputs():
        names = made(data)
        cells[title] = {name: cell(name, title, len(cells), names) for name in chosen}
    with pd.option_context("display.max_colwidth", None):
        return STYLE + pd.DataFrame(cells).to_html(escape=False)


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
