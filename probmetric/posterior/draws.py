"""Convert posterior draws to a ``PosteriorMetric``.

A learner's ``metrics_of_draws``, or a user's function, creates a metric from each draw.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr

from probmetric.arguments import check_number
from probmetric.inference.sampling.datatree import INDEPENDENT, OWN_MODEL
from probmetric.inference.sampling.metrics import SAMPLE_DIMS, joined
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import named
from probmetric.posterior.metric import SOURCES, PosteriorMetric, check_names
from probmetric.registry import MODELS
from probmetric.typing import Array, Purpose

type Reader = Callable[[xr.DataTree], Sequence[Dissimilarity] | None]
"""Function that creates one metric per draw (None for draws of another model)."""


def thinned(draws: xr.DataTree, n: int) -> xr.DataTree:
    """Return n draws, evenly spaced over the joined chains, as one chain."""
    groups: dict[str, xr.Dataset] = {}
    for name, node in draws.children.items():
        group = node.to_dataset()
        if set(SAMPLE_DIMS) <= set(group.sizes):
            total = group.sizes["chain"] * group.sizes["draw"]
            keep = np.linspace(0, total - 1, min(n, total)).astype(int)
            at = np.unravel_index(keep, [group.sizes[dim] for dim in SAMPLE_DIMS])
            place = {d: ("thinned", i) for d, i in zip(SAMPLE_DIMS, at, strict=True)}
            plain = group.drop_vars(SAMPLE_DIMS, errors="ignore").isel(place)
            group = plain.rename(thinned="draw").expand_dims("chain")
        groups[name] = group
    return _with_attrs(groups, draws)


def _with_attrs(groups: Mapping[str, xr.Dataset], draws: xr.DataTree) -> xr.DataTree:
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(draws.attrs)
    return tree


def posterior_metric(
    draws: xr.DataTree,
    readers: Sequence[Reader],
    purpose: Purpose,
    *,
    n_draws: int | None = None,
    pairs_independent: bool | None = None,
    credible: bool = False,
) -> PosteriorMetric:
    """Convert draws to metrics by the first reader that supports them.

    The attribute ``method`` of the draws is the source. If ``pairs_independent`` is
    None, the attribute ``pairs_independent`` of the draws is used.
    """
    if not hasattr(draws, "children"):
        raise ValueError(
            f"draws must be a DataTree from sample(...), got {type(draws).__name__}. "
            "Load a file with pm.load_draws."
        )
    if n_draws is not None:
        draws = thinned(draws, check_number("n_draws", n_draws, 1, whole=True))
    method = draws.attrs.get("method", "nuts")
    source = method if method in SOURCES else "nuts"
    if pairs_independent is None:
        pairs_independent = bool(draws.attrs.get(INDEPENDENT, False))
    for reader in readers:
        metrics = reader(draws)
        if metrics is not None:
            posterior = PosteriorMetric(
                metrics,
                purpose,
                source=source,
                pairs_independent=pairs_independent,
                credible=credible or bool(draws.attrs.get(OWN_MODEL)),
            )
            unknown = draws.attrs.get("handle_unknown")
            return named(posterior, _features(draws), unknown)
    raise ValueError(
        "draws must contain a matrix M or J, or the components of a two-stage "
        f"mixture, got {', '.join(sorted(map(str, draws['posterior'].data_vars)))}. "
        "For your own model, use draws_to_metric with to_metric."
    )


def _features(draws: xr.DataTree) -> list[str] | None:
    names = draws["posterior"].coords.get("feature")
    return (
        None
        if names is None or names.dtype.kind not in "UO"
        else names.to_numpy().tolist()
    )


def readers_of(learner: str | None) -> list[Reader]:
    """Return the readers of a learner's draws, or all readers if it is unknown."""
    specs = [MODELS[learner]] if learner in MODELS else list(MODELS.values())
    # In the order of the registry, each once.
    readers = [spec.metrics_of_draws for spec in specs if spec.metrics_of_draws]
    return list(dict.fromkeys(readers))


