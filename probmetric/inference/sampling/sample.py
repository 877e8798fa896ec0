"""Sample a model: NUTS, a variational guide, or the Laplace approximation.

One function for every NumPyro model, the package's and a user's own, and for every
``Target`` (a log density of unconstrained arrays, such as LCA's pooled one). The
sampler is blocks of one compiled kernel (``sampling.kernel``), so that a second fit
with the same shapes compiles nothing and a long run can be resumed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import numpyro
import xarray as xr
from numpyro.infer.util import log_likelihood as numpyro_log_likelihood

from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.laplace import laplace
from probmetric.inference.sampling.nuts import nuts
from probmetric.inference.sampling.svi import svi, target_model
from probmetric.inference.sampling.target import (
    Draws,
    Gaussian,
    Target,
    cast,
    check_arguments,
    is_double,
    model_target,
)
from probmetric.inference.sampling.warnings import warn_of_trouble

__all__ = ["sample"]


METHODS: dict[str, Callable[..., Draws]] = {
    "nuts": nuts,
    "svi": svi,
    "laplace": laplace,
}
OWN = {
    *("target", "model", "data", "args", "kwargs", "full_kwargs", "start", "seed"),
    *("n_chains", "n_draws", "n_warmup", "dtype", "progress", "warn"),
}
"""Arguments that ``sample`` fills in itself."""


def sample(
    model: "Callable[..., None] | Target",
    data: Any,
    *,
    method: str = "nuts",
    seed: int,
    prior: Any = None,
    options: Mapping[str, Any] | None = None,
    start: Any = None,
    n_chains: int = 4,
    n_draws: int = 1000,
    n_warmup: int | None = None,
    sampler: Mapping[str, Any] | None = None,
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
    method : {"nuts", "svi", "laplace"}, default="nuts"
        NUTS is exact up to Monte Carlo error. The other two are approximations and
        give independent draws in one chain, with their k-hat.
    seed : int
        The same seed gives the same draws on the same machine.
    prior : pytree, optional
        Second argument of the model. Python numbers in it are part of the compiled
        program; arrays are arguments of it.
    options : mapping, optional
        Keyword arguments of the model: ``learning_rate``, ``batch`` (SVI only), ...
    start : Gaussian, or pytree of arrays, optional
        The Laplace approximation of a closed form (``Gaussian``, over unconstrained
        values: for NUTS the start and the mass matrix, for "laplace" the answer), or
        an unconstrained position (for "laplace" where to look for the mode; for NUTS
        read for its shapes). Required for a ``Target``.
    n_chains, n_draws : int, defaults 4 and 1000
        The approximations draw ``n_chains * n_draws`` in one chain.
    n_warmup : int, optional
        NUTS only; default 300 with a Gaussian start, 1000 without.
    sampler : mapping, optional
        Further keyword arguments of ``nuts``, ``svi`` or ``laplace`` by name, such as
        ``{"target_accept": 0.95}`` or ``{"guide": "AutoNormal"}``.
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
        Default: in terminals and notebooks.

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
        and as the method's own function.

    Warns
    -----
    SamplingWarning
        Divergences, high R-hat, low effective sample size, by name (NUTS).
    """
    if method not in METHODS:
        raise ValueError(f"method: expected one of {list(METHODS)}, got {method!r}")
    options, extra = dict(options or {}), dict(sampler or {})
    check_arguments(METHODS[method], method, extra, OWN)
    if options.get("batch") is not None and method != "svi":
        raise ValueError(
            f"options: expected the full data under method={method!r}, got batch="
            f"{options['batch']}: it would keep one subsample for ever (use 'svi')"
        )
    plain = not isinstance(model, Target)
    if not plain and start is None:
        raise ValueError(
            "start: expected a position or Gaussian for a Target, got None"
        )
    if not plain and log_likelihood:
        raise ValueError("log_likelihood: expected False for a Target, got True")
    # A model whose data set shapes names what to do with them before tracing.
    given = getattr(model, "prepare", lambda data: data)(data)
    args = (given,) if prior is None else (given, prior)
    full = {k: v for k, v in options.items() if k != "batch"}
    observed: dict[str, Any] = {}
    likelihood = None
    with jax.enable_x64(is_double(dtype)):
        args, full = cast(args, dtype), cast(full, dtype)
        if plain:
            target, arrays, shapes = model_target(model, args, full)
            observed = _observed(model, args, full)
        else:
            target, arrays = model, args[0]
            shapes = start.mean if isinstance(start, Gaussian) else start
        position = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
        common = {"seed": seed, "dtype": dtype}
        if method == "nuts":
            draws = nuts(
                target,
                arrays,
                start=position if start is None else start,
                n_chains=n_chains,
                n_draws=n_draws,
                n_warmup=n_warmup,
                progress=progress,
                warn=False,
                **common,
                **extra,
            )
            _warn(draws, identified)
        elif method == "laplace":
            begin = position if start is None else start
            n_total = n_chains * n_draws
            draws = laplace(
                target, arrays, start=begin, n_draws=n_total, **common, **extra
            )
        else:
            draws = svi(
                model if plain else target_model(target, shapes),
                args if plain else (arrays,),
                options,
                full_kwargs=full,
                n_draws=n_chains * n_draws,
                progress=progress,
                **common,
                **extra,
            )
        if log_likelihood:
            sites = {k: v for k, v in draws.values.items() if k in shapes}
            likelihood = numpyro_log_likelihood(
                model, sites, *args, batch_ndims=2, **full
            )
            likelihood = {k: np.asarray(v) for k, v in likelihood.items()}
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


def _warn(draws: Draws, identified: Sequence[str] | None) -> None:
    names = list(draws.values if identified is None else identified)
    unknown = [name for name in names if name not in draws.values]
    if unknown:
        raise ValueError(
            f"identified: expected names among {list(draws.values)}, got {unknown}"
        )
    warn_of_trouble({name: draws.values[name] for name in names}, draws.statistics)


def _observed(model: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the observed sites' values by name."""
    seeded = numpyro.handlers.seed(model, jax.random.key(0))
    sites = numpyro.handlers.trace(seeded).get_trace(*args, **kwargs)
    return {
        name: np.asarray(site["value"])
        for name, site in sites.items()
        if site["type"] == "sample" and site["is_observed"]
    }
