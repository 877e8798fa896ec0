"""``sample`` and ``posterior_metric``: the uncertainty of a fitted LCA.

Two purposes, two objects.

*Prediction* averages soft votes over Laplace draws at the learning rate η_G that the
scores of points ask for, with λ chosen by leave-one-out of the averaged prediction.
Measured with n = 20, 40, 80 points of eight data sets (3 seeds, sets as units): test
log loss .087 ± .025 below the Euclidean and .049 ± .020 below the plug-in's. Isotropic
jitter of the same size does nearly as well (.009 ± .012 worse), the one matrix E[M]
about half (.040 ± .027 worse). See benchmarks/results/posterior_few_labels.md.

*Intervals* are those of the product-weight bootstrap at η = 1 and λ = 1 over all pairs
of the labelled points. Nominal 90 % covered, as they are and with ``inflate=1.3``
(five principal scores of four sets, of two at n = 120; 20 training sets of each):

    n     distance     ratio        P(same)      Laplace, distance
    20    .71   .82    .73   .82    .70   .81    .68
    40    .75   .84    .84   .92    .80   .88    .52
    120   .84   .92    .84   .92    .88   .96    .37

with standard errors of .01-.02; single sets ranged from .70 to .97 at n = 40. See
benchmarks/results/posterior_coverage.md. Neither object serves for the other.

After ``fit_pairs``, on pairs that really are independent, intervals are those of the
posterior itself: 88-90 % by NUTS in 2000 simulated fits (78 % at η = 2), 91-92 % by
Laplace in 100. See benchmarks/results/pairs_coverage.md.
"""

from copy import copy
from typing import Any

import numpy as np

from probmetric.arguments import check_choice, check_number
from probmetric.data.padding import host_weights
from probmetric.estimators.lca.draws import Problem, draw, metrics, problem_at, usable
from probmetric.estimators.lca.settings import recipe_of
from probmetric.inference.lca.curvature import generalised_rate
from probmetric.inference.lca.draws import log_likelihood as pair_likelihood
from probmetric.inference.lca.recipe import Fitted, fit_labelled
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.models.lca import lca
from probmetric.neighbors import KNeighborsClassifier
from probmetric.posterior.metric import PosteriorMetric

__all__ = ["LCAPosteriorMixin", "on_all_pairs", "problem_for"]

LOO_GRID = (1.0, 10.0, 100.0)
"""λ tried for prediction: prior sd from c to c/10 an entry."""

INTERVAL_LAM = 1.0
"""λ of intervals: little prior, which the bootstrap leaves as it is in every draw."""

MOST_POINTS = 1000
"""Points of which intervals take all pairs by default."""

N_DRAWS = {"prediction": 32, "intervals": 100}


