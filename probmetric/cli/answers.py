"""Judgments about points: tables of pairs or triplets, fits to them, and scores.

A line of the table contains row numbers of ``--data``, counted from 0: two for a pair,
three for a triplet or an odd-one-out response, four for a quadruplet. Objects without
features have only a number.
"""

from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from pandas.api.types import is_string_dtype as is_text
from scipy.special import softmax

from probmetric.cli.files import note, refuse
from probmetric.cli.inputs import Learner, describe, of_option
from probmetric.cli.options import DataSpec
from probmetric.cli.sites import Community
from probmetric.data.factors import Factors
from probmetric.data.inputs import points
from probmetric.data.triplets import numbered
from probmetric.data.unlabeled import leaves_out, spelled
from probmetric.datasets.columns import doubtful_columns
from probmetric.datasets.loading import Dataset, framed, load_points
from probmetric.datasets.tables import read_content
from probmetric.evaluation.answers import answer_auc, answer_scores
from probmetric.large.source import Source
from probmetric.metric import Dissimilarity
from probmetric.metric.protocol import MetricDraws
from probmetric.names import AS_IS, Reading, ending, existing, is_set
from probmetric.posterior.intervals import between_rows
from probmetric.posterior.metric import PosteriorMetric
from probmetric.posterior.stack import over_draws
from probmetric.registry import without_points

COLUMNS = {
    "pairs": (("i", "j"), ("y",), ("trials", "weight")),
    "triplets": (("anchor", "near", "far"), (), ("y", "weight", "rater")),
    "quadruplets": (("anchor", "near", "other", "far"), (), ("y", "weight", "rater")),
    "odd_one_out": (("object1", "object2", "odd"), (), ("weight", "rater")),
}
"""Columns by kind of table: row numbers, other required columns, optional columns."""

ALIASES = (
    {"head": "anchor", "winner": "near", "loser": "far"},
    {"anchor": "anchor", "positive": "near", "negative": "far"},
)
"""Names of the columns of triplets in other programs."""

ARGUMENTS = {"weight": "sample_weight", "rater": "raters"}
"""Arguments of ``fit`` whose names differ from the column."""


class Table(NamedTuple):
    """A table of judgments: row numbers (N, 2), (N, 3) or (N, 4), and fit arguments."""

    kind: str
    rows: Int[np.ndarray, "N k"]
    values: dict[str, np.ndarray]
    path: Path
    names: tuple[str, ...] | None = None


class Answered(NamedTuple):
    """Points, or objects without features, with judgments about them."""

    X: Float[np.ndarray, "n d"] | None
    feature_names: tuple[str, ...]
    name: str
    table: Table
    about: dict[str, Any]
    factors: Factors | None = None


def read_table(
    name: str, how: Reading = AS_IS, option: str = "--answers", *, answers: bool = True
) -> Table:
    """Read judgments, or pairs without y to judge. The columns determine the kind."""
    path = existing(name, option)
    if leaves_out(how.unlabeled):
        why = f"{option}, because its row numbers count all rows of --data"
        refuse({"--unlabeled": how.unlabeled}, why)
    text = ending(path) in (".csv", ".csv.gz", ".tsv", ".tsv.gz")
    frame, _ = read_content(path, how._replace(drop=(), features=()) if text else AS_IS)
    y = ", y" if answers else ""
    wanted = f"{option} must have columns i, j{y} for pairs; anchor, near, far "
    wanted += "for triplets; anchor, near, far, other for quadruplets; or object1, "
    wanted += "object2, odd for odd-one-out responses"
    if answers:
        wanted += " (optional columns: weight; for pairs trials; for triplets and "
        wanted += "quadruplets y; for judgments other than pairs rater)"
    if not isinstance(frame, pd.DataFrame) or not len(frame):
        raise ValueError(f"{wanted}, got no table in {path.name}.")
    frame = frame.drop(columns=[name for name in how.drop if name in frame])
    for alias in ALIASES:
        if alias.keys() <= {*frame.columns}:
            frame = frame.rename(columns=alias)
    columns = [str(column) for column in frame.columns]
    for kind, (index, needed, more) in COLUMNS.items():
        least = {*index, *(needed if answers else ())}
        if len({*columns}) == len(columns) and (
            least <= {*columns} <= {*index, *needed, *more}
        ):
            names = None
            if kind != "pairs" and all(is_text(frame[name]) for name in index):
                words = [_labels(frame, name, path, option) for name in index]
                coded, names = numbered(np.stack(words, 1))
                rows = np.asarray(coded)
            else:
                numbers = [_whole(frame, name, path, option) for name in index]
                rows = np.stack(numbers, 1)
            values = {
                ARGUMENTS.get(name, name): (
                    _labels(frame, name, path, option)
                    if name == "rater"
                    else frame[name].to_numpy()
                )
                for name in (*needed, *more)
                if name in columns
            }
            return Table(kind, rows, values, path, names)
    todo = " Leave out other columns with --drop."
    raise ValueError(f"{wanted}, got {', '.join(columns)} in {path.name}.{todo}")


