"""Sample a model: NUTS, a variational guide, or the Laplace approximation.

One function for every NumPyro model, the package's and a user's own, and for every
``Target`` (a log density of unconstrained arrays, such as LCA's pooled one). The
sampler is blocks of one compiled kernel (``sampling.kernel``), so that a second fit
with the same shapes compiles nothing and a long run can be resumed.
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
from probmetric.inference.sampling.predictive import (
    log_likelihoods,
    plain,
    predictions,
)
from probmetric.inference.sampling.predictive import (
    prior_draws as draws_of_prior,
)
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import (
    Arrays,
    Draws,
    Kwargs,
    Model,
    Posterior,
    Start,
    Static,
    Target,
    Tree,
    call_of,
    cast,
    counts,
    fill_arguments,
    is_double,
    model_target,
    split_arguments,
)
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.typing import Array, Names

SAMPLERS = (NUTS, SVI, Laplace)

if TYPE_CHECKING:
    Method = Literal["nuts", "svi", "laplace"] | NUTS | SVI | Laplace
else:
    Method = Any


def sampler_of[S](method: object, kinds: tuple[type[S], ...] = SAMPLERS) -> S:
    """Return a sampler; a short name ("nuts") stands for one with its defaults.

    Parameters
    ----------
    method : str or sampler
    kinds : tuple of types, default (NUTS, SVI, Laplace)
        What is possible here.

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(method, kinds):
        return method
    known = {kind.__name__.lower(): kind for kind in kinds}
    if not isinstance(method, str) or method not in known:
        made = ", ".join(f"{kind.__name__}(...)" for kind in kinds)
        raise ValueError(
            f"method: expected one of {', '.join(map(repr, known))}, or {made}, got "
            f"{method!r}"
        )
    return known[method]()


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

    Parameters
    ----------
    model : callable or Target
        A NumPyro model, called as ``model(data, *args, **kwargs)``; or a ``Target``.
        ``model.prepare``, if there, is applied to the data on the host first.
    data : pytree of arrays
        Observations included.
    method : NUTS, SVI or Laplace, or "nuts", "svi", "laplace"; default="nuts"
        A name stands for the sampler with its defaults. NUTS is exact up to Monte
        Carlo error. The other two are approximations and give independent draws in
        one chain, with their k-hat.
    seed : int, default=0
        The same seed gives the same draws on the same machine.
    args : tuple of pytrees, default=()
        What the model takes after the data. Python numbers in it are part of the
        compiled program; arrays are arguments of it.
    kwargs : mapping, optional
        Keyword arguments of the model: ``learning_rate``, ``batch`` (SVI only), ...
    prior, options : optional
        Other names: the first of ``args``, and ``kwargs``.
    start : Gaussian, or pytree of arrays, optional
        The Laplace approximation of a closed form (``Gaussian``, over unconstrained
        values: for NUTS the start, and the coordinates as for SVI; for Laplace the
        answer), or an unconstrained position (for Laplace where to
        look for the mode; otherwise read for its shapes). Required for a ``Target``.
    n_draws : int, default=1000
    n_chains : int, optional
        Default: 4 for NUTS, otherwise 1.
        The approximations draw ``n_chains * n_draws`` in one chain.
    feature_names, dims, coords : optional
        As in ``to_datatree``.
    identified : sequence of str, optional
        Quantities that R-hat and effective sample sizes are judged on (NUTS). A map
        W that is known up to rotation should not be among them, M = WᵀW should.
        Default: all.
    log_likelihood : bool, default=False
        Store the log likelihood of every observation under every draw
        (n_chains × n_draws × n_observations numbers), without learning rate or data
        weights. Where these are not one, or pairs share points, the group has a
        second variable, ``power``, and ``az.loo`` refuses it: see ``to_datatree``.
        NumPyro models only.
    log_prior : bool, default=True
        Store the log prior density of each site, and the log likelihood of all data,
        under every draw: two numbers and more a draw, at the cost of one evaluation
        beside the sampler's dozens. ``az.psense_summary`` stands on them. Of a
        ``Target`` where it has ``parts``.
    predictive : bool, default=False
        Store new observations under every draw, ``posterior_predictive``, as large as
        the log likelihood. One more program is compiled. NumPyro models only.
    prior_draws : int, optional
        Store as many draws of the prior and of new observations under them, ``prior``
        and ``prior_predictive``. One or two more programs are compiled. NumPyro models
        with proper priors only. Default: none.
    dtype : {"float64", "float32"}, default="float64"
        Precision, in a scope of its own; no global flag is touched.
    progress : bool, optional
        Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

    Returns
    -------
    DataTree
        Groups posterior, sample_stats (NUTS, in ArviZ's names), log_prior,
        log_likelihood, observed_data, constant_data and, on request,
        posterior_predictive, prior and prior_predictive; versions, seed, method, data
        hash, learning rate, sum of weights and model arguments as attributes.

    Raises
    ------
    ValueError
        An unknown method; a subsample under NUTS or Laplace; a Target without start;
        and as the sampler.
    TypeError
        A model that cannot be called so, with what it takes.

    Warns
    -----
    SamplingWarning
        For what ``sampling.diagnose`` finds: divergences, saturated trees, low E-BFMI,
        high R-hat, low effective sample sizes (NUTS), a k-hat of .7 or more.

    Examples
    --------
    >>> import numpy as np, numpyro, numpyro.distributions as dist
    >>> def model(data):
    ...     mu = numpyro.sample("mu", dist.Normal(0, 1))
    ...     numpyro.sample("x", dist.Normal(mu, 1), obs=data)
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> draws = sample(model, x, method="laplace", n_draws=200, n_chains=1)
    >>> draws["posterior"]["mu"].shape
    (1, 200)
    """
    sampler = sampler_of(method)
    options = {**(options or {}), **(kwargs or {})}
    if options.get("batch") is not None and not isinstance(sampler, SVI):
        raise ValueError(
            f"options: expected the full data under {sampler}, got batch="
            f"{options['batch']}: it would keep one subsample for ever (use 'svi')"
        )
    story: Any = model
    own = not isinstance(model, Target)
    if not own and start is None:
        raise ValueError(
            "start: expected a position or Gaussian for a Target, got None"
        )
    asked = {
        "log_likelihood": log_likelihood,
        "predictive": predictive,
        "prior_draws": prior_draws,
    }
    for name, value in asked.items():
        if not own and value:
            raise ValueError(f"{name}: expected none for a Target, got {value}")
    if prior_draws is not None:
        prior_draws = check_number("prior_draws", prior_draws, 1, whole=True)
    if not own and (args or prior is not None or options):
        raise ValueError(
            "prior, options: expected none for a Target, whose data hold all that it "
            f"depends on, got {prior!r}, {options!r} and args {args!r}"
        )
    full = {k: v for k, v in options.items() if k != "batch"}
    data = jax.tree.map(
        checked_rows, data, is_leaf=lambda a: isinstance(a, Pairs | Triplets)
    )
    given = call_of(model, data, args, options, prior=prior) if own else (data,)
    observed: dict[str, np.ndarray] = {}
    likelihood, groups = None, {}
    with jax.enable_x64(is_double(dtype)):
        called, full = cast(given, dtype), cast(full, dtype)
        split = split_arguments(called, full)
        if own:
            target, arrays, shapes = model_target(model, called, full)
            observed = jax.device_get(_observed(model, *split))
        else:
            target, arrays, shapes = model, called[0], ()
        run: dict[str, Any] = {"seed": seed, "dtype": dtype, "progress": progress}
        closed = None
        if own and isinstance(sampler, SVI):
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
        if log_likelihood:
            likelihood = log_likelihoods(story, *plain(called, full), sites)
        if predictive:
            new = predictions(story, called, full, sites, list(observed), seed=seed)
            groups["posterior_predictive"] = like(observed, new)
        if prior_draws:
            found = draws_of_prior(story, called, full, prior_draws, seed=seed)
            groups["prior_predictive"] = like(observed, found)
            if closed is not None:
                found |= _reported(closed, found)
            groups["prior"] = {k: found[k] for k in draws.values}
    if not log_prior:
        draws = draws._replace(log_prior={}, log_likelihood=None)
    first = {} if prior is None else {"prior": prior}
    more = {"args": list(args)} if args else {}
    arguments = {**first, **more, **options}
    return to_datatree(
        draws,
        feature_names=feature_names,
        dims=dims,
        coords=coords,
        data=data,
        observed=observed,
        log_likelihood=likelihood,
        groups=groups,
        attributes=provenance(model, data, arguments),
    )


def _closed_form(model: Any, args: Any, kwargs: Any) -> Posterior | None:
    """Return the posterior that a model's closed form gives, if it names one.

    ``model.closed_form`` is "module:function", a name since models import no inference;
    the function takes the model's arguments. It gives the sites, from a faster density
    that starts at its mode.
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
            f"identified: expected names among {list(draws.values)}, got {unknown}"
        )
    judged = {name: draws.values[name] for name in names}
    of = draws.statistics, draws.attributes
    warn_of_trouble(judged, *of, feature_names=feature_names, dims=dims)