class LCAPosteriorMixin:
    """Draws of the metric around a fit."""

    fitted_: Fitted
    scale_: np.ndarray
    mean_: np.ndarray
    n_features_in_: int
    _codes: np.ndarray

    def sample(
        self,
        method: str = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int = 4,
        learning_rate: int | float | None = None,
        seed: int = 0,
        sampler: dict[str, Any] | None = None,
        log_likelihood: bool = False,
        progress: bool | None = None,
    ) -> Any:
        """Draw from the posterior around the fit, on the pairs of the fit.

        Parameters
        ----------
        method : {"nuts", "svi", "laplace", "bootstrap"}, default="nuts"
            NUTS is exact up to Monte Carlo error; the variational guide and Laplace's
            approximation are not, and say their k-hat; the bootstrap refits under
            product weights on points.
        n_draws, n_chains : int, defaults 1000 and 4
            All but NUTS make ``n_draws * n_chains`` independent draws, one chain.
        learning_rate : float > 0, optional
            Power on the likelihood. Default: that of the fit, and 1 for the
            bootstrap. Another than the fit's means a refit of the mode.
        seed : int, default=0
        sampler : dict, optional
            Further arguments of the method: of ``nuts`` and the bootstrap also
            ``checkpoint`` (a folder, where each block of draws is kept as it comes)
            and ``resume``; ``batch`` and ``block_size`` of the bootstrap.
        log_likelihood : bool, default=False
            Store that of every pair under every draw, as ``log_likelihood`` if
            ``loo`` takes it: after ``fit_pairs`` of pairs that share no point, with
            learning rate 1. Otherwise as ``pseudo_log_likelihood``.
        progress : bool, optional
            Default: in terminals and notebooks.

        Returns
        -------
        DataTree
            Posterior of M (feature, feature_bis) and b, in input units and in units
            of the link, and of log σ²; the pairs; provenance.
        """
        rate = _own_rate(self, method, learning_rate)
        problem = problem_at(self, self.fitted_.pairs, rate, None)
        drawn = draw(
            problem,
            method,
            seed=seed,
            n_draws=int(check_number("n_draws", n_draws, 1, whole=True)),
            n_chains=int(check_number("n_chains", n_chains, 1, whole=True)),
            sampler=sampler,
            progress=progress,
        )
        pairs = problem.pairs
        shown = pairs._replace(X=self.mean_ + pairs.X * self.scale_)
        arguments = {"prior": problem.prior, "learning_rate": rate}
        names = getattr(self, "feature_names_in_", None)
        pointwise = None
        if log_likelihood:
            found = drawn.values
            pointwise = {"y": pair_likelihood(found["M"], found["b"], shown, rate)}
        return to_datatree(
            drawn,
            feature_names=None if names is None else list(names),
            data=shown,
            observed={"y": pairs.y},
            log_likelihood=pointwise,
            attributes=provenance(lca, shown, arguments),
        )

    def posterior_metric(
        self,
        purpose: str,
        *,
        method: str | None = None,
        n_draws: int | None = None,
        pairs: str = "auto",
        learning_rate: int | float | str = "auto",
        regularization: int | float | str = "auto",
        seed: int = 0,
        sampler: dict[str, Any] | None = None,
    ) -> PosteriorMetric:
        """Return draws of the metric for one purpose; there is no default.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
        method : {"laplace", "bootstrap", "nuts", "svi"}, optional
            Default: "laplace" for prediction, "bootstrap" for intervals; "laplace"
            for both after ``fit_pairs``, whose pairs are taken as independent.
        n_draws : int, optional
            In all. Default: 32 for prediction, 100 for intervals.
        pairs : {"auto", "fitted", "all"}, default="auto"
            The pairs of the fit, or all pairs of its labelled points. "auto" is
            "all" for intervals after ``fit``, otherwise "fitted". Nearest pairs are
            the closer the more points there are, and the scale of the distance with
            them: no interval for it would hold at another n. Distances from "all"
            are those of ``LCA(pairs="all")``, not of this fit's ``pair_distance``.
        learning_rate : "auto" or float > 0, default="auto"
            "auto" after ``fit``: η_G for prediction, 1 for intervals. After
            ``fit_pairs``: that of the fit.
        regularization : "auto" or float > 0, default="auto"
            λ. "auto" after ``fit``: 1 for intervals; for prediction the best of 1,
            10, 100 by the leave-one-out log score of soft votes averaged over the
            draws. After ``fit_pairs``: that of the fit.
        seed : int, default=0
        sampler : dict, optional
            As in ``sample``.

        Returns
        -------
        PosteriorMetric
            Its intervals are for the fit that the draws are of, by default
            ``LCA(pairs="all", learning_rate=1, regularization=1)``; this fit's own
            ``pair_distance`` may lie outside. From n = 40 ask for bootstrap intervals
            with ``inflate=1.3``: nominal 90 % then covered 84-96 %.
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        check_choice("pairs", pairs, ("auto", "fitted", "all"))
        labelled = hasattr(usable(self), "classes_")
        if method is None:
            bootstrap = labelled and purpose == "intervals"
            method = "bootstrap" if bootstrap else "laplace"
        total = N_DRAWS[purpose] if n_draws is None else n_draws
        total = int(check_number("n_draws", total, 1, whole=True))
        if pairs == "all" and not labelled:
            raise ValueError("pairs: expected 'fitted' after fit_pairs, got 'all'")
        if pairs == "auto" and labelled and purpose == "intervals":
            _refuse_many(len(self.fitted_.pairs.X))
            pairs = "all"
        base = on_all_pairs(self) if pairs == "all" else self

        def at(lam: float | None) -> PosteriorMetric:
            problem = problem_for(base, purpose, lam, learning_rate)
            drawn = draw(
                problem, method, seed=seed, n_draws=total, n_chains=1, sampler=sampler
            )
            return PosteriorMetric(
                metrics(drawn),
                purpose,
                source=method,
                pairs_independent=not labelled,
            )

        if isinstance(regularization, str):
            check_choice("regularization", regularization, ("auto",))
            if not labelled:
                return at(None)
            if purpose == "intervals":
                return at(INTERVAL_LAM)
            return self._best_for_votes([at(lam) for lam in LOO_GRID])
        check_number("regularization", regularization, 0, open_low=True)
        return at(float(regularization))

    def _best_for_votes(self, candidates: list[PosteriorMetric]) -> PosteriorMetric:
        """Return the draws of best leave-one-out log score, the first of equals."""
        X = self.mean_ + self.fitted_.pairs.X * self.scale_
        scores = [
            KNeighborsClassifier(draws).fit(X, self._codes).loo_scores_.max()
            for draws in candidates
        ]
        return candidates[int(np.argmax(scores))]


def _own_rate(estimator: Any, method: str, learning_rate: int | float | None) -> float:
    rate = 1.0 if method == "bootstrap" else usable(estimator).learning_rate_
    if learning_rate is not None:
        rate = check_number("learning_rate", learning_rate, 0, open_low=True)
    return float(rate)


def _refuse_many(n: int) -> None:
    """Raise unless all pairs of many points were asked for: work grows as n²."""
    if n > MOST_POINTS:
        raise ValueError(
            f"pairs: expected 'all' or 'fitted' for more than {MOST_POINTS} points, "
            f"got 'auto' with {n}: 'all' takes {n * (n - 1) // 2} pairs in every "
            "refit; of 'fitted' only ratio_interval covers"
        )


def on_all_pairs(estimator: Any) -> Any:
    """Return a copy whose fit, prior included, is that of ``LCA(pairs="all")``."""
    fitted: Fitted = usable(estimator).fitted_
    recipe = recipe_of(estimator, estimator.n_features_in_)[0]
    if recipe.pairs == "all":
        return estimator
    recipe = recipe._replace(pairs="all")
    made = copy(estimator)
    made.fitted_ = fit_labelled(
        np.asarray(fitted.pairs.X), estimator._codes, recipe, estimator.regularization_
    )
    return made


def problem_for(
    estimator: Any,
    purpose: str,
    lam: float | None = None,
    learning_rate: int | float | str = "auto",
) -> Problem:
    """Return the posterior that a purpose asks for, on the pairs of the fit.

    Parameters as ``posterior_metric``; ``lam`` None is that of the fit.
    """
    pairs = usable(estimator).fitted_.pairs
    if not isinstance(learning_rate, str):
        rate = float(check_number("learning_rate", learning_rate, 0, open_low=True))
        return problem_at(estimator, pairs, rate, lam)
    check_choice("learning_rate", learning_rate, ("auto",))
    if not hasattr(estimator, "classes_"):
        return problem_at(estimator, pairs, estimator.learning_rate_, lam)
    if purpose == "intervals":
        return problem_at(estimator, pairs, 1.0, lam)
    plain = len(pairs.X) / float(host_weights(pairs).sum())
    problem = problem_at(estimator, pairs, plain, lam)
    rate = generalised_rate(problem.params, pairs, problem.prior, plain)
    return problem_at(estimator, pairs, float(rate), lam)
