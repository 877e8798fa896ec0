"""The prior of ``LCAClassifier`` that predicts held-out classes best.

Class c has a map W_c of its own, and few points to learn it from. Its prior is

    W_c ~ N(k W₀, (k c)²/λ),    W₀ = cI (scaled axes where p < d),                 (1)

with c common to all classes: 1/c² is the median squared distance of a point from the
mean of the *other* members of its class, as a new point has it. (An own c, from the
distances to a mean that the point is part of, is too large for a class of few members,
by √2 and more for two.) k is the scale of the scores: as P_c(x) = e^{-t}, t = b + D/2,
P of a typical member falls with k, and so does that of other classes' points, faster.

For each (k, λ) the loss is the mean of -log(P_c / Σ P) of points left out, c their own
class: first the k of least loss at λ = 30, then the λ of least loss at that k. Not to
learn is among them: at λ = 10⁶ W_c is kW₀, and the class is that of the nearest mean,
but for b_c. c is made of all points, once.

Folds are stratified, five at most and no more than the smallest class of two or more
has members; from 300 points on two, and of more than 1000 points 1000 are used. Of
equal losses the first of the grids is taken. Where no class has two members among the
points used, none could be predicted and nothing is chosen: k = 2 and λ = 30.

The four priors of a grid are fitted one after the other in one compiled program, each
from where the one before ended, or, where W_c has fewer rows than columns and several
modes, from its own mean, as the class is. They end at a gap of 10⁻⁸ relative to the log
density; its constant is large at λ = 10⁶, so that 10⁻⁶ changed choices. Points of other
folds are there with weight zero. ``solver``, ``tol`` and ``max_iter`` are those of the
classes' own fits alone.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_softmax

from probmetric.data.containers import Pairs
from probmetric.data.hash import first_best
from probmetric.data.padding import bucket, pad_rows
from probmetric.inference.lca.bootstrap import fit_near
from probmetric.inference.lca.fit import scaled_axes
from probmetric.inference.lca.recipe import Recipe, prior_for, solve
from probmetric.inference.lca.statistics import Statistics
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAPrior, log_b_of
from probmetric.neighbors.strength import ONCE, folds, some_voters

SCALES = (2.0, 2.0**1.5, 4.0, 2.0**0.5)
"""Grid of k."""

STRENGTHS = (1e6, 100.0, 30.0, 10.0)
"""Grid of λ; the first leaves nothing to learn."""

MIDDLE = 30.0
MOST_FOLDS = 5
TOLERANCE, MOST_STEPS = 1e-8, 100
"""Of the fits of folds."""

type Scale = float | Literal["cv"]


class ClassPrior(NamedTuple):
    """W₀ (p, d) and c of Eq. (1), and the k and λ in use."""

    mean: Float[np.ndarray, "p d"]
    c: float
    k: float
    lam: float

    def of_class(self) -> LCAPrior:
        """Return Eq. (1), as the NumPyro model takes it."""
        return LCAPrior(
            mean=self.k * self.mean,
            c=np.asarray(self.k * self.c),
            lam=np.asarray(self.lam),
        )


class Class(NamedTuple):
    """A fitted class: mean, map L, b and σ² of ``LCAClassifier``'s Eq. (1)."""

    mean: Float[np.ndarray, "d"]
    factor: Float[np.ndarray, "p d"]
    b: float
    fit: Fit


def class_pairs(
    Z: Float[np.ndarray, "n d"], mean: Float[np.ndarray, "d"], member: np.ndarray
) -> Pairs:
    """Pair the class mean, put last, with every point."""
    n = len(Z)
    return Pairs(
        np.concatenate([Z, mean[None]]),
        np.full(n, n),
        np.arange(n),
        member.astype(int),
    )


def fit_class(
    Z: Float[np.ndarray, "n d"],
    member: np.ndarray,
    recipe: Recipe,
    prior: ClassPrior | float,
) -> Class:
    """Fit one class; a number is λ of a prior that the class sets by its own pairs."""
    mean = Z[member].mean(0)
    pairs = class_pairs(Z, mean, member)
    if isinstance(prior, ClassPrior):
        given = prior.of_class()
    else:
        given = prior_for(pairs, recipe, prior)
    # Each pair has a point of its own: the n pairs count as n observations.
    fit = solve(pairs, given, recipe, 1.0)
    W = np.asarray(fit.params.W)
    b = np.exp(log_b_of(np.asarray(fit.params.log_sigma2), len(W)))
    return Class(mean, _factor(W, b), float(b), fit)


def _factor(W: Any, b: Any) -> Any:
    """Return W/√(1 + 2σ²), as b = (p/2) log(1 + 2σ²); NumPy, which compiles nothing."""
    return W * np.exp(-b / W.shape[-2])


