"""Load public names on first use, and old names with a warning.

``renamed.txt`` has a line "old new" for each public name that was moved or renamed. The
old name works for one more version.
"""

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.resources import files

import lazy_loader


@cache
def renamed() -> dict[str, str]:
    """Return the new name of each old name, as names with modules."""
    lines = files("probmetric").joinpath("renamed.txt").read_text("utf-8").splitlines()
    return dict(line.split() for line in lines)


def attach(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package with a stub."""
    getattr_stub, dir_, all_ = lazy_loader.attach_stub(package, file)

    def getattr_(name: str) -> object:
        old = f"{package}.{name}"
        if name.startswith("_") or name in all_ or old not in renamed():
            return getattr_stub(name)
        new = renamed()[old]
        warnings.warn(
            f"{old} will be removed in the next version. Use {new}.",
            DeprecationWarning,
            stacklevel=2,
        )
        module, _, attribute = new.rpartition(".")
        return getattr(import_module(module), attribute)

    return getattr_, dir_, all_
