"""Draws as a ``PosteriorMetric``: of a learner, or of a model of one's own.

What makes a metric of each draw is a learner's ``metrics_of_draws``, or a function of
the user's.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr

from probmetric.arguments import check_number
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import named
from probmetric.posterior.metric import SOURCES, PosteriorMetric, check_names
from probmetric.registry import MODELS
from probmetric.typing import Array, Purpose

SAMPLE_DIMS = ("chain", "draw")


def thinned(draws: xr.DataTree, n: int) -> xr.DataTree:
    """Return n draws, evenly spaced over chains joined, as one chain."""
    groups: dict[str, xr.Dataset] = {}
    for name, node in draws.children.items():
        group = node.to_dataset()
        if set(SAMPLE_DIMS) <= set(group.sizes):
            total = group.sizes["chain"] * group.sizes["draw"]
            keep = np.linspace(0, total - 1, min(n, total)).astype(int)
            at = np.unravel_index(keep, [group.sizes[dim] for dim in SAMPLE_DIMS])
            place = {d: ("kept", i) for d, i in zip(SAMPLE_DIMS, at, strict=True)}
            plain = group.drop_vars(SAMPLE_DIMS, errors="ignore").isel(place)
            group = plain.rename(kept="draw").expand_dims("chain")
        groups[name] = group
    found = xr.DataTree.from_dict(groups)
    found.attrs.update(draws.attrs)
    return found


def posterior_metric(
    draws: xr.DataTree,
    readers: Sequence[Callable[[Any], Any]],
    purpose: Purpose,
    *,
    n_draws: int | None = None,
    pairs_independent: bool = False,
) -> PosteriorMetric:
    """Return draws as metrics.

    Parameters
    ----------
    draws : DataTree
        Of ``sample``; its attribute ``method`` says the source.
    readers : sequence of callable
        ``metrics(draws) -> list of Metric``, or None for draws of something else; the
        first that knows the draws is taken.
    purpose, pairs_independent
        As for ``PosteriorMetric``.
    n_draws : int, optional
        Keep this many, evenly spaced over chains joined. Default: all.

    Raises
    ------
    ValueError
        For draws that no reader knows.
    """
    if n_draws is not None:
        draws = thinned(draws, check_number("n_draws", n_draws, 1, whole=True))
    method = draws.attrs.get("method", "nuts")
    source = method if method in SOURCES else "nuts"
    given: Any = {"source": source, "pairs_independent": pairs_independent}
    for metrics in readers:
        found = metrics(draws)
        if found is not None:
            return named(PosteriorMetric(found, purpose, **given), _features(draws))
    raise ValueError(
        "draws: expected a posterior of a metric (M, J, or a two-stage mixture), got "
        f"{', '.join(sorted(map(str, draws['posterior'].data_vars)))}; of a model of "
        "your own, give draws_to_metric the function to_metric"
    )


def _features(draws: xr.DataTree) -> list[str] | None:
    """Return the features' names of draws, None where they are numbers or none."""
    names = draws["posterior"].coords.get("feature")
    return (
        None
        if names is None or names.dtype.kind not in "UO"
        else names.to_numpy().tolist()
    )


def readers_of(learner: Any) -> list[Callable[[xr.DataTree], Any]]:
    """Return what makes metrics of a learner's draws; all that is known for None."""
    known = [MODELS[learner]] if learner in MODELS else list(MODELS.values())
    # In the order of the registry, each once.
    found = [spec.metrics_of_draws for spec in known if spec.metrics_of_draws]
    return list(dict.fromkeys(found))


