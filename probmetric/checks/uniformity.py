"""Test the ranks of simulation-based calibration for uniformity.

If parameters come from the prior, data from the model and draws from the exact
posterior, the rank of the true value among L independent draws is uniform on 0..L.
With u = (rank + ½)/(L + 1) of N simulations, each quantity has two tests:

    mean:   z = (ū - ½) / √(v/N),    v = L(L + 2) / (12 (L + 1)²);              (1)
    shape:  χ² = Σ_bins (count - expected)² / expected.                         (2)

Holm's method controls the family-wise false-alarm rate of the tests of all quantities.
If every posterior mean is shifted by the same δ posterior sd, and posteriors are
normal, the mean of u changes by δ/(2√π). The test of the mean, Eq. (1), then has the
stated power for a shift of

    detectable = 2√π (z_{1-α/(2m)} + z_{power}) √(v/N).                         (3)
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from probmetric.checks.compare import entry_table, holm
from probmetric.typing import Array

N_BINS = 10


class Ranks(NamedTuple):
    """Ranks of simulation-based calibration, by quantity.

    ``ranks`` count the draws (of ``n_draws``) below the true value, (n_simulations,).
    ``constants`` are quantities whose draws do not vary in any simulation. The value is
    True if the draws always equaled the true value, up to rounding.
    """

    ranks: Mapping[str, Array]
    n_draws: int
    constants: Mapping[str, bool] = {}


def uniformity(
    ranks: Ranks, *, alpha: float = 0.01, power: float = 0.9, tol: float | int = 0.3
) -> xr.Dataset:
    """Test whether the ranks of each quantity are uniform.

    The rank of a quantity in a simulation is the number of posterior draws below its
    true value. If the draws are from the right posterior, ranks are uniform.

    Parameters
    ----------
    ranks : Ranks
        Ranks by name: integers 0..n_draws of shape (n_simulations,). Quantities in
        ``ranks.constants``, whose draws do not vary, are not tested. Their verdict is
        "agree" if all draws equal the true value, otherwise "disagree".
    alpha : float in (0, 1), default=0.01
        Probability that uniform ranks give any verdict "disagree" (family-wise
        false-alarm rate over all quantities and both tests).
    power : float in (0, 1), default=0.9
        The verdict "agree" requires that a shift of ``tol`` would be detected with at
        least this probability.
    tol : float, default=0.3
        Shift of all posterior means, in posterior standard deviations, that must be
        detectable, otherwise the verdict is "inconclusive". With ten quantities, 0.3
        requires 270 simulations and 0.25 requires 400.

    Returns
    -------
    Dataset
        Table with dim ``entry`` and two rows for each quantity q:

        - "mean rank of q": ``estimate`` is the mean of (rank + ½)/(n_draws + 1).
        - "shape of ranks of q": ``estimate`` is the χ² statistic of binned ranks.

        ``reference`` is the expected value. The other columns are z, p_holm (p-value,
        adjusted for the number of tests), detectable (smallest detectable shift) and
        verdict. A row is "inconclusive" if there are too few simulations to detect
        ``tol``, or to expect five ranks in a bin. The attributes are alpha, power, tol,
        m (number of tests), n_simulations, n_needed (number of simulations that is
        enough) and verdict (the most severe).

    Examples
    --------
    Equally frequent ranks are uniform. If each rank is halved, the mean is too low:

    >>> import numpy as np
    >>> from probmetric.checks.uniformity import Ranks
    >>> even = np.repeat(np.arange(40), 10)
    >>> uniformity(Ranks({"q": even}, n_draws=39)).attrs["verdict"]
    'agree'
    >>> uniformity(Ranks({"q": even // 2}, n_draws=39))["verdict"].values.tolist()
    ['disagree', 'disagree']
    """
    if not ranks.ranks:
        raise ValueError("ranks must contain at least one quantity, got none")
    n_draws, names = ranks.n_draws, list(ranks.ranks)
    table = np.stack([_checked(name, ranks) for name in names])
    n_simulations = table.shape[1]
    fixed = np.tile([name in ranks.constants for name in names], 2)
    right = np.tile([bool(ranks.constants.get(name)) for name in names], 2)
    m = int(np.sum(~fixed))

    variance = n_draws * (n_draws + 2) / (12 * (n_draws + 1) ** 2)
    error = np.sqrt(variance / n_simulations)
    mean = ((table + 0.5) / (n_draws + 1)).mean(1)
    z = (mean - 0.5) / error  # Eq. (1)
    n_bins = min(N_BINS, n_draws + 1)
    bin_of = np.arange(n_draws + 1) * n_bins // (n_draws + 1)
    expected = n_simulations * np.bincount(bin_of) / (n_draws + 1)
    counts = np.stack([np.bincount(bin_of[row], minlength=n_bins) for row in table])
    chi2 = np.sum((counts - expected) ** 2 / expected, 1)  # Eq. (2)

    p = np.concatenate([2 * stats.norm.sf(np.abs(z)), stats.chi2.sf(chi2, n_bins - 1)])
    p_holm = holm(np.where(fixed, np.nan, p))
    z_sum = stats.norm.isf(alpha / 2 / max(m, 1)) + stats.norm.isf(1 - power)
    detectable = 2 * np.sqrt(np.pi) * z_sum * error  # Eq. (3)
    enough = np.repeat([detectable <= tol, expected.min() >= 5], len(names))
    short = max((detectable / tol) ** 2, 5 / expected.min())
    verdict = np.select(
        [fixed & right, fixed, p_holm < alpha, enough],
        ["agree", "disagree", "disagree", "agree"],
        "inconclusive",
    )
    blank = np.full(len(names), np.nan)
    smallest = np.concatenate([np.full(len(names), detectable), blank])
    return entry_table(
        {
            "reference": np.repeat([0.5, n_bins - 1.0], len(names)),
            "estimate": np.concatenate([mean, chi2]),
            "z": np.where(fixed, np.nan, np.concatenate([z, blank])),
            "p_holm": p_holm,
            "detectable": np.where(fixed, 0.0, smallest),
            "verdict": verdict,
        },
        [f"{what} of {q}" for what in ("mean rank", "shape of ranks") for q in names],
        {
            "alpha": alpha,
            "power": power,
            "tol": tol,
            "m": m,
            "n_simulations": n_simulations,
            "n_needed": int(np.ceil(n_simulations * short)),
        },
    )


def _checked(name: str, ranks: Ranks) -> np.ndarray:
    row = np.asarray(ranks.ranks[name])
    if row.ndim != 1 or row.dtype.kind not in "iu" or not row.size:
        raise ValueError(
            f"ranks must be integers of shape (n_simulations,) for {name!r}, got "
            f"{row.dtype} of shape {row.shape}"
        )
    if row.min() < 0 or row.max() > ranks.n_draws:
        raise ValueError(
            f"ranks must be in 0..{ranks.n_draws} for {name!r}, got "
            f"{row.min()}..{row.max()}"
        )
    return row
