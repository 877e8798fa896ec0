"""LDA and RCA: the metrics of Gaussian classes with one covariance.

The story is ``models.gaussian_classes`` with ``covariance="tied"``: μ_c, Σ ~ NIW,
x | y ~ N(μ_y, Σ). With n_c points, means x̄_c and scatters S_c a class, its posterior,
Eq. (1) of ``gaussian_classes.posterior``, has

    m_c = m + n_c/(κ + n_c) (x̄_c - m),                                             (1)
    Σ_W = E[Σ | data] = Ψ/(ν - d - 1),   ν = ν₀ + n,
    Ψ = Ψ₀ + Σ_c S_c + Σ_c κ n_c/(κ + n_c) (x̄_c - m)(x̄_c - m)ᵀ.                    (2)

``shrinkage_prior(T, s)`` is κ = 0 (flat means), Ψ₀ = s T, ν₀ = s + d + 1: the prior
mean of Σ is T, it counts as s points, and

    Σ_W = (S + s T)/(n + s),      s = 0: maximum likelihood.                       (3)

s may be chosen by the data (``choose_strength``): by folds, so that no learning, s = ∞,
is among what is tried. There Σ_W = T; a prior of ``KNOWN`` points stands for it.

With class weights π_c and Σ_B = Σ_c π_c (m_c - m̄)(m_c - m̄)ᵀ, LDA takes the k largest
solutions of

    Σ_B u = λ Σ_W u,      UᵀΣ_W U = I,      metric M = U Uᵀ,   k ≤ min(C - 1, d).   (4)

With k = C - 1 distances between class means under M are those under Σ_W⁻¹, exactly.
RCA is that whole metric, M = Σ_W⁻¹ (5): the classes enter as chunks only. It is (4)
with all d directions, of which d - C + 1 have λ = 0.

Errata of seed 003: P5: U is *not* orthonormal: Σ_W⁻¹Σ_B is not symmetric, its
eigenvectors are Σ_W-orthogonal. Orthonormalising keeps the span but multiplies
distances by factors that differ from pair to pair. P6: the span need not pass through
the class means (only Σ_W U does). P8: k ≤ min(C - 1, d).

One d × d eigenproblem on the host: NumPy and SciPy, where JAX brings nothing (it has
no generalised eigensolver).

Draws are exact and independent: of (π, μ, Σ) by Eq. (4) of
``gaussian_classes.posterior``, and each has its directions (4) or its Σ⁻¹ (5) (6).
With κ = 0 the prior is p(μ_c | Σ) ∝ |Σ|^(-1/2), the limit of N(m, Σ/κ), times
Σ ~ IW(s + d + 1, s T), at s = 0 improper; and π ~ Dirichlet(α). Of its posterior the
fit has the means of μ and Σ, and the mode of π. M is no mean of its draws:
E[Σ⁻¹] = Σ_W⁻¹ ν/(ν - d - 1).

References
----------
Fisher 1936; Bar-Hillel et al., "Learning a Mahalanobis metric from equivalence
constraints", JMLR 2005 (RCA).
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular, svd

from probmetric.data.containers import Labelled, weights
from probmetric.data.padding import pad_labelled
from probmetric.data.scaling import Scaler, constant_columns
from probmetric.inference.choose import choose_strength as choose_by_folds
from probmetric.inference.gaussian_classes.draws import sample as sample_classes
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    ClassStatistics,
    posterior,
    statistics,
)
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.solvers.result import Fit
from probmetric.linalg import row_signs
from probmetric.metric import Mahalanobis
from probmetric.models.gaussian_classes import NIWPrior
from probmetric.models.lda import LDAParams
from probmetric.neighbors.strength import STRENGTHS, Chosen
from probmetric.precision import native_arrays, numpy_in_numpy_out
from probmetric.typing import Array

KNOWN = 1e18
"""Points that a prior of infinite strength counts as: Σ_W = T to the last digit."""


def shrinkage_prior(target: Float[Array, "d d"], strength: float | int) -> NIWPrior:
    """Return the prior of Eq. (3): Σ has prior mean ``target``, worth s points.

    Parameters
    ----------
    target : array of shape (d, d)
        T, positive definite.
    strength : float
        s ≥ 0. Proper in Σ for s > 0; flat in the means. ∞ counts as ``KNOWN``.

    Examples
    --------
    E Σ = Ψ/(ν - d - 1) is the target:

    >>> import numpy as np
    >>> from probmetric.inference import lda
    >>> prior = lda.shrinkage_prior(np.diag([1.0, 4.0]), strength=5)
    >>> (prior.Psi / (prior.nu - 2 - 1)).tolist(), prior.kappa
    ([[1.0, 0.0], [0.0, 4.0]], 0.0)
    """
    T = np.asarray(target)
    strength = KNOWN if np.isinf(strength) else float(strength)
    return NIWPrior(
        mean=np.zeros(len(T), T.dtype),
        Psi=strength * T,
        kappa=0.0,
        nu=strength + len(T) + 1.0,
    )


def host_statistics(data: Labelled) -> ClassStatistics:
    """Return size, mean and, summed over classes, scatter (1, d, d) of the classes.

    Parameters
    ----------
    data : Labelled
        y in 0..C-1.

    Returns
    -------
    ClassStatistics
        Without means and scatter where a class has no weight.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import lda
    >>> X, y = np.array([[0.0], [2.0], [5.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> n, mean, scatter = lda.host_statistics(Labelled(X, y))
    >>> n.tolist(), mean.tolist(), scatter.tolist()
    ([2.0, 2.0], [[1.0], [7.0]], [[[10.0]]])
    """
    X, y = np.asarray(data.X), np.asarray(data.y)
    w = np.asarray(weights(data))
    size = np.bincount(y, w).astype(X.dtype)
    if size.min() <= 0:
        return ClassStatistics(size, np.zeros((0, 0)), np.zeros((0, 0, 0)))
    sums = np.stack([np.bincount(y, w * x) for x in X.T], 1).astype(X.dtype)
    mean = sums / size[:, None]
    delta = X - mean[y]
    return ClassStatistics(size, mean, ((delta * w[:, None]).T @ delta)[None])


def class_moments(
    data: Labelled | ClassStatistics, prior: NIWPrior
) -> tuple[Float[np.ndarray, "c"], Float[np.ndarray, "c d"], Float[np.ndarray, "d d"]]:
    """Return π (c,), m (c, d) and Σ_W (d, d) (Eqs. 1, 2).

    Parameters
    ----------
    data : Labelled or ClassStatistics
    prior : NIWPrior
        Of the tied model.

    Returns
    -------
    weights : array of shape (c,)
    mean : array of shape (c, d)
    within : array of shape (d, d)

    Raises
    ------
    ValueError
        When a class has no weight.

    Examples
    --------
    Without a prior Σ_W is the mean square about class means, 10/4; a prior of four
    points that says 1 moves it half the way:

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import lda
    >>> X, y = np.array([[0.0], [2.0], [5.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> for strength in (0, 4):
    ...     prior = lda.shrinkage_prior(np.eye(1), strength)
    ...     print(lda.class_moments(Labelled(X, y), prior)[2].tolist())
    [[2.5]]
    [[1.75]]
    """
    stats = host_statistics(data) if isinstance(data, Labelled) else data
    size, raw = np.asarray(stats.n), np.asarray(stats.mean)
    d, dtype = raw.shape[1], raw.dtype
    if size.min() <= 0:
        raise ValueError(
            f"y: expected a point of positive weight in every class, got none in class "
            f"{int(np.argmin(size))}"
        )
    m, kappa = np.asarray(prior.mean), float(prior.kappa)
    gap = raw - m
    pull = kappa * size / (kappa + size)
    Psi = (
        np.asarray(prior.Psi)
        + np.asarray(stats.scatter).sum(0)
        + (gap * pull[:, None]).T @ gap
    )
    df = float(prior.nu) + size.sum() - d - 1
    mean = m + (size / (kappa + size))[:, None] * gap
    counts = size + float(prior.alpha) - 1
    return counts / counts.sum(), mean.astype(dtype), (Psi / df).astype(dtype)


@native_arrays
def whitening(within: Float[Array, "d d"]) -> Float[np.ndarray, "d d"]:
    """Return L with LᵀL = Σ_W⁻¹ (Eq. 5), the inverse Cholesky root.

    Parameters
    ----------
    within : array of shape (d, d)
        Σ_W.

    Returns
    -------
    factor : array of shape (d, d)
        L, lower triangular.

    Raises
    ------
    ValueError
        When Σ_W is singular.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import lda
    >>> lda.whitening(np.diag([4.0, 16.0])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    root = _root(np.asarray(within))
    one = np.diag(np.ones_like(root[0]))
    return solve_triangular(root, one, lower=True)


def _root(within: np.ndarray) -> np.ndarray:
    """Return the Cholesky root of Σ_W, or say that it is singular."""
    d = len(within)
    singular = (
        "prior: expected a within-class covariance of full rank, got a singular one "
        f"(d = {d}): some direction does not vary within classes; use a prior of "
        "positive strength, or drop or combine features"
    )
    try:
        root = cholesky(within, lower=True)
    except LinAlgError as error:
        raise ValueError(singular) from error
    # Relative to each feature's own scale: pivots are conditional variances.
    pivots = np.diag(root) ** 2 / np.diag(within)
    if pivots.min() <= 10 * d * np.finfo(within.dtype).eps:
        raise ValueError(singular)
    return root


@native_arrays
def discriminants(
    weights: Float[Array, "c"],
    mean: Float[Array, "c d"],
    within: Float[Array, "d d"],
    k: int,
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k d"]]:
    """Return the k largest λ and the rows Uᵀ of Eq. (4).

    Σ_B has rank at most C - 1, so the problem is solved from its root: with
    Σ_W = RRᵀ and B the rows √π_c (m_c - m̄), the singular values of B R⁻ᵀ are √λ.
    With k = d the others are zero, and UUᵀ = Σ_W⁻¹.

    Parameters
    ----------
    weights : array of shape (c,)
        π.
    mean : array of shape (c, d)
    within : array of shape (d, d)
        Σ_W, positive definite.
    k : int
        1 to d.

    Returns
    -------
    eigenvalues : array of shape (k,)
        λ ≥ 0, falling.
    factor : array of shape (k, d)
        Uᵀ; the sign of a row is fixed, its largest entry is positive.

    Raises
    ------
    ValueError
        When Σ_W is singular.

    Examples
    --------
    Two classes 4 apart along the first feature, of variance ½ within: λ = 4/½, and the
    direction has length 1 under Σ_W.

    >>> import numpy as np
    >>> from probmetric.inference import lda
    >>> mean, within = np.array([[-2.0, 0.0], [2.0, 0.0]]), np.diag([0.5, 2.0])
    >>> values, U = lda.discriminants(np.array([0.5, 0.5]), mean, within, 1)
    >>> values.round(3).tolist(), abs(U).round(3).tolist()
    ([8.0], [[1.414, 0.0]])
    """
    root, pi = _root(np.asarray(within)), np.asarray(weights)
    rows = np.sqrt(pi)[:, None] * (mean - pi @ np.asarray(mean))
    whitened = solve_triangular(root, rows.T, lower=True).T
    every = k > min(whitened.shape)
    _, values, vectors = np.linalg.svd(whitened, full_matrices=every)
    factor = solve_triangular(root, vectors[:k].T, lower=True, trans=1).T
    values = np.pad(values, (0, max(0, k - len(values))))
    return values[:k] ** 2, row_signs(factor) * factor


def fit(
    data: Labelled | ClassStatistics,
    prior: NIWPrior | None = None,
    n_components: int | None = None,
) -> Fit:
    """Fit LDA (Eqs. 1-4).

    Parameters
    ----------
    data : Labelled or ClassStatistics
        y in 0..C-1, every class with a positive weight; or what rows that are streamed
        (``moments``) say of them.
    prior : NIWPrior, optional
        Of the tied model. Default: flat, ``shrinkage_prior(I, 0)``.
    n_components : int, optional
        k, 1 to min(C - 1, d), which is the default.

    Returns
    -------
    Fit
        ``params`` is an ``LDAParams``; ``objective`` the trace criterion Σλ.

    Raises
    ------
    ValueError
        When k is too large, a class is empty, or Σ_W is singular.

    Examples
    --------
    Class means are at distance 4/√½ = 5.657 under the metric, which sees the first
    feature alone:

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import lda
    >>> cross = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> X, y = np.vstack([cross - [2, 0], cross + [2, 0]]), np.repeat([0, 1], 4)
    >>> found = lda.fit(Labelled(X, y))
    >>> gap = found.params.factor @ (found.params.mean[1] - found.params.mean[0])
    >>> round(float(found.objective), 3), abs(gap).round(3).tolist()
    (8.0, [5.657])
    """
    if prior is None:
        rows = np.asarray(data.X if isinstance(data, Labelled) else data.mean)
        prior = shrinkage_prior(np.eye(rows.shape[1], dtype=rows.dtype), 0.0)
    pi, mean, within = class_moments(data, prior)
    most = min(len(pi) - 1, len(within))
    values, factor = discriminants(pi, mean, within, most)
    every = LDAParams(factor, values, mean, within, pi)
    params = every if n_components is None else leading(every, n_components)
    return Fit.closed(params, params.eigenvalues.sum())


def whole(data: Labelled | ClassStatistics, prior: NIWPrior) -> LDAParams:
    """Return a fit with all d directions: of its metric Σ_W⁻¹ the first are LDA's.

    Raises
    ------
    ValueError
        As ``fit``.

    Examples
    --------
    All directions make the metric Σ_W⁻¹, here with Σ_W = diag(½, 2):

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import lda
    >>> cross = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> X, y = np.vstack([cross - [2, 0], cross + [2, 0]]), np.repeat([0, 1], 4)
    >>> params = lda.whole(Labelled(X, y), lda.shrinkage_prior(np.eye(2), 0))
    >>> np.diag(params.factor.T @ params.factor).round(3).tolist()
    [2.0, 0.5]
    """
    pi, mean, within = class_moments(data, prior)
    values, factor = discriminants(pi, mean, within, len(within))
    return LDAParams(factor, values, mean, within, pi)


def choose_strength(
    data: Labelled,
    target: Float[Array, "d d"],
    n_components: int | None = None,
    *,
    chunks: bool = False,
) -> Chosen:
    """Choose s of Eq. (3) by the votes of neighbours in folds (``neighbors.strength``).

    Parameters
    ----------
    data : Labelled
        Unweighted.
    target : array of shape (d, d)
        T.
    n_components : int, optional
        Directions of LDA. Default: all that tell classes apart; with s = ∞ all d, so
        that not to learn is to measure under T⁻¹.
    chunks : bool, default=False
        Choose for RCA's metric (5) and not for LDA's.

    Examples
    --------
    Beside classes 3 apart the target I sees noise of size 10. Keeping it (s = ∞) is no
    better than a coin, whose loss is log 2 = .69; what is learned tells them apart:

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import lda
    >>> y = np.arange(20) % 2
    >>> X = np.random.default_rng(0).normal(size=(20, 2)) * [1.0, 10.0]
    >>> X[:, 0] += 3 * y
    >>> found = lda.choose_strength(Labelled(X, y), np.eye(2))
    >>> found.strength, found.losses[[0, -1]].round(2).tolist()
    (1.0, [0.68, 0.01])
    """
    X, y, T = np.asarray(data.X), np.asarray(data.y), np.asarray(target)

    def learn(rows: np.ndarray) -> list[np.ndarray]:
        pi, mean, scatter = class_moments(
            Labelled(X[rows], y[rows]), shrinkage_prior(T, 0.0)
        )
        # VᵀTV = I and VᵀSV = nΛ whiten (3) for every s.
        values, V = eigh(scatter, T)
        values = np.maximum(values, 0.0)  # Which rounding may miss.
        between = (np.sqrt(pi)[:, None] * (mean - pi @ mean)) @ V
        k = n_components or min(len(pi) - 1, len(T))
        maps: list[np.ndarray] = []
        for s in (min(s, KNOWN) for s in STRENGTHS):
            root = np.sqrt((len(rows) + s) / (len(rows) * values + s))
            factor = root[:, None] * V.T
            if not chunks and (s < KNOWN or n_components is not None):
                factor = svd(between * root, full_matrices=False)[2][:k] @ factor
            maps.append(factor)
        return maps

    return choose_by_folds(learn, X, y)


def leading(params: LDAParams, k: int) -> LDAParams:
    """Return the k leading directions of a fit that has all min(C - 1, d).

    Raises
    ------
    ValueError
        When k is not 1 to that number.

    Examples
    --------
    Three classes in two dimensions have two directions; the first has the larger λ:

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import lda
    >>> cross = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> X = np.vstack([cross, cross + [6, 0], cross + [3, 3]])
    >>> both = lda.fit(Labelled(X, np.repeat([0, 1, 2], 4))).params
    >>> one = lda.leading(both, 1)
    >>> both.eigenvalues.round(3).tolist(), one.eigenvalues.round(3).tolist()
    ([12.0, 4.0], [12.0])
    """
    (c, d), most = params.mean.shape, len(params.factor)
    if not 1 <= k <= most:
        raise ValueError(
            f"n_components: expected 1 to min(C - 1, d) = {most} (C = {c} classes, "
            f"d = {d} features), got {k}"
        )
    return params._replace(factor=params.factor[:k], eigenvalues=params.eigenvalues[:k])


def sample(
    data: Labelled,
    prior: NIWPrior,
    scaler: Scaler,
    *,
    n_components: int | None,
    **how: Any,
) -> xr.DataTree:
    """Return exact, independent draws of the classes and of M (Eq. 6), in input units.

    Parameters
    ----------
    data : Labelled
        In the units that ``scaler`` leads back from, as the prior.
    prior : NIWPrior
        Of the tied model.
    scaler : Scaler
    n_components : int or None
        Directions k of a draw's M = UUᵀ; None for Σ⁻¹, that of RCA.
    **how
        ``names``, ``classes``, ``seed``, ``n_draws`` and ``n_chains``, as
        ``gaussian_classes.draws.sample``.

    Returns
    -------
    DataTree
        Posterior of weights (class), mean (class, feature), covariance (all_classes,
        feature, feature_bis) and M (feature, feature_bis); one chain.

    Examples
    --------
    Draws of M; the second feature, which never varied, has no weight in any:

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.data.scaling import Scaler
    >>> from probmetric.inference import lda
    >>> X, y = np.ones((4, 2)), np.array([0, 0, 1, 1])
    >>> X[:, 0] = 0.0, 2.0, 5.0, 9.0
    >>> prior = lda.shrinkage_prior(np.eye(2), 4)
    >>> as_is = Scaler(np.zeros(2), np.ones(2))
    >>> how = {"n_components": 1, "n_draws": 5, "n_chains": 1}
    >>> M = lda.sample(Labelled(X, y), prior, as_is, **how)["posterior"]["M"].values
    >>> bool(np.all(M[..., 0, 0] > 0)), float(abs(M[..., 1, :]).max())
    (True, 0.0)
    """
    with jax.enable_x64(True):
        post = _posterior(pad_labelled(data), prior, int(np.asarray(data.y).max()) + 1)
    shown = data._replace(X=scaler.mean + np.asarray(data.X) * scaler.scale)
    arguments = {"prior": prior, "covariance": "tied"}
    tree = sample_classes(post, scaler, shown, arguments=arguments, **how)
    drawn = joined(tree)
    # All draws at once: ``whitening`` and ``discriminants`` of each take seconds.
    root = np.linalg.cholesky(drawn["covariance"][:, 0])
    factor = np.linalg.solve(root, np.eye(root.shape[1]))
    if n_components is not None:
        pi, mean = drawn["weights"][..., None], drawn["mean"]
        rows = np.sqrt(pi) * (mean - np.sum(pi * mean, 1, keepdims=True))
        vectors = np.linalg.svd(rows @ factor.mT, full_matrices=False)[2]
        factor = vectors[:, :n_components] @ factor
        tree.attrs["n_components"] = n_components
    # What never varied has no weight, whatever the prior gives it.
    factor = np.where(constant_columns(np.asarray(data.X)), 0.0, factor)
    axes = ("chain", "draw", "feature", "feature_bis")
    M = (factor.mT @ factor)[None]
    tree["posterior"] = tree["posterior"].to_dataset().assign(M=(axes, M))
    return tree


@numpy_in_numpy_out
@jax.jit(static_argnames="n_classes")
def _posterior(data: Labelled, prior: NIWPrior, n_classes: int) -> ClassPosterior:
    """Return the posterior of the classes, in one compiled program."""
    return posterior(statistics(data, n_classes), prior, covariance="tied")


def metrics(draws: xr.DataTree) -> list[Mahalanobis] | None:
    """Return one metric a draw of M; None where none was drawn.

    The attribute ``n_components`` of draws, where they have it, bounds M's rank.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from probmetric.inference import lda
    >>> M = np.diag([4.0, 9.0]) * np.array([1.0, 4.0])[None, :, None, None]
    >>> axes = ("chain", "draw", "feature", "feature_bis")
    >>> draws = xr.DataTree.from_dict({"posterior": xr.Dataset({"M": (axes, M)})})
    >>> [float(one.distance([0.0, 0.0], [1.0, 0.0])) for one in lda.metrics(draws)]
    [2.0, 4.0]
    """
    values = joined(draws)
    if "M" not in values:
        return None
    rank = draws.attrs.get("n_components")
    return mahalanobis(values["M"], rank=None if rank is None else int(rank))
