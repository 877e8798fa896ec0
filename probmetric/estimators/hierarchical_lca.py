"""``HierarchicalLCA``: a metric for each group around a common metric.

The model is ``models.hierarchical_lca``. Fit and draws are in ``inference.effects``.
"""

from collections.abc import Hashable
from numbers import Number
from typing import Annotated

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Pairs
from probmetric.data.inputs import group_codes
from probmetric.data.scaling import Scaler
from probmetric.data.unlabeled import leave_out, warn_of_unlabeled
from probmetric.estimators._effect import EffectLearner
from probmetric.estimators._labeled import (
    holds_pairs,
    labeled_data,
    pair_data,
    required,
)
from probmetric.estimators._learner import Run
from probmetric.estimators._settings import Number as Range
from probmetric.estimators._settings import Positive, settings
from probmetric.inference.effects.draws import averaged, new_groups
from probmetric.inference.effects.recipe import fit_recipe, pairs_in_groups
from probmetric.inference.lca.recipe import Recipe
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.sampling.sample import NutsOrLaplace
from probmetric.metric import Link, Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.models.hierarchical_lca import hierarchical_lca, identified, to_metric
from probmetric.neighbors import KNeighborsClassifier
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Purpose, Self

Spread = Annotated[float, Range(0, 100)]
"""Range of ω in units of c. With ω above about 50, groups are independent."""


