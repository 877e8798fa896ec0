"""Compare values with values, and distances with a bound, for ``judge``."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from probmetric.checks.compare import distance, entry_table
from probmetric.inference.sampling.diagnostics import KHAT_MAX
from probmetric.typing import ArrayLike

ESS_MIN = 400
"""Effective reference draws that give a Monte Carlo error of 0.05 sd."""


def compare_values(
    reference: Mapping[str, ArrayLike],
    estimate: Mapping[str, ArrayLike],
    *,
    rtol: float | int,
    atol: float | int,
    words: tuple[str, str] = ("agree", "disagree"),
) -> xr.Dataset:
    """Compare arrays by name: |estimate - reference| ≤ atol + rtol max|reference|.

    The maximum is over finite entries. An infinity agrees only with an equal infinity.
    NaN agrees with nothing. The columns reference and estimate are the values at their
    largest difference. The error is relative to the largest entry of the reference. If
    this entry is 0, or if ``atol`` allows a larger difference than ``rtol``, the error
    is absolute. ``words`` are the verdicts for errors within and outside the tolerance.
    """
    if not reference:
        raise ValueError("reference must contain at least one quantity, got none")
    rows: list[tuple[float, float, float, str]] = []
    for name, values in reference.items():
        if name not in estimate:
            raise ValueError(
                f"estimate must have a value named {name!r}, got {list(estimate)}"
            )
        r, e = np.asarray(values, float), np.asarray(estimate[name], float)
        if r.shape != e.shape or not r.size:
            raise ValueError(
                f"estimate[{name!r}] must have shape {r.shape} (not empty), got "
                f"{e.shape}"
            )
        if np.isnan(r).any():
            raise ValueError(f"reference[{name!r}] must not contain NaN, got NaN")
        with np.errstate(invalid="ignore"):
            gap = np.where(r == e, 0.0, np.abs(e - r))
        scale = np.max(np.abs(r), where=np.isfinite(r), initial=0.0)
        # argmax takes a NaN for the largest gap, as it should.
        worst = np.unravel_index(np.argmax(gap), gap.shape)
        within = bool(gap[worst] <= atol + rtol * scale)
        # If the absolute tolerance dominates, a relative error is misleading.
        relative = scale > 0 and rtol * scale >= atol
        rows.append(
            (
                float(r[worst]),
                float(e[worst]),
                float(gap[worst] / scale if relative else gap[worst]),
                words[0] if within else words[1],
            )
        )
    names = ("reference", "estimate", "error", "verdict")
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return entry_table(dict(columns), list(reference))


def within_bound(
    reference: "xr.Dataset | xr.DataTree",
    draws: "xr.Dataset | xr.DataTree",
    bound: float | int,
) -> xr.Dataset:
    """Compare an approximation's distance from reference draws with a bound.

    The bound limits |shift of the mean|, in posterior sd, and |log ratio of sd|. Each
    quantity q has two entries, "mean of q" and "log sd of q". The verdict is
    inconclusive if the reference has R-hat ≥ 1.01 or fewer than 400 effective draws, or
    if the bound is within three Monte Carlo errors of the distance. If only a PSIS
    k-hat (``draws.attrs["khat"]``) of 0.7 or more prevents "within", the verdict is
    inconclusive and the attribute ``unreliable`` is True.
    """
    table = distance(reference, draws)
    usable = (table["rhat"] < 1.01) & (table["ess"] >= ESS_MIN)
    # A constant has no R-hat and no effective size: its distance is 0 or infinite.
    usable = np.tile(usable | (table["sd"] == 0), 2)
    error = np.concatenate([table["shift"], table["log_sd_ratio"]])
    mcse = np.concatenate([table["shift_mcse"], table["log_sd_ratio_mcse"]])
    size = np.abs(error)
    within = usable & (size + 3 * mcse <= bound)
    outside = usable & ((size - 3 * mcse > bound) | np.isinf(size))
    khat = float(draws.attrs.get("khat", np.nan))
    doubted = khat >= KHAT_MAX
    words = ["inconclusive" if doubted else "within", "outside"]
    verdict = np.select([within, outside], words, "inconclusive")
    entries = table["entry"].to_numpy()
    return entry_table(
        {
            "reference": np.concatenate([table["reference"], table["sd"]]),
            "estimate": np.concatenate([table["estimate"], table["estimate_sd"]]),
            "error": error,
            "khat": np.full(len(error), khat),
            "verdict": verdict,
        },
        [f"{label} of {entry}" for label in ("mean", "log sd") for entry in entries],
        {"unreliable": bool(doubted and within.all()), "bound": float(bound)},
    )
