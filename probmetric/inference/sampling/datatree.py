"""Draws as an ArviZ DataTree: named axes, the data, and provenance."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from probmetric.data.containers import (
    Distances,
    Groups,
    Labeled,
    Pairs,
    Points,
    Triplets,
    weights,
)
from probmetric.data.hash import data_hash, data_variables
from probmetric.inference.sampling.target import Attribute, Draws, Kwargs, Model, Target
from probmetric.inference.sampling.units import LIKELIHOOD, whole, with_terms
from probmetric.provenance import versions
from probmetric.typing import Array

DIMS = {"M": ("feature", "feature_bis"), "W": ("latent", "feature")}
"""Names of the axes of M and W after chain and draw."""

OWN_MODEL = "own_model"

INDEPENDENT = "pairs_independent"
"""Attribute of draws: 1 if they vary as fits to new samples (independent data)."""
"""Attribute of draws of a user's model, whose sites may have any meaning."""


def to_datatree(
    draws: Draws,
    *,
    feature_names: Sequence[str] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence[object]] | None = None,
    data: PyTree = None,
    observed: Mapping[str, Array] | None = None,
    log_likelihood: Mapping[str, Array] | None = None,
    groups: Mapping[str, Mapping[str, Array]] | None = None,
    attributes: Mapping[str, Attribute] | None = None,
) -> xr.DataTree:
    """Return draws as a DataTree; see ``sample`` for names and axes.

    The data are stored in ``constant_data``, except the variables in ``observed``. The
    log likelihood of each observation (without learning rate or weights) is stored
    instead of the total, with the second variable ``power`` described in ``units``.
    ``groups`` are ``prior``, ``prior_predictive`` and ``posterior_predictive``, with
    the axes of the posterior or of the observations.
    """
    # The whole of ArviZ takes a second to import; only building a tree needs it.
    import arviz as az

    constant = {
        name: value
        for name, value in data_variables(data).items()
        if name not in (observed or {})
    }
    extra = dict(groups or {})
    drawn = {
        "posterior": draws.values,
        "sample_stats": draws.statistics,
        "prior": extra.pop("prior", None),
    }
    densities = {"log_prior": draws.log_prior, LIKELIHOOD: whole(draws.log_likelihood)}
    others = {
        LIKELIHOOD: log_likelihood,
        **extra,
        "observed_data": observed,
        "constant_data": constant,
    }
    axes = _posterior_dims(draws.values, dims or {})
    sizes = {
        size
        for name, value in draws.values.items()
        for dim, size in zip(axes.get(name, ()), np.shape(value)[2:], strict=False)
        if dim in ("feature", "feature_bis")
    }
    if "X" in constant and np.ndim(constant["X"]) == 2:
        sizes.add(np.shape(constant["X"])[1])
    labels: dict[str, Any] = {**_feature_coords(feature_names, sizes), **(coords or {})}
    root = {**(attributes or {}), **draws.attributes}
    khat = {"khat": root["khat"]} if "khat" in root else {}
    attrs = {"/": {k: _plain(v) for k, v in root.items()}, "posterior": khat}
    data_axes = _data_dims(data, {**constant, **(observed or {})})

    def from_dict(
        groups: Mapping[str, Mapping[str, Array] | None],
        axes: dict[str, list[str]],
        attrs: Mapping[str, Mapping[str, object]] | None = None,
    ) -> xr.DataTree:
        full = {name: group for name, group in groups.items() if group}
        return az.from_dict(full, coords=labels, dims=axes, attrs=attrs)

    # Separate calls: a quantity, its density and a data array may have the same name.
    tree = from_dict(drawn, axes, attrs)
    tree = tree.assign(from_dict(densities, {}).children)
    rest = dict(from_dict(others, data_axes).children)
    terms = rest.pop(LIKELIHOOD, None)
    tree = tree.assign(rest)
    return tree if terms is None else with_terms(tree, terms.to_dataset().data_vars)


