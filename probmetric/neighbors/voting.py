"""A Mahalanobis metric with stored training rows: P(same) from class probabilities.

The stored rows are Z = X Lᵀ, the images of the training points under the linear map of
the metric. Their classes and the tuned votes of ``KNeighborsClassifier`` are also
stored. Images are computed row by row, so a training point always has the same image.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.metric.mahalanobis import Mahalanobis
from probmetric.metric.protocol import measured
from probmetric.neighbors.classifier import KNeighborsClassifier
from probmetric.typing import Array, ArrayLike, Scalar


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class VotingMahalanobis(Mahalanobis):
    """A Mahalanobis metric whose P(same) comes from votes of stored rows.

    Parameters
    ----------
    factor, link
        See ``Mahalanobis``.
    rows : array of shape (n, p)
        Training rows after the linear map.
    codes : array of shape (n,)
        Class of each row, as a position in ``classes``.
    bandwidth, sharpness, prior_weight : arrays of shape ()
        Settings of the soft votes, as in ``KNeighborsClassifier``.
    classes : tuple
        Sorted class labels.
    weights : array of shape (n,), optional
        Weights of the rows in the votes. Default: 1 for all.
    class_prior : array of shape (c,), optional
        Class frequencies in the population of the queries. Default: the training
        frequencies.
    """

    rows: Float[Array, "n p"] = field(kw_only=True)
    codes: Int[Array, "n"] = field(kw_only=True)
    bandwidth: Scalar = field(kw_only=True)
    sharpness: Scalar = field(kw_only=True)
    prior_weight: Scalar = field(kw_only=True)
    classes: tuple[object, ...] = field(kw_only=True, metadata={"static": True})
    weights: Float[Array, "n"] | None = field(default=None, kw_only=True)
    class_prior: Float[Array, "c"] | None = field(default=None, kw_only=True)

    @measured
    def same_probability(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        A: Float[Array, "*n d"],
        B: Float[Array, "*n d"],
        *,
        labels: ArrayLike | None = None,
        prior_odds: Scalar | None = None,
    ) -> Float[Array, "*n"]:
        """Compute P(same class) of matching rows of A and B.

        ``labels`` are the classes of the rows of B, if they are known. ``prior_odds``
        must be None. See ``KNeighborsClassifier.same_probability``.
        """
        if prior_odds is not None:
            raise ValueError(
                "prior_odds must be None for class probabilities, got "
                f"{prior_odds}. Use same_probability(new_classes=True) of the learner"
            )
        A, B = np.broadcast_arrays(np.asarray(A), np.asarray(B))
        shape, d = A.shape[:-1], A.shape[-1]
        ends = (images(self.factor, X.reshape(-1, d)) for X in (A, B))
        pairs = np.stack([*ends], 1)
        return self.classifier().same_probability(pairs, labels).reshape(shape)

    def classifier(self) -> KNeighborsClassifier:
        """Return the soft-vote classifier of the stored images."""
        knn = KNeighborsClassifier(
            bandwidth=float(self.bandwidth),
            sharpness=float(self.sharpness),
            prior_weight=float(self.prior_weight),
            class_prior=self.class_prior,
            unlabeled=None,
        )
        labels = np.array(self.classes)[np.asarray(self.codes)]
        return knn.fit(self.rows, labels, sample_weight=self.weights)


def images(factor: Array, X: Array) -> Float[np.ndarray, "n p"]:
    """Return X Lᵀ by the same operations in every row."""
    return np.stack([np.sum(np.asarray(X) * row, -1) for row in np.asarray(factor)], -1)


def with_votes(knn: KNeighborsClassifier) -> VotingMahalanobis:
    """Return the metric of a fitted classifier, with its training rows and votes."""
    metric = knn.metric_
    if type(metric) is not Mahalanobis:
        raise ValueError(
            "metric must be a Mahalanobis metric to store class probabilities and "
            f"P(same) in its file, got {type(metric).__name__}. Pickle the learner "
            "instead"
        )
    prior = knn.class_prior
    if isinstance(prior, Mapping):
        prior = [prior[label] for label in knn.classes_.tolist()]
    prior = None if prior is None else np.asarray(prior, float)
    made: Any = VotingMahalanobis(
        metric.factor,
        rows=images(metric.factor, knn.fit_X_),
        codes=knn.codes_,
        bandwidth=np.asarray(1.0),
        sharpness=np.asarray(knn.sharpness_),
        prior_weight=np.asarray(knn.prior_weight_),
        classes=tuple(knn.classes_.tolist()),
        weights=vars(knn)["_w"],
        class_prior=prior,
    )
    # With many rows the scale, the unit of the bandwidth, is that of a sample.
    width = knn.bandwidth_ * knn.scale_[0] / made.classifier().scale_[0]
    return replace(made, bandwidth=np.asarray(width))
