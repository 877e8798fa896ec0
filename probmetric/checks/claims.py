"""Builders of claims: facts about a NumPyro model, checked in another way than the fit.

=================  ==================================================================
``density``        a closed-form log density and its gradient equal NumPyro's
``hessian``        a matrix of second derivatives equals the one of NumPyro's density
``mode``           the gradient of NumPyro's density is zero at the fit
``spread_claims``  Laplace's density of a spread is right, and the fit is at its mode
``nuts``           draws of a closed-form target equal NUTS draws of the NumPyro model
``calibrated``     ranks of simulation-based calibration are uniform
=================  ==================================================================

A wrong claim (negative control) is usually a *change* of the problem, such as another
prior, other data weights or swapped labels. The closed form of the changed problem is
judged against the model of the right problem. Other wrong claims are keyword arguments
of the closed form.
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
    zero,
)
from probmetric.checks.ranks import simulation
from probmetric.checks.sides import density_of, sampled
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
    """Return an estimate's negative controls; ``fewer`` are arguments of all."""
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
    """Claim that a closed-form log density is NumPyro's, value and gradient.

    Both are evaluated at ``points(problem)``. ``closed(problem)`` returns a
    module-level ``function(sites, *arguments) -> scalar`` and its arguments, so wrong
    claims share its compiled program. ``changed`` maps the registered problem to the
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
    """Claim that ``closed(problem, sites)`` is minus the Hessian of NumPyro's density.

    The Hessian is in the sites ``names``, flattened in alphabetical order.
    """

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
    **more: Any,
) -> Check:
    """Claim that the gradient of NumPyro's density is zero at ``end(problem)``.

    It is divided by ``size_of(problem)``, and is in the sites ``names`` (default: all).
    """

    def estimate(problem: Problem[Any], change: Change = same, **arguments: Any) -> Any:
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


SPREADS = (0.1, 0.4, 0.9)


def spread_claims(
    model: Model,
    mode_at: Callable[[Problem[Any], float], Any],
    fit: Callable[[Problem[Any]], Any],
    names: Sequence[str],
    *,
    wrong: Mapping[str, Callable[[Any], float]],
) -> tuple[Check, Check]:
    """Claim Laplace's density of the spread ω, and that the fit is at its mode.

    ``mode_at(problem, spread)`` returns an object with ``at``, the mode given the
    spread, and ``log_density``, Laplace's approximation of the spread's log density.
    ``wrong`` are terms by name, functions of the mode, that wrong claims add to that
    log density.
    """

    def reference(problem: Problem[Any]) -> Values:
        both, values = curvature(model, problem, names), list[float]()
        for spread in SPREADS:
            at = jax.tree.map(jnp.asarray, mode_at(problem, spread).at)
            value, H = both({**at, "spread": jnp.asarray(spread)})
            log_det = np.linalg.slogdet(np.asarray(H) / (2 * np.pi))[1]
            values.append(float(value) - log_det / 2)
        return {"log density of ω": values}

    def estimate(problem: Problem[Any], extra: Any = None) -> Values:
        modes = [mode_at(problem, spread) for spread in SPREADS]
        more = [0.0 if extra is None else extra(m) for m in modes]
        values = [m.log_density + x for m, x in zip(modes, more, strict=True)]
        return {"log density of ω": values}

    def score(problem: Problem[Any], factor: float = 1.0) -> Values:
        """Compute the score by central differences, in posterior sd; 0 at an end."""
        spread = float(fit(problem).params.spread)
        spread = spread if factor == 1.0 else max(factor * spread, 0.5)
        if spread == 0:
            return {"score of ω": 0.0}
        h = 0.01 * spread
        low, middle, high = (
            mode_at(problem, spread + k * h).log_density for k in (-1.0, 0.0, 1.0)
        )
        curved = -(high - 2 * middle + low) / h**2
        return {"score of ω": (high - low) / (2 * h) / np.sqrt(abs(curved))}

    return (
        by_gradient(
            "Laplace's density of the spread has the determinant of NumPyro's Hessian",
            reference=reference,
            estimate=estimate,
            controls={k: partial(estimate, extra=f) for k, f in wrong.items()},
            rtol=1e-8,
        ),
        by_gradient(
            "the spread is a mode of its density, in posterior sd",
            reference=zero,
            estimate=score,
            controls={"ω half too large": partial(score, factor=1.5)},
            atol=0.02,
        ),
    )


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
    """Claim that NUTS on ``posterior(problem)`` gives the reference's draws.

    Wrong claims are judged with ``n_wrong`` draws per chain.
    """

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


def calibrated(
    model: Model,
    world: Callable[[], tuple[Any, Any]],
    *,
    wrong: Mapping[str, Model],
    n_simulations: int = 400,
    n_wrong: int = 100,
    options: Mapping[str, Any] | None = None,
    functionals: Callable[[Any, Any], dict[str, Any]] | None = None,
) -> Check:
    """Claim that ranks of true values among NUTS draws are uniform.

    ``world()`` returns the data without labels and the prior, which all simulations
    share. The posteriors of the ``wrong`` models must be rejected, in ``n_wrong``
    simulations. ``functionals(position, data)`` are quantities to rank instead of all
    sites.
    """

    def estimate(
        problem: Problem[Any], under: Model = model, n: int = n_simulations
    ) -> Ranks:
        del problem
        data, prior = world()
        # Only the shape of the labels is used.
        data = data._replace(y=np.zeros(np.shape(data[1]), np.int32))
        ranking = simulation(model, data, (prior,), options or {}, under=under)
        if functionals is not None:
            target = ranking.target._replace(functionals=functionals)
            ranking = ranking._replace(target=target)
        return ranking(seed=11, n_simulations=n, progress=False)

    return by_sbc(
        CALIBRATED,
        estimate=estimate,
        controls={k: partial(estimate, under=m, n=n_wrong) for k, m in wrong.items()},
        slow=True,
    )
