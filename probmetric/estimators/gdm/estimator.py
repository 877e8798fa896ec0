"""``GDM``: the generalized dissimilarity model of ecologists, with its uncertainty.

The model is ``models.gdm``. The fit, draws and refits are in ``inference.gdm``.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_number
from probmetric.data.containers import Labeled, Pairs
from probmetric.data.factors import coded, level_names
from probmetric.data.inputs import points
from probmetric.data.scaling import Scaler
from probmetric.data.sites import site_pairs
from probmetric.estimators._labeled import (
    checked_rows,
    forget,
    pair_data,
    pair_ends,
    remember_rows,
    report,
    stood_for,
)
from probmetric.estimators._learner import Learner, Run
from probmetric.estimators._mahalanobis import float_type
from probmetric.estimators._pair_learner import LabelsOrPairs
from probmetric.estimators._same import SameProbability
from probmetric.estimators._settings import (
    Count,
    Matrix,
    Number,
    Positive,
    Unknown,
    check_settings,
    settings,
)
from probmetric.estimators.lca.settings import base_recipe
from probmetric.inference.effects.recipe import merged
from probmetric.inference.gdm.bootstrap import leave_out, units_of
from probmetric.inference.gdm.draws import draw, each_metric, metrics
from probmetric.inference.gdm.fit import deviance_explained, fit, gap, knots_for
from probmetric.inference.lca.recipe import build, rate_for
from probmetric.inference.sampling.sample import NutsOrLaplace
from probmetric.metric import SplineCityBlock
from probmetric.metric.feature_names import names_of, with_names
from probmetric.metric.splines import Coordinates
from probmetric.models.gdm import GDMParams, GDMPrior, gdm, height, to_metric
from probmetric.posterior.curves import Curves, curves
from probmetric.posterior.importance import explained_by, importance
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.jackknife import checked_prob, groups_of, limits
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Preprocessor, Purpose, Self

if TYPE_CHECKING:
    GDMMethod = NutsOrLaplace | Literal["bootstrap", "jackknife"]
else:
    GDMMethod = object

Splines = Annotated[int, Number(2, 100, whole=True)]


@settings
class GDM(
    SameProbability,
    LabelsOrPairs,
    OneToOneFeatureMixin,
    TransformerMixin,
    Learner[GDMMethod],
):
    """Generalized dissimilarity model: dissimilarity of sites from covariates.

    Use ``fit_sites`` for covariates and a table of species, ``fit_pairs`` for pairs of
    sites, and ``fit`` for points with class labels. Each covariate f has an increasing
    curve s_f, a sum of I-splines: smooth curves that increase from 0 to a height ≥ 0.
    For two sites with covariates x and x', the expected dissimilarity is
    ``1 - exp(-(b + Σ_f |s_f(x_f) - s_f(x'_f)|))`` with intercept b ≥ 0. The *trials* of
    a pair are the individuals (or species) at the two sites. The number of trials that
    are common to both sites is binomial. The fit is the unique maximum of the posterior
    density, with half-normal priors of heights and b.

    Parameters
    ----------
    n_splines : int in [2, 100], default=3
        Number of I-splines of each covariate, which equals the number of knots.
    knots : array of shape (d, k), optional
        Knots of each covariate, ascending in each row. Default: ``n_splines`` quantiles
        of the covariate over sites, from minimum to maximum.
    prior_scale : float > 0, default=1
        Scale of the half-normal prior of the height of an I-spline. Smaller values make
        curves flatter. A very large scale means no prior, as in R's gdm. (R's gdm also
        counts each pair as one trial. See the theory page.)
    intercept_scale : float > 0, default=1
        Scale of the half-normal prior of the intercept b.
    coordinates : tuple of two column names or numbers, optional
        Columns of X with the coordinates of each site, such as ("lon", "lat"). The
        model then has a curve of the geographic distance of two sites. It is the last
        curve. The two columns have no curves.
    distance : {"great_circle", "plane"}, default="great_circle"
        Geographic distance. "great_circle" is the distance in km for longitude and
        latitude in degrees. "plane" is the Euclidean distance in the units of the
        coordinates.
    learning_rate : "auto" or float > 0, default="auto"
        Factor of the log likelihood: the weight of the data relative to the prior
        (not a step size). "auto" uses 1 in ``fit_sites`` and ``fit_pairs``.
        In ``fit``, "auto" uses n/N for N pairs made from n points.
    max_iter : int, default=100
        Maximum number of steps of the solver.

    Attributes
    ----------
    knots_, coefficients_ : arrays of shape (n_curves, k)
        Knots in input units, and heights of the I-splines. Rows are curves, in the
        order of the columns of X. The curve of the geographic distance is last.
    intercept_ : float
        Intercept b. Sites with equal covariates have expected dissimilarity 1 -
        exp(-b).
    heights_ : array of shape (n_curves,)
        Total increase of each curve: the effect of the covariate over its whole range.
    curve_names_ : tuple of str
    factors_ : dict of str to tuple of str
        Values of each factor (text or categorical column).
    deviance_explained_ : float
        Fraction of the binomial deviance of the training data that the model explains.
    gap_ : float
        Measure of convergence: upper bound on the amount by which the log posterior
        density at the fit is below its maximum.
    learning_rate_ : float
    classes_ : array of shape (c,)
        Sorted class labels, after ``fit`` to class labels.
    points_ : array of shape (n,) or None
        Labels of the sites, or None if sites have no labels.
    pairs_, prior_, params_
        Training pairs, prior and fitted parameters. ``pairs_.X`` contains the sites.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Curves are flat beyond the knots: a covariate outside the range of the knots has the
    same effect as the nearest knot.

    ``sample`` draws ``b`` (the intercept), ``theta`` (the heights of the I-splines,
    with dimensions feature and spline) and ``height`` (the total increase of each
    curve). Methods are:

    - "nuts" (default, ``NUTS(target_accept=0.95)``) and "laplace" assume that pairs,
      and the trials of a pair, are independent. Pairs that share sites are dependent,
      so these draws vary too little for intervals.
    - "bootstrap" refits with random weights of the sites, drawn uniformly among weights
      ≥ 0 with mean 1 (Dirichlet). If pairs share no sites, the pairs get weights.

    ``posterior_metric`` uses "laplace" for prediction and "jackknife" for intervals.
    The jackknife refits without each site, or without each pair if pairs share no
    sites. With more than 100 sites (or pairs), it leaves out 50 random groups of sites
    (or pairs) in turn. The result is an ``IntervalMetric``, which has no draws. For
    intervals use only the jackknife or the bootstrap. See Benchmarks: gdm.

    Memory increases with the number N (1 + d k), for N pairs, d covariates and k
    splines. See Benchmarks: gdm.

    References
    ----------
    Ferrier, Manion, Elith and Richardson, Diversity and Distributions 13 (2007);
    Woolley and others, Methods in Ecology and Evolution 8 (2017).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(30, 2))
    >>> optimum = rng.uniform(-0.5, 1.5, size=60)  # Species along the first covariate
    >>> species = rng.random((30, 60)) < np.exp(-8 * (X[:, :1] - optimum) ** 2)
    >>> model = GDM().fit_sites(X, species)
    >>> bool(model.heights_[0] > 5 * model.heights_[1]), model.gap_ < 1e-6
    (True, True)
    """

    n_splines: Splines = field(default=3, kw_only=False)
    knots: Matrix | None = None
    prior_scale: Positive = 1.0
    intercept_scale: Positive = 1.0
    coordinates: tuple[str | int, str | int] | None = None
    distance: Literal["great_circle", "plane"] = "great_circle"
    pairs: Literal["nearest", "all"] = "nearest"
    n_targets: Count | None = None
    n_impostors: Count | None = None
    learning_rate: Positive | Literal["auto"] = "auto"
    max_iter: Count = 100
    preprocessor: Preprocessor = None
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _fit_labels(self, data: Labeled, scaler: Scaler) -> Self:
        recipe = base_recipe(self, data.X.shape[1])
        made = build(data, recipe)._replace(anchor=None)
        return self._store(made, rate_for(made, recipe), None)

    def fit_sites(
        self,
        X: ArrayLike,
        species: ArrayLike,
        *,
        measure: Literal["counts", "presence", "cover"] = "counts",
    ) -> Self:
        """Learn from a table of species, using all pairs of sites.

        Parameters
        ----------
        X : array-like of shape (n, d), or (n,) for ``preprocessor``
            Covariates of the sites. Text and categorical columns of a data frame are
            factors. Each value of a factor becomes a column of 0 and 1, such as
            "soil=clay".
        species : array-like of shape (n, S)
            Amount of each species at each site, ≥ 0. Every site must have at least one
            species.
        measure : {"counts", "presence", "cover"}, default="counts"
            Meaning of ``species``.

            - "counts": numbers of individuals (Bray-Curtis dissimilarity), or 0 and 1
              (Sørensen dissimilarity).
            - "presence": each number above 0 is replaced by 1.
            - "cover": amounts that are not counts. The Bray-Curtis dissimilarity is
              used, and each pair has weight 1, as in R's gdm. Compute intervals only
              by the jackknife or the bootstrap.
        """
        check_settings(self)
        _check_order(X, species)
        forget(self, "classes_", "feature_names_in_", "_columns")
        remember_rows(self, None)
        rows = checked_rows(self, X, reset=True, finite=True)
        for factor, levels in self.factors_.items():
            if len(levels) == 1:
                raise ValueError(
                    f"X: the factor {factor!r} must have at least two values, got "
                    f"{', '.join(map(repr, levels))}. Remove the column."
                )
        made = site_pairs(rows, species, measure=measure)
        shared, trials = np.asarray(made.y), np.asarray(made.trials)
        if not shared.any() or np.array_equal(shared, trials):
            raise ValueError(
                "species: sites must share some of their species, but not all, got "
                f"sites that share {'all' if shared.any() else 'none'} of their "
                "species. Check the table of species, or add sites."
            )
        return self._store(made, self._rate(), None)

    def fit_pairs(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        *,
        trials: ArrayLike | None = None,
        points: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from pairs of sites.

        Parameters
        ----------
        y : array-like of shape (N,)
            Labels of the pairs: 1 for same, 0 for different. Labels 1 and -1 are also
            allowed. With ``trials``, y is the number of trials with outcome *same*.
        trials : array-like of shape (N,) of integers, optional
            Number of trials of each pair, at least 1. Default: 1. If trials are the
            species of each site, count a species at both sites as two trials, both
            *same*.
        points : array-like of shape (N, 2), optional
            Labels of the two sites of each pair, numbers or text, for the bootstrap and
            the jackknife. Default with a preprocessor: the entries of ``pairs``, such
            as row numbers. Default without a preprocessor: sites with equal covariates
            are one site.
        """
        checked, _ = pair_data(self, pairs, y, sample_weight, trials=trials)
        labels = points
        if points is None and stood_for(self, pairs, "pairs", 2):
            labels = np.asarray(pairs)
        made, sites = merged(checked, labels)
        return self._store(made, self._rate(), sites)

    def _rate(self) -> float:
        return 1.0 if self.learning_rate == "auto" else float(self.learning_rate)

    def _knots(
        self, X: Float[np.ndarray, "n d"], coordinates: Coordinates | None
    ) -> np.ndarray:
        if self.knots is None:
            return knots_for(X, int(self.n_splines), coordinates)
        return points(self.knots, "knots")

    def _columns_of_places(self, X: Float[np.ndarray, "n d"]) -> Coordinates | None:
        """Find the columns of the setting ``coordinates``, and check their values."""
        if self.coordinates is None:
            return None
        names, plane = self._features(), self.distance == "plane"
        wanted: Any = self.coordinates
        pair = () if isinstance(wanted, str) or np.shape(wanted) != (2,) else wanted
        columns = [
            c if isinstance(c, int) else names.index(c) if c in names else -1
            for c in pair
        ]
        if len({*columns}) != 2 or not all(0 <= c < len(names) for c in columns):
            raise ValueError(
                f"coordinates must be two columns of X ({', '.join(names)}), got "
                f"{wanted!r}"
            )
        beyond = np.abs(X[:, columns]).max(0) > (360, 90)
        if not plane and beyond.any():
            k = int(np.argmax(beyond))
            axis = ("longitude", "latitude")[k]
            value = X[np.argmax(np.abs(X[:, columns[k]])), columns[k]]
            raise ValueError(
                "coordinates must be longitude and latitude in degrees, in this order, "
                f"got {axis} {value:g}. For coordinates in a plane use distance='plane'"
            )
        return Coordinates((columns[0], columns[1]), plane)

    def _features(self) -> list[str]:
        d = vars(self)["n_features_in_"]
        return [*(names_of(self) or [f"x{k}" for k in range(d)])]

    def _store(self, pairs: Pairs, rate: float, sites: np.ndarray | None) -> Self:
        places = self._columns_of_places(np.asarray(pairs.X))
        knots = self._knots(np.asarray(pairs.X), places)
        scales = float(self.prior_scale), float(self.intercept_scale)
        prior = GDMPrior(knots, *map(np.asarray, scales), coordinates=places)
        fitted = fit(pairs, prior, learning_rate=rate, max_steps=int(self.max_iter))
        report(fitted, type(self).__name__)
        params: GDMParams = fitted.params
        self.knots_, self.coefficients_ = params.knots, params.theta
        self.intercept_ = float(params.b)
        self.heights_ = np.asarray(height(params.theta, params.knots))
        self.gap_ = gap(params, pairs, prior, learning_rate=rate)
        self.deviance_explained_ = deviance_explained(params, pairs)
        self.learning_rate_, self.n_iter_ = rate, max(1, int(fitted.n_steps))
        self.pairs_: Pairs = pairs
        self.points_ = sites
        self.prior_: GDMPrior = prior
        self.params_: GDMParams = params
        self.curve_names_ = to_metric(params).curve_names(self._features())
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.knots_) - (self.prior_.coordinates is not None)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Any:
        """Return the names of the covariates: the columns of ``transform(X)``."""
        names: Any = super().get_feature_names_out(input_features)
        places = self.prior_.coordinates
        return names if places is None else names[places.others(len(names))]

    @with_names
    def get_metric(self) -> SplineCityBlock:
        """Return the metric. Its ``same_probability`` is the expected similarity."""
        check_is_fitted(self)
        return to_metric(self.params_)

    def transform(self, X: ArrayLike | xr.Dataset) -> Any:
        """Compute each covariate's curve at points, as R's ``gdm.transform`` does.

        Parameters
        ----------
        X : array-like of shape (n, d), or xarray Dataset
            Points, or a Dataset with one variable for each covariate, such as maps with
            axes (y, x). A Dataset does not need the columns that the parameter
            ``coordinates`` of the class names.

        Returns
        -------
        array of shape (n, n_curves), or Dataset
            Value of each curve, in the float type of X. If X is a Dataset, the result
            has the same axes, with NaN if a covariate is missing.
        """
        check_is_fitted(self)
        if isinstance(X, xr.Dataset):
            return self._transform_maps(X)
        rows, dtype = checked_rows(self, X, finite=True), float_type(X)
        return np.asarray(self.get_metric().transform(rows)).astype(dtype, copy=False)

    def _transform_maps(self, X: xr.Dataset) -> xr.Dataset:
        names = [name for name in self._predictors() if name != self._far]
        if absent := [name for name in names if name not in X]:
            raise ValueError(
                f"X must have the variables {', '.join(names)}, got no variable "
                f"{absent[0]!r}. Add it, or rename a variable of X."
            )
        maps = xr.broadcast(*(X[name] for name in names))
        frame = pd.DataFrame({m.name: m.to_numpy().ravel() for m in maps})
        known = frame.notna().all(axis=1).to_numpy()
        table: Any = coded(frame[known], self.factors_, self.handle_unknown)
        out, images = self.get_feature_names_out(self._features()), None
        values = np.full((len(frame), len(out)), np.nan)
        if known.any():
            rows = np.zeros((int(known.sum()), len(self._features())))
            for k, name in enumerate(self._features()):
                if name in out:
                    rows[:, k] = table[name]
            images = to_metric(self.params_).transform(points(rows))
            values[known] = np.asarray(images)
        curves = {
            name: maps[0].copy(data=values[:, k].reshape(maps[0].shape)).rename(name)
            for k, name in enumerate(out)
        }
        return xr.Dataset(curves, attrs=X.attrs)

    @property
    def _far(self) -> str | None:
        return None if self.prior_.coordinates is None else self.curve_names_[-1]

    def _predictors(self) -> dict[str, list[int]]:
        """Return the columns of X of each predictor (a factor has several columns)."""
        found: dict[str, list[int]] = {}
        places = self.prior_.coordinates
        levels = {
            column: name
            for name, values in self.factors_.items()
            for column in level_names(name, values)
        }
        for k, name in enumerate(self._features()):
            if places is None or k not in places.columns:
                found.setdefault(levels.get(name, name), []).append(k)
        if places is not None and self._far is not None:
            found[self._far] = [*places.columns]
        return found

    def importance(
        self, *, n_repeats: int = 20, prob: float = 0.9, seed: int = 0
    ) -> pd.DataFrame:
        """Compute the permutation importance of predictors, as R's ``gdm.varImp`` does.

        The values of one predictor are permuted over sites, and the model is refitted.
        The importance of the predictor is the mean decrease of ``deviance_explained_``
        over permutations.

        Parameters
        ----------
        n_repeats : int ≥ 1, default=20
            Number of permutations of each predictor.
        prob : float in (0, 1), default=0.9
            Nominal coverage of the limits ``lower`` and ``upper``, which are computed
            by a jackknife over sites.
        seed : int, default=0

        Returns
        -------
        DataFrame
            One row for each predictor, most important first. A factor is one predictor,
            and so is geographic distance. Columns are ``importance``, ``lower``,
            ``upper`` and ``p_value``. The p-value is (1 + m) / (1 + n_repeats), where m
            is the number of refits that explain at least as much deviance as the fit.

        Notes
        -----
        Correlated predictors can replace each other in a refit, so all of them may have
        a small importance.
        """
        check_is_fitted(self)
        n_repeats = check_number("n_repeats", n_repeats, 1, whole=True)
        predictors = self._predictors()
        found = importance(
            self.pairs_,
            self.prior_,
            self.params_,
            list(predictors.values()),
            learning_rate=self.learning_rate_,
            n_repeats=n_repeats,
            prob=checked_prob(prob),
            seed=seed,
        )
        table = pd.DataFrame(found._asdict(), index=pd.Index(predictors))
        return table.sort_values("importance", ascending=False)

    def deviance_shares(self) -> dict[str, float]:
        """Divide the explained deviance between covariates and geographic distance.

        Returns
        -------
        dict
            Fractions of the deviance. ``covariates`` is explained only by the
            covariates, and ``distance`` only by the geographic distance. ``either`` can
            be explained by covariates or by distance. ``total`` is the sum.

        Raises
        ------
        ValueError
            If the parameter ``coordinates`` of the class is not set.
        """
        check_is_fitted(self)
        if self.prior_.coordinates is None:
            raise ValueError("coordinates must be set for deviance_shares, got None")
        problem = self.pairs_, self.prior_, self.learning_rate_
        c, total = len(self.knots_) - 1, self.deviance_explained_
        alone = [explained_by(*problem, chosen) for chosen in ([*range(c)], [c])]
        return {
            "covariates": total - alone[1],
            "distance": total - alone[0],
            "either": sum(alone) - total,
            "total": total,
        }

    def _ends(self, pairs: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        return pair_ends(self, pairs, len(self._features()))

    def pair_distance(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Compute the distance of each pair, shape (N,): the sum over all curves."""
        return np.asarray(self.get_metric().distance(*self._ends(pairs)))

    def pair_score(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the negative distance of each pair. Higher is more similar."""
        return -self.pair_distance(pairs)

    def _model_probability(
        self, A: Float[np.ndarray, "N d"], B: Float[np.ndarray, "N d"]
    ) -> Float[np.ndarray, "N"]:
        return np.asarray(self.get_metric().same_probability(A, B))

    def pair_dissimilarity(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Compute the expected dissimilarity of each pair, as R's ``predict`` does."""
        return -np.expm1(-(self.intercept_ + self.pair_distance(pairs)))

    def _sample(self, method: str | GDMMethod, run: Run) -> xr.DataTree:
        pairs, rate = self.pairs_, self.learning_rate_
        problem = self.params_, pairs, self.prior_
        drawn = draw(*problem, method, learning_rate=rate, **run)
        curve = "feature" if self._far is None else "curve"
        return self._tree(
            drawn,
            gdm,
            pairs,
            {"prior": self.prior_, "learning_rate": rate},
            dims={"theta": (curve, "spline"), "height": (curve,)},
            coords={
                "spline": list(range(self.knots_.shape[1])),
                **({} if self._far is None else {curve: list(self.curve_names_)}),
            },
        )

    @with_names
    def posterior_metric(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        purpose: Purpose,
        *,
        draws: xr.DataTree | None = None,
        method: GDMMethod | None = None,
        n_draws: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> PosteriorMetric | IntervalMetric:
        """Return the learned metric with its uncertainty.

        Parameters
        ----------
        method : sampler, or "nuts", "laplace", "bootstrap", "jackknife"; optional
            Method to compute the uncertainty. Default: "laplace" for prediction,
            "jackknife" for intervals.
        """
        self._check(purpose)
        if n_draws is not None:
            n_draws = check_number("n_draws", n_draws, 1, whole=True)
        if draws is None:
            default = "laplace" if purpose == "prediction" else "jackknife"
            method = default if method is None else method
            if isinstance(method, str) and method == "jackknife":
                return self._jackknife(purpose, n_draws, seed)
        return self._posterior_metric(purpose, draws, method, n_draws, seed, progress)

    def _metrics_of(self, draws: xr.DataTree) -> Sequence[SplineCityBlock] | None:
        return metrics(draws)

    def _size(self, n: int, method: str | GDMMethod) -> tuple[int, int | None]:
        return n if method == "bootstrap" else max(n, 250), None

    def _independent(self) -> bool:
        ends = np.append(self.pairs_.i, self.pairs_.j)
        return not hasattr(self, "classes_") and len(np.unique(ends)) == len(ends)

    def _vary_as_fits(self, method: object) -> bool:
        of_sites = method == "bootstrap" and not hasattr(self, "classes_")
        return of_sites or self._independent()

    def _jackknife(
        self, purpose: Purpose, n_draws: int | None, seed: int
    ) -> IntervalMetric:
        if purpose != "intervals" or n_draws is not None:
            wanted = "n_draws" if purpose == "intervals" else "purpose='prediction'"
            raise ValueError(
                f"method must be a sampler with {wanted}, got 'jackknife', which "
                "makes no draws. Use method='bootstrap'"
            )
        unit = units_of(self.pairs_)
        n_units = int(unit.max()) + 1
        if n_units < 3:
            raise ValueError(
                "method='jackknife' requires at least 3 sites (or 3 pairs without "
                f"shared sites), got {n_units}"
            )
        group = groups_of(np.zeros(n_units, int), seed)[unit]
        refits = leave_out(
            self.pairs_,
            self.prior_,
            self.params_,
            group,
            learning_rate=self.learning_rate_,
        )
        n, g = len(group), int(group.max()) + 1
        of = "sites" if n == int(unit.max()) + 1 else "pairs"
        return IntervalMetric(
            self.get_metric(),
            each_metric(refits),
            about=f"GDM of {n} sites, {len(self.pairs_.i)} pairs, {g} groups of {of} "
            "left out",
        )

    def curves(
        self,
        uncertainty: PosteriorMetric | IntervalMetric | None = None,
        *,
        prob: float = 0.9,
        n_points: int = 101,
    ) -> Curves:
        """Return the curve of each covariate, with limits if ``uncertainty`` is set.

        Parameters
        ----------
        uncertainty : PosteriorMetric or IntervalMetric, optional
            Result of ``posterior_metric`` of this fit, from which limits are computed.
            Default: no limits.
        prob : float in (0, 1), default=0.9
            Nominal coverage of the limits.
        n_points : int ≥ 2, default=101
            Number of points of each curve.
        """
        return curves(self.get_metric(), uncertainty, prob=prob, n_points=n_points)

    def effects(
        self,
        uncertainty: PosteriorMetric | IntervalMetric | None = None,
        *,
        prob: float = 0.9,
    ) -> pd.DataFrame:
        """Return the intercept b and the total increase of each curve, with limits.

        For the parameters, see ``curves``.

        Returns
        -------
        DataFrame
            Column ``estimate``, and columns ``lower`` and ``upper`` if ``uncertainty``
            is set. Rows are the intercept and the curves.
        """
        found = self.curves(uncertainty, prob=prob, n_points=2)
        columns = {"estimate": [self.intercept_, *found.s[:, -1]]}
        if found.lower is not None and found.upper is not None:
            assert uncertainty is not None
            refits = isinstance(uncertainty, IntervalMetric)
            metrics: Any = uncertainty.left_out if refits else uncertainty.draws
            b = np.array([float(metric.link.b) for metric in metrics])
            if refits:
                ends = limits(
                    np.append(self.intercept_, b),
                    prob,
                    uncertainty.factor,
                    uncertainty.df,
                )
            else:
                ends = np.quantile(b, [(1 - prob) / 2, (1 + prob) / 2])
            columns["lower"] = [max(float(ends[0]), 0.0), *found.lower[:, -1]]
            columns["upper"] = [float(ends[1]), *found.upper[:, -1]]
        return pd.DataFrame(columns, index=pd.Index(["intercept", *self.curve_names_]))


def _check_order(X: Any, species: Any) -> None:
    if not (hasattr(X, "iloc") and hasattr(species, "iloc")):
        return
    index, other = X.index, species.index
    if not index.equals(other) and sorted(map(repr, index)) == sorted(map(repr, other)):
        raise ValueError(
            "species and X must have the same order of sites, got different orders. "
            "Use species.loc[X.index]"
        )
