"""Log densities that metrics, models and inference share.

Numbers in parentheses are the equations in the docstring of each file.

``gaussian``  the normal density from a Cholesky factor (1), with missing entries.
``classes``   mixtures of normal or Student-t components by class: density (1), score
              (2), Hessian (3), mixtures (4).
``pair``      one and two observations under the two-stage mixture: marginal (1), joint
              (2), joint by regression (3).
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
