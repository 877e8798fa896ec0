"""Score predictions against true labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import ClassifierMixin

from probmetric.data.inputs import check_weights, column, label_codes
from probmetric.data.unlabeled import leave_out
from probmetric.typing import Array, ArrayLike

type BaseRates = ArrayLike | Mapping[Any, float] | None
"""Base rates of the classes: an array in the order of ``classes_``, or a dict."""


def shift_to(
    class_prior: BaseRates, classes: np.ndarray, before: Float[Array, "c"]
) -> Float[np.ndarray, "c"] | float:
    """Return log(class_prior / training frequencies) by class, or 0 without a prior."""
    if class_prior is None:
        return 0.0
    if isinstance(class_prior, Mapping):
        wrong = {*classes.tolist()} ^ {*class_prior}
        if wrong:
            raise ValueError(
                f"class_prior must have exactly the classes {classes.tolist()}, got "
                f"{[*class_prior]}"
            )
        class_prior = [class_prior[label] for label in classes.tolist()]
    shares = column(class_prior, len(classes), "class_prior")
    if not (np.all(shares > 0) and np.isclose(shares.sum(), 1)):
        raise ValueError(
            f"class_prior must be frequencies > 0 with sum 1, got {shares.tolist()}"
        )
    return np.log(shares) - np.log(np.asarray(before))


def at_base_rates(
    log_p: Float[np.ndarray, "m c"], shift: Float[np.ndarray, "c"] | float
) -> Float[np.ndarray, "m c"]:
    """Return log P(class | x) at the base rates of `shift_to`."""
    if isinstance(shift, float):
        return log_p
    log_p = log_p + shift
    return log_p - np.logaddexp.reduce(log_p, 1, keepdims=True)


class TellsClasses(ClassifierMixin):
    """A classifier whose ``score`` checks y and leaves unlabeled rows out."""

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Compute the accuracy, as scikit-learn's ``accuracy_score``.

        A class that was not in ``fit`` is never predicted, so its rows count as errors.
        Rows are ignored if their label is the argument ``unlabeled`` of the classifier.
        Labels must be numbers or text, as in ``fit``.
        """
        if y is None:
            raise ValueError("y must be the true labels, got None")
        classifier: Any = self
        unlabeled = getattr(classifier, "unlabeled", None)
        labels, rows, weights = leave_out(unlabeled, y, X, sample_weight)
        return right_share(classifier.predict(rows), labels, weights)


def right_share(
    predicted: np.ndarray, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Return the (weighted) share of predictions that equal the true labels."""
    truth = np.asarray(y, object) if isinstance(y, list | tuple) else np.asanyarray(y)
    if truth.ndim == 2 and truth.shape[1] == 1:
        truth = truth.ravel()
    classes, codes = label_codes(truth)
    if codes.shape != predicted.shape:
        raise ValueError(f"y must have shape {predicted.shape}, got {codes.shape}")
    kinds = [
        {"U": "text", "S": "bytes"}.get(a.dtype.kind, "numbers")
        for a in (predicted, classes)
    ]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"y must be {kinds[0]}, like the labels in fit, got {kinds[1]}. Convert y."
        )
    w = check_weights(sample_weight, len(predicted))
    return float(np.average(classes[codes] == predicted, weights=w))
