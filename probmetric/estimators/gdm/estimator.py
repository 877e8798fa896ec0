"""``GDM``: the generalised dissimilarity model of ecologists, with its uncertainty.

The model is ``probmetric.models.gdm``, the fit, its draws and refits
``probmetric.inference.gdm``; this file holds no mathematics.
"""

from dataclasses import field
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import Float
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Pairs
from probmetric.data.inputs import pair_points, points
from probmetric.data.sites import site_pairs
from probmetric.estimators._labelled import (
    checked_rows,
    holds_pairs,
    labelled_data,
    pair_data,
    report,
    required,
    stood_for,
)
from probmetric.estimators._settings import (
    Count,
    Matrix,
    Number,
    Positive,
    check_settings,
    settings,
)
from probmetric.inference.gdm.bootstrap import leave_out, units_of
from probmetric.inference.gdm.draws import draw, metrics
from probmetric.inference.gdm.fit import deviance_explained, fit, gap, knots_for
from probmetric.inference.lca.recipe import Recipe, build, rate_for
from probmetric.inference.point_effects.recipe import merged
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.metric import SplineCityBlock
from probmetric.metric.feature_names import with_names
from probmetric.models.gdm import GDMParams, GDMPrior, gdm, height, to_metric
from probmetric.posterior.curves import Curves, curves
from probmetric.posterior.draws import posterior_metric
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.jackknife import groups_of
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Preprocessor, Purpose, Self

Splines = Annotated[int, Number(2, 100, whole=True)]


