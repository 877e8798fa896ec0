"""Scores of probabilities for held-out responses: yes or no, or counts of *yes*.

A response consists of m judgments, of which y are *yes*. Without ``trials``, m = 1. All
scores are means over judgments, weighted by the data weights.
"""

import numpy as np
from jaxtyping import Float
from sklearn.metrics import roc_auc_score

from probmetric.arguments import check_counts
from probmetric.data.inputs import real
from probmetric.typing import ArrayLike


def answer_scores(
    P: ArrayLike,
    y: ArrayLike,
    *,
    trials: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 15,
) -> dict[str, float]:
    """Compute scores of predicted probabilities from held-out responses.

    A response is one or more judgments, *yes* or *no*. Scores are means over judgments,
    weighted by ``sample_weight``.

    Parameters
    ----------
    P : array-like of shape (N,)
        Probabilities of *yes*, in [0, 1].
    y : array-like of shape (N,)
        Responses: 1 for yes, 0 for no. With ``trials``, the number of *yes* judgments.
    trials : array-like of shape (N,), optional
        Number of judgments of each response, at least 1. Default: 1.
    sample_weight : array-like of shape (N,), optional
        Data weights ≥ 0, not all 0. Default: 1 for all.
    n_bins : int ≥ 1, default=15
        Number of bins of equal width for the calibration error.

    Returns
    -------
    dict
        Scores by name:

        * ``accuracy``: fraction of judgments that agree with P > ½ (P = ½ counts half).
        * ``log_loss``: mean of -log P(judgment), infinite if a judgment had P = 0.
        * ``brier``: mean of (P - judgment)², in [0, 1]. It is half of the Brier score
          that ``evaluate`` computes for two classes.
        * ``ece``: calibration error. Judgments are binned by P. The absolute difference
          between the mean of P and the fraction of *yes* in a bin is averaged over
          judgments.
        * ``roc_auc``: area under the ROC curve of P. NaN if all judgments are equal.

    Examples
    --------
    The predicted probability of *yes* is ¾, and three of four judges say yes:

    >>> scores = answer_scores([0.75], [3], trials=[4])
    >>> {name: round(value, 4) for name, value in scores.items()}
    {'accuracy': 0.75, 'log_loss': 0.5623, 'brier': 0.1875, 'ece': 0.0, 'roc_auc': 0.5}
    """
    (n_bins,) = check_counts(n_bins=n_bins)
    stated = _column(P, "P")
    _check_range("P", stated, bool(np.all((stated >= 0) & (stated <= 1))), "in [0, 1]")
    yes, no = _weights(len(stated), y, trials, sample_weight)
    right = np.where(stated == 0.5, 0.5, stated > 0.5)
    with np.errstate(divide="ignore"):
        logs = np.log(stated), np.log1p(-stated)
    # Responses with zero weight are ignored, even where P = 0.
    loss = -sum(
        np.sum(weight[weight > 0] * log[weight > 0])
        for weight, log in zip((yes, no), logs, strict=True)
    )
    bins = np.minimum((stated * n_bins).astype(int), n_bins - 1)
    expected = np.bincount(bins, (yes + no) * stated, n_bins)
    return {
        "accuracy": float(yes @ right + no @ (1 - right)),
        "log_loss": float(loss),
        "brier": float(yes @ (1 - stated) ** 2 + no @ stated**2),
        "ece": float(np.abs(np.bincount(bins, yes, n_bins) - expected).sum()),
        "roc_auc": answer_auc(stated, y, trials=trials, sample_weight=sample_weight),
    }


def answer_auc(
    score: ArrayLike,
    y: ArrayLike,
    *,
    trials: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the area under the ROC curve of scores for held-out responses.

    The area is the share of (*yes*, *no*) pairs of judgments in which *yes* has the
    higher score. Ties count half. The area is NaN if all judgments are equal.
    """
    value = _column(score, "score")
    yes, no = _weights(len(value), y, trials, sample_weight)
    if not (yes.any() and no.any()):
        return float("nan")
    label, weight = np.repeat([1, 0], len(value)), np.concatenate([yes, no])
    used, both = weight > 0, np.tile(value, 2)
    return float(roc_auc_score(label[used], both[used], sample_weight=weight[used]))


def _column(values: ArrayLike, name: str) -> Float[np.ndarray, "N"]:
    column = real(values, name).astype(float)
    if column.ndim != 1 or not len(column):
        raise ValueError(f"{name} must have shape (N,), N ≥ 1, got {column.shape}.")
    if not np.isfinite(column).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity.")
    return column


def _check_range(
    name: str, values: Float[np.ndarray, "N"], valid: bool, wanted: str
) -> None:
    if not valid:
        ends = f"{values.min():g} to {values.max():g}"
        raise ValueError(f"{name} must be {wanted}, got {ends}.")


def _weights(
    n: int, y: ArrayLike, trials: ArrayLike | None, sample_weight: ArrayLike | None
) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    ones = np.ones(n)
    count = _column(y, "y")
    total = _column(ones if trials is None else trials, "trials")
    weight = _column(ones if sample_weight is None else sample_weight, "sample_weight")
    for name, column in ("y", count), ("trials", total), ("sample_weight", weight):
        if len(column) != n:
            raise ValueError(f"{name} must have shape ({n},), got ({len(column)},).")
    whole = np.all((total % 1 == 0) & (total >= 1))
    _check_range("trials", total, bool(whole), "whole numbers from 1")
    wanted = "0 or 1" if trials is None else "whole numbers from 0 to trials"
    whole = np.all((count % 1 == 0) & (count >= 0) & (count <= total))
    _check_range("y", count, bool(whole), wanted)
    valid = bool(np.all(weight >= 0) and weight.any())
    _check_range(
        "sample_weight", weight, valid, "weights ≥ 0, at least one of them above 0"
    )
    # Divide by the largest first, because the sum of huge weights overflows.
    weight, most = weight / weight.max(), total.max()
    every = float(weight @ (total / most))
    yes, no = (weight * (part / most) / every for part in (count, total - count))
    return yes, no
