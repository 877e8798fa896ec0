"""``probmetric sample``: draws of a posterior over metrics, in a resumable run.

``--checkpoint`` keeps finished blocks in a folder, and ``run.json`` beside them says
which run they belong to. It is compared before the fit, in the words of the command
line; the sampler itself compares the blocks bit by bit after it.
"""

import json
import logging
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import typer

from probmetric.cli.files import bad_input, claim, noted, together, write_text
from probmetric.cli.fit import learn, source_of, troubled
from probmetric.cli.inputs import labelled, parse_settings
from probmetric.datasets.loading import Dataset
from probmetric.files import UNREADABLE, replacing
from probmetric.files_lock import locked
from probmetric.registry import MODELS, check_method, make, need_sample
from probmetric.report.run import SUMMARY, render_run, write_summary
from probmetric.storage.draws_file import save_draws

__all__ = [
    "FILES",
    "IN_BLOCKS",
    "Request",
    "check_options",
    "check_same_run",
    "kept",
    "run",
]


IN_BLOCKS = ("nuts", "bootstrap")
"""Methods that take long enough to be kept block by block."""

RUN = "run.json"


def check_options(method: str, folder: Path | None, resume: bool) -> dict[str, Any]:
    """Return the sampler's arguments about blocks; raise for impossible ones."""
    if folder is None:
        if resume:
            raise ValueError("--resume: wanted --checkpoint DIR with it, got none")
        return {}
    if method not in IN_BLOCKS:
        raise ValueError(
            f"--checkpoint: wanted --method {' or '.join(IN_BLOCKS)}, got {method!r}, "
            "which is done in seconds"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--checkpoint: wanted a folder, got {str(folder)!r}")
    blocks = _blocks(folder)
    if blocks and not resume:
        raise ValueError(
            f"--checkpoint: wanted an empty folder, got {str(folder)!r} with {blocks} "
            "blocks of a former run; add --resume to go on from them"
        )
    return {"checkpoint": folder, "resume": resume}


def check_same_run(folder: Path, run: Mapping[str, Any]) -> None:
    """Raise for a folder with blocks of another run; write ``run.json`` where none is.

    Parameters
    ----------
    folder : Path
    run : mapping
        What makes the run, under the names used in the error; JSON's types.
    """
    path = folder / RUN
    if not _blocks(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(json.dumps(run, indent=1), encoding="utf-8")
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except UNREADABLE:
        return  # Blocks of a run from Python: the sampler knows its own.
    other = [
        name if isinstance(run[name], dict) else f"{name} {found.get(name)}"
        for name in run
        if found.get(name) != run[name]
    ]
    if other:
        raise ValueError(
            f"--checkpoint: wanted blocks of this run in {str(folder)!r}, got those of "
            f"another: {', '.join(other)}"
        )


def kept(checkpoint: Path | None) -> str:
    """Say what an interrupted or failed run leaves behind."""
    if checkpoint is None:
        return "files that stand are whole (--checkpoint keeps draws as they come)"
    return f"blocks saved in {checkpoint} are whole: --resume goes on from them"


def _blocks(folder: Path) -> int:
    return len(list(folder.glob("block_*.npz")))


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
    """Do what was asked; return the exit code; raises as ``cli.fit.run``."""
    with ExitStack() as held:
        with bad_input():
            estimator = make(
                request.model, parse_settings(request.settings), seed=request.seed
            )
            need_sample(request.model)
            check_method(request.model, request.method)
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
    draws.attrs["learner"] = request.model
    for name in MODELS[request.model].draws_attrs:
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
