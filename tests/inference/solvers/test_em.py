"""EM's loop, step by step against its definition in NumPy."""

import numpy as np

from probmetric.inference.solvers.em import run_em
from probmetric.inference.solvers.result import Result

PACE, GAP = 0.19, 1e-6
U = np.linalg.qr(np.random.default_rng(8).normal(size=(3, 3)))[0]
P = (U * [0.02, 0.3, 1.0]) @ U.T
CENTER = np.array([1.0, -2.0, 0.5])
START = CENTER + np.array([1.1, -0.9, 1.3])


def hill(theta, bend):
    off = theta - CENTER
    return -(off @ P @ off) / 2 - bend * (off**4).sum() / 4


def ascend(theta, bend):
    """Take a step uphill, as slow and monotone as EM."""
    off = theta - CENTER
    return theta - PACE * (P @ off + bend * off**3), hill(theta, bend)


def descend(theta, bend):
    up, value = ascend(theta, bend)
    return 2 * theta - up, value


def by_definition(step, theta, bend, most):
    """Iterate until the gain, times 1/(1 - ratio²) of two steps, is below ``GAP``."""
    last, before = -np.inf, np.inf
    trace, result, eps = [], Result.MAX_STEPS, np.finfo(float).eps
    while result == Result.MAX_STEPS and len(trace) < most:
        new, value = step(theta, bend)
        after, gain = np.linalg.norm(new - theta), value - last
        theta, size = new, max(1.0, abs(value))
        still = after <= 8 * eps * max(1.0, np.linalg.norm(theta))
        ratio = 0.0 if still else min(after / before, 1.0)
        if gain / max(1 - ratio**2, eps) <= GAP * size and trace:
            result = Result.CONVERGED
        if last - value > 1e-9 * size:
            result = Result.DECREASED
        trace.append(value)
        last, before = value, after
    return theta, trace, result


RUNS = {
    "bent": (ascend, START, 0.7, 200),
    "straight": (ascend, START, 0.0, 200),
    "near": (ascend, CENTER + 1e-3, 0.7, 200),
    "cut short": (ascend, START, 0.7, 3),
    "downhill": (descend, START, 0.0, 50),
}


def test_the_loop_takes_the_steps_of_its_definition(x64):
    for name, (step, start, bend, most) in RUNS.items():
        run = run_em(step, start, np.asarray(bend), max_steps=most, tol=GAP)
        end, trace, result = by_definition(step, start, bend, most)
        assert (int(run.n_steps), int(run.n_evaluations), int(run.result)) == (
            len(trace),
            len(trace) + 1,
            result,
        ), name
        np.testing.assert_allclose(run.trace[: len(trace)], trace, 1e-7, 1e-10)
        np.testing.assert_allclose(run.params, end, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(run.objective, hill(end, bend), atol=1e-10)
