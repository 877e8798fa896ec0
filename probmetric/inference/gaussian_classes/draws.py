"""Exact posterior draws of Gaussian classes, and local metrics of the draws.

The posterior has a closed form, and Eq. (4) of ``posterior`` draws from it without a
sampler. Draws are independent. With missing entries, successive draws use successive
completions. All results are in input units.
"""

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

import jax
import numpy as np
import xarray as xr

from probmetric.arguments import check_number
from probmetric.compilation import COMPILED_SOONEST
from probmetric.data.containers import Labeled
from probmetric.data.scaling import Scaler
from probmetric.inference.gaussian_classes.local_metric import drawn_metrics
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    draw,
    is_mean,
)
from probmetric.inference.sampling.datatree import INDEPENDENT, provenance, to_datatree
from probmetric.inference.sampling.metrics import joined
from probmetric.inference.sampling.predictive import prior_draws as prior_draws_of
from probmetric.inference.sampling.sample import like
from probmetric.inference.sampling.target import (
    Arrays,
    Attribute,
    Call,
    Draws,
    Kwargs,
    Run,
    seed_and_total,
    site_densities,
)
from probmetric.metric import LocalMahalanobis
from probmetric.models.gaussian_classes import (
    Covariance,
    GaussianClassesParams,
    NIWPrior,
    gaussian_classes,
    to_densities,
)
from probmetric.precision import to_numpy
from probmetric.typing import Names, Scalar

if TYPE_CHECKING:
    Exact = Literal["exact"]
else:
    Exact = Any  # A wrong value gets an error of the package, not of the type checker.

BASE = "local_metric"
"""Attribute of draws with the settings that the metrics of all draws share."""


_draw = jax.jit(draw, static_argnames="n_draws", compiler_options=COMPILED_SOONEST)


def sample(
    posterior: ClassPosterior,
    scaler: Scaler,
    data: Labeled,
    *,
    names: Names | None = None,
    arguments: Kwargs,
    base: LocalMahalanobis | None = None,
    classes: np.ndarray | None = None,
    log_prior: bool = False,
    predictive: bool = False,
    prior_draws: int | None = None,
    **run: Unpack[Run],
) -> xr.DataTree:
    """Draw the parameters of the classes ``n_draws * n_chains`` times, in one chain.

    ``posterior`` is in scaled units. ``data``, ``base`` and the draws are in input
    units. ``metrics`` uses the rule and γ of ``base``, the fitted local metric. Zero
    columns of the frame of ``base`` mark constant features. At γ = ∞, ``base`` is the
    metric of every draw. ``log_prior``, ``predictive`` and ``prior_draws`` require
    ``arguments`` to contain the prior and the covariance.
    """
    seed, total = seed_and_total(**run)
    with jax.enable_x64(True):
        params = to_numpy(_draw(jax.random.key(seed), posterior, n_draws=total))
    values = _in_input_units(params, scaler)
    tied = params.chol.shape[1] != params.mean.shape[1]
    owner = "all_classes" if tied else "class"
    n_completions = len(posterior.mean) if is_mean(posterior) else 1
    attributes: dict[str, Attribute] = {"completions": n_completions, INDEPENDENT: 1}
    if base is not None:
        shared = {
            name: np.asarray(getattr(base, name)).tolist()
            for name in ("frame", "centre", "gamma", "epsilon")
        }
        attributes[BASE] = json.dumps({**shared, "rule": base.rule})
    drawn = Draws(values, {}, {"method": "exact", "seed": seed})
    observed: dict[str, np.ndarray] | None = None
    groups: dict[str, Any] = {}
    if log_prior or predictive or prior_draws is not None:
        model = _Model(data, scaler, **arguments)
        observed = {"X": np.asarray(data.X)}
        if log_prior:
            prior_of, likelihood = model.densities(params)
            drawn = drawn._replace(log_prior=prior_of, log_likelihood=likelihood)
        if predictive:
            groups["posterior_predictive"] = model.new_points(params, seed)
        if prior_draws is not None:
            n = check_number("prior_draws", prior_draws, 1, whole=True)
            groups |= model.prior_draws(n, seed)
    return to_datatree(
        drawn,
        observed=observed,
        groups=groups,
        feature_names=None if names is None else list(names),
        coords=None if classes is None else {"class": list(map(str, classes))},
        dims={
            "weights": ("class",),
            "mean": ("class", "feature"),
            "covariance": (owner, "feature", "feature_bis"),
        },
        data=data,
        attributes={**provenance(gaussian_classes, data, arguments), **attributes},
    )


