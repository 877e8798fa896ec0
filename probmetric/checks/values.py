"""Comparisons of values with values, and of distances with a bound, for ``judge``."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from probmetric.checks.compare import distance, entry_table
from probmetric.inference.sampling.diagnostics import KHAT_MAX
from probmetric.typing import ArrayLike

ESS_MIN = 400
"""Reference draws that a distance needs: its Monte Carlo error is then 0.05 sd."""


def compare_values(
    reference: Mapping[str, ArrayLike],
    estimate: Mapping[str, ArrayLike],
    *,
    rtol: float | int,
    atol: float | int,
    words: tuple[str, str] = ("agree", "disagree"),
) -> xr.Dataset:
    """Compare arrays by name: |estimate - reference| ≤ atol + rtol max|reference|.

    Parameters
    ----------
    reference, estimate : mapping of str to array
        Equal shapes under each name of ``reference``. Infinities agree with equal
        infinities only; NaN agrees with nothing.
    rtol, atol : float
        Tolerances, relative to the largest finite entry of the named reference
        array, and absolute.
    words : pair of str
        Verdicts when the tolerance is kept, and when not.

    Returns
    -------
    Dataset
        One entry a name: reference and estimate where they differ most, error
        (relative to the largest entry; absolute where ``atol`` allows more than
        ``rtol`` does, or that entry is 0), verdict.

    Raises
    ------
    ValueError
        No names, missing names, unequal shapes, NaN in the reference.
    """
    if not reference:
        raise ValueError("reference: expected at least one quantity, got none")
    rows: list[tuple[float, float, float, str]] = []
    for name, wanted in reference.items():
        if name not in estimate:
            raise ValueError(
                f"estimate: expected a value named {name!r}, got {list(estimate)}"
            )
        r, e = np.asarray(wanted, float), np.asarray(estimate[name], float)
        if r.shape != e.shape or not r.size:
            raise ValueError(
                f"estimate: expected {name!r} of shape {r.shape} (not empty), got "
                f"{e.shape}"
            )
        if np.isnan(r).any():
            raise ValueError(f"reference: expected numbers, got NaN in {name!r}")
        with np.errstate(invalid="ignore"):
            gap = np.where(r == e, 0.0, np.abs(e - r))
        scale = np.max(np.abs(r), where=np.isfinite(r), initial=0.0)
        # argmax sees a NaN as the largest, which is where it should point.
        worst = np.unravel_index(np.argmax(gap), gap.shape)
        kept = bool(gap[worst] <= atol + rtol * scale)
        # Next to an absolute tolerance a relative error says nothing: 0.2 of 1e-18.
        relative = scale > 0 and rtol * scale >= atol
        rows.append(
            (
                float(r[worst]),
                float(e[worst]),
                float(gap[worst] / scale if relative else gap[worst]),
                words[0] if kept else words[1],
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
    """Judge an approximation's distance from reference draws against a bound.

    Parameters
    ----------
    reference, draws : Dataset or DataTree
        As in ``distance``. A PSIS k-hat is read from ``draws.attrs["khat"]``.
    bound : float
        Largest |shift of the mean| in posterior sd, and |log ratio of sd|.

    Returns
    -------
    Dataset
        Two entries a quantity, "mean of M[0, 0]" and "log sd of M[0, 0]": reference
        and estimate (the two means, the two sd), error (the signed distance: of the
        means in posterior sd, of the sd the log of their ratio), khat, verdict
        "within", "outside", or
        "inconclusive" where the reference has R-hat ≥ 1.01 or fewer than 400
        effective draws, where three Monte Carlo errors reach across the bound, and
        where all is within it but k-hat is 0.7 or more: what was measured is near,
        what was not need not be. Attributes ``unreliable``: whether k-hat alone
        stands in the way; ``bound``.
    """
    table = distance(reference, draws)
    usable = (table["rhat"] < 1.01) & (table["ess"] >= ESS_MIN)
    # A constant has no R-hat and no effective size; its distance is 0 or infinite.
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
