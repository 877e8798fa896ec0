"""``probmetric sample``: draws of a posterior over metrics, in a run that survives."""

import json
import logging
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import typer

from probmetric.cli.checkpoint import check_options, check_same_run
from probmetric.cli.data import labelled, parse_settings
from probmetric.cli.files import bad_input, claim, noted, together, write_text
from probmetric.cli.fit import learn, source_of, troubled
from probmetric.datasets.loading import Dataset
from probmetric.estimators.named import make, need_sample
from probmetric.files_lock import locked
from probmetric.report.run import render_run
from probmetric.report.run_folder import SUMMARY, write_summary
from probmetric.storage.draws_file import save_draws

__all__ = ["FILES", "Request", "run"]

FILES = ("draws.nc", SUMMARY, "report.html")


class Request(NamedTuple):
    """What was asked for on the command line; None where nothing was said."""

    model: str
    data: str
    label: str | None
    groups: str | None
    out: Path
    settings: tuple[str, ...]
    method: str
    draws: int | None
    chains: int | None
    checkpoint: Path | None
    resume: bool
    seed: int
    force: bool


def run(request: Request) -> int:
    """Do what was asked; return the exit code; raises as ``cli_fit.run``."""
    with ExitStack() as held:
        with bad_input():
            estimator = make(
                request.model, parse_settings(request.settings), seed=request.seed
            )
            need_sample(estimator)
            check_options(request.method, request.checkpoint, request.resume)
            data = labelled(request.data, request.label, request.groups)
            claimed = claim(request.out, FILES, force=request.force)
            paths = held.enter_context(claimed)
            source = source_of(request, data, estimator)
            if request.checkpoint is not None:
                held.enter_context(locked(request.checkpoint, "--checkpoint"))
                # Asked again: another run may have ended since.
                check_options(request.method, request.checkpoint, request.resume)
                check_same_run(request.checkpoint, _run_of(request, source))
        return _sample(request, estimator, data, source, paths)


def _sample(
    request: Request,
    estimator: Any,
    data: Dataset,
    source: dict[str, Any],
    paths: dict[str, Path],
) -> int:
    """Fit, sample and write, in folders that are held; return the exit code."""
    sampler = check_options(request.method, request.checkpoint, request.resume)
    n_draws, n_chains = _sizes(request)
    typer.echo(f"Fitting {request.model} to {data.name} ...")
    learned = learn(estimator, data)
    typer.echo(f"Sampling by {request.method}, {n_chains} x {n_draws} draws ...")
    started = time.perf_counter()
    with noted() as seen, _blocks_told(), bad_input():
        draws = estimator.sample(
            request.method,
            n_draws=n_draws,
            n_chains=n_chains,
            seed=request.seed,
            sampler=sampler or None,
        )
    seconds = time.perf_counter() - started
    draws.attrs["feature_names"] = json.dumps(list(data.feature_names))
    draws.attrs["method"] = request.method
    for name in ("similarity", "database_noise"):  # of a two-stage mixture's metric
        if hasattr(estimator, name):
            draws.attrs[name] = getattr(estimator, name)
    draws.attrs["labelled_hash"] = source["data"]["hash"]
    summary = {
        **source,
        "method": request.method,
        "chains": int(draws["posterior"].sizes["chain"]),
        "draws": int(draws["posterior"].sizes["draw"]),
        "seconds": seconds,
        "notes": [*learned.notes, *(str(w) for w in seen)],
    }
    with together(request.out) as part:
        save_draws(draws, part / "draws.nc")
        write_summary(part / SUMMARY, "sample", summary)
    write_text(paths["report.html"], render_run(request.out))
    typer.echo(f"Wrote {', '.join(str(path) for path in paths.values())}")
    typer.echo(f"Look at {paths['report.html']} | sampled in {seconds:.1f} s")
    return int(learned.trouble or troubled(seen))


def _sizes(request: Request) -> tuple[int, int]:
    """Return draws a chain and chains, by the method where nothing was said."""
    draws = 200 if request.method == "bootstrap" else 1000
    chains = 4 if request.method == "nuts" else 1
    return request.draws or draws, request.chains or chains


def _run_of(request: Request, source: dict[str, Any]) -> dict[str, Any]:
    """Return what two runs must share for one to go on from the other's blocks."""
    n_draws, n_chains = _sizes(request)
    return {
        "model": request.model,
        "method": request.method,
        "draws": n_draws,
        "chains": n_chains,
        "seed": request.seed,
        "data": {k: source["data"][k] for k in ("hash", "features")},
        "arguments": source["arguments"],
    }


@contextmanager
def _blocks_told() -> Generator[None]:
    """Show what the samplers log of blocks on disk."""
    logger, handler = logging.getLogger("probmetric"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("  %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
