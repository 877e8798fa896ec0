"""LCA compared with its data: prior, binned pair labels, held-out P(same).

Symbols are defined in ``inference.lca.likelihood``. θ = (vec W, log b) has mode θ̂ and
covariance Σ = H⁻¹ (Laplace). P_i is e^{-t_i}, and η is the learning rate.

*Prior.* Under the model, the variance of a posterior mean about the prior mean is the
prior variance minus the expected posterior variance. In units of the prior sd (c/√λ for
an entry of W; normal scores of b), with m the posterior mean,

    ‖m‖² ~ Σ_k e_k χ²_1,     e_k the eigenvalues of I - Σ in these units,         (1)

for W, where the sum is approximated by a scaled χ². For b, m/√(1 - Var z_b) ~ N(0, 1).
The size is the largest power-scaling sensitivity of b and of distances to the priors of
W and b. A size of 0.05 or more matters.

*Predictive.* With e = y - P(θ̂) and indicators B of the bins, residuals are r = Bᵀwe.
Labels are replicated with a refit to first order. With G = ∂P/∂θ and C = BᵀwG,

    r = Kᵀe - CΣ∇log p(θ*),    K = w(B - ηV⁻¹GΣCᵀ),    V = P(1 - P),               (2)

where the second term is N(0, CΣΛΣCᵀ) under the prior with information Λ. A band without
refits would be too wide for a right model, because Var r is BᵀVB minus CΣCᵀ. If η < 1,
e is scaled by 1/√η. The part *location* uses the leading principal components of
midpoints and their squares instead of bins, to detect base rates that vary by location.

*Calibration.* P(same) is compared with the labels of held-out pairs. Each fold of
points is left out with all its pairs. The prior is the prior of the fit.

Draws store pairs, prior and mode (group ``fit``), so a fit and its draws have the same
verdict. Pairs made from labels share points. For these pairs, replicates of a bin are
multiplied by the root of the design effect (at least 1). The design effect is the
variance of the sum over points, each with all its pairs, divided by the variance for
independent labels.

References
----------
Kallioinen et al., "Detecting and diagnosing prior and likelihood sensitivity with
power-scaling", 2024. Evans and Moshonov, "Checking for prior-data conflict", 2006.
Robins, van der Vaart and Ventura, "Asymptotic distribution of P values in composite
null models", 2000.
"""

from typing import Any, NamedTuple

import arviz as az
import jax
import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float, Int
from scipy.stats import chi2, gamma, norm

from probmetric.checks.criticism import Finding, surprise
from probmetric.data.containers import Pairs
from probmetric.data.padding import host_weights
from probmetric.data.scaling import Scaler
from probmetric.estimators._learner import input_units
from probmetric.estimators.lca.posterior import record
from probmetric.inference.lca.curvature import rows
from probmetric.inference.lca.laplace import Laplace, laplace
from probmetric.inference.lca.recipe import Fitted, Recipe, solve
from probmetric.inference.lca.statistics import prepare
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAParams, LCAPrior
from probmetric.posterior.bands import band, binned, merged
from probmetric.typing import Array

BINS, LEAST, PROB = 10, 2.0, 0.95
"""Number of bins, least expected pairs of each label in a bin, coverage of a band."""

N_REPLICATES, N_DRAWS, N_SHOWN, FOLDS = 4000, 1000, 20, 5
N_PLACES = 5
"""Principal components of midpoints in the part *location*."""

SENSITIVE, GAP, RATE = 0.05, 0.05, 0.1
"""Sizes that matter: sensitivity to the prior, error of a share, change of a rate."""


class Held(NamedTuple):
    """P(same) of held-out pairs, their counts of *same*, and the point of each pair."""

    stated: Float[np.ndarray, "N"]
    same: Int[np.ndarray, "N"]
    point: Int[np.ndarray, "N"]
    trials: Int[np.ndarray, "N"] | None = None


