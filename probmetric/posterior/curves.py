"""The curves s_f of a metric of splines, with limits by draws or by the jackknife.

s_f is known up to a constant, and starts at 0 where the knots do. Limits hold at one x,
not for a curve as a whole.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from probmetric.arguments import check_number
from probmetric.metric import SplineCityBlock
from probmetric.metric.splines import i_splines
from probmetric.posterior.jackknife import checked_prob, limits
from probmetric.posterior.metric import need_own_spread


class Curves(NamedTuple):
    """Curves over the range of each feature, with limits where asked for.

    Attributes
    ----------
    x : array of shape (d, g)
        From the first to the last knot of each feature.
    s : array of shape (d, g)
        0 at the left end, the height of the curve at the right.
    lower, upper : array of shape (d, g), or None
    names : tuple of d str, or None
        Of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.metric import SplineCityBlock
    >>> metric = SplineCityBlock(np.array([[0.0, 2.0]]), np.array([[1.0, 1.0]]))
    >>> found = curves(metric, n_points=3)
    >>> found.x.tolist(), found.s.tolist(), found.lower
    ([[0.0, 1.0, 2.0]], [[0.0, 1.0, 2.0]], None)
    """

    x: Float[np.ndarray, "d g"]
    s: Float[np.ndarray, "d g"]
    lower: Float[np.ndarray, "d g"] | None = None
    upper: Float[np.ndarray, "d g"] | None = None
    names: tuple[str, ...] | None = None


def curves(
    metric: Any,
    uncertainty: Any = None,
    *,
    prob: float = 0.9,
    n_points: int = 101,
) -> Curves:
    """Return the curves of a metric of splines, with limits at each point.

    Parameters
    ----------
    metric : SplineCityBlock
        The fit.
    uncertainty : PosteriorMetric or IntervalMetric, optional
        Of the same kind, for the same knots. Draws give quantiles; refits without each
        group of points s ± t √V, not below 0.
    prob : float in (0, 1), default=0.9
        Of the limits, at each x by itself.
    n_points : int ≥ 2, default=101

    Raises
    ------
    ValueError
        For metrics of another kind or other knots; draws of ``purpose="prediction"``.

    Warns
    -----
    UserWarning
        As ``PosteriorMetric.interval``.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.metric import SplineCityBlock
    >>> knots, one = np.array([[0.0, 2.0]]), np.ones((1, 2))
    >>> draws = [SplineCityBlock(knots, h * one) for h in np.linspace(0, 1, 101)]
    >>> posterior = pm.PosteriorMetric(draws, "intervals", pairs_independent=True)
    >>> found = curves(SplineCityBlock(knots, one), posterior, prob=0.5)
    >>> float(found.lower[0, -1]), float(found.upper[0, -1])  # Quartiles of 0, …, 2
    (0.5, 1.5)
    """
    prob = checked_prob(prob)
    n_points = check_number("n_points", n_points, 2, whole=True)
    if not isinstance(metric, SplineCityBlock):
        raise ValueError(
            f"metric: expected a SplineCityBlock, got {type(metric).__name__}"
        )
    knots = np.asarray(metric.knots, float)
    share = np.linspace(0, 1, n_points)
    x = knots[:, :1] * (1 - share) + knots[:, -1:] * share
    splines = i_splines(x.T, knots)  # (g, d, k)
    own = np.einsum("gdk,dk->dg", splines, np.asarray(metric.heights, float))
    if uncertainty is None:
        return Curves(x, own)
    refitted = hasattr(uncertainty, "left_out")
    others = uncertainty.left_out if refitted else getattr(uncertainty, "draws", ())
    heights = _heights(others, knots)
    each = np.einsum("gdk,sdk->sdg", splines, heights)
    if refitted:
        values = np.concatenate([own[None], each])
        lower, upper = limits(values, prob, uncertainty.factor)
        return Curves(x, own, np.maximum(lower, 0.0), upper)
    need_own_spread("curves", uncertainty)
    lower, upper = np.quantile(each, [(1 - prob) / 2, (1 + prob) / 2], axis=0)
    return Curves(x, own, lower, upper)


def _heights(
    metrics: Any, knots: Float[np.ndarray, "d k"]
) -> Float[np.ndarray, "s d k"]:
    """Return the heights of metrics on the same knots, or refuse others."""
    kinds = {type(m).__name__ for m in metrics}
    if kinds != {"SplineCityBlock"}:
        raise ValueError(
            "uncertainty: expected draws or refits of a SplineCityBlock, got "
            f"{', '.join(sorted(kinds)) or 'none'}"
        )
    if any(not np.array_equal(m.knots, knots) for m in metrics):
        raise ValueError(
            "uncertainty: expected the knots of the metric, got others: draws of "
            "another fit"
        )
    return np.stack([np.asarray(m.heights, float) for m in metrics])
