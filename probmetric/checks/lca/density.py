"""LCA's densities and modes compared with NumPyro's density and its gradient."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import numpyro
from numpyro.infer.util import log_density

from probmetric.checks.check import Problem, Values, by_gradient
from probmetric.checks.claims import (
    Sites,
    around,
    density,
    mode,
    numpyro_density,
    prior_times,
)
from probmetric.checks.lca.problems import fit_problem
from probmetric.data.containers import Pairs
from probmetric.inference.lca.fit import fit
from probmetric.inference.lca.likelihood import (
    log_joint,
    to_params,
)
from probmetric.inference.lca.statistics import Statistics, prepare
from probmetric.inference.lca.target import TARGET, closed_form, position, target_data
from probmetric.models.lca import LCAPrior, lca
from probmetric.typing import Array, Scalar


def rate_of(problem: Problem[Pairs]) -> float:
    """Return the learning rate of a problem."""
    return float(problem.options["learning_rate"])


def points(problem: Problem[Pairs]) -> list[Sites]:
    """Return the fit, and two positions around it."""
    return around(position(problem.params))


def _pooled(problem: Problem[Pairs], same: float = 1.0, orders: float = 1.0) -> Any:
    """Return the pooled log joint density; wrong: some terms times a factor."""
    stats = prepare(problem.data)
    stats = stats._replace(n_same=same * stats.n_same, ways=orders * stats.ways)
    return _density, (stats, problem.prior, rate_of(problem))


def _density(
    sites: Sites, stats: Statistics, prior: LCAPrior, rate: Array | float
) -> Scalar:
    return log_joint(to_params(sites), stats, prior, rate)


def counted(problem: Problem[Pairs]) -> Problem[Pairs]:
    """Replace each label by a count of 1 to 4 judgments, a function of the label."""
    pairs = problem.data
    place = np.arange(len(pairs.i))
    trials = 1 + place % 4
    y = np.where(np.asarray(pairs.y) == 1, trials - place // 4 % 2, place // 4 % 2)
    return replace(problem, data=pairs._replace(y=np.maximum(y, 0), trials=trials))


def _as_labels(problem: Problem[Pairs]) -> Problem[Pairs]:
    """Replace each count by one label: *same* if the count is not zero."""
    y = (np.asarray(problem.data.y) > 0).astype(int)
    return replace(problem, data=problem.data._replace(y=y, trials=None))


def _reflected(problem: Problem[Pairs]) -> tuple[Sites, np.ndarray]:
    at, mean = position(problem.params), np.asarray(problem.prior.mean)
    C = at["W"] @ mean.T
    u = np.linalg.eigh(C + C.T)[1][:, 0]
    return {**at, "W": 0.2 * at["W"] + 0.01}, np.eye(len(C)) - 2 * np.outer(u, u)


def _mirrored_density(problem: Problem[Pairs]) -> Values:
    at, H = _reflected(problem)
    value = numpyro_density(lca, problem)
    both = [float(value({**at, "W": A @ at["W"]})[0]) for A in (np.eye(len(H)), H)]
    return {"log density": np.logaddexp(both[0], both[1]) - np.log(2)}


def _target(problem: Problem[Pairs], images: float = 1.0) -> Values:
    """Evaluate the samplers' target; wrong: without the mirror image."""
    at, _ = _reflected(problem)
    data = target_data(problem.data, problem.prior, rate_of(problem), problem.params)
    data = (*data[:3], images * data[3])
    return {"log density": jax.jit(TARGET.log_density)(at, data)}


def _end(problem: Problem[Pairs]) -> Sites:
    return position(fit_problem(problem).params)


def _start(problem: Problem[Pairs], shift: float = 0.0) -> Sites:
    """Return the start of the chains; wrong: a different start."""
    posterior = closed_form(problem.data, problem.prior, learning_rate=rate_of(problem))
    assert posterior is not None
    mean = posterior.start.mean
    return {**mean, "log_b": mean["log_b"] + shift}


def _em_end(problem: Problem[Pairs], factor: float = 1.0) -> Sites:
    """Return the result of EM from the mode; wrong: EM with another λ."""
    settings: Any = {**problem.options, "max_steps": 100, "tol": 1e-14}
    settings["init"] = fit_problem(problem).params
    prior = problem.prior._replace(lam=factor * problem.prior.lam)
    return position(fit(problem.data, prior, solver="em", **settings).params)


CHECKS = (
    density(
        lca,
        points,
        _pooled,
        wrong={
            "y=1 pairs left out of the normalizer": {"same": 0.0},
            "another prior width": prior_times(lam=1.01),
        },
    ),
    density(
        lca,
        points,
        _pooled,
        name="log joint density of counts equals the NumPyro density",
        changed=counted,
        wrong={
            "the number of orders left out": {"orders": 0.0},
            "each count taken for one judgment": _as_labels,
        },
    ),
    by_gradient(
        "the samplers' density is the mean of the model's over W and its mirror image",
        reference=_mirrored_density,
        estimate=_target,
        controls={"one image only": partial(_target, images=0.0)},
    ),
    mode(lca, _end, wrong={"λ a tenth too large": prior_times(lam=1.1)}, atol=1e-6),
    mode(
        lca,
        _start,
        name="chains start at a mode of the NumPyro density",
        wrong={"log b a tenth off": {"shift": 0.1}},
        atol=1e-4,
    ),
    mode(
        lca,
        _em_end,
        name="the fixed point of EM is a mode of the NumPyro density",
        wrong={"λ of EM a tenth too large": {"factor": 1.1}},
        atol=5e-6,
    ),
)
