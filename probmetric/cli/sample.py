"""``probmetric sample``: draws of a posterior over metrics, in a resumable run.

``--checkpoint`` keeps finished blocks in a folder; the sampler knows its own and
refuses those of another run.
"""

import json
import logging
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import xarray as xr

from probmetric.cli.answers import Answered, learned_rows
from probmetric.cli.files import (
    FILES,
    bad_input,
    claim,
    is_quiet,
    noted,
    results,
    say,
)
from probmetric.cli.fit import learn, prepared, troubled
from probmetric.datasets.overlap import ROWS, hashes_of
from probmetric.files import locked
from probmetric.inference.lca.bootstrap import Bootstrap
from probmetric.inference.sampling.nuts import NUTS
from probmetric.names import AS_IS, Reading
from probmetric.registry import model_of
from probmetric.storage.draws_file import save_draws

IN_BLOCKS = {
    "nuts": NUTS,
    "bootstrap": Bootstrap,
}
"""Samplers that take long enough to be kept block by block."""


def sampler_for(
    method: str, folder: Path | None, resume: bool
) -> str | NUTS | Bootstrap:
    """Return what ``sample`` takes as its method; raise for impossible options."""
    if folder is None:
        if resume:
            raise ValueError("--resume: expected --checkpoint DIR with it, got none")
        return method
    if method not in IN_BLOCKS:
        raise ValueError(
            f"--checkpoint: expected --method {' or '.join(IN_BLOCKS)}, got "
            f"{method!r}, which is done in seconds"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--checkpoint: expected a folder, got {str(folder)!r}")
    blocks = len(list(folder.glob("block_*.npz")))
    if blocks and not resume:
        raise ValueError(
            f"--checkpoint: expected an empty folder, got {str(folder)!r} with "
            f"{blocks} blocks of a former run; add --resume to go on from them"
        )
    return IN_BLOCKS[method](checkpoint=folder, resume=resume)


def kept(checkpoint: Path | None) -> str:
    """Describe what an interrupted or failed run leaves behind."""
    if checkpoint is None:
        return "files that stand are whole (--checkpoint keeps draws as they come)"
    if not any(checkpoint.glob("block_*.npz")):
        return f"no block was saved in {checkpoint} yet"
    return f"blocks saved in {checkpoint} are whole: --resume goes on from them"


def run(
    *,
    model: str,
    data: str | None,
    out: Path,
    answers: str | None = None,
    label: str | None = None,
    groups: str | None = None,
    how: Reading = AS_IS,
    settings: Sequence[str] | None = None,
    method: str,
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
            sampler = sampler_for(method, checkpoint, resume)
            estimator, points, source = prepared(
                model, data, answers, label, groups, how, settings, seed
            )
            held.enter_context(claim(out, FILES["sample"], force=force))
            if checkpoint is not None:
                held.enter_context(locked(checkpoint, "--checkpoint"))
                # Asked again: another run may have ended since.
                sampler_for(method, checkpoint, resume)
        learned = learn(model, estimator, points)
        say(f"Sampling by {method}, {n_chains} x {n_draws} draws ...")
        started = time.perf_counter()
        with noted() as seen, _blocks_told(), bad_input():
            drawn = estimator.sample(
                sampler, n_draws=n_draws, n_chains=n_chains, seed=seed
            )
        seconds = time.perf_counter() - started
        drawn.attrs |= {
            "feature_names": json.dumps(list(points.feature_names)),
            "method": method,
            "learner": model_of(model),
            "labelled_hash": source["data"]["hash"],
        }
        hashes = xr.Dataset({ROWS: ("row", hashes_of(learned_rows(points)))})
        drawn[ROWS] = xr.DataTree(hashes)
        sizes = drawn["posterior"].sizes
        summary = {
            **source,
            "method": method,
            "seconds": seconds,
            "notes": [*learned.notes, *map(str, seen)],
            "chains": int(sizes["chain"]),
            "draws": int(sizes["draw"]),
        }
        shown = None if isinstance(points, Answered) else points
        with results(out, "sample", summary, shown) as part:
            save_draws(drawn, part / "draws.nc")
    say(f"Look at {out / 'report.html'} | sampled in {seconds:.1f} s")
    return int(learned.trouble or troubled(seen))


@contextmanager
def _blocks_told() -> Generator[None]:
    """Show what the samplers log of blocks on disk."""
    logger, handler = logging.getLogger("probmetric"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("  %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR if is_quiet() else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
