"""``probmetric sample``: draws of a posterior over metrics, in a resumable run.

``--checkpoint`` keeps finished blocks in a folder, and ``run.json`` beside them says
which run they belong to. It is compared before the fit, in the words of the command
line; the sampler itself compares the blocks bit by bit after it.
"""

import json
import logging
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import typer

from probmetric.cli.files import FILES, bad_input, claim, noted, together, write_text
from probmetric.cli.fit import Learned, learn, source_of, troubled
from probmetric.cli.inputs import labelled, parse_settings
from probmetric.datasets.loading import Dataset
from probmetric.files import UNREADABLE, replacing
from probmetric.files_lock import locked
from probmetric.registry import MODELS, make
from probmetric.report.run import SUMMARY, render_run, write_summary
from probmetric.storage.draws_file import save_draws

__all__ = [
    "IN_BLOCKS",
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
            raise ValueError("--resume: expected --checkpoint DIR with it, got none")
        return {}
    if method not in IN_BLOCKS:
        raise ValueError(
            f"--checkpoint: expected --method {' or '.join(IN_BLOCKS)}, got "
            f"{method!r}, "
            "which is done in seconds"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--checkpoint: expected a folder, got {str(folder)!r}")
    blocks = _blocks(folder)
    if blocks and not resume:
        raise ValueError(
            f"--checkpoint: expected an empty folder, got {str(folder)!r} with "
            f"{blocks} "
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
            f"--checkpoint: expected blocks of this run in {str(folder)!r}, got "
            f"those of "
            f"another: {', '.join(other)}"
        )


def kept(checkpoint: Path | None) -> str:
    """Say what an interrupted or failed run leaves behind."""
    if checkpoint is None:
        return "files that stand are whole (--checkpoint keeps draws as they come)"
    return f"blocks saved in {checkpoint} are whole: --resume goes on from them"


def _blocks(folder: Path) -> int:
    return len(list(folder.glob("block_*.npz")))


def run(
    *,
    model: str,
    data: str,
    out: Path,
    label: str | None = None,
    groups: str | None = None,
    settings: Sequence[str] = (),
    method: str = "nuts",
    draws: int | None = None,
    chains: int | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    seed: int = 0,
    force: bool = False,
) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``."""
    n_draws = draws or (200 if method == "bootstrap" else 1000)
    n_chains = chains or (4 if method == "nuts" else 1)
    with ExitStack() as held:
        with bad_input():
            estimator = make(model, parse_settings(settings), seed=seed)
            blocks = check_options(method, checkpoint, resume)
            points = labelled(data, label, groups)
            paths = held.enter_context(claim(out, FILES["sample"], force=force))
            source = source_of(model, estimator, points, label, groups, seed)
            if checkpoint is not None:
                held.enter_context(locked(checkpoint, "--checkpoint"))
                # Asked again: another run may have ended since.
                check_options(method, checkpoint, resume)
                same = _run_of(source, method, n_draws, n_chains)
                check_same_run(checkpoint, same)
        typer.echo(f"Fitting {model} to {points.name} ...")
        learned = learn(estimator, points)
        typer.echo(f"Sampling by {method}, {n_chains} x {n_draws} draws ...")
        started = time.perf_counter()
        with noted() as seen, _blocks_told(), bad_input():
            drawn = estimator.sample(
                method,
                n_draws=n_draws,
                n_chains=n_chains,
                seed=seed,
                sampler=blocks or None,
            )
        seconds = time.perf_counter() - started
        notes = [*learned.notes, *(str(w) for w in seen)]
        summary = {**source, "method": method, "seconds": seconds, "notes": notes}
        _write(drawn, learned, points, summary, paths)
    return int(learned.trouble or troubled(seen))


def _write(
    draws: Any,
    learned: Learned,
    data: Dataset,
    summary: dict[str, Any],
    paths: dict[str, Path],
) -> None:
    """Write the files of a sampling run to a folder that is held."""
    spec = MODELS[summary["model"]]
    draws.attrs["feature_names"] = json.dumps(list(data.feature_names))
    draws.attrs["method"] = summary["method"]
    draws.attrs["learner"] = spec.name
    for name in spec.draws_attrs:
        draws.attrs[name] = getattr(learned.estimator, name)
    draws.attrs["labelled_hash"] = summary["data"]["hash"]
    sizes = draws["posterior"].sizes
    counts = {"chains": int(sizes["chain"]), "draws": int(sizes["draw"])}
    folder = paths[SUMMARY].parent
    with together(folder) as part:
        save_draws(draws, part / "draws.nc")
        write_summary(part / SUMMARY, "sample", {**summary, **counts})
    write_text(paths["report.html"], render_run(folder))
    typer.echo(f"Wrote {', '.join(str(path) for path in paths.values())}")
    typer.echo(
        f"Look at {paths['report.html']} | sampled in {summary['seconds']:.1f} s"
    )


def _run_of(
    source: Mapping[str, Any], method: str, n_draws: int, n_chains: int
) -> dict[str, Any]:
    """Return what two runs must share for one to go on from the other's blocks."""
    return {
        "model": source["model"],
        "method": method,
        "draws": n_draws,
        "chains": n_chains,
        "seed": source["seed"],
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
