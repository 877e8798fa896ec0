"""Programs compiled by JAX, kept on disk for the next process that needs them.

JAX compiles a program for every function and shape, and forgets it with the process.
Within ``compilation_cache`` it stores what it compiles, and looks there first. The
library never does so by itself; the command line does, in its own process.

A block works in a folder of its own that links to the stored programs, and adds its own
to them, whole, at its end: processes that share a cache never read half a file. The
programs lie in a subfolder named after the versions of JAX and the processor, for which
they were compiled. This is the only file that sets the configuration of JAX.

In memory JAX keeps every program, with some memory maps each, of which Linux allows a
process 65530; beyond them the compiler dies of a segmentation fault. ``bound_programs``
lets all of them go before that.
"""

import ctypes
import gc
import os
import platform
import shutil
import sys
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

VARIABLE = "PROBMETRIC_CACHE"
OFF = ("", "0", "off")
PROCESSOR = Path("/proc/cpuinfo")
WORKING = ".working-"
PART = "compiled-by-jax-"
STORE_ALL = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
ROOM = 2**24
"""Bytes that a disk must have left for what was written to count as whole."""

_LEAST = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS", "").lower()

COMPILED_SOON = {
    "xla_backend_optimization_level": int(
        _LEAST not in ("1", "on", "t", "true", "y", "yes")
    )
}
"""Options of a long program whose work is LAPACK's: compiled in four fifths of the
time, it runs as fast (local matrices of 512 queries, d = 48). By rounding alone do its
numbers change. A program with options is never called by another. Where the variable
tells JAX not to optimise, it does not here either: options go before the variable.
"""

COMPILED_SOONEST = {"xla_backend_optimization_level": 0}
"""Options of a long program that runs once a fit, for milliseconds.

Drawing gamma and normal variates is compiled in 1.9 s in place of 6.5, and runs two
times longer. Draws of a model's prior: 1.3 s in place of 3.5 (LCA), 2.9 of 8.7 (two
stages), and 27 ms in place of 9 for a thousand. Exact draws of three classes of 13
features: 1.3 s in place of 5.1, and .2 s in place of .1 for 4000. The first state of
NUTS's chains: 1.4 s in place of 2.1 (LCA), 2.4 of 3.6 (two stages).
"""

ABANDONED = 7 * 24 * 3600
"""Seconds after which the folder of a block that did not end is removed."""


def cache_folder() -> Path | None:
    """Return the folder of the cache; None where PROBMETRIC_CACHE disables it.

    That variable names it, or is empty, "0" or "off". Otherwise it is ``probmetric`` in
    the folder for such files: XDG_CACHE_HOME or ~/.cache, ~/Library/Caches on macOS,
    LOCALAPPDATA on Windows.

    Returns
    -------
    Path or None

    Raises
    ------
    RuntimeError
        Without a home folder.

    Examples
    --------
    >>> import os
    >>> os.environ["PROBMETRIC_CACHE"] = "off"
    >>> print(cache_folder())
    None
    """
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named.lower() in OFF else Path(named).expanduser().absolute()
    if sys.platform == "darwin":
        base = "~/Library/Caches"
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    else:
        # An XDG folder that is not absolute is to be ignored, its specification says.
        given = os.environ.get("XDG_CACHE_HOME", "")
        base = given if os.path.isabs(given) else "~/.cache"
    return Path(base).expanduser() / "probmetric"


def _subfolder() -> str:
    """Return a name for what compiled programs depend on and JAX does not look at."""
    try:
        lines = PROCESSOR.read_text().splitlines()
        kinds = ("model name", "flags", "Features", "CPU part")
        features = "\n".join(sorted({x for x in lines if x.startswith(kinds)}))
    except OSError:
        features = platform.processor()
    digest = blake2b(features.encode(), digest_size=6).hexdigest()
    versions = f"{version('jax')}-{version('jaxlib')}"
    return f"{PART}{versions}-{platform.machine()}-{digest}"


