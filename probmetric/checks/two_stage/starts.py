"""Priors, starts, choices and targets of the two-stage mixture, by direct sums.

What EM forgets on its way is seen here alone: where it starts, the default prior, sums
of points whose component is known or that arrive in parts. The target of samplers is
NumPyro's potential on the real line; new points have the moments of the model.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import xarray as xr
from numpyro.infer.util import potential_energy
from scipy.special import logsumexp
from scipy.stats import multivariate_normal as normal
from sklearn.cluster import KMeans

from probmetric.checks.check import (
    Problem,
    Values,
    by_algebra,
    by_gradient,
    by_sampling,
)
from probmetric.checks.sides import as_dataset
from probmetric.checks.two_stage.similarity import near
from probmetric.data.containers import Groups, Points
from probmetric.data.groups import stack
from probmetric.data.hash import canonical_order
from probmetric.inference.mixture.em import em_step, em_step_missing, recentre
from probmetric.inference.mixture.missing import e_step_missing
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.mixture.start import mixture_data, start_mixture
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.sampling.target import Arrays
from probmetric.inference.two_stage import online
from probmetric.inference.two_stage.choice import choose_components, choose_flattening
from probmetric.inference.two_stage.draws import new_points
from probmetric.inference.two_stage.fit import fit, start_groups
from probmetric.inference.two_stage.groups import group_data
from probmetric.inference.two_stage.groups_missing import filled
from probmetric.inference.two_stage.target import (
    TARGET,
    Data,
    Fitted,
    pack,
    position,
)
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior, two_stage
from probmetric.typing import Array

N_FEATURES = 4

FEW = 3
"""Instances of a source in the check of the target."""

MOST = 300
"""Rows of a problem that are taken."""

GRID = 0.0, 0.25, 0.5, 0.75, 0.9, 1.0
"""Of shrinkage, the default."""


def _rows(problem: Problem[Groups]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return some rows, their weights, and the component of a few (-1: unknown)."""
    X = np.asarray(problem.data.X, float)
    X = X[np.linspace(0, len(X) - 1, min(len(X), MOST)).astype(int)]
    n = np.arange(len(X))
    known = np.where(n % 5 == 0, n // 5 % 2, -1)
    return X, 0.5 + 0.5 * (n % 3), known


def _mixture(problem: Problem[Groups]) -> MixtureParams:
    p = near(problem)
    return MixtureParams(p.weights, p.means, p.within + p.between)


def _prior(problem: Problem[Groups]) -> TwoStagePrior:
    return problem.prior._replace(concentration=1.7, strength=0.4)


def _m_step_by_hand(
    r: np.ndarray, E: np.ndarray, V: np.ndarray, prior: TwoStagePrior
) -> dict[str, np.ndarray]:
    """Return the mode of (c, μ, Σ) given shares (n, k), E x (n, k, d) and Cov x."""
    d, R = E.shape[-1], r.sum(0)
    a, k0 = prior.concentration, prior.strength
    m0, Psi = np.asarray(prior.mean), np.asarray(prior.scale)
    mu = (np.einsum("nk,nkd->kd", r, E) + k0 * m0) / (R + k0)[:, None]
    off = E - mu
    S = (
        Psi
        + np.einsum("nk,nki,nkj->kij", r, off, off)
        + np.einsum("nk,nkij->kij", r, V)
    )
    S = S + k0 * np.einsum("ki,kj->kij", mu - m0, mu - m0)
    c = R + a - 1
    return {
        "c": c / c.sum(),
        "μ": mu,
        "Σ": S / (R + prior.df + d + 2)[:, None, None],
    }


def _shares(
    params: MixtureParams, X: np.ndarray, w: np.ndarray, known: np.ndarray | None
) -> np.ndarray:
    """Return w P(k | x) by scipy's densities."""
    logs = [
        np.log(c) + normal.logpdf(X, m, S)
        for c, m, S in zip(*map(np.asarray, params), strict=True)
    ]
    table = np.stack(logs, 1)
    if known is not None:
        named = (known[:, None] >= 0) & (known[:, None] != np.arange(table.shape[1]))
        table = np.where(named, -np.inf, table)
    return w[:, None] * np.exp(table - logsumexp(table, 1, keepdims=True))


def _conditional(
    params: MixtureParams, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log c_k p(x_o | k), E[x | x_o, k] and Cov[x | x_o, k], row by row."""
    (n, d), k = X.shape, len(params.weights)
    logs, E, V = np.zeros((n, k)), np.zeros((n, k, d)), np.zeros((n, k, d, d))
    for i, j in np.ndindex(n, k):
        o, m = ~np.isnan(X[i]), np.isnan(X[i])
        mu, S = np.asarray(params.means[j]), np.asarray(params.covariances[j])
        logs[i, j] = np.log(params.weights[j])
        E[i, j] = np.where(o, X[i], mu)
        V[i, j][np.ix_(m, m)] = S[np.ix_(m, m)]
        if o.any():
            S_oo: Any = S[np.ix_(o, o)]
            logs[i, j] += normal.logpdf(X[i, o], mu[o], S_oo)
            G = np.linalg.solve(S_oo, S[np.ix_(o, m)]).T
            E[i, j, m] += G @ (X[i, o] - mu[o])
            V[i, j][np.ix_(m, m)] -= G @ S[np.ix_(o, m)]
    return logs, E, V


def _holes(X: np.ndarray) -> np.ndarray:
    some = X[:40].copy()
    some[np.random.default_rng(3).random(some.shape) < 0.2] = np.nan
    return some


def em_by_hand(problem: Problem[Groups]) -> Values:
    """Take a step from scipy's densities, components known or not, in parts or not."""
    X, w, known = _rows(problem)
    params, prior = _mixture(problem), _prior(problem)
    d, found = X.shape[1], dict[str, Array]()
    none = np.zeros((len(X), len(params.weights), d, d))
    E = np.broadcast_to(X[:, None], none.shape[:3])
    for name, given in (("", None), (", some known", known)):
        r = _shares(params, X, w, given)
        step = _m_step_by_hand(r, E, none, prior)
        found |= {key + name: value for key, value in step.items()}
    some, labels, v = _holes(X), known[:40], w[:40]
    logs, E, V = _conditional(params, some)
    named = (labels[:, None] >= 0) & (labels[:, None] != np.arange(logs.shape[1]))
    logs = np.where(named, -np.inf, logs)
    r = v[:, None] * np.exp(logs - logsumexp(logs, 1, keepdims=True))
    step = _m_step_by_hand(r, E, V, prior)
    found |= {f"{key}, missing": value for key, value in step.items()}
    found["log likelihood, missing"] = v @ logsumexp(logs, 1)
    # Parts: sums under the parameters of the time, each row once, weights one.
    half, ones = len(X) // 2, np.ones(len(X))
    first = _shares(params, X[:half], ones[:half], None)
    both = np.concatenate([first, _shares(params, X[half:], ones[half:], None)])
    E = np.broadcast_to(X[:, None], none.shape[:3])
    step = _m_step_by_hand(both, E, none, prior)
    found |= {f"{key}, in parts": value for key, value in step.items()}
    found |= {f"{key}, merged": value for key, value in step.items()}
    centre = np.asarray(params.means) + 0.3
    off = X[:40, None] - centre
    r = _shares(params, X[:40], v, None)
    found["first, moved"] = np.einsum("nk,nkd->kd", r, off)
    found["second, moved"] = np.einsum("nk,nki,nkj->kij", r, off, off)
    return found


def em(problem: Problem[Groups], a: float = 0.0) -> Values:
    """Return the same of the package; under another Dirichlet, if asked."""
    X, w, known = _rows(problem)
    params, prior = _mixture(problem), _prior(problem)
    prior = prior._replace(concentration=prior.concentration + a)
    keys, found = ("c", "μ", "Σ"), dict[str, Array]()
    for name, given in (("", None), (", some known", known)):
        data = mixture_data(X, w, known=given, prior=prior)
        step = dict(zip(keys, em_step(params, data)[0], strict=True))
        found |= {key + name: value for key, value in step.items()}
    some = mixture_data(_holes(X), w[:40], known=known[:40], prior=prior)
    step = dict(zip(keys, em_step_missing(params, some)[0], strict=True))
    found |= {f"{key}, missing": value for key, value in step.items()}
    sums = e_step_missing(params, some.X, some.w, some.known)
    found["log likelihood, missing"] = sums.log_likelihood
    half = len(X) // 2
    state = online.start(params, X[:half], prior)
    parts = online.add(state, X[half:]).params
    found |= {f"{k}, in parts": v for k, v in zip(keys, parts, strict=True)}
    other = online.add(state, X[half:])
    merged = online.merge(state, other).params
    found |= {f"{k}, merged": v for k, v in zip(keys, merged, strict=True)}
    whole = e_step_missing(params, X[:40], w[:40])
    moved = recentre(whole, params.means, params.means + 0.3)
    return {**found, "first, moved": moved.first, "second, moved": moved.second}


def starts_by_hand(problem: Problem[Groups]) -> Values:
    """Cluster by scikit-learn; take scatters within clusters and groups directly."""
    X, w, known = _rows(problem)
    n, d = X.shape
    holes = X.copy()
    holes[np.arange(n) % 7 == 3, 0] = np.nan
    varying = np.nanvar(holes, 0)
    varying = np.where(varying > 0, varying, 1.0)
    # A column that does not vary has the variance one.
    scale = 2.0 * np.diag(np.append(varying, 1.0)) / 3 ** (2 / (d + 1))
    found: dict[str, Any] = {
        "m₀": np.append(np.nanmean(holes, 0), 4.0),
        "Ψ": scale,
        "Ψ of W": scale / 2,
        "others": [1.0, 0.3, d + 3.0, d + 3.0, 2.0, 5.0],
    }
    mean = np.nanmean(holes, 0)
    filled = np.where(np.isnan(holes), mean, holes)
    for name, given in (("", None), (", some known", known)):
        label, centres = _labels(filled, 2, w)
        if given is not None:
            for k in (0, 1):
                centres[k] = filled[given == k].mean(0)
            near_ = np.argmin(((filled[:, None] - centres) ** 2).sum(-1), 1)
            label = np.where(given >= 0, given, near_)
        found |= {
            f"{key}{name}": value
            for key, value in _clustered(filled, w, label, _prior(problem)).items()
        }
    groups = problem.data
    codes = np.unique(np.asarray(groups.group), return_inverse=True)[1]
    G, Z = int(codes.max()) + 1, np.asarray(groups.X, float)
    v = np.ones(len(Z)) if groups.w is None else np.asarray(groups.w, float)
    middle = np.stack([Z[codes == g].mean(0) for g in range(G)])
    own = np.array([v[codes == g].mean() for g in range(G)])
    size = np.bincount(codes)
    off = Z - middle[codes]
    W = np.einsum("n,ni,nj->ij", own[codes], off, off) / np.sum(own * (size - 1))
    k = problem.options["n_components"]
    label = _labels(middle, k, own)[0]
    fallback = default_prior(middle, k)
    begin = _clustered(middle, own, label, fallback)
    total = np.diag(W) + np.diagonal(begin["Σ"].mean(0))
    found |= {
        "W of groups": np.stack([W + 0.05 * np.diag(total)] * k),
        "B of groups": begin["Σ"],
        "c of groups": begin["c"],
        "μ of groups": begin["μ"],
    }
    few = _varying(Z)
    alone = _clustered(
        few, np.ones(len(few)), _labels(few, k)[0], default_prior(few, k)
    )
    some = _some_missing(problem)
    rows = np.array(some.X)
    for i, j in np.argwhere(np.isnan(rows)):
        column = some.X[some.group == some.group[i], j]
        column = some.X[:, j] if np.isnan(column).all() else column
        rows[i, j] = np.nanmean(column)
    return {**found, "W of single instances": 0.3 * alone["Σ"], "holes filled": rows}


def _varying(X: np.ndarray) -> np.ndarray:
    """Return the first points, features that are constant among them left out."""
    return X[:40][:, X[:40].std(0) > 1e-6]


def _some_missing(problem: Problem[Groups]) -> Groups:
    codes = np.asarray(problem.data.group)
    chosen = np.flatnonzero(codes < np.unique(codes)[:30][-1])[:MOST]
    X = np.array(problem.data.X, float)[chosen]
    hole = np.random.default_rng(7).random(X.shape) < 0.3
    hole[np.arange(X.shape[1])] &= ~np.eye(X.shape[1], dtype=bool)[: len(X)]
    return Groups(np.where(hole, np.nan, X), codes[chosen])


def _labels(
    Z: np.ndarray, k: int, w: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cluster of each row and the centers, rows in canonical order."""
    settings: Any = {"n_init": 1}
    means = KMeans(k, max_iter=30, random_state=0, **settings)
    order, label = canonical_order(Z), np.empty(len(Z), int)
    label[order] = means.fit_predict(
        Z[order], sample_weight=None if w is None else w[order]
    )
    return label, means.cluster_centers_.copy()


def _clustered(
    X: np.ndarray, w: np.ndarray, label: np.ndarray, prior: TwoStagePrior
) -> dict[str, np.ndarray]:
    k, d = int(label.max()) + 1, X.shape[1]
    r = np.eye(k)[label] * w[:, None]
    E = np.broadcast_to(X[:, None], (len(X), k, d))
    found = _m_step_by_hand(r, E, np.zeros((len(X), k, d, d)), prior)
    c = np.maximum(found["c"], 0.1 / k)
    return {**found, "c": c / c.sum()}


def starts(problem: Problem[Groups], strength: float = 0.0) -> Values:
    """Return the same of the package; under another prior strength, if asked."""
    X, w, known = _rows(problem)
    n = len(X)
    holes = X.copy()
    holes[np.arange(n) % 7 == 3, 0] = np.nan
    wide = np.column_stack([holes, np.full(n, 4.0)])
    p = default_prior(wide, 3, strength=0.3, floor=2.0, alpha=(2.0, 5.0))
    found: dict[str, Any] = {
        "m₀": p.mean,
        "Ψ": p.scale,
        "Ψ of W": p.within_scale,
        "others": [
            p.concentration,
            p.strength,
            p.df,
            p.within_df,
            p.alpha_a,
            p.alpha_b,
        ],
    }
    prior = _prior(problem)
    prior = prior._replace(strength=prior.strength + strength)
    for name, given in (("", None), (", some known", known)):
        begin = start_mixture(holes, w, 2, known=given, prior=prior)
        values = zip(("c", "μ", "Σ"), begin, strict=True)
        found |= {f"{key}{name}": value for key, value in values}
    data, k = group_data(problem.data), problem.options["n_components"]
    of_groups = start_groups(data, k)
    alone = group_data(Points(_varying(np.asarray(problem.data.X, float))))
    return {
        **found,
        "W of groups": of_groups.within,
        "B of groups": of_groups.between,
        "c of groups": of_groups.weights,
        "μ of groups": of_groups.means,
        "W of single instances": start_groups(alone, k, alpha=0.3).within,
        "holes filled": filled(_some_missing(problem)).X,
    }


def _few_features(problem: Problem[Groups]) -> tuple[TwoStageParams, np.ndarray]:
    """Return the marginal model of the features that vary most, and 40 points."""
    p, (X, _, _) = near(problem), _rows(problem)
    X = X.mean(0) + 0.6 * (X[:40] - X.mean(0))
    held = np.argsort(-X.var(0), kind="stable")[:N_FEATURES]
    W, B = (A[:, held][:, :, held] for A in (p.within, p.between))
    return TwoStageParams(p.weights, p.means[:, held], W, B), X[:, held]


def choices_by_hand(problem: Problem[Groups]) -> Values:
    """Try the grid component by component; leave folds out; both by scipy."""
    params, X = _few_features(problem)
    s = np.ones(len(params.weights))

    def held_out(trial: np.ndarray) -> float:
        d = X.shape[1]
        keep = np.eye(d) + trial[:, None, None] * (1 - np.eye(d))
        total = keep * (params.within + params.between)
        logs = [
            np.log(c) + normal.logpdf(X, m, S)
            for c, m, S in zip(params.weights, params.means, total, strict=True)
        ]
        return float(np.mean(logsumexp(logs, 0)))

    for _ in range(2):
        for k in range(len(s)):
            trials = [np.where(np.arange(len(s)) == k, t, s) for t in GRID]
            s = trials[int(np.argmax([held_out(t) for t in trials]))]
    mean, error = list[float](), list[float]()
    rows = X[canonical_order(X)]
    order = np.random.default_rng(1).permutation(len(rows))
    tests = [np.flatnonzero(order % 2 == n) for n in range(2)]
    for k in (1, 2):
        log_p = np.zeros(len(rows))
        for test in tests:
            kept = np.setdiff1d(np.arange(len(rows)), test)
            points = Points(rows[kept])
            end = fit(points, n_components=k, seed=1, max_steps=60).params
            total = end.within + end.between
            mixture = MixtureParams(end.weights, end.means, total)
            log_p[test] = logsumexp(_conditional(mixture, rows[test])[0], 1)
        mean.append(log_p.mean())
        error.append(np.sqrt(np.sum((log_p - log_p.mean()) ** 2) / (len(rows) - 1)))
    return {
        "s": s,
        "log density": mean,
        "standard error": np.array(error) / np.sqrt(len(rows)),
        "best": float((1, 2)[int(np.argmax(mean))]),
    }


def choices(problem: Problem[Groups], **grid: Any) -> Values:
    """Return the same of ``choice``; on a shorter grid, if asked."""
    params, X = _few_features(problem)
    found = choose_components(X, (1, 2), n_folds=2, seed=1, max_steps=60)
    return {
        "s": choose_flattening(params, X, **grid),
        "log density": found.log_density,
        "standard error": found.standard_error,
        "best": float(found.best),
    }


def _fitted(problem: Problem[Groups]) -> dict[str, Fitted]:
    """Return fits of each form about parameters that are no mode."""
    p = near(problem)._asdict()
    p = TwoStageParams(**{name: np.asarray(a) for name, a in p.items()})
    total = p.within + p.between
    tied = p._replace(within=0.35 * total, between=0.65 * total)
    prior = problem.prior
    codes = np.asarray(problem.data.group)
    # All instances of a source side by side are one normal: few of each.
    few = [np.flatnonzero(codes == g)[:FEW] for g in np.unique(codes)]
    rows = np.concatenate(few)
    w = None if problem.data.w is None else np.asarray(problem.data.w)[rows]
    data = Groups(np.asarray(problem.data.X)[rows], codes[rows], w)
    return {
        "free": Fitted(data, prior, p, False, None),
        "α sampled": Fitted(data, prior, tied, True, None),
        "α held": Fitted(data, prior, tied, True, 0.35),
    }


def target_by_numpyro(problem: Problem[Groups]) -> Values:
    """Evaluate NumPyro's potential on the real line, and moments by direct sums."""
    found: dict[str, Any] = {}
    for name, fitted in _fitted(problem).items():
        options: dict[str, Any] = {"n_components": len(fitted.params.weights)}
        if fitted.proportional:
            options |= {"covariance": "proportional", "alpha": fitted.alpha}
        args = stack(fitted.data), fitted.prior
        at = jax.tree.map(jnp.asarray, position(fitted))

        def potential(at: Any, args: Any = args, options: Any = options) -> Array:
            return jnp.asarray(potential_energy(two_stage, args, options, at))

        found[f"log density, {name}"] = -jax.jit(potential)(at)
        p = fitted.params
        c, mean = p.weights, p.weights @ p.means
        second = sum(
            c[k] * (p.within[k] + p.between[k] + np.outer(p.means[k], p.means[k]))
            for k in range(len(c))
        )
        found |= {
            f"W, {name}": p.within,
            f"B, {name}": p.between,
            f"mean, {name}": mean,
            f"average of W, {name}": sum(c[k] * p.within[k] for k in range(len(c))),
            f"covariance, {name}": second - np.outer(mean, mean),
        }
    return found


@jax.jit
def _at(at: Arrays, data: Data) -> tuple[Array, Array, Arrays]:
    """Return the target, the same without its Jacobian, and what it tells."""
    assert TARGET.parts is not None
    parts, likelihood = TARGET.parts(at, data)
    density = jnp.asarray(TARGET.log_density(at, data))
    without = jnp.asarray(likelihood + sum(parts.values()))
    return density, without, TARGET.functionals(at, data)


def target(problem: Problem[Groups], jacobian: bool = True) -> Values:
    """Return the same of the target; without its Jacobian, if asked."""
    found: dict[str, Any] = {}
    for name, fitted in _fitted(problem).items():
        data = jax.device_put(pack(fitted))
        at = jax.tree.map(jnp.asarray, position(fitted))
        whole, without, told = _at(at, data)
        found |= {
            f"log density, {name}": whole if jacobian else without,
            f"W, {name}": told["within"],
            f"B, {name}": told["between"],
            f"mean, {name}": told["mean"],
            f"average of W, {name}": told["within_average"],
            f"covariance, {name}": told["covariance_total"],
        }
    return found


def moments_of_new(problem: Problem[Groups]) -> Values:
    """Return moments of two instances of one source, and of one of another."""
    p = near(problem)
    both = np.einsum("k,kij->ij", p.weights, p.between)
    both = both + np.einsum("k,ki,kj->ij", p.weights, p.means, p.means)
    own = both + np.einsum("k,kij->ij", p.weights, p.within)
    mean = p.weights @ p.means
    i, j = np.tril_indices(len(mean))
    return {
        "x": mean,
        "x xᵀ": own[i, j],
        "x yᵀ, one source": both[i, j],
        "x yᵀ, two sources": np.outer(mean, mean)[i, j],
    }


def new(problem: Problem[Groups], apart: bool = False) -> xr.Dataset:
    """Draw three points by ``new_points``; all of one source each, if asked."""
    p = near(problem)
    d = p.means.shape[1]
    group = np.arange(3) if apart else np.array([7, 7, 3])
    data = Groups(np.zeros((3, d)), group)
    values = {
        name: np.broadcast_to(a, (4, 5000, *np.shape(a)))
        for name, a in p._asdict().items()
    }
    fitted = Fitted(data, problem.prior, p, False, None)
    x, y, z = np.moveaxis(new_points(fitted, values, seed=1), 2, 0)
    i, j = np.tril_indices(d)
    return as_dataset(
        {
            "x": x,
            "x xᵀ": x[..., i] * x[..., j],
            "x yᵀ, one source": x[..., i] * y[..., j],
            "x yᵀ, two sources": x[..., i] * z[..., j],
        }
    )


CHECKS = (
    by_algebra(
        "steps of the mixture are direct sums, components known, entries missing",
        reference=em_by_hand,
        estimate=em,
        controls={"Dirichlet(a + 1) for Dirichlet(a)": partial(em, a=1.0)},
    ),
    by_algebra(
        "default prior and starts are direct sums over scikit-learn's clusters",
        reference=starts_by_hand,
        estimate=starts,
        controls={"prior means held more strongly": partial(starts, strength=0.2)},
        atol=1e-10,
    ),
    by_algebra(
        "flattening and number of components are the best of their grids",
        reference=choices_by_hand,
        estimate=choices,
        controls={"a shorter grid": partial(choices, grid=(0.3, 0.6))},
        rtol=1e-8,
    ),
    by_gradient(
        "samplers' target is NumPyro's potential, free or W = αΣ",
        reference=target_by_numpyro,
        estimate=target,
        controls={"Jacobian left out": partial(target, jacobian=False)},
        rtol=1e-8,
        atol=1e-10,  # Means of centred data are rounding.
    ),
    by_sampling(
        "new points have the model's moments, within and between sources",
        reference=moments_of_new,
        estimate=new,
        controls={"each its own source": partial(new, apart=True)},
    ),
)
