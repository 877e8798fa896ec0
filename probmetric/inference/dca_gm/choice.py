"""Choice of the strength of DCA-GM's prior in folds, and the mixed metric.

With few points the fit overfits in three ways. With n points in d > n dimensions, S_W
of Eq. (1) of ``dca_gm.start`` is singular, and each class shrinks to a point in the
projection. The fit of A separates these points further. The average Fisher matrix J has
rank p, so with few points the metric J ignores d - p directions without evidence. A
prior that counts as s points corrects all three errors. S_s of ``dca_gm.start``
replaces S_W, the prior of A has the precision (λ/c²) h (1 + s/n), and the metric is

    M_s = (1 - w) J + w (tr J/d) I,      w = s/(n + s).                             (1)

The second term is the Euclidean metric of the features (scaled, in the estimator) with
the trace of J. I and d refer to the columns that vary. If s = ∞, the metric is
Euclidean, and only the feature variances T of ``dca_gm.start`` whiten the projection.

With hundreds of points the classifier still overfits, because A0 was computed from the
same points. For any s > 0, ``close_prior`` therefore sets a tight prior. With h = 10, a
row of A can change by about a third of its length. The prior of the mixtures counts as
m = 22 points. log_diag and off_diag have the standard deviation 1/√(2m) = 0.15, and
centers have the variance n/(n + m) times the mean square of the projected points. With
s = 0, h is 1, the standard deviation is 0.5, and the factor n/(n + m) is 1. See
Benchmarks: few labels.

``choose_strength`` chooses the s for which votes of neighbors predict held-out points
best. In the folds, A0(s)ᵀA0(s) replaces J in M_s, so a fold needs no fit of A. The
bandwidth of the votes is chosen on the training points of the fold (``tuned_losses``),
because a bandwidth chosen on the held-out points would hide overconfident votes. The
result is the strongest prior whose loss is at most one standard error above the best.
The tolerance of other learners is half as large.
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
"""Tolerance, in standard errors, of Eq. (1) of ``neighbors.strength``."""

MOST_HELD = 100.0
"""Largest s/n in the precision of A, which is therefore finite if s = ∞."""

HOLD, POINTS = 10.0, 22.0
"""h and m of ``close_prior``."""


def held(strength: float, n: float | int) -> float:
    """Compute the factor 1 + s/n of the prior precision of A; s/n is clipped at 100."""
    return 1.0 + min(strength / n, MOST_HELD)


def close_prior(prior: DCAGMPrior, strength: float, n: float | int) -> DCAGMPrior:
    """Tighten ``fit.default_prior`` by s points; s = 0 changes nothing."""
    if strength == 0:
        return prior
    return prior._replace(
        lam=prior.lam * HOLD * held(strength, n),
        mu_scale=prior.mu_scale * (n / (n + POINTS)) ** 0.5,
        chol_scale=(2 * POINTS) ** -0.5,
    )


def choose_strength(data: Labeled, n_latent: int, *, mixed: bool = True) -> Chosen:
    """Choose s by cross-validation of neighbor votes, under M_s if ``mixed``."""
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
