"""Judge a closed form against draws, entry by entry: agree, disagree or inconclusive.

Each entry of each quantity has a reference value r with Monte Carlo error e (0 if r is
exact). The posterior draws of the entry have mean m̂, standard deviation s and effective
sample size E of the *mean*. (The bulk effective size would give several times more
false alarms for squares and log-normals.)

    z = (m̂ - r) / mcse,    mcse² = s²/E + e².                                   (1)

For a skewed quantity m̂ and s are correlated, z has one heavy tail, and the false-alarm
rate is up to four times the nominal rate. Let q be the skewness of m̂ - r, which is γ/√E
for draws of skewness γ and an exact r. Hall's monotone transformation removes this
skewness to the next order:

    t = z + q z²/3 + q² z³/27 + q/6.                                            (2)

If |q| is above ``MOST_SKEW``, the correction is not enough, and the entry is
inconclusive. The m two-sided p-values of t are adjusted by Holm's method (``holm``).
The probability of any false alarm among all entries is then at most α. With normal
quantiles z_p, the smallest shift detected with probability ``power``, in posterior sd,
is

    detectable = (z_{1-α/(2m)} + z_{power}) mcse / s.                           (3)

An entry *disagrees* if its adjusted p-value is below α. Otherwise it *agrees* if the
detectable shift (3) is at most ``tol``, and is *inconclusive* if the shift is larger.
An entry is also *inconclusive* if R-hat is too large or E too small for Eq. (1).
``overall`` is the most severe verdict.

References
----------
Hall, "On the removal of skewness by transformation", J. R. Stat. Soc. B 1992. Holm, "A
simple sequentially rejective multiple test procedure", Scand. J. Stat. 1979. Vehtari et
al., "Rank-normalization, folding, and localization: an improved R-hat", Bayesian
Analysis 2021.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from scipy import stats

from probmetric.arguments import check_number, check_within_0_1
from probmetric.checks.summary import (
    Summary,
    align,
    flatten,
    select,
    summarize,
)
from probmetric.inference.sampling.summary import entry_names
from probmetric.typing import ArrayLike

MOST_SKEW = 0.2
"""Largest skewness of a mean for which Eq. (2) keeps the false-alarm rate
(benchmarks/false_alarms.py)."""


def holm(p: np.ndarray) -> np.ndarray:
    """Return p-values adjusted by Holm's method; NaN (no test) is ignored."""
    p = np.asarray(p, float)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested])]
    adjusted = np.full(p.shape, np.nan)
    factor = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(factor * p[order]))
    return adjusted


