"""What NumPyro asks of a Distribution, asked of every one that the package has."""

import re
from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from scipy.integrate import quad
from scipy.stats import binom

import probmetric
from probmetric.models.distributions import (
    ClassLabel,
    ClassNormal,
    Observed,
    Weighted,
    normal,
)
from probmetric.models.lca import Coincidence, Judgments

KEY = jax.random.key(0)
N_DRAWS = 40_000
DRAWS = (2, N_DRAWS // 2)
STEP = 1e-5
"""Of a difference: truncation h² and rounding eps/h are both below 1e-9."""
Z = 5.0
"""A draw's mean is off by Z standard errors with probability 6e-7: over the 60 numbers
below a false alarm has probability below 4e-5."""

LOG_P = np.log([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3]])
LOC = np.array([[0.0, 1.0], [2.0, -1.0], [-1.0, 0.5]])
CHOL = np.array([[[1.0, 0.0], [0.5, 2.0]], [[0.7, 0.0], [-0.3, 0.5]], np.eye(2)])
Y = np.array([2, 0, 1, 1])
W = np.array([1.0, 0.5, 2.0, 0.0])
M = np.array([1, 4, 3, 2])
SEEN = np.array([[True, False], [True, True], [False, True], [True, True]])


def mixture(seen=None):
    cov = jnp.asarray(CHOL @ CHOL.swapaxes(-1, -2))
    mixing = dist.Categorical(jnp.array([0.2, 0.5, 0.3]))
    return dist.MixtureSameFamily(mixing, normal(jnp.asarray(LOC), cov, seen))


# Of each class: name, how it is made of one real array, that array. "weighted": two
# parameters for four weights each, so that all has the shape of neither. Many of weight
# 1 are these with other numbers; that 1 is the default, "scalar" says.
CASES = {
    Coincidence: {
        "weighted": (lambda lp: Coincidence(lp, W, 0.5), LOG_P[:2, :1]),
        "scalar": (Coincidence, LOG_P[0, 0]),
    },
    Judgments: {
        "weighted": (lambda lp: Judgments(lp, M, W, 0.5), LOG_P[:2, :1]),
        "scalar": (lambda lp: Judgments(lp, np.asarray(3)), LOG_P[0, 0]),
    },
    ClassLabel: {
        "weighted": (lambda lp: ClassLabel(lp, W, 0.5), LOG_P[:2, None]),
        "scalar": (ClassLabel, LOG_P[0]),
    },
    ClassNormal: {
        "tied": (lambda loc: ClassNormal(loc, CHOL[:1], Y), LOC),
        "weighted, two axes": (
            lambda loc: ClassNormal(loc, CHOL, Y.reshape(2, 2), W.reshape(2, 2), 0.5),
            LOC,
        ),
        "missing": (lambda loc: ClassNormal(loc, CHOL, Y, missing=True), LOC),
        "scalar": (lambda loc: ClassNormal(loc, CHOL, np.asarray(1)), LOC),
    },
    Observed: {
        "some": (
            lambda loc: Observed(normal(loc[Y], jnp.asarray(np.eye(2)), SEEN), SEEN),
            LOC,
        ),
        "mixture": (lambda shift: Observed(moved(shift, SEEN), SEEN), np.zeros(2)),
    },
    Weighted: {
        "mixture": (lambda shift: Weighted(moved(shift), W), np.zeros(2)),
        "scalar": (lambda loc: Weighted(dist.Normal(loc, 2.0), 0.5), np.asarray(0.3)),
    },
}


def moved(shift, seen=None):
    """Return a mixture of normals for four points, at a shift."""
    cov = jnp.asarray(CHOL @ CHOL.swapaxes(-1, -2))
    loc = jnp.broadcast_to(jnp.asarray(LOC) + shift, (4, 3, 2))
    mixing = dist.Categorical(jnp.array([0.2, 0.5, 0.3]))
    return dist.MixtureSameFamily(mixing, normal(loc, cov, seen))


NAMED = {f"{c.__name__}-{n}": v for c, cases in CASES.items() for n, v in cases.items()}
DISCRETE = [name for name in NAMED if name.startswith(("Coincidence", "ClassLabel"))]


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@cache
def made(name):
    make, at = NAMED[name]
    return jax.jit(make)(jnp.asarray(at))


