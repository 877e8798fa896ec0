"""Other packages: versions that results depend on, and extras that are missing."""

from importlib.metadata import version
from importlib.util import find_spec

PACKAGES = ("probmetric", "jax", "numpyro", "arviz", "scikit-learn", "numpy")


def versions(*names: str) -> dict[str, str]:
    """Return the version of each package; by default of all that results depend on."""
    return {name: version(name) for name in names or PACKAGES}


def need(argument: str, extra: str, *modules: str) -> None:
    """Raise where a module of an extra is not installed; none is imported.

    Raises
    ------
    ModuleNotFoundError
        That names the extra.
    """
    for module in modules:
        if find_spec(module) is None:
            raise ModuleNotFoundError(
                f"{argument}: expected {module}, got none: install the extra "
                f"{extra!r} (in a checkout: pip install '.[{extra}]')",
                name=module,
            )
