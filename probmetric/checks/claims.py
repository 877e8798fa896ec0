"""Builders of claims: facts about a NumPyro model, checked in another way than the fit.

==============  =====================================================================
``density``     a closed-form log density and its gradient equal NumPyro's
``hessian``     a matrix of second derivatives equals the Hessian of NumPyro's density
``mode``        the gradient of NumPyro's density is zero at the fit
``nuts``        draws of a closed-form target equal NUTS draws of the NumPyro model
``near``        draws of an approximation are within a bound of reference draws
``calibrated``  ranks of simulation-based calibration are uniform
==============  =====================================================================

A wrong claim (negative control) is usually a *change* of the problem, such as another
prior, other data weights or swapped labels. The closed form of the changed problem is
compared with the model of the right problem. Other wrong claims pass keyword arguments
to the closed form.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from probmetric.checks.check import (
    Check,
    Problem,
    Side,
    Values,
    by_gradient,
    by_sampling,
    by_sbc,
    near_sampling,
    zero,
)
from probmetric.checks.ranks import simulation
from probmetric.checks.sides import density_of, sampled, stretched
from probmetric.checks.uniformity import Ranks
from probmetric.data.containers import weights
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import (
    Draws,
    Model,
    Posterior,
)
from probmetric.typing import Array

type Change = Callable[[Problem[Any]], Problem[Any]]
"""Function that changes a problem, for instance its prior or its labels."""

type Wrong = Mapping[str, Change | Mapping[str, Any]]
"""Wrong claims by name: a change of the problem, or arguments of the closed form."""

type Sites = dict[str, Any]
"""Values of a model's sample sites by name."""

type Summary = Callable[[Problem[Any], Draws], xr.Dataset]

DENSITY = "log joint density equals the NumPyro density, value and gradient"
HESSIAN = "second derivatives equal those of the NumPyro density"
MODE = "the fit is a mode of the NumPyro density"
NUTS_DRAWS = "draws of the closed-form density equal NUTS draws of the NumPyro model"
CALIBRATED = "the posterior is calibrated over simulated data sets (SBC)"


def same(problem: Problem[Any]) -> Problem[Any]:
    """Return the problem itself: no change."""
    return problem


def prior_times(**factors: float) -> Change:
    """Return a change that multiplies fields of the prior by factors."""

    def changed(problem: Problem[Any]) -> Problem[Any]:
        prior = problem.prior
        part = prior if hasattr(prior, next(iter(factors))) else prior.common
        moved = part._replace(**{k: f * getattr(part, k) for k, f in factors.items()})
        whole = moved if part is prior else prior._replace(common=moved)
        return replace(problem, prior=whole)

    return changed


def reweighted(problem: Problem[Any]) -> Problem[Any]:
    """Double the weights of every other row."""
    w = np.asarray(weights(problem.data))
    doubled = w * (1.0 + np.arange(len(w)) % 2)
    return replace(problem, data=problem.data._replace(w=doubled))


def untempered(problem: Problem[Any]) -> Problem[Any]:
    """Set the learning rate to 1."""
    return replace(problem, options={**problem.options, "learning_rate": 1.0})


def controls(
    estimate: Callable[..., Side], wrong: Wrong, **fewer: Any
) -> dict[str, Callable[[Problem[Any]], Side]]:
    """Return negative controls of an estimate, with ``fewer`` as arguments of each."""
    return {
        name: (
            partial(estimate, change=change, **fewer)
            if callable(change)
            else partial(estimate, **change, **fewer)
        )
        for name, change in wrong.items()
    }


def numpyro_density(model: Model, problem: Problem[Any]) -> Any:
    """Return NumPyro's log density and its gradient, as a function of the sites."""
    return density_of(model, (problem.data, problem.prior), problem.options)


