"""``TwoStageMixture`` of the points of a source: a pass a step of EM, no row kept."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from probmetric.data.containers import Points
from probmetric.data.source import Source
from probmetric.estimators._labelled import report
from probmetric.estimators._streamed import begin, refuse, still, streamed_columns
from probmetric.estimators.two_stage import inputs
from probmetric.inference.mixture.prior import prior_of_columns
from probmetric.inference.mixture.stream import fit_source
from probmetric.inference.solvers.result import Result
from probmetric.inference.two_stage import choice
from probmetric.inference.two_stage.target import Fitted
from probmetric.models.two_stage import TwoStagePrior, proportional


def fit_points(
    self: Any,
    source: Source,
    counts: Sequence[int],
    groups: object,
    components: object,
) -> Any:
    """Fit one model to the points of a source, a pass a step of EM."""
    held = self.flattening == "held-out"
    by_votes = not isinstance(self.prior, TwoStagePrior) and self.prior == "cv"
    refuse(
        {
            "groups": (groups is not None, "None (points alone)"),
            "components": (components is not None, "None"),
            "n_components": (len(counts) > 1, "one number"),
            "flattening": (held, "None or a number"),
            "prior": (by_votes, "'default', 'flat' or a TwoStagePrior"),
        }
    )
    names = begin(self, source, None)
    scaler, constant, columns = streamed_columns(self, source, names)
    k, n = int(counts[0]), int(columns.n)
    if n < k:
        raise ValueError(f"n_components: expected at most {n}, the rows, got {k}")
    inside = still(scaler, constant) if self.standardize else scaler
    mean = (np.asarray(columns.mean) - inside.mean) / inside.scale
    variance = np.asarray(columns.square) / n / inside.scale**2
    prior = self.prior if isinstance(self.prior, TwoStagePrior) else None
    if not isinstance(self.prior, TwoStagePrior) and self.prior == "default":
        prior = prior_of_columns(mean, variance, k)
    self._seed = int(check_random_state(self.random_state).randint(2**31 - 1000))
    for name in ("online_", "choice_", "prior_strength_"):
        vars(self).pop(name, None)
    end = fit_source(
        source,
        inside,
        n_components=k,
        prior=prior,
        n_starts=int(self.n_starts),
        seed=self._seed,
        max_steps=int(self.max_iter),
        tol=self.tol,
    )
    report(end, type(self).__name__)
    params = proportional(*end.params, float(self.alpha))
    if self.flattening is not None:
        params = choice.flatten(params, float(self.flattening))
    self.objective_, self.n_iter_ = float(end.objective), int(end.n_steps)
    self.converged_ = int(end.result) == Result.CONVERGED
    self._scaler = scaler
    self._set([params])
    self.alpha_ = inputs.noise_share(params)
    none = Points(np.zeros((0, len(mean))))
    self._learned = Fitted(none, prior, params, True, float(self.alpha))
    self._known, self._flattening, self._chosen = False, self.flattening, None
    self._changed_by = "a source, of which no rows are kept"
    return self
