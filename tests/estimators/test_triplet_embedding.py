"""``TripletEmbedding``: places, numbers of objects, draws, bad input."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import probmetric as pm
from probmetric import storage


def answers(seed=0, n=12, size=400, p=2):
    """Answers about n objects with logistic noise, and the objects' places."""
    rng = np.random.default_rng(seed)
    Z = 1.5 * rng.normal(size=(n, p))
    rows = np.stack([rng.permutation(n)[:3] for _ in range(size)])
    squared = ((Z[rows] - Z[rows[:, :1]]) ** 2).sum(-1)
    y = rng.logistic(size=size) < squared[:, 2] - squared[:, 1]
    return Z, rows, y.astype(int)


def distances(Z):
    return np.linalg.norm(Z[:, None] - Z, axis=-1)


@pytest.fixture(scope="module")
def fitted():
    _, rows, y = answers()
    return pm.TripletEmbedding().fit(rows, y)


@pytest.mark.long
def test_distances_are_found_with_their_scale_as_answers_grow():
    Z, rows, y = answers(size=20_000)
    found, true = distances(pm.TripletEmbedding().fit(rows, y).embedding_), distances(Z)
    # Some ten standard errors: an embedding that were not that of Z misses by far.
    assert np.abs(found - true).max() < 0.15 * true.max()
    other = distances(pm.TripletEmbedding().fit(rows, 1 - y).embedding_)
    assert np.abs(other - true).max() > 0.5 * true.max()


def test_places_are_centred_along_their_axes_and_answer_by_distance(fitted):
    Z, (_, rows, y) = fitted.embedding_, answers()
    assert Z.shape == (12, 2)
    np.testing.assert_allclose(Z.sum(0), 0, atol=1e-10)
    scatter = Z.T @ Z
    assert abs(scatter[0, 1]) < 1e-8 * scatter[0, 0]
    assert scatter[0, 0] > scatter[1, 1]
    D = distances(Z) ** 2
    t = D[rows[:, 0], rows[:, 2]] - D[rows[:, 0], rows[:, 1]]
    P = fitted.triplet_probability(rows)
    np.testing.assert_allclose(P, 1 / (1 + np.exp(-t)), atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(rows), t > 0)
    assert fitted.score(rows, y) == np.mean((t > 0) == y)
    assert fitted.gap_ < 1e-6
    metric, E = fitted.get_metric(), fitted.objects_
    np.testing.assert_allclose(metric(E[3], E[7]), np.sqrt(D[3, 7]))


def test_other_numbers_of_the_objects_give_the_same_distances(fitted):
    _, rows, y = answers()
    place = np.random.default_rng(1).permutation(12)
    other = clone(fitted).fit(place[rows], y)
    found = distances(other.embedding_)[np.ix_(place, place)]
    np.testing.assert_allclose(found, distances(fitted.embedding_), atol=1e-4)


def test_an_object_that_nothing_was_asked_of_stays_at_the_prior(fitted):
    _, rows, y = answers()
    more = pm.TripletEmbedding(n_objects=13).fit(rows, y)
    np.testing.assert_allclose(more.embedding_[-1], 0, atol=1e-3)
    near = distances(more.embedding_)[:12, :12]
    np.testing.assert_allclose(near, distances(fitted.embedding_), atol=1e-3)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")  # Of short chains.
@pytest.mark.parametrize("method", ["laplace", pm.NUTS(n_warmup=100)])
def test_draws_are_of_centred_gram_matrices_and_give_intervals(
    fitted, method, tmp_path
):
    size = {"n_draws": 100, "n_chains": 2, "progress": False}
    drawn = fitted.sample(method, **size)
    M = drawn["posterior"]["M"].to_numpy()
    assert M.shape[-2:] == (12, 12)
    np.testing.assert_allclose(M.sum(-1), 0, atol=1e-8)
    posterior = fitted.posterior_metric("intervals", draws=drawn)
    E, D = fitted.objects_, distances(answers()[0])
    (low, high) = posterior.ratio_interval((E[0], E[1]), (E[0], E[2]))
    assert 0 < low < high
    # The true ratio is within three times the 90 % interval: five standard errors.
    centre, half = np.log(low * high) / 2, np.log(high / low) / 2
    assert abs(np.log(D[0, 1] / D[0, 2]) - centre) < 3 * half
    storage.save_draws(drawn, tmp_path / "draws.nc")
    kept = storage.load_draws(tmp_path / "draws.nc")
    again = storage.posterior_of(kept, purpose="intervals")
    assert again.ratio_interval((E[0], E[1]), (E[0], E[2])) == (low, high)


