"""Draws of Gaussian classes, exact and independent, and the local metrics of them.

The posterior is a closed form, so that its draws need no sampler: Eq. (4) of
``posterior``; with missing entries they take the completions in turn. All is in input
units.
"""

import json
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
import xarray as xr

from probmetric.data.containers import Labelled
from probmetric.data.scaling import Scaler
from probmetric.inference.gaussian_classes.local_metric import drawn_metrics
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    draw,
    is_mean,
)
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.metrics import joined
from probmetric.inference.sampling.target import Attribute, Draws, Kwargs, counts
from probmetric.metric import LocalMahalanobis
from probmetric.models.gaussian_classes import (
    GaussianClassesParams,
    gaussian_classes,
    to_densities,
)
from probmetric.precision import to_numpy
from probmetric.typing import Names

if TYPE_CHECKING:
    Exact = Literal["exact"]
else:
    Exact = Any  # Another is refused in words of our own.

BASE = "local_metric"
"""Attribute of draws that holds what the metrics of all draws share."""


def sample(
    posterior: ClassPosterior,
    scaler: Scaler,
    data: Labelled,
    *,
    names: Names | None = None,
    arguments: Kwargs,
    base: LocalMahalanobis | None = None,
    classes: np.ndarray | None = None,
    seed: int = 0,
    n_draws: int = 1000,
    n_chains: int = 4,
) -> xr.DataTree:
    """Return ``n_draws * n_chains`` draws of the class Gaussians, in one chain.

    Parameters
    ----------
    posterior : ClassPosterior
        In the units that ``scaler`` leads back from.
    scaler : Scaler
    data : Labelled
        In input units, for provenance.
    names : sequence of str, optional
        Of the features.
    arguments : dict
        Of the model, for provenance.
    base : LocalMahalanobis, optional
        In input units: gives ``metrics`` the frame, centre, rule and γ.
    classes : array of shape (c,), optional
        Names along the axis ``class``; default 0, 1, ...
    seed : int, default=0
        The same seed gives the same draws.
    n_draws, n_chains : int, defaults 1000 and 4

    Returns
    -------
    DataTree
        Posterior of weights (class), mean (class, feature) and covariance (class or,
        where it is tied, one; feature, feature_bis).
    """
    total = np.prod(counts(n_draws, n_chains))
    with jax.enable_x64(True):
        params = to_numpy(draw(jax.random.key(seed), posterior, int(total)))
    factor = scaler.scale[:, None] * params.chol
    values = {
        "weights": params.weights,
        "mean": scaler.mean + scaler.scale * params.mean,
        "covariance": factor @ np.swapaxes(factor, -1, -2),
    }
    owner = "class" if factor.shape[1] == params.mean.shape[1] else "all_classes"
    n_completions = len(posterior.mean) if is_mean(posterior) else 1
    attributes: dict[str, Attribute] = {"completions": n_completions}
    if base is not None:
        shared = {
            name: np.asarray(getattr(base, name)).tolist()
            for name in ("frame", "centre", "gamma", "epsilon")
        }
        attributes[BASE] = json.dumps({**shared, "rule": base.rule})
    return to_datatree(
        Draws(
            {name: value[None] for name, value in values.items()},
            {},
            {"method": "exact", "seed": seed},
        ),
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


def metrics(draws: xr.DataTree) -> list[LocalMahalanobis] | None:
    """Return one local metric a draw of ``GLML.sample``; None for other draws."""
    if BASE not in draws.attrs:
        return None
    values, shared = joined(draws), json.loads(draws.attrs[BASE])
    chol = np.linalg.cholesky(values["covariance"])
    params = GaussianClassesParams(values["weights"], values["mean"], chol)
    rule = shared.pop("rule")
    parts = {name: np.asarray(value, float) for name, value in shared.items()}
    with jax.enable_x64(True):
        first = to_numpy(to_densities(jax.tree.map(lambda a: a[0], params)))
    return drawn_metrics(params, LocalMahalanobis(first, rule=rule, **parts))
