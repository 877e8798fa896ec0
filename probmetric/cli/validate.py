"""``probmetric validate``: load, check, study, write, and say what was found."""

import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import typer

from probmetric.checks.check import Problem
from probmetric.cli.files import bad_input, claim, noted, together
from probmetric.cli.inputs import labelled
from probmetric.datasets import loading as datasets
from probmetric.files import replacing
from probmetric.plots.checks import agreement
from probmetric.registry import MODELS
from probmetric.report.page import Picture, Report, Section, Table, render, versions
from probmetric.validation import Validation, validate

__all__ = ["Request", "run"]


class Request(NamedTuple):
    """What was asked for on the command line."""

    model: str | None
    every: bool
    data: str | None
    label: str | None
    out: Path | None
    force: bool
    quick: bool
    broken: bool
    seed: int


def run(request: Request) -> int:
    """Do what was asked; return the exit code.

    Raises
    ------
    BadInput
        When the input cannot be used; found before anything long is begun.
    """
    with ExitStack() as held:
        return _run(request, held)


def _run(request: Request, held: ExitStack) -> int:
    """Do what was asked, holding the folders to write to."""
    with bad_input():
        names = _models(request)
        data, problems = None, dict.fromkeys(names)
        if request.data is not None:
            data = labelled(request.data, request.label)
            problems = {
                name: _problem(MODELS[name].from_labels, data) for name in names
            }
        elif request.label is not None:
            raise ValueError("--label: wanted --data with it, got none")
        paths = {name: _claimed(request, name, data, held) for name in names}
        table = _claimed_table(request, held)
    with noted():
        found = [
            _one(request, name, data, problems[name], paths[name]) for name in names
        ]
    if not request.every:
        return found[0].exit_code
    whole = Validation(
        "all", tuple(j for each in found for j in each.judgements), request.broken
    )
    typer.echo(whole.by_model().to_string(index=False, float_format="%.0f"))
    for path in table:
        with replacing(path) as part:
            whole.summary().to_csv(part, index=False)
        typer.echo(f"Wrote {path}")
    typer.echo(str(whole))
    return whole.exit_code


def _problem(from_labels: Any, data: datasets.Dataset) -> Problem:
    """Return a model's problem on labelled data, under the data's name."""
    return from_labels(data.X, data.y)._replace(name=data.name)


def _models(request: Request) -> list[str]:
    """Return the models asked for."""
    known = ", ".join(sorted(MODELS))
    if request.every:
        if request.model is not None:
            raise ValueError(f"MODEL: wanted none beside --all, got {request.model!r}")
        return [
            name
            for name in sorted(MODELS)
            if request.data is None or MODELS[name].from_labels is not None
        ]
    if request.model not in MODELS:
        got = "none" if request.model is None else repr(request.model)
        raise ValueError(f"MODEL: wanted one of {known}, or --all, got {got}")
    if request.data is not None and MODELS[request.model].from_labels is None:
        raise ValueError(
            f"--data: wanted none for {request.model!r}, got {request.data!r}"
        )
    return [request.model]


def _claimed(
    request: Request, name: str, data: datasets.Dataset | None, held: ExitStack
) -> dict[str, Path]:
    """Return the files to write for a model."""
    if request.out is None:
        return {}
    folder = request.out / name if request.every else request.out
    files = ("report.html", "agreement.csv")
    if _studied(request, name, data):
        files = (*files, "draws.nc")
    return held.enter_context(claim(folder, files, force=request.force))


def _claimed_table(request: Request, held: ExitStack) -> list[Path]:
    """Return the one table of all models, where it is asked for and has a place."""
    if request.out is None or not request.every:
        return []
    claimed = claim(request.out, ("validation.csv",), force=request.force)
    return list(held.enter_context(claimed).values())


def _studied(request: Request, name: str, data: datasets.Dataset | None) -> bool:
    """Say whether draws and figures are made: on data, with a place for them."""
    return (
        MODELS[name].study is not None
        and data is not None
        and request.out is not None
        and not request.broken
    )


