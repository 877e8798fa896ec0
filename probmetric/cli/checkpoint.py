"""The folder of blocks that ``sample --checkpoint`` keeps: whose run is it?

The sampler itself refuses blocks of another run, bit by bit, after the fit. What is
asked here is asked before it, and answered in the words of the command line.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probmetric.files import UNREADABLE, replacing

__all__ = ["IN_BLOCKS", "METHODS", "check_options", "check_same_run", "kept"]

METHODS = ("nuts", "laplace", "bootstrap", "svi")
IN_BLOCKS = ("nuts", "bootstrap")
"""Methods that take long enough to be kept block by block."""

RUN = "run.json"


def check_options(method: str, folder: Path | None, resume: bool) -> dict[str, Any]:
    """Return what the sampler is told of blocks, refusing what cannot be."""
    if method not in METHODS:
        raise ValueError(
            f"--method: wanted one of {', '.join(METHODS)}, got {method!r}"
        )
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
    """Refuse a folder with blocks of another run; sign one that has none.

    Parameters
    ----------
    folder : Path
    run : mapping
        What makes the run, by the name that a refusal will give it; JSON's types.
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
