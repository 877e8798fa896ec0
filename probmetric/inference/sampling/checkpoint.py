"""Blocks of draws on disk, with which a stopped run can be resumed.

Each block is one file with its draws, the state of the sampler after these draws, and a
description of the run. The file is written under a temporary name and then renamed, so
a block that exists is complete. On the same machine, a resumed run gives exactly the
draws of an uninterrupted run. Each block is logged to the logger ``probmetric``.
"""

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from probmetric.data.hash import data_hash, data_variables
from probmetric.files import UNREADABLE, Archive, locked, replacing
from probmetric.inference.sampling.target import Arrays
from probmetric.progress import progress_bar
from probmetric.provenance import versions
from probmetric.typing import Array

LOGGER = logging.getLogger("probmetric")
PACKAGES = ("probmetric", "jax", "numpyro", "numpy")

type Block = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]
"""Values and statistics of a block of draws."""


def describe(data: PyTree, **run: object) -> str:
    """Return a JSON description of a run, with a hash of each array of the data."""
    hashes = {k: data_hash(v)[:16] for k, v in data_variables(data).items()}
    whole = {**run, "version of": versions(*PACKAGES), "data": hashes}
    return json.dumps(whole, sort_keys=True, default=lambda number: number.item())


def check_folder(checkpoint: "str | Path | None", resume: bool) -> Path | None:
    """Return the folder; raise ValueError if it has blocks and ``resume`` is False."""
    if checkpoint is None:
        if resume:
            raise ValueError(
                "checkpoint must be a folder if resume=True, got None. Pass the folder "
                "of the stopped run."
            )
        return None
    folder = Path(checkpoint)
    if not resume and any(folder.glob("block_*.npz")):
        raise ValueError(
            f"checkpoint must be a folder without blocks of draws, got {folder} with "
            "blocks of an earlier run. Use resume=True, or another folder."
        )
    return folder


def plan_blocks(n_warmup: int, n_draws: int, size: int) -> list[tuple[int, bool]]:
    """List the blocks as (number of draws, True for draws or False for warm-up)."""
    plan: list[tuple[int, bool]] = []
    for total, keep in ((n_warmup, False), (n_draws, True)):
        plan += [(min(size, total - at), keep) for at in range(0, total, size)]
    return plan


def run_blocks[S](
    advance: Callable[[S, int, int], tuple[S, Arrays, Arrays]],
    state: S,
    plan: list[tuple[int, bool]],
    *,
    folder: Path | None = None,
    resume: bool = False,
    run: str = "",
    label: str,
    progress: bool | None = None,
) -> Block:
    """Run the blocks that are not in the folder yet; return all draws.

    ``advance(state, n, index)`` returns (state, values, statistics) for the next n
    draws. ``plan`` is from ``plan_blocks``, ``folder`` from ``check_folder`` and
    ``run`` from ``describe``. The folder is locked until the run ends. Raises
    ValueError if the folder is locked, or if blocks belong to another run or cannot be
    read. Raises OSError if a block cannot be written; stored blocks remain.
    """
    blocks: list[Block] = []
    done = 0
    with ExitStack() as stack:
        if folder is not None:
            stack.enter_context(locked(folder, "checkpoint"))
            check_folder(folder, resume)  # Again, now that no other run can write.
            done, state, blocks = read_blocks(folder, run, state)
        for index in progress_bar(range(done, len(plan)), label, progress, "block"):
            n, keep = plan[index]
            state, *rows = advance(state, n, index)
            cut = jax.tree.map(lambda a, n=n: np.asarray(a)[:, :n], tuple(rows))
            blocks += [cut] if keep else []
            if folder is not None:
                write_block(folder, index, run, state, *(cut if keep else ({}, {})))
                LOGGER.info("block %d of %d saved in %s", index + 1, len(plan), folder)
    return jax.tree.map(lambda *a: np.concatenate(a, 1), *blocks)


def _path(folder: Path, index: int) -> Path:
    return folder / f"block_{index:05d}.npz"


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def write_block(
    folder: Path,
    index: int,
    run: str,
    state: PyTree,
    values: Mapping[str, np.ndarray],
    statistics: Mapping[str, np.ndarray],
) -> None:
    """Write one block atomically; values are empty for warm-up."""
    leaves = jax.tree.leaves(state)
    arrays: dict[str, Any] = {
        "run": np.array(run),
        **{
            f"state:{k}": np.asarray(jax.random.key_data(v) if _is_key(v) else v)
            for k, v in enumerate(leaves)
        },
        **{f"values:{name}": value for name, value in values.items()},
        **{f"statistics:{name}": value for name, value in statistics.items()},
    }
    path = _path(folder, index)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part, part.open("wb") as file:
            np.savez(file, **arrays)
    except OSError as error:
        problem = (
            f"checkpoint: could not write block {index} ({error.strerror or error}). "
            f"The {index} earlier blocks remain. Use resume=True to continue."
        )
        raise OSError(error.errno, problem, str(path)) from error


def read_blocks[S](folder: Path, run: str, state: S) -> tuple[int, S, list[Block]]:
    """Return the number of blocks in the folder, the last state, and the draws."""
    index, blocks, last = 0, [], None
    while _path(folder, index).exists():
        last = _read(_path(folder, index))
        stored_run = str(last["run"])
        if stored_run != run:
            raise ValueError(
                f"checkpoint must be the folder of this run, got {folder} with blocks "
                f"of another run: {_difference(stored_run, run)}"
            )
        values, statistics = (
            {name.removeprefix(prefix): v for name, v in last.items()
             if name.startswith(prefix)}
            for prefix in ("values:", "statistics:")
        )  # fmt: skip
        if values:
            blocks.append((values, statistics))
        index += 1
    if last is None:
        return 0, state, blocks
    leaves, tree = jax.tree.flatten(state)
    stored = [jnp.asarray(last[f"state:{k}"]) for k in range(len(leaves))]
    stored = [
        jax.random.wrap_key_data(new) if _is_key(old) else new
        for new, old in zip(stored, leaves, strict=True)
    ]
    return index, jax.tree.unflatten(tree, stored), blocks


def _read(path: Path) -> dict[str, np.ndarray]:
    """Read one block; NumPy's archives have a checksum of every array."""
    try:
        arrays = Archive(path).read()
        json.loads(str(arrays["run"]))
    except UNREADABLE as e:
        raise ValueError(
            f"checkpoint: the file {path} cannot be read ({type(e).__name__}: {e}). "
            "Remove this file and use resume=True to compute the same draws again."
        ) from e
    return arrays


def _difference(stored: str, current: str) -> str:
    a, b = json.loads(stored), json.loads(current)
    unequal = [k for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)]
    return ", ".join(_difference_of(k, a.get(k), b.get(k)) for k in unequal)


def _difference_of(name: str, a: object, b: object) -> str:
    if not isinstance(a, dict) or not isinstance(b, dict):
        return f"{name} {a} instead of {b}"
    unequal = [k for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)]
    if name == "data":
        return f"data differ in {', '.join(unequal)}"
    return ", ".join(f"{name} {k} {a.get(k)} instead of {b.get(k)}" for k in unequal)