def draws_to_metric(
    draws: xr.DataTree,
    purpose: Purpose,
    *,
    pairs_independent: bool = False,
    sel: Mapping[str, Hashable] | None = None,
    to_metric: Callable[[dict[str, Array]], Any] | None = None,
    n_draws: int | None = None,
) -> PosteriorMetric:
    """Return draws of any model as metrics, one per draw.

    Parameters
    ----------
    draws : DataTree
        Of ``sample``.
    purpose : {"prediction", "intervals"}
        What the draws serve: votes to be averaged, or intervals. There is no default:
        see ``PosteriorMetric``.
    pairs_independent : bool, default=False
        Whether the observations are independent, so that the posterior means what it
        says. False for pairs built from labels.
    sel : mapping of str to label, optional
        One label along an axis of the posterior, as ``{"group": 0}`` or, with
        ``coords``, ``{"group": "north"}``: the metric of that group.
    to_metric : callable, optional
        ``to_metric(sites)``, with the values of one draw by name (after ``sel``, and
        without chain and draw), gives a factor W (p, d), which stands for the
        ``Mahalanobis`` metric of M = WᵀW, or a metric. Called once a draw, in float64.
        Default: the matrix ``M`` (d, d), or what a registered learner draws. A model
        of your own then has no P(same), since only you know its link: return
        ``Mahalanobis(W, Link(b, 0.5))`` for exp(-(b + dist²/2)).
    n_draws : int, optional
        Keep this many, evenly spaced over chains joined. Default: all. Votes hardly
        change beyond 100.

    Returns
    -------
    PosteriorMetric

    Raises
    ------
    ValueError
        For draws without a metric; more axes than a matrix has; a label or an axis
        that is not there; and as ``PosteriorMetric``.
    TypeError
        Where ``to_metric`` returns something else.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> scale = xr.DataArray(np.ones((2, 50, 3)), dims=("chain", "draw", "feature"))
    >>> draws = xr.DataTree.from_dict({"posterior": xr.Dataset({"scale": scale})})
    >>> draws_to_metric(
    ...     draws, "prediction", to_metric=lambda sites: np.diag(sites["scale"])
    ... )
    PosteriorMetric(100 draws of Mahalanobis, purpose='prediction', source='nuts', \
pairs_independent=False)
    """
    method = draws.attrs.get("method", "nuts")
    check_names(purpose, method if method in SOURCES else "nuts")
    if "posterior" not in draws.children:
        raise ValueError(
            f"draws: expected a group 'posterior', got {sorted(draws.children)}"
        )
    draws = _selected(draws, sel or {})
    given: Any = {"pairs_independent": pairs_independent, "n_draws": n_draws}
    if to_metric is not None:
        make = to_metric

        def own(kept: xr.DataTree) -> list[Dissimilarity]:
            with jax.enable_x64(True):
                return [_as_metric(make(sites)) for sites in _each(kept)]

        return posterior_metric(draws, [own], purpose, **given)
    M = draws["posterior"].to_dataset().get("M")
    if M is not None and M.ndim > 4:
        axes = [str(dim) for dim in M.dims if dim not in SAMPLE_DIMS]
        raise ValueError(
            f"sel: expected one matrix M (d, d) a draw, got axes {axes}: choose one "
            f"label, as sel={{{axes[0]!r}: ...}}"
        )
    readers = readers_of(draws.attrs.get("learner"))
    return posterior_metric(draws, readers, purpose, **given)


def _selected(draws: xr.DataTree, sel: Mapping[str, Hashable]) -> xr.DataTree:
    """Return draws at one label of each axis of ``sel``."""
    if not sel:
        return draws
    posterior = draws["posterior"].to_dataset()
    for axis, label in sel.items():
        if axis not in posterior.dims or axis in SAMPLE_DIMS:
            axes = [str(dim) for dim in posterior.dims if dim not in SAMPLE_DIMS]
            raise ValueError(f"sel: expected an axis among {axes}, got {axis!r}")
        known = posterior[axis].to_numpy().tolist()
        if label not in known:
            raise ValueError(
                f"sel: expected one of {known} for {axis!r}, got {label!r}"
            )
    found = xr.DataTree.from_dict({"posterior": posterior.sel(sel)})
    found.attrs.update(draws.attrs)
    return found


class _Sites(dict[str, Array]):
    """The values of one draw; a name that is not there is answered with those there."""

    def __missing__(self, name: str) -> Array:
        raise KeyError(f"to_metric: expected a site among {list(self)}, got {name!r}")


def _each(draws: xr.DataTree) -> list[dict[str, Array]]:
    """Return the values of every draw by name, chain after chain."""
    values: dict[str, np.ndarray] = {}
    for name, drawn in draws["posterior"].to_dataset().items():
        if set(SAMPLE_DIMS) <= set(drawn.dims):
            array = drawn.transpose(*SAMPLE_DIMS, ...).to_numpy()
            values[str(name)] = array.reshape(-1, *array.shape[2:])
    n = len(next(iter(values.values())))
    # A number is an array too.
    return [_Sites({k: np.asarray(v[s]) for k, v in values.items()}) for s in range(n)]


def _as_metric(made: Any) -> Dissimilarity:
    """Return what a user's function made of a draw as a metric."""
    if isinstance(made, Dissimilarity):
        return made
    if np.ndim(made) != 2:
        raise TypeError(
            "to_metric: expected a factor (p, d) or a metric, got "
            + (f"shape {np.shape(made)}" if hasattr(made, "shape") else f"{made!r:.60}")
        )
    return Mahalanobis(np.asarray(made))
