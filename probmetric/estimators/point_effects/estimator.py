"""``PointEffectsLCA``: LCA of judged pairs that share points.

The model is ``probmetric.models.point_effects``, the fit and its draws
``probmetric.inference.point_effects``; this file holds no mathematics.
"""

from dataclasses import field
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.scaling import Scaler, taught_scale
from probmetric.estimators._labelled import (
    holds_pairs,
    labelled_data,
    pair_data,
    report,
    required,
    stood_for,
)
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import Count, Number, Positive, settings
from probmetric.estimators.lca.settings import n_rows
from probmetric.inference.lca.recipe import Recipe, build
from probmetric.inference.point_effects.draws import averaged, draw, grid, metrics
from probmetric.inference.point_effects.fit import SpreadPosterior
from probmetric.inference.point_effects.left_out import point_log_likelihood
from probmetric.inference.point_effects.likelihood import rows_of
from probmetric.inference.point_effects.recipe import Fitted, fit_recipe, merged
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.metrics import joined
from probmetric.inference.sampling.units import POINTS
from probmetric.metric import Link, Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.models.point_effects import identified, point_effects, to_metric
from probmetric.posterior.draws import posterior_metric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Preprocessor, Purpose, Self

N_AVERAGED = 200
"""Draws over which P(same) is averaged."""

Spread = Annotated[float, Number(0, 10)]
"""ω: at 10 the b of typical points differ by a factor of 20 000."""


