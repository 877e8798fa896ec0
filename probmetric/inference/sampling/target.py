"""``Target``: a log density of unconstrained arrays, and the quantities to report.

``MODEL`` is the target of a NumPyro model and its arguments (``Call``). ``MODEL`` maps
every latent site to the real line (NumPyro's bijections, with Jacobians) and reports
every latent and deterministic site. Arrays are arguments of the compiled functions.
Python numbers, strings and None among the model's arguments are static, because a model
can branch on their values (``lam=0`` is a flat prior). Arguments with the same shapes
and static values share one compilation.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import signature
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

import jax
import jax.numpy as jnp
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
"""Arguments of a model: nested arrays and static Python values."""

type Arrays = dict[str, Array]
"""Functionals, sites or statistics by name."""

type Start = Gaussian | PyTree
"""A Gaussian approximation, or a position."""

type Seed = Int[Array, ""]

type Attribute = str | int | float | None
"""An attribute of a run."""


class Run(TypedDict, total=False):
    """Options of a sampler, as in ``sample``."""

    seed: int
    n_draws: int
    n_chains: int | None
    progress: bool | None


class Target(NamedTuple):
    """A posterior, defined by pure functions at module level.

    Attributes
    ----------
    log_density : callable
        ``log_density(position, data)`` computes the natural log of the density of
        ``position``, up to a constant. A position is a pytree of arrays, whose entries
        can be any real numbers.
    functionals : callable
        ``functionals(position, data)`` computes the quantities to report, as a dict of
        arrays. Report quantities that the data determine, because the convergence of
        chains is checked on them.
    parts : callable, optional
        ``parts(position, data)`` computes two terms for ``az.psense_summary``: a dict
        with the log prior of each parameter, and the log likelihood. The log prior is
        in the coordinates of the model, without the Jacobian of the transformation to
        ``position``. The log likelihood includes its power (learning rate) and weights.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> def log_density(x, sd):
    ...     return -0.5 * jnp.sum((x / sd) ** 2)
    >>> target = Target(log_density, lambda x, sd: {"x": x, "square": x**2})
    >>> float(target.log_density(np.ones(2), 2.0))
    -0.25
    """

    log_density: Callable[[PyTree, PyTree], Scalar]
    functionals: Callable[[PyTree, PyTree], Arrays]
    parts: Callable[[PyTree, PyTree], tuple[Arrays, Scalar]] | None = None


class Gaussian(NamedTuple):
    """A Gaussian approximation of a posterior.

    Attributes
    ----------
    mean : pytree of arrays
        Mean, as a position: arrays of numbers without bounds.
    factor : array of shape (k, m)
        Square root of the covariance: covariance = factor factorᵀ. Rows are in the
        order of ``jax.flatten_util.ravel_pytree(mean)``. The covariance is singular if
        m < k.
    """

    mean: PyTree
    factor: Float[Array, "k m"]


class Posterior(NamedTuple):
    """Input of a sampler: a target, its data, and a start.

    Attributes
    ----------
    target : Target
        Log density, and the quantities to report.
    data : pytree of arrays
        Second argument of the functions of the target.
    start : Gaussian, or pytree of arrays
        Gaussian approximation of the posterior, or a position (arrays of numbers
        without bounds).

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> target = Target(lambda x, sd: -((x[0] / sd) ** 2), lambda x, sd: {"x": x[0]})
    >>> posterior = Posterior(target, 2.0, Gaussian(np.zeros(1), np.eye(1)))
    >>> pm.Laplace().draw(posterior, seed=0, n_draws=10).values["x"].shape
    (1, 10)
    """

    target: Target
    data: PyTree
    start: Start


class Draws(NamedTuple):
    """Output of a sampler, as NumPy arrays.

    Attributes
    ----------
    values : dict of arrays of shape (n_chains, n_draws, ...)
        Quantities that the target reports.
    statistics : dict of arrays of shape (n_chains, n_draws)
        Statistics of the sampler. Empty for independent draws.
    attributes : dict
        Method and settings. Approximations also have ``khat``, a diagnostic of their
        quality, unless it was not computed.
    log_prior : dict of arrays of shape (n_chains, n_draws)
        Log prior density of each parameter. Empty if the target has no ``parts``.
    log_likelihood : array of shape (n_chains, n_draws), optional
        Log likelihood of all data, with its power (learning rate) and weights.

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
"""Prefixes of the densities among the values that a compiled sampler returns."""


def report(target: Target, position: PyTree, data: PyTree) -> Arrays:
    """Return the functionals and the terms of the log density, for ``as_draws``."""
    values = target.functionals(position, data)
    if target.parts is None:
        return values
    return {**values, **named_parts(*target.parts(position, data))}


def named_parts(prior: Arrays, likelihood: Scalar) -> Arrays:
    """Return the result of ``Target.parts`` as one dict."""
    names = {_PRIOR + k: v for k, v in prior.items()}
    return {**names, _LIKELIHOOD: jnp.asarray(likelihood)}