def criticize(fit: Any, *, seed: int = 0) -> list[Finding]:
    """Return the parts of ``check_model`` for a fitted LCA, or for its draws."""
    fitted, labeled = _judged(fit)
    if labeled and fitted.pairs.w is not None:
        raise ValueError(
            "fit must not use sample_weight, got weights. Fit again without weights."
        )
    if np.isinf(fitted.prior.lam):
        raise ValueError(
            "fit must have a finite regularization_, got inf (chosen by "
            "regularization='cv'), which learns nothing from the data. Set "
            "regularization to a number."
        )
    rng = np.random.default_rng(seed)
    fitted, around = _around(fitted)
    findings = [
        _prior(fitted, around, rng),
        *_predictive(fitted, around, rng, labeled=labeled),
    ]
    if len(np.unique(fitted.pairs.i)) < FOLDS:
        return findings
    return [*findings, _calibration(held_out(fitted, seed), rng)]


def _judged(fit: Any) -> tuple[Fitted, bool]:
    """Return the fit of an LCA or of its draws; True for pairs made from labels."""
    if isinstance(fit, xr.DataTree):
        mode, groups = fit["fit"].to_dataset(), ("constant_data", "observed_data")
        data = {
            str(name): values.to_numpy()
            for group in groups
            for name, values in fit[group].data_vars.items()
        }
    else:
        mode = record(fit)
        data = input_units(fit.fitted_.pairs, Scaler(fit.mean_, fit.scale_))._asdict()
    at = {str(name): values.to_numpy() for name, values in mode.data_vars.items()}
    pairs = Pairs(**{**data, "X": (data["X"] - at["mean"]) / at["scale"]})
    prior = LCAPrior(*(at[k] for k in ("prior_mean", "c", "lam", "b_shape", "b_rate")))
    done = Fit.closed(LCAParams(at["W"], at["log_sigma2"]), 0.0)
    fitted = Fitted(done, pairs, prior, float(at["learning_rate"]), 0, 1)
    return fitted, bool(mode.attrs["labeled"])


def _around(fitted: Fitted) -> tuple[Fitted, Laplace]:
    """Return the fit and the Gaussian around it.

    If the fit is not a mode, W is rotated towards its prior mean and the fit continues.
    """

    def gaussian(at: Fitted) -> Laplace:
        stats, rate = prepare(at.pairs), at.learning_rate
        return laplace(at.fit.params, stats, at.prior, rate, quotient=False)

    with jax.enable_x64(True):
        try:
            return fitted, gaussian(fitted)
        except ValueError:
            params, mean = fitted.fit.params, np.asarray(fitted.prior.mean)
            U, _, Vt = np.linalg.svd(mean @ np.asarray(params.W).T)
            start = params._replace(W=U @ Vt @ np.asarray(params.W))
            recipe = Recipe(len(mean))
            fit = solve(fitted.pairs, fitted.prior, recipe, fitted.learning_rate, start)
            fitted = fitted._replace(fit=fit)
            return fitted, gaussian(fitted)


def _prior(fitted: Fitted, around: Laplace, rng: np.random.Generator) -> Finding:
    """Compare the posterior of W and b with their prior (Eq. 1)."""
    prior, mode, root = fitted.prior, *map(np.asarray, around[:2])
    unit = float(prior.width) / np.sqrt(float(prior.lam))
    m = (mode[:-1] - np.ravel(prior.mean)) / unit
    e = np.clip(1 - np.linalg.eigvalsh(root[:-1] @ root[:-1].T / unit**2), 1e-9, 1)
    free = e.sum() ** 2 / np.sum(e**2)
    p_W = float(chi2.sf(m @ m * free / e.sum(), free))
    theta = mode + rng.standard_normal((N_DRAWS, root.shape[1])) @ root.T
    b = gamma(float(prior.b_shape), scale=1 / float(prior.b_rate))
    above = b.sf(np.exp(theta[:, -1]))
    z = np.where(above < 0.5, norm.isf(above), norm.ppf(b.cdf(np.exp(theta[:, -1]))))
    z_b = float(z.mean() / np.sqrt(max(1 - z.var(), 1e-2)))
    p_b = float(2 * norm.sf(abs(z_b)))
    sensitive = _sensitivity(fitted, theta, unit, b)
    far, p = np.sqrt(m @ m / e.sum()), min(1.0, 2 * min(p_W, p_b))
    summary = (
        f"the distance of W from its prior mean is {far:.1f} times the expected "
        f"distance (p = {p_W:.2g}), b has z = {z_b:+.1f} under its prior "
        f"(p = {p_b:.2g}); p = {p:.2g} for both. Sensitivity of the result to the "
        f"prior (power scaling): {sensitive:.2f}"
    )
    remedy = (
        "Prior and data disagree, and the result depends on both. Use a weaker prior "
        "(smaller regularization), or a prior_mean from other data."
        if sensitive >= SENSITIVE
        else "The data are unlikely under the prior, but the prior hardly changes the "
        "result. Report this with the results."
    )
    return Finding("prior", far, p, sensitive, SENSITIVE, summary, remedy)


