"""What is wrong with draws, each finding with what helps against its cause.

One list for the warnings of samplers, for reports and for a user's own look at a file:
divergences, saturated trees, low E-BFMI, chains that are copies, R-hat, effective
sample sizes of the bulk and of the tails, draws that are not finite; and of
approximations their k-hat. The statistics are ArviZ's.

References
----------
Vehtari et al., "Rank-normalization, folding, and localization: an improved R-hat for
assessing convergence of MCMC", Bayesian Analysis 16, 2021. Betancourt, "Diagnosing
suboptimal cotangent disintegrations in Hamiltonian Monte Carlo", 2016. Vehtari et al.,
"Pareto smoothed importance sampling", JMLR 2024.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from probmetric.inference.sampling.summary import (
    entry_names,
    equal_chains,
    listed,
    stacked,
)

RHAT_MAX = 1.01
ESS_PER_CHAIN = 100
"""Effective draws a chain below which R-hat and errors are themselves unreliable."""

BFMI_MIN = 0.3
KHAT_MAX = 0.7

UNDETERMINED = "undetermined"
"""Attribute of draws of which the data leave something undetermined: what, in words."""


class Finding(NamedTuple):
    """Something wrong with draws.

    Attributes
    ----------
    name : str
        "divergences", "tree depth", "E-BFMI", "not finite", "equal chains", "R-hat",
        "bulk ESS", "tail ESS" or "k-hat".
    what : str
        What was found, with numbers and the quantities it concerns.
    advice : str
        What helps against its cause.

    Examples
    --------
    >>> from probmetric.inference.sampling import Finding
    >>> found = Finding("R-hat", "R-hat of b is 1.2", "draw more")
    >>> str(found)
    'R-hat of b is 1.2: draw more'
    """

    name: str
    what: str
    advice: str

    def __str__(self) -> str:
        """Return both in one line."""
        return f"{self.what}: {self.advice}"


def diagnose(draws: xr.DataTree, names: Sequence[str] | None = None) -> list[Finding]:
    """Return what is wrong with draws; an empty list where nothing was found.

    Parameters
    ----------
    draws : DataTree
        Of ``sample``, the package's or an estimator's. Of independent draws only
        ``khat`` is looked at.
    names : sequence of str, optional
        The quantities of the posterior to judge. Default: all.

    Raises
    ------
    ValueError
        For a name that the posterior lacks.

    Notes
    -----
    Draws without findings may still be of a wrong place: chains that all miss a mode
    agree.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> x = xr.DataArray(np.arange(400.0).reshape(2, 200), dims=("chain", "draw"))
    >>> posterior = xr.Dataset({"b": x})
    >>> statistics = xr.Dataset({"diverging": xr.zeros_like(x, bool)})
    >>> groups = {"posterior": posterior, "sample_stats": statistics}
    >>> tree = xr.DataTree.from_dict(groups)
    >>> [found.name for found in diagnose(tree)]
    ['R-hat', 'bulk ESS', 'tail ESS']
    """
    table = draws["posterior"].to_dataset()
    unknown = [name for name in names or () if name not in table]
    if unknown:
        raise ValueError(f"names: expected some of {list(table)}, got {unknown}")
    table = table[list(table if names is None else names)]
    stats = draws.children.get("sample_stats")
    known = {} if stats is None else stats.to_dataset()
    return findings(
        table.transpose("chain", "draw", ...),
        {str(k): v.transpose("chain", "draw").to_numpy() for k, v in known.items()},
        {str(k): v for k, v in draws.attrs.items()},
    )


def findings(
    table: xr.Dataset,
    statistics: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any],
) -> list[Finding]:
    """Return what ``diagnose`` does, of what a tree is made of."""
    found = [*_of_approximation(attributes)]
    if not statistics:
        return found
    found += _of_sampler(statistics)
    n_draws = next(iter(statistics.values())).shape[1]
    bad = [k for k, v in table.items() if not np.all(np.isfinite(v))]
    if bad:
        what = f"draws of {', '.join(map(str, bad))} are not all finite"
        found.append(Finding("not finite", what, "look for overflow, or data at zero"))
    table = table[[k for k, v in table.items() if k not in bad and v.size]]
    if not table or n_draws < 4:
        return found
    copies = equal_chains(table)
    if copies:
        what = f"{listed(copies)} are equal in every draw"
        advice = (
            "they are copies, and R-hat and effective sample sizes count them as "
            "chains of their own; give each a key, and read each file once"
        )
        found.append(Finding("equal chains", what, advice))
    return found + _of_entries(table, attributes.get(UNDETERMINED))


def _of_approximation(attributes: Mapping[str, Any]) -> list[Finding]:
    khat = float(attributes.get("khat", np.nan))
    if not khat >= KHAT_MAX:
        return []
    guide = attributes.get("method") == "svi"
    cause = (
        "the guide misses part of" if guide else "no Gaussian at the mode is close to"
    )
    richer = ", or another guide ('AutoBNAFNormal')" if guide else ""
    what = f"k-hat {khat:.2g}, not below {KHAT_MAX}"
    advice = f"{cause} the posterior; sample with method='nuts'{richer}"
    return [Finding("k-hat", what, advice)]


def _of_sampler(statistics: Mapping[str, np.ndarray]) -> list[Finding]:
    found: list[Finding] = []
    diverging = statistics.get("diverging", np.zeros(1, bool))
    if diverging.any():
        what = f"{diverging.sum()} of {diverging.size} draws diverged"
        advice = (
            "the posterior has corners the sampler cannot enter; raise target_accept "
            "(to .95), or set a stronger prior"
        )
        found.append(Finding("divergences", what, advice))
    deepest = statistics.get("reached_max_treedepth", np.zeros(1, bool))
    if deepest.any():
        what = f"{deepest.sum()} of {deepest.size} draws reached the deepest tree"
        advice = (
            "trajectories were cut short; raise max_tree_depth, or start from a fit "
            "whose Laplace approximation is the mass matrix"
        )
        found.append(Finding("tree depth", what, advice))
    energy = statistics.get("energy")
    if energy is not None and energy.shape[1] >= 4:
        from arviz_stats.base.array import array_stats

        with np.errstate(divide="ignore", invalid="ignore"):
            bfmi: Any = array_stats.bfmi(energy)
        low = np.flatnonzero(bfmi < BFMI_MIN)
        if len(low):
            chains = ", ".join(f"chain {i}: {bfmi[i]:.2f}" for i in low)
            advice = (
                "the tails are longer than the sampler's steps in energy; set a "
                "stronger prior on scales, or write the model non-centred"
            )
            what = f"E-BFMI below {BFMI_MIN} ({chains})"
            found.append(Finding("E-BFMI", what, advice))
    return found


def _advice(draws: np.ndarray) -> str:
    """Tell chains in different places from chains that are slow, of one entry's."""
    low, high = np.quantile(draws, [0.25, 0.75], axis=1)
    if low.max() <= high.min():
        return "raise n_draws, or warm up longer with method=NUTS(n_warmup=...)"
    return (
        "the chains are in different places, which more draws will not mend; look for "
        "several modes (components without an order, mirror images), start the chains "
        "at a fit, or warm up longer with method=NUTS(n_warmup=...)"
    )


