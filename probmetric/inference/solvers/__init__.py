"""Solvers that every fit runs on, and the outcome of a fit.

``result``         ``Fit``: parameters, objective, ``Result`` code, steps, trace; and
                   ``REMEDY``, the sentence that goes with each code.
``em``             ``run_em``: EM, plain or SQUAREM, with the stop rule (1) on the
                   estimated gap.
``lbfgs``          SciPy's L-BFGS with gradients from JAX, for one fit.
``lbfgs_traced``   L-BFGS as a traced loop, for many small fits in one program.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