def test_groups_that_no_triplet_of_weight_joins_are_refused():
    _, rows, y = answers(n=6, size=200)
    two = np.r_[rows, rows + 6, [[0, 6, 7]]], np.r_[y, y, 1]
    model, w = pm.TripletEmbedding(), np.ones(len(two[0]))
    assert model.fit(*two, sample_weight=w).gap_ < 1e-6
    w[-1] = 0
    with pytest.raises(ValueError, match=r"triplets must .* 2 groups"):
        model.fit(*two, sample_weight=w)


def test_a_fit_that_ends_at_no_mode_warns():
    _, rows, y = answers()
    with pytest.warns(ConvergenceWarning) as seen:
        model = pm.TripletEmbedding(max_iter=1).fit(rows, y)
    assert model.gap_ == np.inf
    assert any("gap_ is infinite" in str(w.message) for w in seen)


def test_even_odds_are_half_right_whichever_answer_came(fitted):
    model = copy.deepcopy(fitted)
    model.embedding_[10:] = model.embedding_[:1]  # Three objects in one place.
    for y in (0, 1):
        assert model.score([[0, 10, 11], [1, 10, 11]], [y, y]) == 0.5


def test_pickles_from_before_the_folder_load():
    _, rows, y = answers(size=60)
    now = b"triplet_comparisons.estimator\n"
    model = pm.TripletMetric(preprocessor=answers()[0]).fit_triplets(rows, y)
    kept = pickle.dumps(model, protocol=0)
    assert kept.count(now) == 1
    old = pickle.loads(kept.replace(now, b"triplet_comparisons\n"))
    assert type(old) is pm.TripletMetric
    np.testing.assert_array_equal(old.components_, model.components_)


@pytest.mark.parametrize(
    "settings, triplets, y, said",
    [
        ({}, [[0, 1, 1]], None, r"3 \(for 2 components\) to 2000, got 2"),
        ({"n_objects": 3}, [[0, 1, 3]], None, r"row numbers of X \(0 to 2\), got 3"),
        ({}, [[0, 1, 2.5]], None, "triplets must be row numbers"),
        ({}, [[0, 1, -2], [0, 1, 2]], None, "integers of at least 0, got -2"),
        ({}, [[0, 1, np.nan]], None, "integers of at least 0, got nan"),
        ({"n_objects": 3}, [[0, 1, -1]], None, r"row numbers of X \(0 to 2\), got -1"),
        ({}, [[0, 1, 1e300]], None, r"to 2000, got 1e\+300"),
        ({}, [[0, 1, 2], [0, 2, 1]], None, "cancel each other exactly"),
        ({}, [[0, 1, 2], [3, 4, 5]], None, "got 2 groups"),
        ({}, [[0, 1, 2]], [3], "y must be pair labels"),
        ({}, [[0, 1], [1, 2]], None, r"of shape \(N, 3\)"),
        ({"n_components": 0}, [[0, 1, 2]], None, "n_components"),
    ],
)
def test_bad_input_is_refused(settings, triplets, y, said):
    with pytest.raises(ValueError, match=said):
        pm.TripletEmbedding(**settings).fit(triplets, y)