def _once(table: xr.Dataset) -> np.ndarray:
    """Say of each entry whether it is no mirror image of one in a symmetric matrix."""
    kept: list[np.ndarray] = []
    for variable in table.data_vars.values():
        values = variable.to_numpy()
        own = np.ones(values.shape[2:], bool)
        square = values.ndim >= 4 and values.shape[-1] == values.shape[-2]
        if square and values.dtype.kind == "f":
            apart = np.abs(values - values.swapaxes(-1, -2)).max(initial=0.0)
            if apart <= 64 * np.finfo(values.dtype).eps * np.abs(values).max():
                own = np.triu(own)  # Of a batch of matrices: of each.
        kept.append(own.ravel())
    return np.concatenate(kept)


def _of_entries(table: xr.Dataset, undetermined: str | None) -> list[Finding]:
    # ArviZ's statistics take a second to import and only sampling needs them.
    from arviz_stats.base.array import array_stats

    draws = stacked(table)
    moving = (np.ptp(draws, axis=(0, 1)) > 0) & _once(table)
    names, draws = np.array(entry_names(table))[moving], draws[:, :, moving]
    if not len(names):
        return []
    x, least = np.moveaxis(draws, 2, 0), ESS_PER_CHAIN * len(draws)
    # A chain that never moves has no variance to divide by: no limit admits its R-hat.
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat: Any = array_stats.rhat(x) if len(draws) > 1 else np.ones(len(x))
        bulk: Any = array_stats.ess(x, method="bulk")
        tail: Any = array_stats.ess(x, method="tail", prob=(0.05, 0.95))
    # NaN, of a chain that never moves, is the worst.
    advice = undetermined or _advice(draws[:, :, np.argmax(rhat)])
    size = "effective sample size"
    judged = {
        "R-hat": (f"R-hat above {RHAT_MAX}", rhat, ~(rhat < RHAT_MAX)),
        "bulk ESS": (f"{size} below {least}", bulk, ~(bulk >= least)),
        "tail ESS": (f"{size} of the tails below {least}", tail, ~(tail >= least)),
    }
    return [
        Finding(name, _listed(what, names, numbers, bad), advice)
        for name, (what, numbers, bad) in judged.items()
        if bad.any()
    ]


def _listed(what: str, names: np.ndarray, numbers: np.ndarray, bad: np.ndarray) -> str:
    at = np.flatnonzero(bad)[:5]
    entries = ", ".join(f"{names[i]}: {numbers[i]:.4g}" for i in at)
    more = f" and {bad.sum() - len(at)} more" if bad.sum() > len(at) else ""
    return f"{what} for {entries}{more}"
