"""Score predictions against true labels."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from probmetric.data.inputs import check_weights, label_codes
from probmetric.data.unlabeled import leave_out
from probmetric.typing import ArrayLike


class TellsClasses(ClassifierMixin):
    """A classifier whose ``score`` checks y and leaves unlabeled rows out."""

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy, as in scikit-learn's ``accuracy_score``.

        A class that was not in ``fit`` is never predicted. Rows with the label
        ``unlabeled`` are left out. Labels must be of the type of the classes.
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
