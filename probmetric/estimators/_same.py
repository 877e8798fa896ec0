"""P(same) of learners, computed from class probabilities after a fit to labels.

``neighbors.same`` computes P(same) from ``predict_proba`` of the learner, or otherwise
from soft votes of the training rows under the learned metric.

Classes that were not in the fit have no class probabilities. P(same) is then a function
of the squared distance D,

    log odds = a - γ log D + log(prior odds / odds of the pairs),                  (1)

fitted to pairs of *left-out classes* (``inference.lca.link``). The classes are divided
into at most ``N_FOLDS`` groups. For each group, the learner is fitted to the other
classes with the settings that the first fit chose. Eq. (1) is then fitted to all pairs
of rows within the left-out groups.
"""

from collections.abc import Callable, Hashable
from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Labeled, arrays_of
from probmetric.data.factors import Factors
from probmetric.data.hash import canonical_order
from probmetric.estimators._labeled import pair_ends
from probmetric.estimators._settings import check_settings
from probmetric.inference.lca.link import log_logistic
from probmetric.metric.feature_names import described
from probmetric.metric.link import AT_RANDOM, LogLogisticLink
from probmetric.neighbors import KNeighborsClassifier
from probmetric.neighbors.same import label_places, same_class
from probmetric.progress import progress_bar
from probmetric.typing import ArrayLike

N_FOLDS = 5
FEWEST = 4
"""Smallest number of classes with two rows: two are left out, and two remain."""

CHOSEN = ("auto", "cv", "evidence", "loo")
"""Values of settings that ``fit`` replaces by a choice from the data."""

MOST_ROWS = 300
"""Largest number of left-out rows of a fold. All pairs of these rows are used."""


class SameProbability:
    """P(same) of pairs, from class probabilities after a fit to labels."""

    classes_: np.ndarray
    n_features_in_: int
    factors_: Factors

    def same_probability(
        self,
        pairs: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        new_classes: bool = False,
        prior_odds: float | None = None,
    ) -> Float[np.ndarray, "N"]:
        """Compute P(same class) of each pair, shape (N,).

        After a fit to labels, P(same) is the probability that two independent items
        with features x and x' share a class. It is Σ p_c(x) p_c(x'), summed over
        classes c, or p_y(x) if the class y of the second item is known. The class
        probabilities p_c come from ``predict_proba``. Without ``predict_proba``, they
        come from ``KNeighborsClassifier`` under the learned metric.

        After a fit to pairs, ``LCA`` and ``GDM`` compute P(same) by their model, and
        most other learners raise ValueError.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) with a ``preprocessor``
        labels : array-like of shape (N,), optional
            Known classes of the second points. Default: the classes are unknown.
        new_classes : bool, default=False
            Use True if the points belong to classes that were not in the fit. P(same)
            is then a function of the distance, estimated by up to five refits without
            some of the classes. The fit must have at least four classes with two or
            more rows.
        prior_odds : float > 0, optional
            Odds of *same* among your pairs, for example 1/9 if one pair in ten is
            *same*. Required if ``new_classes=True``, and not allowed otherwise.

        Raises
        ------
        ValueError
            If the fit did not store the training rows (data on disk).
            If ``labels`` has a class that was not in ``fit``.

        Notes
        -----
        After a fit to labels, P(same) of two equal points can be below 1, because items
        with equal features can have different classes. P(same) can also increase with
        distance. ``predict`` for pairs uses only the distance, not P(same). For
        repeated measurements of one object, use ``TwoStageMixture``.

        If only one point of a pair equals a training row, its class is the label of
        the row. If both do, their labels are not used, and votes for a training row do
        not include the row itself.
        """
        check_is_fitted(cast("Any", self))
        a, b = pair_ends(self, pairs, self.n_features_in_)
        if (prior_odds is not None) != new_classes:
            raise ValueError(
                "prior_odds must be a number if new_classes=True, and None otherwise, "
                f"got {prior_odds}. Use 1/9 if one in ten of your pairs is same."
            )
        given = labels is not None
        if given and (new_classes or not hasattr(self, "classes_")):
            raise ValueError(
                "labels must be None if new_classes=True or after a fit to pairs, got "
                f"{labels!r}"
            )
        if new_classes:
            link, learner = self._link_of_new_classes(), cast("Any", self)
            distance = learner.pair_distance(np.stack([a, b], 1))
            return np.asarray(link.probability(distance**2, prior_odds))
        if not hasattr(self, "classes_"):
            return self._model_probability(a, b)
        known = label_places(labels, self.classes_, len(a)) if given else None
        c = len(self.classes_)
        rows, w = self._training_rows(), vars(self)["_training"].w
        training = *rows, None if w is None else np.asarray(w)
        return same_class((a, b), known, training, c, self._class_probabilities)

    def _training_rows(self) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "n"]]:
        training: Labeled | None = getattr(self, "_training", None)
        if training is None:
            raise ValueError(
                "same_probability requires the training rows, which this fit does "
                "not store. After a fit to data on disk, use "
                "KNeighborsClassifier(model.get_metric(), votes='count').fit(...)"
            )
        return np.asarray(training.X), np.asarray(training.y)

    def _model_probability(
        self, A: Float[np.ndarray, "N d"], B: Float[np.ndarray, "N d"]
    ) -> Float[np.ndarray, "N"]:
        raise ValueError(
            f"same_probability of {type(self).__name__} requires a fit to class "
            "labels, got a fit to pairs. For P(same) after a fit to pairs, use "
            "LCA().fit_pairs(...)."
        )

    def _class_probabilities(
        self, Q: Float[np.ndarray, "m d"], own: Int[np.ndarray, "m"] | None = None
    ) -> Float[np.ndarray, "m c"]:
        """Return class probabilities; votes for row i of Q leave out row ``own[i]``."""
        learner = cast("Any", self)
        if hasattr(learner, "predict_proba"):
            return learner.predict_proba(Q)
        knn: Any = self._classifier(learner.get_metric)
        return knn._probabilities(Q, own)

    def _classifier(
        self, metric: Callable[[], Any], rows: Any = slice(None), key: Hashable = None
    ) -> KNeighborsClassifier:
        """Return a classifier of (some) training rows under a metric, cached by key."""
        made = vars(self).setdefault("_classifiers", {})
        if key not in made:
            X, codes = self._training_rows()
            w = vars(self)["_training"].w
            w = None if w is None else np.asarray(w)[rows]
            knn = KNeighborsClassifier(metric(), unlabeled=None)
            made[key] = knn.fit(X[rows], self.classes_[codes[rows]], sample_weight=w)
        return made[key]

    def _link_of_new_classes(self) -> LogLogisticLink:
        """Return Eq. (1), fitted to pairs of left-out classes (cached)."""
        if not hasattr(self, "_new_classes"):
            self._training_rows()  # Raises if there are none.
            self._new_classes = link_of_new_classes(self, vars(self)["_training"])
        return self._new_classes


