"""``PointEffectsLCA``: LCA of judged pairs that share points.

The model is ``models.point_effects``. Fit and draws are in ``inference.effects``.
"""

from typing import Annotated

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Labeled, Pairs
from probmetric.data.scaling import Scaler
from probmetric.estimators._effect import EffectLearner
from probmetric.estimators._labeled import pair_data, stood_for
from probmetric.estimators._learner import Run
from probmetric.estimators._pair_learner import LabelsOrPairs
from probmetric.estimators._settings import Number, Positive, settings
from probmetric.inference.effects.draws import averaged
from probmetric.inference.effects.left_out import point_log_likelihood
from probmetric.inference.effects.points import rows_of
from probmetric.inference.effects.recipe import fit_recipe, merged
from probmetric.inference.lca.recipe import Recipe, build
from probmetric.inference.sampling.sample import NutsOrLaplace
from probmetric.inference.sampling.units import POINTS
from probmetric.metric import Link, Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.models.point_effects import identified, point_effects, to_metric
from probmetric.typing import ArrayLike, Self

Spread = Annotated[float, Number(0, 10)]
"""Range of ω. With ω = 10, one standard deviation is a factor of 22,000 in b_i."""


@settings
class PointEffectsLCA(LabelsOrPairs, EffectLearner):
    """Metric from judged pairs that share points, with an intercept for each point.

    Use this class if people judged pairs as *same* or *different*, and several pairs
    share a point. In the model, a pair of points i and j is *same* with probability
    P(same) = exp(-((b_i + b_j)/2 + ½ dist²)). Each point has an intercept
    b_i = b e^{u_i}, with a random effect u_i ~ N(0, ω²). Points that are hard to
    recognize have a large b_i. Pairs that share a point share its effect, and are
    therefore dependent. The standard deviation ω of the effects, the *spread*, is
    learned. If ω = 0, the model is ``LCA``. If intercepts differ between points,
    intervals of ``LCA`` are too narrow.

    Parameters
    ----------
    regularization : "auto" or float > 0, default="auto"
        Strength λ of the prior of the linear map. A larger λ brings the learned metric
        closer to the metric of ``prior_mean``. In ``fit``, "auto" uses λ = 10. In
        ``fit_pairs``, "auto" chooses λ as ``LCA().fit_pairs`` does.
    prior_mean : {"auto", "identity"}, default="auto"
        Metric to which the prior shrinks the learned metric. "identity" is the
        Euclidean metric of standardized features. In ``fit``, "auto" chooses the metric
        by cross-validation, as ``LCA`` does. In ``fit_pairs``, "auto" means "identity",
        or the first principal axes if ``n_components < d``.
    spread : float in [0, 10], optional
        Fixed value of ω. Default: ω is learned.
    spread_scale : float > 0, default=1
        Scale of the half-normal prior of ω. Smaller values bring ω closer to 0.
    max_iter : int, default=500
        Maximum number of iterations of the solver for each value of ω.

    Attributes
    ----------
    components_ : array of shape (p, d)
        Linear map in input units, unique up to rotation and reflection.
    spread_ : float
        Standard deviation ω of the effects u_i. 0 if points do not differ.
    intercept_ : float
        Intercept b of a typical point, whose effect u_i is 0.
    point_intercepts_ : array of shape (n,)
        Intercept b_i of each point of the fit. P(same) of two copies of point i is
        e^{-b_i}.
    points_ : array of shape (n,) or None
        Labels of the points, in the order of ``point_intercepts_``. None if points have
        no labels. The order is then that of the rows of ``fitted_.pairs.X``.
    gap_ : float
        Measure of convergence, near 0 if the solver converged: the estimated increase
        of the log posterior density from the fit to the nearest local maximum, given ω.
    learning_rate_, classes_, threshold_, pair_classes_, fitted_, mean_, scale_, n_iter_
        As in ``LCA``. ``n_iter_`` counts the steps at all values of ω.
    n_features_in_, feature_names_in_

    Notes
    -----
    An entry of the linear map, for standardized features, has prior standard deviation
    ‖W₀‖/√(pλ), with the Frobenius norm of the prior mean W₀.

    The estimate of ω maximizes its posterior density, averaged over the other
    parameters by Laplace's method (a Gaussian approximation). The linear map, b and the
    effects then maximize the posterior density given ω. The fit may find a local
    maximum. A fit can have at most 5000 parameters, including one for each point.
    P(same) of new points assumes that the points of the fit are a random sample of all
    points, and is not calibrated.

    ``sample`` draws the matrix M (feature, feature_bis) of the metric, ω as ``spread``,
    and three kinds of intercepts: ``b`` of a typical point, ``b_point`` of each point
    of the fit, and ``b_new`` of a new point. Methods are "nuts" and "laplace". Draws
    start at the fit. If the posterior has several maxima, the others are not explored.
    NUTS requires a learned ω.

    ``posterior_metric`` uses "laplace" for prediction and "nuts" for intervals. Its
    P(same) is for new points. Intervals require judged pairs (``fit_pairs``), which may
    share points. See Benchmarks: point_effects.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, i = rng.normal(size=(30, 2)), rng.integers(0, 30, 300)
    >>> pairs = np.stack([i, (i + rng.integers(1, 30, 300)) % 30], 1)
    >>> d2 = ((X[pairs[:, 0]] - X[pairs[:, 1]])[:, 0]) ** 2  # Only the first feature
    >>> y = rng.random(300) < np.exp(-0.2 - 2 * d2)
    >>> model = PointEffectsLCA(preprocessor=X).fit_pairs(pairs, y)
    >>> M = model.get_mahalanobis_matrix()
    >>> bool(M[0, 0] > 5 * M[1, 1]), model.point_intercepts_.shape
    (True, (30,))
    """

    spread: Spread | None = None
    spread_scale: Positive = 1.0

    def _fit_labels(self, data: Labeled, scaler: Scaler) -> Self:
        codes, recipe = np.asarray(data.y), self._recipe(data.X.shape[1])
        made = build(data, recipe)._replace(anchor=None)
        return self._store(made, self._centered(made, codes, recipe), scaler, None)

    def fit_pairs(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        *,
        points: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from judged pairs, and choose the threshold of ``predict`` from them.

        A pair of a point with itself raises an error.

        Parameters
        ----------
        points : array-like of shape (N, 2), optional
            Labels of the two points of each pair, numbers or text. Points with equal
            labels are one point. Default with a ``preprocessor``: the entries of
            ``pairs``, such as row numbers. Default without a ``preprocessor``: points
            with equal features are one point.
        """
        checked, scaler = pair_data(self, pairs, y, sample_weight)
        labels = points
        if points is None and stood_for(self, pairs, "pairs", 2):
            labels = np.asarray(pairs)
        checked, known = merged(checked, labels)
        self._store(checked, self._recipe(checked.X.shape[1], 1.0), scaler, known)
        return self.calibrate_threshold(pairs, y)

    def _store(
        self, pairs: Pairs, recipe: Recipe, scaler: Scaler, known: np.ndarray | None
    ) -> Self:
        fitted = fit_recipe(
            pairs,
            recipe,
            self._lam(pairs, recipe),
            spread_scale=float(self.spread_scale),
            spread=None if self.spread is None else float(self.spread),
        )
        params = fitted.fit.params
        self._store_fit(fitted, to_metric(params), scaler)
        intercepts = identified(params)
        self.intercept_ = float(intercepts["b"])
        self.point_intercepts_ = np.asarray(intercepts["b_point"])
        self._new = np.asarray(intercepts["b_new"])
        self.points_, self.gap_ = known, fitted.gap
        return self

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the learned metric. Its P(same) is for two points outside the fit."""
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy(), Link(self._new, np.asarray(0.5)))

    def _places(
        self, points: ArrayLike | None, n: int
    ) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """Return the index of each point of pairs in the fit, -1 for new points."""
        if points is None:
            return np.full(n, -1), np.full(n, -1)
        labels = np.asarray(points)
        if labels.shape != (n, 2):
            raise ValueError(f"points must have shape ({n}, 2), got {labels.shape}")
        if self.points_ is None:
            raise ValueError(
                "points must be None, because the fit had no labels of points, got "
                f"{labels.ravel()[:3].tolist()}. Fit with points or a preprocessor."
            )
        place = {label: k for k, label in enumerate(self.points_.tolist())}
        places = [place.get(label, -1) for label in labels.ravel().tolist()]
        i, j = np.reshape(places, (n, 2)).T
        return i, j

    def same_probability(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        pairs: ArrayLike,
        points: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        new_classes: bool = False,
        prior_odds: float | None = None,
    ) -> Float[np.ndarray, "N"]:
        """Compute P(same) of each pair, shape (N,).

        After ``fit_pairs``, P(same) is averaged over posterior draws, made by Laplace's
        method with a fixed seed. After ``fit``, P(same) is computed from class
        probabilities, as in ``LCA.same_probability``.

        Parameters
        ----------
        points : array-like of shape (N, 2), optional
            Labels of the two points of each pair, as in ``fit_pairs``. A point whose
            label is not in ``points_`` is new. Default: all points are new. Must be
            None if ``points_`` is None, for example after ``fit``.
        labels, new_classes, prior_odds
            See ``LCA.same_probability``.
        """
        if points is None or labels is not None:
            return super().same_probability(
                pairs, labels, new_classes=new_classes, prior_odds=prior_odds
            )
        a, b = self._ends(pairs)
        return self._model_probability(a, b, points)

    def _model_probability(
        self,
        A: Float[np.ndarray, "N d"],
        B: Float[np.ndarray, "N d"],
        points: ArrayLike | None = None,
    ) -> Float[np.ndarray, "N"]:
        i, j = self._places(points, len(A))
        values = self._laplace()
        b_of = np.column_stack([values["b_point"], values["b_new"]])
        intercepts = (0.5 * (draw[i] + draw[j]) for draw in b_of)
        return averaged(values["M"], intercepts, A, B)

    @with_names
    def sample(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        method: NutsOrLaplace = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        log_likelihood: bool = False,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw from the posterior given the training pairs.

        Draws start at the fit. If the posterior has several maxima, the others are not
        explored.

        Parameters
        ----------
        method : sampler, or "nuts", "laplace"; default="nuts"
            "nuts" is ``NUTS(target_accept=0.95)``. "laplace" is faster, but
            approximate. It draws the standard deviation ω of the point effects from a
            grid, and the other parameters from a Gaussian approximation given ω.
        log_likelihood : bool, default=False
            Whether to store ``point_log_likelihood``, which ``pm.loo`` requires to
            leave out points. For each point and draw, it is the log probability of the
            labels of all pairs of the point, averaged over the effect of the point.
        """
        check_is_fitted(self)
        run = Run(n_draws=n_draws, n_chains=n_chains, seed=seed, progress=progress)
        drawn, fitted = self._drawn(method, run), self.fitted_
        n = len(fitted.pairs.X)
        labels = np.arange(n) if self.points_ is None else self.points_
        tree = self._tree(
            drawn,
            point_effects,
            self._shown(),
            {"prior": fitted.prior, "learning_rate": fitted.learning_rate},
            dims={"b_point": ("point",)},
            coords={"point": labels.tolist()},
        )
        if not log_likelihood:
            return tree
        scale = self._live_scale
        units = {**drawn.values, "M": drawn.values["M"] * np.outer(scale, scale)}
        log_p = point_log_likelihood(units, rows_of(fitted.pairs))
        axes = ("chain", "draw", "point")
        group = xr.Dataset({"y": (axes, log_p)}, {"point": labels})
        return tree.assign({POINTS: xr.DataTree(group)})
