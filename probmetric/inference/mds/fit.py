"""Classical multidimensional scaling: coordinates from a matrix of dissimilarities.

For dissimilarities D (n, n), with C = I - 11ᵀ/n and D² entry by entry:

    M = -½ C D² C = V Λ Vᵀ                 (symmetric: real eigenvalues, M 1 = 0)   (1)
    Q = V_k Λ_k^½                          (largest *positive* eigenvalues)         (2)
    q = ½ Λ_k⁻¹ Q_kᵀ (diag(M) - d²)        (new object at dissimilarities d, Gower) (3)

Q minimizes the strain ‖M - QQᵀ‖_F over matrices Q of rank k. D is Euclidean if and only
if M is positive semi-definite, and then n - 1 dimensions reproduce D. Otherwise some
eigenvalues are *negative* (never complex, never missing: erratum P3), and the fit
reports their share of Σ|λ|. Two corrections add a constant to every off-diagonal entry
and make the smallest eigenvalue zero:

    Lingoes    D² + 2 |λ_min|                                                       (4)
    Cailliez   (D + c)²,  c = largest real eigenvalue of [[0, 2M], [-I, -4M₁]],
               M₁ = -½ C D C                                                        (5)

Errata of seed 003. P1: M = VΛVᵀ. P2: the average of the Gram matrices anchored at each
point is not classical MDS but M + ½ mean(D²) 11ᵀ; they are equal only after centering.
P3: see above. P4: all n eigenvectors reproduce D only if M is positive semi-definite.

There is no generative model, and no NumPyro model. The computation is one dense or
Lanczos eigenproblem in NumPy and SciPy, because JAX has no Lanczos solver.

References
----------
Torgerson, "Multidimensional scaling: I. Theory and method", Psychometrika 1952.
Gower, "Adding a point to vector diagrams in multivariate analysis", Biometrika 1968.
Cailliez, "The analytical solution of the additive constant problem", 1983.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh, eigvals

from probmetric.data.containers import Distances
from probmetric.inference.mds.spectrum import Solver, double_center, top_eigenpairs
from probmetric.inference.solvers.result import Fit
from probmetric.metric import Mahalanobis
from probmetric.typing import Array

type Correction = Literal["lingoes", "cailliez"] | None


class MDSParams(NamedTuple):
    """An embedding, and the affine map that embeds new objects.

    Let d² (n,) be the squared dissimilarities of a new object from the n objects. Its
    coordinates are the product of ``coefficients`` and ``self_terms - d²`` (Eq. 3).

    Attributes
    ----------
    embedding : array of shape (n, k)
        Coordinates Q. Each column is identified up to its sign, and columns of equal
        eigenvalues up to a rotation.
    eigenvalues : array of shape (k,)
        Eigenvalues in descending order, zero beyond the last positive eigenvalue.
    coefficients : array of shape (k, n)
    self_terms : array of shape (n,)
        Diagonal of M, the matrix of inner products of Eq. (1).
    constant : float
        Constant that the correction adds to D² (Lingoes) or D (Cailliez), or 0.
    min_eigenvalue : float
        Smallest eigenvalue of M *before* correction.
    negative_share : float
        Σ|λ₋| / Σ|λ| before correction, in [0, 1); NaN if the solver did not compute
        every eigenvalue.
    """

    embedding: Float[Array, "n k"]
    eigenvalues: Float[Array, "k"]
    coefficients: Float[Array, "k n"]
    self_terms: Float[Array, "n"]
    constant: float = 0.0
    min_eigenvalue: float = float("nan")
    negative_share: float = float("nan")


def additive_constant(D: Float[Array, "n n"], correction: Correction) -> float:
    """Compute the constant that a correction adds to D² or to D, Eqs. (4)-(5).

    The constant is zero if D is Euclidean. "cailliez" solves a dense eigenproblem of
    size 2n.
    """
    if correction is None:
        return 0.0
    M = double_center(np.square(D))
    scale = np.abs(np.diag(M)).max()
    lowest = float(eigh(M, eigvals_only=True, subset_by_index=[0, 0])[0])
    if lowest >= -len(M) * np.finfo(M.dtype).eps * scale:
        return 0.0
    if correction == "lingoes":
        return -2 * lowest
    zero, eye = np.zeros_like(M), np.eye(len(M), dtype=M.dtype)
    roots = eigvals(np.block([[zero, 2 * M], [-eye, -4 * double_center(D)]]))
    size = np.abs(roots).max()
    return float(roots.real[np.abs(roots.imag) <= 1e-7 * size].max())


def corrected_squares(
    D: Float[Array, "m n"], constant: float | int, correction: Correction
) -> Float[np.ndarray, "m n"]:
    """Compute the squared dissimilarities after a correction; zeros remain zero."""
    squares = np.square(np.asarray(D))
    if correction is None or constant == 0.0:
        return squares
    shifted = squares + (constant if correction == "lingoes" else 0.0)
    if correction == "cailliez":
        shifted = np.square(np.asarray(D) + constant)
    return np.where(squares > 0, shifted, 0.0)


def fit(
    data: Distances,
    n_components: int = 2,
    *,
    correction: Correction = None,
    solver: Solver = "auto",
    tol: float | int | None = None,
) -> Fit:
    """Embed objects from their dissimilarities (Eqs. 1-5).

    Parameters
    ----------
    data : Distances
        Dissimilarities D: symmetric, non-negative, zero on the diagonal. This function
        does not check D; the estimator does.
    n_components : int, default=2
        Number k of dimensions, from 1 to n. Dimensions without a positive eigenvalue
        have zero coordinates.
    correction : {None, "lingoes", "cailliez"}, default=None
        Constant added to D² or D that makes D Euclidean, Eqs. (4) and (5).
    solver : {"auto", "eigh", "lanczos"}, default="auto"
        Dense or Lanczos eigensolver. "auto" chooses by the size of D.
    tol : float, optional
        Eigenvalues up to ``tol`` times the largest eigenvalue are treated as zero. The
        default is n · eps.

    Returns
    -------
    Fit
        ``params`` is an ``MDSParams``. ``objective`` is -‖M - QQᵀ‖_F.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Distances
    >>> from probmetric.inference import mds
    >>> x = np.array([0.0, 1.0, 5.0])  # Points on a line, with mean 2
    >>> params = mds.fit(Distances(abs(x[:, None] - x)), 1).params
    >>> params.embedding.ravel().round(6).tolist()
    [-2.0, -1.0, 3.0]
    """
    D = np.asarray(data.D)
    tol = len(D) * float(np.finfo(D.dtype).eps) if tol is None else tol
    constant = additive_constant(D, correction)
    S = corrected_squares(D, constant, correction)
    values, vectors, lowest, share = top_eigenpairs(S, n_components, solver=solver)
    if constant > 0:  # Report the spectrum before the correction.
        _, _, lowest, share = top_eigenpairs(np.square(D), 1, solver=solver)
    keep = values > tol * max(values[0], 0.0)
    positive = np.where(keep, values, 0.0)
    root = np.sqrt(positive)
    # Eq. (3): ½ Λ⁻¹ Qᵀ = ½ Λ^{-½} Vᵀ, zero in the padded dimensions.
    inverse_root = np.divide(0.5, root, out=np.zeros_like(root), where=keep)
    rows = S.mean(1)
    # ‖M - QQᵀ‖² = ‖M‖² - Σ λ²; ‖M‖² = ¼ (‖S‖² - 2n‖rows‖² + n² mean²).
    n = len(S)
    norm2 = 0.25 * (np.vdot(S, S) - 2 * n * rows @ rows + (n * rows.mean()) ** 2)
    params = MDSParams(
        embedding=vectors * root,
        eigenvalues=positive,
        coefficients=(vectors * inverse_root).T,
        self_terms=rows - rows.mean() / 2,  # diag(M) with a zero diagonal of D
        constant=constant,
        min_eigenvalue=lowest,
        negative_share=share,
    )
    strain = np.maximum(norm2 - positive @ positive, 0.0)
    return Fit.closed(params, -np.sqrt(strain))


def embed_new(params: MDSParams, squares: Float[Array, "m n"]) -> Float[Array, "m k"]:
    """Embed new objects from squared dissimilarities to the n objects, Eq. (3).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Distances
    >>> from probmetric.inference import mds
    >>> x = np.array([0.0, 1.0, 5.0])
    >>> params = mds.fit(Distances(abs(x[:, None] - x)), 1).params
    >>> squares = (np.array([[3.0], [6.0]]) - x) ** 2
    >>> mds.embed_new(params, squares).ravel().round(6).tolist()  # 3 - 2 and 6 - 2
    [1.0, 4.0]
    """
    return (params.self_terms - squares) @ params.coefficients.T


def to_metric(params: MDSParams) -> Mahalanobis:
    """Convert a fit to a metric on rows d² of squared dissimilarities, Eq. (3)."""
    return Mahalanobis(params.coefficients)