@settings
class PointEffectsLCA(PairsMixin, BaseEstimator):
    """A metric from judged pairs that share points, each point with its own b.

    P(same) = exp(-((b_i + b_j)/2 + ½ dist²)), b_i = b e^{u_i}, u_i ~ N(0, ω²): points
    that are hard to recognise have a large b_i. All pairs of a point share its u_i, so
    that they are not independent; ω, the *spread*, is learned. ω = 0 is ``LCA`` at a
    learning rate of 1, whose intervals are too narrow where points differ.

    Parameters
    ----------
    n_components : int, optional
        Rows of the map, 1..d. Default: d.
    pairs : {"nearest", "all"}, default="nearest"
        Pairs that ``fit`` makes of class labels.
    n_targets, n_impostors : int, optional
        Neighbours of a point of its own class and of the others. Default: 3, or what
        there is.
    regularization : float > 0, default=10
        λ: the prior standard deviation of an entry of the map around the Euclidean one,
        cI, is c/√λ.
    spread : float in [0, 10], optional
        ω, if it is known. Default: it is learned.
    spread_scale : float > 0, default=1
        Scale of its half-normal prior.
    learning_rate : "auto" or float > 0, default="auto"
        Power on the likelihood. "auto": 1 for pairs given; n/N for pairs made from
        labels, which are no judgments.
    standardize : bool, default=True
        Centre and scale the features inside ``fit``.
    max_iter : int, default=500
        Most iterations of the solver at one ω.
    preprocessor : array-like of shape (n, d) or callable, optional
        X of shape (n,), and pairs (N, 2), are rows of it by number; or it is a function
        of such entries, numbers or text, that returns the points.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

    Attributes
    ----------
    components_ : array of shape (p, d)
        The map, in input units, up to rotation and reflection.
    spread_ : float
        ω; 0 where points were found alike.
    intercept_ : float
        b of a typical point.
    point_intercepts_ : array of shape (n,)
        b_i of each point of the fit: e^{-b_i} is P(same) of two copies of it.
    points_ : array of shape (n,) or None
        Their labels; None where pairs brought none: then points are the rows of
        ``fitted_.pairs.X``.
    gap_ : float
        Certificate of the mode given ω: an upper estimate, in nats, of how far the log
        posterior is below the nearby maximum, by the quadratic at hand.
    learning_rate_ : float
    classes_ : array of shape (c,)
        After ``fit`` on labels.
    threshold_, pair_classes_ : float, array of shape (2,)
        Of ``predict`` on pairs, once calibrated or set.
    fitted_ : Fitted
        The fit and the problem that it solved, in standardised units.
    mean_, scale_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn; ``n_iter_`` counts the steps at all ω.

    Notes
    -----
    ω maximises its marginal density, all else integrated out by Laplace's method; the
    map, b and the effects are the mode given it. Optima are local, and at most 5000
    parameters, one a point among them, are fitted. Coverage of intervals of distances,
    beside plain LCA's: benchmarks/results/point_effects.md.

    The points are a random sample of those that P(same) of new points speaks of; it is
    the model's, not calibrated.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, i = rng.normal(size=(30, 2)), rng.integers(0, 30, 300)
    >>> pairs = np.stack([i, (i + rng.integers(1, 30, 300)) % 30], 1)
    >>> d2 = ((X[pairs[:, 0]] - X[pairs[:, 1]])[:, 0]) ** 2  # The first feature alone
    >>> y = rng.random(300) < np.exp(-0.2 - 2 * d2)
    >>> model = PointEffectsLCA(preprocessor=X).fit_pairs(pairs, y)
    >>> M = model.get_mahalanobis_matrix()
    >>> bool(M[0, 0] > 5 * M[1, 1]), model.point_intercepts_.shape
    (True, (30,))
    """

    n_components: int | None = field(default=None, kw_only=False)
    pairs: Literal["nearest", "all"] = "nearest"
    n_targets: Count | None = None
    n_impostors: Count | None = None
    regularization: Positive = 10.0
    spread: Spread | None = None
    spread_scale: Positive = 1.0
    learning_rate: Positive | Literal["auto"] = "auto"
    standardize: bool = True
    max_iter: Count = 500
    preprocessor: Preprocessor = None
    unlabeled: Any = "warn"

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from class labels, by pairs made from them; or from pairs.

        Parameters
        ----------
        X : array-like of shape (n, d), or (N, 2, d) of pairs
            Pairs are learned from as ``fit_pairs`` does.
        y : array-like of shape (n,)
            Numbers or strings; at least two classes, one of two rows or more.
            Of pairs: 1 for same; 0 or -1, one of the two throughout, for different.
        """
        if holds_pairs(self, X):
            return self.fit_pairs(X, required(self, y))
        data, self.classes_, scaler = labelled_data(self, X, y)
        Z, codes = np.asarray(data.X), np.asarray(data.y)
        recipe = self._recipe(Z.shape[1])
        made = build(Z, codes, recipe)._replace(anchor=None)
        return self._store(made, recipe, scaler, None)

    def fit_pairs(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        *,
        points: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from judged pairs, and calibrate ``threshold_`` on them.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        y : array-like of shape (N,)
            1 for same; 0 or -1, one of the two throughout, for different.
        points : array-like of shape (N, 2), optional
            Labels of the two points of each pair, numbers or text: what bears one label
            shares one effect. Default: points are one where pairs are entries of
            ``preprocessor`` and these are equal, else where all features are.
        sample_weight : array-like of shape (N,), optional
            Data weights ≥ 0.

        Raises
        ------
        ValueError
            On bad input, a pair of a point with itself included.
        """
        given, scaler = pair_data(self, pairs, y, sample_weight)
        if points is None and stood_for(self, pairs, "pairs", 2):
            entries = np.asarray(pairs)
            given, known = merged(given, entries)
        else:
            given, known = merged(given, points)
        recipe = self._recipe(given.X.shape[1])
        if recipe.learning_rate is None:
            recipe = recipe._replace(learning_rate=1.0)
        self._store(given, recipe, scaler, known)
        return self.calibrate_threshold(pairs, y)

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

    def _store(
        self, pairs: Any, recipe: Recipe, scaler: Scaler, known: np.ndarray | None
    ) -> Self:
        """Fit, and map back to input units."""
        fitted: Fitted = fit_recipe(
            pairs,
            recipe,
            float(self.regularization),
            spread_scale=float(self.spread_scale),
            spread=None if self.spread is None else float(self.spread),
        )
        report(fitted.fit, type(self).__name__)
        params = fitted.fit.params
        self._set_map(to_metric(params).factor, scaler, pairs.X)
        found = identified(params)
        self.intercept_, self.spread_ = float(found["b"]), float(params.spread)
        self.point_intercepts_ = np.asarray(found["b_point"])
        self._new = np.asarray(found["b_new"])
        self.points_ = known
        self.gap_, self.learning_rate_ = fitted.gap, fitted.learning_rate
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
    def _taught(self) -> Float[np.ndarray, "d"]:
        """What maps and draws are divided by."""
        return taught_scale(np.asarray(self.fitted_.pairs.X), self.scale_)

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the learned metric, with P(same) of two new points."""
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy(), Link(self._new, np.asarray(0.5)))

    def _places(
        self, points: ArrayLike | None, n: int
    ) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """Return the place of each point of pairs among those fitted, -1 for new."""
        if points is None:
            return np.full(n, -1), np.full(n, -1)
        given = np.asarray(points)
        if given.shape != (n, 2):
            raise ValueError(
                f"points: expected labels of shape ({n}, 2), got {given.shape}"
            )
        if self.points_ is None:
            raise ValueError(
                "points: expected none after a fit to points without labels, got "
                f"{given.ravel()[:3].tolist()}"
            )
        place = {label: k for k, label in enumerate(self.points_.tolist())}
        at = [place.get(label, -1) for label in given.ravel().tolist()]
        i, j = np.reshape(at, (n, 2)).T
        return i, j

    def same_probability(
        self, pairs: ArrayLike, points: ArrayLike | None = None
    ) -> Float[np.ndarray, "N"]:
        """Return P(same), shape (N,), averaged over draws of the posterior.

        The draws are Laplace's, made once, of fixed seed.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        points : array-like of shape (N, 2), optional
            Labels of their points, as in ``fit_pairs``; those that were not fitted are
            new points, and so are all by default.
        """
        a, b = self._ends(pairs)
        i, j = self._places(points, len(a))
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
        return averaged(self._averaged[0], a, b, i, j)

    def sample(
        self,
        method: Any = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        log_likelihood: bool = False,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw from the posterior around the fit, on the pairs of the fit.

        Parameters
        ----------
        method : sampler, or "nuts", "laplace"; default="nuts"
            "nuts" is ``NUTS(target_accept=0.95)``, exact up to Monte Carlo error,
            around the mode of the fit. Laplace draws the spread from its approximate
            posterior on a grid and the rest from the Gaussian at the mode there.
        n_draws : int, default=1000
        n_chains : int, optional
            Default: 4 for NUTS, otherwise 1.
            Laplace makes ``n_draws * n_chains`` independent draws, one chain.
        seed : int, default=0
        log_likelihood : bool, default=False
            Store the log density of all pairs of each point, its effect integrated out,
            in ``point_log_likelihood``: what ``pm.loo`` leaves out one point with.
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

        Returns
        -------
        DataTree
            Posterior of M (feature, feature_bis), in input units, b, b_point (point),
            b_new of new points and spread; the pairs; provenance.
        """
        check_is_fitted(self)
        fitted, d = self.fitted_, self.components_.shape[1]
        scale = self._taught
        drawn = draw(
            fitted,
            method,
            scale=scale,
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
        options = {"prior": fitted.prior, "learning_rate": fitted.learning_rate}
        n = len(pairs.X)
        labels = np.arange(n) if self.points_ is None else self.points_
        tree = to_datatree(
            drawn,
            feature_names=[f"x{k}" for k in range(d)] if names is None else list(names),
            dims={"b_point": ("point",)},
            coords={"point": labels.tolist()},
            data=shown,
            observed={"y": np.asarray(pairs.y)},
            attributes=provenance(point_effects, shown, options),
        )
        if not log_likelihood:
            return tree
        units = {**drawn.values, "M": drawn.values["M"] * np.outer(scale, scale)}
        found = point_log_likelihood(units, rows_of(pairs))
        axes = ("chain", "draw", "point")
        group = xr.Dataset({"y": (axes, found)}, {"point": labels})
        return tree.assign({POINTS: xr.DataTree(group)})

    @with_names
    def posterior_metric(
        self,
        purpose: Purpose,
        *,
        draws: xr.DataTree | None = None,
        method: Any = None,
        n_draws: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> PosteriorMetric:
        """Return the metric with its uncertainty, and P(same) of new points.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
            Intervals mean what they say for judged pairs (``fit_pairs``), which may
            share points.
        draws : DataTree, optional
            Of ``sample`` of this fit. Default: draws by ``method``.
        method : sampler, or "nuts", "laplace"; optional
            Default: "laplace" for prediction, "nuts" for intervals. NUTS needs a spread
            that is learned.
        n_draws : int, optional
            Number of metrics. Default: 100; of ``draws``, all.
        seed : int, default=0
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        if n_draws is not None:
            n_draws = check_number("n_draws", n_draws, 1, whole=True)
        if draws is None:
            n_draws = 100 if n_draws is None else n_draws
            method = method or ("laplace" if purpose == "prediction" else "nuts")
            size: Any = {"n_draws": max(n_draws, 250), "progress": progress}
            draws = self.sample(method, seed=seed, **size)
        return posterior_metric(
            draws,
            [metrics],
            purpose,
            n_draws=n_draws,
            pairs_independent=not hasattr(self, "classes_"),
        )

    def spread_posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ω (k,) and its probabilities (k,), by Laplace's method, on a grid.

        It is an approximation; NUTS has the exact one,
        ``sample()["posterior"]["spread"]``.
        """
        check_is_fitted(self)
        found = self._spreads()
        return found.spread, found.probability
