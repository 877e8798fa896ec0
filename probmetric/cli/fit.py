"""``probmetric fit``: learn a metric, store it, and report it."""

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from probmetric.checks.criticism import ModelVerdict, check_model
from probmetric.cli.answers import (
    Answered,
    answered,
    check_answers,
    fit_answers,
    learned_rows,
    sharpness_of,
)
from probmetric.cli.files import (
    FILES,
    bad_input,
    claim,
    note,
    noted,
    results,
    say,
)
from probmetric.cli.inputs import (
    Learner,
    coded_as,
    describe_data,
    describe_rows,
    labeled,
    looked_at,
    parse_settings,
    streamed,
)
from probmetric.cli.options import DataSpec, Fit, LearnOptions
from probmetric.cli.sites import (
    Community,
    check_learner,
    community,
    fit_sites,
    in_words,
    results_of,
)
from probmetric.datasets.columns import doubtful_columns
from probmetric.datasets.loading import Dataset
from probmetric.estimators.lca.estimator import LCA
from probmetric.evaluation.cross_validate import EUCLID, euclid
from probmetric.evaluation.evaluate import evaluate
from probmetric.inference.sampling.warnings import SamplingWarning
from probmetric.large.learners import fit_rows
from probmetric.large.overlap import ROWS, hashes_of
from probmetric.large.passes import checkpointed
from probmetric.large.source import Source, n_features, n_rows
from probmetric.metric import Dissimilarity
from probmetric.neighbors.voting import with_votes
from probmetric.provenance import versions
from probmetric.registry import fit_named, make
from probmetric.storage.metric_file import save_metric

MOST = 3000
"""Maximum number of points for the figures on training points."""

type Data = Dataset | Source | Answered | Community


class Learned(NamedTuple):
    """Duration and warnings of a fit."""

    seconds: float
    notes: list[str]
    trouble: bool


def run(options: Fit) -> int:
    """Fit; return the exit code. Raises BadInput (nothing is written) or OSError."""
    with ExitStack() as stack:
        with bad_input():
            estimator, data, spec = prepared(options, chunks=True)
            if options.intervals:
                _check_refits(estimator, data, options)
            stack.enter_context(claim(options.out, FILES["fit"], force=options.force))
            stack.enter_context(checkpointed(options.checkpoint, resume=options.resume))
        learned = learn(options.model, estimator, data)
        with bad_input():
            hashes, metric = hashes_of(learned_rows(data)), estimator.get_metric()
            if options.store_votes:
                metric = _with_votes(estimator, data)
            stored: Any = metric
            if options.intervals:
                say("Repeating the fit without quarters of the rows ...")
                made: Any = estimator
                with noted() as warned:
                    stored = made.posterior_metric("intervals", seed=options.seed)
                learned = learned._replace(
                    notes=[*learned.notes, *map(str, warned)],
                    trouble=learned.trouble or troubled(warned),
                )
            points, about, remarks = _described(estimator, data, spec)
            figures: dict[str, dict[str, float]] = {}
            if about["classes"] and points is not None:
                try:
                    figures = _figures(metric, points, options.seed)
                except ValueError as error:  # The fit is valid.
                    remarks.append(f"no figures on training points: {error}")
            for remark in remarks:
                note(remark)
            gdm: dict[str, Any] = {}
            if isinstance(data, Community):
                times = options.permutations
                gdm = results_of(estimator, permutations=times, seed=options.seed)
                say(in_words(gdm))
        source = origin(options, estimator, about)
        summary = {
            **source,
            "metric": type(metric).__name__,
            "seconds": learned.seconds,
            "notes": [*learned.notes, *remarks],
            "training": figures,
            **({"gdm": gdm} if gdm else {}),
            **({"intervals": repr(stored)} if options.intervals else {}),
        }
        with results(options.out, "fit", summary, points) as part:
            save_metric(
                stored,
                part / "metric.npz",
                feature_names=data.feature_names,
                provenance={**source, ROWS: hashes},
            )
    say(
        f"See {options.out / 'report.html'} | {summary['metric']} learned in "
        f"{learned.seconds:.1f} s"
    )
    return int(learned.trouble)


def _with_votes(estimator: Learner, data: Data) -> Dissimilarity:
    voters = getattr(estimator, "_classifier", None)
    if voters is None or not isinstance(data, Dataset):
        raise ValueError(
            "--store-votes requires a table with class labels (not read in chunks) "
            "and a learner with a Mahalanobis metric, got "
            f"{type(estimator).__name__} and {data.name}."
        )
    metric = with_votes(voters(estimator.get_metric))
    names = dict(zip(data.y.tolist(), data.labels.tolist(), strict=True))
    return replace(metric, classes=tuple(names[label] for label in metric.classes))