def _sensitivity(
    fitted: Fitted, theta: Float[np.ndarray, "s q"], unit: float, b: Any
) -> float:
    """Return the largest power-scaling sensitivity to the prior of W or of b."""
    pairs, prior = fitted.pairs, fitted.prior
    W = theta[:, :-1].reshape(-1, *prior.mean.shape)
    log_b = theta[:, -1]
    X = np.asarray(pairs.X)
    delta = X[pairs.i] - X[pairs.j]
    delta = delta[np.any(delta != 0, 1) & (host_weights(pairs) > 0)]
    delta = delta[np.linspace(0, len(delta) - 1, N_SHOWN).astype(int)]
    tau2 = np.exp(2 * np.exp(log_b) / W.shape[1])
    squared = np.sum((W @ delta.T) ** 2, 1) / tau2[:, None]
    groups = {
        "posterior": {"b": log_b, "distance": np.log(squared)},
        "log_prior": {
            "W": -0.5 * np.sum((W - prior.mean) ** 2, (1, 2)) / unit**2,
            "b": b.logpdf(np.exp(log_b)) + log_b,
        },
    }
    tree = az.from_dict(
        {g: {k: v[None] for k, v in values.items()} for g, values in groups.items()}
    )
    found = [
        az.psense(tree, group="prior", group_var_names=[name]) for name in ("W", "b")
    ]
    return max(float(one[k].max()) for one in found for k in ("b", "distance"))


def _predictive(
    fitted: Fitted, around: Laplace, rng: np.random.Generator, *, labeled: bool
) -> list[Finding]:
    """Compare binned labels with replicates and their refits (Eq. 2), and locations."""
    pairs = fitted.pairs
    prior, rate = fitted.prior, fitted.learning_rate
    row = rows(fitted.fit.params, pairs)
    y, w, P = np.asarray(pairs.y), host_weights(pairs), np.exp(-row.t)
    used = w > 0
    y, w, P, slope = y[used], w[used], P[used], row.slope[used]
    m = _trials(pairs.trials, len(used))[used]
    which = _bins(-row.D[used], P, w * m)
    D, tau2, n_bins = row.D[used], row.eta, which.max() + 1
    shape = _directions(P, D / (2 * tau2))
    X, (i, j) = np.asarray(pairs.X), (np.asarray(a)[used] for a in (pairs.i, pairs.j))
    place = _places((X[i] + X[j]) / 2)
    B = np.column_stack([np.eye(n_bins)[which], shape, place]) * w[:, None]
    G = -(m * P)[:, None] * slope
    spread = around.root @ (around.root.T @ (B.T @ G).T)
    free = 1 - P
    K = B - rate * w[:, None] * (-slope / free[:, None]) @ spread
    on_W = np.full(len(spread) - 1, float(prior.lam) / float(prior.width) ** 2)
    noise = np.sqrt(np.append(on_W, float(prior.b_shape)))[:, None] * spread
    K = K / np.sqrt(w if labeled else rate * w)[:, None]
    alone, gap = np.sqrt(K.T**2 @ (m * P * free)), y - m * P
    by_point = _by_point(K * gap[:, None], i)
    design = np.maximum(1, by_point / alone) if labeled else np.ones(len(alone))
    sd = np.hypot(alone * design, np.sqrt(np.sum(noise**2, 0)))
    # The prior's term is linear: replicates need no more than the bins.
    left = np.linalg.cholesky(noise.T @ noise + 1e-12 * np.diag(sd**2))
    drawn = _labels(P, m, K * design, rng)
    drawn = drawn + rng.standard_normal(drawn.shape) @ left.T
    summary = "P(same) of the model, for the pairs of the fit"
    remedy = (
        "Pairs made from class labels often differ from this model. Neighbors and "
        "votes remain usable. Take P(same) from same_probability, "
        "and intervals from posterior_metric('intervals')."
        if labeled
        else "Labels do not follow exp(-(b + dist²/2)). Use distances and their order, "
        "not P(same) or its intervals. Look for wrong labels and missing features."
    )
    table = _table(np.sqrt(D / tau2), y / m, P, w * m, which)
    observed, first = B.T @ gap, n_bins + shape.shape[1]
    r = observed[:first], drawn[:, :first], sd[:first]
    found = [_finding("predictive", table, r, summary, remedy)]
    if place.shape[1]:
        r = observed[first:], drawn[:, first:], sd[first:]
        found.append(_location(*r, (w * m * P) @ np.abs(place)))
    return found


