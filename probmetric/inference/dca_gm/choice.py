"""The strength of DCA-GM's prior: chosen in folds, and the mixed metric.

With few points the fit learns too much in three places. With n points in d > n
dimensions the S_W of the start (``start``, Eq. 1) is singular, and the classes shrink
to points in the projection. A separates them further. And the average Fisher matrix J,
of rank p, ignores d - p directions on the evidence of few points. A prior that counts
as s points enters in all three: in S_s; in the prior of A, whose precision is (λ/c²) h
(1 + s/n); and in

    M_s = (1 - w) J + w (tr J/d) I,      w = s/(n + s).                             (1)

The second term is the Euclidean metric of the features (scaled, in the estimator) with
the trace of J; d and I refer to the columns that vary. In the model s enters through
the mean A0(s) and the precision of A. M_s is a function of J, as J is of A and θ. s = ∞
gives the Euclidean metric, and a mixture in the projection that only T whitens.

The classifier overfits even with hundreds of points. A moves to directions that
separate only the training points. Covariances that differ between classes make the log
odds quadratic, and predictions far out are overconfident. The projected points are as
far apart as A0, made from the same points, puts them. Hence for any s > 0 the prior is
tight (``close_prior``). h = 10 lets a row of A move by about a third of its length. The
prior of the mixtures counts as m = 22 points: log_diag and off_diag have the standard
deviation 1/√(2m) = 0.15, that of a log standard deviation estimated from m points, and
centers have the variance n/(n + m) times the mean square of the projected points. s = 0
leaves h = 1, 0.5 and 1. See Benchmarks: few labels for the data on which h and m were
chosen and tested.

``choose_strength`` chooses the s whose votes predict held-out points best. The votes in
the folds use M_s with A0(s)ᵀA0(s) in place of J, because the fit starts at A0 and its
prior is centered there. A fold therefore needs no fit and compiles nothing. The
training points of a fold also choose the bandwidth of their votes, as those of a
classifier do (``tuned_losses``). They trained the metric, hence their classes are
farther apart than those of new points, and few points in many dimensions vote too
confidently. The best bandwidth for the held-out points would hide this loss.

A stronger prior is preferred while it is worse by at most one standard error, twice the
tolerance of other learners.
"""

import numpy as np

from probmetric.data.containers import Labelled
from probmetric.data.scaling import constant_columns
from probmetric.inference.choose import choose_strength as choose_by_folds
from probmetric.inference.dca_gm.start import lda_rca
from probmetric.linalg import mixed_with_identity
from probmetric.models.dca_gm import DCAGMPrior
from probmetric.neighbors.strength import STRENGTHS, Chosen, tuned_losses

TOLERANCE = 1.0
"""Standard errors in Eq. (1) of ``neighbors.strength``."""

MOST_HELD = 100.0
"""Largest s/n in the precision of A, where s may be infinite: A stays near A0."""

HOLD, POINTS = 10.0, 22.0
"""h and m of ``close_prior``."""


def held(strength: float, n: float | int) -> float:
    """Compute 1 + s/n, the factor of the prior precision of A; s/n is at most 100."""
    return 1.0 + min(strength / n, MOST_HELD)


def close_prior(prior: DCAGMPrior, strength: float, n: float | int) -> DCAGMPrior:
    """Tighten the prior of ``fit.default_prior`` by s points.

    Parameters
    ----------
    prior : DCAGMPrior
    strength : float ≥ 0, infinity included
        s. The prior does not change if s = 0.
    n : float
        Number of points.

    Examples
    --------
    For n = s = 40 points the precision of A is multiplied by 10 (1 + 1):

    >>> import numpy as np
    >>> from probmetric.inference import dca_gm
    >>> from probmetric.models.dca_gm import DCAGMPrior
    >>> prior = DCAGMPrior(np.eye(1), np.ones((2, 1), bool), mu_scale=1.0)
    >>> tight = dca_gm.close_prior(prior, 40.0, 40)
    >>> tight.lam, round(float(tight.mu_scale), 2), round(float(tight.chol_scale), 2)
    (20.0, 0.8, 0.15)
    """
    if strength == 0:
        return prior
    return prior._replace(
        lam=prior.lam * HOLD * held(strength, n),
        mu_scale=prior.mu_scale * (n / (n + POINTS)) ** 0.5,
        chol_scale=(2 * POINTS) ** -0.5,
    )


def choose_strength(data: Labelled, n_latent: int, *, mixed: bool = True) -> Chosen:
    """Choose s by the votes of neighbors in folds (``choose.choose_strength``).

    Parameters
    ----------
    data : Labelled
        Unweighted.
    n_latent : int
        p, between 1 and d.
    mixed : bool, default=True
        Whether the metric is that of Eq. (1), of full rank, or only J.

    Examples
    --------
    With random labels no learning (s = ∞) is best. If the second feature is wide and
    the first separates the classes, a weak prior is:

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import dca_gm
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    >>> X = rng.normal(size=(40, 4))
    >>> dca_gm.choose_strength(Labelled(X, y), 2).strength
    256.0
    >>> X = X * [1.0, 50.0, 1.0, 1.0] + np.outer(y, [6.0, 0.0, 0.0, 0.0])
    >>> dca_gm.choose_strength(Labelled(X, y), 2).strength
    1.0
    """
    X, y = np.asarray(data.X), np.asarray(data.y)
    live = ~constant_columns(X)

    def learn(rows: np.ndarray) -> list[np.ndarray | None]:
        if constant_columns(X[rows]).all():  # Only the Euclidean metric remains.
            return [np.eye(X.shape[1]), *([None] * (len(STRENGTHS) - 1))]
        part = Labelled(X[rows], y[rows])
        maps = [lda_rca(part, n_latent, strength=s) for s in STRENGTHS]
        if not mixed:
            return list(maps)
        pairs = zip(maps, STRENGTHS, strict=True)
        return [mixed_with_identity(A, s, len(rows), live) for A, s in pairs]

    return choose_by_folds(learn, X, y, losses=tuned_losses, tolerance=TOLERANCE)
