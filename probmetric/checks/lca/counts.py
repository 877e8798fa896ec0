"""Counts of judgments: LCA's pooled density against NumPyro's, and against labels.

The problem's pairs are judged 1 to 4 times, y of them *same*. Controls: the number of
orders forgotten; every count taken for one judgment; a judgment of a pair more.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from probmetric.checks.check import Problem, Values, by_algebra, by_gradient
from probmetric.checks.lca.density import density_reference, pooled_values
from probmetric.data.containers import Pairs, weights
from probmetric.inference.lca.likelihood import log_likelihood
from probmetric.inference.lca.statistics import prepare


def counted(problem: Problem[Pairs]) -> Problem[Pairs]:
    """Return the problem with counts in the place of its labels, a function of them."""
    pairs = problem.data
    place = np.arange(len(pairs.i))
    trials = 1 + place % 4
    y = np.where(np.asarray(pairs.y) == 1, trials - place // 4 % 2, place // 4 % 2)
    return replace(problem, data=pairs._replace(y=np.maximum(y, 0), trials=trials))


def _density(problem: Problem[Pairs], **wrong: float) -> Values:
    return pooled_values(counted(problem), **wrong)


def _reference(problem: Problem[Pairs]) -> Values:
    return density_reference(counted(problem))


def _as_one_judgment(problem: Problem[Pairs]) -> Values:
    """Take each count for one label, *same* where it is not zero."""
    pairs = counted(problem).data
    labels = pairs._replace(y=(np.asarray(pairs.y) > 0).astype(int), trials=None)
    return pooled_values(replace(problem, data=labels))


def repeated(problem: Problem[Pairs]) -> Values:
    """Evaluate the log likelihood of every judgment as a pair of its own."""
    pairs = counted(problem).data
    y, trials = np.asarray(pairs.y), np.asarray(pairs.trials)
    at = np.repeat(np.arange(len(y)), trials)
    first = np.cumsum(trials) - trials
    label = (np.arange(len(at)) - first[at] < y[at]).astype(int)
    i, j = np.asarray(pairs.i)[at], np.asarray(pairs.j)[at]
    w = np.asarray(weights(pairs))[at]
    return _values(problem, Pairs(np.asarray(pairs.X), i, j, label, w))


def _values(problem: Problem[Pairs], pairs: Pairs) -> Values:
    stats = prepare(pairs)._replace(ways=np.zeros(()))
    value: Any = log_likelihood(problem.params, stats)
    return {"log likelihood": np.asarray(value), "n": stats.n, "scatter": stats.T}


def _of_counts(problem: Problem[Pairs], more: int = 0) -> Values:
    pairs = counted(problem).data
    trials = np.asarray(pairs.trials).copy()
    trials[0] += more
    return _values(problem, pairs._replace(trials=trials))


CHECKS = (
    by_algebra(
        "counts are the labels that they count",
        reference=repeated,
        estimate=_of_counts,
        controls={"one judgment more": partial(_of_counts, more=1)},
        rtol=1e-9,
    ),
    by_gradient(
        "pooled log joint of counts is the NumPyro density, value and gradient",
        reference=_reference,
        estimate=_density,
        controls={
            "the number of orders forgotten": partial(_density, ways=0.0),
            "each count taken for one judgment": _as_one_judgment,
        },
    ),
)
