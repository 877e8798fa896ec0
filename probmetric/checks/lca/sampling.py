"""LCA's claims compared with sampling: latent posterior, marginalization, Laplace, SVI.

Exact claims must agree by ``compare``. Laplace and the variational guide are
approximations: their distance from NUTS must stay within a bound of one posterior
standard deviation. b, whose posterior is skewed, is furthest from it.

On a problem small enough to sample the latent form well, the marginal and the latent
form must have the same posterior. Ranks of true values among draws of the marginal form
must be uniform over simulated data sets (x, pairs, W₀ and c are constants).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam
from numpyro.primitives import Messenger

from probmetric.checks.check import (
    Problem,
    Values,
    by_sampling,
    near_sampling,
)
from probmetric.checks.claims import calibrated
from probmetric.checks.lca.posterior import (
    N_PAIRS,
    differences,
    directions,
    posterior_estimate,
    posterior_with_a_flipped_sign,
    some_pairs,
)
from probmetric.checks.sides import as_dataset, sampled
from probmetric.data.containers import Pairs
from probmetric.inference.lca.laplace import laplace as lca_laplace
from probmetric.inference.lca.laplace import laplace_draws
from probmetric.inference.lca.target import TARGET, position, start, target_data
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Draws, Posterior
from probmetric.models.lca import (
    Coincidence,
    LCAPrior,
    identified,
    lca,
)

N_DISTANCES = 8


def latent_at(pairs: Pairs, prior: LCAPrior, W: Any, log_b: Any) -> None:
    """Latent form with W and b fixed: only z and z' are sampled."""
    with handlers.condition(data={"W": W, "log_b": log_b}):
        lca(pairs, prior, latent=True)


def _alternating(problem: Problem[Pairs]) -> Pairs:
    return some_pairs(problem)._replace(y=np.arange(N_PAIRS) % 2)


def _directions(problem: Problem[Pairs]) -> np.ndarray:
    return directions(differences(problem, some_pairs(problem)))


def latent_reference(problem: Problem[Pairs]) -> xr.Dataset:
    """Sample z and z' of six pairs, labels alternating, at fixed parameters."""
    args = (_alternating(problem), problem.prior, *position(problem.params).values())
    sampler = NUTS(target_accept=0.98)
    draws = sampled(latent_at, args, seed=1, n_draws=2500, sampler=sampler)
    u = draws.values["z"] - draws.values["z_prime"]
    along = np.einsum("cspk,pk->csp", u, _directions(problem))
    return as_dataset(
        {
            "u along g": along,
            "(u along g)²": along**2,
            "‖u across g‖²": np.sum(u**2, -1) - along**2,
        }
    )


def _latent_values(
    problem: Problem[Pairs], moments: Callable[[Problem[Pairs]], Values]
) -> Values:
    given_y, unit = moments(problem), _directions(problem)
    p, y = unit.shape[1], np.arange(N_PAIRS) % 2
    mean, cov = (
        np.stack(
            [np.asarray(given_y[f"{kind}, z' | y={v}]"])[k] for k, v in enumerate(y)]
        )
        for kind in ("E[z", "Cov[z")
    )
    less = np.concatenate([np.eye(p), -np.eye(p)])
    mean_u, cov_u = mean @ less, less.T @ cov @ less
    along = np.sum(mean_u * unit, 1)
    spread = np.einsum("pk,pkl,pl->p", unit, cov_u, unit)
    return {
        "u along g": along,
        "(u along g)²": along**2 + spread,
        "‖u across g‖²": np.trace(cov_u, axis1=1, axis2=2) - spread,
    }


def _metric_summaries(problem: Problem[Pairs], draws: Draws) -> xr.Dataset:
    """Return distances of a few pairs and log b (b is too skewed)."""
    pairs = some_pairs(problem, N_DISTANCES)
    delta = pairs.X[pairs.i] - pairs.X[pairs.j]
    squared = np.einsum("pk,cskl,pl->csp", delta, draws.values["M"], delta)
    values = {"distance": np.sqrt(squared), "log b": np.log(draws.values["b"])}
    return as_dataset(values, draws.attributes)


def _pooled(problem: Problem[Pairs]) -> Posterior:
    rate, params = problem.options["learning_rate"], problem.params
    data = target_data(problem.data, problem.prior, rate, params)
    return Posterior(TARGET, data, start(params, data))


def nuts_reference(problem: Problem[Pairs]) -> xr.Dataset:
    """Sample the pooled target from Laplace's start, with steps short enough."""
    sampler = NUTS(target_accept=0.9)
    with jax.enable_x64(True):
        draws = sampler.draw(_pooled(problem), seed=3, progress=False)
    return _metric_summaries(problem, draws)


def laplace_estimate(problem: Problem[Pairs], spread: float = 1.0) -> xr.Dataset:
    """Draw from Laplace's Gaussian across rotations, with its k-hat."""
    with jax.enable_x64(True):
        posterior = _pooled(problem)
        around = start(problem.params, posterior.data, quotient=True)
        gaussian = lca_laplace(problem.params, *posterior.data[:3])
        gaussian = gaussian._replace(root=spread * gaussian.root)
        drawn = laplace_draws(gaussian, jax.random.key(5), 4000)
        values = jax.jit(jax.vmap(identified))(drawn)
        plain = Laplace().draw(posterior._replace(start=around), seed=6)
    values = {k: np.asarray(v)[None] for k, v in values.items()}
    return _metric_summaries(problem, plain._replace(values=values))


