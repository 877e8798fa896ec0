"""Choose the strength λ and the mean of the prior of LCA: by rule, folds or evidence.

*Folds* (``regularization="cv"``). The criterion is the held-out kNN accuracy in four
stratified folds, averaged over k = 1, 3, 5, 7, which is smoother than one k. Ties are
broken by the accuracy for k = 3, then by the first prior mean, then by the larger λ. If
the prior mean is "auto", three means W₀ ∝ S^(-g/2) with g = 0, ½, 1 are tried, each
with few λ. Otherwise one mean is tried with more λ. W = W₀, without learning, is always
a candidate. More candidates do worse, because some win by chance (see Benchmarks:
lca_accuracy). The held-out likelihood of *pairs* is not supported as a criterion,
because it chooses too small a λ.

*Evidence* is Laplace's approximation of the marginal likelihood of the first pair set.
For pairs made from labels, the scale of the evidence depends on the learning rate. In
``fit_pairs``, pairs are assumed independent. ``regularization="auto"`` then chooses the
smallest λ whose log evidence is within ``STRONG`` of the best, because too strong a
prior makes intervals too short (see Benchmarks: pairs_coverage).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from probmetric.data.containers import Labeled, Pairs, arrays_of
from probmetric.data.hash import canonical_order
from probmetric.data.padding import pad_pairs
from probmetric.data.pairs import smallest
from probmetric.inference import lca
from probmetric.inference.lca.curvature import log_evidence
from probmetric.inference.lca.likelihood import objective, to_params
from probmetric.inference.lca.recipe import (
    WITHIN,
    Fitted,
    Recipe,
    auto_regularization,
    build,
    choose_power,
    fit_labeled,
    is_auto,
    mean_of,
    n_observations,
    prior_for,
    rate_for,
    solve,
)
from probmetric.inference.sampling.target import Arrays
from probmetric.inference.solvers.result import Fit, Result
from probmetric.models.lca import LCAParams
from probmetric.neighbors.strength import deal
from probmetric.progress import progress_bar
from probmetric.typing import Array

GRID = (30.0, 10.0, 3.0, 1.0)
"""λ in descending order. Each fit starts at the fit with the previous λ."""

FEW = (10.0, 3.0)
"""λ to try with each prior mean if several prior means are tried."""

EVIDENCE_GRID = (100.0, *GRID)

STRONG = 3.0
"""Difference of log evidence that is strong: odds of 20 (Kass and Raftery 1995)."""

N_FOLDS = 4
NEIGHBORS = (1, 3, 5, 7)


class Choice(NamedTuple):
    """A setting and its held-out accuracies. With λ = inf nothing is learned."""

    prior_mean: str | float | np.ndarray
    lam: float
    n_refresh: int
    accuracy: float
    accuracy_3nn: float


type Setting = tuple[int, float, int]
"""Index of the prior mean in ``Tried``, λ, refreshes."""


class Tried(NamedTuple):
    """Prior means, λ in descending order, and numbers of refreshes to try."""

    means: tuple[str | float | np.ndarray, ...]
    lams: tuple[float, ...]
    refreshes: tuple[int, ...]


def settings_for(recipe: Recipe, n: int, d: int) -> Tried:
    """Return settings to try; λ goes up to 100 for more than 1000 points."""
    mean, setting = mean_of(recipe, d), recipe.prior_mean
    nearest = recipe.pairs == "nearest"
    if is_auto(setting):
        lams = (100.0, 30.0, *FEW) if n > 1000 else FEW
        return Tried((mean, *WITHIN), lams, (1,) if nearest else (0,))
    lams = (100.0, *GRID) if n > 1000 else GRID
    return Tried((mean,), lams, (0, 1) if nearest else (0,))


def fit_labels(
    data: Labeled,
    recipe: Recipe,
    lam: float | str,
    random_state: int | np.random.RandomState | None = 0,
) -> tuple[Fitted, list[Choice]]:
    """Fit labeled points, and choose λ and the prior mean if they are not set."""
    choices: list[Choice] = []
    if lam != "cv" and data.w is None and is_auto(recipe.prior_mean):
        recipe = recipe._replace(prior_mean=choose_power(data))
    if lam == "auto":
        lam = auto_regularization(n_observations(data))
    elif lam == "evidence":
        pairs = build(data, recipe)
        rate = rate_for(pairs, recipe, data)
        lam = choose_by_evidence(pairs, recipe, rate, data)
    elif lam == "cv":
        if data.w is not None:
            raise ValueError(
                "regularization must be 'auto', 'evidence' or a number if "
                "sample_weight is set, got 'cv'"
            )
        choices = choose_by_folds(data, recipe, random_state)
        mean, lam, n_refresh = choices[0][:3]
        recipe = recipe._replace(prior_mean=mean, n_refresh=n_refresh)
        if np.isinf(lam):
            return unlearned(data, recipe), choices
    return fit_labeled(data, recipe, float(lam)), choices


def fit_given_pairs(pairs: Pairs, recipe: Recipe, lam: float | str) -> Fitted:
    """Fit standardized pairs; ``lam`` is a number, "auto" or "evidence"."""
    rate = 1.0 if recipe.learning_rate is None else recipe.learning_rate
    if lam == "cv":
        raise ValueError(
            "regularization must be 'auto', 'evidence' or a number for pairs, got 'cv'"
        )
    if isinstance(lam, str):
        margin = STRONG if lam == "auto" else 0.0
        lam = choose_by_evidence(pairs, recipe, rate, margin=margin)
    prior = prior_for(pairs, recipe, float(lam))
    fit = solve(pairs, prior, recipe, rate)
    steps = max(1, int(fit.n_steps))
    return Fitted(fit, pairs, prior, rate, 0, steps, mean_of(recipe, pairs.X.shape[1]))


def choose_by_folds(
    data: Labeled, recipe: Recipe, random_state: int | np.random.RandomState | None = 0
) -> list[Choice]:
    """Score every setting on held-out folds; return them best first."""
    X, codes, _, groups = arrays_of(data)
    sizes = np.bincount(codes)
    smallest = int(sizes[sizes > 1].min())  # A single row is never held out.
    if smallest < N_FOLDS:
        raise ValueError(
            f"regularization='cv' requires at least {N_FOLDS} rows in each class, got "
            f"a class with {smallest}. Use 'auto' or a number"
        )
    seed = check_random_state(random_state).randint(2**31)
    fold = deal(X, codes, N_FOLDS, seed, groups=groups)
    tried = settings_for(recipe, len(X) - len(X) // N_FOLDS, X.shape[1])
    tables = [
        _score_fold(rows_of(data, fold != k), rows_of(data, fold == k), recipe, tried)
        for k in progress_bar(range(N_FOLDS), "choose λ", None, "fold")
    ]
    mean: dict[Setting, np.ndarray] = {
        key: np.mean([table[key] for table in tables], 0) for key in tables[0]
    }
    choices = [
        Choice(tried.means[m], lam, n_refresh, float(np.mean(a)), float(a[1]))
        for (m, lam, n_refresh), a in mean.items()
    ]
    # Accuracies are ratios of counts: differences below 1e-9 are rounding.
    return sorted(
        choices, key=lambda c: (-round(c.accuracy, 9), -round(c.accuracy_3nn, 9))
    )


def rows_of(data: Labeled, rows: np.ndarray) -> Labeled:
    """Return some rows of labeled points."""
    return jax.tree.map(lambda values: values[rows], data)


def _score_fold(
    train: Labeled, test: Labeled, recipe: Recipe, tried: Tried
) -> dict[Setting, np.ndarray]:
    order = canonical_order(*arrays_of(train)[:2])  # Breaks ties of neighbors.
    data = rows_of(train, order)
    (X, codes, *_), (X_test, y_test, *_) = arrays_of(data), arrays_of(test)

    def score(W: Array) -> np.ndarray:
        return accuracies(X @ W.T, codes, X_test @ W.T, y_test)

    pairs = build(data, recipe)
    rate = rate_for(pairs, recipe, data)
    scores: dict[Setting, np.ndarray] = {}
    for m, mean in enumerate(tried.means):
        centered = recipe._replace(prior_mean=mean)
        prior = prior_for(pairs, centered, np.inf, data)
        scores[m, np.inf, 0] = score(prior.mean)
        start: LCAParams | None = None
        for lam in tried.lams:
            prior = prior._replace(lam=np.asarray(lam))
            start = params = solve(pairs, prior, recipe, rate, start).params
            if 0 in tried.refreshes:
                scores[m, lam, 0] = score(params.W)
            if 1 in tried.refreshes:
                again = build(data, recipe, params.W)
                W = solve(again, prior, recipe, rate, params).params.W
                scores[m, lam, 1] = score(W)
    return scores


def accuracies(
    Z: Float[np.ndarray, "n p"],
    codes: Int[np.ndarray, "n"],
    Z_test: Float[np.ndarray, "m p"],
    y_test: Int[np.ndarray, "m"],
) -> Float[np.ndarray, "k"]:
    """Return kNN accuracy at each k of ``NEIGHBORS``; ties go to the first class."""
    k = min(max(NEIGHBORS), len(Z))
    near = smallest(cdist(Z_test, Z, "sqeuclidean"), k)
    votes = np.cumsum(np.eye(codes.max() + 1)[codes[near]], 1)
    return np.array(
        [np.mean(votes[:, min(q, k) - 1].argmax(1) == y_test) for q in NEIGHBORS]
    )


_objective = jax.jit(objective)


def choose_by_evidence(
    pairs: Pairs,
    recipe: Recipe,
    learning_rate: float,
    data: Labeled | None = None,
    *,
    margin: float = 0.0,
) -> float:
    """Return the λ with the largest Laplace evidence on one set of pairs.

    If several λ have the largest evidence, return the largest of them. With ``margin``
    > 0, return the smallest λ whose log evidence is at most ``margin`` below the
    largest.
    """
    values: dict[float, float] = {}
    start: LCAParams | None = None
    for lam in EVIDENCE_GRID:
        prior = prior_for(pairs, recipe, lam, data)
        fit = solve(pairs, prior, recipe, learning_rate, start)
        start = fit.params
        values[lam] = log_evidence(
            fit.params, pairs, fit.objective, prior, learning_rate
        )
    best = max(values.values())
    if margin:
        return min(lam for lam, value in values.items() if value >= best - margin)
    return max(values, key=lambda lam: (values[lam], lam))


def unlearned(data: Labeled, recipe: Recipe) -> Fitted:
    """Return a fit with W = W₀. Only b is learned, because P(same) requires b."""
    groups, pairs = arrays_of(data)[3], build(data, recipe)
    prior = prior_for(pairs, recipe, np.inf, data)
    rate = rate_for(pairs, recipe, data)
    with jax.enable_x64(True):
        stats = lca.prepare(pad_pairs(pairs))
        W = jnp.asarray(prior.mean)
        at_mean = prior._replace(lam=1.0)  # W is fixed: its prior is constant.

        def negative(log_b: float) -> float:
            at = {"W": W, "log_b": jnp.asarray(log_b)}
            return -float(_objective(at, (stats, at_mean, rate)))

        best: Any = minimize_scalar(negative, bounds=(-20.0, 5.0), method="bounded")
    at: Arrays = {"W": np.asarray(prior.mean), "log_b": np.asarray(best.x)}
    params = LCAParams(*map(np.asarray, to_params(at)))
    code = Result.CONVERGED if best.success else Result.MAX_STEPS
    steps, top = np.asarray(int(best.nfev)), np.asarray(-best.fun)
    fit = Fit(params, top, np.asarray(int(code)), steps, steps, np.array([top]))
    mean = mean_of(recipe, pairs.X.shape[1])
    return Fitted(fit, pairs, prior, rate, 0, int(best.nfev), mean, groups)
