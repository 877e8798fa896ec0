"""Sample a model: NUTS, a variational guide, or the Laplace approximation.

One function for every NumPyro model, the package's and a user's own, and for every
``Target`` (a log density of unconstrained arrays, such as LCA's pooled one). The
sampler is blocks of one compiled kernel (``sampling.kernel``), so that a second fit
with the same shapes compiles nothing and a long run can be resumed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
import numpyro
import xarray as xr
from jaxtyping import PyTree
from numpyro.infer.util import log_likelihood as numpyro_log_likelihood

from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.nuts import NUTS
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
    cast,
    counts,
    fill_arguments,
    is_double,
    model_target,
    split_arguments,
)
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.typing import Array

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
    prior: PyTree = None,
    options: Kwargs | None = None,
    start: Start | None = None,
    n_chains: int = 4,
    n_draws: int = 1000,
    feature_names: Sequence[str] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    identified: Sequence[str] | None = None,
    log_likelihood: bool = False,
    dtype: str = "float64",
    progress: bool | None = None,
) -> xr.DataTree:
    """Sample the posterior of a model, exactly (NUTS) or approximately.

    Parameters
    ----------
    model : callable or Target
        A NumPyro model ``model(data, prior, **options)``, or ``model(data,
        **options)`` where no prior is given; or a ``Target``. ``model.prepare``, if
        there, is applied to the data on the host first.
    data : pytree of arrays
        Observations included.
    method : NUTS, SVI or Laplace, or "nuts", "svi", "laplace"; default="nuts"
        A name stands for the sampler with its defaults. NUTS is exact up to Monte
        Carlo error. The other two are approximations and give independent draws in
        one chain, with their k-hat.
    seed : int, default=0
        The same seed gives the same draws on the same machine.
    prior : pytree, optional
        Second argument of the model. Python numbers in it are part of the compiled
        program; arrays are arguments of it.
    options : mapping, optional
        Keyword arguments of the model: ``learning_rate``, ``batch`` (SVI only), ...
    start : Gaussian, or pytree of arrays, optional
        The Laplace approximation of a closed form (``Gaussian``, over unconstrained
        values: for NUTS the start and the mass matrix, for Laplace the answer, for
        SVI what whitens a target), or an unconstrained position (for Laplace where to
        look for the mode; otherwise read for its shapes). Required for a ``Target``.
    n_chains, n_draws : int, defaults 4 and 1000
        The approximations draw ``n_chains * n_draws`` in one chain.
    feature_names, dims : optional
        As in ``to_datatree``.
    identified : sequence of str, optional
        Quantities that R-hat and effective sample sizes are judged on (NUTS). A map
        W that is known up to rotation should not be among them, M = WᵀW should.
        Default: all.
    log_likelihood : bool, default=False
        Store the log likelihood of every observation under every draw
        (n_chains × n_draws × n_observations numbers), as ``log_likelihood``, or as
        ``pseudo_log_likelihood`` where a learning rate or data weights other than one,
        or pairs that share points, forbid to leave one out. NumPyro models only.
    dtype : {"float64", "float32"}, default="float64"
        Precision, in a scope of its own; no global flag is touched.
    progress : bool, optional
        Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

    Returns
    -------
    DataTree
        Groups posterior, sample_stats (NUTS), observed_data, constant_data and, on
        request, the log likelihood; versions, seed, method, data hash, learning rate,
        sum of weights and model arguments as attributes.

    Raises
    ------
    ValueError
        An unknown method; a subsample under NUTS or Laplace; a Target without start;
        and as the sampler.

    Warns
    -----
    SamplingWarning
        Divergences, high R-hat, low effective sample size, by name (NUTS).

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
    options = dict(options or {})
    if options.get("batch") is not None and not isinstance(sampler, SVI):
        raise ValueError(
            f"options: expected the full data under {sampler}, got batch="
            f"{options['batch']}: it would keep one subsample for ever (use 'svi')"
        )
    plain = not isinstance(model, Target)
    if not plain and start is None:
        raise ValueError(
            "start: expected a position or Gaussian for a Target, got None"
        )
    if not plain and log_likelihood:
        raise ValueError("log_likelihood: expected False for a Target, got True")
    if not plain and (prior is not None or options):
        raise ValueError(
            "prior, options: expected none for a Target, whose data hold all that it "
            f"depends on, got {prior!r} and {options!r}"
        )
    # A model whose data set shapes names what to do with them before tracing.
    given = getattr(model, "prepare", lambda data: data)(data)
    args = (given,) if prior is None else (given, prior)
    full = {k: v for k, v in options.items() if k != "batch"}
    observed: dict[str, np.ndarray] = {}
    likelihood = None
    with jax.enable_x64(is_double(dtype)):
        args, full = cast(args, dtype), cast(full, dtype)
        split = split_arguments(args, full)
        if plain:
            target, arrays, shapes = model_target(model, args, full)
            observed = jax.device_get(_observed(model, *split))
        else:
            target, arrays, shapes = model, args[0], ()
        run: dict[str, Any] = {"seed": seed, "dtype": dtype, "progress": progress}
        if plain and isinstance(sampler, SVI):
            run["n_draws"] = math.prod(counts(n_draws, n_chains))
            draws = sampler.draw_model(model, args, options, full_kwargs=full, **run)
        else:
            posterior = None
            if start is None and isinstance(sampler, NUTS):
                posterior = _closed_form(model, args, full)
                sampler = _adapting(sampler, posterior)
            if posterior is None:
                if start is None:
                    start = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
                posterior = Posterior(target, arrays, start)
            draws = sampler.draw(posterior, n_draws=n_draws, n_chains=n_chains, **run)
        _warn(draws, identified)
        if log_likelihood:
            sites = {k: v for k, v in draws.values.items() if k in shapes}
            likelihood = jax.device_get(_log_likelihood(model, *split, sites))
    arguments = {**({} if prior is None else {"prior": prior}), **options}
    return to_datatree(
        draws,
        feature_names=feature_names,
        dims=dims,
        data=data,
        observed=observed,
        log_likelihood=likelihood,
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


def _adapting(sampler: NUTS, posterior: Posterior | None) -> NUTS:
    """Let NUTS adapt a Laplace mass matrix that its warm-up is long enough for.

    Ten iterations a parameter. Where the prior is weak the posterior is no Gaussian,
    and the frozen matrix cost seven gradients in eight (λ = 1, d = 5, p = 2).
    """
    if posterior is None or sampler.adapt_mass is not None:
        return sampler
    enough = 10 * len(posterior.start.factor) <= (sampler.n_warmup or 300)
    return replace(sampler, adapt_mass=enough)


def _warn(draws: Draws, identified: Sequence[str] | None) -> None:
    names = list(draws.values if identified is None else identified)
    unknown = [name for name in names if name not in draws.values]
    if unknown:
        raise ValueError(
            f"identified: expected names among {list(draws.values)}, got {unknown}"
        )
    warn_of_trouble({name: draws.values[name] for name in names}, draws.statistics)


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


@partial(jax.jit, static_argnames=("model", "tree", "static"))
def _log_likelihood(
    model: Model,
    tree: Tree,
    static: Static,
    data: list[Array],
    draws: Mapping[str, Array],
) -> Arrays:
    """Return that of every observation under every draw, by site."""
    args, kwargs = fill_arguments(tree, static, data)
    return numpyro_log_likelihood(model, draws, *args, batch_ndims=2, **kwargs)
