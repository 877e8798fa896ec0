"""Are stored log likelihoods those of units that could be left out?

ArviZ takes the one variable of the group ``log_likelihood`` for the log likelihoods of
exchangeable units. Those of pairs that share points are not, nor those of a posterior
that has a power on them: there a second variable, ``power``, stands beside the plain
terms, so that their sum is the log likelihood as the posterior has it, which power
scaling needs, and that ArviZ's ``loo`` refuses, which takes one variable. Terms without
a posterior (of bootstrap draws) have the name ``pseudo_log_likelihood``.
"""

import json
from collections.abc import Hashable, Mapping

import numpy as np
import xarray as xr

LIKELIHOOD, PSEUDO = "log_likelihood", "pseudo_log_likelihood"

POINTS = "point_log_likelihood"
"""Group of terms a point: the density of all its pairs, its own effect integrated out.

Points are the units of pairs that share points. The terms do not sum to the log
likelihood, as each pair is in two of them, so that they have a group of their own.
"""


def no_unit(draws: xr.DataTree, *, points: bool = False) -> str | None:
    """Say why a term of the likelihood is no unit that could be left out, or None.

    With ``points`` the units are points, whose pairs may share others.
    """
    constant = draws["constant_data"] if "constant_data" in draws.children else {}
    if not points and "i" in constant and "j" in constant:
        i, j = np.asarray(constant["i"]), np.asarray(constant["j"])
        ends = np.concatenate([i, j]) if i.ndim == j.ndim == 1 else np.arange(0)
        shared = len(ends) - len(np.unique(ends))
        if shared:
            return (
                f"pairs: expected pairs that share no point, got {len(ends) // 2} "
                f"pairs of {len(ends) - shared} points: a pair left out is known from "
                "those it shares points with, so LOO would flatter; use held_out"
            )
    rate = draws.attrs.get("learning_rate", 1.0)
    # One a unit is stored as JSON.
    each = json.loads(rate) if isinstance(rate, str) else rate
    if not np.all(np.asarray(each) == 1):
        return (
            "learning_rate: expected 1, got "
            f"{rate}: the posterior of a powered likelihood predicts no unit"
        )
    w = np.asarray(constant["w"]) if "w" in constant else np.ones(1)
    if not np.all(w == 1):
        return (
            f"w: expected data weights of one, got {w.min():g} to {w.max():g}: a "
            "weighted unit is not one unit that could be left out"
        )
    return None


def whole(total: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return the group of a log likelihood of all data, (n_chains, n_draws)."""
    return {} if total is None else {"total": total, "power": np.zeros_like(total)}


def pointwise(draws: xr.DataTree, group: str = LIKELIHOOD) -> bool:
    """Say whether a group holds terms, one an observation."""
    if group not in draws.children:
        return False
    return any(len(term.dims) > 2 for term in draws[group].to_dataset().values())


def with_terms(
    draws: xr.DataTree, terms: Mapping[Hashable, xr.DataArray]
) -> xr.DataTree:
    """Store log likelihoods of observations, plain, in the place of their total.

    Where they are no units, the difference stands beside them, and why in the group's
    attribute ``reason``.
    """
    group, reason = xr.Dataset(terms), no_unit(draws)
    found = draws.children.get(LIKELIHOOD)
    kept = draws.drop_nodes(LIKELIHOOD, errors="ignore")
    if reason is None:
        return kept.assign({LIKELIHOOD: xr.DataTree(group)})
    group = group.assign_attrs(reason=reason)
    if found is None:
        return kept.assign({PSEUDO: xr.DataTree(group)})
    each = [term.sum(set(term.dims) - {"chain", "draw"}) for term in group.values()]
    group["power"] = found["total"] - sum(each)
    return kept.assign({LIKELIHOOD: xr.DataTree(group)})
