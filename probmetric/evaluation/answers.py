"""Scores of probabilities by the answers that were given: yes or no, or k of m.

An answer is m judgments of which y are *yes*, m = 1 without ``trials``; each counts as
often as its data weight says. All scores are means over judgments.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.metrics import roc_auc_score

from probmetric.arguments import check_counts
from probmetric.data.inputs import real
from probmetric.typing import ArrayLike


class _Judged(NamedTuple):
    """Weights of *yes* and *no* of each answer, which add up to 1."""

    yes: Float[np.ndarray, "N"]
    no: Float[np.ndarray, "N"]


def answer_scores(
    P: ArrayLike,
    y: ArrayLike,
    *,
    trials: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 15,
) -> dict[str, float]:
    """Return how good stated probabilities are, by answers that were kept apart.

    Parameters
    ----------
    P : array-like of shape (N,)
        Stated probabilities of *yes*, in [0, 1].
    y : array-like of shape (N,)
        Answers: 1 yes, 0 no; with ``trials`` how many judgments were yes.
    trials : array-like of shape (N,), optional
        Judgments of each answer, at least 1.
    sample_weight : array-like of shape (N,), optional
        Data weights ≥ 0, not all 0.
    n_bins : int ≥ 1, default=15
        Bins of equal width, of the calibration error.

    Returns
    -------
    dict
        ``accuracy``, the share of judgments that P > ½ foretells, at ½ half of them;
        ``log_loss``, infinite where what was called impossible happened; ``brier``, the
        mean of (P - answer)², in [0, 1], half of ``brier_score`` of two classes;
        ``ece``, the mean gap of P and share of *yes* over bins of P; ``roc_auc``, of
        ranking by P, NaN where all judgments are alike.

    Raises
    ------
    ValueError
        On bad input.

    Examples
    --------
    Three of four judges agree with a probability of ¾:

    >>> scores = answer_scores([0.75], [3], trials=[4])
    >>> {name: round(value, 4) for name, value in scores.items()}
    {'accuracy': 0.75, 'log_loss': 0.5623, 'brier': 0.1875, 'ece': 0.0, 'roc_auc': 0.5}
    """
    (n_bins,) = check_counts(n_bins=n_bins)
    stated = _column(P, "P")
    if not np.all((stated >= 0) & (stated <= 1)):
        raise ValueError(
            f"P: expected probabilities in [0, 1], got {stated.min():g}.."
            f"{stated.max():g}"
        )
    yes, no = _judged(len(stated), y, trials, sample_weight)
    right = np.where(stated == 0.5, 0.5, stated > 0.5)
    with np.errstate(divide="ignore"):
        logs = np.log(stated), np.log1p(-stated)
    # What has no weight does not count, also where it was called impossible.
    parts = [
        np.sum(weight[weight > 0] * log[weight > 0])
        for weight, log in zip((yes, no), logs, strict=True)
    ]
    bins = np.minimum((stated * n_bins).astype(int), n_bins - 1)
    gap = np.bincount(bins, yes, n_bins) - np.bincount(
        bins, (yes + no) * stated, n_bins
    )
    return {
        "accuracy": float(yes @ right + no @ (1 - right)),
        "log_loss": -float(sum(parts)),
        "brier": float(yes @ (1 - stated) ** 2 + no @ stated**2),
        "ece": float(np.abs(gap).sum()),
        "roc_auc": answer_auc(stated, y, trials=trials, sample_weight=sample_weight),
    }


def answer_auc(
    score: ArrayLike,
    y: ArrayLike,
    *,
    trials: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return how often a judgment *yes* has a higher score than one of *no*.

    Parameters
    ----------
    score : array-like of shape (N,)
        Higher where *yes* is expected: a probability, minus a distance.
    y, trials, sample_weight
        As of ``answer_scores``.

    Returns
    -------
    float
        The area under the ROC curve, ties half; NaN where all judgments are alike.

    Examples
    --------
    >>> answer_auc([-1.0, -2.0, -3.0], [1, 0, 1])
    0.5
    """
    value = _column(score, "score")
    yes, no = _judged(len(value), y, trials, sample_weight)
    if not (yes.any() and no.any()):
        return float("nan")
    kind, weight = np.repeat([1, 0], len(value)), np.concatenate([yes, no])
    kept = weight > 0
    both = np.concatenate([value, value])[kept]
    return float(roc_auc_score(kind[kept], both, sample_weight=weight[kept]))


def _column(values: ArrayLike, name: str) -> Float[np.ndarray, "N"]:
    found = real(values, name).astype(float)
    if found.ndim != 1 or not len(found):
        raise ValueError(f"{name}: expected shape (N,), N ≥ 1, got {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    return found


def _judged(
    n: int, y: ArrayLike, trials: ArrayLike | None, sample_weight: ArrayLike | None
) -> _Judged:
    count = _column(y, "y")
    total = np.ones(n) if trials is None else _column(trials, "trials")
    weight = (
        np.ones(n) if sample_weight is None else _column(sample_weight, "sample_weight")
    )
    for name, found in ("y", count), ("trials", total), ("sample_weight", weight):
        if len(found) != n:
            raise ValueError(f"{name}: expected shape ({n},), got ({len(found)},)")
    if not np.all((total % 1 == 0) & (total >= 1)):
        raise ValueError(
            "trials: expected whole numbers from 1, got "
            f"{total.min():g}..{total.max():g}"
        )
    if not np.all((count % 1 == 0) & (count >= 0) & (count <= total)):
        of = "0 or 1" if trials is None else "whole numbers from 0 to trials"
        raise ValueError(f"y: expected {of}, got {count.min():g}..{count.max():g}")
    if not (np.all(weight >= 0) and weight.any()):
        raise ValueError(
            "sample_weight: expected weights >= 0, one positive, got "
            f"{weight.min():g}..{weight.max():g}"
        )
    # Relative to the largest, as the sum of huge weights or trials overflows.
    weight, most = weight / weight.max(), total.max()
    every = float(weight @ (total / most))
    yes, no = (weight * (part / most) / every for part in (count, total - count))
    return _Judged(yes, no)