def link_of_new_classes(estimator: Any, data: Labeled) -> LogLogisticLink:
    """Fit Eq. (1) to pairs of left-out classes, without pairs within a group."""
    if not hasattr(estimator, "pair_distance"):
        raise ValueError(
            f"new_classes must be False for {type(estimator).__name__}, got True. This "
            "learner has no pair_distance, which new_classes=True requires."
        )
    X, codes, w, groups = arrays_of(data)
    sizes = np.bincount(codes)
    large = np.flatnonzero(sizes > 1)
    if len(large) < FEWEST:
        raise ValueError(
            f"new_classes=True requires a fit with at least {FEWEST} classes of two "
            f"or more rows, got {len(large)} such classes. Use new_classes=False, or "
            "fit to more classes"
        )
    n_folds = min(N_FOLDS, len(large) // 2)
    fold = np.full(len(sizes), -1)
    fold[np.random.default_rng(0).permutation(large)] = np.arange(len(large)) % n_folds
    order = canonical_order(X, codes)
    squared, same = [], []
    for k in progress_bar(range(n_folds), "left-out classes", None, "fold"):
        rest = (fold[codes] != k) & (fold[codes] >= 0)
        out = order[fold[codes[order]] == k][:MOST_ROWS]
        more = {"sample_weight": w, "groups": groups}
        more = {name: v[rest] for name, v in more.items() if v is not None}
        refit = with_choices(estimator).fit(
            described(estimator, X[rest]), codes[rest], **more
        )
        i, j = out[np.stack(np.triu_indices(len(out), 1))]
        if groups is not None:
            i, j = np.stack([i, j])[:, groups[i] != groups[j]]
        squared.append(refit.pair_distance(np.stack([X[i], X[j]], 1)) ** 2)
        same.append(codes[i] == codes[j])
    return log_logistic(np.concatenate(squared), np.concatenate(same), AT_RANDOM)


def with_choices(estimator: Any) -> Any:
    """Return an unfitted copy with the settings that the fit chose."""
    new: Any = clone(estimator)
    for name, value in estimator.get_params(deep=False).items():
        choice = getattr(estimator, f"{name}_", None)
        if name == "n_components" and hasattr(estimator, "components_"):
            choice = len(estimator.components_)
        if isinstance(value, str) and value in CHOSEN and choice is not None:
            new.set_params(**{name: choice})
            try:
                check_settings(new)
            except ValueError:  # λ = ∞, which learned nothing, is not a setting.
                new.set_params(**{name: value})
    unused = {"preprocessor", "unlabeled"} & new.get_params(deep=False).keys()
    return new.set_params(**dict.fromkeys(unused))