def _one(
    request: Request,
    name: str,
    data: datasets.Dataset | None,
    problem: Problem | None,
    paths: dict[str, Path],
) -> Validation:
    """Validate one model, write its files, print its last line."""
    where = "simulated problems" if data is None else data.name
    typer.echo(f"Checking {name} on {where} ...")
    found = validate(
        name,
        problem,
        quick=request.quick,
        break_=request.broken,
        seed=request.seed,
    )
    _print_summary(found)
    study = None
    make_study = MODELS[name].study
    if make_study is not None and _studied(request, name, data):
        typer.echo(f"Sampling and using {name} on {where} ...")
        study = make_study(data, quick=request.quick, seed=request.seed)
    if paths:
        page = render(_report(request, name, where, found, study))
        with together(paths["report.html"].parent) as part:
            found.to_dataframe().to_csv(part / "agreement.csv", index=False)
            if study is not None:
                study.draws.to_netcdf(part / "draws.nc", engine="h5netcdf")
            (part / "report.html").write_text(page, encoding="utf-8")
        typer.echo(f"Wrote {', '.join(str(path) for path in paths.values())}")
        typer.echo(f"Look at {paths['report.html']} | {found}")
    else:
        typer.echo(str(found))
    return found


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


def _verdict_words(found: Validation) -> tuple[str, str, str]:
    """Return the banner's colour, headline and explanation."""
    counts = found.counts
    if found.broken:
        good = found.verdict == "rejected"
        headline = f"{counts.rejected} of {counts.controls} wrong claims were rejected"
        text = "Negative controls: wrong formulas in place of the right ones."
        return ("agree" if good else "disagree"), headline, text
    headline = f"{counts.agree} of {counts.exact} exact claims agree" + (
        f", {counts.within} of {counts.approximate} approximations keep their bound"
        if counts.approximate
        else ""
    )
    text = (
        "Each exact claim was compared with an independent reference: quadrature, "
        "automatic derivatives of the NumPyro model, or sampling. A run too weak to "
        "find a difference worth finding is inconclusive, and never passes."
    )
    return found.verdict, headline, text


def _check_section(found: Validation) -> Section:
    """Tell what was checked, with the z of everything that was compared by draws."""
    summary = found.summary()
    shown = summary.rename(
        columns={"largest_error": "largest error", "largest_z": "largest |z|"}
    )
    dropped = ["model", *([] if found.broken else ["control"])]
    pictures: list[Picture] = []
    for judgement in found.judgements:
        table = judgement.table
        # Only compare's own tables state the limits that z was judged by.
        compared = {"z_crit", "tol", "alpha"} <= table.attrs.keys()
        if compared and table.attrs["kind"] == "exact" and not table.attrs["control"]:
            figure = agreement(
                table, title=f"{table.attrs['check']} ({judgement.problem})"
            )
            pictures.append(
                Picture(
                    figure,
                    "Left: difference in Monte Carlo errors, inside the band where the "
                    "two agree. Right: the shift this run would have found.",
                )
            )
    return Section(
        "Closed forms against independent references",
        [
            "Exact claims must agree. What is an approximation is never called "
            "agreement: its distance from the reference is stated with the bound that "
            "it keeps."
        ],
        pictures,
        [
            Table(
                shown.drop(columns=dropped).round({"seconds": 1}),
                "Every check, by claim",
            ),
            Table(_entries(found), "Every entry of every check", folded=True),
        ],
    )


def _entries(found: Validation, limit: int = 400) -> pd.DataFrame:
    """Return the entries behind the checks, the worst first where they are many."""
    whole = found.to_dataframe().drop(columns=["model", "layer"])
    if not found.broken:
        whole = whole.drop(columns="control")
    if len(whole) <= limit:
        return whole
    size = whole[["z", "error"]].abs().fillna(0).sum(axis=1).to_numpy()
    return whole.iloc[np.argsort(-size, kind="stable")[:limit]]


def _report(
    request: Request, name: str, where: str, found: Validation, study: Any
) -> Report:
    """Put the page together."""
    verdict, headline, explanation = _verdict_words(found)
    counts = found.counts
    cards = [] if study is None else list(study.cards)
    if counts.controls == 0:
        cards = [(f"{counts.agree} / {counts.exact}", "exact claims agree"), *cards]
    command = shlex.join(["probmetric", *sys.argv[1:]])
    return Report(
        title=f"{name} on {where}",
        lead=MODELS[name].summary,
        verdict=verdict,
        headline=headline,
        explanation=explanation,
        sections=[_check_section(found), *([] if study is None else study.sections)],
        provenance={
            "command": command,
            "seed": str(request.seed),
            **versions(),
            "time of checks": f"{sum(j.seconds for j in found.judgements):.0f} s",
        },
        cards=cards,
    )
