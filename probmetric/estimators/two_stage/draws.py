"""Draws of a fitted two-stage mixture as a DataTree, in input units.

Sources are independent units, so the same posterior is used for prediction and
intervals. The order of components is arbitrary. The group ``posterior`` contains only
quantities that do not depend on this order. In the group ``components``, components are
relabeled to match the fit, for inspection.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from jaxtyping import Float

from probmetric.arguments import check_number
from probmetric.data.containers import Groups, Pairs, Points
from probmetric.data.groups import as_groups
from probmetric.data.scaling import Scaler
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.target import Attribute, Draws
from probmetric.inference.sampling.units import with_terms
from probmetric.inference.two_stage.draws import draws_of_prior, new_points, pointwise
from probmetric.inference.two_stage.target import Fitted
from probmetric.models.two_stage import TwoStageParams, two_stage

AXES = {
    "weights": ("component",),
    "means": ("component", "feature"),
    "within": ("component", "feature", "feature_bis"),
    "between": ("component", "feature", "feature_bis"),
    "mean": ("feature",),
    "within_average": ("feature", "feature_bis"),
    "covariance_total": ("feature", "feature_bis"),
}


def to_tree(
    drawn: Draws,
    fitted: Fitted,
    scaler: Scaler,
    names: list[str] | None,
    *,
    log_likelihood: bool,
    attributes: Mapping[str, Attribute],
    predictive: bool = False,
    prior_draws: int | None = None,
    seed: int = 0,
) -> xr.DataTree:
    """Return draws and their data as a DataTree (parameters as in ``sample``)."""
    values = {k: _input_units(k, v, scaler) for k, v in drawn.values.items()}
    components = {name: values.pop(name) for name in TwoStageParams._fields}
    data = fitted.data
    X = scaler.mean + np.asarray(data.X) * scaler.scale
    shown = data._replace(X=X)
    arguments = {
        "prior": fitted.prior,
        "n_components": len(fitted.params.weights),
        "covariance": "proportional" if fitted.proportional else "free",
        "alpha": fitted.alpha,
    }
    groups: dict[str, dict[str, np.ndarray]] = {}
    if predictive:
        new = new_points(fitted, drawn.values, seed=seed)
        groups["posterior_predictive"] = {"X": scaler.mean + new * scaler.scale}
    if prior_draws is not None:
        n = check_number("prior_draws", prior_draws, 1, whole=True)
        prior = draws_of_prior(fitted, n, seed=seed)
        new = new_points(fitted, prior, seed=seed)
        groups["prior_predictive"] = {"X": scaler.mean + new * scaler.scale}
        groups["prior"] = {k: _input_units(k, prior[k], scaler) for k in values}
    tree = to_datatree(
        drawn._replace(values=values),
        feature_names=names,
        dims={name: AXES[name] for name in values if name in AXES},
        data=shown,
        observed={"X": X},
        groups=groups,
        attributes={**provenance(two_stage, shown, arguments), **attributes},
    )
    coords = {c: tree["posterior"].coords[c] for c in ("feature", "feature_bis")}
    laid = {k: (("chain", "draw", *AXES[k]), v) for k, v in components.items()}
    tree["components"] = xr.DataTree(xr.Dataset(laid, coords))
    if log_likelihood:
        axes = ("chain", "draw", "point" if isinstance(data, Points) else "source")
        log_p = pointwise(fitted, drawn) - _log_scale(data, scaler)
        tree = with_terms(tree, {"x": xr.DataArray(log_p, dims=axes)})
    return tree


def _log_scale(
    data: Points | Pairs | Groups, scaler: Scaler
) -> Float[np.ndarray, "units"]:
    groups = as_groups(data)
    rows = ~np.isnan(np.asarray(groups.X)) @ np.log(scaler.scale)
    owner = np.unique(np.asarray(groups.group), return_inverse=True)[1]
    return np.bincount(owner, rows)


def _input_units(name: str, value: np.ndarray, scaler: Scaler) -> np.ndarray:
    if name in ("mean", "means"):
        return scaler.mean + value * scaler.scale
    if "feature_bis" in AXES.get(name, ()):
        return value * np.outer(scaler.scale, scaler.scale)
    return value
