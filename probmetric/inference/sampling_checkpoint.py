"""Blocks of draws on disk, so that a stopped run goes on where it was.

Every block is one file: its draws, the kernel's whole state after it, and a line that
says which run it belongs to. It is written under another name and renamed into place,
so that a file that stands is whole. A run resumed from such files gives, bit for bit
on the same machine, the draws of one that was never stopped.
"""

import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.inference.sampling_tree import data_hash

__all__ = ["describe", "open_folder", "read_blocks", "write_block"]


def describe(target: Any, settings: Any, data: Any, **run: Any) -> str:
    """Return a line of JSON that two runs share only if they are the same."""
    return json.dumps(
        {
            "log_density": getattr(target.log_density, "__qualname__", "?"),
            "settings": settings._asdict(),
            "data_hash": data_hash(data),
            **run,
        },
        sort_keys=True,
    )


def open_folder(checkpoint: "str | Path", resume: bool) -> Path:
    """Make the folder; refuse one that holds blocks unless they are to be resumed."""
    folder = Path(checkpoint)
    folder.mkdir(parents=True, exist_ok=True)
    if not resume and any(folder.glob("block_*.npz")):
        raise ValueError(
            f"checkpoint: wanted an empty folder, or resume=True, got {folder} with "
            "blocks of a former run"
        )
    return folder


def _path(folder: Path, index: int) -> Path:
    return folder / f"block_{index:05d}.npz"


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def write_block(
    folder: Path, index: int, run: str, state: Any, values: Any, statistics: Any
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
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def read_blocks(
    folder: Path, run: str, state: Any
) -> tuple[int, Any, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """Read the blocks that stand, in order.

    Parameters
    ----------
    folder : Path
        Of ``open_folder``.
    run : str
        Of ``describe``.
    state : HMCState
        The state before the first block: gives the tree, and is returned if there
        are no blocks.

    Returns
    -------
    index : int
        The next block to run.
    state : HMCState
        The state to go on from.
    kept : list of (values, statistics)
        Of the blocks that are not warm-up.

    Raises
    ------
    ValueError
        Blocks of another run.
    """
    index, kept, last = 0, [], None
    while _path(folder, index).exists():
        with np.load(_path(folder, index)) as file:
            last = {name: file[name] for name in file.files}
        found = str(last["run"])
        if found != run:
            raise ValueError(
                f"checkpoint: wanted blocks of this run in {folder}, got those of "
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


def _difference(found: str, wanted: str) -> str:
    """Name what two descriptions do not share."""
    a, b = json.loads(found), json.loads(wanted)
    unequal = [k for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)]
    return ", ".join(f"{k} {a.get(k)} and not {b.get(k)}" for k in unequal)