@pytest.mark.long
def test_quadruplets_place_objects_and_learn_a_metric():
    rng, (Z, _, _) = np.random.default_rng(1), answers()
    rows = np.stack([rng.permutation(12)[:4] for _ in range(3000)])
    D = distances(Z) ** 2
    a, b, c, d = rows.T
    y = (rng.logistic(size=3000) < D[c, d] - D[a, b]).astype(int)
    model = pm.TripletEmbedding().fit(rows, y)
    found = distances(model.embedding_)
    # 500 answers a coordinate: some ten standard errors.
    assert np.abs(found - np.sqrt(D)).max() < 0.1 * np.sqrt(D).max()
    assert model.gap_ < 1e-6
    t = found[c, d] ** 2 - found[a, b] ** 2
    P = model.triplet_probability(rows)
    np.testing.assert_allclose(P, 1 / (1 + np.exp(-t)), atol=1e-9)
    metric = pm.TripletMetric(preprocessor=Z).fit_triplets(rows, y)
    side = pm.TripletMetric().fit_triplets(Z[rows], y)
    M = metric.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, np.eye(2), atol=0.2)
    np.testing.assert_allclose(side.get_mahalanobis_matrix(), M, rtol=1e-6)
    # Read as triplets with the last point left out they are other answers.
    wrong = pm.TripletEmbedding().fit(rows[:, :3], y)
    assert np.abs(distances(wrong.embedding_) - np.sqrt(D)).max() > 0.3
    drawn = model.sample("laplace", n_draws=5, n_chains=1)
    np.testing.assert_array_equal(drawn["constant_data"]["other"], c)


def test_names_of_objects_are_numbers_in_sorted_order():
    rng = np.random.default_rng(3)
    numbers = np.stack([rng.permutation(5)[:3] for _ in range(40)])
    names = np.array(["ant", "bee", "cow", "dog", "eel"])
    plain, named = (
        pm.TripletEmbedding(1).fit(triplets) for triplets in (numbers, names[numbers])
    )
    np.testing.assert_array_equal(plain.embedding_, named.embedding_)
    assert plain.object_names_ is None
    assert list(named.object_names_) == list(names)
    shuffled = [["dog", "ant", "eel"]]  # A subset: numbers are those of the fit.
    np.testing.assert_array_equal(
        named.triplet_probability(shuffled), plain.triplet_probability([[3, 0, 4]])
    )
    assert named.get_metric().feature_names_in_ == tuple(names)
    drawn = named.sample("laplace", n_draws=5, n_chains=1, seed=0)
    assert list(drawn.posterior["feature"].values) == list(names)
    with pytest.raises(
        ValueError, match="triplets must contain only objects of the fit, got 'fox'"
    ):
        named.predict([["ant", "fox", "bee"]])
    with pytest.raises(ValueError, match="as in fit, got 'ant'"):
        plain.predict([["ant", "cow", "bee"]])


def test_the_map_of_a_fit_is_its_embedding():
    rng = np.random.default_rng(8)
    triplets = np.stack([rng.permutation(6)[:3] for _ in range(60)])
    fit = pm.TripletEmbedding(3).fit(triplets)
    shown = pm.plots.objects(fit).axes[0].collections[0].get_offsets()
    np.testing.assert_allclose(shown, fit.embedding_[:, :2], atol=1e-9)


@pytest.mark.long
def test_odd_one_out_responses_place_objects_with_their_scale():
    rng = np.random.default_rng(5)
    Z, rows = 1.2 * rng.normal(size=(8, 2)), np.empty((3000, 3), int)
    for row in rows:
        i, j, k = rng.permutation(8)[:3]
        D = [np.sum((Z[a] - Z[b]) ** 2) for a, b in ((i, j), (j, k), (k, i))]
        shares = np.exp(-np.array(D))
        odd_last = (i, j, k), (j, k, i), (k, i, j)
        row[:] = odd_last[rng.choice(3, p=shares / shares.sum())]
    model = pm.TripletEmbedding(odd_one_out=True).fit(rows)
    true = distances(Z)
    assert np.abs(distances(model.embedding_) - true).max() < 0.15 * true.max()
    orders = rows, rows[:, [2, 0, 1]], rows[:, [1, 2, 0]]  # Each object once the last.
    P = sum(map(model.triplet_probability, orders))
    np.testing.assert_allclose(P, 1, rtol=1e-12)
    first, predicted = orders[1], model.predict(rows)
    assert set(predicted) == {0, 1, 2}
    assert model.score(rows) == np.mean(predicted == 1)
    np.testing.assert_array_equal(model.predict(first) == 2, predicted == 1)
    assert model.score(first, np.full(3000, 2)) == model.score(rows)


