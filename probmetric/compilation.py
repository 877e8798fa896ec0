"""Disk cache of compiled programs, and a limit for compiled programs in memory.

JAX compiles a program for every function and shape. ``compilation_cache`` turns on
JAX's persistent cache for a block, and restores JAX's options afterwards. Library code
never turns the cache on, but the command line turns it on in its own process. This is
the only module that sets options of JAX.

JAX keeps every compiled program in memory, and each program needs many memory maps.
Linux allows 65530 maps per process. If a process needs more, the compiler crashes.
``bound_programs`` clears JAX's caches long before this limit.
"""

import ctypes
import gc
import os
import platform
import shutil
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

VARIABLE = "PROBMETRIC_CACHE"
OFF = ("", "0", "off")
PROCESSOR = Path("/proc/cpuinfo")
PROGRAMS = "compiled-by-jax-"
STORE_ALL: dict[str, object] = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}

_LEAST = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS", "").lower()

COMPILED_SOON = {
    "xla_backend_optimization_level": int(
        _LEAST not in ("1", "on", "t", "true", "y", "yes")
    )
}
"""Compiler options of a long program that spends its time in LAPACK.

The program compiles faster and runs equally fast. Results differ only by rounding. A
program with options cannot be called inside another program. The options override
JAX_DISABLE_MOST_OPTIMIZATIONS, so this environment variable is read here.
"""

COMPILED_SOONEST = {"xla_backend_optimization_level": 0}
"""Compiler options of a long program that runs once per fit, for milliseconds.

Random gamma and normal variates compile in a third of the time and run half as fast.
"""


def cache_folder() -> Path | None:
    """Return the folder of the cache, or None if the cache is disabled.

    The environment variable PROBMETRIC_CACHE sets the folder. The values "", "0" and
    "off" disable the cache. By default the folder is ``probmetric`` in the user's cache
    folder: XDG_CACHE_HOME or ~/.cache on Linux, ~/Library/Caches on macOS, LOCALAPPDATA
    on Windows. If there is no home folder, RuntimeError is raised.
    """
    setting = os.environ.get(VARIABLE)
    if setting is not None:
        return None if setting.lower() in OFF else Path(setting).expanduser().absolute()
    if sys.platform == "darwin":
        base = "~/Library/Caches"
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    else:
        # The XDG specification requires relative paths to be ignored.
        xdg = os.environ.get("XDG_CACHE_HOME", "")
        base = xdg if os.path.isabs(xdg) else "~/.cache"
    return Path(base).expanduser() / "probmetric"


def _subfolder() -> str:
    """Return a name for the processor, which is not part of JAX's cache keys."""
    try:
        lines = PROCESSOR.read_text().splitlines()
        kinds = ("model name", "flags", "Features", "CPU part")
        features = "\n".join(sorted({x for x in lines if x.startswith(kinds)}))
    except OSError:
        features = platform.processor()
    digest = blake2b(features.encode(), digest_size=6).hexdigest()
    return f"{PROGRAMS}{platform.machine()}-{digest}"


@contextmanager
def compilation_cache(
    folder: str | os.PathLike[str] | None = None,
) -> Generator[Path | None]:
    """Cache compiled JAX programs on disk, within a ``with`` statement.

    Later processes then load the programs instead of compiling them again. Results do
    not change.

    Parameters
    ----------
    folder : path, optional
        Folder of the cache. Default: the first of these that is set:

        - the environment variable PROBMETRIC_CACHE,
        - the compilation cache of JAX,
        - the folder ``probmetric`` in the user's cache folder, which the command
          ``probmetric cache`` prints.

    Yields
    ------
    Path or None
        Folder of the programs. Without ``folder``, it may be None: the variable
        PROBMETRIC_CACHE is "off", JAX already has a cache, or the default folder cannot
        be used.

    Notes
    -----
    Anyone who can write to the folder can run code in processes that read it. The
    folder is therefore created for its owner only. The folder grows until ``probmetric
    cache --clear`` removes the programs. Options of JAX apply to the whole process, so
    other threads also use the cache.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import probmetric as pm
    >>> with TemporaryDirectory() as folder, pm.compilation_cache(folder) as place:
    ...     lca = pm.LCA().fit(*pm.datasets.load("wine"))
    >>> place.is_relative_to(folder)
    True
    """
    import jax

    stored = None
    if folder is not None:
        stored = Path(folder).expanduser().absolute() / _subfolder()
        stored.mkdir(mode=0o700, parents=True, exist_ok=True)
    elif VARIABLE in os.environ or not jax.config.jax_compilation_cache_dir:
        stored = _default_folder()
    if stored is None:
        yield None
        return
    options = {"jax_compilation_cache_dir": str(stored), **STORE_ALL}
    before = {name: getattr(jax.config, name) for name in options}
    _configure(options)
    try:
        yield stored
    finally:
        _configure(before)


def _default_folder() -> Path | None:
    try:
        folder = cache_folder()
        if folder is None:
            return None
        stored = folder / _subfolder()
        stored.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # Not writable, or no home folder.
        return None
    return stored if os.access(stored, os.W_OK) else None


def _configure(options: Mapping[str, object]) -> None:
    import jax
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    for name, value in options.items():
        jax.config.update(name, value)
    reset_cache()  # JAX reads the options only at the first compilation.


def stored_programs() -> tuple[int, int]:
    """Return the number of stored programs and their total size in bytes."""
    sizes = [p.stat().st_size for f in _folders() for p in f.glob("*-cache")]
    return len(sizes), sum(sizes)


def clear_cache() -> None:
    """Remove all stored programs, but no other files in the folder."""
    for stored in _folders():
        shutil.rmtree(stored, ignore_errors=True)


def _folders() -> list[Path]:
    folder = cache_folder()
    return [] if folder is None else list(folder.glob(f"{PROGRAMS}*"))


MOST_PROGRAMS = 150
"""Compilations before JAX's caches are cleared. A program needs 100 to 300 maps."""


class _Compiled:
    """Number of compilations since the caches were cleared; None before counting."""

    number: int | None = None


def _count(event: str, duration_secs: float, **_: object) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        _Compiled.number = (_Compiled.number or 0) + 1


def give_back() -> None:
    """Return free memory of small arrays to the operating system (glibc only)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def bound_programs() -> None:
    """Clear JAX's caches after ``MOST_PROGRAMS`` compilations.

    Public functions call ``bound_programs`` at their start. Cleared programs, including
    programs of the user, are compiled again at their next use. Results do not change.
    """
    import jax

    if _Compiled.number is None:
        _Compiled.number = 0
        jax.monitoring.register_event_duration_secs_listener(_count)
    if _Compiled.number >= MOST_PROGRAMS:
        _Compiled.number = 0
        jax.clear_caches()
        gc.collect()
        give_back()
