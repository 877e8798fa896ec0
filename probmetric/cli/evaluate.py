"""``probmetric evaluate``: scores on held-out rows, judgments, or pairs of rows.

``run`` checks the input, computes, prints and writes. Other functions prepare the
computation: votes of neighbors (``_votes``, and ``_votes_in_chunks`` for rows read in
chunks), judgments (``_judgments``), sites (``_sites``), and pairs from the same source
or from different sources (``_pairs``).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import typer
from sklearn.base import clone
from sklearn.model_selection import KFold

from probmetric.cli.answers import (
    COLUMNS,
    Answered,
    Table,
    about_points,
    answered,
    answers_of,
    check_answers,
    figures_of,
    fit_answers,
    judged_rows,
    probabilities,
    read_table,
    sharpness_of,
    some,
)
from probmetric.cli.files import (
    FILES,
    bad_input,
    claim,
    note,
    noted,
    refuse,
    results,
)
from probmetric.cli.fit import MOST
from probmetric.cli.inputs import (
    Learner,
    StoredMetric,
    check_features,
    check_finite,
    coded_as,
    describe_data,
    describe_rows,
    if_among,
    if_seen,
    labeled,
    load,
    load_stored,
    of_option,
    parse_settings,
    paths_of,
    rows_of,
)
from probmetric.cli.options import DataSpec, Evaluate
from probmetric.cli.sites import (
    all_pairs,
    check_learner,
    community,
    folds_of,
    held_out,
    judged,
)
from probmetric.data.containers import Triplets
from probmetric.datasets.loading import Dataset
from probmetric.evaluation.cross_validate import (
    EUCLID,
    cross_validate,
    euclid,
    stratified_folds,
)
from probmetric.evaluation.evaluate import evaluate
from probmetric.evaluation.sources import judge_sources
from probmetric.large.choose import sampled
from probmetric.large.evaluate import as_fitted
from probmetric.large.overlap import describe_overlap, hashes_of
from probmetric.large.rows import sample_of
from probmetric.large.source import View
from probmetric.metric import Dissimilarity
from probmetric.metric.protocol import MetricDraws
from probmetric.names import in_parts
from probmetric.neighbors import KNeighborsClassifier
from probmetric.progress import progress_bar
from probmetric.provenance import versions
from probmetric.registry import MODELS, fit_named, make, without_points
from probmetric.report.evaluate import pairs_in_words, with_limits

PROB = 0.9
"""Nominal coverage of the intervals of pairs."""

UNSEEN = "Use rows from sources that are not in the training data"
ABOUT = "judgments use the same rows as judgments"
SHARED = (
    "training and test judgments share rows, so scores for new rows may be worse. Use "
    "--test with judgments of other rows"
)


class Scored(NamedTuple):
    """Scores and predictions of one method on one split."""

    method: str
    split: int
    scores: dict[str, float]
    predictions: pd.DataFrame


class Result(NamedTuple):
    """Tables to write, text to print, entries of summary.json, and notes."""

    table: pd.DataFrame
    predictions: pd.DataFrame
    text: str
    summary: dict[str, Any]
    notes: Sequence[str] = ()


class Task(NamedTuple):
    """An evaluation with checked input: the data, notes, and the computation."""

    about: dict[str, Any]
    remarks: Sequence[str]
    compute: Callable[[], Result]


def run(options: Evaluate) -> int:
    """Evaluate, and return the exit code; raises as ``cli.fit.run``."""
    out = options.out
    with ExitStack() as stack:
        with bad_input():
            task = _task(options)
            if out is not None:
                stack.enter_context(claim(out, FILES["evaluate"], force=options.force))
        for remark in task.remarks:
            note(remark)
        with noted() as warned, bad_input():
            result = task.compute()
        for remark in result.notes:
            note(remark)
        typer.echo(result.text)
        if out is None:
            return 0
        summary = {
            "model": options.model,
            **paths_of(options),
            "settings": list(options.settings or ()),
            "seed": options.seed,
            "data": task.about,
            "test": options.test,
            "folds": options.folds,
            **result.summary,
            "notes": [*task.remarks, *result.notes, *map(str, warned)],
            "versions": versions(),
        }
        with results(out, "evaluate", summary) as part:
            result.table.to_csv(part / "evaluation.csv", index=False)
            result.predictions.to_csv(part / "predictions.csv", index=False)
    return 0


def _task(options: Evaluate) -> Task:
    test, groups = options.test, options.groups
    by_source = groups is not None and options.model is None
    by_source = by_source and test is None and options.folds is None
    if options.answers is not None or by_source:
        without = "--answers or only --groups, which use no neighbors"
        refuse({"-k": options.k, "--novelty": options.novelty}, without)
    if options.sites is not None:
        return _sites(options)
    if options.answers is not None:
        refuse({"--groups": groups}, "--answers")
        return _judgments(options, options.answers)
    assert options.data is not None
    spec = options.spec(options.data)
    if in_parts(options.data) or (test is not None and in_parts(test)):
        return _votes_in_chunks(options, spec)
    return _pairs(options, spec) if by_source else _votes(options, spec)


def _learner(options: Evaluate) -> Learner | None:
    if options.model is None:
        if options.settings:
            raise ValueError("--set requires --model.")
        return None
    refuse({"--metric": options.metric, "--draws": options.draws}, "--model")
    return make(options.model, parse_settings(options.settings), seed=options.seed)


def _check_split(options: Evaluate) -> None:
    if (options.test is None) == (options.folds is None):
        given = "neither" if options.test is None else "both"
        raise ValueError(f"Exactly one of --test and --folds is required, got {given}.")


def _means(scored: Iterable[Scored], **more: object) -> Result:
    figures: list[dict[str, object]] = []
    predictions: list[pd.DataFrame] = []
    for method, split, scores, frame in scored:
        figures.append({"method": method, "split": split, **scores})
        predictions.append(frame.assign(method=method, split=split))
    table = pd.DataFrame(figures)
    means: Any = table.drop(columns="split").groupby("method", sort=False).mean()
    text = means.T.to_string(na_rep="–", float_format=lambda value: f"{value:.4f}")
    summary = {**more, "figures": means.to_dict(orient="index")}
    return Result(table, pd.concat(predictions), text, summary)


def _votes(options: Evaluate, spec: DataSpec) -> Task:
    learner, seed, n_neighbors = _learner(options), options.seed, options.k or 5
    stored = load_stored(options) if learner is None else None
    if stored is None:
        spec = coded_as(spec, learner)
    else:
        spec = coded_as(spec, stored.metric, stored.feature_names)
    data = labeled(spec)
    if stored is not None:
        check_features(stored.feature_names, data.feature_names, data.name)
    _check_split(options)
    X, labels, tested, where = data.X, data.labels, data, "of --data"
    overlap: list[str] = []
    if options.test is None:
        splits = stratified_folds(data.y, int(options.folds or 0), seed, "--folds")
    else:
        known = options.novelty is None
        tested = _test_data(options.test, spec, data, known=known)
        where = "of --test"
        X, labels = np.append(X, tested.X, 0), np.append(labels, tested.labels)
        splits = [tuple(np.split(np.arange(len(X)), [len(data.X)]))]
        overlap = if_among(tested, hashes_of(data.X), where)
    remarks = [] if stored is None else if_seen(stored, tested, where=where)
    first = 0 if options.test is None else len(data.X)

    def learned(rows: np.ndarray) -> Dissimilarity | MetricDraws:
        if stored is not None:
            return stored.metric
        groups = None if data.groups is None else data.groups[rows]
        part = replace(data, X=data.X[rows], y=data.y[rows], groups=groups)
        return fit_named(clone(learner), part).get_metric()

    name = str(options.model) if stored is None else stored.name
    metrics = {EUCLID: lambda rows: euclid(data.X[rows]), name: learned}

    def scored() -> Iterator[Scored]:
        bar = progress_bar(splits, "held-out points", None, "split")
        how: Any = {"n_neighbors": n_neighbors, "novelty": options.novelty}
        for name, split, rows, knn, P in cross_validate(metrics, X, labels, bar, **how):
            scores = evaluate(X[rows], labels[rows], classifier=knn, seed=seed)
            frame = _class_table(knn.classes_, P, labels[rows], rows - first)
            if options.novelty is not None:
                frame["typicality"] = knn.typicality(X[rows])
            yield Scored(name, split, scores, frame)

    remarks += overlap
    about = describe_data(data, spec)
    return Task(about, remarks, lambda: _means(scored(), neighbors=n_neighbors))


def _test_data(test: str, spec: DataSpec, data: Dataset, *, known: bool) -> Dataset:
    label = spec.label or (None if spec.groups else data.label)
    spec = spec._replace(how=spec.how._replace(feature_names=data.feature_names))
    with of_option("--test"):
        tested = load(spec._replace(name=test, label=label))
        features = data.feature_names, tested.feature_names
        check_features(*features, tested.name, "--data")
    others = sorted({*tested.target_names} - {*data.target_names})
    if others and known:
        raise ValueError(
            f"--test must contain only classes of --data, got {len(others)} other "
            f"classes, such as {others[0]!r}. To detect unknown classes use --novelty. "
            "To compare pairs from new sources use --groups without --test."
        )
    return tested


def _class_table(
    classes: np.ndarray, P: np.ndarray, truth: np.ndarray, rows: np.ndarray
) -> pd.DataFrame:
    names = [str(name) for name in classes]
    frame = pd.DataFrame(P, columns=pd.Index([f"P({c})" for c in names]))
    frame.insert(0, "predicted", np.asarray(names)[P.argmax(1)])
    frame.insert(0, "truth", truth)
    frame.insert(0, "row", rows)
    return frame


def _votes_in_chunks(options: Evaluate, spec: DataSpec) -> Task:
    refused = {
        "--model (fit it first, and use --metric)": options.model is not None,
        "--set": bool(options.settings),
        "--groups": options.groups is not None,
        "--folds": options.folds is not None,
        "--novelty": options.novelty is not None,
        "no --test": options.test is None,
    }
    for name, used in refused.items():
        if used:
            raise ValueError(
                "If --data is read in chunks, --test and a stored metric (--metric "
                f"or --draws) are required, got {name}. Fit first (probmetric fit), "
                "then use --metric."
            )
    test, seed, k = str(options.test), options.seed, options.k or 5
    stored = load_stored(options)
    rows = rows_of(spec)
    check_features(stored.feature_names, rows.feature_names, rows.name)
    with of_option("--test"):
        tested = rows_of(spec._replace(name=test))
        check_features(stored.feature_names, tested.feature_names, tested.name)
    shown, about = describe_rows(rows, spec, MOST)
    plain = tested.source if isinstance(tested, View) else tested
    sample, where = sample_of(plain, test, MOST), "of a sample of --test"
    remarks = [
        "rows are read in chunks, so each neighbor has one vote (for rows in memory, "
        "nearer neighbors have more weight). For the Euclidean distance, features are "
        "standardized with a sample of --data",
        *if_seen(stored, sample, where=where),
        *if_among(sample, hashes_of(rows), where),
    ]

    def scored() -> Iterator[Scored]:
        some_rows = sampled(tested, MOST, seed=seed)
        assert some_rows.labels is not None
        metrics = {EUCLID: euclid(shown.X), stored.name: stored.metric}
        for name, metric in metrics.items():
            knn = KNeighborsClassifier(metric, k, votes="count").fit(rows)
            scores = evaluate(tested, classifier=knn, seed=seed)
            P = knn.predict_proba(as_fitted(knn, some_rows.X, tested))
            frame = _class_table(knn.classes_, P, some_rows.labels, some_rows.rows)
            yield Scored(name, 0, scores, frame)

    return Task(about, remarks, lambda: _means(scored(), neighbors=k, votes="count"))


class _Split(NamedTuple):
    data: Answered
    rows: np.ndarray
    metric: Dissimilarity | MetricDraws
    lapse_rate: float | None = None
    sharpness: np.ndarray | None = None


def _judgments(options: Evaluate, answers: str) -> Task:
    """Predict held-out judgments, or all judgments with a stored metric."""
    learner, name = _learner(options), str(options.model)
    if learner is None:
        stored = load_stored(options)
        spec, name = MODELS.get(str(stored.learner)), stored.name
        judged_triplets = spec is not None and spec.data_kind is Triplets
        lapse_rate = stored.lapse_rate if judged_triplets else None
        objects = spec is not None and without_points(spec.estimator)
        data, splits, remarks = _of_stored(options, answers, stored, objects)
        splits = [split._replace(lapse_rate=lapse_rate) for split in splits]
    else:
        data, splits, remarks = _refits(options, answers, learner)

    reasons: dict[str, None] = {}

    def scored() -> Iterator[Scored]:
        for number, (tested, rows, metric, lapse, sharpness) in enumerate(splits):
            P, score, reason = probabilities(metric, tested, lapse, sharpness)
            reasons.update({reason: None} if reason else {})
            base, constant = _constant(tested)
            for method, stated in (base, constant), (name, P):
                scores = figures_of(tested, stated, score)
                if method == base:
                    scores.pop("roc_auc", None)
                frame = _judgment_table(tested.table, rows, stated)
                yield Scored(method, number, scores, frame)

    def compute() -> Result:
        return _means(scored())._replace(notes=list(reasons))

    return Task(data.about, remarks, compute)


def _of_stored(
    options: Evaluate, answers: str, stored: StoredMetric, objects: bool
) -> tuple[Answered, list[_Split], list[str]]:
    refuse(
        {"--test": options.test, "--folds": options.folds},
        "--answers and a stored metric, which is evaluated on all of --answers",
    )
    spec = coded_as(options.spec(options.data or ""), stored.metric)
    data = about_points(
        read_table(answers, spec.how),
        options.data,
        spec,
        objects=stored.n_features if objects else None,
        name=stored.name,
        known=stored.feature_names,
    )
    check_features(stored.feature_names, data.feature_names, data.name)
    learned, remarks = f"{stored.name} was learned from", list[str]()
    if data.about["hash"] == stored.data_hash:
        remarks = [
            f"{learned} the same judgments, so its scores are too optimistic. Evaluate "
            "on other judgments"
        ]
    elif stored.rows is not None:
        todo = (
            f"that {learned}, so its scores may be too optimistic. Evaluate on "
            "judgments of other rows"
        )
        remarks = describe_overlap(judged_rows(data), stored.rows, ABOUT, todo)
    rows = np.arange(len(data.table.rows))
    return data, [_Split(data, rows, stored.metric)], remarks


def _refits(
    options: Evaluate, answers: str, learner: Learner
) -> tuple[Answered, Iterable[_Split], list[str]]:
    _check_split(options)
    check_answers(learner, answers)
    spec = coded_as(options.spec(options.data or ""), learner)
    data = answered(learner, answers, options.data, spec)
    n = len(data.table.rows)

    def fitted(train: Answered, test: Answered, rows: np.ndarray) -> _Split:
        fresh = cast("Learner", clone(learner))
        fit_answers(fresh, train)
        rate, factors = vars(fresh).get("lapse_rate_"), sharpness_of(fresh)
        s = None  # A rater who is only in the test set is typical.
        if factors and "raters" in test.table.values:
            names = test.table.values["raters"].astype(str)
            s = np.array([factors.get(name, 1.0) for name in names])
        return _Split(test, rows, fresh.get_metric(), rate, s)

    if options.test is not None:
        names = data.feature_names
        tested = answered(learner, options.test, options.data, spec, names)
        if tested.table.kind != data.table.kind:
            raise ValueError(
                f"--test must contain {data.table.kind}, as --answers does, got "
                f"{tested.table.kind}."
            )
        every = np.arange(len(tested.table.rows))
        todo = (
            "of --answers (training data), so the scores may be too optimistic. Use "
            "judgments of other rows"
        )
        hashes = hashes_of(judged_rows(data))
        remarks = describe_overlap(judged_rows(tested), hashes, ABOUT, todo)
        return data, (fitted(data, tested, every) for _ in range(1)), remarks
    n_folds = int(options.folds or 0)
    if not 2 <= n_folds <= n:
        raise ValueError(
            f"--folds must be 2 to {n}, the number of judgments, got {options.folds}."
        )
    folds = KFold(n_folds, shuffle=True, random_state=options.seed)
    parts = progress_bar(list(folds.split(data.table.rows)), "judgments", None, "fold")
    splits = (
        fitted(some(data, train), some(data, test), test) for train, test in parts
    )
    # Objects without features can be predicted only if they were in the fit.
    of_rows = data.X is not None
    shared = of_rows and len(np.unique(data.table.rows)) < data.table.rows.size
    return data, splits, [SHARED] if shared else []


def _constant(data: Answered) -> tuple[str, np.ndarray]:
    """Baseline without a metric: the share of *same*, or even odds for triplets."""
    n, values = len(data.table.rows), data.table.values
    if data.table.kind != "pairs":
        k = 3 if data.table.kind == "odd_one_out" else 2
        return "even odds", np.full((n, k), 1 / k)
    trials = np.asarray(values.get("trials", np.ones(n)), float)
    weight = np.asarray(values.get("sample_weight", np.ones(n)), float)
    share = weight @ answers_of(data.table) / (weight @ trials)
    return "share of same", np.full(n, share)


def _judgment_table(
    table: Table, rows: np.ndarray, P: np.ndarray | None
) -> pd.DataFrame:
    named = table.rows if table.names is None else np.array(table.names)[table.rows]
    frame = pd.DataFrame(named, columns=pd.Index(COLUMNS[table.kind][0]))
    frame.insert(0, "row", rows)
    frame["y"] = answers_of(table)
    for name in ("trials", "sample_weight"):
        if name in table.values:
            frame[name] = table.values[name]
    if P is not None and P.ndim == 2:
        if table.kind == "odd_one_out":
            frame["P_largest"] = P.max(1)
        P = P[:, 1]
    return frame.assign(P=np.nan if P is None else P)


def _sites(options: Evaluate) -> Task:
    refuse({"--test": options.test, "-k": options.k}, "--sites")
    learner, spec = _learner(options), options.spec(str(options.sites))
    remarks: list[str] = []
    if learner is None:
        if options.folds is not None:
            raise ValueError(
                "--folds requires --model, got a stored metric. Use --test instead."
            )
        stored = load_stored(options)
        data, name = community(options, spec, stored.feature_names or ()), stored.name
        check_features(stored.feature_names, data.feature_names, data.name)
        rows = data.frame.to_numpy(float)
        points = Dataset(rows, np.zeros(len(rows), int), (), (), data.name)
        remarks = if_seen(stored, points, where="of --sites")
        parts = [lambda: all_pairs(stored.metric, name, data)]
    else:
        check_learner(learner, options)
        data, name = community(options, spec), str(options.model)
        folds = folds_of(data, int(options.folds or 5), options.seed)
        parts = [partial(held_out, learner, name, data, test) for test in folds]

    def scored() -> Iterator[Scored]:
        bar = progress_bar(parts, "held-out sites", None, "fold")
        for number, part in enumerate(bar):
            for method, table, scores in judged(data, part()):
                yield Scored(method, number, scores, table)

    return Task(data.about, remarks, lambda: _means(scored()))


def _pairs(options: Evaluate, spec: DataSpec) -> Task:
    _learner(options)  # Refuses --set.
    stored = load_stored(options)
    spec = coded_as(spec, stored.metric, stored.feature_names)
    # Without a label, sources are the classes.
    with of_option("--groups", "label") if spec.label is None else nullcontext():
        data = load(spec)
    check_finite(data)
    check_features(stored.feature_names, data.feature_names, data.name)
    if (d := data.X.shape[1]) != stored.n_features:  # For metrics without names.
        raise ValueError(
            f"data in {data.name} must have the {stored.n_features} features of the "
            f"metric, got {d} features"
        )
    sources = np.asarray(data.groups)
    metrics = {EUCLID: euclid(data.X), stored.name: stored.metric}

    def compute() -> Result:
        with of_option("--groups", "sources"):
            result = judge_sources(
                metrics, data.X, sources, prob=PROB, seed=options.seed
            )
        n_same = int(result.same.sum())
        limits = {
            name: {k: [*map(float, ends)] for k, ends in j.intervals._asdict().items()}
            for name, j in result.judged.items()
        }
        summary: dict[str, Any] = {
            "pairs": {
                "sources": len(np.unique(sources)),
                "same": n_same,
                "different": len(result.same) - n_same,
                "different_in_all": result.in_all[0],
                "same_in_all": result.in_all[1],
                "ordered": result.ordered,
            },
            "figures": {name: j.costs._asdict() for name, j in result.judged.items()},
            "intervals": limits,
            "prob": PROB,
        }
        rows: list[dict[str, Any]] = []
        for name, costs in summary["figures"].items():
            row: dict[str, Any] = {"method": name}
            for cost, value in costs.items():
                low, high = limits[name][cost]
                row |= {cost: value, f"{cost}_lower": low, f"{cost}_upper": high}
            rows.append(row)
        pairs = pd.DataFrame({"i": result.i, "j": result.j, "same": result.same})
        scores = {name: j.score for name, j in result.judged.items()}
        text = f"{with_limits(summary).T.to_string()}\n{pairs_in_words(summary)}"
        return Result(pd.DataFrame(rows), pairs.assign(**scores), text, summary)

    remarks = if_seen(stored, data, UNSEEN)
    return Task(describe_data(data, spec), remarks, compute)
