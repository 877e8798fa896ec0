"""Fit of the two-stage mixture by EM from several starts, for points, pairs and groups.

The likelihood of a mixture has many local optima. Without a prior it has no maximum,
because a component may shrink to one point. The result is the best local optimum from
several k-means++ starts, under the prior.
"""

from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Groups, Pairs, Points
from probmetric.data.groups import as_groups
from probmetric.data.padding import bucket, pad_rows
from probmetric.inference.mixture.em import MixtureData, em_step, em_step_missing
from probmetric.inference.mixture.start import best_of, mixture_data, start_mixture
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.solvers.em import run_em
from probmetric.inference.solvers.result import Fit
from probmetric.inference.two_stage.few import prior_of_groups
from probmetric.inference.two_stage.groups import GroupData, group_data
from probmetric.inference.two_stage.groups import em_step as em_step_groups
from probmetric.inference.two_stage.groups_missing import filled, group_rows
from probmetric.inference.two_stage.proportional import (
    ProportionalParams,
    em_step_proportional,
)
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior, proportional
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array


def start_groups(
    data: GroupData, n_components: int, *, alpha: float = 0.5, seed: int = 0
) -> TwoStageParams:
    """Make starting values: clusters of group means, and W within groups or α S."""
    args = np.asarray(data.mean), np.asarray(data.w), n_components
    mixture = start_mixture(*args, seed=seed, prior=None)
    degrees = float(np.sum((np.asarray(data.size) - 1) * np.asarray(data.w)))
    residual = np.asarray(data.residual)
    weight = np.asarray(data.w)[np.asarray(data.owner)]
    within = (residual * weight[:, None]).T @ residual
    return start_of(mixture, within, degrees, alpha)


def start_of(
    mixture: MixtureParams, scatter: Float[Array, "d d"], degrees: float, alpha: float
) -> TwoStageParams:
    """Make a start of EM from a mixture of group means and a scatter within groups."""
    if not degrees > 0:
        return proportional(*mixture, alpha)
    within = scatter / degrees
    # W gets 5% to 95% of the scale of each direction, so that W and B are regular.
    total = np.diag(within) + mixture.covariances.mean(0).diagonal()
    ridge = 0.05 * np.diag(total)
    spread = np.broadcast_to(within + ridge, mixture.covariances.shape)
    return TwoStageParams(mixture.weights, mixture.means, spread, mixture.covariances)


def tied(start: TwoStageParams) -> ProportionalParams:
    """Convert a start to the proportional form; α is the mean share of W."""
    total = np.asarray(start.within + start.between)
    share = np.linalg.solve(total, np.asarray(start.within))
    a = np.trace(share, axis1=1, axis2=2).mean() / total.shape[-1]
    a = np.asarray(np.clip(a, 0.05, 0.95), total.dtype)
    return ProportionalParams(start.weights, start.means, total, a)


def _rounded_up(n: int) -> int:
    """Round a size up to a common size (multiples of the chunk above 2048)."""
    return bucket(n) if n <= 2048 else n + -n % 2048


def _padded(points: MixtureData) -> MixtureData:
    """Add rows of weight zero up to a common size."""
    n = _rounded_up(len(points.X))
    return points._replace(X=pad_rows(points.X, n), w=pad_rows(points.w, n))


def _padded_groups(groups: GroupData) -> GroupData:
    """Add groups of weight zero and residuals of zero up to common sizes."""
    n, m = _rounded_up(len(groups.size)), _rounded_up(len(groups.residual))
    return groups._replace(
        mean=pad_rows(groups.mean, n),
        size=pad_rows(groups.size, n, 1),
        w=pad_rows(groups.w, n),
        residual=pad_rows(groups.residual, m),
        owner=pad_rows(groups.owner, m),
    )


@numpy_in_numpy_out
def fit(
    data: Points | Pairs | Groups,
    *,
    n_components: int = 1,
    prior: TwoStagePrior | Literal["default"] | None = "default",
    covariance: Literal["free", "proportional"] = "free",
    alpha: float = 0.5,
    n_starts: int = 1,
    seed: int = 0,
    start: TwoStageParams | None = None,
    max_steps: int = 1000,
    tol: float | None = None,
) -> Fit:
    """Fit the two-stage mixture by EM.

    Parameters
    ----------
    data : Points, Pairs or Groups
        Pairs (y = 1 for the same source) and groups identify the covariances W within
        and B between sources. Points do not identify the share α of the variance that
        is within sources; ``alpha`` sets it.
    n_components : int, default=1
    prior : TwoStagePrior, "default" or None
        "default" is Eq. (1) of ``inference.two_stage.few`` for 2 to d groups, one
        component, and free W and B. Otherwise "default" is ``mixture.default_prior``.
        None is maximum likelihood, which may diverge.
    covariance : {"free", "proportional"}, default="free"
        "free" fits W_k and B_k. "proportional" fits W = αΣ and B = (1 - α)Σ. Points
        always use the proportional form.
    alpha : float, default=0.5
        Value of α for points, and starting value of α for
        ``covariance="proportional"``.
    n_starts : int, default=1
        Number of k-means++ starts. The best local optimum is returned.
    seed : int, default=0
    start : TwoStageParams, optional
        Starting values of EM, instead of k-means++ starts.
    max_steps, tol
        See ``run_em``.

    Returns
    -------
    Fit
        ``params`` is a ``TwoStageParams``. ``objective`` is the log joint density, with
        all constants. The components have no particular order.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Groups
    >>> from probmetric.inference import two_stage
    >>> X, group = np.array([[-9.0], [-8.0], [8.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> params = two_stage.fit(Groups(X, group), prior=None).params
    >>> params.within.round(2).tolist()  # (¼ + ¼ + ¼ + ¼)/(4 - 2)
    [[[0.5]]]
    >>> params.between.round(2).tolist()  # 8.5² - W/2
    [[[72.0]]]
    """
    if prior == "default":
        prior = prior_of_groups(as_groups(data), n_components, covariance)
    em = partial(run_em, max_steps=max_steps, tol=tol)
    missing = bool(np.isnan(np.asarray(data.X)).any())
    if isinstance(data, Points):
        points = mixture_data(data.X, data.w, prior=prior)
        problem, step = _padded(points), em_step_missing if missing else em_step

        def solve(seed: int) -> Fit:
            if start is None:
                args = points.X, points.w, n_components
                first = start_mixture(*args, seed=seed, prior=prior)
            else:
                total = start.within + start.between
                first = MixtureParams(start.weights, start.means, total)
            end = em(step, first, problem)
            c, mu, S = end.params
            return end._replace(params=proportional(c, mu, S, alpha))
    else:
        whole = group_data(filled(data) if missing else data, prior=prior)
        groups = group_rows(data, prior=prior) if missing else _padded_groups(whole)

        def solve(seed: int) -> Fit:
            first = start or start_groups(whole, n_components, alpha=alpha, seed=seed)
            if covariance == "free":
                return em(em_step_groups, first, groups)
            end = em(em_step_proportional, tied(first), groups)
            return end._replace(params=proportional(*end.params))

    return best_of([solve(s) for s in range(seed, seed + (1 if start else n_starts))])
