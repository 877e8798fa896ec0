"""Choice of the strength of DCA-GM's prior in folds, and the mixed metric.

With few points the fit overfits in three places. First, with n points in d > n
dimensions S_W, Eq. (1) of ``dca_gm.start``, is singular, and the classes shrink to
points in the projection. Second, the fit of A separates these points further. Third,
the average Fisher matrix J has rank p and ignores d - p directions because of few
points. A prior that counts as s points corrects all three: S_s replaces S_W, the prior
of A has the precision (λ/c²) h (1 + s/n), and the metric is

    M_s = (1 - w) J + w (tr J/d) I,      w = s/(n + s).                             (1)

The second term is the Euclidean metric of the features (scaled, in the estimator) with
the trace of J; d and I refer to the columns that vary. The model depends on s through
the mean A0(s) and the precision of A. M_s is a function of J, which is a function of A
and θ. s = ∞ gives the Euclidean metric, and a mixture in the projection whitened by T
only.

The classifier overfits even with hundreds of points. A changes to directions that
separate only the training points. Covariances that differ between classes make the log
odds quadratic, and predictions far from the data are overconfident. The distances
between projected points depend on A0, which was computed from the same points. Hence
the prior is tight for any s > 0 (``close_prior``). With h = 10 a row of A can change by
about a third of its length. The prior of the mixtures counts as m = 22 points: log_diag
and off_diag have the standard deviation 1/√(2m) = 0.15, as a log standard deviation
estimated from m points has, and centers have the variance n/(n + m) times the
mean square of the projected points. With s = 0, h is 1, the standard deviation is 0.5,
and the factor n/(n + m) is 1. The page Benchmarks: few labels lists the data on which h
and m were chosen and tested.

``choose_strength`` chooses the s whose votes of neighbors predict held-out points best.
The votes in the folds use M_s with A0(s)ᵀA0(s) instead of J, because the fit starts at
A0 and the prior is centered at A0. A fold therefore needs no fit and compiles nothing.
The bandwidth of the votes is chosen on the training points of the fold, as in a
classifier (``tuned_losses``). Under the metric, the classes of training points are
farther apart than the classes of new points. With few points in many dimensions the
votes are therefore too confident. The best bandwidth for the held-out points would hide
this loss.

The strongest prior is chosen whose loss is at most one standard error above the best.
This is twice the tolerance of other learners.
"""

import numpy as np

from probmetric.data.containers import Labeled
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
    """Compute the factor 1 + s/n of the prior precision of A; s/n is clipped at 100."""
    return 1.0 + min(strength / n, MOST_HELD)


def close_prior(prior: DCAGMPrior, strength: float, n: float | int) -> DCAGMPrior:
    """Increase the strength of ``fit.default_prior`` by s points, if s > 0."""
    if strength == 0:
        return prior
    return prior._replace(
        lam=prior.lam * HOLD * held(strength, n),
        mu_scale=prior.mu_scale * (n / (n + POINTS)) ** 0.5,
        chol_scale=(2 * POINTS) ** -0.5,
    )


def choose_strength(data: Labeled, n_latent: int, *, mixed: bool = True) -> Chosen:
    """Choose s by cross-validation of neighbor votes; if ``mixed``, under Eq. (1)."""
    X, y = np.asarray(data.X), np.asarray(data.y)
    live = ~constant_columns(X)

    def learn(rows: np.ndarray) -> list[np.ndarray | None]:
        if constant_columns(X[rows]).all():  # Only the Euclidean metric remains.
            return [np.eye(X.shape[1]), *([None] * (len(STRENGTHS) - 1))]
        part = Labeled(X[rows], y[rows])
        maps = [lda_rca(part, n_latent, strength=s) for s in STRENGTHS]
        if not mixed:
            return list(maps)
        pairs = zip(maps, STRENGTHS, strict=True)
        return [mixed_with_identity(A, s, len(rows), live) for A, s in pairs]

    return choose_by_folds(learn, X, y, losses=tuned_losses, tolerance=TOLERANCE)
