"""Solvers, and the result of a fit.

``result``         ``Fit``: parameters, objective, ``Result`` code, steps and trace.
                   ``REMEDY``: the remedy for each code.
``em``             ``run_em``: EM that stops by the estimated gap (1).
``lbfgs``          SciPy's L-BFGS with gradients from JAX, for one fit.
``lbfgs_traced``   L-BFGS as a traced loop, for fits inside a compiled program.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
