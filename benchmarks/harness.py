"""The harness of the benchmarks: data, splits, resumable runs, tidy CSV, pages.

A study has methods, data sets, sizes and seeds; each combination gives one or more
rows of a CSV file. A run that was stopped continues where it stopped. The tables of a
page are made from the CSV alone: they replace what is between MARKS in the page, so
that text around them stays.

    python benchmarks/accuracy.py few_labels --data DIR --seeds 3 --out out
    python benchmarks/accuracy.py few_labels --table --out benchmarks/results

Data: scikit-learn's sets and two generators; with ``--data`` (NPZ files, see data.md)
five more. Splits: at most 1000 points a set; 70% of them, stratified, may be trained
on, the other 30% are the test points of every training set. Training sets: all of the
70% ("large"), or n of them in the shares of the classes, but at least two of each.
Features are standardized by the training set; those constant on it are dropped.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t
from sklearn.model_selection import StratifiedShuffleSplit

import probmetric as pm

RESULTS = Path(__file__).parent / "results"
MARKS = "<!-- tables: made from {}.csv -->", "<!-- end of tables -->"
BUILT_IN = ("wine", "iris", "breast_cancer", "digits", "waveform", "twonorm")
BY_PATH = (
    *("ionosphere", "balance_scale", "german_numeric", "image_segmentation"),
    "usps_8x8",
)
CASE = ["data", "n", "seed"]
MAX_POINTS = 1000


class Study(NamedTuple):
    """What is run, and how its page compares it with ``baseline``."""

    methods: dict[str, Any]
    rows: Callable[..., Iterator[dict[str, Any]]]
    sizes: tuple[Any, ...] = (20, 40, 80, 160)
    first: int = 30
    baseline: str = "Euclid"
    values: tuple[str, ...] = ("log_loss",)
    sets: tuple[str, ...] = (*BUILT_IN, *BY_PATH)
    groups: tuple[range, ...] = ()
    chosen: range = range(0)


def sets(folder: Path | None, names: tuple[str, ...]) -> dict[str, Any]:
    """Return points and classes by name; sets in the folder only if it is given."""
    places = {name: name for name in names if name in BUILT_IN}
    if folder:
        files = [name for name in names if name not in BUILT_IN]
        places |= {name: str(folder / f"{name}.npz") for name in files}
    loaded = {}
    for name, place in places.items():
        X, y = pm.datasets.load(place)
        loaded[name] = np.ascontiguousarray(X, float), np.asarray(y, np.int64)
    return loaded


def shares(classes: np.ndarray, n: int) -> np.ndarray:
    """Return how many of each class make a training set of n points."""
    size = np.bincount(classes)
    ideal = n * size / len(classes)
    counts = np.minimum(np.maximum(2, np.floor(ideal).astype(int)), size)
    while counts.sum() < n:
        counts[np.argmax(np.where(counts < size, ideal - counts, -np.inf))] += 1
    while counts.sum() > n:
        counts[np.argmax(np.where(counts > 2, counts - ideal, -np.inf))] -= 1
    return counts


def problems(X: np.ndarray, y: np.ndarray, seed: int, sizes: Any) -> Iterator[Any]:
    """Yield (size, A, a, B, b), standardized, for one split."""
    if len(y) > MAX_POINTS:
        keep = StratifiedShuffleSplit(1, train_size=MAX_POINTS, random_state=seed)
        X, y = (v[next(keep.split(X, y))[0]] for v in (X, y))
    halves = StratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
    train, test = next(halves.split(X, y))
    order = np.random.default_rng(seed).permutation(train)
    for size in sizes:
        n = len(train) if size == "large" else size
        if n > len(train):
            continue
        counts = shares(y[train], n)
        rows = np.concatenate([order[y[order] == c][:m] for c, m in enumerate(counts)])
        mean, scale = X[rows].mean(0), X[rows].std(0)
        kept = scale > 0
        A, B = ((X[r] - mean)[:, kept] / scale[kept] for r in (rows, test))
        yield size, A, y[rows], B, y[test]


def resumed(
    path: Path, keys: list[str], cases: Iterable[Any], minutes: float = np.inf
) -> pd.DataFrame:
    """Run the cases that a CSV lacks, store it after each, and return its table.

    A case is the values of the ``keys``, and a function that returns its row or rows.
    """
    table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=keys)
    done = set(table[keys].astype(str).agg("|".join, axis=1)) if len(table) else set()
    end = time.monotonic() + 60 * minutes
    for case, make in cases:
        if "|".join(map(str, case)) in done or time.monotonic() > end:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = make()
            rows = [made] if isinstance(made, dict) else list(made)
        rows = [dict(zip(keys, case, strict=True)) | row for row in rows]
        table = pd.concat([table, pd.DataFrame(rows)])
        table.to_csv(path, index=False, float_format="%.6g")
        print(*case, flush=True)
    return table


def run(study: Study, path: Path, options: argparse.Namespace) -> None:
    """Run the combinations that the CSV lacks; add their rows to it."""
    data = sets(options.data, options.sets or study.sets)
    cases = (
        (
            (name, n, seed, method),
            partial(study.rows, study.methods[method], *parts, seed),
        )
        for seed in range(options.first, options.first + options.seeds)
        for name, (X, y) in data.items()
        for n, *parts in problems(X, y, seed, options.sizes or study.sizes)
        for method in options.methods or study.methods
    )
    resumed(path, [*CASE, "method"], cases, options.minutes)


def gaps(table: pd.DataFrame, baseline: str, value: str) -> pd.DataFrame:
    """Return the table with differences from a method on the same training set."""
    base = table[table["method"] == baseline].drop_duplicates(CASE).set_index(CASE)
    cases = pd.MultiIndex.from_frame(table[CASE])
    return table.assign(gap=table[value] - base[value].reindex(cases).to_numpy())


def summary(table: pd.DataFrame, value: str = "gap") -> str:
    """Write mean ± standard error and the upper 90% limit; data sets are the units."""
    means = table.groupby("data")[value].mean().dropna()
    if not len(means):
        return "–"
    error = means.std(ddof=1) / np.sqrt(len(means))
    limit = means.mean() + t.ppf(0.9, len(means) - 1) * error
    return f"{means.mean():+.3f} ± {error:.3f} (≤ {limit:+.3f})"


def mean_error(values: pd.Series, form: str = ".3f") -> str:
    """Write a mean ± its standard error."""
    return f"{values.mean():{form}} ± {values.sem():{form.removeprefix('+')}}"


def markdown(rows: list[Any], header: list[Any]) -> list[str]:
    """Write a table."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines] + [""]


