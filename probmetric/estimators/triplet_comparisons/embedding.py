"""``TripletEmbedding``: places of objects without features, from triplets.

Rows, prior, start, fit and draws are ``probmetric.inference.triplet_comparisons``; this
file holds no mathematics.
"""

from dataclasses import field
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Triplets
from probmetric.data.inputs import real
from probmetric.data.triplets import triplets_from_arrays, weighing
from probmetric.estimators._labelled import report
from probmetric.estimators._settings import Count, Positive, check_settings, settings
from probmetric.estimators.triplet_comparisons.shared import (
    PosteriorMixin,
    share_right,
    warn_of_no_mode,
)
from probmetric.inference import triplet_comparisons as triplet
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.linalg import row_signs
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.models.triplet_comparisons import (
    TripletParams,
    TripletPrior,
    log_odds,
    triplet_comparisons,
)
from probmetric.typing import ArrayLike, Self

MOST_OBJECTS = 2000
"""Objects beyond which a fit is an error: rows are held in n - 1 coordinates each."""


@settings
class TripletEmbedding(PosteriorMixin, BaseEstimator):
    """Places of objects known by triplets alone, with a posterior of their distances.

    Ordinal embedding: objects 0, ..., n - 1 have no features; the log odds that p is
    nearer to a than q is are dist²(a, q) - dist²(a, p) of their places in R^p. It is
    ``TripletMetric`` with one feature an object.

    Parameters
    ----------
    n_components : int, default=2
        p, at most n - 1.
    regularization : float > 0, default=1
        λ: coordinates are N(0, c²/λ) before answers are seen; with c log odds have root
        mean square 2.
    n_objects : int, optional
        n, at most 2000. Default: the largest number in the triplets, and one.
    learning_rate : float > 0, default=1
        Power on the likelihood.
    max_iter : int, default=500
        Most iterations of the solver.

    Attributes
    ----------
    embedding_ : array of shape (n, p)
        Places at the posterior mode: centred, along their principal axes. Only
        distances between them are identified.
    objects_ : array of shape (n, n)
        The identity: object i is row i for ``get_metric`` and ``posterior_metric``.
    gap_ : float
        Certificate of the mode in nats, as of ``TripletMetric``, across the rotations.
    triplets_, prior_, params_
        The problem that was solved and its mode, in n - 1 coordinates an object.
    learning_rate_, n_iter_ : float, int

    Notes
    -----
    The mode is a local one; the start is classical scaling of a first estimate. With
    few answers an object, axes are pulled to 0 at the mode more than in the mean
    of draws. An object in no triplet has the place 0 and the prior's spread.

    A few hundred objects are meant: N triplets are held as 2 N n numbers, and steps
    cost as much p times; ``gap_`` and draws hold (p n)² more, and ``gap_`` costs
    (p n)³, while p·(n - 1) ≤ 10 000.

    Nominal 90 % intervals of ratios of distances covered .83 and .88 by NUTS at 200 and
    1000 simulated triplets of 40 objects (3 worlds each), by Laplace .80, .83 and .87
    at 200, 1000 and 5000 (6 worlds), where places were farther apart than the prior
    expects. See benchmarks/results/triplets.md.

    References
    ----------
    Tamuz et al., ICML 2011, and van der Maaten and Weinberger, MLSP 2012, with other
    links; Jain, Jamieson and Nowak, "Finite Sample Prediction and Recovery Bounds for
    Ordinal Embedding", NIPS 2016, for this one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> line = np.arange(8.0) ** 1.1
    >>> triplets = np.stack([rng.permutation(8)[:3] for _ in range(300)])
    >>> d = np.abs(line[triplets] - line[triplets[:, :1]])
    >>> y = d[:, 1] < d[:, 2]
    >>> model = TripletEmbedding(n_components=1).fit(triplets, y)
    >>> order = np.argsort(model.embedding_[:, 0])
    >>> sorted([order[0], order[-1]]) == [0, 7], model.score(triplets, y) > 0.95
    (True, True)
    """

    n_components: Count = field(default=2, kw_only=False)
    regularization: Positive = 1.0
    n_objects: Count | None = None
    learning_rate: Positive = 1.0
    max_iter: Count = 500

    def fit(
        self,
        triplets: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Place the objects.

        Parameters
        ----------
        triplets : array-like of shape (N, 3) of integers
            Anchor, near and far: numbers of objects. Quadruplets, of shape (N, 4): "a,
            b are nearer to each other than c, d are".
        y : array-like of shape (N,), optional
            1 where near was the nearer; 0 or -1, one of the two throughout, where far
            was. Default: 1 for all.
        sample_weight : array-like of shape (N,), optional
            Data weights ≥ 0.

        Raises
        ------
        ValueError
            On bad input; fewer than p + 1 objects, or more than 2000; groups of objects
            that no triplet joins; answers that cancel.

        Warns
        -----
        ConvergenceWarning
            The step limit was reached; ``gap_`` is infinite.
        """
        check_settings(self)
        n = self._count(triplets)
        p = int(self.n_components)
        if not p < n <= MOST_OBJECTS:
            raise ValueError(
                f"triplets: expected from {p + 1} objects, for {p} components, to "
                f"{MOST_OBJECTS}, got {n:.6g}"
            )
        rows = triplet.object_rows(n)
        data = weighing(triplets_from_arrays(triplets, y, sample_weight, X=rows))
        rate = float(self.learning_rate)
        prior = triplet.embedding_prior(n, p, float(self.regularization))
        triplet.check_connected(data)
        start = triplet.embedding_start(data, p)
        how: Any = {"learning_rate": rate, "max_steps": int(self.max_iter)}
        fit = triplet.fit(data, prior, start=start, **how)
        report(fit, type(self).__name__)
        self.gap_ = triplet.gap(fit.params, data, prior, learning_rate=rate)
        warn_of_no_mode(self.gap_, type(self).__name__)
        self.embedding_ = _along_axes(rows @ np.asarray(fit.params.W).T)
        self.objects_ = np.eye(n)
        self.learning_rate_ = rate
        self.n_iter_ = max(1, int(fit.n_steps))
        self.triplets_: Triplets = data
        self.prior_: TripletPrior = prior
        self.params_: TripletParams = fit.params
        return self

    def _count(self, triplets: ArrayLike) -> int:
        if self.n_objects is not None:
            return int(self.n_objects)
        given = real(triplets, "triplets")
        wrong = ~((given >= 0) & (given < np.inf))
        if np.any(wrong):
            raise ValueError(
                "triplets: expected whole numbers of at least 0, got "
                f"{given[wrong][0]:g}"
            )
        return int(np.max(given, initial=-1)) + 1

    def _asked(self, triplets: ArrayLike, y: ArrayLike | None = None) -> Triplets:
        check_is_fitted(self)
        return triplets_from_arrays(triplets, y, X=self.objects_)

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the distance of objects, given as rows of ``objects_``."""
        check_is_fitted(self)
        return Mahalanobis(self.embedding_.T.copy())

    def triplet_probability(self, triplets: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the probability that near is the nearer, shape (N,), at the fit.

        Parameters
        ----------
        triplets : as of ``fit``
        """
        asked = self._asked(triplets)
        t = log_odds(TripletParams(self.embedding_.T), asked)
        return expit(np.asarray(t))

    def predict(self, triplets: ArrayLike) -> Int[np.ndarray, "N"]:
        """Return 1 where near is the nearer, else 0, shape (N,).

        Parameters
        ----------
        triplets : as of ``fit``
        """
        return (self.triplet_probability(triplets) > 0.5).astype(int)

    def score(self, triplets: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return the share of triplets whose answer the places give.

        Where they give even odds, half a triplet.

        Parameters
        ----------
        triplets, y : as of ``fit``
        """
        answered = self._asked(triplets, y)
        return share_right(self.triplet_probability(triplets), answered)

    def sample(
        self,
        method: Any = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw from the posterior of what is identified, the distances.

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
            Posterior of M (object, object), the Gram matrix of the centred places, so
            that d²(i, j) = M_ii + M_jj - 2M_ij; the triplets; provenance. All chains
            start at the mode of the fit: other modes are not looked for.

        Raises
        ------
        ValueError
            p·(n - 1) > 10 000; a fit that is no mode; an unknown method.
        """
        check_is_fitted(self)
        n, rate = len(self.objects_), self.learning_rate_
        size: Any = {"n_draws": n_draws, "n_chains": n_chains, "progress": progress}
        with jax.enable_x64(True):
            drawn = triplet.draw(
                self.params_,
                self.triplets_,
                self.prior_,
                method,
                learning_rate=rate,
                scale=np.ones(n - 1),
                seed=seed,
                objects=True,
                **size,
            )
        options = {"prior": self.prior_, "learning_rate": rate}
        return to_datatree(
            drawn,
            feature_names=[str(k) for k in range(n)],
            data=self.triplets_._replace(X=self.objects_),
            observed={"y": np.asarray(self.triplets_.y)},
            attributes=provenance(triplet_comparisons, self.triplets_, options),
        )


def _along_axes(Z: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
    """Turn centred places so that their axes are the principal ones."""
    U, S, _ = np.linalg.svd(Z, full_matrices=False)
    return (U * S) * row_signs(U.T).T
