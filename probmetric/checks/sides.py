"""Sides that many checks share: NumPyro's density, its draws, the falls of an EM.

And what every Mahalanobis metric promises: one distance, whichever way it is asked for,
also where squares of differences are no numbers of float64, at 1e±250.
"""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

import jax
import numpy as np
import numpyro
import xarray as xr
from jaxtyping import Float
from numpyro.infer.util import log_density

from probmetric.checks.check import Check, Problem, Values, by_algebra
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import (
    Args,
    Arrays,
    Attribute,
    Draws,
    Kwargs,
    Model,
    Posterior,
    Static,
    Tree,
    fill_arguments,
    model_target,
    split_arguments,
)
from probmetric.inference.solvers.em import run_em
from probmetric.metric import Mahalanobis
from probmetric.metric.mean import mean_metric
from probmetric.typing import Array, Scalar

SIZES = {"": 1.0, " at 1e100": 1e100, " at 1e200": 1e200, " at 1e-100": 1e-100}
SIZES |= {" at 1e-200": 1e-200, " at 1e250": 1e250, " at 1e-250": 1e-250}


def density_of(
    model: Model, args: Args, options: Kwargs
) -> Callable[[Mapping[str, Array]], tuple[Array, Arrays]]:
    """Return NumPyro's log density and its gradient, as a function of the sites.

    Claims about one model share what is compiled: its data are arguments, no constants.
    """
    tree, static, arrays = split_arguments(args, dict(options))

    def density(sites: Mapping[str, Array]) -> tuple[Array, Arrays]:
        return _value_and_gradient(dict(sites), arrays, model, tree, static)

    return density


@partial(jax.jit, static_argnames=("model", "tree", "static"))
def _value_and_gradient(
    sites: Arrays, arrays: list[Array], model: Model, tree: Tree, static: Static
) -> tuple[Array, Arrays]:
    def density(sites: Arrays) -> Scalar:
        args, kwargs = fill_arguments(tree, static, arrays)
        return log_density(model, args, kwargs, sites)[0]

    return jax.value_and_grad(density)(sites)


def sampled(
    model: Model,
    args: Args,
    options: Kwargs | None = None,
    *,
    seed: int,
    n_draws: int,
    sampler: NUTS = NUTS(),  # noqa: B008
) -> Draws:
    """Sample a NumPyro model by NUTS, told nothing of where its posterior lies."""
    with jax.enable_x64(True):
        target, data, shapes = model_target(model, args, dict(options or {}))
        origin = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
        posterior = Posterior(target, data, origin)
        return sampler.draw(posterior, seed=seed, n_draws=n_draws, progress=False)


def as_dataset(
    values: Mapping[str, Array], attrs: Mapping[str, Attribute] | None = None
) -> xr.Dataset:
    """Return draws by name, of shape (n_chains, n_draws, ...), as a Dataset."""
    columns = {
        name: (("chain", "draw", *(f"{name} {k}" for k in range(np.ndim(v) - 2))), v)
        for name, v in values.items()
    }
    return xr.Dataset(columns, attrs=attrs)


def stretched[D](
    draws: Callable[[Problem[D]], xr.Dataset],
) -> Callable[..., xr.Dataset]:
    """Return a function of a problem and ``wide``: draws, stretched about their mean.

    The draws of the last problem stay in memory, as a wrong claim asks for those of the
    right one again, and a guide's are dear.
    """
    last: list[tuple[Problem[D], xr.Dataset]] = []

    @wraps(draws)
    def widened(problem: Problem[D], wide: float = 1.0) -> xr.Dataset:
        if not last or last[0][0] is not problem:
            last[:] = [(problem, draws(problem))]
        found = last[0][1]
        middle = found.mean(("chain", "draw"))
        return (middle + wide * (found - middle)).assign_attrs(found.attrs)

    return widened


def largest_fall[P, D](
    step: Callable[[P, D], tuple[P, Scalar]], start: P, data: D, *, max_steps: int
) -> Values:
    """Return how far an EM's objective ever falls in a step, relative to its end."""
    found = run_em(step, start, data, max_steps=max_steps, tol=0.0)
    trace = np.asarray(found.trace[: int(found.n_steps)])
    fall = np.max(np.maximum(-np.diff(trace), 0.0))
    return {"largest fall": fall / np.abs(trace[-1])}


def inverse(A: Float[np.ndarray, "*n d d"]) -> Float[np.ndarray, "*n d d"]:
    """Return A⁻¹, of small matrices that a reference needs as they are."""
    return np.linalg.solve(A, np.broadcast_to(np.eye(A.shape[-1]), A.shape))


def _rows(metric: Any) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(11, metric.n_features))
    return X[:4], X[4:]


def _by_differences(
    metric: Callable[[Problem[Any]], Any], problem: Problem[Any]
) -> Values:
    """Take quadratic forms in LᵀL, difference by difference."""
    known = metric(problem)
    L, (Q, P) = np.asarray(known.factor, float), _rows(known)
    delta = Q[:, None] - P
    squared = np.einsum("mni,ij,mnj->mn", delta, L.T @ L, delta)
    found: dict[str, Array | float] = {
        "M": L.T @ L,
        "images": Q @ L.T,
        "all pairs": squared,
        "all pairs, prepared": squared,
        "one query": squared[0],
        "call": np.sqrt(squared[0, 0]),
        "call, squared": squared[0, 0],
        "mean of two metrics": 2.5 * squared,
    }
    if known.link is not None:
        b, scale = float(known.link.b), float(known.link.scale)
        found["P(same)"] = np.exp(-(b + scale * squared[0]))
    for name, size in SIZES.items():
        found["distance" + name] = np.sqrt(squared[0]) * size
    return found


def _asked(
    metric: Callable[[Problem[Any]], Any], problem: Problem[Any], turned: bool = False
) -> Values:
    """Ask the metric in each way; with its factor transposed, if asked."""
    known = metric(problem)
    Q, P = _rows(known)
    if turned:
        known = Mahalanobis(np.asarray(known.factor)[:, ::-1], known.link)
    q = np.broadcast_to(Q[0], P.shape)
    double = Mahalanobis(2 * np.asarray(known.factor))
    found: dict[str, Array | float] = {
        "M": known.matrix,
        "images": known.transform(Q),
        "all pairs": known.pairwise(Q, P),
        "all pairs, prepared": known.from_prepared(known.prepare(Q), P),
        "one query": known.dissimilarity(Q[0], P),
        "call": known(Q[0], P[0]),
        "call, squared": known(Q[0], P[0], squared=True),
        "mean of two metrics": mean_metric([known, double]).pairwise(Q, P),
    }
    if known.link is not None:
        found["P(same)"] = known.same_probability(q, P)
    for name, size in SIZES.items():
        found["distance" + name] = known.distance(size * q, size * P)
    return found


def one_distance(metric: Callable[[Problem[Any]], Any]) -> Check:
    """Return the check that a learner's metric is one distance, however asked for."""
    return by_algebra(
        "the metric is one distance, whichever way it is asked for",
        reference=partial(_by_differences, metric),
        estimate=partial(_asked, metric),
        controls={"features in another order": partial(_asked, metric, turned=True)},
    )