def values(make, d, at, direction):
    """Return all that a distribution says, for one program to compute.

    d is an argument, so it goes through its pytree. Of many, ``lax.map`` asks for one
    at a time, where ``log_prob`` gets all at once.
    """
    many, wide = d.sample(KEY, DRAWS), d.expand((5, *d.batch_shape))
    x = many[:, :5]
    mask = jnp.arange(d.batch_shape[-1]) < 2 if d.batch_shape else True
    several = at + jnp.array([0.0, -0.1, -0.2]).reshape(-1, *[1] * jnp.ndim(at))
    ends = jnp.stack([at + STEP * direction, at - STEP * direction])

    @partial(jax.value_and_grad, has_aux=True)
    def total(a, x):
        each = make(a).log_prob(x)
        return jnp.sum(each), each

    # Row by row at one parameter, then one row at several.
    rows = x.reshape(10, *x.shape[2:])
    places = jnp.concatenate([jnp.stack([at] * 10), several, ends])
    given = jnp.concatenate([rows, jnp.stack([rows[0]] * 5)])
    loop = jax.lax.map(lambda args: total(*args), (places, given))
    say = {
        "many": many,
        "x": x,
        "mean": d.mean,
        "variance": d.variance,
        "wide mean": wide.mean,
        "wide variance": wide.variance,
        "in support": jnp.all(d.support(many)),
        "log_prob": d.log_prob(x),
        "row by row": loop[0][1][:10],
        "wide log_prob": wide.log_prob(x),
        "masked event": d.mask(mask).to_event(len(d.batch_shape)).log_prob(x),
        "vmap": jax.vmap(lambda a: make(a).log_prob(rows[0]))(several),
        "loop": jax.tree.map(lambda v: v[10:], loop),
    }
    if d.has_enumerate_support:
        # Untempered: a power of a law has no sum of one.
        plain = type(d)(getattr(d, type(d).pytree_data_fields[0]))
        say["values"] = d.enumerate_support()
        say["p"] = jnp.exp(plain.log_prob(say["values"]))
    return say


@cache
def said(name):
    make, at = NAMED[name]
    at = jnp.asarray(at, float)
    say = jax.jit(partial(values, make))(made(name), at, direction(name))
    return jax.tree.map(np.asarray, say)


def direction(name):
    return np.random.default_rng(0).normal(size=NAMED[name][1].shape)


def each(names=tuple(NAMED)):
    return pytest.mark.parametrize("name", names)


def test_every_distribution_of_the_package_is_tested_here():
    files = Path(probmetric.__file__).parent.rglob("*.py")
    text = "".join(file.read_text("utf8") for file in files)
    ours = re.findall(
        r"^class ([A-Z]\w*)\(.*(?:Distribution|_Reweighted)\)", text, re.M
    )
    assert {*ours} == {kind.__name__ for kind in CASES}


@pytest.mark.long
@each()
def test_samples_and_log_probs_have_the_shapes_of_numpyro(name):
    d, say = made(name), said(name)
    one = jax.eval_shape(lambda: d.sample(KEY))
    assert one.shape == d.shape(())
    assert jax.eval_shape(d.log_prob, one).shape == d.batch_shape
    assert say["many"].shape == d.shape(DRAWS)
    assert say["in support"]
    assert d.support.event_dim == d.event_dim
    assert say["log_prob"].shape == (2, 5, *d.batch_shape)
    assert np.all(np.isfinite(say["log_prob"]))
    rows = say["log_prob"].reshape(say["row by row"].shape)
    np.testing.assert_allclose(rows, say["row by row"], rtol=1e-12, atol=1e-14)
    (_, loop), _ = say["loop"]
    np.testing.assert_allclose(say["vmap"], loop[:3], rtol=1e-12, atol=1e-14)
    wide = d.expand((5, *d.batch_shape))
    x = jax.eval_shape(lambda: wide.sample(KEY, (2,)))
    assert x.shape == (2, 5, *d.batch_shape, *d.event_shape)
    np.testing.assert_allclose(say["wide log_prob"], say["log_prob"], rtol=1e-12)
    np.testing.assert_array_equal(say["wide mean"][2], say["mean"])
    np.testing.assert_array_equal(say["wide variance"][2], say["variance"])


