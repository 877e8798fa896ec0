"""``HierarchicalLCA``: a metric for each group around a common one.

The model is ``probmetric.models.hierarchical_lca``, the fit and its draws
``probmetric.inference.hierarchical_lca``; this file holds no mathematics.
"""

from dataclasses import field
from numbers import Number
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.inputs import codes_of
from probmetric.data.scaling import Scaler, taught_scale
from probmetric.data.unlabeled import leave_out, warn_of_unlabeled
from probmetric.estimators._labelled import (
    holds_pairs,
    labelled_data,
    pair_data,
    report,
    required,
)
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import (
    Count,
    Positive,
    settings,
)
from probmetric.estimators._settings import Number as Range
from probmetric.estimators.lca.settings import n_rows
from probmetric.inference.hierarchical_lca.draws import (
    averaged,
    draw,
    grid,
    metrics,
    new_groups,
)
from probmetric.inference.hierarchical_lca.fit import SpreadPosterior
from probmetric.inference.hierarchical_lca.recipe import (
    Fitted,
    fit_recipe,
    pairs_in_groups,
)
from probmetric.inference.lca.recipe import Recipe
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.metric import Link, Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.models.hierarchical_lca import hierarchical_lca, identified, to_metric
from probmetric.posterior.draws import thinned
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Preprocessor, Purpose

N_AVERAGED = 200
"""Draws over which P(same) is averaged."""

Spread = Annotated[float, Range(0, 100)]
"""ω in units of c; from some 50 on groups no longer see each other."""