def without_skew(z: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Correct z for the skewness q of the mean: t of Eq. (2)."""
    return z + q * z**2 / 3 + q**2 * z**3 / 27 + q / 6


def overall(verdicts: ArrayLike) -> str:
    """Return the most severe of several verdicts."""
    order = ("disagree", "outside", "inconclusive", "agree", "within")
    present = set(np.ravel(np.asarray(verdicts)).tolist())
    return next((v for v in order if v in present), "inconclusive")


def compare(
    reference: "Mapping[str, ArrayLike] | xr.Dataset | xr.DataTree",
    draws: "xr.Dataset | xr.DataTree",
    *,
    reference_mcse: Mapping[str, ArrayLike] | None = None,
    alpha: float = 0.01,
    power: float = 0.9,
    tol: float | int = 0.1,
    rhat_max: float = 1.01,
    ess_min: float | int = 1000,
) -> xr.Dataset:
    """Compare a reference with the means of posterior draws, entry by entry.

    Only means are compared, so posteriors with equal means and different widths agree.
    To compare more, add squares, indicators (1 if a parameter is below a value) or the
    log likelihood to the reference and the draws.

    Parameters
    ----------
    reference : mapping of str to array, or Dataset or DataTree of draws
        Only names in the reference are compared.

        - Posterior means of parameters, or of functions of parameters, by name.
        - Draws of another run. They must also satisfy ``rhat_max`` and ``ess_min``, and
          their Monte Carlo error is used.
    draws : Dataset or DataTree
        Draws with dims ``chain`` (at least 2) and ``draw`` (at least 4). A DataTree
        must have the group ``posterior``.
    reference_mcse : mapping of str to array, optional
        Monte Carlo errors of the reference values. Default: 0.
    alpha : float in (0, 1), default=0.01
        Probability that any entry of a right reference is judged "disagree"
        (family-wise false-alarm rate).
    power : float in (0, 1), default=0.9
        The verdict "agree" requires that a shift of ``tol`` would be detected with at
        least this probability.
    tol : float, default=0.1
        Shift, in posterior standard deviations, that must be detectable with
        probability ``power``. Otherwise an entry is inconclusive.
    rhat_max : float, default=1.01
        Upper limit of R-hat, which is near 1 if the chains agree. Above it an entry is
        inconclusive.
    ess_min : float, default=1000
        Lower limit of the effective sample size of the mean. Below it an entry is
        inconclusive. Smaller limits increase the false-alarm rate of skewed quantities.

    Returns
    -------
    Dataset
        Table with dim ``entry`` and the columns reference, estimate, sd, mcse (Monte
        Carlo error), ess, rhat, and

        - ``z``: difference divided by its Monte Carlo error.
        - ``p_holm``: p-value, adjusted by Holm's method.
        - ``detectable``: smallest detectable shift.
        - ``verdict``: "agree", "disagree" or "inconclusive". Draws that do not vary
          must equal the reference up to a relative error of 1000 roundings.

        The attributes are alpha, power, tol, m (number of tests), z_crit (critical
        absolute value of z) and verdict (the most severe).

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> rng = np.random.default_rng(0)
    >>> draws = xr.Dataset({"a": (("chain", "draw"), rng.normal(size=(4, 2000)))})
    >>> compare({"a": 0.0}, draws).attrs["verdict"]
    'agree'
    >>> compare({"a": 0.5}, draws).attrs["verdict"]
    'disagree'
    """
    check_within_0_1(alpha=alpha, power=power)
    for name, limit in {"tol": tol, "rhat_max": rhat_max, "ess_min": ess_min}.items():
        check_number(name, limit, 0, open_low=True)
    if isinstance(reference, xr.Dataset | xr.DataTree):
        if reference_mcse is not None:
            raise ValueError(
                "reference_mcse must be None if the reference has draws, got a "
                "mapping. Omit it. The Monte Carlo error is computed from the draws."
            )
        other = select(reference, None, "reference")
        table = align(other, select(draws, list(other), "draws"), "draws")
        ours, theirs = summarize(table), summarize(other)
        values, error, constant = theirs.estimate, theirs.mcse, theirs.constant
        third = _third_moment(theirs)
        usable = (theirs.rhat < rhat_max) & (theirs.ess >= ess_min)
    else:
        table = select(draws, list(reference), "draws")
        ours = summarize(table)
        values = flatten(reference, table, "reference")
        error = np.zeros_like(values)
        if reference_mcse is not None:
            error = flatten(reference_mcse, table, "reference_mcse")
        if np.any(error < 0):
            raise ValueError("reference_mcse must be ≥ 0, got a negative number")
        constant, usable = error == 0, np.full(values.shape, True)
        third = np.zeros_like(values)
    constant = constant & ours.constant
    usable &= (ours.rhat < rhat_max) & (ours.ess >= ess_min)

    mcse = np.hypot(ours.mcse, error)  # Eq. (1)
    gap = ours.estimate - values
    z = np.divide(gap, mcse, out=np.full_like(gap, np.nan), where=~constant)
    third = _third_moment(ours) - third
    q = np.divide(third, mcse**3, out=np.zeros_like(gap), where=~constant)
    z, usable = without_skew(z, q), usable & (np.abs(q) <= MOST_SKEW)
    p_holm = holm(2 * stats.norm.sf(np.abs(z)))
    m = int(np.sum(~constant))
    z_crit = float(stats.norm.isf(alpha / 2 / max(m, 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        detectable = (z_crit + stats.norm.isf(1 - power)) * mcse / ours.sd  # Eq. (3)
    rounding = 1e3 * ours.eps * np.abs(values)
    verdict = np.select(
        [
            constant & (np.abs(gap) <= rounding),
            constant,
            ~usable,
            p_holm < alpha,
            detectable <= tol,
        ],
        ["agree", "disagree", "inconclusive", "disagree", "agree"],
        "inconclusive",
    )
    return entry_table(
        {
            "reference": values,
            "estimate": ours.estimate,
            "sd": ours.sd,
            "mcse": mcse,
            "ess": ours.ess,
            "rhat": ours.rhat,
            "z": z,
            "p_holm": p_holm,
            "detectable": np.where(constant, 0.0, detectable),
            "verdict": verdict,
        },
        entry_names(table),
        {"alpha": alpha, "power": power, "tol": tol, "m": m, "z_crit": z_crit},
    )


def _third_moment(of: Summary) -> np.ndarray:
    """Return the third central moment of each mean, zero for constants."""
    with np.errstate(invalid="ignore"):
        q = of.skew / np.sqrt(of.ess)
    return np.where(of.constant, 0.0, q * of.mcse**3)


def distance(
    reference: "xr.Dataset | xr.DataTree", draws: "xr.Dataset | xr.DataTree"
) -> xr.Dataset:
    """Measure the distance of approximate draws from reference draws.

    ``shift`` is the difference of the means in units of the reference sd.
    ``log_sd_ratio`` is log(approximate sd / reference sd). Both columns have Monte
    Carlo errors. R-hat and effective sample size describe the *reference*. For the
    approximation, one chain of independent draws is enough. Equal constants have
    distance 0, and different constants have distance infinity.
    """
    other = select(reference, None, "reference")
    table = align(other, select(draws, list(other), "draws", min_chains=1), "draws")
    ours, theirs = summarize(table), summarize(other)
    gap = ours.estimate - theirs.estimate
    equal = ours.constant & theirs.constant & np.isclose(gap, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(theirs.constant, np.inf, gap / theirs.sd)
        log_ratio = np.log(ours.sd) - np.log(theirs.sd)
        shift_mcse = np.hypot(ours.mcse, theirs.mcse) / theirs.sd
        log_ratio_mcse = np.hypot(ours.sd_mcse / ours.sd, theirs.sd_mcse / theirs.sd)
    columns = {
        "shift": shift,
        "shift_mcse": shift_mcse,
        "log_sd_ratio": log_ratio,
        "log_sd_ratio_mcse": log_ratio_mcse,
    }
    columns = {name: np.where(equal, 0.0, column) for name, column in columns.items()}
    return entry_table(
        {
            "reference": theirs.estimate,
            "estimate": ours.estimate,
            "sd": theirs.sd,
            "estimate_sd": ours.sd,
            **columns,
            "ess": theirs.ess,
            "rhat": theirs.rhat,
        },
        entry_names(other),
    )


def entry_table(
    columns: Mapping[str, ArrayLike],
    entries: Sequence[str],
    attrs: Mapping[str, str | float | bool] | None = None,
) -> xr.Dataset:
    """Return a table with dim ``entry`` and the most severe verdict as attribute."""
    table = xr.Dataset(
        {name: ("entry", np.asarray(column)) for name, column in columns.items()},
        {"entry": list(entries)},
        attrs,
    )
    if "verdict" in columns:
        table.attrs["verdict"] = overall(columns["verdict"])
    return table
