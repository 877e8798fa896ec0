"""``probmetric fit``: learn a metric, keep it in a file, show what was learned."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning

from probmetric.cli.files import bad_input, claim, noted, together, write_text
from probmetric.cli.inputs import describe_data, labelled, parse_settings
from probmetric.datasets.loading import Dataset
from probmetric.evaluation.cross_validate import euclid
from probmetric.evaluation.evaluate import evaluate
from probmetric.inference.sampling.warnings import SamplingWarning
from probmetric.registry import fit_named, make
from probmetric.report.page import versions
from probmetric.report.run import SUMMARY, render_run, write_summary
from probmetric.storage.metric_file import save_metric

__all__ = ["FILES", "Learned", "Request", "learn", "run", "source_of", "troubled"]

FILES = ("metric.npz", SUMMARY, "report.html")
MOST = 3000
"""Points that the figures on training points are taken from, at most."""


class Request(NamedTuple):
    """What was asked for on the command line."""

    model: str
    data: str
    label: str | None
    groups: str | None
    out: Path
    settings: tuple[str, ...]
    seed: int
    force: bool


class Learned(NamedTuple):
    """A fitted estimator, how long it took, and what it warned of."""

    estimator: Any
    seconds: float
    notes: list[str]
    trouble: bool


def run(request: Request) -> int:
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
            estimator = make(
                request.model, parse_settings(request.settings), seed=request.seed
            )
            data = labelled(request.data, request.label, request.groups)
            claimed = claim(request.out, FILES, force=request.force)
            paths = held.enter_context(claimed)
        return _fit(request, estimator, data, paths)


def _fit(
    request: Request, estimator: Any, data: Dataset, paths: dict[str, Path]
) -> int:
    """Fit and write, in a folder that is held; return the exit code."""
    typer.echo(f"Fitting {request.model} to {data.name} ...")
    learned = learn(estimator, data)
    with bad_input():
        metric = estimator.get_metric()
    source = source_of(request, data, estimator)
    summary = {
        **source,
        "metric": type(metric).__name__,
        "seconds": learned.seconds,
        "notes": learned.notes,
        "training": _figures(metric, data, request.seed),
    }
    with together(request.out) as part:
        save_metric(
            metric,
            part / "metric.npz",
            feature_names=data.feature_names,
            provenance=source,
        )
        write_summary(part / SUMMARY, "fit", summary)
    write_text(paths["report.html"], render_run(request.out))
    typer.echo(f"Wrote {', '.join(str(path) for path in paths.values())}")
    typer.echo(
        f"Look at {paths['report.html']} | {type(metric).__name__} learned in "
        f"{learned.seconds:.1f} s"
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


def source_of(request: Any, data: Dataset, estimator: Any) -> dict[str, Any]:
    """Return where a result came from, for files and reports."""
    return {
        "model": request.model,
        "estimator": type(estimator).__name__,
        "arguments": {k: repr(v) for k, v in estimator.get_params().items()},
        "seed": request.seed,
        "data": describe_data(data, request.label, request.groups),
        "versions": versions(),
    }


def _figures(metric: Any, data: Dataset, seed: int) -> dict[str, dict[str, float]]:
    """Return retrieval on the training points, Euclidean and under the metric."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(data.X))[:MOST])
    X, y = data.X[rows], data.y[rows]
    return {
        "Euclid, standardised": evaluate(X, y, metric=euclid(X)),
        "learned": evaluate(X, y, metric=metric),
    }
