"""Problems with draws, and their remedies.

Samplers and reports use the same list of problems: divergences, saturated trees, low
E-BFMI, copied chains, R-hat, effective sample sizes of the bulk and of the tails,
non-finite draws, and k-hat of approximations. ArviZ computes the statistics.

References
----------
Vehtari et al., "Rank-normalization, folding, and localization: an improved R-hat for
assessing convergence of MCMC", Bayesian Analysis 16, 2021. Betancourt, "Diagnosing
suboptimal cotangent disintegrations in Hamiltonian Monte Carlo", 2016. Vehtari et al.,
"Pareto smoothed importance sampling", JMLR 2024.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

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
"""Minimum effective draws per chain for reliable R-hat and Monte Carlo errors."""

BFMI_MIN = 0.3
KHAT_MAX = 0.7

UNDETERMINED = "undetermined"
"""Attribute of draws: a description of quantities that the data do not determine."""


class Finding(NamedTuple):
    """A problem with draws: its name, a description with numbers, and the remedy.

    ``name`` is "divergences", "tree depth", "E-BFMI", "not finite", "equal chains",
    "R-hat", "bulk ESS", "tail ESS" or "k-hat".
    """

    name: str
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}: {self.advice}"


def diagnose(draws: xr.DataTree, names: Sequence[str] | None = None) -> list[Finding]:
    """Return the problems with draws, or an empty list.

    Draws without detected problems may still be wrong. For example, chains agree with
    each other if all of them miss the same mode.

    Parameters
    ----------
    draws : DataTree
        Result of ``sample``. For independent draws (SVI, Laplace) only k-hat is
        checked, a diagnostic of the approximation that must be below 0.7.
    names : sequence of str, optional
        Quantities of the posterior to check. Default: all.

    Returns
    -------
    list of Finding
        Each finding has a ``name``, ``what`` is wrong, and ``advice``.

    Examples
    --------
    >>> import xarray as xr
    >>> x = xr.DataArray(np.arange(400.0).reshape(2, 200), dims=("chain", "draw"))
    >>> groups = {"posterior": {"b": x}, "sample_stats": {"diverging": x < 0}}
    >>> tree = xr.DataTree.from_dict({k: xr.Dataset(v) for k, v in groups.items()})
    >>> [problem.name for problem in diagnose(tree)]
    ['R-hat', 'bulk ESS', 'tail ESS']
    """
    table = draws["posterior"].to_dataset()
    unknown = [name for name in names or () if name not in table]
    if unknown:
        raise ValueError(f"names must be among {list(table)}, got {unknown}")
    table = table[list(table if names is None else names)]
    node = draws.children.get("sample_stats")
    stats = {} if node is None else node.to_dataset()
    return findings(
        table.transpose("chain", "draw", ...),
        {str(k): v.transpose("chain", "draw").to_numpy() for k, v in stats.items()},
        {str(k): v for k, v in draws.attrs.items()},
    )


def findings(
    table: xr.Dataset,
    statistics: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any],
) -> list[Finding]:
    """Return the findings of ``diagnose`` for the contents of a DataTree."""
    results = [*_check_approximation(attributes)]
    if not statistics:
        return results
    results += _check_sampler(statistics)
    n_draws = next(iter(statistics.values())).shape[1]
    bad = [k for k, v in table.items() if not np.all(np.isfinite(v))]
    if bad:
        what = f"draws of {', '.join(map(str, bad))} are not all finite"
        advice = "check the model for overflow, and the data for zeros"
        results.append(Finding("not finite", what, advice))
    table = table[[k for k, v in table.items() if k not in bad and v.size]]
    if not table or n_draws < 4:
        return results
    copies = equal_chains(table)
    if copies:
        what = f"{listed(copies)} are equal in every draw"
        advice = (
            "R-hat and effective sample sizes are wrong for copies of a chain; use a "
            "different seed for each chain, and read each file once"
        )
        results.append(Finding("equal chains", what, advice))
    return results + _check_entries(table, attributes.get(UNDETERMINED))


def _check_approximation(attributes: Mapping[str, Any]) -> list[Finding]:
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


def _check_sampler(statistics: Mapping[str, np.ndarray]) -> list[Finding]:
    results: list[Finding] = []
    diverging = statistics.get("diverging", np.zeros(1, bool))
    if diverging.any():
        what = f"{diverging.sum()} of {diverging.size} draws diverged"
        advice = (
            "the sampler may miss regions of the posterior; raise target_accept "
            "(to 0.95), or set a stronger prior"
        )
        results.append(Finding("divergences", what, advice))
    deepest = statistics.get("reached_max_treedepth", np.zeros(1, bool))
    if deepest.any():
        what = f"{deepest.sum()} of {deepest.size} draws reached the maximum tree depth"
        advice = (
            "trajectories were cut short, so draws are correlated; raise "
            "max_tree_depth, or start from the Laplace approximation of a fit"
        )
        results.append(Finding("tree depth", what, advice))
    energy = statistics.get("energy")
    if energy is not None and energy.shape[1] >= 4:
        from arviz_stats.base.array import array_stats

        with np.errstate(divide="ignore", invalid="ignore"):
            bfmi = cast("np.ndarray", array_stats.bfmi(energy))
        low = np.flatnonzero(bfmi < BFMI_MIN)
        if len(low):
            chains = ", ".join(f"chain {i}: {bfmi[i]:.2f}" for i in low)
            advice = (
                "the sampler explores the tails of the posterior too slowly; set a "
                "stronger prior on scales, or use a non-centered model"
            )
            what = f"E-BFMI below {BFMI_MIN} ({chains})"
            results.append(Finding("E-BFMI", what, advice))
    return results


def _advice(draws: np.ndarray) -> str:
    low, high = np.quantile(draws, [0.25, 0.75], axis=1)
    if low.max() <= high.min():
        return "raise n_draws, or warm up longer with method=NUTS(n_warmup=...)"
    return (
        "the chains are in different regions, and more draws will not help; check "
        "the model for several modes (label switching, mirror images), start the "
        "chains at a fit, or warm up longer with method=NUTS(n_warmup=...)"
    )


def _upper(table: xr.Dataset) -> np.ndarray:
    """Return the mask of entries, without the lower triangles of symmetric matrices."""
    masks: list[np.ndarray] = []
    for variable in table.data_vars.values():
        values = variable.to_numpy()
        mask = np.ones(values.shape[2:], bool)
        square = values.ndim >= 4 and values.shape[-1] == values.shape[-2]
        if square and values.dtype.kind == "f":
            gap = np.abs(values - values.swapaxes(-1, -2)).max(initial=0.0)
            if gap <= 64 * np.finfo(values.dtype).eps * np.abs(values).max():
                mask = np.triu(mask)
        masks.append(mask.ravel())
    return np.concatenate(masks)


def _check_entries(table: xr.Dataset, undetermined: str | None) -> list[Finding]:
    # ArviZ's statistics take a second to import and only sampling needs them.
    from arviz_stats.base.array import array_stats

    draws = stacked(table)
    moving = (np.ptp(draws, axis=(0, 1)) > 0) & _upper(table)
    names, draws = np.array(entry_names(table))[moving], draws[:, :, moving]
    if not len(names):
        return []
    x, least = np.moveaxis(draws, 2, 0), ESS_PER_CHAIN * len(draws)
    # R-hat is NaN or infinite for a chain that never moves, above any limit.
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat = array_stats.rhat(x) if len(draws) > 1 else np.ones(len(x))
        bulk = array_stats.ess(x, method="bulk")
        tail = array_stats.ess(x, method="tail", prob=(0.05, 0.95))
    rhat, bulk, tail = (cast("np.ndarray", a) for a in (rhat, bulk, tail))
    # argmax returns the first NaN, the worst R-hat.
    advice = undetermined or _advice(draws[:, :, np.argmax(rhat)])
    size = "effective sample size"
    checks = {
        "R-hat": (f"R-hat above {RHAT_MAX}", rhat, ~(rhat < RHAT_MAX)),
        "bulk ESS": (f"{size} below {least}", bulk, ~(bulk >= least)),
        "tail ESS": (f"{size} of the tails below {least}", tail, ~(tail >= least)),
    }
    return [
        Finding(name, _listed(what, names, numbers, bad), advice)
        for name, (what, numbers, bad) in checks.items()
        if bad.any()
    ]


def _listed(what: str, names: np.ndarray, numbers: np.ndarray, bad: np.ndarray) -> str:
    first = np.flatnonzero(bad)[:5]
    entries = ", ".join(f"{names[i]}: {numbers[i]:.5g}" for i in first)
    more = f" and {bad.sum() - len(first)} more" if bad.sum() > len(first) else ""
    return f"{what} for {entries}{more}"
