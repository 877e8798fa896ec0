"""``probmetric validate``: load, check, study, write, and say what was found."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from probmetric.checks.check import Problem
from probmetric.checks.criticism import check_model
from probmetric.cli.files import (
    FILES,
    bad_input,
    claim,
    noted,
    results,
    say,
    write_text,
)
from probmetric.cli.inputs import describe_data, labelled
from probmetric.datasets.loading import Dataset
from probmetric.names import AS_IS, Reading
from probmetric.provenance import versions
from probmetric.registry import MODELS, fit_named, make
from probmetric.report.validate import agreement_table, described, khat_words
from probmetric.storage.draws_file import save_draws
from probmetric.validation import Validation, validate

ALPHA = 0.01
"""Rate at which a whole command calls a right claim wrong by chance."""


def run(
    *,
    model: str | None,
    data: str | None = None,
    label: str | None = None,
    how: Reading = AS_IS,
    out: Path | None = None,
    force: bool = False,
    quick: bool = False,
    broken: bool = False,
    strict: bool = False,
    seed: int = 0,
) -> int:
    """Validate a registered model, or all of them for None; return the exit code.

    With ``strict`` it is 1 as well where a model is in conflict with the data.

    Raises
    ------
    BadInput
        When the input cannot be used; found before anything long is begun.
    """
    with ExitStack() as held:
        with bad_input():
            names = _models(model, data)
            asked = {"label": label, **how._asdict()}
            default = {"label": None, **AS_IS._asdict()}
            for option in asked:
                if data is None and asked[option] != default[option]:
                    raise ValueError(f"--{option}: expected --data with it, got none")
            if strict and (data is None or broken):
                with_it = "--data, without --break," if broken else "--data"
                raise ValueError(f"--strict: expected {with_it} with it")
            points = None if data is None else labelled(data, label, how=how)
            problems = {name: _problem(name, points) for name in names}
            folders: dict[str, Path] = {}
            studied: set[str] = set()
            if out is not None:
                folders = {name: out / name if model is None else out for name in names}
            if points is not None and not broken:
                studied = {name for name in folders if MODELS[name].study is not None}
            for name, folder in folders.items():
                files = FILES["validate"] + ("draws.nc",) * (name in studied)
                held.enter_context(claim(folder, files, force=force))
            if out is not None and model is None:
                held.enter_context(claim(out, ("validation.csv",), force=force))
        source: dict[str, Any] = {
            "where": "simulated problems" if points is None else points.name,
            "seed": seed,
            "data": None if points is None else describe_data(points, label, how=how),
            "versions": versions(),
        }
        shares = _shares(names, quick)
        with noted():
            found: list[Validation] = []
            conflict = False
            for name in names:
                say(f"Checking {name} on {source['where']} ...")
                one = validate(
                    name,
                    problems[name],
                    quick=quick,
                    break_=broken,
                    seed=seed,
                    alpha=shares[name],
                )
                found.append(one)
                _print_summary(one)
                study = fit = None
                if points is not None and not broken and MODELS[name].criticism:
                    say(f"Holding {name} against {source['where']} ...")
                    fit = check_model(fit_named(make(name), points), seed=seed)
                    conflict |= fit.overall == "conflict"
                    typer.echo(str(fit))
                if name in studied:
                    say(f"Sampling and using {name} on {source['where']} ...")
                    make_study: Any = MODELS[name].study
                    study = make_study(points, quick=quick, seed=seed)
                said = str(one) if fit is None else f"{one}; the model: {fit.overall}"
                if name in folders:
                    head = {"model": name, "lead": MODELS[name].summary, **source}
                    told = {**head, **described(one, study, fit)}
                    with results(folders[name], "validate", told, points) as part:
                        table = agreement_table(one, fit)
                        table.to_csv(part / "agreement.csv", index=False)
                        if study is not None:
                            save_draws(study.draws, part / "draws.nc")
                    typer.echo(f"Look at {folders[name] / 'report.html'} | {said}")
                else:
                    typer.echo(said)
        if model is not None:
            return max(found[0].exit_code, int(strict and conflict))
        judged = tuple(j for each in found for j in each.judgements)
        whole = Validation("all", judged, broken)
        typer.echo(whole.by_model().to_string(index=False, float_format="%.0f"))
        if out is not None:
            write_text(out / "validation.csv", whole.summary().to_csv(index=False))
            say(f"Wrote {out / 'validation.csv'}")
        typer.echo(str(whole))
        return max(whole.exit_code, int(strict and conflict))


def _problem(name: str, data: Dataset | None) -> Problem[Any] | None:
    """Return a model's problem on labelled data, under the data's name."""
    if data is None:
        return None
    from_labels: Any = MODELS[name].from_labels
    problem = from_labels(data.X, data.y)
    return replace(problem, name=problem.name.replace("data", data.name, 1))


def _shares(names: list[str], quick: bool) -> dict[str, float]:
    """Return each model's part of ALPHA, by its number of statistical tests."""
    tests = {
        name: sum(c.tests and not (quick and c.slow) for c in MODELS[name].checks)
        for name in names
    }
    whole = max(sum(tests.values()), 1)
    # A model without any test spends nothing of its own.
    return {name: ALPHA * max(n, 1) / whole for name, n in tests.items()}


def _models(model: str | None, data: str | None) -> list[str]:
    """Return the models to validate: one, or all that take the data."""
    able = [n for n in sorted(MODELS) if not data or MODELS[n].from_labels is not None]
    if model is None:
        return able
    if model not in able:
        raise ValueError(f"--data: expected none for {model!r}, got {data!r}")
    return [model]


def _print_summary(found: Validation) -> None:
    """Print a line a check: verdict, claim, and the figure behind it."""
    for row in found.summary().itertuples():
        row: Any
        figure = (
            f"|z| ≤ {row.largest_z:.2f}"
            if np.isfinite(row.largest_z)
            else f"error ≤ {row.largest_error:.1e}"
        )
        wrong = f", wrong on purpose: {row.control}" if row.control else ""
        typer.echo(
            f"  {row.verdict:12s} {row.check}{wrong} "
            f"[{row.problem}; {row.kind}; {figure}; {row.seconds:.1f} s]"
        )
    for judgement in found.judgements:
        if judgement.unreliable:
            typer.echo(f"  {khat_words(judgement)}")
