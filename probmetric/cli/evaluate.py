"""``probmetric evaluate``: scores of neighbours under a metric, on points held out."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer
from sklearn.base import clone

from probmetric.cli.files import FILES, bad_input, claim, noted, results, safe_labels
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
from probmetric.evaluation.cross_validate import (
    EUCLID,
    Stated,
    cross_validate,
    euclid,
    stratified_folds,
)
from probmetric.evaluation.evaluate import evaluate
from probmetric.metric import Dissimilarity
from probmetric.metric.protocol import MetricDraws
from probmetric.names import AS_IS, Reading
from probmetric.progress import progress_bar
from probmetric.provenance import versions
from probmetric.registry import fit_named, make


def run(
    *,
    data: str,
    metric: Path | None = None,
    draws: Path | None = None,
    model: str | None = None,
    settings: Sequence[str] | None = None,
    label: str | None = None,
    groups: str | None = None,
    how: Reading = AS_IS,
    test: str | None = None,
    folds: int | None = None,
    k: int = 5,
    max_draws: int = 64,
    out: Path | None = None,
    seed: int = 0,
    quote_formulas: bool = False,
    force: bool = False,
) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``."""
    with ExitStack() as held:
        with bad_input():
            parsed, use = parse_settings(settings), None
            if model is None:
                if parsed:
                    raise ValueError("--set: expected --model with it, got none")
                use = given(metric, draws, max_draws)
            elif metric is not None or draws is not None:
                raise ValueError(
                    "--model: expected neither --metric nor --draws with it"
                )
            learner = None if model is None else make(model, parsed, seed=seed)
            points = labelled(data, label, groups, how)
            if (test is None) == (folds is None):
                got = "neither" if test is None else "both"
                raise ValueError(f"--test, --folds: expected one of the two, got {got}")
            X, labels, judged = points.X, points.labels, points
            if folds is not None:
                splits = stratified_folds(points.y, folds, seed, "--folds")
            else:
                judged = load(str(test), label=label, groups=groups, **how._asdict())
                check_features(points.feature_names, judged.feature_names, judged.name)
                X = np.concatenate([X, judged.X])
                labels = np.concatenate([labels, judged.labels])
                rows = np.arange(len(X))
                splits = [(rows[: len(points.X)], rows[len(points.X) :])]
            if use is not None:
                check_features(use.feature_names, points.feature_names, points.name)
            if out is not None:
                held.enter_context(claim(out, FILES["evaluate"], force=force))
            remarks = [] if use is None else _if_seen(use, judged)
        for remark in remarks:
            note(remark)

        def learned(rows: np.ndarray) -> Dissimilarity | MetricDraws:
            if use is not None:
                return use.metric
            return fit_named(clone(learner), _rows(points, rows)).get_metric()

        name = use.name if use is not None else str(model)
        metrics = {EUCLID: lambda rows: euclid(points.X[rows]), name: learned}
        figures: list[dict[str, str | float]] = []
        predictions: list[pd.DataFrame] = []
        splits = progress_bar(splits, "held-out points", None, "split")
        with noted() as seen, bad_input():
            for stated in cross_validate(metrics, X, labels, splits, n_neighbors=k):
                own, which = stated.rows, {"method": stated.name, "split": stated.split}
                scores = evaluate(
                    X[own], labels[own], classifier=stated.classifier, seed=seed
                )
                figures.append({**which, **scores})
                first = 0 if test is None else len(points.X)
                predictions.append(_frame(stated, labels, first).assign(**which))
        table = pd.DataFrame(figures)
        means: Any = table.drop(columns="split").groupby("method", sort=False).mean()
        typer.echo(
            means.T.to_string(na_rep="–", float_format=lambda value: f"{value:.4f}")
        )
        if out is None:
            return 0
        summary = {
            "model": model,
            "metric": None if metric is None else str(metric.resolve()),
            "draws_file": None if draws is None else str(draws.resolve()),
            "settings": list(settings or ()),
            "neighbors": k,
            "seed": seed,
            "data": describe_data(points, label, groups, how),
            "test": test,
            "folds": folds,
            "figures": means.to_dict(orient="index"),
            "notes": [*remarks, *map(str, seen)],
            "versions": versions(),
        }
        with results(out, "evaluate", summary) as part:
            table.to_csv(part / "evaluation.csv", index=False)
            stated = safe_labels(
                pd.concat(predictions), ("truth", "predicted"), quote=quote_formulas
            )
            stated.to_csv(part / "predictions.csv", index=False)
    return 0


def _rows(data: Dataset, rows: np.ndarray) -> Dataset:
    groups = None if data.groups is None else data.groups[rows]
    return replace(data, X=data.X[rows], y=data.y[rows], groups=groups)


def _if_seen(use: Given, held: Dataset) -> list[str]:
    """Say when the metric was learned from the points that it is judged on."""
    if describe_data(held, None)["hash"] != use.data_hash:
        return []
    was, its = ("was", "its") if use.n_metrics == 1 else ("were", "their")
    return [
        f"{use.name} {was} learned from these very points, those held out included: "
        f"{its} figures are too good; --model refits on the other points"
    ]


def _frame(stated: Stated, labels: np.ndarray, first: int) -> pd.DataFrame:
    """Return what was stated of each point, with its row counted from ``first``."""
    classes = [str(name) for name in stated.classifier.classes_]
    frame = pd.DataFrame(stated.P, columns=pd.Index([f"P({c})" for c in classes]))
    frame.insert(0, "predicted", np.asarray(classes)[stated.P.argmax(1)])
    frame.insert(0, "truth", labels[stated.rows])
    frame.insert(0, "row", stated.rows - first)
    return frame
