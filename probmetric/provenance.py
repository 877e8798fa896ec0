"""Versions of packages that results depend on, and missing extras."""

from importlib.metadata import version
from importlib.util import find_spec

PACKAGES = ("probmetric", "jax", "numpyro", "arviz", "scikit-learn", "numpy")


def versions(*names: str) -> dict[str, str]:
    """Return package versions (default: all packages that results depend on)."""
    return {name: version(name) for name in names or PACKAGES}


def need(argument: str, extra: str, *modules: str) -> None:
    """Raise ModuleNotFoundError if a module is not installed, and name the extra."""
    for module in modules:
        if find_spec(module) is None:
            raise ModuleNotFoundError(
                f"{argument} requires {module}, which is missing: install the extra "
                f"{extra!r} (in a checkout: pip install '.[{extra}]')",
                name=module,
            )