def draws_to_metric(
    draws: xr.DataTree,
    purpose: Purpose = "intervals",
    *,
    pairs_independent: bool | None = None,
    sel: Mapping[str, Hashable] | None = None,
    to_metric: Callable[[dict[str, Array]], Any] | None = None,
    n_draws: int | None = None,
) -> PosteriorMetric:
    """Convert draws of any model to metrics, one per draw.

    From the result you can compute intervals of distances and ratios, and the
    probability that a point is nearer than another or among the k nearest.
    ``KNeighborsClassifier`` accepts it as a metric.

    Parameters
    ----------
    draws : DataTree
        Result of ``sample``.
    purpose : {"intervals", "prediction"}, default="intervals"
        With "prediction", methods of the result that compute intervals or probabilities
        of neighbors raise an error.
    pairs_independent : bool, optional
        Whether the observations of the fit (pairs or points) are independent, or the
        draws resample independent units. If not, intervals of distances warn. Default:
        the value stored in the draws of a learner, otherwise False.
    sel : mapping of str to label, optional
        Label to select along each axis. ``{"group": 0}`` selects the metric of group 0.
        If the axis has labels, use a label, such as ``{"group": "north"}``.
    to_metric : callable, optional
        Function ``to_metric(values)`` that computes a metric from one draw, in float64.
        ``values`` is a dict of arrays by variable name, after ``sel``. Return a metric,
        or the linear map W (p, d) of a ``Mahalanobis`` metric. For a model with P(same)
        = exp(-(b + dist²/2)) return ``Mahalanobis(W, Link(b, 0.5))``.

        Default for draws of a learner: the learner's metric. Default for your own
        model: the metric of the variable ``M`` (d, d), without P(same).
    n_draws : int, optional
        Number of draws to use, evenly spaced over all chains. Default: all. 100 draws
        are enough for class probabilities.

    Returns
    -------
    PosteriorMetric

    Raises
    ------
    ValueError
        If the draws contain no metric, or more than one matrix for each draw.
    TypeError
        If ``to_metric`` returns neither a metric nor a linear map.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> scale = xr.DataArray(np.ones((2, 50, 3)), dims=("chain", "draw", "feature"))
    >>> draws = xr.DataTree.from_dict({"posterior": xr.Dataset({"scale": scale})})
    >>> posterior = draws_to_metric(
    ...     draws, "prediction", to_metric=lambda sites: np.diag(sites["scale"])
    ... )
    >>> posterior.n_draws, posterior.draw(0).n_features
    (100, 3)
    """
    method = draws.attrs.get("method", "nuts")
    check_names(purpose, method if method in SOURCES else "nuts")
    if "posterior" not in draws.children:
        raise ValueError(
            f"draws must contain a group 'posterior', got {sorted(draws.children)}"
        )
    draws = _selected(draws, sel or {})
    if to_metric is not None:

        def read(thinned: xr.DataTree) -> list[Dissimilarity]:
            with jax.enable_x64(True):
                return [_as_metric(to_metric(sites)) for sites in _each(thinned)]

        readers: list[Reader] = [read]
    else:
        readers = readers_of(draws.attrs.get("learner"))
    M = draws["posterior"].to_dataset().get("M")
    if to_metric is None and M is not None and M.ndim > 4:
        axes = [str(dim) for dim in M.dims if dim not in SAMPLE_DIMS]
        raise ValueError(
            "sel must select one matrix M (d, d) per draw, got matrices with axes "
            f"{axes}. Select a label, such as sel={{{axes[0]!r}: ...}}."
        )
    return posterior_metric(
        draws, readers, purpose, n_draws=n_draws, pairs_independent=pairs_independent
    )


def _selected(draws: xr.DataTree, sel: Mapping[str, Hashable]) -> xr.DataTree:
    if not sel:
        return draws
    posterior = draws["posterior"].to_dataset()
    for axis, label in sel.items():
        if axis not in posterior.dims or axis in SAMPLE_DIMS:
            axes = [str(dim) for dim in posterior.dims if dim not in SAMPLE_DIMS]
            raise ValueError(f"sel must contain only axes of {axes}, got {axis!r}")
        labels = posterior[axis].to_numpy().tolist()
        if label not in labels:
            raise ValueError(f"sel must be one of {labels} for {axis!r}, got {label!r}")
    return _with_attrs({"posterior": posterior.sel(sel)}, draws)


def _each(draws: xr.DataTree) -> list[dict[str, Array]]:
    values = joined(draws)
    n = len(next(iter(values.values())))
    # Make scalars arrays, too.
    return [{k: np.asarray(v[s]) for k, v in values.items()} for s in range(n)]


def _as_metric(result: Any) -> Dissimilarity:
    if isinstance(result, Dissimilarity):
        return result
    if np.ndim(result) != 2:
        got = f"shape {result.shape}" if hasattr(result, "shape") else repr(result)[:60]
        raise TypeError(
            f"to_metric must return a linear map (p, d) or a metric, got {got}"
        )
    return Mahalanobis(np.asarray(result))
