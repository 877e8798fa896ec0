"""Scores of neighbours, or of answers, that were held out."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from sklearn.base import clone
from sklearn.model_selection import KFold

from probmetric.cli.answers import (
    COLUMNS,
    Answered,
    about_points,
    answered,
    answers_of,
    check_answers,
    figures_of,
    fit_answers,
    learned_rows,
    probabilities,
    read_table,
    some,
)
from probmetric.cli.evaluate.sources import AskedSources, run_sources
from probmetric.cli.files import (
    FILES,
    bad_input,
    claim,
    note,
    noted,
    results,
    safe_labels,
)
from probmetric.cli.fit import MOST
from probmetric.cli.inputs import (
    Given,
    check_features,
    describe_data,
    describe_rows,
    given,
    if_among,
    if_seen,
    labelled,
    of_option,
    parse_settings,
    rows_of,
    where,
)
from probmetric.data.choose import sampled
from probmetric.data.containers import Triplets
from probmetric.data.source import View
from probmetric.datasets.loading import Dataset, load
from probmetric.datasets.overlap import describe_overlap, hashes_of
from probmetric.datasets.rows import sample_of
from probmetric.evaluation.cross_validate import (
    EUCLID,
    Stated,
    cross_validate,
    euclid,
    stratified_folds,
)
from probmetric.evaluation.evaluate import evaluate
from probmetric.evaluation.rows import as_fitted
from probmetric.metric import Dissimilarity
from probmetric.metric.protocol import MetricDraws
from probmetric.names import AS_IS, Reading, in_parts
from probmetric.neighbors import KNeighborsClassifier
from probmetric.processes.distributed import together
from probmetric.progress import progress_bar
from probmetric.provenance import versions
from probmetric.registry import MODELS, fit_named, make, without_points


def run(
    *,
    data: str | None,
    answers: str | None = None,
    metric: Path | None = None,
    draws: Path | None = None,
    model: str | None = None,
    settings: Sequence[str] | None = None,
    label: str | None = None,
    groups: str | None = None,
    how: Reading = AS_IS,
    test: str | None = None,
    folds: int | None = None,
    k: int | None = None,
    max_draws: int = 64,
    out: Path | None = None,
    seed: int = 0,
    quote_formulas: bool = False,
    force: bool = False,
) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``.

    Of several processes all judge, and the first writes.
    """
    by_source = groups if model is None and test is None and folds is None else None
    if k is not None and (answers is not None or by_source is not None):
        with bad_input():
            raise ValueError(
                "-k: expected none with --answers, or --groups alone, of which no "
                f"neighbours vote, got {k}"
            )
    k = 5 if k is None else k
    if answers is not None:
        return _run_answers(
            _Asked(data, answers, test, folds, label, groups, how, seed),
            _Judged(metric, draws, max_draws, model, settings),
            out,
            force=force,
        )
    assert data is not None
    if in_parts(data) or (test is not None and in_parts(test)):
        refused = {
            "--model; fit it first, and give --metric": model is not None,
            "--set": bool(settings),
            "--groups": groups is not None,
            "--folds": folds is not None,
            "no --test": test is None,
        }
        with bad_input():
            _refuse_with_parts(refused)
            use = given(metric, draws, max_draws)
            files = _Files(metric, draws, data, str(test), out)
        return _run_rows(
            use,
            files,
            label=label,
            how=how,
            k=k,
            seed=seed,
            quote_formulas=quote_formulas,
            force=force,
        )
    if by_source is not None:
        with bad_input():
            if settings:
                raise ValueError("--set: expected --model with it, got none")
            use = given(metric, draws, max_draws)
        asked = AskedSources(data, by_source, label, how, seed)
        return run_sources(use, asked, where(metric, draws), out, force=force)
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
            if use is not None:
                check_features(use.feature_names, points.feature_names, points.name)
            if (test is None) == (folds is None):
                got = "neither" if test is None else "both"
                raise ValueError(f"--test, --folds: expected one of the two, got {got}")
            X, labels, judged = points.X, points.labels, points
            if folds is not None:
                splits = stratified_folds(points.y, folds, seed, "--folds")
            else:
                own = label or (None if groups else points.label)
                with of_option("--test"), noted():
                    words = how.of_load(str(test))
                    judged = load(str(test), label=own, groups=groups, **words)
                    names = points.feature_names, judged.feature_names
                    check_features(*names, judged.name, "--data")
                others = sorted({*judged.target_names} - {*points.target_names})
                if others:
                    raise ValueError(
                        "--test: expected classes the classifier knows, which --data "
                        f"has, got {len(others)} others such as {others[0]!r}; pairs "
                        "of new sources are judged by --data with --groups alone"
                    )
                X = np.concatenate([X, judged.X])
                labels = np.concatenate([labels, judged.labels])
                rows = np.arange(len(X))
                splits = [(rows[: len(points.X)], rows[len(points.X) :])]
            if out is not None and together().rank == 0:
                held.enter_context(claim(out, FILES["evaluate"], force=force))
            own = "of --data" if test is None else "of --test"
            remarks = [] if use is None else if_seen(use, judged, where=own)
            if test is not None:
                remarks += if_among(judged, hashes_of(points.X), own)
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
        means = _shown(table)
        if out is None or together().rank:
            return 0
        summary = {
            "model": model,
            **where(metric, draws),
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
        _write(out, summary, table, predictions, quote=quote_formulas)
    return 0


class _Files(NamedTuple):
    """What a command reads, and where it writes."""

    metric: Path | None
    draws: Path | None
    data: str
    test: str
    out: Path | None


def _refuse_with_parts(refused: dict[str, bool]) -> None:
    for name, there in refused.items():
        if there:
            raise ValueError(
                "--data, --test: expected --metric or --draws with rows read in parts, "
                f"and points in --test, got {name}"
            )


def _run_rows(
    use: Given,
    files: _Files,
    *,
    label: str | None,
    how: Reading,
    k: int,
    seed: int,
    quote_formulas: bool,
    force: bool,
) -> int:
    """Judge by count votes of neighbours, among rows that are read in parts."""
    out = files.out
    with ExitStack() as held:
        with bad_input():
            rows = rows_of(files.data, label, how)
            check_features(use.feature_names, rows.feature_names, rows.name)
            with of_option("--test"):
                judged = rows_of(files.test, label, how)
                check_features(use.feature_names, judged.feature_names, judged.name)
            if out is not None and together().rank == 0:
                held.enter_context(claim(out, FILES["evaluate"], force=force))
            shown, about = describe_rows(rows, files.data, label, how, MOST)
            known = judged.source if isinstance(judged, View) else judged
            looked_at = sample_of(known, files.test, MOST)
            seen_before = [
                *if_seen(use, looked_at, where="of --test that were looked at"),
                *if_among(looked_at, hashes_of(rows), "of --test that were looked at"),
            ]
            some = sampled(judged, MOST, seed=seed)
        remark = (
            "rows are read in parts: neighbours have one vote each, and the Euclidean "
            "distance is of features standardised by a sample of --data"
        )
        remarks = [remark, *seen_before]
        for said in remarks:
            note(said)
        figures: list[dict[str, str | float]] = []
        predictions: list[pd.DataFrame] = []
        with noted() as seen, bad_input():
            for name, metric in {EUCLID: euclid(shown.X), use.name: use.metric}.items():
                knn = KNeighborsClassifier(metric, k, votes="count").fit(rows)
                which = {"method": name, "split": 0}
                figures.append({**which, **evaluate(judged, classifier=knn, seed=seed)})
                P = knn.predict_proba(as_fitted(knn, some.X, judged))
                frame = _table(knn.classes_, P, some.labels, some.rows)
                predictions.append(frame.assign(**which))
        table = pd.DataFrame(figures)
        means = _shown(table)
        if out is None or together().rank:
            return 0
        summary = {
            "model": None,
            **where(files.metric, files.draws),
            "settings": [],
            "neighbors": k,
            "votes": "count",
            "seed": seed,
            "data": about,
            "test": files.test,
            "folds": None,
            "figures": means.to_dict(orient="index"),
            "notes": [*remarks, *map(str, seen)],
            "versions": versions(),
        }
        _write(out, summary, table, predictions, quote=quote_formulas)
    return 0


class _Asked(NamedTuple):
    """The points, the answers about them, and which of these are held out."""

    data: str | None
    answers: str
    test: str | None
    folds: int | None
    label: str | None
    groups: str | None
    how: Reading
    seed: int


class _Judged(NamedTuple):
    """What is judged: a metric, draws, or a learner with its settings."""

    metric: Path | None
    draws: Path | None
    max_draws: int
    model: str | None
    settings: Sequence[str] | None


class _Split(NamedTuple):
    """Answers held out, their numbers in the table, and the metric they judge."""

    held: Answered
    rows: np.ndarray
    metric: Dissimilarity | MetricDraws
    log_odds: bool


def _run_answers(asked: _Asked, use: _Judged, out: Path | None, *, force: bool) -> int:
    """Judge probabilities by answers that were not learned from."""
    with ExitStack() as held:
        with bad_input():
            if asked.groups is not None:
                raise ValueError(
                    f"--groups: expected none beside --answers, got {asked.groups!r}"
                )
            of_model = use.model is not None
            name, data, splits, remarks = (_refits if of_model else _given)(asked, use)
            if out is not None and together().rank == 0:
                held.enter_context(claim(out, FILES["evaluate"], force=force))
        for remark in remarks:
            note(remark)
        figures: list[dict[str, str | float]] = []
        predictions: list[pd.DataFrame] = []
        lacking: dict[str, None] = {}
        with noted() as seen, bad_input():
            for number, split in enumerate(splits):
                P, score, lacks = probabilities(
                    split.metric, split.held, log_odds=split.log_odds
                )
                lacking |= {lacks: None} if lacks else {}
                base, even = _even(split.held)
                for method, stated in (base, even), (name, P):
                    which = {"method": method, "split": number}
                    found = figures_of(split.held, stated, score)
                    if method == base:
                        found.pop("roc_auc", None)
                    figures.append({**which, **found})
                    frame = _answered_frame(split, stated)
                    predictions.append(frame.assign(**which))
        for remark in lacking:
            note(remark)
        means = _shown(pd.DataFrame(figures))
        if out is None or together().rank:
            return 0
        summary = {
            "model": use.model,
            **where(use.metric, use.draws),
            "settings": list(use.settings or ()),
            "seed": asked.seed,
            "data": data.about,
            "test": asked.test,
            "folds": asked.folds,
            "figures": means.to_dict(orient="index"),
            "notes": [*remarks, *lacking, *map(str, seen)],
            "versions": versions(),
        }
        with results(out, "evaluate", summary) as part:
            pd.DataFrame(figures).to_csv(part / "evaluation.csv", index=False)
            pd.concat(predictions).to_csv(part / "predictions.csv", index=False)
    return 0


def _given(
    asked: _Asked, use: _Judged
) -> tuple[str, Answered, list[_Split], list[str]]:
    """Return the answers that judge a metric or draws."""
    if use.settings:
        raise ValueError("--set: expected --model with it, got none")
    for option, value in ("--test", asked.test), ("--folds", asked.folds):
        if value is not None:
            raise ValueError(
                f"{option}: expected none beside --answers and a metric that is "
                f"learned, which --answers judge, got {value!r}"
            )
    own = given(use.metric, use.draws, use.max_draws)
    spec = MODELS.get(str(own.learner))
    objects = spec is not None and without_points(spec.estimator)
    table = read_table(asked.answers, asked.how)
    data = about_points(
        table,
        asked.answers,
        asked.data,
        asked.label,
        asked.how,
        objects=own.n_features if objects else None,
        name=own.name,
    )
    check_features(own.feature_names, data.feature_names, data.name)
    remarks = []
    if data.about["hash"] == own.data_hash:
        remarks.append(
            f"{own.name} was learned from these very answers: its figures are too good"
        )
    elif own.rows is not None:
        todo = f"that {own.name} was learned from: its figures may be too good"
        remarks += describe_overlap(learned_rows(data), own.rows, ABOUT, todo)
    rows = np.arange(len(table.rows))
    log_odds = spec is not None and spec.data_kind is Triplets
    return own.name, data, [_Split(data, rows, own.metric, log_odds)], remarks


def _refits(
    asked: _Asked, use: _Judged
) -> tuple[str, Answered, Iterable[_Split], list[str]]:
    """Return fits to some of the answers, with the answers that judge them."""
    if use.metric is not None or use.draws is not None:
        raise ValueError("--model: expected neither --metric nor --draws with it")
    if (asked.test is None) == (asked.folds is None):
        got = "neither" if asked.test is None else "both"
        raise ValueError(f"--test, --folds: expected one of the two, got {got}")
    model = str(use.model)
    learner = make(model, parse_settings(use.settings), seed=asked.seed)
    check_answers(learner, asked.answers)
    where = asked.data, asked.label, None, asked.how
    data = answered(learner, asked.answers, *where)
    triplets = data.table.kind != "pairs"

    def fitted(learned: Answered, held: Answered, rows: np.ndarray) -> _Split:
        fresh: Any = clone(learner)
        fit_answers(fresh, learned)
        return _Split(held, rows, fresh.get_metric(), triplets)

    if asked.test is not None:
        held = answered(learner, asked.test, *where)
        if held.table.kind != data.table.kind:
            raise ValueError(
                f"--test: expected {data.table.kind}, as in --answers, got "
                f"{held.table.kind}"
            )
        whole = np.arange(len(held.table.rows))
        todo = "of --answers, learned from: the figures may be too good"
        hashes = hashes_of(learned_rows(data))
        remarks = describe_overlap(learned_rows(held), hashes, ABOUT, todo)
        return model, data, (fitted(data, held, whole) for _ in range(1)), remarks
    remarks = [] if _apart_rows(data) else [SHARED]
    n = len(data.table.rows)
    if not 2 <= int(asked.folds or 0) <= n:
        raise ValueError(f"--folds: expected 2 to {n} answers, got {asked.folds}")
    folds = KFold(int(asked.folds or 0), shuffle=True, random_state=asked.seed)
    parts = progress_bar(list(folds.split(data.table.rows)), "answers", None, "fold")
    return (
        model,
        data,
        (fitted(some(data, kept), some(data, left), left) for kept, left in parts),
        remarks,
    )


ABOUT = "answers are about the rows of answers"

SHARED = (
    "answers share rows: those judged are about rows of other answers, and say nothing "
    "of new rows"
)


def _apart_rows(data: Answered) -> bool:
    """Say whether no row is in two answers."""
    rows = data.table.rows
    return len(np.unique(rows)) == rows.size


def _even(held: Answered) -> tuple[str, np.ndarray]:
    """Return what is stated without a metric: the share of yes, or even odds."""
    n = len(held.table.rows)
    if held.table.kind != "pairs":
        return "even odds", np.full(n, 0.5)
    given = held.table.given
    trials = np.asarray(given.get("trials", np.ones(n)), float)
    weight = np.asarray(given.get("sample_weight", np.ones(n)), float)
    share = weight @ answers_of(held.table) / (weight @ trials)
    return "share of same", np.full(n, share)


def _answered_frame(split: _Split, P: np.ndarray | None) -> pd.DataFrame:
    """Return what was stated of each answer, with its row in the table."""
    table = split.held.table
    frame = pd.DataFrame(table.rows, columns=pd.Index(COLUMNS[table.kind][0]))
    frame.insert(0, "row", split.rows)
    frame["y"] = answers_of(table)
    for name in ("trials", "sample_weight"):
        if name in table.given:
            frame[name] = table.given[name]
    return frame.assign(P=np.nan if P is None else P)


def _shown(table: pd.DataFrame) -> Any:
    """Return the means over splits, which are shown."""
    means: Any = table.drop(columns="split").groupby("method", sort=False).mean()
    typer.echo(means.T.to_string(na_rep="–", float_format=lambda value: f"{value:.4f}"))
    return means


def _write(
    out: Path,
    summary: dict[str, Any],
    table: pd.DataFrame,
    predictions: list[pd.DataFrame],
    *,
    quote: bool,
) -> None:
    """Write tables, summary and report."""
    with results(out, "evaluate", summary) as part:
        table.to_csv(part / "evaluation.csv", index=False)
        labels = ("truth", "predicted")
        stated = safe_labels(pd.concat(predictions), labels, quote=quote)
        stated.to_csv(part / "predictions.csv", index=False)


def _rows(data: Dataset, rows: np.ndarray) -> Dataset:
    groups = None if data.groups is None else data.groups[rows]
    return replace(data, X=data.X[rows], y=data.y[rows], groups=groups)


def _frame(stated: Stated, labels: np.ndarray, first: int) -> pd.DataFrame:
    """Return what was stated of each point, with its row counted from ``first``."""
    return _table(
        stated.classifier.classes_, stated.P, labels[stated.rows], stated.rows - first
    )


def _table(classes: Any, P: np.ndarray, truth: Any, rows: np.ndarray) -> pd.DataFrame:
    """Return probabilities (m, c) of some rows with what is true."""
    names = [str(name) for name in classes]
    frame = pd.DataFrame(P, columns=pd.Index([f"P({c})" for c in names]))
    frame.insert(0, "predicted", np.asarray(names)[P.argmax(1)])
    frame.insert(0, "truth", truth)
    frame.insert(0, "row", rows)
    return frame
