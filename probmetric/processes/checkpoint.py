"""What each pass over a source gave, kept on disk: a stopped fit goes on from there.

A fit over a source is a row of passes, and all else in it is a function of what these
gave: the same program, given the same sums, takes the same steps. So the sums are kept,
one file a pass, and a resumed fit is the same program whose first passes are read in
place of computed. No learner knows of it, and as sums are the same bits on any number
of processes, a fit may be resumed on another number.

A file is written by process 0, whole or not at all, and holds the sums, the parameters
at which they were taken, and a line that says over which parts by which step. Another
step, other parts, or parameters that differ by more than ``SAME`` are another run's.
With some kB a pass a file takes milliseconds.
"""

import json
import logging
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from probmetric.data.source import Source
from probmetric.files import UNREADABLE, Archive, locked, replacing
from probmetric.processes.distributed import gather, together

LOGGER = logging.getLogger("probmetric")

SAME = 1e-6
"""Relative difference of parameters below which a pass is the same run's: steps between
passes may round otherwise on other processors, or with other threads."""


class _Journal:
    """A folder, how many passes stand in it, and how many were asked for."""

    def __init__(self, folder: Path, stored: int) -> None:
        self.folder, self.stored, self.asked = folder, stored, 0


class _State:
    """There is one journal a process."""

    journal: _Journal | None = None


class Pass(NamedTuple):
    """Which pass: the step's name, a hash of the parts, the parameters."""

    step: str
    parts: str
    params: Any


@contextmanager
def checkpointed(
    folder: "str | Path | None", *, resume: bool = False
) -> Generator[None]:
    """Keep the passes of the fits in a block; with ``resume`` go on from those kept.

    Parameters
    ----------
    folder : path or None
        Made where it is not; None keeps nothing. Of several processes every one has to
        see it.
    resume : bool
        Go on from the passes in the folder, if there are any. The block has to be the
        one that made them: the same fits, in the same order, of the same data.

    Raises
    ------
    ValueError
        For a folder with passes that are not to be resumed, that another run holds, or
        that not every process sees; within the block for passes that cannot be read,
        or of another run.
    OSError
        Within the block, for a pass that cannot be written. Those before it stand.

    Examples
    --------
    >>> import tempfile
    >>> from probmetric.processes import checkpointed
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with checkpointed(folder):
    ...         ...  # TwoStageMixture(8).fit(pm.open("rows/*.parquet")), killed
    ...     with checkpointed(folder, resume=True):
    ...         ...  # The same again.
    Ellipsis
    Ellipsis
    """
    if folder is None:
        if resume:
            raise ValueError("checkpoint: expected a folder to resume from, got None")
        yield
        return
    folder = Path(folder)
    with ExitStack() as held:
        if together().rank == 0:
            held.enter_context(locked(folder, "checkpoint"))
        stored = _stored(folder)
        seen = gather(np.array(stored)).tolist()
        if len(set(seen)) > 1:
            raise ValueError(
                f"checkpoint: expected a folder that every process sees, got {folder} "
                f"with {seen} passes"
            )
        if stored and not resume:
            raise ValueError(
                f"checkpoint: expected an empty folder, or to resume, got {folder} "
                f"with {stored} passes of a former run"
            )
        before, _State.journal = _State.journal, _Journal(folder, stored)
        try:
            yield
        finally:
            _State.journal = before


def _path(folder: Path, index: int) -> Path:
    return folder / f"pass_{index:05d}.npz"


def _stored(folder: Path) -> int:
    """Return how many passes stand one after another."""
    number = 0
    while _path(folder, number).exists():
        number += 1
    return number


def hash_of(source: Source) -> str:
    """Return a hash of what a source is: its name, columns and parts."""
    said = repr((source.name, source.feature_names, [tuple(p) for p in source.parts]))
    return blake2b(said.encode(), digest_size=16).hexdigest()


def kept[T](which: Pass, like: Callable[[], T], compute: Callable[[], T]) -> T:
    """Return what a pass gave: from the checkpoint if it stands there, else computed.

    Parameters
    ----------
    which : Pass
    like : callable
        Returns what the result is like: its structure, and leaves with its shapes and
        dtypes.
    compute : callable
        Returns the result, NumPy arrays, the same on every process.
    """
    if (journal := _State.journal) is None:
        return compute()
    index, journal.asked = journal.asked, journal.asked + 1
    if index < journal.stored:
        return _read(journal.folder, index, which, like())
    found = compute()
    if together().rank == 0:
        _write(journal.folder, index, which, found)
    return found


def _leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def _write(folder: Path, index: int, which: Pass, found: Any) -> None:
    about = json.dumps({"step": which.step, "parts": which.parts})
    arrays: dict[str, Any] = {
        "about": np.array(about),
        **{f"params:{k}": leaf for k, leaf in enumerate(_leaves(which.params))},
        **{f"sums:{k}": leaf for k, leaf in enumerate(_leaves(found))},
    }
    path = _path(folder, index)
    try:
        with replacing(path) as part, part.open("wb") as file:
            np.savez(file, **arrays)
    except OSError as error:
        why = f"{error.strerror or error}; the {index} passes before it stand, resume"
        raise OSError(
            error.errno, f"checkpoint: could not write pass {index}: {why}", str(path)
        ) from error
    LOGGER.info("pass %d saved in %s", index, folder)


def _read[T](folder: Path, index: int, which: Pass, like: T) -> T:
    path = _path(folder, index)
    try:
        arrays = Archive(path, packed=False).read()
        about = json.loads(str(arrays["about"]))
    except UNREADABLE as error:
        raise ValueError(
            f"checkpoint: expected a whole pass in {path}, got a file that cannot be "
            f"read ({type(error).__name__}: {error}); move it away and resume: its "
            "pass and those after it are made again"
        ) from error
    leaves, form = jax.tree.flatten(like)
    sums = _listed(arrays, "sums:")
    other = _other(about, which)
    other = other or _unlike(_listed(arrays, "params:"), _leaves(which.params))
    if not other and [(a.shape, a.dtype) for a in sums] != [
        (tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in leaves
    ]:
        other = "sums of another form"
    if other:
        raise ValueError(
            f"checkpoint: expected passes of this run in {folder}, got those of "
            f"another: pass {index} has {other}"
        )
    return jax.tree.unflatten(form, sums)


def _listed(arrays: dict[str, np.ndarray], prefix: str) -> list[np.ndarray]:
    number = sum(name.startswith(prefix) for name in arrays)
    return [arrays[f"{prefix}{k}"] for k in range(number)]


def _other(about: dict[str, str], which: Pass) -> str:
    """Say what of a stored pass is not that of this one, or nothing."""
    if about.get("step") != which.step:
        return f"the step {about.get('step')} and not {which.step}"
    return "" if about.get("parts") == which.parts else "other data"


def _unlike(stored: list[np.ndarray], now: list[np.ndarray]) -> str:
    """Say that parameters are not those of this run, or nothing."""
    if [a.shape for a in stored] == [b.shape for b in now] and all(
        np.allclose(a, b, SAME, SAME * (np.abs(b).max() if b.size else 0.0))
        for a, b in zip(stored, now, strict=True)
    ):
        return ""
    return "other parameters: the settings, the seed or the program are others"