@settings
class HierarchicalLCA(EffectLearner):
    """Metrics of groups (subjects, sites, batches) in a hierarchical model.

    Use this class if groups may have different metrics, but too few pairs to learn each
    metric separately. Both points of a pair must be in the same group. The model is
    P(same) = exp(-(b + ½ dist²)), with the distance of the group and a common intercept
    b. The linear maps of the groups vary about a common linear map. The standard
    deviation of this variation, the *spread* ω, is learned. If ω = 0, all groups have
    the same metric. If ω is large, the metrics of groups are independent. The metric of
    a group with few pairs is close to the common metric.

    Parameters
    ----------
    regularization : "auto" or float > 0, default="auto"
        Strength λ of the prior of the common linear map. A larger λ brings the common
        metric closer to the metric of ``prior_mean``. In ``fit``, "auto" uses λ = 10.
        In ``fit_pairs``, "auto" uses the λ of ``LCA().fit_pairs`` for the same pairs.
    prior_mean : {"auto", "identity"}, default="auto"
        Metric to which the prior shrinks the common metric. "identity" is the Euclidean
        metric of standardized features. In ``fit``, "auto" chooses the metric by
        cross-validation as ``LCA`` does, from points minus their group means. In
        ``fit_pairs``, "auto" means "identity", or the first principal axes if
        ``n_components < d``.
    spread : float in [0, 100], optional
        Fixed value of ω, in the unit of ``spread_``. Default: ω is learned, or 0 if
        there is only one group.
    spread_scale : float > 0, default=0.5
        Scale of the half-normal prior of ω. Smaller values make groups more similar.
    max_iter : int, default=500
        Maximum number of iterations of the solver for each value of ω.

    Attributes
    ----------
    components_ : array of shape (p, d)
        Common linear map in input units, unique up to rotation and reflection.
        ``transform`` and ``pair_distance`` use the common map. It is also the map for
        new groups.
    group_components_ : array of shape (G, p, d)
        Linear maps of the groups, in input units.
    groups_ : array of shape (G,) or None
        Sorted labels of the groups. None after a fit without groups.
    spread_ : float
        Spread ω. An entry of the map of a group has standard deviation ωc about the
        entry of the common map (c is defined in Notes). ω is 0 if groups do not differ.
    intercept_ : float
        Intercept b of all groups: P(same) of equal points is exp(-b).
    learning_rate_, classes_, threshold_, pair_classes_, fitted_, mean_, scale_, n_iter_
        As in ``LCA``. ``n_iter_`` counts the steps at all values of ω.
    n_features_in_, feature_names_in_

    Notes
    -----
    An entry of the common map, for standardized features, has prior standard deviation
    c/√λ. Here c is ‖W₀‖/√p, with the Frobenius norm of the prior mean W₀.

    The estimate of ω maximizes its posterior density, averaged over the other
    parameters by Laplace's method (a Gaussian approximation). The linear maps and b
    then maximize the posterior density given ω. The fit may find a local maximum.
    Laplace's method underestimates ω if groups differ much. See Benchmarks:
    hierarchical for coverage, and for data on which pooling did not help.

    ``sample`` draws the matrix M (feature, feature_bis) of the common metric, the
    matrices M_group (group, feature, feature_bis) of the groups, b, and ω as
    ``spread``. Draws start at the fit. If the posterior has several maxima, the others
    are not explored.

    * "nuts" (default) is ``NUTS(target_accept=0.95)``. It requires two or more groups
      and a learned ω. NUTS may warn if the metrics of a few groups with many pairs
      differ much. Then use ``NUTS(target_accept=0.99)``.
    * "laplace" draws ω from its approximate posterior on a grid. It draws the other
      parameters from a Gaussian approximation of their posterior given ω.

    ``posterior_metric`` uses "laplace" for prediction and "nuts" for intervals.
    Intervals require independent pairs (``fit_pairs``). P(same) of a posterior metric
    is averaged over draws, and is not calibrated. After ``fit``, this P(same) is for
    pairs chosen like the training pairs (by default, near points in one group), and not
    for random pairs.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> X, site = X[:, :4], np.arange(178) % 3
    >>> model = HierarchicalLCA().fit(X, y, groups=site)
    >>> model.group_components_.shape, model.get_metric(group=2).factor.shape
    ((3, 4, 4), (4, 4))
    """

    spread: Spread | None = None
    spread_scale: Positive = 0.5

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Learn from class labels within groups, or from pairs.

        Parameters
        ----------
        X : array-like of shape (n, d), or (N, 2, d) for pairs
            Points, or pairs. Pairs are passed to ``fit_pairs``, which describes their
            labels.
        y : array-like of shape (n,)
            Class labels, numbers or strings. Each group must have at least two classes,
            and at least two rows of each of its classes.
        groups : array-like of shape (n,), optional
            Group of each point, numbers or strings. Default: all points are in one
            group.
        """
        if holds_pairs(self, X):
            return self.fit_pairs(X, required(self, y), groups=groups)
        y, X, groups = leave_out(self.unlabeled, y, X, groups)
        groups, X, y = leave_out(self.unlabeled, groups, X, y, name="groups")
        data, self.classes_, scaler = labeled_data(self, X, y)
        Z, labels = np.asarray(data.X), np.asarray(data.y)
        codes = self._group_of_row = self._codes_of(groups, len(Z))
        recipe = self._recipe(Z.shape[1])
        names = None if self.groups_ is None else self.groups_.tolist()
        pairs = pairs_in_groups(Z, labels, codes, recipe, names)
        means = np.stack([Z[codes == g].mean(0) for g in range(codes.max() + 1)])
        inside = pairs._replace(X=Z - means[codes])  # Pairs are inside groups.
        return self._store(pairs, self._centered(inside, labels, recipe), scaler)

    def fit_pairs(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from pairs in groups.

        Also choose the threshold of ``predict``, which is the same for all groups.

        Parameters
        ----------
        groups : array-like of shape (N,), optional
            Group of each pair. Default: all pairs are in one group.
        """
        groups, pairs, y, sample_weight = leave_out(
            self.unlabeled, groups, pairs, y, sample_weight, name="groups"
        )
        checked, scaler = pair_data(self, pairs, y, sample_weight)
        checked = checked._replace(anchor=self._codes_of(groups, len(checked.i)))
        self._store(checked, self._recipe(checked.X.shape[1], 1.0), scaler)
        return self.calibrate_threshold(pairs, y)

    def _codes_of(self, groups: ArrayLike | None, n: int) -> Int[np.ndarray, "n"]:
        if groups is None:
            self.groups_ = None
            return np.zeros(n, int)
        self.groups_, codes = group_codes(groups, n)
        warn_of_unlabeled(self.unlabeled, self.groups_, "groups")
        return codes

    def _store(self, pairs: Pairs, recipe: Recipe, scaler: Scaler) -> Self:
        fitted = fit_recipe(
            pairs,
            recipe,
            self._lam(pairs, recipe),
            spread_scale=float(self.spread_scale),
            spread=None if self.spread is None else float(self.spread),
            n_groups=1 if self.groups_ is None else len(self.groups_),
        )
        params = fitted.fit.params
        self._store_fit(fitted, to_metric(params), scaler)
        n = len(params.W_groups)
        maps = [to_metric(params, g).factor / self._live_scale for g in range(n)]
        self.group_components_ = np.stack(maps)
        self.intercept_ = float(identified(params)["b"])
        return self

    @property
    def _labels(self) -> list[Hashable]:
        return [0] if self.groups_ is None else self.groups_.tolist()

    def _place(self, group: object, name: str = "group") -> int | None:
        """Return the index of a group, or None for a new group; check its type."""
        if group is None:
            return 0 if self.groups_ is None else None
        kind = _kind(group)
        if kind is None or group != group:  # NaN is no label.
            raise ValueError(f"{name} must be one label, got {group!r}")
        if self.groups_ is None:
            return None
        wanted = _kind(self.groups_[0])
        if kind != wanted:
            raise ValueError(
                f"{name} must be {wanted}, as in {_first(self.groups_)}, got {group!r}"
            )
        places = np.flatnonzero(self.groups_ == group)
        return int(places[0]) if len(places) else None

    @with_names
    def get_metric(self, group: object = None) -> Mahalanobis:
        """Return the metric of a group. The metric also computes P(same).

        ``group`` is a label in ``groups_``. The default None returns the common metric,
        which is also used for new groups.
        """
        check_is_fitted(self)
        link = Link(np.asarray(self.intercept_), np.asarray(0.5))
        if group is None:
            return Mahalanobis(self.components_.copy(), link)
        place = self._place(group)
        if place is None:
            raise ValueError(
                f"group must be one of {_first(self.groups_)}, got {group!r}. Use "
                "group=None for a new group"
            )
        return Mahalanobis(self.group_components_[place].copy(), link)

    def same_probability(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        pairs: ArrayLike,
        groups: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
    ) -> Float[np.ndarray, "N"]:
        """Compute P(same) of each pair, shape (N,).

        After ``fit``, P(same) is the probability that two independent points with these
        features share a class. It is Σ p_c(x) p_c(x'), summed over classes c. The class
        probabilities p_c are soft votes of ``KNeighborsClassifier``. The training rows
        of the group vote, under the metric of the group. For a new group, all training
        rows vote, under the common metric. After ``fit_pairs``, P(same) is averaged
        over posterior draws, made by Laplace's method with a fixed seed. For other
        draws use ``posterior_metric``.

        Parameters
        ----------
        labels : array-like of shape (N,), optional
            Known classes of the second points, only after ``fit``. Default: the classes
            are unknown.
        groups : array-like of shape (N,), optional
            Group of each pair. A label that is not in ``groups_`` is a new group.
            Default: every pair is in a new group, or in the only group of a fit without
            ``groups``.
        """
        a, b = self._ends(pairs)
        wanted = (len(a),) if hasattr(self, "classes_") else ()
        if labels is not None and (not wanted or np.shape(labels) != wanted):
            raise ValueError(
                "labels must be None after fit_pairs, and after fit the class of the "
                f"second point of each pair, got {labels!r}"
            )
        names, codes = [None], np.zeros(len(a), int)
        if groups is not None:
            known, codes = group_codes(groups, len(a))
            names = known.tolist()
        places = [self._place(name, "groups") for name in names]
        rows_of = np.array([-1 if place is None else place for place in places])[codes]
        result = np.empty(len(a))
        for place in np.unique(rows_of):
            rows = rows_of == place
            index = None if place < 0 else int(place)
            if hasattr(self, "classes_"):
                chosen = None if labels is None else np.asarray(labels)[rows]
                pairs = np.stack([a[rows], b[rows]], 1)
                result[rows] = self._votes_in(index).same_probability(pairs, chosen)
                continue
            values = self._laplace()
            M = self._matrices(values, index, seed=0)
            result[rows] = averaged(M, values["b"], a[rows], b[rows])
        return result

    def _votes_in(self, place: int | None) -> KNeighborsClassifier:
        """Return the classifier of the rows of a group (all rows for a new group)."""
        if place is None or self.groups_ is None:
            return self._classifier(self.get_metric)
        rows, L = self._group_of_row == place, self.group_components_[place]
        return self._classifier(lambda: Mahalanobis(L), rows, place)

    def _matrices(
        self, values: dict[str, np.ndarray], place: int | None, *, seed: int
    ) -> Float[np.ndarray, "s d d"]:
        if place is not None:
            return values["M_group"][:, place]
        return new_groups(
            values,
            width=float(self.fitted_.prior.common.width),
            scale=self._live_scale,
            p=len(self.components_),
            seed=seed,
        )

    def _sample(self, method: str | NutsOrLaplace, run: Run) -> xr.DataTree:
        fitted = self.fitted_
        return self._tree(
            self._drawn(method, run),
            hierarchical_lca,
            self._shown(),
            {
                "prior": fitted.prior,
                "n_groups": fitted.n_groups,
                "learning_rate": fitted.learning_rate,
            },
            dims={"M_group": ("group", "feature", "feature_bis")},
            coords={"group": self._labels},
        )

    @with_names
    def posterior_metric(
        self,
        purpose: Purpose,
        *,
        group: object = None,
        draws: xr.DataTree | None = None,
        method: NutsOrLaplace | None = None,
        n_draws: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> PosteriorMetric:
        """Return the metric of a group or of a new group, with its uncertainty.

        Parameters
        ----------
        group : label, optional
            Label in ``groups_``. Any other label of the same type means a new group.
            Default: a new group, or the only group of a fit without groups. The metric
            of a new group is drawn from the learned distribution over groups.
        method : sampler, or "nuts", "laplace"; optional
            Name of a method, or a sampler such as ``pm.NUTS()``. Default: "laplace" for
            prediction, "nuts" for intervals.
        seed : int, default=0
            Seed of the draws, and of the random metrics of a new group.
        """
        self._check(purpose)
        place = self._place(group)

        def read(draws: xr.DataTree) -> list[Mahalanobis]:
            self._check_draws(draws)
            values = joined(draws)
            return mahalanobis(self._matrices(values, place, seed=seed), values["b"])

        run = purpose, draws, method, n_draws, seed, progress, read
        # The distances of a new group differ, and not only their estimates.
        return self._posterior_metric(*run, credible=place is None)

    def _check_draws(self, draws: xr.DataTree) -> None:
        if self._metrics_of(draws) is None:
            raise ValueError(
                "draws must come from HierarchicalLCA.sample, got draws of "
                f"{', '.join(sorted(map(str, draws['posterior'].data_vars)))}"
            )
        coords = draws["posterior"].coords
        groups = coords["group"].to_numpy().tolist() if "group" in coords else None
        if groups != self._labels:
            raise ValueError(
                f"draws must have the groups of this fit, {self._labels[:10]}, got "
                f"{'no groups' if groups is None else groups[:10]}"
            )


def _kind(label: object) -> str | None:
    """Return the type of a label in words, or None if it cannot be a label."""
    kinds = {"a number": (Number, np.bool_), "text": str, "bytes": bytes}
    return next((kind for kind, of in kinds.items() if isinstance(label, of)), None)


def _first(groups: np.ndarray | None) -> str:
    return "no groups" if groups is None else str(groups[:10].tolist())
