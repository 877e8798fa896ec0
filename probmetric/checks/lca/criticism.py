"""LCA compared with its data: prior, binned pair labels, held-out P(same).

Symbols as in ``inference.lca.likelihood``; θ = (vec W, log b), posterior covariance
Σ = H⁻¹ at the mode θ̂ (Laplace), y_i with P_i = e^{-t_i}, learning rate η, weights w.

*Prior.* Under the model the posterior mean of any quantity varies about its prior mean
by its prior variance less its expected posterior variance (total variance). In units of
the prior's sd (c/√λ an entry of W; normal scores of b) with m the posterior mean,

    ‖m‖² ~ Σ_k e_k χ²_1,     e_k the eigenvalues of I - Σ in these units,         (1)

for W, matched by a scaled χ²; and m/√(1 - Var z_b) ~ N(0, 1) for b. The size is the
power-scaling sensitivity of b and of distances to either prior, which matters from
0.05.

*Predictive.* With e = y - P(θ̂) and the bins' indicators B the residuals are r = Bᵀwe.
Labels are replicated with their refit, to first order: with G = ∂P/∂θ, C = BᵀwG,

    r = Kᵀe - CΣ∇log p(θ*),    K = w(B - ηV⁻¹GΣCᵀ),    V = P(1 - P),               (2)

the second term being N(0, CΣΛΣCᵀ) under the prior, Λ its information. A posterior
predictive band without refits is too wide for a right model: Var r = BᵀVB minus CΣCᵀ,
not plus. Judged pairs under η < 1 count as fewer, and e is scaled by 1/√η.

*Calibration.* P(same) of held-out pairs; labels are replicated from it. After a fit to
labels it is that of ``same_probability`` (class probabilities), after a fit to pairs it
is the link of the model. The predictive check always judges the link of the model.

Pairs built from labels share points. Then replicates of a bin are widened by the root
of its design effect: the variance of its sum over points, each with all its pairs,
relative to the variance with independent labels; at least 1.

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
from jaxtyping import Float, Int
from scipy.spatial.distance import cdist
from scipy.stats import chi2, gamma, norm
from sklearn.model_selection import KFold, StratifiedKFold

from probmetric.checks.criticism import Finding
from probmetric.data.padding import host_weights
from probmetric.estimators._same import with_choices
from probmetric.inference.lca.curvature import rows
from probmetric.inference.lca.laplace import Laplace, laplace
from probmetric.inference.lca.recipe import Fitted, Recipe, solve
from probmetric.inference.lca.statistics import prepare
from probmetric.posterior.bands import band, binned, deviation, merged
from probmetric.typing import Array

BINS, LEAST, PROB = 10, 2.0, 0.95
"""Bins, the least expected pairs of either label in one, and the share of a band."""

N_REPLICATES, N_DRAWS, N_SHOWN, N_NEAR, FOLDS = 4000, 1000, 20, 5, 5
MEMBERS = 3
"""Points of each class for three folds: two remain to learn from."""

LINK = "P(same) of the model's link exp(-(b + dist²/2))"
VOTES = "P(same) of the class probabilities (same_probability)"

SENSITIVE, GAP = 0.05, 0.05
"""Sizes that matter: a power-scaling sensitivity, and an error of a share."""


class _Held(NamedTuple):
    """P(same) of held-out pairs, and the point that each belongs to.

    ``same`` of ``trials`` judgments of a pair are *same*.
    """

    stated: Float[np.ndarray, "N"]
    same: Int[np.ndarray, "N"]
    point: Int[np.ndarray, "N"]
    trials: Int[np.ndarray, "N"] | None = None


def criticize(model: Any, *, seed: int = 0) -> list[Finding]:
    """Return the parts of ``check_model`` for a fitted LCA.

    Calibration is left out if a class has too few points to hold some out, or if there
    are fewer than ``FOLDS`` pairs.
    """
    fitted: Fitted = model.fitted_
    if hasattr(model, "classes_") and fitted.pairs.w is not None:
        raise ValueError(
            "fit must be without sample_weight, got weights. Fit again without them."
        )
    if np.ndim(fitted.fit.params.kappa2):
        raise ValueError("fit must have one scale for all pairs, got per_anchor=True")
    if np.isinf(fitted.prior.lam):
        raise ValueError(
            "fit must have a finite λ, got λ = inf (chosen by regularization='cv'), "
            "which learned nothing. Set regularization to a number."
        )
    rng = np.random.default_rng(seed)
    fitted, around = _around(fitted)
    labeled = hasattr(model, "classes_")
    findings = [
        _prior(fitted, around, rng),
        _predictive(fitted, around, rng, labeled=labeled),
    ]
    if hasattr(model, "n_anchors_"):
        return findings  # Folds would thin the rows among which partners are searched.
    smallest = np.bincount(model._codes).min() if labeled else MEMBERS
    if smallest < MEMBERS or len(fitted.pairs.i) < FOLDS:
        return findings
    held = stated_held_out(model, seed) if labeled else _held_pairs(model, seed)
    return [*findings, _calibration(held, rng, labeled=labeled)]


def _around(fitted: Fitted) -> tuple[Fitted, Laplace]:
    """Return the fit and the Gaussian around it.

    A fit that is not a mode is rotated towards its prior mean and continued: rotations
    of W do not change the likelihood.
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
    far = np.sqrt(m @ m / e.sum())
    said = (
        f"W lies {far:.1f} times as far from its prior mean as the model expects "
        f"(p = {p_W:.2g}), b has z = {z_b:+.1f} (p = {p_b:.2g}); power-scaling "
        f"sensitivity {sensitive:.2f}"
    )
    remedy = (
        "Prior and data disagree, and the answer depends on both: weaken the prior "
        "(smaller regularization), or give prior_mean from other data."
        if sensitive >= SENSITIVE
        else "The prior is surprised, but hardly moves the answer: say so with results."
    )
    p = min(1.0, 2 * min(p_W, p_b))
    return Finding("prior", far, p, sensitive, SENSITIVE, said, remedy)