@pytest.mark.long
@each([name for name in NAMED if "scalar" not in name])
def test_events_of_a_batch_add_and_a_mask_leaves_out(name):
    say = said(name)
    mask = np.arange(say["log_prob"].shape[-1]) < 2
    parts = np.where(mask, say["log_prob"], 0.0).reshape(2, 5, -1)
    np.testing.assert_allclose(say["masked event"], parts.sum(-1), rtol=1e-12)


@pytest.mark.long
@each([f"{c.__name__}-{next(iter(cases))}" for c, cases in CASES.items()])
def test_it_is_a_pytree_and_compiles(name):
    # One of each class: another case gives other arrays to the same code.
    again = jax.tree.unflatten(*reversed(jax.tree.flatten(made(name))))
    assert again.batch_shape == made(name).batch_shape
    say = said(name)
    found = jax.jit(lambda d, x: d.log_prob(x))(again, say["x"])
    np.testing.assert_allclose(found, say["log_prob"], rtol=1e-12, atol=1e-14)


@pytest.mark.long
@each()
def test_gradients_are_finite_differences(name):
    (total, _), gradient = said(name)["loop"]
    slope = np.sum(gradient[0] * direction(name))
    np.testing.assert_allclose(slope, (total[3] - total[4]) / (2 * STEP), atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("make", [
    lambda: Coincidence(0.1, validate_args=True),
    lambda: Coincidence(-0.1, -1.0, validate_args=True),
    lambda: Judgments(-0.1, -1, validate_args=True),
    lambda: ClassLabel(LOG_P[0], -1.0, validate_args=True),
    lambda: ClassNormal(LOC, -CHOL, Y, validate_args=True),
    lambda: Observed(mixture(), jnp.array([0.5, 1.0]), validate_args=True),
    lambda: Weighted(mixture(), -1.0, validate_args=True),
])  # fmt: skip
def test_invalid_arguments_are_refused(make):
    with pytest.raises(ValueError, match="invalid"):
        make()


@pytest.mark.long
@each()
def test_moments_are_those_of_the_samples(name):
    d, say = made(name), said(name)
    x = say["many"].astype(float).reshape(N_DRAWS, *d.batch_shape, *d.event_shape)
    mean, variance = say["mean"], say["variance"]
    assert mean.shape == variance.shape == d.batch_shape + d.event_shape
    square = (x - mean) ** 2
    assert np.all(np.abs(x.mean(0) - mean) < Z * x.std(0) / N_DRAWS**0.5)
    assert np.all(np.abs(square.mean(0) - variance) < Z * square.std(0) / N_DRAWS**0.5)


@pytest.mark.long
@each(DISCRETE)
def test_sums_over_the_support_are_one_and_the_moments(name):
    d, say = made(name), said(name)
    values, p = say["values"], say["p"]
    assert values.shape[1:] == d.batch_shape
    narrow = jax.eval_shape(lambda: d.enumerate_support(expand=False))
    assert narrow.ndim == values.ndim
    np.testing.assert_allclose(p.sum(0), 1.0, rtol=1e-12)
    mean = (p * values).sum(0)
    np.testing.assert_allclose(say["mean"], mean, rtol=1e-12)
    variance = (p * (values - mean) ** 2).sum(0)
    np.testing.assert_allclose(say["variance"], variance, rtol=1e-12)
    wide = jax.eval_shape(d.expand((2, *d.batch_shape)).enumerate_support)
    assert wide.shape == (len(values), 2, *d.batch_shape)


def integral(log_density):
    """Integrate a density of one real number, to 1e-8."""
    density = jax.jit(lambda x: jnp.exp(log_density(x)))
    return quad(lambda x: float(density(x)), -40, 40, points=[0.0],
                epsabs=1e-9, limit=200)[0]  # fmt: skip


@pytest.mark.parametrize("log_density", [
    lambda x: ClassNormal(LOC[:, :1], CHOL[:, :1, :1], np.asarray(1))
    .log_prob(jnp.array([x])),
    lambda x: ClassNormal(LOC, CHOL, np.asarray(0), missing=True)
    .log_prob(jnp.array([jnp.nan, x])),
    lambda x: Observed(mixture(jnp.array([[True, False]])), jnp.array([True, False]))
    .log_prob(jnp.array([x, jnp.nan]))[0],
    lambda x: Weighted(dist.Normal(0.3, 2.0), 1.0).log_prob(x),
], ids=["ClassNormal", "missing", "Observed", "Weighted"])  # fmt: skip
def test_densities_integrate_to_one(log_density):
    np.testing.assert_allclose(integral(log_density), 1.0, atol=1e-7)


def test_a_power_of_a_density_does_not_integrate_to_one():
    # ∫ N(x; 0, s)^w dx = s^(1 - w) (2π)^((1 - w)/2) / √w.
    half = Weighted(dist.Normal(0.0, 2.0), 0.5)
    expected = 2**0.5 * (2 * np.pi) ** 0.25 / 0.5**0.5
    np.testing.assert_allclose(integral(half.log_prob), expected, atol=1e-6)


ZERO = {
    "distinct at distance 0": (lambda a: Coincidence(a, 0.0).log_prob(0), 0.0),
    "one of two at distance 0": (lambda a: Judgments(a, 2, 0.0).log_prob(1), 0.0),
    "rate 0": (lambda a: Coincidence(a, 1.0, 0.0).log_prob(0), 0.0),
    "alike at infinity": (lambda a: Coincidence(a, 0.0).log_prob(1), -np.inf),
    "no such class": (
        lambda a: ClassLabel(a, 0.0, validate_args=False).log_prob(jnp.array(0)),
        np.array([-np.inf, 0.0]),
    ),
    "no such point": (
        lambda a: ClassNormal(a, CHOL, np.asarray(0), 0.0, validate_args=False)
        .log_prob(jnp.array([jnp.nan, jnp.inf])),
        LOC,
    ),
    "beyond a support": (
        lambda a: Weighted(dist.Uniform(a, 1.0, validate_args=True), 0.0)
        .log_prob(jnp.array(0.5)),
        0.6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(ZERO))
def test_a_weight_of_zero_removes_an_observation_whatever_it_is(name):
    of, at = ZERO[name]
    value, slope = jax.jit(jax.value_and_grad(of))(jnp.asarray(at))
    assert value == 0.0
    assert np.all(np.asarray(slope) == 0.0)


@pytest.mark.long
def test_judgments_are_binomial_and_the_labels_that_they_count():
    k = np.arange(8)
    log_p = np.log([1e-12, 0.3, 1 - 1e-9])[:, None]
    of = jax.jit(lambda n, k: Judgments(log_p, n).log_prob(k))
    found = of(7, k)
    np.testing.assert_allclose(found, binom(7, np.exp(log_p)).logpmf(k), rtol=1e-7)
    np.testing.assert_allclose(np.exp(found).sum(1), 1.0, rtol=1e-12)
    distinct, alike = jax.jit(Coincidence(log_p).log_prob)(np.arange(2)).T[..., None]
    each = k * alike + (7 - k) * distinct
    ways = binom(7, 0.5).logpmf(k) + 7 * np.log(2)
    np.testing.assert_allclose(found, each + ways, rtol=1e-10)
    certain = jax.jit(Judgments(0.0, 7).log_prob)(k)
    np.testing.assert_array_equal(certain[:7], -np.inf)
    assert certain[7] == 0.0
    one = of(1, np.arange(8) % 2)[:, :2]
    labels = np.concatenate([distinct, alike], 1)
    np.testing.assert_allclose(one, labels, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("code", [-1, 3])
def test_an_unknown_class_code_has_no_density(code):
    label = ClassLabel(jnp.asarray(LOG_P[0]), validate_args=False)
    assert np.isnan(label.log_prob(jnp.array(code)))


def test_a_weight_that_is_not_zero_keeps_what_is_impossible():
    assert Coincidence(0.0, 1e-300).log_prob(0) == -jnp.inf
    label = ClassLabel(jnp.array([-jnp.inf, 0.0]), validate_args=False)
    assert label.log_prob(jnp.array(0)) == -jnp.inf


def test_the_gradient_of_a_weight_of_zero_is_the_log_probability():
    slope = jax.grad(lambda w: Coincidence(-0.7, w).log_prob(0))(0.0)
    np.testing.assert_allclose(slope, np.log(-np.expm1(-0.7)), rtol=1e-12)


@pytest.mark.long
def test_observed_takes_nan_where_nothing_was_seen():
    d = made("Observed-some")
    x = jnp.where(SEEN, d.sample(KEY), jnp.nan)
    assert np.all(d.support(x))
    assert not np.all(constraints.real_vector(x))
    assert np.all(np.isfinite(d.log_prob(x)))