@pytest.mark.long
def test_a_lapse_rate_keeps_the_scale_of_distances_and_the_probabilities():
    Z, rows, y = answers(size=6000)
    rng = np.random.default_rng(1)
    lapse = rng.random(6000) < 0.15
    y = np.where(lapse, rng.integers(0, 2, 6000), y)
    train, new = slice(5000), slice(5000, None)
    true = distances(Z)

    def scale_and_gap(model):
        found = distances(model.fit(rows[train], y[train]).embedding_)
        P = model.triplet_probability(rows[new])
        sure = P > 0.9
        gap = P[sure].mean() - y[new][sure].mean()
        return found.sum() / true.sum(), gap, np.sqrt(P[sure].mean() * 0.1 / sure.sum())

    scale, gap, error = scale_and_gap(pm.TripletEmbedding(lapse_rate=0.15))
    assert abs(scale - 1) < 0.1
    assert abs(gap) < 4 * error
    assert scale_and_gap(pm.TripletEmbedding())[0] < 0.7

    learned = pm.TripletEmbedding(lapse_rate="auto")
    scale, gap, error = scale_and_gap(learned)
    assert abs(scale - 1) < 0.1
    assert abs(gap) < 4 * error
    assert learned.gap_ < 1e-6
    assert pickle.loads(pickle.dumps(learned)).lapse_rate_ == learned.lapse_rate_
    drawn = learned.sample("laplace", n_draws=200)["posterior"]["lapse_rate"]
    # With 5000 responses the standard error of ε is about 0.012: five of them.
    assert 0.09 < learned.lapse_rate_ < 0.21
    assert abs(float(drawn.mean()) - learned.lapse_rate_) < 0.01
    assert 0.005 < float(drawn.std()) < 0.03


def test_pickles_of_fits_before_learned_lapse_rates_predict():
    old = pm.TripletEmbedding(1, lapse_rate=0.1).fit([[0, 1, 2], [0, 1, 3], [1, 0, 3]])
    P = old.triplet_probability([[0, 1, 2]])
    del old.lapse_rate_
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(old)).triplet_probability([[0, 1, 2]]), P
    )


def test_lapse_rates_outside_0_to_1_are_refused():
    _, rows, y = answers(size=20)
    for rate in (1.0, -0.1):
        with pytest.raises(ValueError, match=rf"lapse_rate must be .*, got {rate}"):
            pm.TripletEmbedding(lapse_rate=rate).fit(rows, y)


@pytest.mark.long
@pytest.mark.parametrize("p", [1, 2])
def test_the_number_of_dimensions_is_chosen_by_held_out_responses(p):
    _, rows, y = answers(n=5, size=300, p=p)
    model = pm.TripletEmbedding("cv").fit(rows, y)
    assert (model.n_components_, model.embedding_.shape) == (p, (5, p))
    losses = model.component_losses_
    assert losses.shape == (4,)  # 5 objects lie in 4 dimensions.
    assert losses.min() < np.log(2)
    order = np.random.default_rng(0).permutation(300)
    again = clone(model).fit(rows[order], y[order])
    np.testing.assert_allclose(again.component_losses_, losses, rtol=1e-4)
    assert not hasattr(
        again.set_params(n_components=2).fit(rows, y), "component_losses_"
    )


def test_names_fix_the_number_of_objects():
    named = np.array([["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]])
    with pytest.raises(ValueError, match=r"n_objects must be None or 3, .* got 5"):
        pm.TripletEmbedding(1, n_objects=5).fit(named)
