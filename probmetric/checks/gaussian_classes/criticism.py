"""Gaussian classes compared with their data: tails, skewness, clusters, labels.

Covariances are "full", "tied" or "diagonal" (``models.gaussian_classes``). A fit uses
only these statistics of the data: the class sizes, the class means and scatter matrices
S = Σ r rᵀ of the residuals r (for each class, pooled, or only the diagonals). The
residuals of one S are U S^(1/2), where U has orthonormal columns. If classes are
Gaussian,

    U is uniform over orthonormal matrices that are centered in each class,         (1)

independent of means and S. (For "diagonal", the columns of U are independent unit
vectors.) A replicate is a new U with the means and S of the data. Under any prior, the
fit to a replicate equals the fit to the data. So no refit is needed, and p-values are
exact for all parameters and sizes.

Only the leading k principal components of S are used, at most ``MOST`` and a third of
the degrees of freedom. The components depend only on S, so p-values remain exact. Let u
be a row of U, q = √f u for f degrees of freedom, and n_c the number of points in the
class. The statistics are

*tails*         held-out log density: with Jeffreys' prior the density of a point given
                the other points is proportional to
                (1 - h)^((f-1)/2),  h = |u|² n_c/(n_c - 1);                         (2)
*skewness*      ‖E q⊗q⊗q‖² (Mardia): all third moments, which detects curved classes;
*clusters*      the smallest kurtosis over directions, by gradient descent from the
                principal components: 3 for a normal, 1 for two equal clusters;
*labels*        the third moment in the direction of the means of other classes, where
                mislabeled points lie;
*covariances*   ("tied") Σ_c n_c ‖E_c qqᵀ - I‖²;
*correlations*  ("diagonal") Σ n_c r² over pairs of features.

References
----------
Mardia, "Measures of multivariate skewness and kurtosis with applications", 1970.
Lindqvist and Taraldsen, "Monte Carlo conditioning on a sufficient statistic", 2005.
"""

import json
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from probmetric.checks.criticism import Finding
from probmetric.data.containers import Labeled
from probmetric.data.hash import canonical_order
from probmetric.estimators._learner import no_rows

MOST, MOST_ROWS, N_REPLICATES, N_STEPS = 10, 2000, 999, 6
"""Largest numbers of components and rows; numbers of replicates and descent steps."""

MEMORY = 200_000
"""Numbers in one block of replicates."""

PARTS = {
    "tails": (
        0.01,
        "held-out log density is {gap:+.2f} per point relative to Gaussian classes",
        "A negative value means points far from their class, a positive value short "
        "tails. Look for outliers, or transform features. Do not use the densities. "
        "Take probabilities from votes (KNeighborsClassifier).",
    ),
    "skewness": (
        0.3,
        "third moments of the classes exceed those of Gaussian classes by {gap:.2f} "
        "(root mean square)",
        "Classes are skewed or curved. Transform features (logarithms), or take "
        "probabilities from votes (KNeighborsClassifier).",
    ),
    "clusters": (
        0.1,
        "the smallest kurtosis within classes differs by {gap:+.2f} from Gaussian "
        "classes",
        "A negative value means that classes have clusters or sharp edges. Split these "
        "classes, or use DCAGM, whose classes are mixtures.",
    ),
    "labels": (
        0.1,
        "skewness towards other classes is {gap:+.2f} relative to Gaussian classes",
        "Points of a class lie near other classes. Look for wrong labels.",
    ),
    "covariances": (
        0.2,
        "covariances of classes differ by {gap:.2f} from their mean",
        "Classes differ in their covariance. Use GaussianClasses or GLML with "
        "covariance='full'.",
    ),
    "correlations": (
        0.1,
        "features correlate by {gap:.2f} within classes",
        "Features are correlated within classes. Use covariance='full' or 'tied'.",
    ),
}
"""Size that matters, result and remedy of each part."""

SURPRISE = {"tails": np.abs, "clusters": np.negative}
"""Transforms of differences from replicates. Large positive results are surprising."""


