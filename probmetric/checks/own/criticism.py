"""Draws of any NumPyro model compared with their data.

*Prior.* For each quantity q drawn from posterior and prior, z(q) are normal scores
among draws of the prior. By the law of total variance, the posterior mean of a normal
score has mean 0, and its variance is 1 minus the posterior variance. Approximately,

    E[z] / √max(1 - Var z, ½)  ~  N(0, 1).                                         (1)

The ½ is for quantities that the data hardly determine, because 1 - Var z is then noise.
The p-value is the smallest over quantities after Holm. The size is the power-scaling
sensitivity to the prior (``az.psense``). A size of 0.05 or more matters.

*Predictive.* Observations x are in equal-count bins of their predictive mean m. With e
= x - m in units of its predictive standard deviation s, the residuals of a bin are

    Σ e  and  Σ (e² - 1),                                                          (2)

the second only if observations have more than two values. The largest standardized
residual is compared with replicates. A posterior predictive p-value is conservative,
because the parameters were fitted to the data. A deviation matters if the mean of a bin
is off by 0.1 predictive standard deviations (by 0.05 for a share of about a half).

References
----------
Kallioinen et al., "Detecting and diagnosing prior and likelihood sensitivity with
power-scaling", 2024. Gelman, Meng and Stern, "Posterior predictive assessment of model
fitness via realized discrepancies", 1996.
"""

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from scipy.stats import norm

from probmetric.checks.compare import holm
from probmetric.checks.criticism import Finding, surprise
from probmetric.inference.sampling.summary import entry_names
from probmetric.posterior.bands import band, binned
from probmetric.posterior.draws import thinned

BINS, N_REPLICATES, PROB = 10, 2000, 0.95
SENSITIVE, GAP = 0.05, 0.1
"""Sizes that matter: a sensitivity, and a bin's mean in predictive sd."""

REMEDY = "prior_draws=1000, predictive=True, log_prior=True"


def criticize(draws: xr.DataTree, *, seed: int = 0) -> list[Finding]:
    """Return the parts of ``check_model`` for draws of your own model."""
    del seed  # All random numbers are in the draws.
    needed = ("prior", "log_prior", "posterior_predictive", "observed_data")
    missing = [name for name in needed if name not in draws.children]
    if missing:
        raise ValueError(
            f"draws must have the groups {', '.join(needed)}, got draws without "
            f"{', '.join(missing)}. Sample with {REMEDY}."
        )
    findings = [_prior(draws)]
    for name in draws["observed_data"].to_dataset().data_vars:
        finding = _predictive(draws, str(name))
        findings += [] if finding is None else [finding]
    return findings


def _prior(draws: xr.DataTree) -> Finding:
    """Compare every sampled quantity with its prior (Eq. 1)."""
    import arviz as az

    posterior, prior = (draws[g].to_dataset() for g in ("posterior", "prior"))
    names, z, varying = [], [], []
    for name in map(str, posterior.data_vars):
        before, after = _flat(prior[name]), _flat(posterior[name])
        vary = np.flatnonzero((before.std(0) > 0) & (after.std(0) > 0))
        if not len(vary):
            continue
        varying.append(name)
        entries = entry_names(posterior[[name]])
        for k in vary:
            z.append(_departure(_scores(after[:, k], before[:, k])))
            names.append(entries[k])
    p = holm(2 * norm.sf(np.abs(z)))
    worst = int(np.argmax(np.abs(z)))
    thin = thinned(draws, 1000)
    sensitivity = az.psense(thin, group="prior", var_names=varying)
    sizes = {k: float(np.nanmax(v)) for k, v in sensitivity.data_vars.items()}
    most = max(sizes, key=lambda k: sizes[k])
    summary = (
        f"{names[worst]} is furthest from its prior, z = {z[worst]:+.1f} (p = "
        f"{p.min():.2g}, adjusted for {len(z)} numbers); largest power-scaling "
        f"sensitivity {sizes[most]:.2f}, of {most}"
    )
    remedy = (
        "Prior and data disagree, and the posterior depends on both. Widen this prior, "
        "or report its source."
        if sizes[most] >= SENSITIVE
        else "Prior and data disagree, but the prior hardly changes the posterior. "
        "Report this."
    )
    p_value = float(p.min())
    size = sizes[most]
    return Finding("prior", abs(z[worst]), p_value, size, SENSITIVE, summary, remedy)