def svi_estimate(problem: Problem[Pairs]) -> xr.Dataset:
    """Draw from a full-rank Gaussian guide (3000 steps are too few for log b)."""
    args, options = (problem.data, problem.prior), dict(problem.options)
    with jax.enable_x64(True):
        draws = SVI(n_steps=20_000).draw_model(
            lca, args, options, seed=7, n_draws=4000, progress=False
        )
    return _metric_summaries(problem, draws)


def tiny() -> tuple[Pairs, LCAPrior]:
    """Return 12 pairs in d = 2: small enough to sample the latent form well."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(24, 2))
    i = np.arange(12)
    y = (np.sum((X[i] - X[i + 12]) ** 2, 1) < 2.5).astype(int)
    return Pairs(X, i, i + 12, y), LCAPrior(0.8 * np.eye(2), c=0.8, lam=2.0)


def latent_form(pairs: Pairs, prior: LCAPrior) -> None:
    """Latent form in z = Wx + σε: the same model, without its funnel in σ."""
    noncentered: Any = {name: LocScaleReparam(0.0) for name in ("z", "z_prime")}
    with handlers.reparam(config=noncentered):
        lca(pairs, prior, latent=True)


class _Lacking(Messenger):
    """Leave a share of the determinant out of P(same), which is b in -log P (Eq. 2)."""

    def __init__(self, share: Any) -> None:
        super().__init__(None)
        self.share, self.b = share, 0.0

    def process_message(self, msg: Any) -> None:
        if msg["name"] == "b":
            self.b = msg["value"]
        if msg["name"] == "y":
            law = msg["fn"]
            assert type(law) is Coincidence, "the model under test has another law of y"
            log_p = law.log_p + self.share * (self.b - 1e-9)
            msg["fn"] = Coincidence(log_p, law.weight, law.learning_rate)


def marginal_form(pairs: Pairs, prior: LCAPrior, lacking: Any) -> None:
    """Marginal form, or a wrong one: right and wrong share a compiled program."""
    with _Lacking(lacking):
        lca(pairs, prior)


def without_determinant(pairs: Pairs, prior: LCAPrior) -> None:
    """Negative control: the marginal form without the normalizer of its link."""
    marginal_form(pairs, prior, 1.0)


def sample_tiny(
    problem: Problem[Pairs],
    n_draws: int = 4000,
    latent: bool = False,
    lacking: float = 0.0,
) -> xr.Dataset:
    """Sample M, b and P(same) of four pairs of the tiny problem."""
    del problem
    pairs, prior = tiny()
    model: Any = latent_form if latent else marginal_form
    args = (pairs, prior) if latent else (pairs, prior, np.asarray(lacking))
    sampler = NUTS(target_accept=0.9)
    draws = sampled(model, args, seed=2, n_draws=n_draws, sampler=sampler)
    M, b = draws.values["M"], draws.values["b"]
    delta = pairs.X[pairs.i[:4]] - pairs.X[pairs.j[:4]]
    same = np.exp(-(b[..., None] + 0.5 * np.einsum("pk,cskl,pl->csp", delta, M, delta)))
    return as_dataset({"M": M[..., [0, 0, 1], [0, 1, 1]], "b": b, "P(same)": same})


def _world() -> tuple[Pairs, LCAPrior]:
    """Return 100 pairs of 60 points in d = 2, without labels."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 2))
    i = rng.integers(0, 60, 100)
    j = (i + rng.integers(1, 60, 100)) % 60
    return Pairs(X, i, j, None), LCAPrior(0.8 * np.eye(2), c=0.8, lam=2.0)


CHECKS = (
    by_sampling(
        "moments of (z, z') equal NUTS draws of the latent form",
        reference=latent_reference,
        estimate=partial(_latent_values, moments=posterior_estimate),
        controls={
            "y=0 pulls together": partial(
                _latent_values, moments=posterior_with_a_flipped_sign
            )
        },
    ),
    near_sampling(
        "Laplace's distances and b are near NUTS draws",
        reference=nuts_reference,
        estimate=laplace_estimate,
        controls={"four times too wide": partial(laplace_estimate, spread=4.0)},
        bound=1.0,
    ),
    near_sampling(
        "SVI's distances and b are near NUTS draws",
        reference=nuts_reference,
        estimate=svi_estimate,
        bound=1.0,
    ),
    by_sampling(
        "marginal and latent form have the same posterior of M",
        reference=partial(sample_tiny, n_draws=6000, latent=True),
        estimate=sample_tiny,
        controls={
            "marginal form without its determinant": partial(sample_tiny, lacking=1.0)
        },
        ess_min=5000,
        slow=True,
    ),
    calibrated(lca, _world, wrong={"no determinant": without_determinant}),
)
