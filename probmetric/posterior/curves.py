"""The curves s_f of a spline metric, with limits from draws or from the jackknife."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from probmetric.arguments import check_number
from probmetric.metric import Dissimilarity, SplineCityBlock
from probmetric.metric.feature_names import names_of
from probmetric.metric.splines import i_splines
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.jackknife import checked_prob, limits
from probmetric.posterior.metric import PosteriorMetric, need_own_spread


class Curves(NamedTuple):
    """Values ``s`` of curves at positions ``x``, with optional limits.

    Each curve is 0 at its first knot.
    """

    x: Float[np.ndarray, "d g"]
    s: Float[np.ndarray, "d g"]
    lower: Float[np.ndarray, "d g"] | None = None
    upper: Float[np.ndarray, "d g"] | None = None
    names: tuple[str, ...] | None = None


def curves(
    metric: Dissimilarity,
    uncertainty: PosteriorMetric | IntervalMetric | None = None,
    *,
    prob: float = 0.9,
    n_points: int = 101,
) -> Curves:
    """Compute the curves of a fitted ``GDM``, with limits at each position.

    Parameters
    ----------
    metric : SplineCityBlock
        Fitted metric, from ``GDM.get_metric``.
    uncertainty : PosteriorMetric or IntervalMetric, optional
        Posterior draws (with purpose "intervals") or refits of the same fit. For draws,
        limits are quantiles. For refits, limits are the fitted curve ± a t quantile
        times the jackknife standard error, but at least 0. Default: no limits.
    prob : float in (0, 1), default=0.9
        Nominal coverage of the limits at each position, not of the whole curve.
    n_points : int ≥ 2, default=101
        Number of positions on each curve.

    Returns
    -------
    Curves
        Arrays with one row per curve and one column per position:

        - ``x``: values of the covariate, evenly spaced over the range of the curve.
        - ``s``: values of the curve. A curve is 0 at its first position.
        - ``lower``, ``upper``: limits of ``s``, or None without ``uncertainty``.

        ``names`` are the names of the curves, or None if the features have no names. If
        the fit used coordinates, the last curve belongs to the geographic distance.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.metric import SplineCityBlock
    >>> metric = SplineCityBlock(np.array([[0.0, 2.0]]), np.array([[1.0, 1.0]]))
    >>> result = curves(metric, n_points=3)
    >>> result.x.tolist(), result.s.tolist(), result.lower
    ([[0.0, 1.0, 2.0]], [[0.0, 1.0, 2.0]], None)
    """
    prob = checked_prob(prob)
    n_points = check_number("n_points", n_points, 2, whole=True)
    if not isinstance(metric, SplineCityBlock):
        raise ValueError(
            "metric must be the metric of a GDM (SplineCityBlock), got "
            f"{type(metric).__name__}"
        )
    knots = np.asarray(metric.knots, float)
    share = np.linspace(0, 1, n_points)
    x = knots[:, :1] * (1 - share) + knots[:, -1:] * share
    splines = i_splines(x.T, knots)  # (g, d, k)
    s = np.einsum("gdk,dk->dg", splines, np.asarray(metric.heights, float))
    features = names_of(metric)
    names = None if features is None else metric.curve_names(features)
    if uncertainty is None:
        return Curves(x, s, names=names)
    refits = isinstance(uncertainty, IntervalMetric)
    heights = _heights(uncertainty.left_out if refits else uncertainty.draws, knots)
    each = np.einsum("gdk,sdk->sdg", splines, heights)
    if refits:
        values = np.concatenate([s[None], each])
        lower, upper = limits(values, prob, uncertainty.factor, uncertainty.df)
        return Curves(x, s, np.maximum(lower, 0.0), upper, names)
    need_own_spread("curves", uncertainty)
    lower, upper = np.quantile(each, [(1 - prob) / 2, (1 + prob) / 2], axis=0)
    return Curves(x, s, lower, upper, names)


def _heights(
    metrics: Sequence[Dissimilarity], knots: Float[np.ndarray, "d k"]
) -> Float[np.ndarray, "s d k"]:
    splines = [m for m in metrics if isinstance(m, SplineCityBlock)]
    if len(splines) < len(metrics):
        kinds = {type(m).__name__ for m in metrics}
        raise ValueError(
            "uncertainty must contain draws or refits of the metric of a GDM "
            f"(SplineCityBlock), got {', '.join(sorted(kinds))}"
        )
    if any(not np.array_equal(m.knots, knots) for m in splines):
        raise ValueError(
            "uncertainty must have the same knots as metric, got other knots. Use "
            "draws or refits of the same fit."
        )
    return np.stack([np.asarray(m.heights, float) for m in splines])
