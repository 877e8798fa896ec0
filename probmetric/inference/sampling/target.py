"""``Target``: a log density of unconstrained arrays, and the quantities to report.

A NumPyro model becomes such a target by moving every latent site to the real line
(NumPyro's own bijections, Jacobians included) and reporting every site and every
deterministic of it. Arrays are arguments of the compiled functions; Python numbers,
strings and None among the model's arguments are part of the program, as the model may
branch on them (a flat prior is ``lam=0``). The same model with arguments of the same
shapes is therefore one target, compiled once.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from inspect import signature
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
import numpyro
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, Int, PyTree
from numpyro.distributions import biject_to
from numpyro.infer.util import compute_log_probs, constrain_fn, potential_energy

from probmetric.arguments import check_number
from probmetric.precision import in_native_order, numpy_in_numpy_out
from probmetric.typing import Array, ArrayLike, Scalar

type Model = Callable[..., None]
"""A NumPyro model."""

type Args = tuple[PyTree, ...]
type Kwargs = Mapping[str, PyTree]
"""What a model is called with: arrays and static Python values, nested."""

type Arrays = dict[str, Array]
"""Functionals, sites or statistics by name."""

type Start = Gaussian | PyTree
"""An approximation, or a position."""

type Seed = Int[Array, ""]

type Attribute = str | int | float | None
"""What is said of a run, beside its draws."""


class Target(NamedTuple):
    """A posterior, as module-level pure functions (static for compilation).

    Attributes
    ----------
    log_density : callable
        ``log_density(position, data)``: natural log, up to a constant, of the
        density of ``position``, a pytree of unconstrained arrays.
    functionals : callable
        ``functionals(position, data) -> dict of arrays``: what is reported, and what
        R-hat and effective sample sizes stand on. Identified quantities only.
    parts : callable, optional
        ``parts(position, data) -> (log prior by site, log likelihood)``, scalars: the
        log prior in the coordinates of the model, without the Jacobian of the way to
        ``position``; the log likelihood as ``log_density`` has it, learning rate and
        weights included. What power scaling stands on.

    Examples
    --------
    A normal number of standard deviation 2, and its square:

    >>> import numpy as np
    >>> import probmetric as pm
    >>> def log_density(x, sd):
    ...     return -0.5 * (x[0] / sd) ** 2
    >>> def functionals(x, sd):
    ...     return {"x": x[0], "square": x[0] ** 2}
    >>> start = Gaussian(np.zeros(1), 2 * np.eye(1))
    >>> target = Target(log_density, functionals)
    >>> draws = pm.sample(target, 2.0, method="laplace", start=start)
    >>> bool(1.9 < draws["posterior"]["x"].std() < 2.1)
    True
    """

    log_density: Callable[[PyTree, PyTree], Scalar]
    functionals: Callable[[PyTree, PyTree], Arrays]
    parts: Callable[[PyTree, PyTree], tuple[Arrays, Scalar]] | None = None


class Gaussian(NamedTuple):
    """A Gaussian over positions: the Laplace approximation of a closed form.

    Attributes
    ----------
    mean : pytree of arrays
        A position.
    factor : array of shape (k, m)
        Any square root of the covariance, covariance = factor factorᵀ, in the order
        of ``jax.flatten_util.ravel_pytree(mean)``; m < k leaves directions out.

    Examples
    --------
    >>> import numpy as np
    >>> covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    >>> found = Gaussian(np.zeros(2), np.linalg.cholesky(covariance))
    >>> np.allclose(found.factor @ found.factor.T, covariance)
    True
    """

    mean: PyTree
    factor: Float[Array, "k m"]


class Posterior(NamedTuple):
    """What a sampler draws from.

    Attributes
    ----------
    target : Target
    data : pytree of arrays
        Passed to the target.
    start : Gaussian, or pytree of arrays
        The Laplace approximation of a closed form, or a position.

    Examples
    --------
    What ``pm.sample`` makes of its arguments, and hands to a sampler:

    >>> import numpy as np
    >>> import probmetric as pm
    >>> def log_density(x, sd):
    ...     return -0.5 * (x[0] / sd) ** 2
    >>> target = Target(log_density, lambda x, sd: {"x": x[0]})
    >>> posterior = Posterior(target, 2.0, Gaussian(np.zeros(1), np.eye(1)))
    >>> drawn = pm.Laplace().draw(posterior, seed=0, n_draws=10, n_chains=1)
    >>> drawn.values["x"].shape
    (1, 10)
    """

    target: Target
    data: PyTree
    start: Start


class Draws(NamedTuple):
    """What a sampler returns, as NumPy arrays.

    Attributes
    ----------
    values : dict of arrays of shape (n_chains, n_draws, ...)
        The functionals.
    statistics : dict of arrays of shape (n_chains, n_draws)
        Of the sampler; empty for independent draws.
    attributes : dict
        Method and settings, for the provenance; ``khat`` for approximations.
    log_prior : dict of arrays of shape (n_chains, n_draws)
        By site; empty where the target has no ``parts``.
    log_likelihood : array of shape (n_chains, n_draws), optional
        Of all the data, as the posterior has it: learning rate and weights included.

    Examples
    --------
    >>> import numpy as np
    >>> drawn = Draws({"x": np.zeros((4, 100))}, {}, {"method": "by hand"})
    >>> drawn.values["x"].shape, len(drawn.log_prior)
    ((4, 100), 0)
    """

    values: dict[str, np.ndarray]
    statistics: dict[str, np.ndarray]
    attributes: Mapping[str, Attribute]
    log_prior: Mapping[str, np.ndarray] = MappingProxyType({})
    log_likelihood: np.ndarray | None = None


_PRIOR, _LIKELIHOOD = "log_prior/", "log_likelihood/"
"""How the parts of a density are named among what a compiled sampler reports."""


def report(target: Target, position: PyTree, data: PyTree) -> Arrays:
    """Return the functionals, and the parts of the density for ``as_draws``."""
    values = target.functionals(position, data)
    if target.parts is None:
        return values
    return {**values, **named_parts(*target.parts(position, data))}


def named_parts(prior: Mapping[str, Any], likelihood: Any) -> Arrays:
    """Return what ``Target.parts`` returns as one dict."""
    return {**{_PRIOR + k: v for k, v in prior.items()}, _LIKELIHOOD: likelihood}


def as_draws(
    reported: Mapping[str, np.ndarray],
    statistics: dict[str, np.ndarray],
    attributes: Mapping[str, Attribute],
) -> Draws:
    """Return draws of what ``report`` returned, densities apart from functionals."""
    prior = {k: v for k, v in reported.items() if k.startswith(_PRIOR)}
    rest = {k: v for k, v in reported.items() if k not in prior}
    likelihood = rest.pop(_LIKELIHOOD, None)
    named = {k.removeprefix(_PRIOR): v for k, v in prior.items()}
    return Draws(rest, statistics, attributes, named, likelihood)


@numpy_in_numpy_out
def gaussian_draw(gaussian: Gaussian, noise: Float[Array, "m"]) -> PyTree:
    """Return mean + factor · noise as a position."""
    flat, unravel = ravel_pytree(gaussian.mean)
    return unravel(flat + gaussian.factor @ noise)


@lru_cache(maxsize=64)
def whitened(target: Target) -> Target:
    """Return the target of noise e and (start, data) at position start(e).

    Under it a posterior that the Gaussian ``start`` approximates is a standard normal.
    """

    def log_density(noise: Array, data: tuple[Gaussian, PyTree]) -> Scalar:
        return target.log_density(gaussian_draw(data[0], noise), data[1])

    def functionals(noise: Array, data: tuple[Gaussian, PyTree]) -> Arrays:
        return target.functionals(gaussian_draw(data[0], noise), data[1])

    def parts(noise: Array, data: tuple[Gaussian, PyTree]) -> tuple[Arrays, Scalar]:
        assert target.parts is not None
        return target.parts(gaussian_draw(data[0], noise), data[1])

    return Target(log_density, functionals, target.parts and parts)


def cast[T](tree: T, dtype: str | np.dtype) -> T:
    """Put the arrays of a tree on the device, floating ones in the given dtype.

    They are cast on the host: an array operation there would compile for each shape.
    """

    def one(leaf: ArrayLike) -> ArrayLike:
        if type(leaf) in (bool, int, float, str):
            return leaf
        array = in_native_order(np.asarray(leaf))
        floating = np.issubdtype(array.dtype, np.floating)
        return jax.device_put(array.astype(dtype) if floating else array)

    return jax.tree.map(one, tree)


def is_double(dtype: str) -> bool:
    """Read the precision asked for."""
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype: expected 'float64' or 'float32', got {dtype!r}")
    return dtype == "float64"


def counts(
    n_draws: object, n_chains: object, default_chains: int = 1
) -> tuple[int, int]:
    """Check the numbers of draws and chains and return them as ints.

    Without a number of chains independent draws are one chain: ``n_draws`` of them.
    """
    n_chains = default_chains if n_chains is None else n_chains
    return (
        check_number("n_draws", n_draws, 1, whole=True),
        check_number("n_chains", n_chains, 1, whole=True),
    )


def call_of(
    model: Model,
    data: PyTree,
    args: Sequence[PyTree] = (),
    kwargs: Kwargs | None = None,
    *,
    prior: PyTree = None,
) -> Args:
    """Return what a NumPyro model is called with: data, prior, and further arguments.

    A model whose data set shapes names in ``prepare`` what to do before tracing.

    Raises
    ------
    TypeError
        For what is no function, or does not take these arguments; for one argument
        that is given as if it were a tuple of them.
    """
    name = getattr(model, "__name__", type(model).__name__)
    if not callable(model) or isinstance(model, type):
        raise TypeError(
            "model: expected a NumPyro model, a function model(data, ...) that calls "
            f"numpyro.sample, got {name}"
            + (
                ", a learner, which has its own .sample"
                if hasattr(model, "fit")
                else ""
            )
        )
    if not isinstance(args, list | tuple) or hasattr(args, "_fields"):
        raise TypeError(
            "args: expected a tuple of what the model takes after the data, as "
            f"args=(prior,), got {type(args).__name__}"
        )
    given = (data, *(() if prior is None else (prior,)), *args)
    takes = signature(model)
    try:
        takes.bind(*given, **(kwargs or {}))
    except TypeError as error:
        by_name = f" and {sorted(kwargs)} by name" if kwargs else ""
        raise TypeError(
            f"model: expected a function model(data, *args, **kwargs) of {len(given)} "
            f"arguments{by_name}, as given here, got {name}{takes}: {error}; what it "
            "takes beside the data is given as args=(...) or kwargs={...} (for "
            "validate, as the problem's prior and options)"
        ) from error
    prepare = getattr(model, "prepare", None)
    return given if prepare is None else (prepare(data), *given[1:])


def model_target(
    model: Model, args: Args, kwargs: Kwargs
) -> tuple[Target, list[Array], dict[str, jax.ShapeDtypeStruct]]:
    """Return a NumPyro model with its arguments as a target.

    Parameters
    ----------
    model : callable
        ``model(*args, **kwargs)`` with observed data among its arguments.
    args, kwargs : tuple, dict
        Pytrees of arrays and static Python values.

    Returns
    -------
    target : Target
        The same object whenever the model, the tree of arguments and the static
        values are the same.
    data : list of arrays
        The arrays among the arguments: the target's ``data``.
    prototype : dict of ShapeDtypeStruct
        Shape of a position: one unconstrained array a latent site.

    Raises
    ------
    ValueError
        A discrete latent site; a subsampled plate (MCMC would keep one subsample for
        ever); a model without latent or observed sites.

    Examples
    --------
    >>> import numpy as np, numpyro, numpyro.distributions as dist
    >>> from probmetric.inference.sampling import model_target
    >>> def model(data):
    ...     mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    ...     numpyro.sample("x", dist.Normal(mu, 1.0), obs=data)
    >>> target, data, prototype = model_target(model, (np.zeros(1),), {})
    >>> value = target.log_density({"mu": 0.0}, data)
    >>> list(prototype), round(float(value), 4)  # -log 2π
    (['mu'], -1.8379)
    """
    tree, static, data = split_arguments(args, kwargs)
    target = _cached_target(model, tree, static)

    def trace(data: list[Array]) -> Arrays:
        return _prototype(model, *fill_arguments(tree, static, data))

    return target, data, jax.eval_shape(trace, data)


class _Fixed(NamedTuple):
    """A static argument; its type counts, as 1 == 1.0 == True."""

    kind: type
    value: Hashable


type Tree = Hashable
"""How a model's arguments nest, of ``jax.tree.structure``."""

