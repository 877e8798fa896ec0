"""Pairs of rows, of one source or of two: the costs of verification, by source."""

from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import typer

from probmetric.cli.files import FILES, bad_input, claim, note, noted, results
from probmetric.cli.inputs import (
    Given,
    check_features,
    check_finite,
    describe_data,
    if_seen,
    of_option,
)
from probmetric.datasets.loading import load
from probmetric.evaluation.cross_validate import EUCLID, euclid
from probmetric.evaluation.sources import judge_sources
from probmetric.evaluation.verification import VerificationIntervals
from probmetric.names import Reading
from probmetric.processes.distributed import together
from probmetric.provenance import versions
from probmetric.report.evaluate import pairs_in_words, with_limits

PROB = 0.9
"""Of the intervals."""

UNSEEN = "give rows of sources that were not learned from"


class AskedSources(NamedTuple):
    """The points, and the column of their sources."""

    data: str
    groups: str
    label: str | None
    how: Reading
    seed: int


def run_sources(
    use: Given,
    asked: AskedSources,
    given: Mapping[str, str | None],
    out: Path | None,
    *,
    force: bool,
) -> int:
    """Judge a metric, or draws, by pairs of rows; ``given`` are its files."""
    with ExitStack() as held:
        with bad_input():
            label, groups, how = asked.label, asked.groups, asked.how
            # Without a label, sources are the classes.
            named = of_option("--groups", "label") if label is None else nullcontext()
            with named, noted():
                words = how.of_load(asked.data)
                points = load(asked.data, label=label, groups=groups, **words)
            check_finite(points)
            check_features(use.feature_names, points.feature_names, points.name)
            d = points.X.shape[1]
            if d != use.n_features:  # Of a metric that knows no names.
                raise ValueError(
                    f"data: expected in {points.name} the {use.n_features} features of "
                    f"the metric, got {d}"
                )
            if out is not None and together().rank == 0:
                held.enter_context(claim(out, FILES["evaluate"], force=force))
        remarks = if_seen(use, points, UNSEEN)
        for remark in remarks:
            note(remark)
        metrics = {EUCLID: euclid(points.X), use.name: use.metric}
        sources: Any = points.groups
        with noted() as seen, bad_input(), of_option("--groups", "sources"):
            found = judge_sources(
                metrics, points.X, sources, prob=PROB, seed=asked.seed
            )
        judged = found.judged
        figures = {name: own.costs._asdict() for name, own in judged.items()}
        limits = {name: _ends(own.intervals) for name, own in judged.items()}
        n_same = int(found.same.sum())
        pairs = {
            "sources": len(np.unique(sources)),
            "same": n_same,
            "different": len(found.same) - n_same,
            "different_in_all": found.in_all[0],
            "same_in_all": found.in_all[1],
            "ordered": found.ordered,
        }
        summary = {
            "model": None,
            **given,
            "settings": [],
            "seed": asked.seed,
            "data": describe_data(points, label, groups, how),
            "test": None,
            "folds": None,
            "pairs": pairs,
            "figures": figures,
            "intervals": limits,
            "prob": PROB,
            "notes": [*remarks, *map(str, seen)],
            "versions": versions(),
        }
        typer.echo(with_limits(summary).T.to_string())
        typer.echo(pairs_in_words(summary))
        if out is None or together().rank:
            return 0
        table = pd.DataFrame({"i": found.i, "j": found.j, "same": found.same})
        stated = table.assign(**{name: own.score for name, own in judged.items()})
        with results(out, "evaluate", summary) as part:
            _flat(figures, limits).to_csv(part / "evaluation.csv", index=False)
            stated.to_csv(part / "predictions.csv", index=False)
    return 0


def _ends(intervals: VerificationIntervals) -> dict[str, list[float]]:
    """Return the ends of the interval of each cost."""
    return {cost: [*map(float, ends)] for cost, ends in intervals._asdict().items()}


def _flat(
    figures: Mapping[str, Mapping[str, float]],
    limits: Mapping[str, Mapping[str, list[float]]],
) -> pd.DataFrame:
    """Return a line a method: each cost, and the ends of its interval."""
    rows = []
    for name, own in figures.items():
        row: dict[str, Any] = {"method": name}
        for cost, value in own.items():
            low, high = limits[name][cost]
            row |= {cost: value, f"{cost}_lower": low, f"{cost}_upper": high}
        rows.append(row)
    return pd.DataFrame(rows)