def as_draws(
    reported: Mapping[str, np.ndarray],
    statistics: dict[str, np.ndarray],
    attributes: Mapping[str, Attribute],
) -> Draws:
    """Return ``Draws`` from results of ``report``, with log densities separated."""
    prior = {k: v for k, v in reported.items() if k.startswith(_PRIOR)}
    values = {k: v for k, v in reported.items() if k not in prior}
    likelihood = values.pop(_LIKELIHOOD, None)
    log_prior = {k.removeprefix(_PRIOR): v for k, v in prior.items()}
    return Draws(values, statistics, attributes, log_prior, likelihood)


@numpy_in_numpy_out
def gaussian_draw(gaussian: Gaussian, noise: Float[Array, "m"]) -> PyTree:
    """Return mean + factor · noise as a position."""
    flat, unravel = ravel_pytree(gaussian.mean)
    return unravel(flat + gaussian.factor @ noise)


@lru_cache(maxsize=64)
def whitened(target: Target) -> Target:
    """Return the target in coordinates e with position = mean + factor · e."""

    def log_density(noise: Array, data: tuple[Gaussian, PyTree]) -> Scalar:
        return target.log_density(gaussian_draw(data[0], noise), data[1])

    def functionals(noise: Array, data: tuple[Gaussian, PyTree]) -> Arrays:
        return target.functionals(gaussian_draw(data[0], noise), data[1])

    def parts(noise: Array, data: tuple[Gaussian, PyTree]) -> tuple[Arrays, Scalar]:
        assert target.parts is not None
        return target.parts(gaussian_draw(data[0], noise), data[1])

    return Target(log_density, functionals, target.parts and parts)


def cast[T](tree: T, dtype: str | np.dtype) -> T:
    """Put a tree on the device, with floats as ``dtype``, without compiling."""

    def convert(leaf: ArrayLike) -> ArrayLike:
        if type(leaf) in (bool, int, float, str):
            return leaf
        array = in_native_order(np.asarray(leaf))
        floating = np.issubdtype(array.dtype, np.floating)
        return jax.device_put(array.astype(dtype) if floating else array)

    return jax.tree.map(convert, tree)


def is_double(dtype: str) -> bool:
    """Return True for "float64", False for "float32"; otherwise raise ValueError."""
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}")
    return dtype == "float64"


MOST_DRAWS = 10**7
"""Largest number of draws per chain, and of chains, because memory is limited."""


def counts(
    n_draws: object, n_chains: object, default_chains: int = 1
) -> tuple[int, int]:
    """Check the numbers of draws and chains, and return them as ints."""
    n_chains = default_chains if n_chains is None else n_chains
    return (
        check_number("n_draws", n_draws, 1, MOST_DRAWS, whole=True),
        check_number("n_chains", n_chains, 1, MOST_DRAWS, whole=True),
    )


def seed_and_total(
    *,
    seed: int,
    n_draws: int = 1000,
    n_chains: int | None = None,
    progress: bool | None = None,
) -> tuple[int, int]:
    """Return the seed and the number of independent draws of a ``Run``."""
    return seed, math.prod(counts(n_draws, n_chains))


def call_of(
    model: Model,
    data: PyTree,
    args: Sequence[PyTree] = (),
    kwargs: Kwargs | None = None,
    *,
    prior: PyTree = None,
) -> Args:
    """Return the arguments of a NumPyro model: data, prior and other arguments.

    ``model.prepare``, if defined, is applied to the data before tracing. Raises
    TypeError if the model is not a function, or does not accept the arguments.
    """
    name = getattr(model, "__name__", type(model).__name__)
    if not callable(model) or isinstance(model, type):
        remedy = ". Use the learner's .sample." if hasattr(model, "fit") else ""
        raise TypeError(
            "model must be a NumPyro model, a function model(data, ...) that calls "
            f"numpyro.sample, got {name}{remedy}"
        )
    if not isinstance(args, list | tuple) or hasattr(args, "_fields"):
        raise TypeError(
            "args must be a tuple of the model's arguments after the data, such as "
            f"(prior,), got {type(args).__name__}"
        )
    arguments = (data, *(() if prior is None else (prior,)), *args)
    parameters = signature(model)
    try:
        parameters.bind(*arguments, **(kwargs or {}))
    except TypeError as error:
        by_name = f" and {sorted(kwargs)} by name" if kwargs else ""
        raise TypeError(
            f"model must accept {len(arguments)} arguments{by_name}, got "
            f"{name}{parameters}: {error}. Pass arguments other than the data as "
            "args=(...) or kwargs={...}. For validate, use Problem(prior=, options=)."
        ) from error
    prepare = getattr(model, "prepare", None)
    return arguments if prepare is None else (prepare(data), *arguments[1:])