def _location(
    observed: Float[np.ndarray, "k"],
    drawn: Float[np.ndarray, "s k"],
    sd: Float[np.ndarray, "k"],
    whole: Float[np.ndarray, "k"],
) -> Finding:
    """Compare residuals that vary with the location of a pair with replicates."""
    largest, p = surprise(observed, drawn, sd)
    gap = float(np.max(np.abs(observed) / whole))
    summary = (
        "at equal distance, the fraction of same pairs changes with the location of "
        f"the pair, by {gap:.0%} of its value (p = {p:.2g})"
    )
    remedy = (
        "One intercept b is not enough. Use PointEffectsLCA or HierarchicalLCA, or do "
        "not compare P(same) of pairs at different locations."
    )
    return Finding("location", largest, p, gap, RATE, summary, remedy)


def _places(middle: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N k"]:
    """Return leading principal components of midpoints, and their centered squares."""
    centered = middle - middle.mean(0)
    U, scale, _ = np.linalg.svd(centered, full_matrices=False)
    U = U[:, scale > 1e-9 * max(scale[0], 1e-300)][:, :N_PLACES] * np.sqrt(len(U))
    return np.column_stack([U, U**2 - 1])


def _trials(trials: Array | None, n: int) -> Int[np.ndarray, "N"]:
    return np.ones(n, int) if trials is None else np.asarray(trials)


def _directions(
    P: Float[np.ndarray, "N"], q: Float[np.ndarray, "N"]
) -> Float[np.ndarray, "N 2"]:
    """Return weights of the scores of two wrong links: lapses, and a power of D/2τ²."""
    bounded = np.clip(P, 0.02, 0.98)
    slopes = np.stack([0.5 - P, -P * q * np.log(np.maximum(q, 1e-9))], 1)
    return slopes / (bounded * (1 - bounded))[:, None]


def _bins(
    values: Float[np.ndarray, "N"],
    P: Float[np.ndarray, "N"],
    w: Float[np.ndarray, "N"] | float,
) -> Int[np.ndarray, "N"]:
    """Return equal-count bins, merged if either label is hardly expected."""
    which = binned(values, BINS)[0]
    return merged(which, np.stack([P, 1 - P], 1) * np.reshape(w, (-1, 1)), LEAST)


def _by_point(
    terms: Float[np.ndarray, "N k"], point: Int[np.ndarray, "N"]
) -> Float[np.ndarray, "k"]:
    """Return the standard deviations of sums over pairs that are grouped by point."""
    order = np.unique(point, return_inverse=True)[1]
    sums = np.zeros((order.max() + 1, terms.shape[1]))
    np.add.at(sums, order, terms)
    return np.sqrt(np.sum(sums**2, 0))


def _labels(
    P: Float[np.ndarray, "N"],
    m: Int[np.ndarray, "N"],
    K: Float[np.ndarray, "N k"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "s k"]:
    """Return Kᵀ(y - mP) of replicated labels or counts, in blocks of bounded memory."""
    size, once = max(1, 2_000_000 // len(P)), bool((m == 1).all())

    def made(n: int) -> Array:
        return rng.random((n, len(P))) < P if once else rng.binomial(m, P, (n, len(P)))

    blocks = [
        (made(min(size, N_REPLICATES - begin)) - m * P) @ K
        for begin in range(0, N_REPLICATES, size)
    ]
    return np.concatenate(blocks)


def _table(
    at: np.ndarray, y: np.ndarray, P: np.ndarray, w: np.ndarray, which: np.ndarray
) -> pd.DataFrame:
    n = np.bincount(which, w)
    columns = {"at": at, "observed": y, "expected": P}
    means = {k: np.bincount(which, w * v) / n for k, v in columns.items()}
    return pd.DataFrame({**means, "pairs": np.bincount(which), "weight": n})


def _finding(
    part: str,
    table: pd.DataFrame,
    r: tuple[np.ndarray, np.ndarray, np.ndarray],
    summary: str,
    remedy: str,
) -> Finding:
    """Compare residuals (bins first) with replicates by Eq. (1) of ``bands``."""
    observed, drawn, sd = r
    largest, p = surprise(observed, drawn, sd)
    n = table.pop("weight").to_numpy()
    low, high = (limit[: len(n)] / n for limit in band(drawn, PROB))
    expected, gap = table["expected"].to_numpy(), observed[: len(n)] / n
    beyond = (gap < low) | (gap > high)
    outside, gap = int(beyond.sum()), np.abs(gap)
    table = table.assign(
        low=np.clip(expected + low, 0, 1), high=np.clip(expected + high, 0, 1)
    )
    k = int(np.argmax(gap))
    worst, where = table.iloc[k], " (inside the band)" * (outside > 0 and not beyond[k])
    shape = np.argmax(np.abs(observed) / sd) >= len(n)
    gap_text = (
        f"largest gap{where}: {worst['expected']:.2f} stated, "
        f"{worst['observed']:.2f} observed"
    )
    outside_text = f"{outside} of {len(table)} bins outside the {PROB:.0%} band"
    summary += (
        f": largest deviation: the shape of the curve (p = {p:.2g}), as with random "
        f"answers or another power of the distance; {gap_text}; {outside_text}"
        if shape
        else f": {outside_text} (p = {p:.2g}); {gap_text}"
    )
    return Finding(part, largest, p, float(gap.max()), GAP, summary, remedy, table)


def _calibration(held: Held, rng: np.random.Generator) -> Finding:
    """Compare stated P(same) with labels of held-out pairs."""
    P, y, m = held.stated, held.same, _trials(held.trials, len(held.same))
    which = _bins(-P, P, 1.0 * m)
    B, gap = np.eye(int(which.max()) + 1)[which], y - m * P
    alone = np.sqrt(B.T @ (m * P * (1 - P)))
    by_point = _by_point(B * gap[:, None], held.point)
    shared = len(np.unique(held.point)) < len(held.point)
    design = np.maximum(1, by_point / alone) if shared else np.ones(len(alone))
    sd = alone * design
    drawn = _labels(P, m, B, rng) * design
    what = f"{len(P):,} held-out pairs"
    what = what if held.trials is None else f"{m.sum():,} judgments of {what}"
    summary = f"P(same) of the model's link exp(-(b + dist²/2)), for {what}"
    remedy = (
        "P(same) of this link is not calibrated for new pairs. Fit a link to other "
        "pairs, or use only distances and their order."
    )
    r = B.T @ gap, drawn, sd
    table = _table(P, y / m, P, m, which)
    return _finding("calibration", table, r, summary, remedy)


def held_out(fitted: Fitted, seed: int) -> Held:
    """Return P(same) of each pair by a fit without the fold of its first point."""
    pairs, w = fitted.pairs, host_weights(fitted.pairs)
    i, j = np.asarray(pairs.i), np.asarray(pairs.j)
    order = np.random.default_rng(seed).permutation(len(np.unique(i)))
    fold = np.full(len(np.asarray(pairs.X)), -1)
    fold[np.unique(i)] = order % FOLDS
    recipe, stated = Recipe(len(fitted.fit.params.W)), np.empty(len(w))
    for k in range(FOLDS):
        # The shape does not change, so nothing is compiled again.
        weight = np.where((fold[i] == k) | (fold[j] == k), 0.0, w)
        rate, start = fitted.learning_rate, fitted.fit.params
        kept = pairs._replace(w=weight)
        refit = solve(kept, fitted.prior, recipe, rate, start)
        test = fold[i] == k
        stated[test] = np.exp(-rows(refit.params, pairs).t[test])
    used, y = w > 0, np.asarray(pairs.y, int)
    m = None if pairs.trials is None else np.asarray(pairs.trials)[used]
    return Held(stated[used], y[used], i[used], m)
