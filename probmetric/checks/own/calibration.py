"""``sbc``: simulation-based calibration of a NumPyro model, with wrong posteriors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import xarray as xr
from jaxtyping import PyTree
from numpyro import distributions as dist

from probmetric.arguments import check_counts, check_number
from probmetric.checks.check import Check, Problem, by_sbc
from probmetric.checks.ranks import CONTROLS, SHUFFLED, simulation
from probmetric.checks.uniformity import Ranks, uniformity
from probmetric.inference.sampling.target import (
    Kwargs,
    Model,
)


@dataclass(frozen=True)
class Calibration:
    """Result of ``sbc``.

    ``table`` has the tests of the ranks. ``controls`` has the tests for each negative
    control, a deliberately wrong posterior. Controls in ``left_out`` were not run,
    because they are right for this model. For example, shuffled observations have the
    same posterior if the order of rows does not matter.
    """

    model: str
    ranks: Ranks
    table: xr.Dataset
    controls: Mapping[str, xr.Dataset]
    left_out: tuple[str, ...] = ()

    @property
    def missed(self) -> tuple[str, ...]:
        """Names of the deliberately wrong posteriors that were not rejected."""
        tables = self.controls.items()
        return tuple(k for k, t in tables if t.attrs["verdict"] != "disagree")

    @property
    def verdict(self) -> str:
        """Verdict on the model: "agree", "disagree" or "inconclusive".

        "agree" also requires that all deliberately wrong posteriors were rejected.
        """
        verdict = str(self.table.attrs["verdict"])
        return "inconclusive" if verdict == "agree" and self.missed else verdict

    def __str__(self) -> str:
        attrs = self.table.attrs
        n = len(self.controls)
        lines = [
            f"{self.model}: {len(self.ranks.ranks)} quantities in "
            f"{attrs['n_simulations']} simulations, {n - len(self.missed)} of {n} "
            f"wrong posteriors rejected: {self.verdict}"
        ]
        bad = self.table["entry"].to_numpy()[self.table["verdict"] == "disagree"]
        lines += [f"  {name} is not uniform" for name in bad]
        lines += [f"  not rejected: {name}" for name in self.missed]
        if attrs["verdict"] == "inconclusive":
            lines.append(
                "  too few simulations. Use about n_simulations="
                f"{attrs['n_needed']}, which detect a shift of {attrs['tol']:g} sd"
            )
        return "\n".join(lines)

    __repr__ = __str__


def sbc(
    model: Model,
    data: PyTree,
    *,
    args: Sequence[PyTree] = (),
    kwargs: Kwargs | None = None,
    seed: int = 0,
    identified: Sequence[str] | None = None,
    n_simulations: int = 400,
    n_control: int = 100,
    n_draws: int = 99,
    thin: int = 5,
    n_warmup: int = 200,
    target_accept: float = 0.8,
    dtype: str = "float64",
    progress: bool | None = None,
) -> Calibration:
    """Check by simulation that NUTS draws from the posterior of your own NumPyro model.

    The model simulates parameters and observations, and NUTS samples the posterior
    given each simulated data set. If model and sampler are right, the rank of the true
    value among the draws is uniform. The check detects errors in the density, priors
    that the sampler cannot explore, and parameters that the data cannot determine. To
    see if the model fits data, use ``check_model`` instead.

    Parameters
    ----------
    model : callable
        NumPyro model ``model(data, *args, **kwargs)``. Parameters must be continuous,
        with priors that can be sampled (not flat). Observations must have distributions
        that can be sampled (no ``numpyro.factor``).
    data : pytree of arrays
        Data of the model, with observations. Only the shapes of the observations are
        used, and a few dozen observations are enough. The other arrays (points, sizes)
        are the same in all simulations.
    args, kwargs, dtype, progress : optional
        As in ``sample``.
    seed : int, default=0
        Seed of the simulations. The same seed gives the same ranks.
    identified : sequence of str, optional
        Named variables (NumPyro sites, also deterministic ones) to rank. Default: all.
        The log likelihood is always ranked. Omit variables that the data cannot
        determine. For example, if a rotation of a linear map W does not change the
        model, rank M = WᵀW instead of W.
    n_simulations : int, default=400
        Number of simulations. With ten quantities, 400 simulations detect a shift of
        all posterior means by a quarter of a posterior standard deviation.
    n_control : int, default=100
        Number of simulations for each negative control: a deliberately wrong posterior
        that the check must reject. With 0, there are no negative controls.
    n_draws, thin, n_warmup : int, defaults 99, 5 and 200
        Numbers of draws per simulation, iterations per draw, and warm-up iterations.
    target_accept : float in (0, 1), default=0.8
        Target acceptance probability of ``NUTS``.

    Returns
    -------
    Calibration
        ``table`` has a row for each test. Use ``plots.sbc`` to draw the ranks. The
        ``verdict`` is

        - "disagree" if the ranks of a quantity are not uniform.
        - "agree" if the ranks are uniform and every negative control was rejected.
        - "inconclusive" if a negative control was not rejected, or if there are too few
          simulations.

    Examples
    --------
    >>> import numpy as np, numpyro, numpyro.distributions as dist
    >>> def model(data):
    ...     mu = numpyro.sample("mu", dist.Normal(0, 1))
    ...     numpyro.sample("x", dist.Normal(mu, 1), obs=data)
    >>> result = sbc(model, np.zeros(5), n_simulations=300, n_draws=39, thin=2)
    >>> result.verdict, result.missed, result.left_out
    ('agree', (), ('shuffled observations',))
    """
    (n_simulations,) = check_counts(n_simulations=n_simulations)
    n_control = check_number("n_control", n_control, 0, whole=True)
    settings: Any = {
        "n_draws": n_draws,
        "thin": thin,
        "n_warmup": n_warmup,
        "target_accept": float(target_accept),
        "chunk": min(50, n_simulations, n_control or n_simulations),
        "progress": progress,
    }
    ranking = simulation(model, data, args, kwargs or {}, identified, dtype)
    left_out = () if not n_control or ranking.rows_matter() else (SHUFFLED,)
    chosen = [k for k in CONTROLS if n_control and k not in left_out]
    ranks = ranking(seed=seed, n_simulations=n_simulations, **settings)
    tables = {
        wrong: uniformity(
            ranking(wrong, seed=seed, n_simulations=n_control, **settings)
        )
        for wrong in chosen
    }
    name = getattr(model, "__name__", type(model).__name__)
    return Calibration(name, ranks, uniformity(ranks), tables, left_out)


def sbc_check(model: Model) -> Check:
    """Return a ``Check`` for ``validate`` that runs ``sbc`` for a model."""

    def ranked(problem: Problem[Any], n_simulations: int, wrong: str = "") -> Ranks:
        prior = () if problem.prior is None else (problem.prior,)
        ranking = simulation(model, problem.data, prior, problem.options)
        return ranking(wrong, seed=0, n_draws=39, n_simulations=n_simulations)

    return by_sbc(
        "ranks of true values are uniform",
        estimate=partial(ranked, n_simulations=400),
        controls={
            wrong: partial(ranked, n_simulations=100, wrong=wrong)
            for wrong in CONTROLS
            if wrong != SHUFFLED
        },
    )