@contextmanager
def compilation_cache(
    folder: str | os.PathLike[str] | None = None,
) -> Generator[Path | None]:
    """Keep compiled programs on disk within a block.

    The first process compiles; later ones read what it stored, in less time. No result
    changes.

    Parameters
    ----------
    folder : path, optional
        Default: PROBMETRIC_CACHE if it is set, else a folder "probmetric" where the
        system keeps a user's caches (``probmetric cache`` shows it). Where no folder
        is given here or by PROBMETRIC_CACHE, a cache that was set up in JAX itself is
        left as it is.

    Yields
    ------
    Path or None
        Where programs are stored. None: the cache is disabled or was set up in JAX, or
        the default folder cannot be used, and the block runs without it.

    Raises
    ------
    OSError
        For a ``folder``, given here, that cannot be written.

    Notes
    -----
    Programs are stored at the end of the block; after an interrupt they are not.
    Whoever can write to the folder can run code in processes that read it: it is made
    for its owner alone. It grows until ``probmetric cache --clear`` empties it. JAX's
    configuration is the process's: other threads use the cache as well.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_wine
    >>> import probmetric as pm
    >>> with TemporaryDirectory() as folder, pm.compilation_cache(folder) as place:
    ...     lca = pm.LCA().fit(*load_wine(return_X_y=True))
    >>> place.is_relative_to(folder)
    True
    """
    import jax

    place = None
    if folder is not None:
        place = Path(folder).expanduser().absolute()
    elif VARIABLE in os.environ or not jax.config.jax_compilation_cache_dir:
        try:
            place = cache_folder()
        except RuntimeError:  # Without a home folder there is no default.
            if VARIABLE in os.environ:
                raise
    if place is None:
        yield None
        return
    stored = place / _subfolder()
    try:
        working = _working_folder(stored)
    except OSError:
        if folder is not None:
            raise
        yield None
        return
    try:
        with _configured(jax_compilation_cache_dir=str(working), **STORE_ALL):
            yield stored
    finally:
        with suppress(OSError):
            _publish(working, stored)
        shutil.rmtree(working, ignore_errors=True)


def _programs(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*-cache") if path.is_file()]


def _working_folder(stored: Path) -> Path:
    """Return a new folder in ``stored`` that links to the programs there."""
    stored.mkdir(mode=0o700, parents=True, exist_ok=True)
    working = Path(mkdtemp(prefix=WORKING, dir=stored))
    for other in stored.glob(f"{WORKING}*"):
        with suppress(OSError):
            if other.stat().st_mtime < time.time() - ABANDONED:
                shutil.rmtree(other, ignore_errors=True)
    for program in _programs(stored):
        with suppress(OSError):  # Not linked, it is compiled again.
            os.link(program, working / program.name)
    return working


def _publish(working: Path, stored: Path) -> None:
    """Move programs to where others find them, unless one may have been cut short."""
    full = shutil.disk_usage(working).free < ROOM
    if full or isinstance(sys.exception(), KeyboardInterrupt):
        return
    for program in _programs(working):
        os.replace(program, stored / program.name)


@contextmanager
def _configured(**settings: Any) -> Generator[None]:
    """Set options of JAX in a block, whatever it has compiled before."""
    import jax
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    def set_to(values: dict[str, Any]) -> None:
        for name, value in values.items():
            jax.config.update(name, value)
        reset_cache()  # JAX looks at its options once, at the first program.

    before = {name: getattr(jax.config, name) for name in settings}
    set_to(settings)
    try:
        yield
    finally:
        set_to(before)


def stored_programs() -> tuple[int, int]:
    """Return how many programs the cache holds, of all versions, and their bytes."""
    sizes = [path.stat().st_size for part in _parts() for path in _programs(part)]
    return len(sizes), sum(sizes)


def clear_cache() -> None:
    """Remove the stored programs of all versions, and nothing else in the folder."""
    for part in _parts():
        shutil.rmtree(part, ignore_errors=True)


def _parts() -> list[Path]:
    folder = cache_folder()
    return [] if folder is None else list(folder.glob(f"{PART}*"))


MAPS = Path("/proc/self/maps")
MOST_MAPS = 5_000
"""Memory maps of the process beyond which programs are let go."""

LOOK_EVERY = 20
"""Programs compiled between two looks at the maps, which take a few milliseconds."""


class _Compiled:
    """What JAX compiled since the last look; None before anybody counts."""

    number: int | None = None


def _count(event: str, duration_secs: float, **about: Any) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        _Compiled.number = (_Compiled.number or 0) + 1


def _warn_of_fork() -> None:
    """Say what a child made by fork may not do: JAX's threads are not copied to it."""
    warnings.warn(
        "this process has used probmetric, and so JAX, whose locks a forked child may "
        "wait for without end: start processes by "
        "multiprocessing.get_context('spawn'), or by joblib, or use probmetric in the "
        "children alone",
        RuntimeWarning,
        stacklevel=3,
    )


def give_back() -> None:
    """Give memory that is free back to the system, where its library can (glibc).

    What was many small arrays would stay with the process, beside the large one that
    was made of them.
    """
    if sys.platform == "linux":
        trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def bound_programs() -> None:
    """Let go of all compiled programs where the process has too many memory maps.

    Public functions call it as they begin. What is used again is compiled again, a
    user's own functions included; results do not change. Where there is no Linux to
    tell the maps it does nothing.
    """
    import jax

    if _Compiled.number is None:
        _Compiled.number = 0
        jax.monitoring.register_event_duration_secs_listener(_count)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_warn_of_fork)
    if _Compiled.number < LOOK_EVERY:
        return
    _Compiled.number = 0
    if not MAPS.exists():
        return
    with MAPS.open("rb") as lines:  # Some megabytes where they are many.
        many = sum(1 for _ in lines) > MOST_MAPS
    if many:
        jax.clear_caches()
        gc.collect()
        give_back()
