"""``probmetric fit``: learn a metric, keep it in a file, show what was learned."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning

from probmetric.cli.files import FILES, bad_input, claim, noted, together, write_text
from probmetric.cli.inputs import describe_data, labelled, parse_settings
from probmetric.datasets.loading import Dataset
from probmetric.evaluation.cross_validate import EUCLID, euclid
from probmetric.evaluation.evaluate import evaluate
from probmetric.inference.sampling.warnings import SamplingWarning
from probmetric.provenance import versions
from probmetric.registry import fit_named, make
from probmetric.report.run import SUMMARY, render_run, write_summary
from probmetric.storage.metric_file import save_metric

MOST = 3000
"""Points that the figures on training points are taken from, at most."""


class Learned(NamedTuple):
    """A fitted estimator, how long it took, and what it warned of."""

    estimator: Any
    seconds: float
    notes: list[str]
    trouble: bool


def run(
    *,
    model: str,
    data: str,
    out: Path,
    label: str | None = None,
    groups: str | None = None,
    settings: Sequence[str] | None = None,
    seed: int = 0,
    force: bool = False,
) -> int:
    """Do what was asked; return the exit code.

    Raises
    ------
    BadInput
        When the input cannot be used; nothing has been written then.
    OSError
        When a file cannot be written; those that stand are whole.
    """
    with ExitStack() as held:
        with bad_input():
            estimator = make(model, parse_settings(settings), seed=seed)
            points = labelled(data, label, groups)
            paths = held.enter_context(claim(out, FILES["fit"], force=force))
            source = source_of(model, estimator, points, label, groups, seed)
        typer.echo(f"Fitting {model} to {points.name} ...")
        learned = learn(estimator, points)
        return _write(learned, points, source, paths)


def _write(
    learned: Learned, data: Dataset, source: dict[str, Any], paths: dict[str, Path]
) -> int:
    """Write the files of a fit to a folder that is held; return the exit code."""
    with bad_input():
        metric = learned.estimator.get_metric()
    kind = type(metric).__name__
    summary = {
        **source,
        "metric": kind,
        "seconds": learned.seconds,
        "notes": learned.notes,
        "training": _figures(metric, data, source["seed"]),
    }
    folder = paths[SUMMARY].parent
    with together(folder) as part:
        save_metric(
            metric,
            part / "metric.npz",
            feature_names=data.feature_names,
            provenance=source,
        )
        write_summary(part / SUMMARY, "fit", summary)
    write_text(paths["report.html"], render_run(folder))
    typer.echo(f"Wrote {', '.join(str(path) for path in paths.values())}")
    typer.echo(
        f"Look at {paths['report.html']} | {kind} learned in {learned.seconds:.1f} s"
    )
    return int(learned.trouble)


def learn(estimator: Any, data: Dataset) -> Learned:
    """Fit, showing warnings as notes."""
    started = time.perf_counter()
    with noted() as seen, bad_input():
        fit_named(estimator, data)
    seconds = time.perf_counter() - started
    return Learned(estimator, seconds, [str(w) for w in seen], troubled(seen))


def troubled(seen: list[Warning]) -> bool:
    """Say whether a warning means that a result is not to be trusted yet."""
    return any(isinstance(w, ConvergenceWarning | SamplingWarning) for w in seen)


def source_of(
    model: str,
    estimator: Any,
    data: Dataset,
    label: str | None,
    groups: str | None,
    seed: int,
) -> dict[str, Any]:
    """Return where a result came from, for files and reports; before the fit."""
    return {
        "model": model,
        "estimator": type(estimator).__name__,
        "arguments": {k: repr(v) for k, v in estimator.get_params().items()},
        "seed": seed,
        "data": describe_data(data, label, groups),
        "versions": versions(),
    }


def _figures(metric: Any, data: Dataset, seed: int) -> dict[str, dict[str, float]]:
    """Return retrieval on the training points, Euclidean and under the metric."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(data.X))[:MOST])
    X, y = data.X[rows], data.y[rows]
    return {
        EUCLID: evaluate(X, y, metric=euclid(X)),
        "learned": evaluate(X, y, metric=metric),
    }
