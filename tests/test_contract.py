"""One battery for every registered model: its checks, its controls, its metric.

Items (a)-(f) and (k) of the contract are the model's own ``Check``s: density against
the NumPyro model, posterior against quadrature, EM stationary and monotone, sampling,
calibration, and the wrong forms that each must reject. `make gates` runs those that are
quick, `make slow` the others, but for calibration over hundreds of simulated worlds:
`make studies`. The rest is generic.
"""

from contextlib import contextmanager

import jax
import numpy as np
import pytest

from probmetric.checks.check import judge
from probmetric.registry import MODELS

GOOD = {"exact": "agree", "approximate": "within"}
BAD = {"exact": "disagree", "approximate": "outside"}
ALPHA = 0.01
"""Rate at which a right claim is called wrong by chance: all quick ones together, and
all others, of `make slow` and `make studies`, together."""

LONG_CHAINS = {
    "Laplace's distances, b and spread are near NUTS draws",
    "Laplace's log distances are near NUTS draws",
}
"""Claims whose programs run for longer than they compile."""

COMPILED = {
    "SVI's invariants are near NUTS draws",
    "SVI is near NUTS on J and p(c|x), mixtures fixed",
}
"""Slow claims whose programs compile for longer than they run."""

assert LONG_CHAINS | COMPILED <= {c.name for m in MODELS.values() for c in m.checks}


@contextmanager
def optimized(check):
    """Let XLA optimize what computes for long, and nothing that compiles for longer."""
    name = "jax_disable_most_optimizations"
    said = jax.config.read(name)
    quickly = said and check.name not in LONG_CHAINS
    jax.config.update(name, quickly or check.name in COMPILED)
    try:
        yield
    finally:
        jax.config.update(name, said)


def share(slow):
    """Return what a statistical test of the quick or the slow claims has of ALPHA."""
    checks = [check for spec in MODELS.values() for check in spec.checks]
    return ALPHA / max(sum(c.tests for c in checks if c.slow == slow), 1)


def cases():
    for name, spec in MODELS.items():
        for check in spec.checks:
            speed = pytest.mark.slow if check.slow else pytest.mark.gate
            if check.slow and check.layer == "sbc":
                speed = pytest.mark.study
            yield pytest.param(
                name,
                check,
                id=f"{name}: {check.name}",
                marks=[speed, pytest.mark.xdist_group(name)],
            )


@pytest.fixture(scope="module")
def problems():
    """Each model's toy problem, made once."""
    made = {}

    def get(name):
        if name not in made:
            with jax.enable_x64(True):
                made[name] = MODELS[name].toy(0)
        return made[name]

    return get


@pytest.fixture(scope="module")
def references(problems):
    """References by model and function: checks that name one share it."""
    made = {}

    def get(name, check):
        key = name, check.reference
        if key not in made:
            made[key] = check.reference(problems(name))
        return made[key]

    return get


@pytest.mark.parametrize("name, check", list(cases()))
def test_claim_holds_and_every_control_is_rejected(problems, references, name, check):
    problem, alpha = problems(name), share(check.slow)
    with jax.enable_x64(True), optimized(check):
        reference = references(name, check)
        found = judge(check, problem, reference=reference, alpha=alpha)
        # Every entry within its bound, though under a k-hat of .7 or more.
        doubted = check.kind == "approximate" and found.attrs["unreliable"]
        assert doubted or found.attrs["verdict"] == GOOD[check.kind], (
            found.to_dataframe()
        )
        for control in check.controls:
            known = {"reference": reference, "alpha": alpha}
            wrong = judge(check, problem, control=control, **known)
            assert wrong.attrs["verdict"] == BAD[check.kind], control


def points_of(problem):
    """Some points to measure between; as many of each, to compile little."""
    X = np.asarray(problem.data.X)
    return X[:12], X[12:24]


@jax.jit
def compiled(metric, Q, P):
    """Return all pairwise dissimilarities of a metric, as one program."""
    return metric.pairwise(Q, P)


WITH_POINTS = [n for n, s in MODELS.items() if "X" in s.data_kind._fields]
ONE_OF_A_KIND = {MODELS[n].metric_kind: n for n in WITH_POINTS}.values()
"""A model for each kind of metric; ``tests/metric`` has what each kind promises."""


@pytest.mark.parametrize("name", WITH_POINTS)
def test_a_model_has_the_kind_of_metric_that_it_says(problems, name):
    spec = MODELS[name]
    assert isinstance(spec.to_metric(problems(name).params), spec.metric_kind)


@pytest.mark.long
@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_metric_is_the_same_under_jit_and_in_float32(problems, name):
    spec, problem = MODELS[name], problems(name)
    Q, P = points_of(problem)
    with jax.enable_x64(True):
        metric = spec.to_metric(problem.params)
        D = np.asarray(metric.pairwise(Q, P))
        np.testing.assert_allclose(compiled(metric, Q, P), D, rtol=1e-9, atol=1e-10)
    single = jax.tree.map(lambda a: np.asarray(a, np.float32), metric)
    rough = np.asarray(compiled(single, Q.astype(np.float32), P.astype(np.float32)))
    assert rough.dtype == np.float32
    # 1e4 eps of float32 on the scale of the largest dissimilarity.
    np.testing.assert_allclose(rough, D, atol=1e-3 * np.abs(D).max())


@pytest.fixture(scope="module")
def learned(problems):
    """Return each model's metric of its toy problem, fitted once."""
    made = {}

    def get(name):
        if name not in made:
            spec = MODELS[name]
            made[name] = spec.to_metric(spec.fit(problems(name)).params)
        return made[name]

    return get


def invariances():
    for name, spec in MODELS.items():
        for change in spec.invariants:
            yield pytest.param(name, change, id=f"{name}: {change}")


@pytest.mark.long
@pytest.mark.parametrize("name, change", list(invariances()))
def test_metric_does_not_see_the_change(problems, learned, name, change):
    spec, problem = MODELS[name], problems(name)
    Q, P = points_of(problem)
    with jax.enable_x64(True):
        before = learned(name)
        changed = spec.invariants[change](problem)
        after = spec.to_metric(spec.fit(changed).params)
        shift = np.asarray(changed.data.X).mean(0) - np.asarray(problem.data.X).mean(0)
        want = np.asarray(before.pairwise(Q, P))
        got = np.asarray(after.pairwise(Q + shift, P + shift))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())
