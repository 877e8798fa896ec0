"""Triplet comparisons: hand-solved cases, limits, the certificate of the mode."""

import jax
import numpy as np
import pytest
from numpyro.infer.util import compute_log_probs, log_density
from scipy import stats
from scipy.optimize import brentq

from probmetric.checks.triplet_comparisons.problems import (
    toy,
    triples,
)
from probmetric.data.containers import OddOneOut, Triplets
from probmetric.data.triplets import triplets_from_arrays, weighing
from probmetric.inference import triplet_comparisons as triplet
from probmetric.inference.triplet_comparisons import curvature
from probmetric.inference.triplet_comparisons.curvature import hessian
from probmetric.inference.triplet_comparisons.embedding import (
    check_connected,
    embedding_prior,
    embedding_start,
    object_rows,
)
from probmetric.inference.triplet_comparisons.likelihood import (
    parts,
    value_and_gradient,
)
from probmetric.inference.triplet_comparisons.statistics import differences
from probmetric.inference.triplet_comparisons.target import TARGET, posterior
from probmetric.models.triplet_comparisons import (
    TripletParams,
    TripletPrior,
    log_odds,
    log_probability,
    simulate,
    triplet_comparisons,
)


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return toy(0)


def test_in_one_dimension_the_mode_is_the_root_of_its_equation():
    # u² - v² = 3: three answers yes, one no, so that t = 3 m² has a finite optimum.
    X, zero = np.array([[0.0], [1.0], [2.0]]), np.zeros(4, int)
    data = Triplets(X, zero, zero + 1, zero + 2, np.array([1, 1, 1, 0]))
    prior = TripletPrior(np.array([[0.5]]), 1.0, 2.0)

    def slope(w):
        p = 1 / (1 + np.exp(-3 * w**2))
        return 6 * w * (3 * (1 - p) - p) - 2 * (w - 0.5)

    found = triplet.fit(data, prior).params.W
    np.testing.assert_allclose(found, brentq(slope, 0.3, 3.0), rtol=1e-6)


def test_log_odds_are_differences_of_squared_distances(problem):
    data, W = problem.data, np.asarray(problem.params.W)
    squared = ((data.X[:, None] - data.X) @ W.T) ** 2
    D = squared.sum(-1)
    wanted = D[data.anchor, data.far] - D[data.anchor, data.near]
    np.testing.assert_allclose(log_odds(problem.params, data), wanted, atol=1e-12)


def test_the_prior_sd_of_an_entry_is_c_over_the_root_of_lambda(problem):
    prior = TripletPrior(np.array([[1.0, 0.0, 2.0], [0.5, -1.0, 0.0]]), c=3.0, lam=0.25)
    W = np.array([[4.0, -3.0, 0.0], [9.0, 1.0, 2.0]])
    wanted = stats.norm.logpdf(W, prior.mean, 6.0).sum()
    with jax.enable_x64(True):
        call = (problem.data, prior), {}, {"W": W}
        in_model = jax.jit(
            lambda: compute_log_probs(triplet_comparisons, *call)[0]["W"]
        )()
    np.testing.assert_allclose(in_model, wanted, rtol=1e-12)
    in_fit, _ = parts(W, differences(problem.data), prior)
    np.testing.assert_allclose(in_fit, wanted, rtol=1e-12)


def test_without_weight_the_prior_is_all_there_is(problem):
    none = problem.data._replace(w=np.zeros(len(problem.data.anchor)))
    found = triplet.fit(none, problem.prior)
    np.testing.assert_allclose(found.params.W, problem.prior.mean, atol=1e-12)


def test_the_prior_of_the_questions_leaves_out_those_of_weight_zero(problem):
    X = np.concatenate([problem.data.X, 100 * problem.data.X])
    a, near, far = (np.asarray(k) for k in problem.data[1:4])
    rows = (np.concatenate([k, k + 60]) for k in (a, near, far))
    w = np.repeat([1.0, 0.0], len(a))
    data = Triplets(X, *rows, None, w)
    for p in (2, 3):
        wanted = triplet.prior_for(problem.data, p)
        found = triplet.prior_for(data, p, lam=0.3)
        assert (wanted.lam, found.lam) == (1.0, 0.3)
        np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-12)
        np.testing.assert_allclose(found.c, wanted.c, rtol=1e-12)
        assert triplet.prior_for(data._replace(w=None), p).c < 0.1 * wanted.c
    with pytest.raises(ValueError, match=r"triplets\.w .* got none"):
        triplet.prior_for(data._replace(w=0 * w))