def common_centre(
    Z: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"], recipe: Recipe
) -> tuple[Float[np.ndarray, "p d"], float]:
    """Return W₀ and c of Eq. (1).

    Raises
    ------
    ValueError
        Where the points of every class coincide.
    """
    apart = np.zeros_like(Z)
    for code in np.unique(codes):
        own = Z[codes == code]
        # x minus the mean of the others is n/(n-1) times x minus the mean of all.
        apart[codes == code] = (own - own.mean(0)) * len(own) / max(len(own) - 1, 1)
    everyone = class_pairs(Z, Z.mean(0), np.ones(len(Z), bool))
    first = prior_for(everyone, recipe, 1.0)
    axes = np.asarray(first.mean) / float(first.c)
    pairs = class_pairs(apart, np.zeros(Z.shape[1]), np.ones(len(Z), bool))
    W0, c = scaled_axes(axes, pairs)
    return np.asarray(W0), c


def choose_prior(
    Z: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    recipe: Recipe,
    scale: Scale,
    lam: float | Literal["cv"],
) -> ClassPrior:
    """Return the prior of Eq. (1); ``"cv"`` of either number is chosen.

    Parameters
    ----------
    Z : array of shape (n, d)
        Standardised points.
    codes : array of shape (n,)
        Classes 0..c-1.
    recipe : Recipe
    scale : float or "cv"
        k.
    lam : float or "cv"
        λ.
    """
    W0, c = common_centre(Z, codes, recipe)
    k = scale if not isinstance(scale, str) else SCALES[0]
    base = ClassPrior(W0, c, k, lam if not isinstance(lam, str) else MIDDLE)
    rows = some_voters(Z, codes)
    Z, codes = Z[rows], codes[rows]
    if np.bincount(codes).max() < 2:
        return base
    if isinstance(scale, str):
        tried = [base._replace(k=k) for k in SCALES]
        base = tried[first_best(-held_out(Z, codes, tried))]
    if isinstance(lam, str):
        tried = [base._replace(lam=lam) for lam in STRENGTHS]
        base = tried[first_best(-held_out(Z, codes, tried))]
    return base


def held_out(
    Z: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    priors: list[ClassPrior],
) -> Float[np.ndarray, "q"]:
    """Return the mean loss of points left out, under each prior; of none 0."""
    members = np.bincount(codes)
    most = MOST_FOLDS if len(Z) < ONCE else 2
    n_folds = int(min(most, *members[members > 1]))
    tried = jax.tree.map(lambda *a: np.stack(a), *(p.of_class() for p in priors))
    losses, scored = np.zeros(len(priors)), 0
    for fold in folds(Z, codes, n_folds, 1):
        present = np.unique(codes[fold.learned])
        asked = fold.asked[np.isin(codes[fold.asked], present)]
        scored += len(asked)
        scores = np.empty((len(priors), len(asked), len(present)))
        for j, code in enumerate(present):
            member = codes == code
            mean = Z[fold.learned][member[fold.learned]].mean(0)
            w = np.bincount(fold.learned, minlength=len(Z)).astype(float)
            W, b = _along(Z - mean, member * w, ~member * w, tried)
            gaps = (Z[asked] - mean) @ _factor(W, b[:, None]).mT
            scores[:, :, j] = -(b + 0.5 * np.sum(gaps**2, 2))
        own = np.searchsorted(present, codes[asked])
        log_p = log_softmax(scores, axis=2)[:, np.arange(len(asked)), own]
        losses -= log_p.sum(1)
    losses = losses / max(scored, 1)
    return np.where(np.isfinite(losses), losses, np.inf)


def _along(delta: Any, same: Any, other: Any, priors: LCAPrior) -> tuple[Any, Any]:
    """Return W (q, p, d) and b (q, 1) of fits to weighted pairs under each prior."""
    size = bucket(len(delta))
    rows = (pad_rows(a, size) for a in (delta, same, other))
    with jax.enable_x64(True):
        W, log_b = jax.device_get(_fits(*rows, priors))
    return W, np.exp(log_b)[:, None]


@jax.jit
def _fits(delta: Any, same: Any, other: Any, priors: LCAPrior) -> tuple[Any, Any]:
    T_same = (delta * same[:, None]).T @ delta
    T = T_same + (delta * other[:, None]).T @ delta
    stats = Statistics(
        X=delta,
        i=None,
        j=None,
        same=jnp.zeros(len(delta), bool),
        w=other,
        anchor=None,
        n_same=jnp.sum(same),
        T_same=T_same,
        n=jnp.sum(same + other),
        T=T,
        S=T,
    )

    def one(start: Any, prior: LCAPrior) -> Any:
        if narrow:
            start = {"W": prior.mean, "log_b": first}
        end = fit_near(stats, prior, 1.0, start, TOLERANCE, MOST_STEPS).params
        return end, (end["W"], end["log_b"])

    p, d = priors.mean.shape[1:]
    narrow, first = p < d, jnp.log(0.3)
    start = {"W": priors.mean[0], "log_b": first}
    return jax.lax.scan(one, start, priors)[1]