def _labels(frame: pd.DataFrame, name: str, path: Path, option: str) -> np.ndarray:
    """Return a column as text, whole numbers without decimals."""
    (missing,) = np.nonzero(frame[name].isna().to_numpy())
    if len(missing):
        raise ValueError(
            f"{option} must have a label in every row, got a missing value in column "
            f"{name}, row {missing[0]} of {path.name}. Correct this entry."
        )
    return np.array([spelled(value) for value in frame[name]])


def _whole(frame: pd.DataFrame, name: str, path: Path, option: str) -> np.ndarray:
    column = frame[name]
    numbers = np.asarray(pd.to_numeric(column, errors="coerce"), float)
    (wrong,) = np.nonzero(~((numbers >= 0) & (numbers % 1 == 0)))
    if len(wrong):
        raise ValueError(
            f"{option} must contain row numbers of --data (whole numbers from 0), got "
            f"{str(column.iloc[wrong[0]])!r} in column {name}, row {wrong[0]} of "
            f"{path.name}. Correct this entry."
        )
    return numbers.astype(int)


def check_rows(table: Table, n: int, data: str, option: str = "--answers") -> None:
    """Raise for names of objects, or row numbers beyond the n points."""
    if table.names is not None:
        raise ValueError(
            f"{option} must contain row numbers of {data} (whole numbers from 0), got "
            f"{table.names[0]!r}. Replace names by row numbers."
        )
    if (largest := int(table.rows.max())) >= n:
        raise ValueError(
            f"{option} must contain row numbers of {data} (0 to {n - 1}), got "
            f"{largest}. The first row is 0."
        )


def check_answers(estimator: Learner, answers: str | None) -> None:
    """Raise if a learner of objects without features has no judgments."""
    if answers is None and without_points(estimator):
        raise ValueError(
            f"--answers must be a table of triplets for {type(estimator).__name__}, "
            "got none. Add --answers."
        )


def answered(
    estimator: Learner,
    answers: str,
    data: str | None,
    spec: DataSpec,
    known: Sequence[str] | None = None,
) -> Answered:
    """Read the points and judgments for a learner; ``spec`` has the reading options."""
    refuse({"--groups": spec.groups}, "--answers")
    table = read_table(answers, spec.how)
    _fit_of(estimator, table)
    n = None
    if without_points(estimator):
        n_objects = estimator.get_params().get("n_objects")
        # The fit refuses values that are no numbers.
        n = n_objects if isinstance(n_objects, int) else 0
    name = type(estimator).__name__
    return about_points(table, data, spec, objects=n, name=name, known=known)


def about_points(
    table: Table,
    data: str | None,
    spec: DataSpec,
    *,
    objects: int | None,
    name: str,
    known: Sequence[str] | None = None,
) -> Answered:
    """Join judgments with their points.

    ``objects`` is None if there are points. For objects without features, it is their
    minimum number. ``name`` is the name of the learner or metric in errors, and
    ``known`` are the names of its objects.
    """
    place = str(table.path.resolve())
    if objects is not None:
        refuse({"--data": data}, f"{name} (objects without features)")
        X, factors, called, source = None, None, table.path.name, place
        if table.names is not None and known is not None:
            with of_option("--answers", "triplets"):
                coded, names = numbered(np.array(table.names)[table.rows], known)
            table = table._replace(rows=np.asarray(coded), names=names)
        n = max(int(table.rows.max()) + 1, objects)
        names = table.names or tuple(map(str, range(n)))
    else:
        if data is None:
            raise ValueError(
                "--data must be the table of points that --answers refers to, got "
                "none. Add --data."
            )
        loaded = load_points(data, label=spec.label, how=spec.how, names=known or ())
        X, names, called = points(loaded.X, "data"), loaded.feature_names, data
        factors = loaded.factors
        source, n = data if is_set(data) else str(existing(data).resolve()), len(X)
        check_rows(table, n, data)
        for remark in doubtful_columns(X, names):
            note(remark)
    content = [X, table.rows, *table.values.values()]
    about = describe(spec, source, n, names, {}, content)
    about["answers"] = {"source": place, "kind": table.kind, "n": len(table.rows)}
    return Answered(X, names, called, table, about, factors)


