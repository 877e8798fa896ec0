"""``check_model``: could the model have produced the data? One of three verdicts.

Statistics that the fit matches by construction, such as class means, are not compared.
The parts are

LCA             *prior*, *predictive* (labels by distance), *location* (labels by
                place), and *calibration* (labels of held-out pairs);
Gaussian classes  *tails*, *skewness*, *clusters*, *labels*, and *covariances* (tied) or
                *correlations* (diagonal);
other draws     *prior* and *predictive*.

A learner with ``ModelSpec.criticism`` and its draws have the same verdict, because the
verdict is computed from data, prior and mode. ``criticism`` returns a ``Finding`` for
each part, with a p-value and a size. A part is

    adequate   p ≥ ALPHA after Holm over the parts,
    conflict   p < ALPHA_CONFLICT and the size is large enough to matter,        (1)
    doubtful   otherwise.

For a right model, the probability of another verdict than adequate is at most about
ALPHA. A difference that is too small to matter is not a conflict, even if a large
sample detects it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_number
from probmetric.checks.compare import holm
from probmetric.posterior.bands import deviation
from probmetric.registry import MODELS, model_of
from probmetric.typing import no_type_check

ALPHA, ALPHA_CONFLICT = 0.02, 0.01
WORDS = ("adequate", "doubtful", "conflict")
JUDGED = {"lca": "lca", "lda": "gaussian_classes", "glml": "gaussian_classes"}
"""NumPyro model that is judged, by learner."""

Word = Literal["adequate", "doubtful", "conflict"]


class Finding(NamedTuple):
    """Result of one part of ``check_model``, such as "prior" or "tails".

    ``p_value`` is the p-value of ``statistic`` under the model. ``size`` is the
    difference between model and data (for "prior": the sensitivity of the result to the
    prior), and ``matters`` the smallest size that matters.
    ``bins`` are the data of a figure, with columns at, observed, expected, low, high
    and pairs.
    """

    part: str
    statistic: float
    p_value: float
    size: float
    matters: float
    summary: str
    remedy: str
    bins: pd.DataFrame | None = None


class Part(NamedTuple):
    """One part with its verdict, and its p-value adjusted by Holm's method."""

    finding: Finding
    p_holm: float
    verdict: Word


