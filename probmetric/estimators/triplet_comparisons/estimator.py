"""``TripletMetric``: a metric from answers to "which of the two is nearer?".

The model is ``probmetric.models.triplet_comparisons``, the fit and its draws
``probmetric.inference.triplet_comparisons``; this file holds no mathematics.
"""

from dataclasses import field
from typing import Any, Literal

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Triplets
from probmetric.data.hash import canonical_order
from probmetric.data.scaling import Scaler, standardise, taught_scale
from probmetric.data.triplets import nearest_triplets, triplets_from_arrays, weighing
from probmetric.estimators._labelled import labelled_data, report, stood_for
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import Count, Positive, check_settings, settings
from probmetric.estimators.lca.settings import n_rows
from probmetric.estimators.triplet_comparisons.shared import (
    PosteriorMixin,
    share_right,
    warn_of_no_mode,
)
from probmetric.inference import triplet_comparisons as triplet
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.models.triplet_comparisons import (
    TripletParams,
    TripletPrior,
    log_odds,
    to_metric,
    triplet_comparisons,
)
from probmetric.typing import ArrayLike, Preprocessor, Self


def _check_answered(triplets: Any) -> None:
    """Raise for ``Triplets`` whose answers are yet to be given or simulated."""
    if isinstance(triplets, Triplets) and triplets.y is None:
        raise ValueError("triplets.y: expected answers 0 or 1, got None")