class _Fixed(NamedTuple):
    """A static argument with its type, because 1 == 1.0 == True in Python."""

    kind: type
    value: Hashable


def _static(leaf: object) -> _Fixed | None:
    return _Fixed(type(leaf), leaf) if type(leaf) in (bool, int, float, str) else None


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class Call:
    """A NumPyro model with its arguments, as a pytree of the arrays in the arguments.

    The model and the Python values in the arguments are static.
    """

    model: Model
    args: Args
    kwargs: Kwargs = field(default_factory=dict[str, PyTree])

    def tree_flatten(self) -> tuple[list[Array], tuple[Hashable, ...]]:
        """Return the arrays, and the model, the tree structure and static values."""
        leaves, tree = jax.tree.flatten((self.args, dict(self.kwargs)))
        static = tuple(_static(leaf) for leaf in leaves)
        arrays = [a for a, fixed in zip(leaves, static, strict=True) if fixed is None]
        # A NumPy scalar, such as np.float64(1.0), becomes an array without axes.
        arrays = [np.asarray(a) if isinstance(a, np.generic) else a for a in arrays]
        return in_native_order(arrays), (self.model, tree, static)

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], arrays: Iterable[Array]) -> "Call":
        """Put arrays and static values back into the arguments."""
        model, tree, values = static
        rest = iter(arrays)
        leaves = [next(rest) if fixed is None else fixed.value for fixed in values]
        return cls(model, *jax.tree.unflatten(tree, leaves))

    @property
    def name(self) -> str:
        """Names of the model and of its static arguments, which checkpoints compare."""
        name = getattr(self.model, "__qualname__", type(self.model).__qualname__)
        static = map(_static, jax.tree.leaves((self.args, dict(self.kwargs))))
        return f"{name}{tuple(fixed.value for fixed in static if fixed is not None)}"


def _log_density(position: Arrays, call: Call) -> Scalar:
    return -potential_energy(call.model, call.args, call.kwargs, position)


def _functionals(position: Arrays, call: Call) -> Arrays:
    return constrain_fn(
        call.model, call.args, call.kwargs, position, return_deterministic=True
    )


def _parts(position: Arrays, call: Call) -> tuple[Arrays, Scalar]:
    sites = constrain_fn(call.model, call.args, call.kwargs, position)
    return site_densities(call, sites)


MODEL = Target(_log_density, _functionals, _parts)
"""Target of unconstrained sites; the data are a ``Call``."""


def site_densities(call: Call, sites: Arrays) -> tuple[Arrays, Scalar]:
    """Return the log density of each latent NumPyro site, and of all observed sites."""
    terms, trace = compute_log_probs(call.model, call.args, dict(call.kwargs), sites)
    prior: Arrays = {k: v for k, v in terms.items() if not trace[k]["is_observed"]}
    return prior, sum(v for k, v in terms.items() if k not in prior)


def model_target(
    model: Model, args: Args, kwargs: Kwargs
) -> tuple[Target, Call, dict[str, jax.ShapeDtypeStruct]]:
    """Return the target of a NumPyro model, its data, and the shapes of a position.

    Raises ValueError if the model has a discrete latent site, a subsampled plate (MCMC
    would keep one subsample), or no latent or no observed sites.
    """
    call = Call(model, args, kwargs)
    return MODEL, call, jax.eval_shape(_prototype, call)


def _prototype(call: Call) -> Arrays:
    seeded = numpyro.handlers.seed(call.model, jax.random.key(0))
    try:
        sites = numpyro.handlers.trace(seeded).get_trace(*call.args, **call.kwargs)
    except RuntimeError as error:  # A distribution without .sample
        raise ValueError(
            "model: all sites must have proper distributions, got an improper "
            "distribution such as numpyro.distributions.ImproperUniform. Use a "
            "proper prior."
        ) from error
    position: Arrays = {}
    observed = False
    for name, site in sites.items():
        if site["type"] == "plate":
            size, subsample = site["args"]
            if subsample is not None and subsample != size:
                raise ValueError(
                    f"model must use the full data in plate {name!r}, got a subsample "
                    f"of {subsample} of {size}. MCMC would use one subsample in all "
                    "iterations. Use method='svi'."
                )
        if site["type"] != "sample":
            continue
        if site["is_observed"]:
            observed = True
        elif site["fn"].support.is_discrete:
            raise ValueError(
                "model: latent sites must be continuous, got the discrete site "
                f"{name!r}. Sum it out (numpyro.distributions.MixtureSameFamily)."
            )
        else:
            bijection = biject_to(site["fn"].support)
            position[name] = bijection.inv(site["value"])
    if not position or not observed:
        raise ValueError(
            "model must contain latent and observed sites, got latent sites "
            f"{sorted(position)} and {'some' if observed else 'no'} observed sites. "
            "Add numpyro.sample sites (with obs=... for the data)."
        )
    return position