def test_a_weight_of_two_is_the_triplet_twice(problem):
    data = problem.data._replace(w=None)
    twice = Triplets(data.X, *(np.tile(np.asarray(column), 2) for column in data[1:5]))
    once = data._replace(w=np.full(len(data.anchor), 2.0))
    a, b = (triplet.fit(d, problem.prior).params.W for d in (twice, once))
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_the_gap_certifies_the_mode_and_refuses_what_is_none(problem):
    given = problem.data, problem.prior
    assert triplet.gap(problem.params, *given, **problem.options) < 1e-8
    off = TripletParams(problem.params.W + 0.05)
    assert triplet.gap(off, *given, **problem.options) > 1e-3
    # At W = 0 the likelihood has a saddle wherever answers say anything.
    weak = problem.prior._replace(lam=1e-6)
    none = TripletParams(0 * problem.params.W)
    assert triplet.gap(none, problem.data, weak) == np.inf
    with pytest.raises(ValueError, match="params must be a posterior mode"):
        posterior(none, problem.data, weak)


def test_blocks_of_the_hessian_are_the_whole(problem, monkeypatch):
    data = differences(problem.data)
    whole = hessian(problem.params, data, problem.prior)
    monkeypatch.setattr(curvature, "BLOCK_ENTRIES", 100)  # 16 rows of 6 entries.
    found = hessian(problem.params, data, problem.prior)
    np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-10)


def test_beyond_the_limit_the_gap_is_unknown_and_draws_are_refused(
    problem, monkeypatch
):
    given = problem.params, problem.data, problem.prior
    monkeypatch.setattr(curvature, "MAX_PARAMETERS", 6)
    assert triplet.gap(*given, **problem.options) < 1e-8
    monkeypatch.setattr(curvature, "MAX_PARAMETERS", 5)
    assert np.isnan(triplet.gap(*given, **problem.options))
    with pytest.raises(ValueError, match=r"params .* 5 parameters .* got 6"):
        posterior(*given, **problem.options)


def test_answers_far_from_even_odds_have_finite_log_probability():
    data = Triplets(np.array([[0.0], [1.0], [45.0]]), *np.array([[0], [1], [2]]), None)
    found = log_probability(TripletParams(np.eye(1)), data)
    np.testing.assert_allclose(found, [[-2024.0, 0.0]])


@pytest.mark.parametrize(
    "prior, said",
    [
        (TripletPrior(np.zeros((2, 3))), r"prior\.mean .* got zeros"),
        (TripletPrior(np.eye(2)), r"prior\.mean .* shape \(p, 3\), got \(2, 2\)"),
        (TripletPrior(np.eye(3), lam=0.0), r"prior\.lam must be > 0, got 0\.0"),
    ],
)
def test_priors_without_a_mode_to_look_for_are_refused(problem, prior, said):
    with pytest.raises(ValueError, match=said):
        triplet.fit(problem.data, prior)


def test_triplets_without_answers_are_refused(problem):
    with pytest.raises(ValueError, match=r"triplets\.y .* got None"):
        triplet.fit(problem.data._replace(y=None), problem.prior)


@pytest.mark.parametrize(
    "triplets, y, w, said",
    [
        ([[0, 1, 2], [0, 1, 1.5]], None, None, r"got 1.5 in row 1"),
        ([[0, 1, 2]], [3], None, r"y .*, got \[3.0\]"),
        ([[0, 1, 2]] * 3, [0, 1, -1], None, r"got \[-1.0, 0.0, 1.0\]"),
        ([[0, 1, 2]], [1, 1], None, r"y must have shape \(1,\), got \(2,\)"),
        ([[0, 1, 2]] * 2, None, [1, np.nan], r"^sample_weight .*, got nan in row 1"),
        ([[0, 1, 2]], None, [0.0], "sample_weight must contain a weight above zero"),
    ],
)
def test_bad_triplets_are_refused(triplets, y, w, said):
    with pytest.raises(ValueError, match=said):
        triplets_from_arrays(triplets, y, w, X=np.arange(3.0)[:, None])