class Block(NamedTuple):
    """Rows that share a scatter matrix: U, classes, their sizes, and directions.

    ``toward`` (c, k, C - 1) has unit vectors from the mean of each class to the others.
    ``independent``: each column of U is replicated by itself ("diagonal").
    """

    U: Float[np.ndarray, "n k"]
    codes: Int[np.ndarray, "n"]
    sizes: Int[np.ndarray, "c"]
    toward: Float[np.ndarray, "c k m"]
    independent: bool

    @property
    def free(self) -> int:
        """Degrees of freedom f of the scatter matrix."""
        return len(self.codes) - len(self.sizes)


def criticize(fit: Any, *, seed: int = 0) -> list[Finding]:
    """Return the parts of ``check_model`` for Gaussian classes, or for their draws."""
    X, y, covariance = _fitted_data(fit)
    rng = np.random.default_rng(seed)
    order = canonical_order(X, y)
    if len(order) > MOST_ROWS:
        order = rng.choice(order, MOST_ROWS, replace=False)
    blocks = blocks_of(X[order], y[order], covariance)
    if not blocks:
        raise ValueError(
            "fit must have at least 4 complete rows in a class, or 4 more complete "
            f"rows than classes if covariance='tied', got {len(y)} rows"
        )
    n = sum(len(block.codes) for block in blocks)
    observed = _total([_sums(block, block.U[None]) for block in blocks], n)
    size = max(1, MEMORY // (n * MOST))
    drawn = [
        _total([_sums(b, replicated(b, m, rng)) for b in blocks], n)
        for begin in range(0, N_REPLICATES, size)
        for m in (min(size, N_REPLICATES - begin),)
    ]
    findings: list[Finding] = []
    for part, (matters, summary, remedy) in PARTS.items():
        if part not in observed:
            continue
        value = float(observed[part][0])
        replicates = np.concatenate([values[part] for values in drawn])
        middle, sd = replicates.mean(), replicates.std()
        gap, measure = value - middle, SURPRISE.get(part, np.positive)
        exceeds = measure(replicates - middle) >= measure(gap)
        p = (1 + int(np.sum(exceeds))) / (1 + len(replicates))
        if part in ("skewness", "covariances", "correlations"):
            gap = np.sqrt(max(gap, 0.0))  # Statistics are mean squares.
        z, summary = (
            float((value - middle) / sd),
            f"{summary.format(gap=gap)} (p = {p:.2g})",
        )
        findings.append(Finding(part, z, p, float(abs(gap)), matters, summary, remedy))
    return findings


def _fitted_data(
    fit: Any,
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "n"], str]:
    """Return the complete rows, classes and covariance that a fit or its draws used."""
    if isinstance(fit, xr.DataTree):
        data = {**fit["constant_data"].data_vars}
        if "observed_data" in fit.children:
            data |= fit["observed_data"].data_vars
        X, y = data["X"].to_numpy(), data["y"].to_numpy()
        covariance, w = (
            json.loads(fit.attrs["model_arguments"])["covariance"],
            data.get("w"),
        )
    elif hasattr(fit, "covariance"):  # Gaussian classes or GLML.
        if getattr(fit, "n_components", 1) != 1:
            raise ValueError("fit must have n_components=1, got mixtures of Gaussians")
        X, y, covariance = fit._found.points, fit._found.codes, fit.covariance
        w = fit._found.data.w
    else:
        found = fit._found[0] if fit._found else Labeled(np.empty((0, 1)), np.empty(0))
        X, y = fit.mean_ + np.asarray(found.X) * fit.scale_, np.asarray(found.y)
        covariance, w = "tied", found.w
    if w is not None:
        raise ValueError(
            "fit must not use sample_weight, got weights. Fit again without weights."
        )
    if not len(X):
        raise no_rows("check_model")
    complete = ~np.isnan(X).any(1)
    return X[complete], np.asarray(y)[complete].astype(int), covariance


