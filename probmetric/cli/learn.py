"""Options and help of ``probmetric fit`` and ``sample``."""

from pathlib import Path
from typing import Annotated

import typer

from probmetric.cli import options

__all__ = ["EPILOG", "fit", "sample"]

EPILOG = (
    "Exit code: 0 done; 1 done, but a fit did not converge or draws are not to be "
    "trusted yet (notes say why), or a fit failed; 2 unusable input, or a file could "
    "not be written; 130 interrupted."
)


def fit(
    model: options.Model,
    data: options.Data,
    out: options.Out,
    label: options.Label = None,
    groups: options.Groups = None,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> None:
    """Learn a metric: metric.npz, summary.json and report.html."""
    from probmetric.cli.files import exit_code
    from probmetric.cli.fit import Request, run

    chosen = tuple(settings or ())
    request = Request(model, data, label, groups, out, chosen, seed, force)
    raise typer.Exit(exit_code(lambda: run(request)))


def sample(
    model: options.Model,
    data: options.Data,
    out: options.Out,
    method: Annotated[
        str,
        typer.Option(
            help="nuts (exact up to Monte Carlo error), laplace or svi "
            "(approximations), bootstrap (refits under random weights of points)."
        ),
    ] = "nuts",
    draws: Annotated[
        int | None,
        typer.Option(help="Draws a chain; default 1000, 200 of bootstrap.", min=1),
    ] = None,
    chains: Annotated[
        int | None,
        typer.Option(help="Chains; default 4 of nuts, 1 of the others.", min=1),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which blocks of draws are kept as they come (nuts, "
            "bootstrap)."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the blocks in --checkpoint.")
    ] = False,
    label: options.Label = None,
    groups: options.Groups = None,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> None:
    """Draw from a posterior over metrics: draws.nc, summary.json and report.html."""
    from probmetric.cli.files import exit_code
    from probmetric.cli.sample import Request, kept, run

    request = Request(
        model,
        data,
        label,
        groups,
        out,
        tuple(settings or ()),
        method,
        draws,
        chains,
        checkpoint,
        resume,
        seed,
        force,
    )
    raise typer.Exit(exit_code(lambda: run(request), kept=kept(checkpoint)))
