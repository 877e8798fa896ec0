"""How much of a prior DCA-GM needs: folds of its start, and the mixed metric.

Few points teach too much in three places. Of n points in d > n dimensions the S_W of
the start (``start``, Eq. 1) is singular, and the classes shrink to points in the
projection; A can part them further; and the average Fisher matrix J, of rank p, leaves
d - p directions out, however few points say so. A prior that counts as s points
answers all: in S_s; in the prior of A, whose precision is (λ/c²) h (1 + s/n); and in

    M_s = (1 - w) J + w (tr J/d) I,      w = s/(n + s),                             (1)

the Euclidean metric of the features as they came here (scaled, in the estimator), of
the same trace; d and I are of the columns that are not constant. In the model s stands
in the mean A0(s) and the precision of A; M_s is a function of J, as J is of A and θ.
s = ∞ is the Euclidean metric, and a mixture in the projection that T alone whitens.

The classifier itself learns too much, of hundreds of points still: A leaves its start
for directions that part the training points alone; covariances that differ between
classes make log odds quadratic, sure of everything far out; and the projected points
lie as far apart as A0, made of the same points, puts them. So with any s > 0 the prior
is closed (``close_prior``): h is 10, by which a row of A moves by a third of its length
or so; and the prior of the mixtures counts as m = 22 points: log_diag and off_diag have
the standard deviation 1/√(2m) = .15, that of a log standard deviation that m points
tell, and centres the variance n/(n + m) of the projected points' mean square. s = 0
leaves h = 1, .5 and 1. h and .15 were chosen on split 0 of eleven data sets at 20 to
160 points and more, the use of m for centres there at 20 to 80; they were judged on
others (``benchmarks/accuracy.py``).

``choose_strength`` takes the s whose votes predict points left out. What votes in the
folds is M_s with A0(s)ᵀA0(s) in place of J, for the start stands where the fit begins
and its prior has its mean: a fold costs no fit, and nothing is compiled. The points of
a fold also choose the bandwidth of their votes, as those of a classifier will
(``tuned_losses``). They taught the metric, under which their classes lie further apart
than those of new points, so that few points in many dimensions vote too surely. Were
the bandwidth the best for the points left out, the folds would not see that harm. It
goes as points become many. Of 252 fits on splits that saw no choice 3 are .1 and more
above Euclid; the mean log loss differs from that of the best bandwidth by no more than
chance (``benchmarks/accuracy.py``).

A stronger prior may be worse by a whole standard error there, twice what other learners
allow: of ½, 1, 1.5 and 2, under the best bandwidth, it lost nothing at 40 and 80 points
and most of the bad fits at 20.
"""

import numpy as np

from probmetric.data.containers import Labelled
from probmetric.data.scaling import constant_columns
from probmetric.inference.dca_gm.start import lda_rca
from probmetric.linalg import mixed_with_identity
from probmetric.models.dca_gm import DCAGMPrior
from probmetric.neighbors.strength import STRENGTHS, Chosen, tuned_losses
from probmetric.neighbors.strength import choose_strength as choose_by_folds

TOLERANCE = 1.0
"""Standard errors in Eq. (1) of ``neighbors.strength``."""

MOST_HELD = 100.0
"""Largest s/n in the precision of A, where s may be infinite: A stays near A0."""

HOLD, POINTS = 10.0, 22.0
"""h and m of ``close_prior``."""


def held(strength: float, n: float | int) -> float:
    """Return 1 + s/n, by which the prior precision of A grows; s/n at most 100."""
    return 1.0 + min(strength / n, MOST_HELD)


def close_prior(prior: DCAGMPrior, strength: float, n: float | int) -> DCAGMPrior:
    """Return the prior that s points make of that of ``fit.default_prior``.

    Parameters
    ----------
    prior : DCAGMPrior
    strength : float ≥ 0, infinity included
        s. 0 leaves the prior as it is.
    n : float
        Number of points.

    Examples
    --------
    Of n = s = 40 points the precision of A is multiplied by 10 (1 + 1):

    >>> import numpy as np
    >>> from probmetric.inference import dca_gm
    >>> from probmetric.models.dca_gm import DCAGMPrior
    >>> prior = DCAGMPrior(np.eye(1), np.ones((2, 1), bool), mu_scale=1.0)
    >>> closed = dca_gm.close_prior(prior, 40.0, 40)
    >>> closed.lam, round(float(closed.mu_scale), 2), round(float(closed.chol_scale), 2)
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
    """Choose s by votes of neighbours in folds (``neighbors.strength``).

    Parameters
    ----------
    data : Labelled
        Unweighted.
    n_latent : int
        p, between 1 and d.
    mixed : bool, default=True
        Whether the metric is that of Eq. (1), of full rank, or J alone.

    Examples
    --------
    The second feature is wide, and the first tells the classes apart: it pays to learn,
    and it does not where labels are random.

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import dca_gm
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    >>> X = rng.normal(size=(40, 4))
    >>> dca_gm.choose_strength(Labelled(X, y), 2).strength
    inf
    >>> X = X * [1.0, 50.0, 1.0, 1.0] + np.outer(y, [6.0, 0.0, 0.0, 0.0])
    >>> dca_gm.choose_strength(Labelled(X, y), 2).strength
    1.0
    """
    X, y = np.asarray(data.X), np.asarray(data.y)
    live = ~constant_columns(X)

    def learn(rows: np.ndarray) -> list[np.ndarray | None]:
        if constant_columns(X[rows]).all():  # Euclid remains.
            return [np.eye(X.shape[1]), *([None] * (len(STRENGTHS) - 1))]
        part = Labelled(X[rows], y[rows])
        maps = [lda_rca(part, n_latent, strength=s) for s in STRENGTHS]
        if not mixed:
            return list(maps)
        pairs = zip(maps, STRENGTHS, strict=True)
        return [mixed_with_identity(A, s, len(rows), live) for A, s in pairs]

    return choose_by_folds(learn, X, y, losses=tuned_losses, tolerance=TOLERANCE)