def _departure(scores: Float[np.ndarray, "s"]) -> float:
    """Return the distance of normal scores from the prior's (Eq. 1), in prior sd."""
    return float(scores.mean() / np.sqrt(max(1 - scores.var(), 0.5)))


def _predictive(draws: xr.DataTree, name: str) -> Finding | None:
    """Compare an observed site with replicates (Eq. 2); None without observations."""
    x = np.ravel(draws["observed_data"][name].to_numpy()).astype(float)
    replicates = thinned(draws, N_REPLICATES)["posterior_predictive"].to_dataset()
    new = _flat(replicates[name])
    there = ~np.isnan(x)
    if not there.any():
        return None
    x, new = x[there], new[:, there].astype(float)
    m, s = new.mean(0), np.maximum(new.std(0), 1 / len(new))
    which, _ = binned(m, min(BINS, max(1, len(x) // 20)))
    two_valued = len(np.unique(x)) <= 2
    observed, drawn = (_residuals(v, m, s, which, two_valued) for v in (x[None], new))
    centre, sd = drawn.mean(0), drawn.std(0)
    largest, p = surprise(observed[0] - centre, drawn - centre, sd)
    n = np.bincount(which)
    gap = np.abs(observed[0] - centre)
    bins = gap[: len(n)] / n
    low, high = band(drawn, PROB)
    outside = int(np.sum((observed[0] < low) | (observed[0] > high)))
    k = int(np.argmax(bins))
    size = float(bins.max())
    if not two_valued:
        # A spread off by a fifth has e² - 1 off by two fifths.
        size = max(size, float((gap[len(n) :] / n).max()) / 4)
    summary = (
        f"{name}: {outside} of {len(centre)} binned sums outside the "
        f"{PROB:.0%} band (p = {p:.2g}); in the worst bin {_mean(m, which, k):.3g} was "
        f"expected, {_mean(x, which, k):.3g} observed"
    )
    remedy = (
        f"Data simulated from the model differ from {name}. Look at "
        "az.plot_ppc_dist(draws), and at observations far from their prediction. Let "
        "the spread, the link or a group vary in the model."
    )
    return Finding("predictive", largest, p, size, GAP, summary, remedy)


def _residuals(
    x: Float[np.ndarray, "s n"],
    m: Float[np.ndarray, "n"],
    s: Float[np.ndarray, "n"],
    which: Int[np.ndarray, "n"],
    two_valued: bool,
) -> Float[np.ndarray, "s k"]:
    """Return the binned sums of Eq. (2) for each row of observations."""
    B = np.eye(which.max() + 1)[which]
    e = (x - m) / s
    return e @ B if two_valued else np.hstack([e @ B, (e**2 - 1) @ B])


def _mean(values: np.ndarray, which: np.ndarray, k: int) -> float:
    return float(values[which == k].mean())


def _flat(drawn: xr.DataArray) -> Float[np.ndarray, "s k"]:
    ordered = drawn.transpose("chain", "draw", ...).to_numpy()
    return ordered.reshape(ordered.shape[0] * ordered.shape[1], -1).astype(float)


def _scores(
    values: Float[np.ndarray, "s"], among: Float[np.ndarray, "r"]
) -> Float[np.ndarray, "s"]:
    order = np.sort(among)
    low, high = (np.searchsorted(order, values, side) for side in ("left", "right"))
    return norm.ppf((0.5 * (low + high) + 0.5) / (len(order) + 1))