def around(at: Sites, positive: Sequence[str] = ()) -> list[Sites]:
    """Return ``at`` and two positions at random relative distances from it."""
    rng, positions = np.random.default_rng(0), list[Sites]()
    for size in (0.0, 0.3, 1.0):
        moved: Sites = {}
        for name, value in at.items():
            v = np.asarray(value, float)
            unit = max(np.sqrt(np.mean(v**2)), 0.1) if v.ndim == 2 else 1.0
            noise = size * unit * rng.normal(size=v.shape)
            moved[name] = jnp.asarray(
                v * np.exp(noise) if name in positive else v + noise
            )
        positions.append(moved)
    return positions


def tabulated(results: Sequence[tuple[Any, Mapping[str, Any]]]) -> Values:
    """Return values and gradients at several positions by name."""
    table: dict[str, Any] = {"log density": [value for value, _ in results]}
    for name in results[0][1]:
        table[f"gradient in {name}"] = [slope[name] for _, slope in results]
    return table


@lru_cache(maxsize=32)
def _with_gradient(function: Callable[..., Array]) -> Callable[..., Any]:
    return jax.jit(jax.value_and_grad(function))


def density(
    model: Model,
    points: Callable[[Problem[Any]], list[Sites]],
    closed: Callable[..., tuple[Callable[..., Any], tuple[Any, ...]]],
    *,
    wrong: Wrong,
    name: str = DENSITY,
    changed: Change = same,
    **more: Any,
) -> Check:
    """Claim that a closed-form log density and its gradient equal NumPyro's.

    Both are evaluated at ``points(problem)``. ``closed(problem)`` returns a function
    ``function(sites, *arguments) -> scalar`` at module level, and its arguments. Wrong
    claims use the same compiled program. ``changed`` maps the registered problem to the
    problem of the claim.
    """

    def reference(problem: Problem[Any]) -> Values:
        problem = changed(problem)
        value = numpyro_density(model, problem)
        return tabulated([value(at) for at in points(problem)])

    def estimate(problem: Problem[Any], change: Change = same, **arguments: Any) -> Any:
        problem = changed(problem)
        function, rest = closed(change(problem), **arguments)
        both = _with_gradient(function)
        return tabulated([both(at, *rest) for at in points(problem)])

    return by_gradient(
        name,
        reference=reference,
        estimate=estimate,
        controls=controls(estimate, wrong),
        **more,
    )


def curvature(
    model: Model, problem: Problem[Any], names: Sequence[str]
) -> Callable[[Sites], tuple[Any, Any]]:
    """Return NumPyro's log density and minus its Hessian in some of the sites."""
    value = numpyro_density(model, problem)

    @jax.jit
    def both(at: Sites) -> tuple[Any, Any]:
        free, unravel = ravel_pytree({k: at[k] for k in names})

        def flat(x: Any) -> Any:
            return value({**at, **unravel(x)})[0]

        return flat(free), -jax.hessian(flat)(free)

    return both


def hessian(
    model: Model,
    points: Callable[[Problem[Any]], list[Sites]],
    closed: Callable[..., Any],
    names: Sequence[str],
    *,
    wrong: Wrong,
    **more: Any,
) -> Check:
    """Claim that ``closed`` is minus the Hessian of NumPyro's density in ``names``."""

    def reference(problem: Problem[Any]) -> Values:
        both = curvature(model, problem, names)
        return {"minus Hessian": [both(at)[1] for at in points(problem)]}

    def estimate(problem: Problem[Any], change: Change = same, **arguments: Any) -> Any:
        other = change(problem)
        matrices = [closed(other, at, **arguments) for at in points(problem)]
        return {"minus Hessian": matrices}

    return by_gradient(
        HESSIAN,
        reference=reference,
        estimate=estimate,
        controls=controls(estimate, wrong),
        **more,
    )


def size_of(problem: Problem[Any]) -> float:
    """Return the sum of the data weights times the learning rate."""
    total = float(np.sum(np.asarray(weights(problem.data))))
    return total * float(problem.options.get("learning_rate", 1.0))