def embedded(seed=0, n=9, size=120, p=2, lam=1.0):
    """Answers about n objects at random places, and their problem."""
    rng = np.random.default_rng(seed)
    a, near, far = triples(rng, n, size)
    Z = rng.normal(size=(n, p))
    D = ((Z[:, None] - Z) ** 2).sum(-1)
    y = (rng.logistic(size=size) < D[a, far] - D[a, near]).astype(int)
    data = Triplets(object_rows(n), a, near, far, y)
    return data, embedding_prior(n, p, lam)


def test_the_start_of_an_embedding_is_classical_scaling_of_summed_answers():
    rng, n = np.random.default_rng(2), 7
    a, near, far = triples(rng, n, 60)
    y, w = rng.integers(0, 2, 60), 0.5 + np.arange(60) % 3
    B = object_rows(n)
    start = B @ embedding_start(Triplets(B, a, near, far, y, w), 2).T
    gram = np.zeros((n, n))
    for k in range(60):
        for other, sense in ((far[k], 1), (near[k], -1)):
            e = np.eye(n)[a[k]] - np.eye(n)[other]
            gram += w[k] * (y[k] - 0.5) * sense * np.outer(e, e)
    D = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
    C = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * C @ D @ C)
    Z = vectors[:, -2:] * np.sqrt(values[-2:])
    squared = np.sum((Z[:, None] - Z) ** 2, -1)
    # Scaled to log odds of root mean square 2.
    scale = 2 / np.sqrt(np.mean((squared[a, far] - squared[a, near]) ** 2))
    np.testing.assert_allclose(start @ start.T, scale * Z @ Z.T, atol=1e-10)


def test_log_odds_under_the_prior_of_an_embedding_have_root_mean_square_two():
    rng = np.random.default_rng(0)
    for p in (1, 3):
        c = float(embedding_prior(5, p).c)
        a, near, far = c * rng.normal(size=(3, 200_000, p))
        t = ((a - far) ** 2).sum(1) - ((a - near) ** 2).sum(1)
        # Five standard errors of t²: false alarms below 1 in a million.
        error = 5 * np.std(t**2) / np.sqrt(len(t))
        assert abs(np.mean(t**2) - 4) < error < 0.25


def test_the_mode_of_an_embedding_is_certified_across_rotations():
    data, prior = embedded()
    start = embedding_start(data, 2)
    found = triplet.fit(data, prior, start=start).params
    assert triplet.gap(found, data, prior) < 1e-6
    off = found._replace(W=found.W * 1.05)
    assert triplet.gap(off, data, prior) > 1e-3
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    assert triplet.gap(found._replace(W=turn @ found.W), data, prior) < 1e-6
    H = hessian(found, differences(data), prior)
    tangent = np.concatenate([found.W[1], -found.W[0]])
    slack = 1e-4 * np.linalg.norm(H) * np.linalg.norm(tangent)
    assert np.linalg.norm(H @ tangent) < slack  # Nothing holds the rotation,
    root = posterior(found, data, prior).start.factor
    assert np.linalg.matrix_rank(root) == len(H)  # yet NUTS has a mass matrix.
    narrow = posterior(found, data, prior, quotient=True).start.factor
    np.testing.assert_allclose(narrow.T @ H @ narrow, np.eye(len(H) - 1), atol=1e-6)


def test_a_prior_centred_at_zero_needs_a_start_of_its_shape():
    data, prior = embedded()
    with pytest.raises(ValueError, match=r"prior\.mean .* got zeros.* start"):
        triplet.fit(data, prior)
    with pytest.raises(ValueError, match=r"start .* \(2, 8\), got"):
        triplet.fit(data, prior, start=np.ones((1, 8)))


