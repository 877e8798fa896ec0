"""The prior of ``TwoStageMixture``: given, made of points, or chosen by votes."""

from typing import Any

import numpy as np
from jaxtyping import Int

from probmetric.data.containers import Groups, Points
from probmetric.data.groups import as_groups
from probmetric.inference.two_stage.few import prior_of_groups
from probmetric.inference.two_stage.strength import ChosenPrior, choose_prior
from probmetric.inference.two_stage.target import Fitted
from probmetric.models.two_stage import TwoStagePrior


def by_votes(
    estimator: Any, data: Points | Groups, known: Int[np.ndarray, "_"] | None
) -> ChosenPrior | None:
    """Return the prior that neighbours' votes choose; None unless ``prior="cv"``.

    Raises
    ------
    ValueError
        Where votes cannot be had: without groups, with NaN, known components, several
        components, or covariances that are proportional.
    """
    if isinstance(estimator.prior, TwoStagePrior) or estimator.prior != "cv":
        return None
    k = estimator.n_components
    one = k == 1 or (np.ndim(k) == 1 and np.array_equal(k, [1]))
    for expected, wrong in {
        "groups: expected some of two members or more": isinstance(data, Points),
        "X: expected no NaN": bool(np.isnan(np.asarray(data.X)).any()),
        "components: expected None": known is not None,
        "n_components: expected 1": not one,
        "covariance: expected 'free'": estimator.covariance != "free",
    }.items():
        if wrong:
            raise ValueError(
                f"{expected} with prior='cv', which votes choose, got another; fit "
                "with prior='default'"
            )
    assert isinstance(data, Groups)
    return choose_prior(data)


def prior_for(estimator: Any, data: Points | Groups, k: int) -> TwoStagePrior | None:
    """Return the prior of k components: given, chosen, or made of points; or none."""
    if isinstance(estimator.prior, TwoStagePrior):
        return estimator.prior
    if estimator.prior == "cv":
        return estimator._chosen.prior
    if estimator.prior == "default":
        return prior_of_groups(as_groups(data), k, estimator.covariance)
    return None


def sampled(estimator: Any) -> Fitted:
    """Return what ``sample`` draws from; raise where there is none."""
    fitted, flattening = estimator._learned, estimator._flattening
    chosen, changed = estimator._chosen, estimator._changed_by
    nothing = chosen is not None and np.isinf(chosen.strength)
    for expected, wrong in {
        "a proper prior, got prior='flat'": fitted.prior is None,
        "something learned, got prior_strength_ = inf": nothing,
        f"one model, got blend={estimator.blend!r}": estimator._single is None,
        f"flattening=None, got {flattening!r}": flattening is not None,
        "components=None in fit, got known components": estimator._known,
        f"a model as fit left it, got one changed by {changed}": changed,
    }.items():
        if wrong:
            raise ValueError(f"sample: expected {expected}")
    return fitted
