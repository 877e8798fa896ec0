"""The two-stage mixture against sampling: the explicit form, and calibration.

Calibration ranks label-invariant functionals only; components have no names.
"""

from collections.abc import Mapping
from functools import lru_cache, partial

import numpy as np
import xarray as xr
from jaxtyping import PyTree
from numpyro import handlers

from probmetric.checks.check import Problem, Values, by_sampling, by_sbc
from probmetric.checks.sbc import Story, model_story, sbc
from probmetric.checks.sides import as_dataset, sampled
from probmetric.checks.two_stage.quadrature import leading, some_pairs
from probmetric.checks.uniformity import Ranks
from probmetric.data.containers import Groups
from probmetric.data.groups import Stacks
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Arrays, Target
from probmetric.inference.two_stage.pairs import representative
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior, two_stage
from probmetric.typing import Array, Scalar

N_WORLDS = 280
"""Finds a common shift of 0.3 posterior sd among five quantities."""


def explicit_at(stacks: Stacks, params: TwoStageParams) -> None:
    """Write the explicit form with parameters known: representatives are left."""
    with handlers.condition(data=params._asdict()):
        two_stage(stacks, None, n_components=len(params.weights), latent=True)


def representatives_sampled(problem: Problem[Groups]) -> xr.Dataset:
    """Sample the representatives behind four pairs, components summed out."""
    params = leading(problem.params)
    pairs = np.stack(some_pairs(problem), 1)
    stacks = Stacks((pairs,), (np.ones(len(pairs)),))
    args = stacks, params
    sampler = NUTS(n_warmup=500)
    draws = sampled(explicit_at, args, seed=1, n_draws=2000, sampler=sampler)
    x = draws.values["representative_2"]
    return as_dataset({"x": x, "x₁ x": x[..., :1] * x})


def _moments(problem: Problem[Groups], n_seen: int = 2) -> Values:
    params = leading(problem.params)
    first, second = [], []
    for pair in zip(*some_pairs(problem), strict=True):
        p = representative(params, np.stack(pair)[:n_seen])
        c = np.exp(p.log_component)
        first.append(c @ p.mean)
        second.append(c @ (p.covariance[:, 0] + p.mean[:, :1] * p.mean))
    return {"x": np.stack(first), "x₁ x": np.stack(second)}


def calibration_model(data: tuple[Stacks, bool], prior: TwoStagePrior) -> None:
    """Write the proportional form; ``data`` is (stacks, whether they are observed)."""
    stacks, observed = data
    two_stage(
        stacks, prior, n_components=2, covariance="proportional", observe=observed
    )


def observe(
    data: tuple[Stacks, bool], sites: Mapping[str, Array]
) -> tuple[Stacks, bool]:
    """Put simulated instances where the model looks for them."""
    stacks, _ = data
    X = tuple(sites[f"x_{b.shape[1]}"].reshape(b.shape) for b in stacks.X)
    return stacks._replace(X=X), True


@lru_cache(maxsize=4)
def _invariant_target(target: Target, story: Story, ignore_data: bool) -> Target:
    """Keep the label-invariant functionals, and leave the data out if asked."""

    def log_density(position: PyTree, data: PyTree) -> Scalar:
        full = target.log_density(position, data)
        return full - story.log_likelihood(position, data) if ignore_data else full

    def functionals(position: PyTree, data: PyTree) -> Arrays:
        values = target.functionals(position, data)
        names = "alpha", "mean", "within_average", "covariance_total"
        return {name: values[name] for name in names}

    return Target(log_density, functionals)


def ranks(problem: Problem[Groups], ignore_data: bool = False) -> Ranks:
    """Calibrate α and the invariants on worlds of 15 sources of 2 in d = 1."""
    prior = TwoStagePrior(
        3.0, np.zeros(1), 0.2, 8.0, 6 * np.eye(1), 8.0, np.eye(1), 2.0, 2.0
    )
    empty = Stacks((np.zeros((15, 2, 1)),), (np.ones(15),))
    target, story, data = model_story(
        calibration_model, (empty, False), observe, prior=prior
    )
    wanted = _invariant_target(target, story, ignore_data)
    return sbc(
        wanted,
        story,
        data,
        seed=11,
        n_simulations=N_WORLDS,
        n_draws=63,
        thin=2,
        n_warmup=120,
        progress=False,
    )


CHECKS = (
    by_sampling(
        "posterior of the representative is that of the explicit form, sampled",
        reference=representatives_sampled,
        estimate=_moments,
        controls={"the second instance forgotten": partial(_moments, n_seen=1)},
    ),
    by_sbc(
        "posterior of α and the invariants is calibrated",
        estimate=ranks,
        controls={"data ignored": partial(ranks, ignore_data=True)},
        slow=True,
    ),
)