@dataclass(frozen=True)
class ModelVerdict:
    """Result of ``check_model``: a verdict for each part, and an overall verdict.

    A part is a comparison of model and data, such as "prior" or "predictive".

    Examples
    --------
    >>> from probmetric.checks.criticism import Finding, Part
    >>> far = Finding("prior", 9.0, 0.003, 3.0, 2.0, "b is 3 sd out", "widen its prior")
    >>> near = Finding("predictive", 1.0, 0.4, 0.1, 1.0, "as observed", "")
    >>> parts = (Part(far, 0.006, "conflict"), Part(near, 0.4, "adequate"))
    >>> print(ModelVerdict("lca", parts))
    lca against its data: conflict
      conflict  prior: b is 3 sd out
                widen its prior
      adequate  predictive: as observed
    """

    model: str
    parts: tuple[Part, ...]

    @property
    def overall(self) -> str:
        """The most severe verdict among the parts."""
        return max((p.verdict for p in self.parts), key=WORDS.index)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table: verdict, p-value, size, result and remedy of each part."""
        rows = [
            {
                "part": p.finding.part,
                "verdict": p.verdict,
                "statistic": p.finding.statistic,
                "p_value": p.finding.p_value,
                "p_holm": p.p_holm,
                "size": p.finding.size,
                "matters": p.finding.matters,
                "summary": p.finding.summary,
                "remedy": "" if p.verdict == "adequate" else p.finding.remedy,
            }
            for p in self.parts
        ]
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        """Return a line per part, with a remedy for parts that are not adequate."""
        lines = [f"{self.model} against its data: {self.overall}"]
        for row in self.to_dataframe().itertuples():
            row: Any
            lines.append(f"  {row.verdict:9s} {row.part}: {row.summary}")
            if row.remedy:
                lines.append(f"  {'':9s} {row.remedy}")
        return "\n".join(lines)

    __repr__ = __str__


def verdict_of(model: str, findings: Sequence[Finding]) -> ModelVerdict:
    """Return the verdict of each part by Eq. (1)."""
    adjusted = holm(np.array([f.p_value for f in findings]))
    parts: list[Part] = []
    for finding, p in zip(findings, adjusted, strict=True):
        word: Word = "adequate" if not p < ALPHA else "doubtful"
        if p < ALPHA_CONFLICT and finding.size >= finding.matters:
            word = "conflict"
        parts.append(Part(finding, float(p), word))
    return ModelVerdict(model, tuple(parts))


def surprise(
    observed: Float[np.ndarray, "k"],
    drawn: Float[np.ndarray, "s k"],
    sd: Float[np.ndarray, "k"],
) -> tuple[float, float]:
    """Return the largest standardized residual, and its p-value by replicates."""
    largest = float(deviation(observed, np.zeros(len(sd)), sd))
    replicated = deviation(drawn, np.zeros(len(sd)), sd)
    return largest, (1 + int(np.sum(replicated >= largest))) / (1 + len(replicated))


@no_type_check
def check_model(fit: Any, *, seed: int = 0) -> ModelVerdict:
    """Check a fitted model, or its draws, against its data.

    Use it before you trust a posterior: could the model have produced the data? The
    check has several parts. For example, "prior" compares the parameters with their
    prior, and "predictive" compares the data with simulated data. For error rates and
    detected misfits, see Benchmarks: model_verdict.

    After a fit to class labels, pairs share points and are dependent. Bands of
    predictive checks may then be too narrow, because they allow only for dependence of
    pairs with the same first point.

    Parameters
    ----------
    fit : estimator or DataTree
        Fitted learner, or its draws from any sampler, which have the same verdict.

        - ``LCA``: the model of pairs is checked, in which a pair is *same* with
          probability exp(-(b + dist²/2)). Class probabilities are not checked.
        - ``GaussianClasses``, ``GLML``, ``LDA``, ``RCA``: Gaussian classes are checked.
          Rows with missing entries are ignored. The prior is not checked.
        - Draws of your own model, ``TwoStageMixture`` or ``DCAGM``. Use ``sample(...,
          log_prior=True, predictive=True, prior_draws=1000)``.
    seed : int, default=0
        Seed for simulated data and folds.

    Returns
    -------
    ModelVerdict
        Verdicts of the ``parts``, and ``overall``, the most severe of them. ``print``
        shows each part, with a remedy if it is not adequate.

        - "adequate": no discrepancy was found at this sample size. This does not mean
          that the model is true.
        - "conflict": a discrepancy was found that is large enough to matter.
        - "doubtful": all other cases.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> rng = np.random.default_rng(0)
    >>> pairs = rng.normal(size=(300, 2, 2))
    >>> t = 0.2 + 0.2 * np.sum((pairs[:, 0] - pairs[:, 1]) ** 2, 1)
    >>> y = (rng.random(300) < np.exp(-t)).astype(int)
    >>> pm.check_model(pm.LCA().fit_pairs(pairs, y)).overall
    'adequate'
    """
    seed = check_number("seed", seed, 0, 2**32 - 1, whole=True)
    model, criticize = _criticism(fit)
    return verdict_of(model, criticize(fit, seed=seed))


def _criticism(fit: Any) -> tuple[str, Any]:
    """Return the NumPyro model of a fit or draws, and the function that judges it."""
    if isinstance(fit, xr.DataTree):
        model = str(fit.attrs.get("model", "draws"))
        if "fit" in fit.children or "completions" in fit.attrs:  # Draws of a learner.
            return model, MODELS[{v: k for k, v in JUDGED.items()}[model]].criticism
        # By name: that module imports this one.
        return model, resolve_name("probmetric.checks.own.criticism:criticize")
    kind = type(fit).__name__
    try:
        name = "glml" if kind == "GaussianClasses" else model_of(kind)
    except ValueError:
        name = ""
    if name not in JUDGED:
        raise ValueError(
            "fit must be a fitted learner (LCA, LDA, RCA, GaussianClasses, GLML) or "
            f"draws from sample, got {kind}"
        )
    check_is_fitted(fit)
    return JUDGED[name], MODELS[name].criticism