def _fit_of(estimator: Learner, table: Table) -> Callable[..., object]:
    kind, name = table.kind, type(estimator).__name__
    fit = getattr(estimator, "fit_pairs" if kind == "pairs" else "fit_triplets", None)
    if kind != "pairs" and without_points(estimator):
        fit = getattr(estimator, "fit", None)
    elif "preprocessor" not in estimator.get_params():
        fit = None
    if fit is None:
        raise ValueError(
            f"--answers must not contain {kind} for {name}, because it does not learn "
            f"from {kind}. Use another learner."
        )
    lacking = table.values.keys() - signature(fit).parameters.keys()
    if lacking:
        raise ValueError(
            f"--answers must not have the column {min(lacking)!r} for {name}, got "
            f"{table.path.name}. Remove the column."
        )
    return fit


def fit_answers(estimator: Learner, data: Answered) -> None:
    """Fit an estimator to judgments. The points are passed as its preprocessor."""
    fit, table = _fit_of(estimator, data.table), data.table
    if table.kind != "pairs":
        estimator.set_params(odd_one_out=table.kind == "odd_one_out")
    given: dict[str, Any] = {"n_objects": len(data.feature_names)}
    if data.X is not None:
        factors = data.factors
        rows = framed(data.X, data.feature_names, factors) if factors else data.X
        given = {"preprocessor": rows}
    before = {name: estimator.get_params()[name] for name in given}
    estimator.set_params(**given)
    try:
        fit(table.rows, **table.values)
    finally:  # These are no arguments for a summary.
        estimator.set_params(**before)


def sharpness_of(estimator: object) -> dict[str, float]:
    """Return the sharpness of each rater of a fit to triplets, if any."""
    raters, sharpness = (getattr(estimator, k, None) for k in ("raters_", "sharpness_"))
    if raters is None or sharpness is None:
        return {}
    return dict(zip(map(str, raters), np.asarray(sharpness).tolist(), strict=True))


def some(data: Answered, rows: Int[np.ndarray, "m"]) -> Answered:
    """Select some of the judgments, about the same points."""
    table = data.table
    values = {name: column[rows] for name, column in table.values.items()}
    return data._replace(table=table._replace(rows=table.rows[rows], values=values))


def probabilities(
    metric: Dissimilarity | MetricDraws,
    data: Answered,
    lapse_rate: float | None,
    sharpness: Float[np.ndarray, "N"] | None = None,
) -> tuple[Float[np.ndarray, "N *k"] | None, Float[np.ndarray, "N *k"], str]:
    """Compute P of judgments, a score, and the reason if P is None.

    For pairs, P (N,) is the probability of *same*, and the score is minus the distance.
    For triplets, P (N, K) has the probability of each response, in the order of y, and
    the score (N, K) is minus the distance of each alternative. P is averaged over
    draws. After a fit to triplets, squared distances are in units of log odds, and
    ``lapse_rate`` is a number. For other metrics it is None, and P of triplets is None.
    ``sharpness`` multiplies the log odds. Default: 1.
    """
    X = np.eye(int(getattr(metric, "n_features"))) if data.X is None else data.X  # noqa: B009
    ends = [X[rows] for rows in data.table.rows.T]
    if data.table.kind == "pairs":
        score = -_distances(metric, *ends).mean(0)
        try:
            return np.asarray(getattr(metric, "same_probability")(*ends)), score, ""  # noqa: B009
        except (AttributeError, ValueError) as error:
            return None, score, str(error)
    anchor, by, *other, away = ends
    pairs = [(other[0] if other else anchor, away), (anchor, by)]
    if data.table.kind == "odd_one_out":
        pairs.append((by, away))
    D = np.stack([_distances(metric, *pair) for pair in pairs], -1)
    score = -D.mean(0)
    if lapse_rate is None:
        reason = (
            "P(near is nearer) is not available, because it requires a metric "
            "learned from triplets"
        )
        return None, score, reason
    squared = D**2 if sharpness is None else sharpness[:, None] * D**2
    P = (1 - lapse_rate) * softmax(-squared, -1) + lapse_rate / len(pairs)
    return P.mean(0), score, ""


