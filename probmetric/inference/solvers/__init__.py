"""Solvers, and the result of a fit.

``result``         ``Fit``: parameters, objective, ``Result`` code, steps, trace; and
                   ``REMEDY``, the remedy for each code.
``em``             ``run_em``: EM with the stopping rule (1) on the
                   estimated gap.
``lbfgs``          SciPy's L-BFGS with gradients from JAX, for one fit.
``lbfgs_traced``   L-BFGS as a traced loop, for many small fits in one program.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
