"""``probmetric sample``: posterior draws of a metric, in a resumable run."""

import json
import logging
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from probmetric.cli.answers import Answered, learned_rows
from probmetric.cli.files import (
    FILES,
    bad_input,
    claim,
    noted,
    results,
    say,
)
from probmetric.cli.fit import learn, model_verdict, origin, prepared, troubled
from probmetric.cli.inputs import describe_data
from probmetric.cli.options import Sample
from probmetric.cli.sites import Community, curve_table, in_words, results_of
from probmetric.datasets.loading import Dataset
from probmetric.files import locked
from probmetric.inference.sampling.nuts import NUTS
from probmetric.large.overlap import ROWS, hashes_of
from probmetric.progress import is_silent
from probmetric.registry import MODELS, model_of
from probmetric.report.model_fit import parts_of
from probmetric.storage.draws_file import save_draws

JACKKNIFE = "jackknife"
"""Refits without each site, which are no draws."""


def sampler_for(method: str, folder: Path | None, resume: bool) -> str | NUTS:
    """Make the sampler; raise for options that do not fit the checkpoint."""
    if folder is None:
        if resume:
            raise ValueError("--resume requires --checkpoint DIR.")
        return method
    if method != "nuts":
        raise ValueError(
            f"--checkpoint requires --method nuts, got {method!r}. Omit --checkpoint."
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--checkpoint must be a folder, got {str(folder)!r}.")
    blocks = len(list(folder.glob("block_*.npz")))
    if blocks and not resume:
        raise ValueError(
            f"--checkpoint: {str(folder)!r} already has {blocks} blocks of draws. Add "
            "--resume to continue from them, or use an empty folder."
        )
    return NUTS(checkpoint=folder, resume=resume)


def run(options: Sample) -> int:
    """Sample, and return the exit code; raises as ``cli.fit.run``."""
    method, out, checkpoint = str(options.method), options.out, options.checkpoint
    n_draws = options.draws or (200 if method == "bootstrap" else 1000)
    n_chains = options.chains or (4 if method == "nuts" else 1)
    with ExitStack() as stack:
        with bad_input():
            sampler = sampler_for(method, checkpoint, options.resume)
            estimator, data, spec = prepared(options)
            points = data if isinstance(data, Dataset) else None
            if isinstance(data, Answered | Community):
                about = data.about
            else:
                assert points is not None
                about = describe_data(points, spec)
            stack.enter_context(claim(out, FILES["sample"], force=options.force))
            if checkpoint is not None:
                stack.enter_context(locked(checkpoint, "--checkpoint"))
                # Checked again: another run may have ended since.
                sampler_for(method, checkpoint, options.resume)
        learned = learn(options.model, estimator, data)
        source = origin(options, estimator, about)
        made: Any = estimator
        drawn: xr.DataTree | None = None
        gdm: dict[str, Any] = {}
        curves: pd.DataFrame | None = None
        size = f", {n_chains} x {n_draws} draws" * (method != JACKKNIFE)
        say(f"Sampling by {method}{size} ...")
        started = time.perf_counter()
        with noted() as warned, _blocks_logged(), bad_input():
            if method != JACKKNIFE:
                drawn = made.sample(
                    sampler, n_draws=n_draws, n_chains=n_chains, seed=options.seed
                )
            if options.model == "gdm":
                of = {"draws": drawn} if drawn is not None else {"method": JACKKNIFE}
                uncertainty = made.posterior_metric(
                    "intervals", seed=options.seed, **of
                )
                gdm = results_of(made, uncertainty)
                curves = curve_table(made, uncertainty)
                say(in_words(gdm))
        seconds = time.perf_counter() - started
        checked = MODELS[model_of(options.model)].criticism
        fit = model_verdict(made, options.seed) if checked else None
        summary = {
            **source,
            "method": method,
            "seconds": seconds,
            "notes": [*learned.notes, *map(str, warned)],
            **({"gdm": gdm} if gdm else {}),
            **({} if fit is None else {"fit": parts_of(fit)}),
        }
        if drawn is not None:
            drawn.attrs |= {
                "feature_names": json.dumps(list(data.feature_names)),
                "method": method,
                "learner": model_of(options.model),
                "labelled_hash": about["hash"],
            }
            hashes = xr.Dataset({ROWS: ("row", hashes_of(learned_rows(data)))})
            drawn[ROWS] = xr.DataTree(hashes)
            sizes = drawn["posterior"].sizes
            summary |= {"chains": int(sizes["chain"]), "draws": int(sizes["draw"])}
        with results(out, "sample", summary, points) as part:
            if drawn is not None:
                save_draws(drawn, part / "draws.nc")
            if curves is not None:
                curves.to_csv(part / "curves.csv", index=False)
    say(f"See {out / 'report.html'} | sampled in {seconds:.1f} s")
    return int(learned.trouble or troubled(warned))


@contextmanager
def _blocks_logged() -> Generator[None]:
    logger, handler = logging.getLogger("probmetric"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("  %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR if is_silent() else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
