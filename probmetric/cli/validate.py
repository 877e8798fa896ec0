"""``probmetric validate``: load, check, study, write, and say what was found."""

import shlex
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from probmetric.checks.check import Problem
from probmetric.cli.files import FILES, bad_input, claim, noted, together
from probmetric.cli.inputs import labelled
from probmetric.datasets import loading as datasets
from probmetric.files import replacing
from probmetric.registry import MODELS
from probmetric.report.page import render
from probmetric.report.validate import validate_page
from probmetric.validation import Validation, validate

__all__ = ["run"]


def run(
    *,
    model: str | None,
    data: str | None = None,
    label: str | None = None,
    out: Path | None = None,
    force: bool = False,
    quick: bool = False,
    broken: bool = False,
    seed: int = 0,
) -> int:
    """Validate a registered model, or all of them for None; return the exit code.

    Raises
    ------
    BadInput
        When the input cannot be used; found before anything long is begun.
    """
    with ExitStack() as held:
        with bad_input():
            names = _models(model, data)
            points, problems = None, dict.fromkeys(names)
            if data is not None:
                points = labelled(data, label)
                problems = {
                    name: _problem(MODELS[name].from_labels, points) for name in names
                }
            elif label is not None:
                raise ValueError("--label: expected --data with it, got none")
            paths: dict[str, dict[str, Path]] = {name: {} for name in names}
            table: list[Path] = []
            studied = {
                name
                for name in names
                if MODELS[name].study is not None
                and not (points is None or out is None or broken)
            }
            if out is not None:
                for name in names:
                    folder = out / name if model is None else out
                    files = FILES["validate"] + (("draws.nc",) * (name in studied))
                    claimed = claim(folder, files, force=force)
                    paths[name] = held.enter_context(claimed)
            if out is not None and model is None:
                claimed = claim(out, ("validation.csv",), force=force)
                table = list(held.enter_context(claimed).values())
        with noted():
            found: list[Validation] = []
            for name in names:
                where = "simulated problems" if points is None else points.name
                typer.echo(f"Checking {name} on {where} ...")
                one = validate(
                    name, problems[name], quick=quick, break_=broken, seed=seed
                )
                found.append(one)
                _print_summary(one)
                study = None
                if name in studied:
                    typer.echo(f"Sampling and using {name} on {where} ...")
                    make_study: Any = MODELS[name].study
                    study = make_study(points, quick=quick, seed=seed)
                if paths[name]:
                    _write(name, where, one, study, seed, paths[name])
                else:
                    typer.echo(str(one))
        if model is not None:
            return found[0].exit_code
        judged = tuple(j for each in found for j in each.judgements)
        whole = Validation("all", judged, broken)
        typer.echo(whole.by_model().to_string(index=False, float_format="%.0f"))
        for path in table:
            with replacing(path) as part:
                whole.summary().to_csv(part, index=False)
            typer.echo(f"Wrote {path}")
        typer.echo(str(whole))
        return whole.exit_code


def _problem(from_labels: Any, data: datasets.Dataset) -> Problem:
    """Return a model's problem on labelled data, under the data's name."""
    return replace(from_labels(data.X, data.y), name=data.name)


def _models(model: str | None, data: str | None) -> list[str]:
    """Return the models to validate: one, or all that take the data."""
    if model is None:
        return [
            name
            for name in sorted(MODELS)
            if data is None or MODELS[name].from_labels is not None
        ]
    if data is not None and MODELS[model].from_labels is None:
        raise ValueError(f"--data: expected none for {model!r}, got {data!r}")
    return [model]


def _write(
    name: str,
    where: str,
    found: Validation,
    study: Any,
    seed: int,
    paths: dict[str, Path],
) -> None:
    """Write the files of one model to a folder that is held; print its last line."""
    command = shlex.join(["probmetric", *sys.argv[1:]])
    report = validate_page(
        found,
        study,
        title=f"{name} on {where}",
        lead=MODELS[name].summary,
        seed=seed,
        command=command,
    )
    page = render(report)  # Before the block: an interrupt waits for its end.
    with together(paths["report.html"].parent) as part:
        found.to_dataframe().to_csv(part / "agreement.csv", index=False)
        if study is not None:
            study.draws.to_netcdf(part / "draws.nc", engine="h5netcdf")
        (part / "report.html").write_text(page, encoding="utf-8")
    typer.echo(f"Wrote {', '.join(str(path) for path in paths.values())}")
    typer.echo(f"Look at {paths['report.html']} | {found}")


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
