"""Blocks of draws kept on disk, from which a stopped run is resumed.

Every block is one file: its draws, the sampler's whole state after it, and a line that
says which run it belongs to. It is written under another name and renamed into place,
so that a file that exists is whole. A run resumed from such files gives, bit for bit
on the same machine, the draws of one that was never stopped. Each block on disk is
logged to the logger ``probmetric``.
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
from probmetric.interrupts import check, noticed
from probmetric.progress import progress_bar
from probmetric.provenance import versions
from probmetric.typing import Array

LOGGER = logging.getLogger("probmetric")
PACKAGES = ("probmetric", "jax", "numpyro", "numpy")

type Kept = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]
"""Values and statistics of a block of draws."""


def describe(data: PyTree, **run: object) -> str:
    """Return a line of JSON that two runs share only if they are the same.

    Parameters
    ----------
    data : pytree of arrays
        Data, prior and start: a hash of each array is in the line.
    **run
        What else makes the run, under the name that the error will give it.
    """
    hashes = {k: data_hash(v)[:16] for k, v in data_variables(data).items()}
    whole = {**run, "version of": versions(*PACKAGES), "data": hashes}
    return json.dumps(whole, sort_keys=True, default=lambda number: number.item())


def check_folder(checkpoint: "str | Path | None", resume: bool) -> Path | None:
    """Return the folder; one with blocks is an error unless they are to be resumed."""
    if checkpoint is None:
        if resume:
            raise ValueError("checkpoint: expected a folder to resume from, got None")
        return None
    folder = Path(checkpoint)
    if not resume and any(folder.glob("block_*.npz")):
        raise ValueError(
            f"checkpoint: expected an empty folder, or resume=True, got {folder} with "
            "blocks of a former run"
        )
    return folder


def plan_blocks(n_warmup: int, n_draws: int, size: int) -> list[tuple[int, bool]]:
    """List the blocks: how many draws, and whether they are kept."""
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
) -> Kept:
    """Run the blocks that are not in the folder yet; return all draws.

    Parameters
    ----------
    advance : callable
        ``advance(state, n, index) -> (state, values, statistics)``: the next n draws,
        dicts of arrays of shape (n_chains, n or more, ...).
    state : pytree of arrays
        Before the first block.
    plan : list of (int, bool)
        Of ``plan_blocks``.
    folder : Path, optional
        Of ``check_folder``; held for this run alone until it ends.
    resume : bool
        As for ``check_folder``, which is asked again once the folder is held.
    run : str
        Of ``describe``.
    label : str
        Of the progress bar.
    progress : bool, optional
        Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

    Returns
    -------
    values, statistics : dicts of arrays of shape (n_chains, n_draws, ...)

    Raises
    ------
    ValueError
        Blocks of another run, or that cannot be read; a folder that another run
        writes to.
    OSError
        A block that cannot be written. Those before it stand.
    """
    with ExitStack() as held:
        held.enter_context(noticed())
        if folder is not None:
            held.enter_context(locked(folder, "checkpoint"))
            check_folder(folder, resume)
        return _run_blocks(advance, state, plan, folder, run, label, progress)


def _run_blocks[S](
    advance: Callable[[S, int, int], tuple[S, Arrays, Arrays]],
    state: S,
    plan: list[tuple[int, bool]],
    folder: Path | None,
    run: str,
    label: str,
    progress: bool | None,
) -> Kept:
    """Run the blocks in a folder that is held."""
    kept: list[Kept] = []
    done = 0
    if folder is not None:
        done, state, kept = read_blocks(folder, run, state)
    for index in progress_bar(range(done, len(plan)), label, progress, "block"):
        check()
        n, keep = plan[index]
        state, *rows = advance(state, n, index)
        cut = jax.tree.map(lambda a, n=n: np.asarray(a)[:, :n], tuple(rows))
        kept += [cut] if keep else []
        if folder is not None:
            write_block(folder, index, run, state, *(cut if keep else ({}, {})))
            LOGGER.info("block %d of %d saved in %s", index + 1, len(plan), folder)
    return jax.tree.map(lambda *a: np.concatenate(a, 1), *kept)


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
    """Write one block and rename it into place; values may be empty (warm-up)."""
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
        why = f"{error.strerror or error}; the {index} blocks before it stand, resume"
        raise OSError(
            error.errno, f"checkpoint: could not write block {index}: {why}", str(path)
        ) from error


def read_blocks[S](folder: Path, run: str, state: S) -> tuple[int, S, list[Kept]]:
    """Read the whole blocks in the folder, in order.

    Parameters
    ----------
    folder : Path
        It need not exist.
    run : str
        Of ``describe``.
    state : pytree of arrays
        The state before the first block: gives the tree, and is returned if there
        are no blocks.

    Returns
    -------
    index : int
        The next block to run.
    state : pytree of arrays
        The state to go on from.
    kept : list of (values, statistics)
        Of the blocks that are not warm-up.

    Raises
    ------
    ValueError
        Blocks of another run, or that cannot be read.
    """
    index, kept, last = 0, [], None
    while _path(folder, index).exists():
        last = _read(_path(folder, index))
        found = str(last["run"])
        if found != run:
            raise ValueError(
                f"checkpoint: expected blocks of this run in {folder}, got those of "
                f"another: {_difference(found, run)}"
            )
        values, statistics = (
            {name.removeprefix(prefix): v for name, v in last.items()
             if name.startswith(prefix)}
            for prefix in ("values:", "statistics:")
        )  # fmt: skip
        if values:
            kept.append((values, statistics))
        index += 1
    if last is None:
        return 0, state, kept
    leaves, tree = jax.tree.flatten(state)
    stored = [jnp.asarray(last[f"state:{k}"]) for k in range(len(leaves))]
    stored = [
        jax.random.wrap_key_data(new) if _is_key(old) else new
        for new, old in zip(stored, leaves, strict=True)
    ]
    return index, jax.tree.unflatten(tree, stored), kept


def _read(path: Path) -> dict[str, np.ndarray]:
    """Read one block whole; NumPy's archives carry a checksum of every array."""
    try:
        arrays = Archive(path, packed=False).read()
        json.loads(str(arrays["run"]))
    except UNREADABLE as e:
        raise ValueError(
            f"checkpoint: expected a whole block in {path}, got a file that cannot be "
            f"read ({type(e).__name__}: {e}); move it away and resume: its draws and "
            "those after it are made again, the same as they were"
        ) from e
    return arrays


def _difference(found: str, wanted: str) -> str:
    """Name what two descriptions do not share; a hash says nothing, its name does."""
    a, b = json.loads(found), json.loads(wanted)
    unequal = [k for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)]
    return ", ".join(_one_difference(k, a.get(k), b.get(k)) for k in unequal)


def _one_difference(name: str, a: object, b: object) -> str:
    if not isinstance(a, dict) or not isinstance(b, dict):
        return f"{name} {a} and not {b}"
    unequal = [k for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)]
    if name == "data":
        return f"data other in {', '.join(unequal)}"
    return ", ".join(f"{name} {k} {a.get(k)} and not {b.get(k)}" for k in unequal)