type Static = tuple[_Fixed | None, ...]
"""The Python values among a model's arguments; None where an array stands."""


def _static(leaf: object) -> _Fixed | None:
    return _Fixed(type(leaf), leaf) if type(leaf) in (bool, int, float, str) else None


def split_arguments(args: Args, kwargs: Kwargs) -> tuple[Tree, Static, list[Array]]:
    """Split (args, kwargs) into their tree, their static values, and their arrays."""
    leaves, tree = jax.tree.flatten(in_native_order((args, kwargs)))
    static = tuple(_static(leaf) for leaf in leaves)
    arrays = [a for a, fixed in zip(leaves, static, strict=True) if fixed is None]
    # A number of NumPy, such as np.float64(1.0), is an array without axes.
    arrays = [np.asarray(a) if isinstance(a, np.generic) else a for a in arrays]
    return tree, static, arrays


def fill_arguments(
    tree: Tree, static: Static, data: Iterable[Array]
) -> tuple[Args, dict[str, PyTree]]:
    """Put arrays and static values back into (args, kwargs)."""
    arrays = iter(data)
    leaves = [next(arrays) if fixed is None else fixed.value for fixed in static]
    return jax.tree.unflatten(tree, leaves)


@lru_cache(maxsize=64)
def _cached_target(model: Model, tree: Tree, static: Static) -> Target:
    def log_density(position: Arrays, data: list[Array]) -> Scalar:
        args, kwargs = fill_arguments(tree, static, data)
        return -potential_energy(model, args, kwargs, position)

    def functionals(position: Arrays, data: list[Array]) -> Arrays:
        args, kwargs = fill_arguments(tree, static, data)
        return constrain_fn(model, args, kwargs, position, return_deterministic=True)

    def parts(position: Arrays, data: list[Array]) -> tuple[Arrays, Scalar]:
        args, kwargs = fill_arguments(tree, static, data)
        sites = constrain_fn(model, args, kwargs, position)
        return site_densities(model, args, kwargs, sites)

    # Under this name a checkpoint knows the model, and its static arguments.
    fixed = [leaf.value for leaf in static if leaf is not None]
    name = getattr(model, "__qualname__", type(model).__qualname__)
    log_density.__qualname__ = f"{name}{tuple(fixed)}"
    return Target(log_density, functionals, parts)