def _posterior_dims(
    values: Mapping[str, Array], dims: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    unknown = [name for name in dims if name not in values]
    if unknown:
        raise ValueError(
            f"dims must only contain names of {list(values)}, got {unknown}. Remove "
            "the other names."
        )
    axes: dict[str, list[str]] = {}
    for name, value in values.items():
        n_axes = np.ndim(value) - 2
        if name in dims:
            if len(dims[name]) != n_axes:
                raise ValueError(
                    f"dims must have {n_axes} names for {name!r} (axes after chain and "
                    f"draw), got {dims[name]!r}. Pass one name for each axis."
                )
            if len({"chain", "draw", *dims[name]}) < n_axes + 2:
                raise ValueError(
                    f"dims must be distinct, without 'chain' and 'draw', for {name!r}, "
                    f"got {dims[name]!r}. Use 'feature_bis' for a second feature axis."
                )
            axes[name] = list(dims[name])
        elif len(DIMS.get(name, ())) == n_axes > 0:
            axes[name] = list(DIMS[name])
    return axes


def _data_dims(data: PyTree, variables: Mapping[str, Array]) -> dict[str, list[str]]:
    """Name the axes of points, pairs and features; equal names have equal lengths."""
    if isinstance(data, Distances):
        return {"D": ["point", "point_bis"]}
    shapes = {name: np.shape(value) for name, value in variables.items()}
    X, i, j = (shapes.get(name, ()) for name in ("X", "i", "j"))
    if len(X) != 2:
        return {}
    # A user's array may have the name of an axis; ArviZ then names the axis.
    rows: dict[tuple[int, ...], str]
    rows = {X[:1]: "point", **({i: "pair"} if i == j and len(i) == 1 else {})}
    rows = {shape: name for shape, name in rows.items() if name not in shapes}
    axes = {name: [rows[shape]] for name, shape in shapes.items() if shape in rows}
    if not {"point", "feature"} & set(shapes):
        axes["X"] = ["point", "feature"]
    return axes


def _feature_coords(
    names: Sequence[str] | None, sizes: set[int]
) -> dict[str, list[str]]:
    if names is None and len(sizes) != 1:
        return {}
    labels = (
        [f"x{k}" for k in range(next(iter(sizes)))]
        if names is None
        else [str(name) for name in names]
    )
    if sizes and sizes != {len(labels)}:
        raise ValueError(
            f"feature_names must have one name per feature, {sorted(sizes)}, got "
            f"{len(labels)} names."
        )
    return {"feature": labels, "feature_bis": labels}


def provenance(
    model: Model | Target, data: PyTree, arguments: Kwargs
) -> dict[str, Attribute]:
    """Describe a run: versions, data hash, sum of weights and model arguments."""
    packages = versions("probmetric", "jax", "numpyro", "arviz", "numpy")
    total = getattr(data, "w", None)
    if isinstance(data, Points | Labeled | Pairs | Triplets | Groups):
        total = np.asarray(weights(data), float)
    elif total is None and hasattr(data, "X"):
        total = np.ones(len(data.X))
    rate = np.asarray(arguments.get("learning_rate", 1.0))
    return {
        **{f"{name}_version": value for name, value in packages.items()},
        "model": getattr(model, "__name__", type(model).__name__),
        **({} if _of_package(model) else {OWN_MODEL: 1}),
        "data_hash": data_hash(data),
        **({} if total is None else {"sum_of_weights": float(np.sum(total))}),
        "learning_rate": float(rate) if rate.ndim == 0 else json.dumps(rate.tolist()),
        "model_arguments": json.dumps(
            jax.tree.map(_plain, dict(arguments)), default=repr
        ),
    }


def _of_package(model: Model | Target) -> bool:
    module = getattr(model, "__module__", None) or ""
    return isinstance(model, Target) or module.partition(".")[0] == "probmetric"


def _plain(value: object) -> str | int | float | list:
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return np.asarray(value).tolist()
    return repr(value)
