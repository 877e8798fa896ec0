"""``probmetric fit``: learn a metric, keep it in a file, show what was learned."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from probmetric.cli.answers import (
    Answered,
    answered,
    check_answers,
    fit_answers,
    learned_rows,
)
from probmetric.cli.files import (
    FILES,
    WHOLE,
    bad_input,
    claim,
    note,
    noted,
    results,
    say,
)
from probmetric.cli.inputs import (
    describe_data,
    describe_rows,
    labelled,
    looked_at,
    parse_settings,
    streamed,
)
from probmetric.data.source import Source, is_source, n_features, n_rows
from probmetric.datasets.columns import doubtful_columns
from probmetric.datasets.loading import Dataset
from probmetric.datasets.overlap import ROWS, hashes_of
from probmetric.evaluation.cross_validate import EUCLID, euclid
from probmetric.evaluation.evaluate import evaluate
from probmetric.inference.sampling.warnings import SamplingWarning
from probmetric.metric import Dissimilarity
from probmetric.names import AS_IS, Reading
from probmetric.processes.checkpoint import checkpointed
from probmetric.processes.distributed import together
from probmetric.provenance import versions
from probmetric.registry import fit_named, fit_rows, make
from probmetric.storage.metric_file import save_metric

MOST = 3000
"""Points that the figures on training points are taken from, at most."""


class Learned(NamedTuple):
    """How long a fit took, and what it warned of."""

    seconds: float
    notes: list[str]
    trouble: bool


def run(
    *,
    model: str,
    data: str | None,
    out: Path,
    answers: str | None = None,
    label: str | None = None,
    groups: str | None = None,
    how: Reading = AS_IS,
    settings: Sequence[str] | None = None,
    seed: int = 0,
    force: bool = False,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> int:
    """Do what was asked; return the exit code.

    Of several processes all learn, and the first writes.

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
            check_answers(estimator, answers)
            rows = points = None
            if answers is not None:
                points = answered(estimator, answers, data, label, groups, how)
            else:
                assert data is not None
                rows = streamed(estimator, data, label, groups, how)
                points = labelled(data, label, groups, how) if rows is None else None
            if together().rank == 0:
                held.enter_context(claim(out, FILES["fit"], force=force))
            held.enter_context(checkpointed(checkpoint, resume=resume))
        learned = learn(model, estimator, points or rows)
        if together().rank:
            return int(learned.trouble)
        with bad_input():
            hashes = hashes_of(learned_rows(points or rows))
            metric = estimator.get_metric()
            if isinstance(points, Answered):
                about = points.about
            elif points is not None:
                about = describe_data(points, label, groups, how)
            else:
                assert rows is not None
                assert data is not None
                seen = looked_at(rows, data, label, groups, how)
                points, about = describe_rows(seen, data, label, how, MOST)
                for remark in doubtful_columns(
                    points.X, points.feature_names, about["n"]
                ):
                    note(remark)
                about["groups"] = groups
                learned.notes.append(_in_parts(estimator, rows))
                note(learned.notes[-1])
            figures = {}
            if about["classes"] and not isinstance(points, Answered):
                try:
                    figures = _figures(metric, points, seed)
                except ValueError as error:  # What was learned stands.
                    learned.notes.append(f"no figures on training points: {error}")
                    note(learned.notes[-1])
        source = origin(model, estimator, seed, about)
        summary = {
            **source,
            "metric": type(metric).__name__,
            "seconds": learned.seconds,
            "notes": learned.notes,
            "training": figures,
        }
        shown = None if isinstance(points, Answered) else points
        with results(out, "fit", summary, shown) as part:
            path, names = part / "metric.npz", points.feature_names
            stored = {**source, ROWS: hashes}
            save_metric(metric, path, feature_names=names, provenance=stored)
    say(
        f"Look at {out / 'report.html'} | {summary['metric']} learned in "
        f"{learned.seconds:.1f} s"
    )
    return int(learned.trouble)


def kept(checkpoint: Path | None) -> str:
    """Describe what an interrupted run leaves behind."""
    if checkpoint is None:
        return WHOLE
    if not any(checkpoint.glob("pass_*.npz")):
        return f"no pass was saved in {checkpoint} yet"
    return f"passes in {checkpoint} stand; go on with --resume"


def prepared(
    model: str,
    data: str | None,
    answers: str | None,
    label: str | None,
    groups: str | None,
    how: Reading,
    settings: Sequence[str] | None,
    seed: int,
) -> tuple[Any, Dataset | Answered, dict[str, Any]]:
    """Return an estimator, its data, and where their result will have come from."""
    estimator = make(model, parse_settings(settings), seed=seed)
    check_answers(estimator, answers)
    if answers is not None:
        points = answered(estimator, answers, data, label, groups, how)
        return estimator, points, origin(model, estimator, seed, points.about)
    assert data is not None
    points = labelled(data, label, groups, how)
    about = describe_data(points, label, groups, how)
    return estimator, points, origin(model, estimator, seed, about)


def origin(
    model: str, estimator: Any, seed: int, about: Mapping[str, Any]
) -> dict[str, Any]:
    """Return where a result comes from: learner, arguments, seed, data, versions."""
    return {
        "model": model,
        "estimator": type(estimator).__name__,
        "arguments": {k: repr(v) for k, v in estimator.get_params().items()},
        "seed": seed,
        "data": about,
        "versions": versions(),
    }


def learn(model: str, estimator: Any, data: Any) -> Learned:
    """Fit to a data set, to a source or to answers, showing warnings as notes."""
    say(f"Fitting {model} to {data.name} ...")
    started = time.perf_counter()
    with noted() as seen, bad_input():
        if isinstance(data, Answered):
            fit_answers(estimator, data)
        elif is_source(data):
            fit_rows(estimator, data)
        else:
            fit_named(estimator, data)
    seconds = time.perf_counter() - started
    return Learned(seconds, [str(w) for w in seen], troubled(seen))


def troubled(seen: list[Warning]) -> bool:
    """Say whether a warning means that a result is not to be trusted yet."""
    return any(isinstance(w, ConvergenceWarning | SamplingWarning) for w in seen)


def _in_parts(estimator: Any, rows: Source) -> str:
    """Say what was learned from, where rows were read in parts."""
    names = ", ".join(rows.feature_names[:8]) + (", ..." * (n_features(rows) > 8))
    anchors = getattr(estimator, "n_anchors_", None)
    pairs = "" if anchors is None else f"; pairs of {anchors:,} anchors (n_anchors)"
    if getattr(estimator, "candidates", "") == "ivf":
        pairs += f", {estimator.recall_:.1%} of their partners found (recall_)"
    return (
        f"rows were read in parts: {n_rows(rows):,} of columns {names}{pairs}"
        "; what is no sum over rows (starts, a prior by votes) is from a sample"
    )


def _figures(
    metric: Dissimilarity, data: Dataset, seed: int
) -> dict[str, dict[str, float]]:
    """Return retrieval on the training points, Euclidean and under the metric."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(data.X))[:MOST])
    X, y = data.X[rows], data.y[rows]
    return {
        EUCLID: evaluate(X, y, metric=euclid(X)),
        "learned": evaluate(X, y, metric=metric),
    }
