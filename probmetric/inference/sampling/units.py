"""Storage of pointwise log likelihoods, if the observations are exchangeable.

ArviZ's ``loo`` assumes that the group ``log_likelihood`` has one variable with the log
likelihoods of exchangeable observations. Pairs that share points and tempered
likelihoods violate this assumption. Their group has a second variable, ``power``: the
total minus the sum over observations, which power scaling needs.
``loo`` raises an error for two variables. If the total is not stored, their group is
``pseudo_log_likelihood``.
"""

import json
from collections.abc import Hashable, Mapping

import numpy as np
import xarray as xr

LIKELIHOOD, PSEUDO = "log_likelihood", "pseudo_log_likelihood"

POINTS = "point_log_likelihood"
"""Group with one term per point: the density of its pairs, without its effect.

The effect of the point is integrated out. If pairs share points, points are the
exchangeable units. Each pair is in two terms, so the terms do not sum to the log
likelihood.
"""


def no_unit(draws: xr.DataTree, *, points: bool = False) -> str | None:
    """Return the reason why observations are not exchangeable, or None.

    With ``points=True``, an observation is a point with its pairs.
    """
    constant = draws["constant_data"] if "constant_data" in draws.children else {}
    if not points and "i" in constant and "j" in constant:
        i, j = np.asarray(constant["i"]), np.asarray(constant["j"])
        ends = np.concatenate([i, j]) if i.ndim == j.ndim == 1 else np.arange(0)
        shared = len(ends) - len(np.unique(ends))
        if shared:
            return (
                f"pairs must not share points for loo, got {len(ends) // 2} pairs of "
                f"{len(ends) - shared} points. loo would be too optimistic, because "
                "pairs that share points predict each other. Use held_out."
            )
    rate = draws.attrs.get("learning_rate", 1.0)
    # A learning rate per unit is stored as JSON.
    rates = json.loads(rate) if isinstance(rate, str) else rate
    if not np.all(np.asarray(rates) == 1):
        return (
            f"learning_rate must be 1 for loo, got {rate}. With another value loo "
            "does not predict single observations. Sample with learning_rate=1."
        )
    w = np.asarray(constant["w"]) if "w" in constant else np.ones(1)
    if not np.all(w == 1):
        return (
            f"w must be 1 for loo, got {w.min():g} to {w.max():g}. A weighted "
            "observation cannot be left out. Sample without weights."
        )
    return None


def whole(total: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return the group that stores the total log likelihood, (n_chains, n_draws)."""
    return {} if total is None else {"total": total, "power": np.zeros_like(total)}


def pointwise(draws: xr.DataTree, group: str = LIKELIHOOD) -> bool:
    """Return True if a group has one log likelihood per observation."""
    if group not in draws.children:
        return False
    return any(len(term.dims) > 2 for term in draws[group].to_dataset().values())


def with_terms(
    draws: xr.DataTree, terms: Mapping[Hashable, xr.DataArray]
) -> xr.DataTree:
    """Store the log likelihood of each observation instead of the total.

    If the observations are not exchangeable, store the difference between the total and
    the sum as ``power``, and the reason in the attribute ``reason`` of the group.
    """
    group, reason = xr.Dataset(terms), no_unit(draws)
    total = draws.children.get(LIKELIHOOD)
    others = draws.drop_nodes(LIKELIHOOD, errors="ignore")
    if reason is None:
        return others.assign({LIKELIHOOD: xr.DataTree(group)})
    group = group.assign_attrs(reason=reason)
    if total is None:
        return others.assign({PSEUDO: xr.DataTree(group)})
    sums = [term.sum(set(term.dims) - {"chain", "draw"}) for term in group.values()]
    group["power"] = total["total"] - sum(sums)
    return others.assign({LIKELIHOOD: xr.DataTree(group)})
