"""Are stored log likelihoods those of units that could be left out?

ArviZ takes whatever stands in the group ``log_likelihood`` for the log likelihoods of
exchangeable units. Terms with a power on them, or of pairs that share points, are not:
their sum is a pseudo-likelihood, and they are stored under that name, where ArviZ
finds nothing and says so.
"""

import json

import numpy as np
import xarray as xr

LIKELIHOOD, PSEUDO = "log_likelihood", "pseudo_log_likelihood"


def no_unit(draws: xr.DataTree) -> str | None:
    """Say why a term of the likelihood is no unit that could be left out, or None."""
    constant = draws["constant_data"] if "constant_data" in draws.children else {}
    if "i" in constant and "j" in constant:
        i, j = np.asarray(constant["i"]), np.asarray(constant["j"])
        ends = np.concatenate([i, j]) if i.ndim == j.ndim == 1 else np.arange(0)
        shared = len(ends) - len(np.unique(ends))
        if shared:
            return (
                f"pairs: expected pairs that share no point, got {len(ends) // 2} "
                f"pairs "
                f"of {len(ends) - shared} points: a pair left out is known from those "
                "it shares points with, so LOO would flatter; use held_out"
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


def set_apart(draws: xr.DataTree) -> xr.DataTree:
    """Rename a group ``log_likelihood`` whose terms are no units, and say why in it."""
    if LIKELIHOOD not in draws.children:
        return draws
    reason = no_unit(draws)
    if reason is None:
        return draws
    terms = draws[LIKELIHOOD].to_dataset().assign_attrs(reason=reason)
    return draws.drop_nodes(LIKELIHOOD).assign({PSEUDO: xr.DataTree(terms)})
