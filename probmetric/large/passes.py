"""Results of the passes over a source, stored on disk so that a fit can resume.

A fit over a source is a function of the results of its passes. The checkpoint stores
these sums, one file per pass. A resumed fit runs the same program, which reads its
first passes instead of computing them. Sums have the same bits on any number of
workers, so a fit may resume on another number.

Each file is written atomically. A file has the sums, the parameters of the pass, the
name of the step and a hash of the data. A file belongs to another run if the step or
the data differ, or if parameters differ by more than ``SAME``.
"""

import json
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from probmetric.files import UNREADABLE, Archive, locked, replacing
from probmetric.large.source import Source

LOGGER = logging.getLogger("probmetric")

SAME = 1e-6
"""Relative difference up to which parameters belong to the same run. Steps between
passes may round differently on other processors or with other threads."""


class _Journal:
    def __init__(self, folder: Path, stored: int) -> None:
        self.folder, self.stored, self.asked = folder, stored, 0


class _State:
    """The current journal; each process has at most one."""

    journal: _Journal | None = None


class Pass(NamedTuple):
    """Identity of a pass: name of the step, hash of the data, and the parameters."""

    step: str
    parts: str
    params: Any


@contextmanager
def checkpointed(
    folder: "str | Path | None", *, resume: bool = False
) -> Generator[None]:
    """Store the passes of fits on disk, so that a stopped fit can be resumed.

    A fit to data on disk reads all rows once or several times. Each time is a pass, and
    its result is stored.

    Parameters
    ----------
    folder : path or None
        Folder for the passes, created if it does not exist. None stores nothing.
    resume : bool
        Whether to use the stored passes, if there are any. The ``with`` block must run
        the same fits as the stopped run, in the same order, on the same data.

    Raises
    ------
    ValueError
        If the folder has passes and ``resume`` is False, or if another run has locked
        the folder. Within the ``with`` block, if a stored pass is unreadable or belongs
        to another run.
    OSError
        Within the ``with`` block, if a pass cannot be written. Earlier passes remain
        valid.

    Examples
    --------
    >>> import tempfile
    >>> from probmetric.large import checkpointed
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with checkpointed(folder):
    ...         ...  # TwoStageMixture(8).fit(pm.open("rows/*.parquet")), killed
    ...     with checkpointed(folder, resume=True):
    ...         ...  # The same fit again
    Ellipsis
    Ellipsis
    """
    if folder is None:
        if resume:
            raise ValueError("checkpoint must be a folder if resume=True, got None.")
        yield
        return
    folder = Path(folder)
    with locked(folder, "checkpoint"):
        stored = _stored(folder)
        if stored and not resume:
            raise ValueError(
                f"checkpoint: the folder {folder} already has {stored} saved passes "
                "over the data of a stopped fit. Set resume=True to continue this fit, "
                "or use an empty folder."
            )
        before, _State.journal = _State.journal, _Journal(folder, stored)
        try:
            yield
        finally:
            _State.journal = before


def _path(folder: Path, index: int) -> Path:
    return folder / f"pass_{index:05d}.npz"


def _stored(folder: Path) -> int:
    number = 0
    while _path(folder, number).exists():
        number += 1
    return number


def hash_of(source: Source) -> str:
    """Compute a hash of the name, the columns and the parts of a source."""
    text = repr((source.name, source.feature_names, [tuple(p) for p in source.parts]))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def kept[T](which: Pass, like: Callable[[], T], compute: Callable[[], T]) -> T:
    """Return the result of a pass: from the checkpoint if stored, otherwise computed.

    ``like()`` has the structure, shapes and dtypes of the result of ``compute()``.
    """
    if (journal := _State.journal) is None:
        return compute()
    index, journal.asked = journal.asked, journal.asked + 1
    if index < journal.stored:
        return _read(journal.folder, index, which, like())
    result = compute()
    _write(journal.folder, index, which, result)
    return result


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
        why = (
            f"{error.strerror or error}. Free the disk and set resume=True. The "
            f"{index} earlier passes are stored"
        )
        raise OSError(
            error.errno, f"checkpoint: could not write pass {index}: {why}", str(path)
        ) from error
    LOGGER.info("pass %d saved in %s", index, folder)


def _read[T](folder: Path, index: int, which: Pass, like: T) -> T:
    path = _path(folder, index)
    try:
        arrays = Archive(path).read()
        about = json.loads(str(arrays["about"]))
    except UNREADABLE as error:
        raise ValueError(
            f"checkpoint: the file {path} cannot be read ({type(error).__name__}: "
            f"{error}). Remove it and set resume=True to compute this pass and all "
            "later passes again."
        ) from error
    leaves, form = jax.tree.flatten(like)
    sums, params = (_listed(arrays, name) for name in ("sums:", "params:"))
    forms = [(tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in leaves]
    differences = {
        f"the step {about.get('step')} instead of {which.step}": which.step
        != about.get("step"),
        "other data": about.get("parts") != which.parts,
        "other parameters (another setting, seed or program)": not _close(
            params, _leaves(which.params)
        ),
        "sums of other shapes": [(a.shape, a.dtype) for a in sums] != forms,
    }
    for other, differs in differences.items():
        if differs:
            raise ValueError(
                f"checkpoint: the saved passes over the data in {folder} are from "
                f"another run (pass {index} has {other}). Use another folder."
            )
    return jax.tree.unflatten(form, sums)


def _listed(arrays: dict[str, np.ndarray], prefix: str) -> list[np.ndarray]:
    number = sum(name.startswith(prefix) for name in arrays)
    return [arrays[f"{prefix}{k}"] for k in range(number)]


def _close(stored: list[np.ndarray], now: list[np.ndarray]) -> bool:
    """Return whether stored parameters equal this run's, up to ``SAME``."""
    return [a.shape for a in stored] == [b.shape for b in now] and all(
        np.allclose(a, b, SAME, SAME * np.abs(b[np.isfinite(b)]).max(initial=0.0))
        for a, b in zip(stored, now, strict=True)
    )
