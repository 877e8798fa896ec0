"""``probmetric evaluate``: scores of neighbours under a metric, on points held out."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from sklearn.model_selection import StratifiedKFold

from probmetric.cli.files import bad_input, claim, noted, together, write_text
from probmetric.cli.inputs import (
    Given,
    check_features,
    describe_data,
    given,
    labelled,
    note,
    parse_settings,
)
from probmetric.datasets.loading import Dataset, load
from probmetric.evaluation.cross_validate import euclid
from probmetric.evaluation.evaluate import evaluate
from probmetric.neighbors import KNeighborsClassifier
from probmetric.registry import fit_named, make
from probmetric.report.page import versions
from probmetric.report.run import SUMMARY, render_run, write_summary

__all__ = ["FILES", "Request", "run"]

FILES = ("evaluation.csv", "predictions.csv", SUMMARY, "report.html")
EUCLID = "Euclid, standardised"


class Request(NamedTuple):
    """What was asked for on the command line."""

    metric: Path | None
    draws: Path | None
    model: str | None
    settings: tuple[str, ...]
    data: str
    label: str | None
    groups: str | None
    test: str | None
    folds: int | None
    k: int
    max_draws: int
    out: Path | None
    seed: int
    force: bool


class Split(NamedTuple):
    """Data to learn from, and data held out with the numbers of their rows."""

    train: Dataset
    test: Dataset
    rows: np.ndarray


def run(request: Request) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``."""
    with ExitStack() as held:
        with bad_input():
            settings = parse_settings(request.settings)
            use = _given(request, settings)
            data = labelled(request.data, request.label, request.groups)
            splits = _splits(request, data)
            if use is not None:
                check_features(use.feature_names, data.feature_names, data.name)
            paths = {}
            if request.out is not None:
                claimed = claim(request.out, FILES, force=request.force)
                paths = held.enter_context(claimed)
        return _evaluate(request, use, settings, data, splits, paths)


def _evaluate(
    request: Request,
    use: Given | None,
    settings: dict[str, Any],
    data: Dataset,
    splits: list[Split],
    paths: dict[str, Path],
) -> int:
    """Judge, print and write, in a folder that is held; return the exit code."""
    with bad_input():
        remarks = [] if use is None else _if_seen(use, request, data, splits)
    for remark in remarks:
        note(remark)
    name = use.name if use is not None else str(request.model)
    figures: list[dict[str, Any]] = []
    predictions: list[pd.DataFrame] = []
    with noted() as seen, bad_input():
        for number, split in enumerate(splits):
            for method in (EUCLID, name):
                learned: Any = use.metric if use is not None else None
                if method == EUCLID:
                    learned = euclid(split.train.X)
                elif learned is None:
                    fitted = make(str(request.model), settings, seed=request.seed)
                    learned = fit_named(fitted, split.train).get_metric()
                found, stated = _judge(learned, split, request)
                figures.append({"method": method, "split": number, **found})
                predictions.append(stated.assign(method=method, split=number))
    table = pd.DataFrame(figures)
    means: Any = table.drop(columns="split").groupby("method", sort=False).mean()
    typer.echo(means.T.to_string(float_format=lambda value: f"{value:.4f}"))
    if paths:
        _write(
            request,
            data,
            paths,
            table,
            pd.concat(predictions),
            means,
            [*remarks, *map(str, seen)],
        )
        typer.echo(f"Wrote {', '.join(str(path) for path in paths.values())}")
    return 0


def _given(request: Request, settings: dict[str, Any]) -> Given | None:
    """Return the stored metric or draws; None for a model to be fitted here."""
    if request.model is None:
        if settings:
            raise ValueError("--set: wanted --model with it, got none")
        return given(request.metric, request.draws, request.max_draws)
    if request.metric is not None or request.draws is not None:
        raise ValueError("--model: wanted neither --metric nor --draws with it")
    make(request.model, settings)
    return None


def _splits(request: Request, data: Dataset) -> list[Split]:
    """Return one split (--test), or one for each fold."""
    if (request.test is None) == (request.folds is None):
        got = "neither" if request.test is None else "both"
        raise ValueError(f"--test, --folds: wanted one of the two, got {got}")
    if request.test is not None:
        held = load(request.test, label=request.label, groups=request.groups)
        check_features(data.feature_names, held.feature_names, held.name)
        return [Split(data, held, np.arange(len(held.X)))]
    assert request.folds is not None
    smallest = int(np.bincount(data.y).min())
    if not 2 <= request.folds <= smallest:
        raise ValueError(
            f"--folds: wanted 2 to {smallest}, the size of the smallest class, got "
            f"{request.folds}"
        )
    folds = StratifiedKFold(request.folds, shuffle=True, random_state=request.seed)
    return [
        Split(_rows(data, train), _rows(data, test), test)
        for train, test in folds.split(data.X, data.y)
    ]


def _rows(data: Dataset, rows: np.ndarray) -> Dataset:
    groups = None if data.groups is None else data.groups[rows]
    return replace(data, X=data.X[rows], y=data.y[rows], groups=groups)


def _if_seen(
    use: Given, request: Request, data: Dataset, splits: list[Split]
) -> list[str]:
    """Say when the metric was learned from the points that it is judged on."""
    held = data if request.folds is not None else splits[0].test
    if describe_data(held, None)["hash"] != use.data_hash:
        return []
    return [
        f"{use.name} was learned from these very points, those held out included: its "
        "figures are too good; --model refits on the other points"
    ]


def _judge(
    learned: Any, split: Split, request: Request
) -> tuple[dict[str, float], pd.DataFrame]:
    """Return figures on the points held out, and what was stated of each."""
    classifier = KNeighborsClassifier(learned, request.k)
    classifier.fit(split.train.X, split.train.labels)
    X, labels = split.test.X, split.test.labels
    figures = evaluate(X, labels, classifier=classifier, seed=request.seed)
    stated = classifier.predict_proba(X)
    classes = [str(name) for name in classifier.classes_]
    frame = pd.DataFrame(stated, columns=pd.Index([f"P({c})" for c in classes]))
    frame.insert(0, "predicted", np.asarray(classes)[stated.argmax(1)])
    frame.insert(0, "truth", labels)
    frame.insert(0, "row", split.rows)
    return figures, frame


def _write(
    request: Request,
    data: Dataset,
    paths: dict[str, Path],
    table: pd.DataFrame,
    predictions: pd.DataFrame,
    means: pd.DataFrame,
    notes: list[str],
) -> None:
    """Write the files of a run, the report last."""
    summary = {
        "model": request.model,
        "metric": None if request.metric is None else str(request.metric.resolve()),
        "draws_file": None if request.draws is None else str(request.draws.resolve()),
        "settings": list(request.settings),
        "neighbors": request.k,
        "seed": request.seed,
        "data": describe_data(data, request.label, request.groups),
        "test": request.test,
        "folds": request.folds,
        "figures": means.to_dict(orient="index"),
        "notes": notes,
        "versions": versions(),
    }
    folder = paths[SUMMARY].parent
    with together(folder) as part:
        table.to_csv(part / "evaluation.csv", index=False)
        predictions.to_csv(part / "predictions.csv", index=False)
        write_summary(part / SUMMARY, "evaluate", summary)
    write_text(paths["report.html"], render_run(folder))