def like(
    observed: Mapping[str, np.ndarray], drawn: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return new observations where there are old ones: NaN where data are missing."""
    found: dict[str, np.ndarray] = {}
    for name, old in observed.items():
        missing = np.isnan(old) if np.issubdtype(old.dtype, np.floating) else None
        new = drawn[name]
        found[name] = new if missing is None else np.where(missing, np.nan, new)
    return found


def _reported(posterior: Posterior, sites: Mapping[str, np.ndarray]) -> Arrays:
    """Return a closed form's functionals at draws of its sites, all of them real."""
    at = {name: sites[name][0] for name in posterior.start.mean}
    found = _functionals(posterior.target, at, cast(posterior.data, "float64"))
    return {name: np.asarray(value)[None] for name, value in found.items()}


@partial(jax.jit, static_argnames="target")
def _functionals(target: Target, at: Arrays, data: PyTree) -> Arrays:
    return jax.vmap(lambda position: target.functionals(position, data))(at)


@partial(jax.jit, static_argnames=("model", "tree", "static"))
def _observed(model: Model, tree: Tree, static: Static, data: list[Array]) -> Arrays:
    """Return the observed sites' values by name."""
    args, kwargs = fill_arguments(tree, static, data)
    seeded = numpyro.handlers.seed(model, jax.random.key(0))
    sites = numpyro.handlers.trace(seeded).get_trace(*args, **kwargs)
    return {
        name: site["value"]
        for name, site in sites.items()
        if site["type"] == "sample" and site["is_observed"]
    }