def site_densities(
    model: Model, args: Args, kwargs: Kwargs, sites: Arrays
) -> tuple[Arrays, Scalar]:
    """Return the log density of each latent site, and that of all observed ones."""
    found, trace = compute_log_probs(model, args, dict(kwargs), sites)
    prior: Any = {k: v for k, v in found.items() if not trace[k]["is_observed"]}
    return prior, sum(v for k, v in found.items() if k not in prior)


def _prototype(model: Model, args: Args, kwargs: Kwargs) -> Arrays:
    """Trace the model once, check that it can be sampled, return a position."""
    seeded = numpyro.handlers.seed(model, jax.random.key(0))
    try:
        sites = numpyro.handlers.trace(seeded).get_trace(*args, **kwargs)
    except RuntimeError as error:  # What a distribution without .sample raises.
        raise ValueError(
            "model: expected sites that can be drawn, got one without .sample, as "
            "numpyro.distributions.ImproperUniform: give a proper prior"
        ) from error
    position: Arrays = {}
    observed = False
    for name, site in sites.items():
        if site["type"] == "plate":
            size, subsample = site["args"]
            if subsample is not None and subsample != size:
                raise ValueError(
                    f"model: expected the full data in plate {name!r}, got a subsample "
                    f"of {subsample} of {size}: MCMC would keep one subsample for ever"
                    " (use method='svi')"
                )
        if site["type"] != "sample":
            continue
        if site["is_observed"]:
            observed = True
        elif site["fn"].support.is_discrete:
            raise ValueError(
                f"model: expected continuous latent sites, got the discrete {name!r}: "
                "sum it out (numpyro.distributions.MixtureSameFamily)"
            )
        else:
            bijection = biject_to(site["fn"].support)
            position[name] = bijection.inv(site["value"])
    if not position or not observed:
        raise ValueError(
            "model: expected latent and observed sites, got latent "
            f"{sorted(position)} and {'some' if observed else 'no'} observed ones"
        )
    return position