@settings
class GDM(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Generalised dissimilarity model: how unlike sites are, by monotone curves.

    ``1 - E[dissimilarity] = exp(-(b + Σ_f |s_f(x_f) - s_f(x'_f)|))``, with curves s_f
    that never fall: sums of I-splines of heights ≥ 0. ``fit_sites`` takes covariates
    and a table of species, ``fit_pairs`` pairs with y of ``trials`` units shared. The
    fit is the mode under half-normal priors, which is unique, certified by ``gap_``.

    Parameters
    ----------
    n_splines : int in [2, 100], default=3
        I-splines, and knots, of each covariate.
    knots : array of shape (d, k), optional
        Ascending in each row. Default: quantiles of each covariate over the sites,
        ``n_splines`` of them: smallest, median, largest.
    prior_scale : float > 0, default=1
        Scale of the half-normal prior of the height of an I-spline. Large: no prior, as
        R's gdm, which also gives each pair one unit (see the theory page).
    intercept_scale : float > 0, default=1
        That of b.
    pairs : {"nearest", "all"}, default="nearest"
        Pairs that ``fit`` makes of class labels.
    n_targets, n_impostors : int, optional
        Of nearest pairs: neighbours of a point of its own class and of the others.
        Default: 3, or what there is.
    learning_rate : "auto" or float > 0, default="auto"
        Power on the likelihood. "auto": 1 for sites and pairs given; n/N for pairs made
        from labels.
    max_iter : int, default=100
        Most steps of the solver.
    preprocessor : array-like of shape (n, d) or callable, optional
        X of shape (n,), and pairs (N, 2), are rows of it by number; or it is a function
        of such entries, numbers or text, that returns the points.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

    Attributes
    ----------
    knots_, coefficients_ : arrays of shape (d, k)
        Knots in input units; heights of the I-splines.
    intercept_ : float
        b: sites of equal covariates have dissimilarity 1 - e^{-b}.
    heights_ : array of shape (d,)
        How far each curve rises: how much a covariate matters over its range.
    deviance_explained_ : float
        Share of the binomial deviance, of the data of the fit.
    gap_ : float
        Certificate: the global maximum of the log posterior is no more than so many
        nats higher.
    learning_rate_ : float
    classes_ : array of shape (c,)
        After ``fit`` on labels.
    points_ : array of shape (n,) or None
        Labels of the sites; None where pairs brought none.
    pairs_, prior_, params_
        The problem that was solved and its mode; ``pairs_.X`` are the sites.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Beyond the knots curves are flat: sites outside the range of the fit look like those
    at its end. There is no geographical distance among the covariates: it is no
    difference of two curves.

    Pairs share sites, and the units of a pair are not independent: draws of the
    posterior (NUTS, Laplace) are too narrow. Take the jackknife or the bootstrap of
    sites for intervals. In simulated worlds with site effects nominal 90 % limits of
    curves covered .91 to .97 by the jackknife, .88 to .92 by the bootstrap, .20 to .61
    by Laplace's draws; without site effects .94 to 1, .92 to .97 and .35 to .89, the
    low ones of curves that begin flat, which draws of heights ≥ 0 lie above. See
    benchmarks/results/gdm.md.

    The rows of all pairs are held at once, N (1 + d k) numbers, and with what is made
    of them 2.4 times that in the fit, 3.5 times in refits: 3000 sites with 10
    covariates take 3 GB, and 4.

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
    pairs: Literal["nearest", "all"] = "nearest"
    n_targets: Count | None = None
    n_impostors: Count | None = None
    learning_rate: Positive | Literal["auto"] = "auto"
    max_iter: Count = 100
    preprocessor: Preprocessor = None
    unlabeled: Any = "warn"

    def __sklearn_tags__(self) -> Tags:
        """Say that ``fit`` needs labels and takes pairs (N, 2, d)."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

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
        data, self.classes_, _ = labelled_data(self, X, y)
        rows, codes = np.asarray(data.X), np.asarray(data.y)
        recipe = self._recipe(rows.shape[1])
        made = build(rows, codes, recipe)._replace(anchor=None)
        return self._store(made, rate_for(made, recipe), None)

    def fit_sites(self, X: ArrayLike, species: ArrayLike) -> Self:
        """Learn from sites: all pairs, with the units that they share.

        Parameters
        ----------
        X : array-like of shape (n, d), or (n,) for ``preprocessor``
            Covariates of the sites.
        species : array-like of shape (n, S)
            Whole numbers: abundances (the index of Bray and Curtis), or 1 where a
            species was seen (that of Sørensen). Every site has some.

        Raises
        ------
        ValueError
            On bad input; where all pairs share all units, or none any; for two
            DataFrames whose indexes hold the same labels in another order.
        """
        check_settings(self)
        _same_order(X, species)
        self._forget()
        made = site_pairs(checked_rows(self, X, reset=True, finite=True), species)
        shared, trials = np.asarray(made.y), np.asarray(made.trials)
        if not shared.any() or np.array_equal(shared, trials):
            raise ValueError(
                "species: expected sites that share some units and not all, got sites "
                f"that share {'all' if shared.any() else 'none'}"
            )
        rate = self.learning_rate
        return self._store(made, 1.0 if isinstance(rate, str) else float(rate), None)

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
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        y : array-like of shape (N,)
            With ``trials``, how many units are shared. Else 1 for same; 0 or -1, one of
            the two throughout, for different.
        trials : array-like of shape (N,) of whole numbers, optional
            Units of each pair, at least 1.
        points : array-like of shape (N, 2), optional
            Labels of the two sites of each pair, numbers or text, for the bootstrap and
            the jackknife. Default: sites are one where pairs are entries of
            ``preprocessor`` and these are equal, else where all covariates are.
        sample_weight : array-like of shape (N,), optional
            Data weights ≥ 0.

        Raises
        ------
        ValueError
            On bad input.
        """
        given, _ = pair_data(self, pairs, y, sample_weight, trials=trials)
        labels = points
        if points is None and stood_for(self, pairs, "pairs", 2):
            labels = np.asarray(pairs)
        made, known = merged(given, labels)
        rate = self.learning_rate
        return self._store(made, 1.0 if isinstance(rate, str) else float(rate), known)

    def _forget(self) -> None:
        """Drop what an earlier fit on labels left."""
        for name in ("classes_", "feature_names_in_", "_columns"):
            vars(self).pop(name, None)

    def _recipe(self, d: int) -> Recipe:
        rate = self.learning_rate
        return Recipe(
            n_components=d,
            pairs=self.pairs,
            n_targets=None if self.n_targets is None else int(self.n_targets),
            n_impostors=None if self.n_impostors is None else int(self.n_impostors),
            learning_rate=None if isinstance(rate, str) else float(rate),
        )

    def _knots(self, X: Float[np.ndarray, "n d"]) -> np.ndarray:
        if self.knots is None:
            return knots_for(X, int(self.n_splines))
        return points(self.knots, "knots")

    def _store(self, pairs: Pairs, rate: float, known: np.ndarray | None) -> Self:
        knots = self._knots(np.asarray(pairs.X))
        scales = float(self.prior_scale), float(self.intercept_scale)
        prior = GDMPrior(knots, *map(np.asarray, scales))
        found = fit(pairs, prior, learning_rate=rate, max_steps=int(self.max_iter))
        report(found, type(self).__name__)
        params: GDMParams = found.params
        self.knots_, self.coefficients_ = params.knots, params.theta
        self.intercept_ = float(params.b)
        self.heights_ = np.asarray(height(params.theta, params.knots))
        self.gap_ = gap(params, pairs, prior, learning_rate=rate)
        self.deviance_explained_ = deviance_explained(params, pairs)
        self.learning_rate_, self.n_iter_ = rate, max(1, int(found.n_steps))
        self.pairs_: Pairs = pairs
        self.points_ = known
        self.prior_: GDMPrior = prior
        self.params_: GDMParams = params
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.knots_)

    @with_names
    def get_metric(self) -> SplineCityBlock:
        """Return the learned metric, with P(same) the expected similarity."""
        check_is_fitted(self)
        return to_metric(self.params_)

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Return the curves at points: their city-block distance is the learned one.

        Parameters
        ----------
        X : array-like of shape (n, d), or (n,) for ``preprocessor``

        Returns
        -------
        array of shape (n, d)
            s_f(x_f), as R's ``gdm.transform``; of the float type of X.
        """
        check_is_fitted(self)
        rows = checked_rows(self, X, finite=True)
        given = np.asarray(X).dtype
        dtype = given if given.kind == "f" and given.itemsize < 8 else np.float64
        return np.asarray(self.get_metric().transform(rows)).astype(dtype, copy=False)

    def _ends(self, pairs: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        source, pairs = stood_for(self, pairs, "pairs", 2) or (None, pairs)
        rows, i, j = pair_points(pairs, source)
        if rows.shape[1] != len(self.knots_):
            raise ValueError(
                f"pairs: expected {len(self.knots_)} features, as in fit, got "
                f"{rows.shape[1]}"
            )
        return rows[i], rows[j]

    def pair_distance(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the city-block distance of the curves at the ends of each pair.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        """
        return np.asarray(self.get_metric().distance(*self._ends(pairs)))

    def pair_score(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return minus the distance of each pair: higher is more similar."""
        return -self.pair_distance(pairs)

    def same_probability(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the expected similarity of each pair, exp(-(b + distance))."""
        return np.asarray(self.get_metric().same_probability(*self._ends(pairs)))

    def pair_dissimilarity(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the expected dissimilarity of each pair, as R's ``predict``.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        """
        return -np.expm1(-(self.intercept_ + self.pair_distance(pairs)))

    def sample(
        self,
        method: Any = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw from the posterior, or from fits under random weights on sites.

        Parameters
        ----------
        method : sampler, or "nuts", "laplace", "bootstrap"; default="nuts"
            The first two take pairs, and the units of a pair, as independent; "nuts" is
            ``NUTS(target_accept=0.95)``. The bootstrap refits under weights
            n·Dirichlet(1, …, 1) on sites, or on pairs that share none.
        n_draws : int, default=1000
        n_chains : int, optional
            Default: 4 for NUTS, otherwise 1.
            Laplace and the bootstrap make ``n_draws * n_chains`` independent draws, one
            chain.
        seed : int, default=0
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

        Returns
        -------
        DataTree
            b, theta (feature, spline) and height (feature); the pairs; provenance.
        """
        check_is_fitted(self)
        pairs, rate = self.pairs_, self.learning_rate_
        drawn = draw(
            self.params_,
            pairs,
            self.prior_,
            method,
            learning_rate=rate,
            seed=seed,
            n_draws=n_draws,
            n_chains=n_chains,
            progress=progress,
        )
        names = getattr(self, "feature_names_in_", None)
        d, k = self.knots_.shape
        options = {"prior": self.prior_, "learning_rate": rate}
        return to_datatree(
            drawn,
            feature_names=[f"x{f}" for f in range(d)] if names is None else list(names),
            dims={"theta": ("feature", "spline"), "height": ("feature",)},
            coords={"spline": list(range(k))},
            data=pairs,
            observed={"y": np.asarray(pairs.y)},
            attributes=provenance(gdm, pairs, options),
        )

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
    ) -> PosteriorMetric | IntervalMetric:
        """Return the metric with its uncertainty.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
        draws : DataTree, optional
            Of ``sample`` of this fit. Default: draws by ``method``.
        method : sampler, or "nuts", "laplace", "bootstrap", "jackknife"; optional
            Default: "laplace" for prediction; "jackknife" for intervals, which leaves
            out each site in turn, or each pair where these share no site (of more than
            100, each of 50 groups), has no draws, and returns an ``IntervalMetric``.
        n_draws : int, optional
            Number of metrics. Default: 100; of ``draws``, all.
        seed : int, default=0
            Of the draws; of the groups of the jackknife.
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.
        """
        check_is_fitted(self)
        check_choice("purpose", purpose, ("prediction", "intervals"))
        if n_draws is not None:
            n_draws = check_number("n_draws", n_draws, 1, whole=True)
        if draws is None:
            method = method or ("laplace" if purpose == "prediction" else "jackknife")
            if isinstance(method, str) and method == "jackknife":
                return self._jackknife(purpose, n_draws, seed)
            n_draws = 100 if n_draws is None else n_draws
            nuts = method != "bootstrap"
            size: Any = {"n_draws": max(n_draws, 250) if nuts else n_draws}
            draws = self.sample(method, seed=seed, progress=progress, **size)
        return posterior_metric(
            draws,
            [metrics],
            purpose,
            n_draws=n_draws,
            pairs_independent=self._independent,
        )

    @property
    def _independent(self) -> bool:
        """Whether no site is in two pairs, and pairs are not made from labels."""
        ends = np.append(self.pairs_.i, self.pairs_.j)
        return not hasattr(self, "classes_") and len(np.unique(ends)) == len(ends)

    def _jackknife(
        self, purpose: Purpose, n_draws: int | None, seed: int
    ) -> IntervalMetric:
        if purpose != "intervals" or n_draws is not None:
            raise ValueError(
                "method: expected a method with draws for "
                + ("n_draws" if purpose == "intervals" else "purpose='prediction'")
                + ", got 'jackknife', which has none"
            )
        unit = units_of(self.pairs_)
        if len(unit) < 3:
            raise ValueError(
                f"method: expected at least 3 sites for 'jackknife', got {len(unit)}"
            )
        group = groups_of(np.zeros(int(unit.max()) + 1, int), seed)[unit]
        found = leave_out(
            self.pairs_,
            self.prior_,
            self.params_,
            group,
            learning_rate=self.learning_rate_,
        )
        each = zip(np.asarray(found.b), np.asarray(found.theta), strict=True)
        left_out = [
            to_metric(GDMParams(np.asarray(b), t, self.knots_)) for b, t in each
        ]
        n, g = len(group), int(group.max()) + 1
        of = "sites" if n == int(unit.max()) + 1 else "pairs"
        return IntervalMetric(
            self.get_metric(),
            left_out,
            about=f"GDM of {n} sites, {len(self.pairs_.i)} pairs, {g} groups of {of} "
            "left out",
        )

    def curves(
        self, uncertainty: Any = None, *, prob: float = 0.9, n_points: int = 101
    ) -> Curves:
        """Return the curves s_f over the range of each covariate, with limits.

        Parameters
        ----------
        uncertainty : PosteriorMetric or IntervalMetric, optional
            Of ``posterior_metric`` of this fit. Default: no limits.
        prob : float in (0, 1), default=0.9
        n_points : int ≥ 2, default=101

        Returns
        -------
        Curves
            x, s, lower and upper, (d, n_points) each, and names of columns, if there
            are. ``pm.plots.curves`` draws them.
        """
        found = curves(self.get_metric(), uncertainty, prob=prob, n_points=n_points)
        names = getattr(self, "feature_names_in_", None)
        return found if names is None else found._replace(names=tuple(names))


def _same_order(X: Any, species: Any) -> None:
    """Refuse tables of pandas of the same sites in another order; rows are by place."""
    if not (hasattr(X, "iloc") and hasattr(species, "iloc")):
        return
    one, other = X.index, species.index
    if not one.equals(other) and sorted(map(repr, one)) == sorted(map(repr, other)):
        raise ValueError(
            "species: expected the sites in the order of X, got another order: "
            "species.loc[X.index]"
        )
