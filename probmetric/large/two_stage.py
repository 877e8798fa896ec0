"""``TwoStageMixture`` of data on disk: one pass per EM step, or one pass of groups."""

# These functions are methods of learners.
# pyright: reportPrivateUsage=false

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.utils import check_random_state

from probmetric.data.containers import Points
from probmetric.data.scaling import Scaler
from probmetric.data.unlabeled import warn_of_unlabeled
from probmetric.estimators._labeled import report
from probmetric.estimators._settings import check_settings
from probmetric.estimators.two_stage import inputs
from probmetric.estimators.two_stage.estimator import TwoStageMixture
from probmetric.inference.mixture.prior import prior_of_columns
from probmetric.inference.solvers.result import Fit, Result
from probmetric.inference.two_stage import choice
from probmetric.inference.two_stage.few import are_few, few_prior
from probmetric.inference.two_stage.strength import variances_of
from probmetric.inference.two_stage.target import Fitted
from probmetric.large.begin import begin, refuse, still, streamed_columns
from probmetric.large.groups import (
    Collected,
    collect,
    fit_groups,
    scatter_within,
)
from probmetric.large.mixture import fit_source as fit_points
from probmetric.large.source import Source, class_counts
from probmetric.models.two_stage import Covariance, TwoStagePrior, proportional


class _Columns(NamedTuple):
    """Statistics of columns. ``inside`` is the scaler of EM. Constants are not live."""

    scaler: Scaler
    inside: Scaler
    n: int
    mean: Float[np.ndarray, "d"]
    variance: Float[np.ndarray, "d"]
    live: Bool[np.ndarray, "d"]


def fit(
    self: TwoStageMixture,
    X: Source,
    y: object = None,
    *,
    groups: object = None,
) -> TwoStageMixture:
    """Fit one model to the points of a source, or to its rows grouped by labels."""
    check_settings(self)
    check(self, X)
    if groups is not None and not (isinstance(groups, str) and groups == inputs.LABEL):
        raise ValueError(
            f"groups must be None or {inputs.LABEL!r} for data on disk, got "
            f"{type(groups).__name__}"
            f"{f' {groups!r}' if isinstance(groups, str) else ''}. "
            "Use pm.open(..., label=)."
        )
    names = begin(self, X, None)
    labels = sizes = None
    if groups is not None:
        labels, sizes = class_counts(X)
        warn_of_unlabeled(self.unlabeled, labels, "label")
        if sizes.max() == 1:
            inputs.warn_alone(self.alpha)
            labels = sizes = None
    columns = _columns(self, X, names)
    k, most = int(self._counts()[0]), columns.n if sizes is None else len(sizes)
    inputs.check_most(k, most, "rows" if sizes is None else "groups")
    self._seed = int(check_random_state(self.random_state).randint(2**31 - 1000))
    for name in ("online_", "choice_", "prior_strength_"):
        vars(self).pop(name, None)
    prior = self.prior if isinstance(self.prior, TwoStagePrior) else None
    if not isinstance(self.prior, TwoStagePrior) and self.prior == "default":
        prior = prior_of_columns(columns.mean, columns.variance, k)
    options: dict[str, Any] = {
        "n_components": k,
        "prior": prior,
        "n_starts": int(self.n_starts),
        "seed": self._seed,
        "max_steps": int(self.max_iter),
        "tol": self.tol,
    }
    if labels is None or sizes is None:
        end = fit_points(X, columns.inside, **options)
        params = proportional(*end.params, float(self.alpha))
        end = end._replace(params=params)
    else:
        found = collect(X, columns.inside, labels, sizes, pooled=k == 1)
        if prior is not None and not isinstance(self.prior, TwoStagePrior):
            prior = _of_groups(prior, columns, found, sizes, k, self.covariance)
        options |= {"covariance": self.covariance, "alpha": float(self.alpha)}
        options["prior"] = prior
        end = fit_groups(found, sizes, **options)
    return _store(self, columns, prior, end, grouped=labels is not None)


def check(self: TwoStageMixture, X: Source) -> None:
    """Raise for settings that data on disk do not support."""
    by_votes = not isinstance(self.prior, TwoStagePrior) and self.prior == "cv"
    refuse(
        {
            "n_components": (len(self._counts()) > 1, "one number"),
            "prior": (by_votes, "'default', 'flat' or a TwoStagePrior"),
            "flattening": (self.flattening == "held-out", "None or a number"),
        }
    )


def _columns(
    self: TwoStageMixture, source: Source, names: list[str] | None
) -> _Columns:
    scaler, constant, columns = streamed_columns(self, source, names)
    inside = still(scaler, constant) if self.standardize else scaler
    mean = (np.asarray(columns.mean) - inside.mean) / inside.scale
    variance = np.asarray(columns.square) / int(columns.n) / inside.scale**2
    return _Columns(scaler, inside, int(columns.n), mean, variance, ~constant)


def _of_groups(
    weak: TwoStagePrior,
    columns: _Columns,
    found: Collected,
    sizes: Int[np.ndarray, "G"],
    k: int,
    covariance: Covariance,
) -> TwoStagePrior:
    """Return the default prior for collected groups."""
    live = columns.live
    if sizes.max() < 2 or not are_few(len(sizes), live, k, covariance):
        return weak
    unit = columns.variance[live]
    within = np.sum(scatter_within(found).diagonal()[live] / unit)
    between = columns.n * len(unit) - within
    size = np.repeat(sizes[:, None].astype(float), len(unit), 1)
    return few_prior(weak, *variances_of(float(within), float(between), size), live)


def _store(
    self: TwoStageMixture,
    columns: _Columns,
    prior: TwoStagePrior | None,
    end: Fit,
    *,
    grouped: bool,
) -> TwoStageMixture:
    report(end, type(self).__name__)
    params = end.params
    if self.flattening is not None:
        params = choice.flatten(params, float(self.flattening))
    self.objective_, self.n_iter_ = float(end.objective), int(end.n_steps)
    self.converged_ = int(end.result) == Result.CONVERGED
    self._scaler = columns.scaler
    self._set([params])
    tied = not grouped or self.covariance == "proportional"
    self.alpha_ = inputs.noise_share(params) if tied else None
    none = Points(np.zeros((0, len(columns.mean))))
    share = None if grouped else float(self.alpha)
    self._learned = Fitted(none, prior, params, tied, share)
    self._flattening, self._chosen = self.flattening, None
    self._changed_by = "data on disk, whose rows are not stored"
    return self