def _in_input_units(
    params: GaussianClassesParams, scaler: Scaler
) -> dict[str, np.ndarray]:
    """Convert draws to input units, by name, in one chain."""
    factor = scaler.scale[:, None] * params.chol
    values = {
        "weights": params.weights,
        "mean": scaler.mean + scaler.scale * params.mean,
        "covariance": factor @ np.swapaxes(factor, -1, -2),
    }
    return {name: np.asarray(value)[None] for name, value in values.items()}


class _Model:
    def __init__(
        self, data: Labeled, scaler: Scaler, prior: NIWPrior, covariance: Covariance
    ) -> None:
        self.shown, self.scaler = data, scaler
        Z = (np.asarray(data.X) - scaler.mean) / scaler.scale
        args = data._replace(X=Z), jax.tree.map(np.asarray, prior)
        options: dict[str, Any] = {
            "n_classes": int(np.asarray(data.y).max()) + 1,
            "covariance": covariance,
            "missing": bool(np.isnan(Z).any()),
        }
        self.call = Call(gaussian_classes, args, options)

    def densities(
        self, params: GaussianClassesParams
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Compute log prior densities by site, and the log likelihood, of all draws."""
        sites = {"weights": params.weights, "mean": params.mean, "chol": params.chol}
        if self.call.kwargs["covariance"] == "diagonal":
            variance = np.diagonal(sites.pop("chol"), axis1=-2, axis2=-1) ** 2
            sites["variance"] = variance
        with jax.enable_x64(True):
            prior, total = to_numpy(_densities(self.call, sites))
        log_scale = ~np.isnan(np.asarray(self.shown.X)) @ np.log(self.scaler.scale)
        w = np.ones(len(log_scale)) if self.shown.w is None else self.shown.w
        return {k: v[None] for k, v in prior.items()}, total[None] - w @ log_scale

    def new_points(
        self, params: GaussianClassesParams, seed: int | list[int]
    ) -> dict[str, np.ndarray]:
        """Draw points in the observed classes; an entry missing in the data is NaN."""
        shown = np.asarray(self.shown.X)
        shape = len(params.weights), *shown.shape
        noise = np.random.default_rng(seed).normal(size=shape)
        chol = np.broadcast_to(params.chol, (*params.mean.shape, shape[-1]))
        new = np.empty_like(noise)
        for c in range(params.mean.shape[1]):
            rows = np.flatnonzero(np.asarray(self.shown.y) == c)
            moved = noise[:, rows] @ np.swapaxes(chol[:, c], -1, -2)
            new[:, rows] = params.mean[:, c, None] + moved
        X = self.scaler.mean + new * self.scaler.scale
        return like({"X": shown}, {"X": X[None]})

    def prior_draws(self, n: int, seed: int) -> dict[str, Any]:
        with jax.enable_x64(True):
            drawn = prior_draws_of(self.call, n, seed=seed)
        params = GaussianClassesParams(
            *(drawn[k][0] for k in ("weights", "mean", "chol"))
        )
        return {
            "prior": _in_input_units(params, self.scaler),
            "prior_predictive": self.new_points(params, [seed, 1]),
        }


@jax.jit
def _densities(call: Call, sites: Arrays) -> tuple[Arrays, Scalar]:
    return jax.lax.map(partial(site_densities, call), sites, batch_size=100)


def metrics(draws: xr.DataTree) -> list[LocalMahalanobis] | None:
    """Compute one local metric per draw of ``GLML.sample``; None for other draws."""
    if BASE not in draws.attrs:
        return None
    values, shared = joined(draws), json.loads(draws.attrs[BASE])
    chol = np.linalg.cholesky(values["covariance"])
    params = GaussianClassesParams(values["weights"], values["mean"], chol)
    rule = shared.pop("rule")
    parts = {name: np.asarray(value, float) for name, value in shared.items()}
    with jax.enable_x64(True):
        first = to_numpy(to_densities(jax.tree.map(lambda a: a[0], params)))
    base = LocalMahalanobis(first, rule=rule, **parts)
    if np.isinf(base.gamma):  # The base metric is the same for all draws.
        return [base] * len(chol)
    varied = (base.frame != 0).any(0)  # Constant features have no weight.
    return [
        replace(metric, frame=metric.frame * varied)
        for metric in drawn_metrics(params, base)
    ]