def tables(study: Study, table: pd.DataFrame) -> list[str]:
    """Return the tables of a study: differences by size, and by data set.

    Tables by data set leave out the seeds on which a default was chosen.
    """
    table["n"] = table["n"].astype(str)
    sizes = [str(n) for n in study.sizes if str(n) in set(table["n"])]
    names = dict.fromkeys([*study.methods, *table["method"]])
    names = [m for m in names if m in set(table["method"]) and m != study.baseline]
    lines: list[str] = []
    for value in study.values:
        judged = gaps(table, study.baseline, value)
        title = f"{value}, difference from {study.baseline}"
        groups = study.groups or (range(judged.seed.min(), judged.seed.max() + 1),)
        for group in groups:
            part = judged[judged.seed.isin(group)]
            if part.empty:
                continue
            lines += [f"## Splits {part.seed.min()}–{part.seed.max()}: {title}", ""]
            body = []
            for name in names:
                own = part[part["method"] == name]
                if len(own):
                    cells = [summary(own), *(summary(own[own.n == n]) for n in sizes)]
                    refused = f"{own['gap'].isna().sum()} of {len(own)}"
                    body.append([name, *cells, refused])
            header = ["method", "all sizes", *(f"n = {n}" for n in sizes), "refused"]
            lines += markdown(body, header)
        fresh = judged[~judged.seed.isin(study.chosen)]
        for by in (["data"], ["data", "n"]):
            lines += [f"## By {' and '.join(by)}: {title}", ""]
            keys = [fresh[key] for key in by]
            wide = fresh.groupby([*keys, "method"], sort=False)["gap"].mean().unstack()
            cells = wide.reindex(columns=names).map(
                lambda v: "refused" if np.isnan(v) else f"{v:+.3f}"
            )
            lines += markdown(cells.reset_index().to_numpy().tolist(), [*by, *names])
    return lines


def write_page(name: str, lines: list[str], folder: Path) -> None:
    """Put tables into a page, between the marks, or at the end of a new page."""
    path, (begin, end) = folder / f"{name}.md", MARKS
    begin = begin.format(name)
    text = path.read_text("utf8") if path.exists() else f"# {name}\n"
    if begin not in text:
        text += f"\n{begin}\n{end}\n"
    before, rest = text.split(begin)
    made = "\n".join([begin, "", *lines, end])
    path.write_text(before + made + rest.split(end)[1], "utf8")
    print("\n".join(lines))


def parser(names: Any, description: str | None) -> argparse.ArgumentParser:
    """Return the options that all studies have."""
    made = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    made.add_argument("study", nargs="?", choices=[*names], default=next(iter(names)))
    made.add_argument("--data", type=Path, help="folder of NPZ files (data.md)")
    made.add_argument("--sets", nargs="+", default=(), help="data sets (default all)")
    made.add_argument("--sizes", nargs="+", default=(), help="training sizes",
                      type=lambda n: n if n == "large" else int(n))  # fmt: skip
    made.add_argument("--methods", nargs="+", default=(), help="methods (default all)")
    made.add_argument("--first", type=int, default=None, help="first seed")
    made.add_argument("--seeds", type=int, default=3, help="number of seeds")
    made.add_argument("--minutes", type=float, default=np.inf, help="time limit")
    made.add_argument("--out", type=Path, default=Path("out"), help="folder")
    made.add_argument("--table", action="store_true", help="only write the page")
    return made


def main(studies: dict[str, Study], description: str | None) -> None:
    """Run a study and write its page."""
    options = parser(studies, description).parse_args()
    study = studies[options.study]
    options.first = study.first if options.first is None else options.first
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.study}.csv"
    if not options.table:
        run(study, path, options)
    write_page(options.study, tables(study, pd.read_csv(path)), options.out)
