"""Posterior draws of the two-stage mixture, with latent variables summed out.

Every method starts from the Laplace approximation at the EM solution, which is one of
k! equal modes. Diagnostics and intervals use the label-invariant functionals of
``models.two_stage.invariant``. Other quantities have no valid R-hat or intervals,
because components have no order, and chains and draws may number them differently.

For display of components, ``relabel`` permutes the components of each draw to match the
reference (the EM solution). The permutation minimizes the sum over components of

    (μ - μ_ref)ᵀ S_ref⁻¹ (μ - μ_ref),   S = W + B.                                (1)
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from probmetric.data.containers import Pairs
from probmetric.data.groups import as_groups, stack
from probmetric.inference.sampling.diagnostics import UNDETERMINED
from probmetric.inference.sampling.laplace import laplace_fit
from probmetric.inference.sampling.metrics import joined
from probmetric.inference.sampling.predictive import prior_draws
from probmetric.inference.sampling.sample import Method, sampler_of
from probmetric.inference.sampling.target import Call, Draws, Posterior, Run
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.inference.two_stage.target import (
    TARGET,
    Fitted,
    log_units,
    pack,
    position,
)
from probmetric.metric import PairSimilarity
from probmetric.models.two_stage import TwoStageParams, to_metric, two_stage
from probmetric.typing import Array


def relabel(draws: TwoStageParams, reference: TwoStageParams) -> TwoStageParams:
    """Permute the components of every draw to match a reference, Eq. (1)."""
    total = np.asarray(reference.within) + np.asarray(reference.between)
    L = np.linalg.cholesky(total)
    off = np.asarray(draws.means)[:, :, None] - np.asarray(reference.means)
    z = np.linalg.solve(L, off[..., None])[..., 0]  # (s, k of draw, k of reference, d)
    cost = np.sum(z**2, -1)
    order = np.stack([linear_sum_assignment(c.T)[1] for c in cost])

    def permute(a: Array) -> np.ndarray:
        values = np.asarray(a)
        index = order.reshape(*order.shape, *([1] * (values.ndim - 2)))
        return np.take_along_axis(values, index, 1)

    return TwoStageParams(*(permute(a) for a in draws))


def posterior(fitted: Fitted) -> Posterior:
    """Compute the posterior with its Laplace approximation at an EM solution."""
    with jax.enable_x64(True):
        data = jax.device_put(pack(fitted))
        start = laplace_fit(TARGET, data, position(fitted))
    return Posterior(TARGET, data, start)


def draw(
    fitted: Fitted,
    method: Method,
    **run: Unpack[Run],
) -> Draws:
    """Draw the parameters of the two-stage mixture.

    The parameters are the weights c, the means μ, the covariances W (within) and B
    (between), and α if α is not fixed. Components are in the order of the fit in every
    draw. The draws also have functionals that do not depend on the order of components.

    Parameters
    ----------
    fitted : Fitted
    method : sampler, or "nuts", "laplace", "svi"
        All methods start from the Laplace approximation. The approximation also scales
        the coordinates of NUTS and whitens the coordinates of "svi".
    seed, n_draws, n_chains, progress
        See ``pm.sample``.

    Warns
    -----
    SamplingWarning
        If functionals that do not depend on the order of components did not converge.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Groups
    >>> from probmetric.inference import mixture, two_stage
    >>> from probmetric.inference.two_stage.target import Fitted
    >>> x, noise = np.random.default_rng(0).normal(size=(2, 240, 1))
    >>> group = np.arange(240) // 3
    >>> data = Groups(3 * x[group] + noise, group)  # W = 1, B = 9
    >>> prior = mixture.default_prior(data.X, 1)
    >>> params = two_stage.fit(data, prior=prior).params
    >>> fitted = Fitted(data, prior, params, proportional=False, alpha=None)
    >>> drawn = two_stage.draw(fitted, "laplace", seed=0, n_draws=1000).values
    >>> W, B = np.quantile(drawn["within"], [0.005, 0.995]), drawn["between"].mean()
    >>> bool(W[0] < 1 < W[1]), bool(B > W[1])
    (True, True)
    """
    sampler = sampler_of(method)
    draws = sampler.draw(posterior(fitted), **run)
    names = [n for n in draws.values if n not in TwoStageParams._fields]
    invariants = {name: draws.values[name] for name in names}
    attributes = {**draws.attributes, **_undetermined(fitted)}
    warn_of_trouble(draws._replace(values=invariants, attributes=attributes))
    values = {**draws.values, **_relabeled(draws, fitted)}
    return draws._replace(values=values, attributes=attributes)


def _undetermined(fitted: Fitted) -> dict[str, str]:
    """Describe covariances that the data do not determine, because sources are few."""
    n = len(np.unique(np.asarray(as_groups(fitted.data).group)))
    k, d = fitted.params.means.shape
    if fitted.proportional or n > k * d:
        return {}
    advice = (
        f"{n} sources are too few to estimate the covariance between sources of {d} "
        f"features in {k} component(s), so the prior determines it. More draws do not "
        "help: set prior=TwoStagePrior(...) or covariance='proportional'"
    )
    return {UNDETERMINED: advice}


def metrics(draws: xr.DataTree) -> list[PairSimilarity] | None:
    """Make one similarity per draw, or None for draws of another model."""
    parts = joined(draws, "components")
    if not parts:
        return None
    score: Any = draws.attrs.get("similarity", "log_ratio")
    noise = float(draws.attrs.get("database_noise", 1.0))
    columns = [parts[name] for name in TwoStageParams._fields]
    return [
        with_database_noise(to_metric(TwoStageParams(*draw), score=score), noise)
        for draw in zip(*columns, strict=True)
    ]


def with_database_noise(metric: PairSimilarity, factor: float) -> PairSimilarity:
    """Multiply the noise of database elements by ``factor``."""
    if factor == 1:
        return metric
    return replace(metric, noise_other=factor * np.asarray(metric.noise))


def _relabeled(draws: Draws, fitted: Fitted) -> Mapping[str, Array]:
    params = [np.asarray(draws.values[name]) for name in TwoStageParams._fields]
    flat = TwoStageParams(*(a.reshape(-1, *a.shape[2:]) for a in params))
    named = relabel(flat, fitted.params)
    pairs = zip(TwoStageParams._fields, named, params, strict=True)
    return {name: a.reshape(like.shape) for name, a, like in pairs}


_units_of_draws = jax.jit(
    lambda params, groups: jax.lax.map(lambda p: log_units(p, groups), params)
)


def pointwise(fitted: Fitted, draws: Draws) -> Float[np.ndarray, "chain draw G"]:
    """Compute log p(X_i) of every source, sorted by code, under every draw."""
    params = [np.asarray(draws.values[name]) for name in TwoStageParams._fields]
    flat = TwoStageParams(*(a.reshape(-1, *a.shape[2:]) for a in params))
    with jax.enable_x64(True):
        log_p = np.asarray(_units_of_draws(flat, pack(fitted)[0]))
    return log_p.reshape(*params[0].shape[:2], -1)


def new_points(
    fitted: Fitted, values: Mapping[str, Array], *, seed: int
) -> Float[np.ndarray, "chain draw n d"]:
    """Draw replicated points of the same sources; raise if pairs share points."""
    groups, X = as_groups(fitted.data), np.asarray(fitted.data.X)
    rows = np.arange(len(X))
    if isinstance(fitted.data, Pairs):
        rows = np.stack([fitted.data.i, fitted.data.j], 1).ravel()
    if not np.array_equal(np.sort(rows), np.arange(len(X))):
        raise ValueError(
            "predictive must be False if a point is in several pairs or in none, got "
            f"True for {len(rows) // 2} pairs of {len(X)} points."
        )
    codes = np.unique(np.asarray(groups.group), return_inverse=True)[1]
    rng, n_sources = np.random.default_rng(seed), int(codes.max()) + 1
    params = [np.asarray(values[name]) for name in TwoStageParams._fields]
    new = np.empty((*params[0].shape[:2], *X.shape))
    for at in np.ndindex(*new.shape[:2]):
        c, means, within, between = (p[at] for p in params)
        k = rng.choice(len(c), n_sources, p=c / c.sum())
        x = means[k] + _noise(between, k, rng)
        new[at][rows] = x[codes] + _noise(within, k[codes], rng)
    return np.where(np.isnan(X), np.nan, new)


def _noise(cov: np.ndarray, k: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw N(0, cov[k]) for every k; zero variances are allowed."""
    variances, axes = np.linalg.eigh(cov)
    root = axes * np.sqrt(np.maximum(variances, 0))[:, None]
    return np.einsum("nij,nj->ni", root[k], rng.normal(size=(len(k), cov.shape[-1])))


def draws_of_prior(fitted: Fitted, n: int, *, seed: int) -> dict[str, np.ndarray]:
    """Draw all quantities that ``draw`` reports from the prior, shape (1, n, ...)."""
    prior = jax.tree.map(np.asarray, fitted.prior)
    options: dict[str, Any] = {
        "n_components": len(fitted.params.weights),
        "covariance": "proportional" if fitted.proportional else "free",
        "alpha": fitted.alpha if fitted.proportional else None,
    }
    with jax.enable_x64(True):
        data = stack(fitted.data)
        drawn = prior_draws(Call(two_stage, (data, prior), options), n, seed=seed)
    if fitted.proportional:
        share = drawn.get("alpha", np.asarray(fitted.alpha))
        drawn["within"] = share[..., None, None, None] * drawn["covariances"]
        drawn["between"] = drawn["covariances"] - drawn["within"]
    return drawn