def blocks_of(
    X: Float[np.ndarray, "n d"], y: Int[np.ndarray, "n"], covariance: str
) -> list[Block]:
    """Return the rows of each scatter matrix, without classes of too few rows."""
    y = np.unique(y, return_inverse=True)[1]
    C, sizes = int(y.max()) + 1, np.bincount(y)
    mean = np.stack([X[y == c].mean(0) for c in range(C)])
    R = X - mean[y]
    sd = np.sqrt(np.mean(R**2, 0))
    varied = sd > 1e-9 * np.maximum(np.abs(X).max(0), np.finfo(float).tiny)
    R, mean = R[:, varied] / sd[varied], mean[:, varied] / sd[varied]
    groups = [np.arange(C)] if covariance == "tied" else list(np.arange(C)[:, None])
    blocks: list[Block] = []
    for classes in groups:
        classes = classes[sizes[classes] > 1]
        rows = np.isin(y, classes)
        r = R[rows]
        S = r.T @ r
        S = np.diag(np.diag(S)) if covariance == "diagonal" else S
        value, axes = (a[..., ::-1] for a in np.linalg.eigh(S))
        k = np.flatnonzero(value > 1e-9 * value.max(initial=0))
        k = k[: min(MOST, (len(r) - len(classes)) // 3)]
        if not len(k):
            continue
        whitening = axes[:, k] / np.sqrt(value[k])
        toward = (mean[None] - mean[classes, None]) @ whitening
        length = np.linalg.norm(toward, axis=2, keepdims=True)
        toward = toward / np.where(length > 0, length, 1)
        toward, codes = np.swapaxes(toward, 1, 2), np.searchsorted(classes, y[rows])
        independent = covariance == "diagonal"
        U = r @ whitening
        blocks.append(Block(U, codes, sizes[classes], toward, independent))
    return blocks


def replicated(
    block: Block, n: int, rng: np.random.Generator
) -> Float[np.ndarray, "s n k"]:
    """Draw n matrices U by Eq. (1)."""
    E = rng.standard_normal((n, *block.U.shape))
    for c in range(len(block.sizes)):
        rows = block.codes == c
        E[:, rows] -= E[:, rows].mean(1, keepdims=True)
    if block.independent:
        return E / np.sqrt(np.sum(E**2, 1, keepdims=True))
    root = np.linalg.cholesky(np.swapaxes(E, 1, 2) @ E)
    return np.swapaxes(np.linalg.solve(root, np.swapaxes(E, 1, 2)), 1, 2)


def _sums(block: Block, U: Float[np.ndarray, "s n k"]) -> dict[str, np.ndarray]:
    """Return the statistics of a block, times its rows, for each U."""
    n, k = U.shape[1:]
    q = U * np.sqrt(block.free)
    share = block.sizes / (block.sizes - 1.0)
    u2 = U**2 if block.independent else np.sum(U**2, 2, keepdims=True)
    left = np.maximum(1 - u2 * share[block.codes][:, None], 1e-300)
    sums = {"tails": (block.free - 1) / 2 * np.sum(np.log(left), (1, 2))}
    flat = np.swapaxes(q, 1, 2)
    a, b = np.triu_indices(k)
    third = flat @ (q[:, :, a] * q[:, :, b])
    sums["skewness"] = np.sum(third * third, 1) @ np.where(a == b, 1.0, 2.0) / n
    w = np.broadcast_to(np.eye(k), (len(U), k, k))
    for _ in range(N_STEPS):
        t = q @ w
        w = 6 * w - flat @ (t * t * t) / n
        w = w / np.linalg.norm(w, axis=1, keepdims=True)
    t = np.square(q @ w)
    sums["clusters"] = n * np.min(np.mean(t * t, 1) / np.mean(t, 1) ** 2, 1)
    towards, unequal = np.zeros(len(U)), np.zeros(len(U))
    for c, size in enumerate(block.sizes):
        own = q[:, block.codes == c]
        projected = own @ block.toward[c]
        cubes = np.sum(projected * projected * projected, (1, 2))
        towards += cubes / max(block.toward.shape[2] - 1, 1)
        S = np.swapaxes(own, 1, 2) @ own / (size - 1) - np.eye(k)
        unequal += size * np.sum(S**2, (1, 2))
    sums["labels"] = towards
    if len(block.sizes) > 1:
        sums["covariances"] = unequal
    if block.independent:
        sums["correlations"] = unequal / 2  # The diagonal of S is 1.
    return sums


def _total(sums: list[dict[str, np.ndarray]], n: int) -> dict[str, np.ndarray]:
    return {part: np.sum([s[part] for s in sums], 0) / n for part in sums[0]}