def mode(
    model: Model,
    end: Callable[..., Sites],
    *,
    wrong: Wrong,
    name: str = MODE,
    names: Sequence[str] | None = None,
    changed: Change = same,
    **more: Any,
) -> Check:
    """Claim that the gradient of NumPyro's density is zero at ``end(problem)``.

    The gradient in the sites ``names`` (default: all) is divided by
    ``size_of(problem)``. ``changed`` is described in ``density``.
    """

    def estimate(problem: Problem[Any], change: Change = same, **arguments: Any) -> Any:
        problem = changed(problem)
        at = end(change(problem), **arguments)
        slope = numpyro_density(model, problem)(jax.tree.map(jnp.asarray, at))[1]
        size = size_of(problem)
        return {f"gradient in {k}": np.asarray(slope[k]) / size for k in names or slope}

    return by_gradient(
        name,
        reference=zero,
        estimate=estimate,
        controls=controls(estimate, wrong),
        **more,
    )


@lru_cache
def nuts_draws(
    model: Model,
    summary: Summary,
    *,
    n_draws: int,
    sampler: NUTS = NUTS(),  # noqa: B008
) -> Callable[[Problem[Any]], xr.Dataset]:
    """Return a reference: NUTS on the NumPyro model without a warm start."""

    def reference(problem: Problem[Any]) -> xr.Dataset:
        args, cold = (problem.data, problem.prior), replace(sampler, n_warmup=500)
        drawn = sampled(
            model, args, problem.options, seed=3, n_draws=n_draws, sampler=cold
        )
        return summary(problem, drawn)

    return reference


def nuts(
    reference: Callable[[Problem[Any]], xr.Dataset],
    summary: Summary,
    posterior: Callable[[Problem[Any]], Posterior],
    *,
    wrong: Wrong,
    n_draws: int,
    n_wrong: int = 750,
    sampler: NUTS = NUTS(),  # noqa: B008
    tol: float = 0.25,
) -> Check:
    """Claim that NUTS draws from a closed-form posterior equal a reference's draws."""

    def estimate(
        problem: Problem[Any], change: Change = same, n: int = n_draws
    ) -> xr.Dataset:
        with jax.enable_x64(True):
            begin = posterior(change(problem))
            drawn = sampler.draw(begin, seed=4, n_draws=n, progress=False)
        return summary(problem, drawn)

    return by_sampling(
        NUTS_DRAWS,
        reference=reference,
        estimate=estimate,
        controls=controls(estimate, wrong, n=n_wrong),
        tol=tol,  # The effective sample size of the slowest quantity varies by half.
        slow=True,
    )


def near(
    name: str,
    reference: Callable[[Problem[Any]], xr.Dataset],
    draws: Callable[[Problem[Any]], xr.Dataset],
    *,
    wide: float = 4.0,
    **more: Any,
) -> Check:
    """Claim that draws are within ``bound`` of reference draws; wrong: wider draws."""
    estimate = stretched(draws)
    wrong = {f"{wide:g} times too wide": partial(estimate, wide=wide)}
    return near_sampling(
        name, reference=reference, estimate=estimate, controls=wrong, **more
    )


def calibrated(
    model: Model,
    world: Callable[[], tuple[Any, Any]],
    *,
    name: str = CALIBRATED,
    n_simulations: int = 400,
    n_wrong: int = 100,
    identified: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Check:
    """Claim that ranks of true values among NUTS draws are uniform.

    ``world()`` returns the data and the prior, which all simulations share. Only the
    shape of the labels is used. The wrong claim counts the data twice, in ``n_wrong``
    simulations. ``identified`` are the sites to rank (default: all), and ``settings``
    are arguments of ``ranks.sbc``.
    """

    def estimate(
        problem: Problem[Any], wrong: str = "", n: int = n_simulations
    ) -> Ranks:
        del problem
        data, prior = world()
        ranking = simulation(model, data, (prior,), options or {}, identified)
        return ranking(wrong, seed=11, n_simulations=n, progress=False, **settings)

    return by_sbc(
        name,
        estimate=estimate,
        controls={"η = 2": partial(estimate, wrong="η = 2", n=n_wrong)},
        slow=True,
    )
