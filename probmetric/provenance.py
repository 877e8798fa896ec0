"""What a result depends on beside its data: the versions of packages."""

from importlib.metadata import version

PACKAGES = ("probmetric", "jax", "numpyro", "arviz", "scikit-learn", "numpy")


def versions(*names: str) -> dict[str, str]:
    """Return the version of each package; by default of all that results depend on."""
    return {name: version(name) for name in names or PACKAGES}