def _distances(
    metric: Dissimilarity | MetricDraws, A: np.ndarray, B: np.ndarray
) -> Float[np.ndarray, "s N"]:
    if isinstance(metric, PosteriorMetric):
        return metric.pair_draws(A, B)
    return over_draws(between_rows, [cast("Dissimilarity", metric)], A, B)


def figures_of(
    data: Answered,
    P: Float[np.ndarray, "N *k"] | None,
    score: Float[np.ndarray, "N *k"],
) -> dict[str, float]:
    """Evaluate probabilities of judgments (only the order of scores if P is None).

    The Brier score and calibration error of triplets count each alternative, because no
    score may depend on the order of the alternatives in a table.
    """
    values, y = data.table.values, answers_of(data.table)
    weight = values.get("sample_weight")
    if data.table.kind == "pairs":
        trials = values.get("trials")
        if P is not None:
            return answer_scores(P, y, trials=trials, sample_weight=weight)
        return {"roc_auc": answer_auc(score, y, trials=trials, sample_weight=weight)}
    order = score if P is None else P
    largest = order == order.max(1, keepdims=True)
    share = largest / largest.sum(1, keepdims=True)
    stated = share if P is None else P  # Without P the nearest pair is predicted.
    chosen = y.astype(int)[:, None] == np.arange(stated.shape[1])
    w = np.ones(len(y)) if weight is None else weight
    each = np.repeat(w, stated.shape[1])
    scores = answer_scores(stated.ravel(), chosen.ravel(), sample_weight=each)
    scores["accuracy"] = np.average(share[chosen], weights=w)
    used = w > 0  # Weight zero times an infinite loss is NaN.
    with np.errstate(divide="ignore"):
        losses = -np.log(stated[chosen][used])
    scores["log_loss"] = np.average(losses, weights=w[used])
    names = ("accuracy",) if P is None else ("accuracy", "log_loss", "brier", "ece")
    return {name: scores[name] for name in names}


def answers_of(table: Table) -> np.ndarray:
    """Return y as 0 and 1, or counts. For triplets without the column y, return 1."""
    if "y" not in table.values:
        return np.ones(len(table.rows))
    y = np.asarray(table.values["y"], float)
    return np.where(y == -1, 0, y) if "trials" not in table.values else y


def learned_rows(data: Answered | Community | Dataset | Source) -> np.ndarray | Source:
    """Rows that a fit uses: points, a dataset on disk, or the points of judgments."""
    if isinstance(data, Community):
        return data.frame.to_numpy(float)
    if isinstance(data, Answered):
        return judged_rows(data)
    return data.X if isinstance(data, Dataset) else data


def judged_rows(data: Answered) -> np.ndarray:
    """Features of all points of each judgment (numbers of objects without features)."""
    rows = ordered(data.table.kind, data.table.rows)
    if data.X is None:
        return rows.astype(float)
    return data.X[rows].reshape(len(rows), -1)


def ordered(kind: str, rows: Int[np.ndarray, "N k"]) -> Int[np.ndarray, "N k"]:
    """Sort row numbers whose order does not matter, e.g. of an odd-one-out triplet."""
    if kind == "odd_one_out":
        return np.sort(rows, 1)
    if kind == "triplets":
        return np.hstack([rows[:, :1], np.sort(rows[:, 1:], 1)])
    if kind == "pairs":
        return np.sort(rows, 1)
    left, right = np.sort(rows[:, :2], 1), np.sort(rows[:, 2:], 1)
    turned = (left[:, :1] > right[:, :1]) | (
        (left[:, :1] == right[:, :1]) & (left[:, 1:] > right[:, 1:])
    )
    return np.where(turned, np.hstack([right, left]), np.hstack([left, right]))