@settings
class HierarchicalLCA(PairsMixin, BaseEstimator):
    """Metrics of groups (subjects, sites, batches), partially pooled.

    Pairs come in groups, both points in the same one. Each group has an LCA of its own,
    P(same) = exp(-(b + ½ dist²)), whose map lies around a common map at a distance, the
    *spread* ω, that is learned: 0 is one metric for all, and the larger it is the more
    each group learns alone. A group with few pairs borrows more from the others.

    Parameters
    ----------
    n_components : int, optional
        Rows of the maps, 1..d. Default: d.
    pairs : {"nearest", "all"}, default="nearest"
        Pairs that ``fit`` makes in each group.
    n_targets, n_impostors : int, optional
        Neighbours of a point of its own class and of the others, in its group. Default:
        3, or what there is.
    regularization : float > 0, default=10
        λ of the common map: the prior standard deviation of an entry is c/√λ.
    spread : float in [0, 100], optional
        ω, if it is known. Default: it is learned, and 0 where there is one group.
    spread_scale : float > 0, default=0.5
        Scale of its half-normal prior.
    learning_rate : "auto" or float > 0, default="auto"
        Power on the likelihood. "auto": n/N for pairs made from labels, as they share
        points; 1 for pairs given, taken as independent.
    standardize : bool, default=True
        Centre and scale the features inside ``fit``, alike in all groups.
    max_iter : int, default=500
        Most iterations of the solver at one ω.
    preprocessor : array-like of shape (n, d) or callable, optional
        X of shape (n,), and pairs (N, 2), are rows of it by number; or it is a function
        of such entries, numbers or text, that returns the points.
    unlabeled : label, default="warn"
        Rows with this label in y or ``groups`` are left out, for example -1; NaN also
        stands for None. None and "warn" use every label as a class, and "warn"
        warns about a -1.

    Attributes
    ----------
    components_ : array of shape (p, d)
        The common map, in input units: what ``transform`` and ``pair_distance`` use,
        and the best guess for a new group. Up to rotation and reflection.
    group_components_ : array of shape (G, p, d)
        Those of the groups.
    groups_ : array of shape (G,)
        Their labels, sorted; None where no groups were given.
    spread_ : float
        ω, in units of the Euclidean map W₀ = cI; 0 where no difference was found, or
        there is one group.
    intercept_ : float
        b ≥ 0, common: P(same) of equal points is exp(-b).
    learning_rate_ : float
    classes_ : array of shape (c,)
        After ``fit``.
    threshold_, pair_classes_ : float, array of shape (2,)
        Of ``predict`` on pairs under the common metric, once calibrated or set.
    fitted_ : Fitted
        The fit and the problem that it solved, in standardised units.
    mean_, scale_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn; ``n_iter_`` counts the steps at all ω.

    Notes
    -----
    ω maximises its marginal density, all else integrated out by Laplace's method (the
    joint mode is always at ω = 0, whatever the data say); maps and b are the mode given
    it. Optima are local. Laplace's method finds ω too small where groups differ much:
    benchmarks/results/hierarchical.md has what its intervals covered, and NUTS's.

    On both real sets tried every fit found ω = 0, and the log loss of averaged P(same)
    was .001 worse than one metric's; for new groups that did not follow the model
    (world *features* there) it was .0043 ± .0017 worse.

    P(same) is the model's, averaged over draws, not calibrated; of pairs made by
    ``fit`` it refers to *nearest* pairs.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> X, site = X[:, :4], np.arange(178) % 3
    >>> model = HierarchicalLCA().fit(X, y, groups=site)
    >>> model.group_components_.shape, model.get_metric(group=2).factor.shape
    ((3, 4, 4), (4, 4))
    """

    n_components: int | None = field(default=None, kw_only=False)
    pairs: Literal["nearest", "all"] = "nearest"
    n_targets: Count | None = None
    n_impostors: Count | None = None
    regularization: Positive = 10.0
    spread: Spread | None = None
    spread_scale: Positive = 0.5
    learning_rate: Positive | Literal["auto"] = "auto"
    standardize: bool = True
    max_iter: Count = 500
    preprocessor: Preprocessor = None
    unlabeled: Any = "warn"

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> "HierarchicalLCA":
        """Learn from class labels inside groups, or from pairs.

        Parameters
        ----------
        X : array-like of shape (n, d), or (N, 2, d) of pairs
            Pairs are learned from as ``fit_pairs`` does.
        y : array-like of shape (n,)
            Numbers or strings; in each group two or more classes of two or more.
            Of pairs: 1 for same; 0 or -1, one of the two throughout, for different.
        groups : array-like of shape (n,), optional
            Numbers or strings. Default: all points are one group; nothing says how
            others would differ from it, so ω = 0 unless it is given.
        """
        if holds_pairs(self, X):
            return self.fit_pairs(X, required(self, y), groups=groups)
        y, X, groups = leave_out(self.unlabeled, y, X, groups)
        groups, X, y = leave_out(self.unlabeled, groups, X, y, name="groups")
        data, self.classes_, scaler = labelled_data(self, X, y)
        codes = self._codes_of(groups, len(data.X))
        recipe = self._recipe(np.asarray(data.X).shape[1])
        labels = None if self.groups_ is None else self.groups_.tolist()
        made = pairs_in_groups(
            np.asarray(data.X), np.asarray(data.y), codes, recipe, labels
        )
        return self._store(made, recipe, scaler)

    def fit_pairs(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "HierarchicalLCA":
        """Learn from pairs in groups; ``threshold_`` is calibrated, common to all.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        y : array-like of shape (N,)
            1 for same; 0 or -1, one of the two throughout, for different.
        groups : array-like of shape (N,), optional
            The group of each pair. Default: all are of one group.
        sample_weight : array-like of shape (N,), optional
            Data weights ≥ 0.
        """
        groups, pairs, y, sample_weight = leave_out(
            self.unlabeled, groups, pairs, y, sample_weight, name="groups"
        )
        given, scaler = pair_data(self, pairs, y, sample_weight)
        given = given._replace(anchor=self._codes_of(groups, len(given.i)))
        recipe = self._recipe(given.X.shape[1])
        if recipe.learning_rate is None:
            recipe = recipe._replace(learning_rate=1.0)
        self._store(given, recipe, scaler)
        return self.calibrate_threshold(pairs, y)

    def _codes_of(self, groups: ArrayLike | None, n: int) -> Int[np.ndarray, "n"]:
        if groups is None:
            self.groups_ = None
            return np.zeros(n, int)
        self.groups_, codes = codes_of(groups, "groups")
        if codes.shape != (n,):
            raise ValueError(f"groups: expected shape ({n},), got {codes.shape}")
        warn_of_unlabeled(self.unlabeled, self.groups_, "groups")
        return codes

    def _recipe(self, d: int) -> Recipe:
        rate = self.learning_rate
        return Recipe(
            n_components=n_rows(self.n_components, d),
            pairs=self.pairs,
            n_targets=None if self.n_targets is None else int(self.n_targets),
            n_impostors=None if self.n_impostors is None else int(self.n_impostors),
            learning_rate=None if isinstance(rate, str) else float(rate),
            max_iter=int(self.max_iter),
        )

    def _store(self, pairs: Any, recipe: Recipe, scaler: Scaler) -> "HierarchicalLCA":
        """Fit, and map back to input units."""
        fitted: Fitted = fit_recipe(
            pairs,
            recipe,
            float(self.regularization),
            spread_scale=float(self.spread_scale),
            spread=None if self.spread is None else float(self.spread),
            n_groups=1 if self.groups_ is None else len(self.groups_),
        )
        report(fitted.fit, type(self).__name__)
        params = fitted.fit.params
        self._set_map(to_metric(params).factor, scaler, pairs.X)
        scale = taught_scale(np.asarray(pairs.X), scaler.scale)
        n = len(params.W_groups)
        maps = [to_metric(params, g).factor / scale for g in range(n)]
        self.group_components_ = np.stack(maps)
        self.intercept_ = float(identified(params)["b"])
        self.spread_ = float(params.spread)
        self.learning_rate_ = fitted.learning_rate
        self.n_iter_ = max(1, int(fitted.fit.n_steps))
        self.fitted_ = fitted
        self._averaged: list[dict[str, np.ndarray]] = []
        self._grid: list[SpreadPosterior] = []
        return self

    def _spreads(self) -> SpreadPosterior:
        """Return the posterior of ω on its grid, made when first asked for."""
        if not self._grid:
            self._grid = [grid(self.fitted_)]
        return self._grid[0]

    @property
    def _labels(self) -> list[Any]:
        """The groups as draws name them."""
        return [0] if self.groups_ is None else self.groups_.tolist()

    @property
    def _taught(self) -> Float[np.ndarray, "d"]:
        """What maps and draws are divided by."""
        return taught_scale(np.asarray(self.fitted_.pairs.X), self.scale_)

    def _place(self, group: Any, name: str = "group") -> int | None:
        """Return the place of a group among the fitted ones, None for a new one.

        Raises
        ------
        ValueError
            For what is not one label, or of another kind (number, text) than the
            groups of the fit.
        """
        if group is None:
            return 0 if self.groups_ is None else None
        kind = _kind(group)
        if kind is None or group != group:  # NaN is no label.
            raise ValueError(f"{name}: expected one label, got {group!r}")
        if self.groups_ is None:
            return None
        wanted = _kind(self.groups_[0])
        if kind != wanted:
            raise ValueError(
                f"{name}: expected {wanted}, as in {_shown(self.groups_)}, got "
                f"{group!r}"
            )
        found = np.flatnonzero(self.groups_ == group)
        return int(found[0]) if len(found) else None

    @with_names
    def get_metric(self, group: Any = None) -> Mahalanobis:
        """Return the common metric, or that of a group, with its P(same).

        Parameters
        ----------
        group : label, optional
            One of ``groups_``. Default: the common metric, that of new groups.

        Raises
        ------
        ValueError
            For a label that was not fitted.
        """
        check_is_fitted(self)
        link = Link(np.asarray(self.intercept_), np.asarray(0.5))
        if group is None:
            return Mahalanobis(self.components_.copy(), link)
        place = self._place(group)
        if place is None:
            raise ValueError(
                f"group: expected one of {_shown(self.groups_)}, got {group!r}; a new "
                "group has the common metric, group=None"
            )
        return Mahalanobis(self.group_components_[place].copy(), link)

    def same_probability(
        self, pairs: ArrayLike, groups: ArrayLike | None = None
    ) -> Float[np.ndarray, "N"]:
        """Return P(same), shape (N,), averaged over draws of the metric.

        The draws are Laplace's, made once, of fixed seed; ``posterior_metric`` has the
        same of other draws.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        groups : array-like of shape (N,), optional
            The group of each pair. Labels that were not fitted are new groups, and so
            are all by default (after a fit without groups: the one that was fitted).
        """
        a, b = self._ends(pairs)
        labels, codes = [None], np.zeros(len(a), int)
        if groups is not None:
            known, codes = codes_of(groups, "groups")
            if codes.shape != (len(a),):
                raise ValueError(
                    f"groups: expected shape ({len(a)},), got {codes.shape}"
                )
            labels = known.tolist()
        places = [self._place(label, "groups") for label in labels]
        at = np.array([-1 if place is None else place for place in places])[codes]
        if not self._averaged:
            drawn = draw(
                self.fitted_,
                "laplace",
                scale=self._taught,
                seed=0,
                n_draws=N_AVERAGED,
                n_chains=1,
                found=self._spreads(),
            )
            self._averaged = [joined(drawn)]
        result = np.empty(len(a))
        for place in np.unique(at):
            rows = at == place
            chosen = None if place < 0 else int(place)
            each = self._metrics(self._averaged[0], chosen, seed=0)
            result[rows] = averaged(each, a[rows], b[rows])
        return result

    def _metrics(
        self, values: dict[str, np.ndarray], place: int | None, *, seed: int
    ) -> list[Mahalanobis]:
        """Return one metric a draw: of a fitted group, or of a new one."""
        if place is not None:
            return mahalanobis(values["M_group"][:, place], values["b"])
        M = new_groups(
            values,
            width=float(self.fitted_.prior.common.width),
            scale=self._taught,
            p=len(self.components_),
            seed=seed,
        )
        return mahalanobis(M, values["b"])

    def sample(
        self,
        method: Any = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw from the posterior around the fit, on the pairs of the fit.

        Parameters
        ----------
        method : sampler, or "nuts", "laplace"; default="nuts"
            "nuts" is ``NUTS(target_accept=0.95)``, exact up to Monte Carlo error,
            around the mode of the fit; where few groups of many pairs differ much it
            may need .99, and says so. Laplace
            draws the spread from its approximate posterior on a grid and the rest from
            the Gaussian at the mode there, without rotations of the maps.
        n_draws : int, default=1000
        n_chains : int, optional
            Default: 4 for NUTS, otherwise 1.
            Laplace makes ``n_draws * n_chains`` independent draws, one chain.
        seed : int, default=0
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

        Returns
        -------
        DataTree
            Posterior of the common M (feature, feature_bis), of M_group (group,
            feature, feature_bis), b and spread, in input units; the pairs; provenance.
        """
        check_is_fitted(self)
        fitted, d = self.fitted_, self.components_.shape[1]
        drawn = draw(
            fitted,
            method,
            scale=self._taught,
            seed=seed,
            n_draws=n_draws,
            n_chains=n_chains,
            progress=progress,
            found=self._spreads(),
            feature_names=getattr(self, "feature_names_in_", None),
        )
        pairs = fitted.pairs
        shown = pairs._replace(X=self.mean_ + pairs.X * self.scale_)
        names = getattr(self, "feature_names_in_", None)
        names = [f"x{k}" for k in range(d)] if names is None else list(names)
        options = {"n_groups": fitted.n_groups, "learning_rate": fitted.learning_rate}
        return to_datatree(
            drawn,
            feature_names=names,
            dims={"M_group": ("group", "feature", "feature_bis")},
            coords={"group": self._labels},
            data=shown,
            observed={"y": np.asarray(pairs.y)},
            attributes=provenance(
                hierarchical_lca, shown, {"prior": fitted.prior, **options}
            ),
        )

    @with_names
    def posterior_metric(
        self,
        purpose: Purpose,
        *,
        group: Any = None,
        draws: xr.DataTree | None = None,
        method: Any = None,
        n_draws: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> PosteriorMetric:
        """Return the metric of a group, or of a new one, with its uncertainty.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
            Intervals mean what they say for independent pairs only (``fit_pairs``).
        group : label, optional
            One of ``groups_``. Another label of their kind, or None, is a new group,
            whose own deviation is drawn (after a fit without groups None is the fitted
            one).
        draws : DataTree, optional
            Of ``sample`` of this fit. Default: draws by ``method``.
        method : sampler, or "nuts", "laplace"; optional
            Default: "laplace" for prediction, "nuts" for intervals. NUTS needs a spread
            that is learned, from two groups or more.
        n_draws : int, optional
            Number of metrics. Default: 100; of ``draws``, all.
        seed : int, default=0
            Of draws, and of the deviations of a new group.
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        check_is_fitted(self)
        if draws is None:
            kept = 100 if n_draws is None else n_draws
            kept = check_number("n_draws", kept, 1, whole=True)
            method = method or ("laplace" if purpose == "prediction" else "nuts")
            draws = self.sample(
                method, n_draws=max(kept, 250), seed=seed, progress=progress
            )
            n_draws = kept
        if metrics(draws) is None:
            raise ValueError(
                "draws: expected those of HierarchicalLCA.sample, got "
                f"{', '.join(sorted(map(str, draws['posterior'].data_vars)))}"
            )
        drawn = draws["posterior"].coords
        theirs = drawn["group"].to_numpy().tolist() if "group" in drawn else None
        if theirs != self._labels:
            raise ValueError(
                f"draws: expected those of this fit, of groups {self._labels[:10]}, "
                f"got draws of {'none' if theirs is None else theirs[:10]}"
            )
        if n_draws is not None:
            draws = thinned(draws, check_number("n_draws", n_draws, 1, whole=True))
        each = self._metrics(joined(draws), self._place(group), seed=seed)
        return PosteriorMetric(
            each,
            purpose,
            source=draws.attrs.get("method", "nuts"),
            pairs_independent=not hasattr(self, "classes_"),
        )

    def spread_posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ω (k,) and its probabilities (k,), by Laplace's method, on a grid.

        It is an approximation, which finds ω too small where groups differ much; NUTS
        has the exact one, ``sample()["posterior"]["spread"]``.
        """
        check_is_fitted(self)
        found = self._spreads()
        return found.spread, found.probability


def _kind(label: Any) -> str | None:
    """Return what a label is, None for what is no label."""
    kinds = {"a number": (Number, np.bool_), "text": str, "bytes": bytes}
    return next((kind for kind, of in kinds.items() if isinstance(label, of)), None)


def _shown(groups: Any) -> str:
    return "no groups" if groups is None else str(groups[:10].tolist())
