"""Distances learned from data as probability models.

Each public name is imported from its module on first use. Importing the package loads
neither JAX nor NumPy, and changes no configuration.
"""

from probmetric._lazy import attach

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