def quadruplets(seed=0, size=200, n=12):
    """Two pairs of four different points, by number, and the points."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.permutation(n)[:4] for _ in range(size)])
    return rng.normal(size=(n, 2)), rows


def test_log_odds_of_quadruplets_are_differences_of_squared_distances():
    X, rows = quadruplets()
    W = np.array([[1.0, 0.5], [0.0, 2.0]])
    D = (((X[:, None] - X) @ W.T) ** 2).sum(-1)
    a, b, c, d = rows.T
    data = triplets_from_arrays(rows, X=X)
    found = log_odds(TripletParams(W), data)
    np.testing.assert_allclose(found, D[c, d] - D[a, b], atol=1e-12)
    closed = ((differences(data).delta @ W.T) ** 2).sum(-1)[: len(rows)]
    np.testing.assert_allclose(closed, np.stack([D[c, d], D[a, b]], 1), atol=1e-12)


def test_a_quadruplet_with_one_point_in_both_pairs_is_a_triplet():
    X, rows = quadruplets()
    as_four = rows.copy()
    as_four[:, 2] = as_four[:, 0]
    y = np.arange(len(rows)) % 2
    three = triplets_from_arrays(rows[:, [0, 1, 3]], y, X=X)
    four = triplets_from_arrays(as_four, y, X=X)
    prior = TripletPrior(np.eye(2))
    one, other = (triplet.fit(data, prior).params.W for data in (three, four))
    np.testing.assert_array_equal(one, other)
    W = triplet.fit(triplets_from_arrays(rows, y, X=X), prior).params.W
    assert np.abs(W - one).max() > 0.01  # Other questions have another answer.


def test_pairs_of_a_quadruplet_do_not_join_their_objects():
    rows = np.array([[0, 1, 2, 3], [1, 0, 3, 2]])
    apart = triplets_from_arrays(rows, X=object_rows(4))
    with pytest.raises(ValueError, match=r"triplets must .* 2 groups"):
        check_connected(apart)
    joined = np.append(rows, [[0, 1, 1, 2]], axis=0)
    check_connected(triplets_from_arrays(joined, X=object_rows(4)))


@pytest.fixture(scope="module")
def odd():
    """Odd-one-out responses about 7 points, each object being odd, and a map."""
    rng = np.random.default_rng(4)
    rows = np.stack([rng.permutation(7)[:3] for _ in range(30)])
    X, w = rng.normal(size=(7, 3)), 0.5 + np.arange(30) % 3
    data = OddOneOut(X, *rows.T, np.arange(30) % 3, w)
    return data, TripletPrior(np.eye(2, 3), 0.8, 2.0), rng.normal(size=(2, 3))


def chosen(W, data):
    """P(response) of odd-one-out rows by hand: the softmax over pairs of objects."""
    P, y = [], np.asarray(data.y)
    for k, row in enumerate(np.stack([data.anchor, data.near, data.far], 1)):
        shares = {}
        for at in range(3):  # The object that is left out of the pair.
            i, j = np.delete(row, at)
            shares[at] = np.exp(-np.sum((W @ (data.X[i] - data.X[j])) ** 2))
        P.append(shares[{1: 2, 0: 1, 2: 0}[int(y[k])]] / sum(shares.values()))
    return np.array(P)


def test_odd_one_out_is_a_softmax_over_the_three_pairs(odd):
    data, prior, W = odd
    P = np.exp(log_probability(TripletParams(W), data))
    np.testing.assert_allclose(P[np.arange(30), data.y], chosen(W, data), rtol=1e-12)
    found = parts(W, differences(data, 0.7), prior)[1]
    wanted = 0.7 * data.w @ np.log(chosen(W, data))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_odd_one_out_without_the_third_pair_has_the_odds_of_a_triplet(odd):
    data, _, W = odd
    log_p = log_probability(TripletParams(W), data)
    of_triplet = log_odds(TripletParams(W), Triplets(*data))
    np.testing.assert_allclose(log_p[:, 1] - log_p[:, 0], of_triplet, atol=1e-12)


def test_the_order_of_the_three_objects_changes_no_fit(odd):
    data, _, _ = odd
    rows = np.stack([data.anchor, data.near, data.far], 1)
    turned = OddOneOut(data.X, *rows[:, [2, 0, 1]].T, (data.y + 1) % 3, data.w)
    # The third object is odd for 1, so for 2 (+1) after it has become the first.
    fits = []
    for triplets in (data, turned):
        prior = triplet.prior_for(triplets)
        fits.append(triplet.fit(triplets, prior).params)
        assert triplet.gap(fits[-1], triplets, prior) < 1e-6
    np.testing.assert_allclose(fits[0].W, fits[1].W, atol=1e-6)
    place = [{1: 2, 0: 1, 2: 0}[int(k)] for k in data.y]
    odd_last = [[*np.delete(r, k), r[k]] for r, k in zip(rows, place, strict=True)]
    ordered = triplets_from_arrays(odd_last, w=data.w, X=data.X, odd_one_out=True)
    assert isinstance(weighing(ordered), OddOneOut)
    found = triplet.fit(ordered, triplet.prior_for(ordered)).params.W
    np.testing.assert_allclose(found, fits[0].W, atol=1e-6)


def test_lapses_mix_the_softmax_with_even_odds(odd):
    data, prior, W = odd
    P = np.exp(log_probability(TripletParams(W), data, 0.2))
    np.testing.assert_allclose(P.sum(1), 1, rtol=1e-12)
    wanted = 0.8 * chosen(W, data) + 0.2 / 3
    np.testing.assert_allclose(P[np.arange(30), data.y], wanted, rtol=1e-12)
    found = parts(W, differences(data, 0.7, 0.2), prior)[1]
    np.testing.assert_allclose(found, 0.7 * data.w @ np.log(wanted), rtol=1e-12)
    simulated = simulate(jax.random.key(0), TripletParams(100 * W), data, 0.9).y
    sure = np.exp(log_probability(TripletParams(100 * W), data)).argmax(1)
    assert 4 <= np.sum(simulated != sure) <= 28  # 18 expected, σ = 2.7


@pytest.mark.parametrize("kind", [OddOneOut, Triplets])
@pytest.mark.parametrize("lapse_rate", [0.0, 0.2])
def test_the_hessian_is_the_derivative_of_the_gradient(odd, kind, lapse_rate):
    data, prior, W = odd
    data = kind(*data)._replace(y=data.y % (3 if kind is OddOneOut else 2))
    stacked = differences(data, 0.7, lapse_rate)
    found = hessian(TripletParams(W), stacked, prior)
    wanted = np.zeros((6, 6))
    for k, step in enumerate(1e-5 * np.eye(6).reshape(6, 2, 3)):
        up, down = (value_and_gradient(W + s, stacked, prior)[1] for s in (step, -step))
        wanted[k] = np.ravel(down - up) / 2e-5
    np.testing.assert_allclose(found, wanted, atol=1e-7 * np.abs(found).max())


@pytest.fixture(scope="module")
def rated(odd):
    """The same responses with a learned lapse rate, a map and u = logit ε."""
    data, prior, W = odd
    return data, prior._replace(lapse=(1.5, 8.0)), W, np.array(-1.3)


def test_the_prior_of_the_lapse_rate_is_beta_in_its_logit(rated):
    data, prior, W, u = rated
    eps = 1 / (1 + np.exp(-u))
    with jax.enable_x64(True):
        at = {"W": W, "logit_lapse": u}
        of_site, log_likelihood = TARGET.parts(at, (differences(data, 0.7), prior))
    wanted = stats.beta.logpdf(eps, 1.5, 8.0) + np.log(eps * (1 - eps))
    np.testing.assert_allclose(of_site["logit_lapse"], wanted, rtol=1e-12)
    wanted = 0.7 * data.w @ np.log((1 - eps) * chosen(W, data) + eps / 3)
    np.testing.assert_allclose(log_likelihood, wanted, rtol=1e-12)


def test_slopes_and_curvature_with_all_effects_are_those_of_the_numpyro_model(rated):
    data, prior, W, u = rated
    data = data._replace(rater=np.arange(30) ** 2 % 5 % 4)  # 0, 1: ten, 4 in none.
    prior, z = prior._replace(spread=np.full(4, 0.7)), np.array([0.3, -1.0, 0.5])
    stacked = differences(data, 0.7, 1 / (1 + np.exp(-u)), z)
    value, in_W, in_effects = value_and_gradient(W, stacked, prior)
    with jax.enable_x64(True):

        def model(x):
            effects = {"effects": x[6:9], "logit_lapse": x[9]}
            sites = {"W": x[:6].reshape(2, 3), **effects}
            given = (data, prior), {"learning_rate": 0.7}
            return log_density(triplet_comparisons, *given, sites)[0]

        def all_of(x):
            return model(x), jax.grad(model)(x), jax.hessian(model)(x)

        wanted, slope, H = jax.jit(all_of)(np.r_[W.ravel(), z, u])
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    np.testing.assert_allclose(np.append(in_W.ravel(), in_effects), slope, rtol=1e-9)
    found = hessian(TripletParams(W), stacked, prior)
    np.testing.assert_allclose(found, -H, atol=1e-10 * np.abs(H).max())


def test_the_mode_of_a_lapse_rate_counts_the_expected_lapses(rated):
    # Eq. (4) is zero where ε = (Σ ηw (1 - a) + α) / (Σ ηw + α + β), an EM step.
    data, prior, _, _ = rated
    (W, eps, _), *_ = triplet.fit(data, prior, learning_rate=0.7)
    picked = (1 - eps) * chosen(W, data)
    lapses = 0.7 * data.w @ (1 - picked / (picked + eps / 3))
    wanted = (lapses + 1.5) / (0.7 * data.w.sum() + 9.5)
    np.testing.assert_allclose(eps, wanted, rtol=1e-5)
    params = TripletParams(W, eps)
    assert triplet.gap(params, data, prior, learning_rate=0.7) < 1e-8
    off = params._replace(lapse_rate=1.3 * eps)
    assert triplet.gap(off, data, prior, learning_rate=0.7) > 1e-3
    around = posterior(params, data, prior, learning_rate=0.7).start
    np.testing.assert_allclose(around.mean["logit_lapse"], np.log(eps / (1 - eps)))
    # Where ε = 0 is the argument, the learned rate is used.
    P = np.exp(log_probability(params, data, 0.0))
    np.testing.assert_allclose(P[np.arange(30), data.y], picked + eps / 3, rtol=1e-10)


def test_the_sharpness_of_a_rater_multiplies_log_odds_and_has_geometric_mean_one(odd):
    data, prior, W = odd
    s, rater = np.array([0.5, 1.0, 2.0]), np.arange(30) // 2 % 3
    data, params = data._replace(rater=rater), TripletParams(W, sharpness=s)
    P = np.exp(log_probability(params, data, 0.2))
    own = [chosen(np.sqrt(s[r]) * W, data)[k] for k, r in enumerate(rater)]
    wanted = 0.8 * np.array(own) + 0.2 / 3
    np.testing.assert_allclose(P[np.arange(30), data.y], wanted, rtol=1e-12)
    of_typical = log_odds(params, data._replace(rater=None))
    np.testing.assert_allclose(log_odds(params, data), s[rater] * of_typical)
    prior = prior._replace(spread=np.full(3, 0.7))
    z = prior.effects(s)
    # The prior density of differences: log s_1 - log s_0 is N(0, 2ω²), and so on.
    np.testing.assert_allclose(np.sum(z**2), np.sum(np.log(s) ** 2) / 0.7**2)
    np.testing.assert_allclose(prior.sharpness(z), s, rtol=1e-6)
    with jax.enable_x64(True):
        at = {"W": W, "effects": z}
        of_site, found = TARGET.parts(at, (differences(data, 0.7, 0.2), prior))
    np.testing.assert_allclose(found, 0.7 * data.w @ np.log(wanted), rtol=1e-12)
    np.testing.assert_allclose(of_site["effects"], stats.norm.logpdf(z).sum())


def test_raters_who_cannot_differ_and_a_single_rater_give_the_fit_without_raters(odd):
    data, prior, _ = odd
    wanted = triplet.fit(data, prior).params.W
    for n, spread in (3, 1e-6), (1, 0.5):
        rated = data._replace(rater=np.arange(30) % n)
        among = prior._replace(spread=np.full(n, spread))
        found = triplet.fit(rated, among).params
        np.testing.assert_allclose(found.sharpness, 1, atol=1e-9)
        np.testing.assert_allclose(found.W, wanted, atol=1e-6)
        assert triplet.gap(found, rated, among) < 1e-6
