"""``probmetric validate``: check formulas, and report."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import typer

from probmetric.checks.check import Problem
from probmetric.checks.criticism import ModelVerdict
from probmetric.checks.validation import Validation, validate
from probmetric.cli.files import (
    FILES,
    bad_input,
    claim,
    noted,
    results,
    say,
    write_text,
)
from probmetric.cli.fit import model_verdict
from probmetric.cli.inputs import describe_data, labeled
from probmetric.cli.options import ReadOptions, Validate
from probmetric.datasets.loading import Dataset
from probmetric.provenance import versions
from probmetric.registry import MODELS, fit_named, make
from probmetric.report.model_fit import fit_banner
from probmetric.report.validate import agreement_table, described, khat_words

ALPHA = 0.01
"""Probability that a command rejects a right claim by chance."""


def run(options: Validate) -> int:
    """Validate models; return the exit code (with ``strict`` 1 also for a conflict)."""
    out, one = options.out, options.model is not None
    with ExitStack() as stack:
        with bad_input():
            names = _models(options)
            points = _points(options)
            problems = {name: _problem(name, points) for name in names}
            folders: dict[str, Path] = {}
            if out is not None:
                folders = {name: out if one else out / name for name in names}
            claims = [(folder, FILES["validate"]) for folder in folders.values()]
            if out is not None and not one:
                claims.append((out, ("validation.csv",)))
            for folder, files in claims:
                stack.enter_context(claim(folder, files, force=options.force))
        spec = options.spec(options.data or "")
        source: dict[str, Any] = {
            "where": "simulated problems" if points is None else points.name,
            "seed": options.seed,
            "data": None if points is None else describe_data(points, spec),
            "versions": versions(),
        }
        shares, conflict = _shares(names, options.quick), False
        found: list[Validation] = []
        with noted():
            for name in names:
                say(f"Checking {name} on {source['where']} ...")
                result = validate(
                    name,
                    problems[name],
                    quick=options.quick,
                    break_=options.broken,
                    seed=options.seed,
                    alpha=shares[name],
                )
                found.append(result)
                _say_summary(result)
                fit = _model_verdict(options, name, points)
                last = str(result)
                if fit is not None:
                    conflict |= fit.overall == "conflict"
                    last += f"; the model: {fit.overall}"
                if name in folders:
                    folder = folders[name]
                    head = {"model": name, "lead": MODELS[name].summary, **source}
                    summary = {**head, **described(result, fit)}
                    with results(folder, "validate", summary, points) as part:
                        table = agreement_table(result, fit)
                        table.to_csv(part / "agreement.csv", index=False)
                    last = f"See {folder / 'report.html'} | {last}"
                if fit is not None and fit.overall != "adequate":
                    typer.echo(fit_banner(fit).sentences[0])
                typer.echo(last)
        whole = found[0]
        if not one:
            judged = tuple(j for result in found for j in result.judgements)
            whole = Validation("all", judged, options.broken)
            typer.echo(whole.by_model().to_string(index=False, float_format="%.0f"))
            if out is not None:
                write_text(out / "validation.csv", whole.summary().to_csv(index=False))
                say(f"Wrote {out / 'validation.csv'}")
            typer.echo(str(whole))
        return max(whole.exit_code, int(options.strict and conflict))


def _points(options: Validate) -> Dataset | None:
    if options.data is None:
        for name, default in vars(ReadOptions()).items():
            if name != "quiet" and getattr(options, name) != default:
                raise ValueError(f"--{name} requires --data.")
    if options.strict and (options.data is None or options.broken):
        without = " without --break" * options.broken
        raise ValueError(f"--strict requires --data{without}.")
    return None if options.data is None else labeled(options.spec(options.data))


def _model_verdict(
    options: Validate, name: str, points: Dataset | None
) -> ModelVerdict | None:
    if points is None or options.broken or not MODELS[name].criticism:
        return None
    say(f"Comparing {name} with {points.name} ...")
    return model_verdict(fit_named(make(name), points), options.seed)


def _problem(name: str, data: Dataset | None) -> Problem[Any] | None:
    if data is None:
        return None
    from_labels = cast("Callable[..., Problem[Any]]", MODELS[name].from_labels)
    problem = from_labels(data.X, data.y)
    return replace(problem, name=problem.name.replace("data", data.name, 1))


def _shares(names: list[str], quick: bool) -> dict[str, float]:
    tests = {
        name: sum(c.tests and not (quick and c.slow) for c in MODELS[name].checks)
        for name in names
    }
    total = max(sum(tests.values()), 1)
    # Models without a test use none of ALPHA.
    return {name: ALPHA * max(n, 1) / total for name, n in tests.items()}


def _models(options: Validate) -> list[str]:
    model, data = options.model, options.data
    able = [n for n in sorted(MODELS) if not data or MODELS[n].from_labels is not None]
    if model is None:
        return able
    if model not in able:
        raise ValueError(
            f"--data cannot be used with {model!r} (checked only on simulated "
            f"problems), got {data!r}. Omit --data."
        )
    return [model]


def _say_summary(result: Validation) -> None:
    lines: Any = result.summary().itertuples()
    for row in lines:
        figure = (
            f"|z| ≤ {row.largest_z:.2f}"
            if np.isfinite(row.largest_z)
            else f"error ≤ {row.largest_error:.1e}"
        )
        wrong = f", wrong on purpose: {row.control}" if row.control else ""
        say(
            f"  {row.verdict:12s} {row.check}{wrong} "
            f"[{row.problem}; {row.kind}; {figure}; {row.seconds:.1f} s]"
        )
    for judgement in result.judgements:
        if judgement.unreliable:
            say(f"  {khat_words(judgement)}")
