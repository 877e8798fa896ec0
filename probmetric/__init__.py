"""Distances learned from data as probability models.

The public names, each found in its module on first use: importing the package loads
neither JAX nor NumPy and changes no configuration.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