def _sensitivity(
    fitted: Fitted, theta: Float[np.ndarray, "s q"], unit: float, b: Any
) -> float:
    """Return the largest power-scaling sensitivity to the prior of W or of b.

    For log b and for the log distances of ``N_SHOWN`` pairs, evenly spaced.
    """
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
) -> Finding:
    """Compare binned labels with replicates and their refits (Eq. 2)."""
    pairs = fitted.pairs
    prior, rate = fitted.prior, fitted.learning_rate
    row = rows(fitted.fit.params, pairs)
    y, w, P = np.asarray(pairs.y), host_weights(pairs), np.exp(-row.t)
    used = w > 0
    y, w, P, slope = y[used], w[used], P[used], row.slope[used]
    m = _trials(pairs.trials, len(used))[used]
    which = _bins(-row.D[used], P, w * m)
    D, tau2, n_bins = row.D[used], row.eta, which.max() + 1
    B = np.eye(n_bins)[which]
    B = np.column_stack([B, _directions(P, D / (2 * tau2))]) * w[:, None]
    G = -(m * P)[:, None] * slope
    spread = around.root @ (around.root.T @ (B.T @ G).T)
    free = 1 - P
    K = B - rate * w[:, None] * (-slope / free[:, None]) @ spread
    on_W = np.full(len(spread) - 1, float(prior.lam) / float(prior.width) ** 2)
    noise = np.sqrt(np.append(on_W, float(prior.b_shape)))[:, None] * spread
    K = K / np.sqrt(w if labeled else rate * w)[:, None]
    alone, gap = np.sqrt(K.T**2 @ (m * P * free)), y - m * P
    by_point = _by_point(K * gap[:, None], np.asarray(pairs.i)[used])
    design = np.maximum(1, by_point / alone) if labeled else np.ones(len(alone))
    sd = np.hypot(alone * design, np.sqrt(np.sum(noise**2, 0)))
    # The prior's term is linear: replicates need no more than the bins.
    left = np.linalg.cholesky(noise.T @ noise + 1e-12 * np.diag(sd**2))
    drawn = _labels(P, m, K * design, rng)
    drawn = drawn + rng.standard_normal(drawn.shape) @ left.T
    said = f"{LINK}, on the pairs of the fit"
    remedy = (
        "Pairs built from class labels are no draws of this model: take P(same) from "
        "same_probability, which uses class probabilities, as far as calibration below "
        "is adequate, and intervals from the jackknife."
        if labeled
        else "Labels do not follow exp(-(b + dist²/2)): use distances and their order, "
        "not P(same) or its intervals; look for wrong labels and missing features."
    )
    table = _table(np.sqrt(D / tau2), y / m, P, w * m, which)
    return _finding("predictive", table, (B.T @ gap, drawn, sd), said, remedy)


def _trials(trials: Any, n: int) -> Int[np.ndarray, "N"]:
    return np.ones(n, int) if trials is None else np.asarray(trials)


def _directions(
    P: Float[np.ndarray, "N"], q: Float[np.ndarray, "N"]
) -> Float[np.ndarray, "N 2"]:
    """Return weights of the score of two wrong links: lapses, and a power of q = D/2τ².

    For P = exp(-b - q^γ) and P = (1 - ε) exp(-b - q) + ε/2, at γ = 1 and ε = 0.
    """
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
    """Return the standard deviations of sums whose terms of one point go together."""
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


def _table(at: Any, y: Any, P: Any, w: Any, which: Any) -> pd.DataFrame:
    n = np.bincount(which, w)
    columns = {"at": at, "observed": y, "expected": P}
    means = {k: np.bincount(which, w * v) / n for k, v in columns.items()}
    return pd.DataFrame({**means, "pairs": np.bincount(which), "weight": n})