def _check_refits(estimator: Learner, data: Data, options: Fit) -> None:
    if not (isinstance(estimator, LCA) and isinstance(data, Dataset)):
        raise ValueError(
            "--intervals requires lca and class labels, without --answers and not read "
            f"in chunks, got {options.model} and {data.name}. Omit --intervals. For "
            "other learners use pm.with_intervals in Python."
        )
    if estimator.n_anchors is not None:
        raise ValueError("--intervals cannot be combined with n_anchors. Omit one.")
    if options.store_votes:
        raise ValueError(
            "--intervals cannot be combined with --store-votes. Fit twice, with two "
            "folders --out."
        )


def prepared(
    options: LearnOptions, *, chunks: bool = False
) -> tuple[Learner, Data, DataSpec]:
    """Make the learner and read its data, in chunks if allowed and supported."""
    settings = parse_settings(options.settings)
    estimator = make(options.model, settings, seed=options.seed)
    check_answers(estimator, options.answers)
    spec = coded_as(options.spec(options.data or options.sites or ""), estimator)
    if options.sites is not None:
        check_learner(estimator, options)
        return estimator, community(options, spec), spec
    if options.answers is not None:
        data = answered(estimator, options.answers, options.data, spec)
        return estimator, data, spec
    source = streamed(estimator, spec) if chunks else None
    return estimator, labeled(spec) if source is None else source, spec


def _described(
    estimator: Learner, data: Data, spec: DataSpec
) -> tuple[Dataset | None, dict[str, Any], list[str]]:
    if isinstance(data, Answered | Community):
        return None, data.about, []
    if isinstance(data, Dataset):
        return data, describe_data(data, spec), []
    points, about = describe_rows(looked_at(data, spec), spec, MOST)
    for remark in doubtful_columns(points.X, points.feature_names, about["n"]):
        note(remark)
    return points, about, [_in_chunks(estimator, data)]


def origin(
    options: LearnOptions, estimator: Learner, about: dict[str, Any]
) -> dict[str, Any]:
    """Describe a result: learner, arguments, seed, data, versions."""
    arguments = estimator.get_params()
    rate, sharpness = vars(estimator).get("lapse_rate_"), sharpness_of(estimator)
    return {
        "model": options.model,
        "estimator": type(estimator).__name__,
        "arguments": {k: repr(v) for k, v in arguments.items()},
        **({} if rate is None else {"lapse_rate": rate}),
        **({"sharpness": sharpness} if sharpness else {}),
        "seed": options.seed,
        "data": about,
        "versions": versions(),
    }


def learn(model: str, estimator: Learner, data: Data) -> Learned:
    """Fit to data, with warnings as notes."""
    say(f"Fitting {model} to {data.name} ...")
    started = time.perf_counter()
    with noted() as warned, bad_input():
        if isinstance(data, Answered):
            fit_answers(estimator, data)
        elif isinstance(data, Community):
            fit_sites(estimator, data)
        elif isinstance(data, Dataset):
            fit_named(estimator, data)
        else:
            fit_rows(estimator, data)
    seconds = time.perf_counter() - started
    return Learned(seconds, [str(w) for w in warned], troubled(warned))


def model_verdict(estimator: Learner, seed: int) -> ModelVerdict | None:
    """Compare a fitted model with its data; None if it cannot be checked."""
    try:
        verdict = check_model(estimator, seed=seed)
    except ValueError as error:
        say(f"The model was not compared with the data: {error}")
        return None
    say(str(verdict))
    return verdict


def troubled(warned: list[Warning]) -> bool:
    """Whether a warning means that a result is unreliable."""
    return any(isinstance(w, ConvergenceWarning | SamplingWarning) for w in warned)


def _in_chunks(estimator: Learner, rows: Source) -> str:
    names = ", ".join(rows.feature_names[:8]) + (", ..." * (n_features(rows) > 8))
    anchors: int | None = getattr(estimator, "n_anchors_", None)
    pairs = "" if anchors is None else f"; pairs for {anchors:,} rows (n_anchors)"
    return (
        f"rows were read in chunks: {n_rows(rows):,} rows with columns {names}{pairs}. "
        "A sample of the rows was used for starting values, and for parameters of the "
        "prior that are tuned"
    )


def _figures(
    metric: Dissimilarity, data: Dataset, seed: int
) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(data.X))[:MOST])
    X, y = data.X[rows], data.y[rows]
    return {
        EUCLID: evaluate(X, y, metric=euclid(X)),
        "learned": evaluate(X, y, metric=metric),
    }
