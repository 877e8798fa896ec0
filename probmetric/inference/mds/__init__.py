"""Classical MDS: symbols, and the file that derives each equation.

Symbols. D (n, n) are dissimilarities, not squared; C = I - 11ᵀ/n; M = -½ C D² C = VΛVᵀ
with D² entry by entry; Q (n, k) are coordinates, and q are coordinates of a new object.

In reading order:

``fit``         Gram matrix (1), coordinates (2), Gower's formula (3), corrections
                (4)-(5).
``spectrum``    the eigenpairs of M, dense or by Lanczos.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