def _finding(part: str, table: pd.DataFrame, r: Any, said: str, remedy: str) -> Finding:
    """Judge residuals (bins first) against replicates by Eq. (1) of ``bands``."""
    observed, drawn, sd = r
    largest = float(deviation(observed, np.zeros(len(sd)), sd))
    replicated = deviation(drawn, np.zeros(len(sd)), sd)
    p = (1 + int(np.sum(replicated >= largest))) / (1 + len(replicated))
    n = table.pop("weight").to_numpy()
    low, high = (limit[: len(n)] / n for limit in band(drawn, PROB))
    expected, gap = table["expected"].to_numpy(), observed[: len(n)] / n
    outside = int(np.sum((gap < low) | (gap > high)))
    gap = np.abs(gap)
    table = table.assign(
        low=np.clip(expected + low, 0, 1), high=np.clip(expected + high, 0, 1)
    )
    worst = table.iloc[int(np.argmax(gap))]
    shape = np.argmax(np.abs(observed) / sd) >= len(n)
    by = "; the link's shape deviates most (lapses, or another power)" if shape else ""
    said = (
        f"{said}: {outside} of {len(table)} bins outside the simultaneous {PROB:.0%} "
        f"band (p = {p:.2g}); largest gap: {worst['expected']:.2f} stated, "
        f"{worst['observed']:.2f} observed{by}"
    )
    return Finding(part, largest, p, float(gap.max()), GAP, said, remedy, table)


def _calibration(held: _Held, rng: np.random.Generator, *, labeled: bool) -> Finding:
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
    what = f"{len(P):,} pairs"
    what = what if held.trials is None else f"{m.sum():,} judgments of {what}"
    said = f"{VOTES if labeled else LINK}, on {what} held out"
    remedy = (
        "P(same) is off on new pairs: trust distances and their order only, or "
        "calibrate P(same) on pairs of your own."
    )
    r = B.T @ gap, drawn, sd
    table = _table(P, y / m, P, m, which)
    return _finding("calibration", table, r, said, remedy)


def _held_pairs(model: Any, seed: int) -> _Held:
    """Return P(same) of judged pairs, each by a fit to the other folds, same prior."""
    fitted: Fitted = model.fitted_
    pairs, w = fitted.pairs, host_weights(fitted.pairs)
    p = fitted.fit.params.W.shape[0]
    settings = {k: getattr(model, k) for k in ("solver", "max_iter", "tol")}
    recipe = Recipe(p, **settings)
    stated = np.empty(len(w))
    for _, test in KFold(FOLDS, shuffle=True, random_state=seed).split(w):
        weight = w.copy()
        weight[test] = 0  # The shape stays: nothing is compiled again.
        refit = solve(
            pairs._replace(w=weight),
            fitted.prior,
            recipe,
            fitted.learning_rate,
            fitted.fit.params,
        )
        stated[test] = np.exp(-rows(refit.params, pairs).t[test])
    used, y = w > 0, np.asarray(pairs.y, int)
    m = None if pairs.trials is None else np.asarray(pairs.trials)[used]
    return _Held(stated[used], y[used], np.flatnonzero(used), m)


def stated_held_out(model: Any, seed: int) -> _Held:
    """Return P(same) of pairs of held-out points, by refits of an LCA.

    Each point of three folds is paired with its ``N_NEAR`` nearest points of the other
    folds under the learned distance, and with as many random ones. The settings are
    those that the fit chose.
    """
    rng = np.random.default_rng(seed)
    Z, codes = np.asarray(model.fitted_.pairs.X), np.asarray(model._codes)
    X = model.mean_ + Z * model.scale_
    stated, same, point = [], [], []
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    for train, test in folds.split(X, codes):
        refit: Any = with_choices(model)
        # No more neighbors than fewer points have.
        sizes = np.bincount(codes[train])
        most = {"n_targets": sizes.max() - 1, "n_impostors": len(train) - sizes.max()}
        asked = {k: getattr(model, k) for k in most}
        fewer = {k: min(v, int(most[k])) for k, v in asked.items() if v is not None}
        refit.set_params(**fewer).fit(X[train], codes[train])
        distance = cdist(refit.transform(X[test]), refit.transform(X[train]))
        n = min(N_NEAR, len(train))
        near = np.argsort(distance, 1, kind="stable")[:, :n]
        chance = rng.permuted(np.tile(np.arange(len(train)), (len(test), 1)), axis=1)
        other = train[np.hstack([near, chance[:, :n]])].ravel()
        query = np.repeat(test, 2 * n)
        stated.append(refit.same_probability(np.stack([X[query], X[other]], 1)))
        same.append((codes[query] == codes[other]).astype(int))
        point.append(query)
    return _Held(*(np.concatenate(v) for v in (stated, same, point)))
