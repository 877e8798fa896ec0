"""Sample a model: NUTS, a variational guide, or the Laplace approximation.

``sample`` accepts every NumPyro model and every ``Target``, such as LCA's pooled
density.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
import numpyro
import xarray as xr
from jaxtyping import PyTree

from probmetric.arguments import check_number
from probmetric.data.containers import Pairs, Triplets, checked_rows
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.predictive import log_likelihoods, plain, predictions
from probmetric.inference.sampling.predictive import prior_draws as draws_of_prior
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import (
    Args,
    Arrays,
    Call,
    Draws,
    Kwargs,
    Model,
    Posterior,
    Start,
    Target,
    call_of,
    cast,
    counts,
    is_double,
    model_target,
)
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.typing import Names

SAMPLERS = (NUTS, SVI, Laplace)

if TYPE_CHECKING:
    Method = Literal["nuts", "svi", "laplace"] | NUTS | SVI | Laplace
    NutsOrLaplace = Literal["nuts", "laplace"] | NUTS | Laplace
else:
    Method = NutsOrLaplace = Any


def sampler_of[S](method: object, kinds: tuple[type[S], ...] = SAMPLERS) -> S:
    """Return a sampler; a name ("nuts") selects the sampler with default settings."""
    if isinstance(method, kinds):
        return method
    by_name = {kind.__name__.lower(): kind for kind in kinds}
    if not isinstance(method, str) or method not in by_name:
        instances = ", ".join(f"{kind.__name__}(...)" for kind in kinds)
        raise ValueError(
            f"method must be one of {', '.join(map(repr, by_name))}, or {instances}, "
            f"got {method!r}"
        )
    return by_name[method]()


TARGET_ACCEPT = 0.95
"""Target acceptance of "nuts" in ``careful``, for funnels, long tails and rotations."""


def careful(method: NutsOrLaplace | str) -> NUTS | Laplace:
    """Return NUTS or Laplace; "nuts" selects NUTS with small steps for hard targets."""
    sampler = sampler_of(method, (NUTS, Laplace))
    if isinstance(method, str) and isinstance(sampler, NUTS):
        return NUTS(target_accept=TARGET_ACCEPT)
    return sampler


def sample(
    model: "Callable[..., None] | Target",
    data: PyTree,
    *,
    method: Method = "nuts",
    seed: int = 0,
    args: Sequence[PyTree] = (),
    kwargs: Kwargs | None = None,
    prior: PyTree = None,
    options: Kwargs | None = None,
    start: Start | None = None,
    n_chains: int | None = None,
    n_draws: int = 1000,
    feature_names: Sequence[str] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence[object]] | None = None,
    identified: Sequence[str] | None = None,
    log_likelihood: bool = False,
    log_prior: bool = True,
    predictive: bool = False,
    prior_draws: int | None = None,
    dtype: str = "float64",
    progress: bool | None = None,
) -> xr.DataTree:
    """Sample the posterior of a model, exactly (NUTS) or approximately.

    Each problem with the draws that ``sampling.diagnose`` detects causes a
    ``SamplingWarning``.

    Parameters
    ----------
    model : callable or Target
        NumPyro model, called as ``model(data, *args, **kwargs)``, or a ``Target``, an
        object with a function for the log density.
    data : pytree of arrays
        Data of the model, including the observations: an array, a tuple, a dict, or a
        container of ``pm.data``.
    method : NUTS, SVI or Laplace, or "nuts", "svi", "laplace"; default="nuts"
        Sampler, or its name for default settings.

        - NUTS: exact up to Monte Carlo error.
        - SVI (variational inference) and Laplace (a Gaussian at the mode): independent
          draws of an approximation, in one chain. The attribute ``khat`` is a
          diagnostic of the approximation: below 0.7 is reliable.
    seed : int, default=0
        Seed of the draws. The same seed gives the same draws on the same machine.
    args : tuple of pytrees, default=()
        Arguments of the model after the data. A new Python number causes a new
        compilation. Use arrays for values that change between calls.
    kwargs : mapping, optional
        Keyword arguments of the model. For example, ``learning_rate`` is the power of
        the likelihood in the package's models. A model's argument ``batch``, the number
        of observations per step, requires SVI.
    prior, options : optional
        Other names for arguments of the model, as in ``Problem``. ``prior=p, args=a``
        is the same as ``args=(p, *a)``. ``options`` are added to ``kwargs``.
    start : Gaussian, or pytree of arrays, optional
        Where the sampler starts. Default: chosen for a NumPyro model, required for a
        ``Target``. Use coordinates without bounds, such as the log of a positive
        parameter.

        - A ``Gaussian`` that approximates the posterior. NUTS starts near it, with its
          scales. Laplace draws from it. SVI uses it only for a ``Target``.
        - A position: arrays of parameter values. Laplace starts its search for the mode
          there. NUTS and SVI use only the shapes of the arrays.
    n_draws : int, default=1000
        Number of draws of each chain.
    n_chains : int, optional
        Number of chains. Default: 4 for NUTS, otherwise 1. SVI and Laplace return
        ``n_chains * n_draws`` draws in one chain.
    feature_names : sequence of str, optional
        Names of the features: labels along the axes ``feature`` and ``feature_bis``
        (the second axis of a matrix). Default: x0, x1, ...
    dims : mapping of str to sequence of str, optional
        Names of the axes of each quantity, after chain and draw. Default: (feature,
        feature_bis) for a quantity ``M``, and (latent, feature) for ``W``.
    coords : mapping of str to sequence, optional
        Labels along other axes, for example ``{"group": ["a", "b"]}``.
    identified : sequence of str, optional
        Quantities to check after NUTS by effective sample sizes and R-hat, which is
        near 1 if the chains agree. Default: all. Omit quantities that the data cannot
        determine. For example, a rotation of a linear map W does not change the
        metric, so check M = WᵀW instead of W.
    log_likelihood : bool, default=False
        Whether to store the log likelihood of every observation under every draw, which
        ``loo`` requires (n_chains × n_draws × n_observations numbers). The values
        ignore ``learning_rate`` and data weights. Only for NumPyro models.

        If ``learning_rate`` or a weight is not 1, or if pairs share points,
        leave-one-out is not valid. ``loo`` and ``az.loo`` then raise an error.
    log_prior : bool, default=True
        Whether to store two terms under every draw, which ``az.psense_summary``
        requires: the log likelihood of all data, and the log prior density of each
        named variable (NumPyro sample site). For a ``Target``, its function ``parts``
        must compute them.
    predictive : bool, default=False
        Whether to simulate observations under every draw, and store them as
        ``posterior_predictive``. This requires one more compilation, and as much memory
        as the log likelihood. Only for NumPyro models.
    prior_draws : int, optional
        Number of draws from the prior, stored as ``prior``. Observations simulated from
        these draws are stored as ``prior_predictive``. Requires one or two more
        compilations, and a NumPyro model without flat priors. Default: no draws.
    dtype : {"float64", "float32"}, default="float64"
        Floating-point precision. It is set only during this call.
    progress : bool, optional
        Whether to show progress. Default: a bar in terminals and notebooks, otherwise a
        line every 10 s.

    Returns
    -------
    DataTree
        Groups of draws and data, with ArviZ's names:

        - ``posterior``, and ``sample_stats`` for NUTS.
        - ``log_prior``, ``log_likelihood``, ``observed_data`` and ``constant_data``.
        - On request ``posterior_predictive``, ``prior`` and ``prior_predictive``.

        The attributes are versions, seed, method, data hash, learning rate, sum of
        weights and model arguments.

    Examples
    --------
    >>> import numpy as np, numpyro, numpyro.distributions as dist
    >>> def model(data):
    ...     mu = numpyro.sample("mu", dist.Normal(0, 1))
    ...     numpyro.sample("x", dist.Normal(mu, 1), obs=data)
    >>> draws = sample(model, np.arange(3.0), method="laplace", n_draws=200)
    >>> draws["posterior"]["mu"].shape
    (1, 200)
    """
    sampler = sampler_of(method)
    options = {**(options or {}), **(kwargs or {})}
    if options.get("batch") is not None and not isinstance(sampler, SVI):
        raise ValueError(
            f"options must not contain batch for {sampler}, got {options['batch']}. "
            "The sampler would use one subsample in all iterations. Use method='svi'."
        )
    if isinstance(model, Target):
        if start is None:
            raise ValueError(
                "start must be a position or Gaussian for a Target, got None. Pass "
                "start=..."
            )
        for name, value in {
            "log_likelihood": log_likelihood,
            "predictive": predictive,
            "prior_draws": prior_draws,
        }.items():
            if value:
                raise ValueError(
                    f"{name} must not be set for a Target, got {value}. Omit {name}, "
                    "or use a NumPyro model."
                )
        if args or prior is not None or options:
            raise ValueError(
                "prior, options and args must not be set for a Target, got "
                f"{prior!r}, {options!r} and {args!r}. Put these values into data."
            )
    if prior_draws is not None:
        prior_draws = check_number("prior_draws", prior_draws, 1, whole=True)
    full = {k: v for k, v in options.items() if k != "batch"}
    data = jax.tree.map(
        checked_rows, data, is_leaf=lambda a: isinstance(a, Pairs | Triplets)
    )
    arguments = (
        (data,)
        if isinstance(model, Target)
        else call_of(model, data, args, options, prior=prior)
    )
    observed: dict[str, np.ndarray] = {}
    likelihood, groups = None, {}
    with jax.enable_x64(is_double(dtype)):
        called, full = cast(arguments, dtype), cast(full, dtype)
        if isinstance(model, Target):
            call, target, arrays, shapes = None, model, called[0], ()
        else:
            target, call, shapes = model_target(model, called, full)
            arrays = call
            observed = jax.device_get(_observed(call))
        run: dict[str, Any] = {"seed": seed, "dtype": dtype, "progress": progress}
        closed = None
        if isinstance(sampler, SVI) and not isinstance(model, Target):
            run["n_draws"] = math.prod(counts(n_draws, n_chains))
            draws = sampler.draw_model(model, called, options, full_kwargs=full, **run)
        else:
            if start is None and isinstance(sampler, NUTS):
                closed = _closed_form(model, called, full)
            if start is None:
                start = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
            posterior = closed or Posterior(target, arrays, start)
            draws = sampler.draw(posterior, n_draws=n_draws, n_chains=n_chains, **run)
        _warn(draws, identified, feature_names, dims)
        sites = {k: v for k, v in draws.values.items() if k in shapes}
        if call is not None:
            if log_likelihood:
                likelihood = log_likelihoods(plain(call), sites)
            if predictive:
                new = predictions(call, sites, list(observed), seed=seed)
                groups["posterior_predictive"] = like(observed, new)
            if prior_draws:
                priors = draws_of_prior(call, prior_draws, seed=seed)
                groups["prior_predictive"] = like(observed, priors)
                if closed is not None:
                    priors |= _reported(closed, priors)
                groups["prior"] = {k: priors[k] for k in draws.values}
    if not log_prior:
        draws = draws._replace(log_prior={}, log_likelihood=None)
    settings = {
        **({} if prior is None else {"prior": prior}),
        **({"args": list(args)} if args else {}),
        **options,
    }
    return to_datatree(
        draws,
        feature_names=feature_names,
        dims=dims,
        coords=coords,
        data=data,
        observed=observed,
        log_likelihood=likelihood,
        groups=groups,
        attributes=provenance(model, data, settings),
    )


def _closed_form(model: Model | Target, args: Args, kwargs: Kwargs) -> Posterior | None:
    """Return the posterior from a model's closed form, or None.

    ``model.closed_form`` is the string "module:function", because models do not import
    inference. The posterior has a faster density of the same sites, and its mode as
    start.
    """
    name = getattr(model, "closed_form", None)
    if name is None or len(args) < 2:
        return None
    return resolve_name(name)(*jax.device_get(args), **jax.device_get(kwargs))


def _warn(
    draws: Draws,
    identified: Sequence[str] | None,
    feature_names: Names | None,
    dims: Mapping[str, Sequence[str]] | None,
) -> None:
    names = list(draws.values if identified is None else identified)
    unknown = [name for name in names if name not in draws.values]
    if unknown:
        raise ValueError(
            f"identified must only contain names of {list(draws.values)}, got {unknown}"
        )
    chosen = draws._replace(values={name: draws.values[name] for name in names})
    warn_of_trouble(chosen, feature_names=feature_names, dims=dims)


def like(
    observed: Mapping[str, np.ndarray], drawn: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return new observations, with NaN where entries of the data are missing."""
    return {
        name: np.where(np.isnan(old), np.nan, drawn[name])
        if np.issubdtype(old.dtype, np.floating)
        else drawn[name]
        for name, old in observed.items()
    }


def _reported(posterior: Posterior, sites: Mapping[str, np.ndarray]) -> Arrays:
    positions = {name: sites[name][0] for name in posterior.start.mean}
    data = cast(posterior.data, "float64")
    values = _functionals(posterior.target, positions, data)
    return {name: np.asarray(value)[None] for name, value in values.items()}


@partial(jax.jit, static_argnames="target")
def _functionals(target: Target, positions: Arrays, data: PyTree) -> Arrays:
    return jax.vmap(lambda position: target.functionals(position, data))(positions)


@jax.jit
def _observed(call: Call) -> Arrays:
    seeded = numpyro.handlers.seed(call.model, jax.random.key(0))
    sites = numpyro.handlers.trace(seeded).get_trace(*call.args, **call.kwargs)
    return {
        name: site["value"]
        for name, site in sites.items()
        if site["type"] == "sample" and site["is_observed"]
    }
