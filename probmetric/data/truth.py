"""What is predicted of rows beside what is true of them: the score of classifiers."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import ClassifierMixin

from probmetric.data.inputs import label_codes, real
from probmetric.data.unlabeled import leave_out
from probmetric.typing import ArrayLike


class TellsClasses(ClassifierMixin):
    """A classifier of scikit-learn's whose score says by name what is wrong with y."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of right labels, as scikit-learn's ``accuracy_score``.

        Parameters
        ----------
        X : array-like of shape (m, d)
        y : array-like of shape (m,)
            The true labels; a class that was not in ``fit`` is never right. Rows
            labeled as the setting ``unlabeled`` are left out.
        sample_weight : array-like of shape (m,), optional
            How much each row counts, ≥ 0.

        Returns
        -------
        float in [0, 1]

        Raises
        ------
        ValueError
            For labels that are missing, of another number than rows, or of another
            kind than the classes; for weights that are negative or all zero.
        """
        if y is None:
            raise ValueError("y: expected the true labels, got None")
        me: Any = self
        unlabeled = getattr(me, "unlabeled", None)
        y, X, sample_weight = leave_out(unlabeled, y, X, sample_weight)
        return right_share(me.predict(X), y, sample_weight)


def right_share(
    predicted: np.ndarray, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Return the (weighted) share of predictions (m,) that are the true labels.

    Raises
    ------
    ValueError
        As ``TellsClasses.score``.

    Examples
    --------
    >>> right_share(np.array(["a", "b", "b"]), ["a", "b", "a"], [1, 1, 2])
    0.5
    """
    given = np.asarray(y, object) if isinstance(y, list | tuple) else np.asanyarray(y)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given.ravel()
    classes, codes = label_codes(given)
    if codes.shape != predicted.shape:
        raise ValueError(f"y: expected shape {predicted.shape}, got {codes.shape}")
    kinds = [
        {"U": "text", "S": "bytes"}.get(a.dtype.kind, "numbers")
        for a in (predicted, classes)
    ]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"y: expected {kinds[0]}, as the classes of fit are, got {kinds[1]}"
        )
    w = check_weights(sample_weight, len(predicted))
    return float(np.average(classes[codes] == predicted, weights=w))


def check_weights(w: ArrayLike | None, m: int) -> Float[np.ndarray, "m"] | None:
    """Return weights of rows as float64, or None where there are none.

    Raises
    ------
    ValueError
        When they are not one per row, not finite, negative, or all zero.
    """
    if w is None:
        return None
    given = real(w, "sample_weight")
    if given.shape != (m,):
        raise ValueError(f"sample_weight: expected shape ({m},), got {given.shape}")
    if not np.all(np.isfinite(given)) or np.any(given < 0) or not np.any(given > 0):
        raise ValueError(
            "sample_weight: expected finite weights ≥ 0, one of them positive, got "
            f"{given.min():g}..{given.max():g}"
        )
    return given