@settings
class TripletMetric(PosteriorMixin, PairsMixin, BaseEstimator):
    """A Mahalanobis metric from triplets: "a is nearer to p than to q".

    The log odds that p is the nearer are dist²(a, q) - dist²(a, p): a unit of squared
    distance is one of log odds, so the scale of the metric says how sure answers are.

    Parameters
    ----------
    n_components : int, optional
        Rows of the map, 1..d. Default: d.
    regularization : float > 0, default=1
        λ: the prior standard deviation of an entry of the map around the Euclidean one,
        cI, is c/√λ. c is set from the triplets, not from their answers: log odds of
        root mean square 2.
    n_targets, n_impostors : int, default=3
        Of ``fit``: a point is compared with its nearest points of its own class
        against its nearest of others.
    learning_rate : "auto" or float > 0, default="auto"
        Power on the likelihood. "auto": 1 for triplets given, taken as independent;
        for triplets made from labels points over triplets, as they share points.
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    max_iter : int, default=500
        Most iterations of the solver.
    preprocessor : array-like of shape (n, d) or callable, optional
        X of shape (n,), triplets (N, 3) and pairs (N, 2) are rows of it by number; or
        it is a function of such entries, numbers or text, that returns the points.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

    Attributes
    ----------
    components_ : array of shape (p, d)
        The map, in input units, up to rotation and reflection.
    learning_rate_ : float
    gap_ : float
        Certificate of the mode: an upper estimate, in nats, of how far the log
        posterior is below the nearby maximum, by the quadratic at hand. Infinite if the
        Hessian shows that it is no maximum; NaN, not computed, if p·d > 10 000.
    classes_ : array of shape (c,)
        After ``fit``.
    threshold_, pair_classes_ : float, array of shape (2,)
        Of ``predict`` on pairs, once calibrated or set.
    triplets_, prior_, params_
        The problem that was solved and its mode, in standardised units.
    mean_, scale_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Optima are local. There is no lapse rate: answers given at random where the points
    are clearly apart pull the scale of the metric down.

    Nominal 90 % intervals of ratios of distances covered .94, .90 and .92 by Laplace at
    200, 1000 and 5000 simulated triplets (each ± .02), and .88 ± .04 and .89 ± .03 by
    NUTS at 200 and 1000. See benchmarks/results/triplets.md.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, triplets = rng.normal(size=(50, 2)), rng.permuted(
    ...     np.tile(np.arange(50), (200, 1)), axis=1
    ... )[:, :3]
    >>> d2 = (X[triplets] - X[triplets[:, :1]])[..., 0] ** 2  # The first feature alone
    >>> y = d2[:, 1] < d2[:, 2]
    >>> model = TripletMetric(preprocessor=X).fit_triplets(triplets, y)
    >>> bool(model.triplet_score(triplets, y) > 0.95)
    True
    """

    n_components: int | None = field(default=None, kw_only=False)
    regularization: Positive = 1.0
    n_targets: Count = 3
    n_impostors: Count = 3
    learning_rate: Positive | Literal["auto"] = "auto"
    standardize: bool = True
    max_iter: Count = 500
    preprocessor: Preprocessor = None
    unlabeled: Any = "warn"

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from class labels, by triplets made from them.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Numbers or strings; at least two classes, one of two rows or more.
        """
        data, self.classes_, scaler = labelled_data(self, X, y)
        Z, codes = np.asarray(data.X), np.asarray(data.y)
        sizes = np.bincount(codes)
        k = min(int(self.n_targets), int(sizes.max()) - 1)
        m = min(int(self.n_impostors), len(Z) - int(sizes.min()))
        order = canonical_order(Z, codes)  # By which neighbors break ties.
        made = nearest_triplets(Z[order], codes[order], k, m)
        anchor, near, far = (order[np.asarray(ends)] for ends in made[1:4])
        made = made._replace(X=Z, anchor=anchor, near=near, far=far)
        return self._store(made, triplet.rate_for(made), scaler)

    def fit_triplets(
        self,
        triplets: Any,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from triplets, taken as independent.

        Parameters
        ----------
        triplets : array-like of shape (N, 3, d), or ``Triplets``
            Anchor, near and far; or (N, 3) for ``preprocessor``. Quadruplets, (N, 4, d)
            or (N, 4): "a, b are nearer to each other than c, d are".
        y : array-like of shape (N,), optional
            1 where near was the nearer; 0 or -1, one of the two throughout, where far
            was. Default: 1 for all; ``Triplets`` must have their own.
        sample_weight : array-like of shape (N,), optional
            Data weights ≥ 0. Triplets of weight 0 are left out, also of the scale of
            the features and of the prior.

        Raises
        ------
        ValueError
            On bad input.
        """
        check_settings(self)
        _check_answered(triplets)
        given = weighing(self._given(triplets, y, sample_weight))
        # Points count as often as triplets use them: all forms give the same fit.
        ends = np.concatenate(given.ends)
        _, first, place = np.unique(ends, return_index=True, return_inverse=True)
        names = "feature_names_in_", "_columns"
        for name in (*names, "classes_", "threshold_", "pair_classes_"):
            vars(self).pop(name, None)
        X = np.asarray(given.X)
        self.n_features_in_ = X.shape[1]
        Z, scaler = standardise(X[ends], standardize=bool(self.standardize))
        names = "anchor", "near", "far", "other"
        at = place.reshape(len(given.ends), -1)
        moved = given._replace(X=Z[first], **dict(zip(names, at, strict=False)))
        return self._store(moved, 1.0, scaler)

    def _given(
        self, triplets: Any, y: ArrayLike | None = None, w: ArrayLike | None = None
    ) -> Triplets:
        source: Any = None
        if not isinstance(triplets, Triplets):
            found = stood_for(self, triplets, "triplets", 2)
            source, triplets = found or (None, triplets)
        return triplets_from_arrays(triplets, y, w, X=source)

    def _store(self, data: Triplets, auto: float, scaler: Scaler) -> Self:
        rate = self.learning_rate
        rate = auto if isinstance(rate, str) else float(rate)
        p = n_rows(self.n_components, data.X.shape[1])
        prior = triplet.prior_for(data, p, float(self.regularization))
        fit = triplet.fit(data, prior, learning_rate=rate, max_steps=int(self.max_iter))
        report(fit, type(self).__name__)
        self._set_map(to_metric(fit.params).factor, scaler, data.X)
        self.gap_ = triplet.gap(fit.params, data, prior, learning_rate=rate)
        warn_of_no_mode(self.gap_, type(self).__name__)
        self.learning_rate_, self.n_iter_ = rate, max(1, int(fit.n_steps))
        self.triplets_: Triplets = data
        self.prior_: TripletPrior = prior
        self.params_: TripletParams = fit.params
        return self

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the learned metric: picklable, callable on two points."""
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy())

    def triplet_probability(self, triplets: Any) -> Float[np.ndarray, "N"]:
        """Return the probability that near is the nearer, shape (N,), at the fit.

        Parameters
        ----------
        triplets : as of ``fit_triplets``
        """
        return self._answered(self._given(triplets))

    def _answered(self, given: Triplets) -> Float[np.ndarray, "N"]:
        check_is_fitted(self)
        d = self.components_.shape[1]
        if given.X.shape[1] != d:
            raise ValueError(
                f"triplets: expected {d} features, as in fit, got {given.X.shape[1]}"
            )
        t = log_odds(TripletParams(self.components_), given)
        return expit(np.asarray(t))

    def triplet_score(self, triplets: Any, y: ArrayLike | None = None) -> float:
        """Return the share of triplets whose answer the metric gives.

        Where it gives even odds, half a triplet.

        Parameters
        ----------
        triplets, y : as of ``fit_triplets``
        """
        _check_answered(triplets)
        given = self._given(triplets, y)
        return share_right(self._answered(given), given)

    def sample(
        self,
        method: Any = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw from the posterior of the metric, on the triplets of the fit.

        Parameters
        ----------
        method : sampler, or "nuts", "laplace"; default="nuts"
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
            Posterior of M (feature, feature_bis), in input units; the triplets;
            provenance. All chains start at the mode of the fit.

        Raises
        ------
        ValueError
            p·d > 10 000; a fit that is no mode; an unknown method.
        """
        check_is_fitted(self)
        data, rate = self.triplets_, self.learning_rate_
        with jax.enable_x64(True):
            drawn = triplet.draw(
                self.params_,
                data,
                self.prior_,
                method,
                learning_rate=rate,
                scale=taught_scale(np.asarray(data.X), self.scale_),
                seed=seed,
                n_draws=n_draws,
                n_chains=n_chains,
                progress=progress,
            )
        shown = data._replace(X=self.mean_ + np.asarray(data.X) * self.scale_)
        names = getattr(self, "feature_names_in_", None)
        d = self.components_.shape[1]
        options = {"prior": self.prior_, "learning_rate": rate}
        return to_datatree(
            drawn,
            feature_names=[f"x{k}" for k in range(d)] if names is None else list(names),
            data=shown,
            observed={"y": np.asarray(data.y)},
            attributes=provenance(triplet_comparisons, shown, options),
        )
