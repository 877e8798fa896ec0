"""``check_model``: could the model have produced the data? One of three verdicts.

A closed form that agrees with sampling is right under the model and its prior. Here the
model and the prior are compared with the data, in parts:

*prior*         does the posterior lie where the prior expects it?
*predictive*    could the model have produced these observations?
*calibration*   are the reported probabilities right on held-out data?

``ModelSpec.criticism`` of a learner returns a ``Finding`` per part, with a p-value and
a size. A part is

    adequate   p ≥ ALPHA after Holm over the parts,
    conflict   p < ALPHA_CONFLICT and the size is large enough to matter,        (1)
    doubtful   otherwise.

A right model is not called adequate in at most about ALPHA of runs. A difference that
only a large sample can detect, or that changes nothing, is not a conflict.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_number
from probmetric.checks.compare import holm
from probmetric.registry import MODELS, model_of
from probmetric.typing import no_type_check

ALPHA, ALPHA_CONFLICT = 0.02, 0.01
WORDS = ("adequate", "doubtful", "conflict")

Word = Literal["adequate", "doubtful", "conflict"]


class Finding(NamedTuple):
    """Result of one part.

    Attributes
    ----------
    part : str
        "prior", "predictive" or "calibration".
    statistic, p_value : float
        A statistic, and its p-value under the model.
    size, matters : float
        Size of the difference, and the size from which it matters.
    said : str
        The result in words, with its figures.
    remedy : str
        What to do if the part is not adequate.
    bins : DataFrame, optional
        Columns at, observed, expected, low, high, pairs, for a figure.

    Examples
    --------
    LCA is fitted to labels that follow a step function of the distance:

    >>> import numpy as np
    >>> import probmetric as pm
    >>> pairs = np.random.default_rng(0).normal(size=(100, 2, 1))
    >>> same = (abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 1).astype(int)
    >>> found = pm.check_model(pm.LCA().fit_pairs(pairs, same))
    >>> for part in found.parts:
    ...     print(part.finding.part, part.finding.p_value < 0.01)
    prior False
    predictive True
    calibration False
    """

    part: str
    statistic: float
    p_value: float
    size: float
    matters: float
    said: str
    remedy: str
    bins: pd.DataFrame | None = None


class Part(NamedTuple):
    """One judged part: a finding, its p-value after Holm, and its verdict.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> pairs = np.random.default_rng(0).normal(size=(100, 2, 1))
    >>> same = (abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 1).astype(int)
    >>> found = pm.check_model(pm.LCA().fit_pairs(pairs, same))
    >>> {part.finding.part: part.verdict for part in found.parts}  # LCA has no step.
    {'prior': 'adequate', 'predictive': 'doubtful', 'calibration': 'adequate'}
    """

    finding: Finding
    p_holm: float
    verdict: Word


@dataclass(frozen=True)
class ModelVerdict:
    """Result of ``check_model``.

    Parameters
    ----------
    model : str
        The learner's name.
    parts : tuple of Part

    Examples
    --------
    ``check_model`` returns it; its verdict is the most severe of its parts:

    >>> from probmetric.checks import Finding, ModelVerdict, Part
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
        """Return a row per part: verdict, p-value, size, words and remedy."""
        rows = [
            {
                "part": p.finding.part,
                "verdict": p.verdict,
                "statistic": p.finding.statistic,
                "p_value": p.finding.p_value,
                "p_holm": p.p_holm,
                "size": p.finding.size,
                "matters": p.finding.matters,
                "said": p.finding.said,
                "remedy": "" if p.verdict == "adequate" else p.finding.remedy,
            }
            for p in self.parts
        ]
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        """Return a line per part, with the remedy unless it is adequate."""
        lines = [f"{self.model} against its data: {self.overall}"]
        for row in self.to_dataframe().itertuples():
            row: Any
            lines.append(f"  {row.verdict:9s} {row.part}: {row.said}")
            if row.remedy:
                lines.append(f"  {'':9s} {row.remedy}")
        return "\n".join(lines)

    __repr__ = __str__


def verdict_of(model: str, findings: Sequence[Finding]) -> ModelVerdict:
    """Judge findings by Eq. (1)."""
    adjusted = holm(np.array([f.p_value for f in findings]))
    parts: list[Part] = []
    for finding, p in zip(findings, adjusted, strict=True):
        word: Word = "adequate" if not p < ALPHA else "doubtful"
        if p < ALPHA_CONFLICT and finding.size >= finding.matters:
            word = "conflict"
        parts.append(Part(finding, float(p), word))
    return ModelVerdict(model, tuple(parts))


@no_type_check
def check_model(fit: Any, *, seed: int = 0) -> ModelVerdict:
    """Check a fitted model against its data: prior, predictive check, calibration.

    Parameters
    ----------
    fit : estimator or DataTree
        Fitted; a learner whose entry in ``MODELS`` has a ``criticism`` (LCA). Or draws
        of ``sample(..., log_prior=True, predictive=True, prior_draws=1000)`` from a
        model of your own, ``TwoStageMixture``, ``DCAGM`` or ``GaussianClasses``. Draws
        are not checked for calibration, which needs held-out data.
    seed : int, default=0
        Seed of replicates and of folds.

    Returns
    -------
    ModelVerdict
        ``overall`` is "adequate", "doubtful" or "conflict", the most severe of
        ``parts``. Print it to see each part and, unless adequate, a remedy. Calibration
        is left out if a class has two points.

    Raises
    ------
    NotFittedError
        Before ``fit``.
    ValueError
        Another object, a learner without this check, a fit per anchor, or draws
        without the required groups.

    Notes
    -----
    *Adequate* does not mean *true*: the checks found nothing with this number of data.
    For error rates on independent pairs see ``benchmarks/results/model_verdict.md``.
    Pairs built from labels share points; their replicates are widened for one point of
    each pair, not for both.

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
    if isinstance(fit, xr.DataTree):
        # By name: that module imports this one.
        criticise = resolve_name("probmetric.checks.own.criticism:criticise")
        return verdict_of(
            str(fit.attrs.get("model", "draws")), criticise(fit, seed=seed)
        )
    able = [name for name, spec in MODELS.items() if spec.criticism is not None]
    try:
        name = model_of(type(fit).__name__)
    except ValueError:
        name = ""
    if name not in able:
        raise ValueError(
            "fit: expected draws of sample(model, ...) or of a learner's sample, or a "
            f"fitted learner of {', '.join(able)}, got {type(fit).__name__}"
        )
    check_is_fitted(fit)
    criticism: Any = MODELS[name].criticism
    return verdict_of(name, criticism(fit, seed=seed))
