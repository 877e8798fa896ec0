"""Pair LDA against golden vectors, definitions and the notes' indefinite form."""

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.datasets import load_wine

from probmetric.data.containers import Labeled, Pairs
from probmetric.data.pairs import all_pairs
from probmetric.inference import lda, pair_lda
from probmetric.inference.pair_lda import second_moments
from probmetric.neighbors.strength import STRENGTHS, Chosen

METHODS = ["generalized", "kissme", "rca"]


def as_pairs(close, far):
    close, far = np.asarray(close), np.asarray(far)
    n = len(close) + len(far)
    X = np.concatenate([np.zeros((1, close.shape[1])), close, far])
    y = np.repeat([1, 0], [len(close), len(far)])
    return Pairs(X, np.arange(1, n + 1), np.zeros(n, int), y)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return Labeled((X - X.mean(0)) / X.std(0), y)


@pytest.fixture(scope="module")
def wine_pairs(wine):
    return all_pairs(wine.X, wine.y)


def case(golden):
    entry = golden("mix_glml_dml")["p_lda_analog"]
    pairs = as_pairs(entry["in"]["close_diffs"], entry["in"]["far_diffs"])
    return pairs, entry["in"], entry["out"]


def matrix(params):
    return params.factor.T @ params.factor


def test_alpha_min_matches_golden(golden):
    pairs, _, out = case(golden)
    got = pair_lda.alpha_min(*second_moments(pairs))
    np.testing.assert_allclose(got, out["alpha_min"], rtol=1e-13)


def test_notes_form_matches_golden_where_positive_definite(golden):
    pairs, given, out = case(golden)
    params = pair_lda.fit(pairs, method="notes", alpha=given["alpha_pd"]).params
    np.testing.assert_allclose(matrix(params), out["M_pd"], rtol=1e-12)


def test_notes_form_is_refused_where_indefinite(golden):
    """Erratum P9: the golden M at α = 0.1 has two negative eigenvalues."""
    pairs, given, out = case(golden)
    close, far = second_moments(pairs)
    K = given["alpha_indef"] * np.eye(2) + close - far
    np.testing.assert_allclose(
        np.sort(1 / np.linalg.eigvalsh(K)), sorted(out["eigM_indef"]), rtol=1e-12
    )
    with pytest.raises(ValueError, match=r"alpha must be above 2\.226"):
        pair_lda.fit(pairs, method="notes", alpha=given["alpha_indef"])


def test_notes_form_prefers_nothing_at_alpha_min(golden):
    pairs, _, out = case(golden)
    with pytest.raises(ValueError, match="alpha must be above"):
        pair_lda.fit(pairs, method="notes", alpha=out["alpha_min"])
    just_above = pair_lda.fit(pairs, method="notes", alpha=out["alpha_min"] * 1.001)
    assert just_above.params.values[0] > 100 * just_above.params.values[1]


@pytest.mark.parametrize("weighting", ["log", "excess", "one"])
def test_generalized_form_is_its_definition(wine_pairs, weighting):
    close, far = second_moments(wine_pairs)
    values, U = eigh(far, close + 0.01 * np.eye(13))
    g = {
        "log": np.log(np.maximum(values, 1)),
        "excess": np.maximum(values - 1, 0),
        "one": (values > 1).astype(float),
    }[weighting]
    params = pair_lda.fit(wine_pairs, weighting=weighting).params
    np.testing.assert_allclose(matrix(params), (U * g) @ U.T, atol=1e-11)


def test_kissme_is_its_definition(wine_pairs):
    close, far = second_moments(wine_pairs)
    ridge = 0.01 * np.eye(13)
    M = np.linalg.inv(close + ridge) - np.linalg.inv(far + ridge)
    values, V = np.linalg.eigh(M)
    params = pair_lda.fit(wine_pairs, method="kissme").params
    np.testing.assert_allclose(
        matrix(params), (V * np.maximum(values, 0)) @ V.T, atol=1e-10
    )
    share = -values[values < 0].sum() / np.abs(values).sum()
    np.testing.assert_allclose(params.negative_share, share, rtol=1e-9)


def test_rca_on_all_close_pairs_is_rca_on_classes(wine, wine_pairs):
    """C̄ over all within-class pairs is 2 Σ_c n_c S_c / Σ_c n_c(n_c - 1)."""
    M = matrix(pair_lda.fit(wine_pairs, method="rca", alpha=0.0).params)
    pooled = np.zeros((13, 13))
    count = 0
    for c in range(3):
        rows = wine.X[wine.y == c]
        n = len(rows)
        pooled += 2 * n * n * np.cov(rows.T, bias=True) / 2
        count += n * (n - 1) / 2
    np.testing.assert_allclose(M @ (pooled / count), np.eye(13), atol=1e-9)


def test_top_directions_span_those_of_lda_for_balanced_classes():
    """With equal class sizes the pair problem is Fisher's."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    X = rng.standard_normal((60, 5)) + 3 * rng.standard_normal((3, 5))[y]
    ours = pair_lda.fit(all_pairs(X, y), 2, alpha=0.0, weighting="one").params.factor
    theirs = lda.fit(Labeled(X, y)).params.factor
    Q, P = np.linalg.qr(ours.T)[0], np.linalg.qr(theirs.T)[0]
    np.testing.assert_allclose(Q @ Q.T, P @ P.T, atol=1e-10)


@pytest.mark.parametrize("method", ["generalized", "kissme", "notes"])
def test_rank_is_cut_to_the_leading_directions(golden, method):
    pairs, given, _ = case(golden)
    alpha = given["alpha_pd"] if method == "notes" else 0.01
    whole = pair_lda.fit(pairs, method=method, alpha=alpha)
    one = pair_lda.fit(pairs, 1, method=method, alpha=alpha)
    assert one.params.factor.shape == (1, 2)
    np.testing.assert_allclose(one.params.factor, whole.params.factor[:1], rtol=1e-12)


def test_weights_repeat_pairs(golden):
    pairs, _, _ = case(golden)
    twice = pairs._replace(
        i=np.append(pairs.i, pairs.i[[0, 4]]),
        j=np.append(pairs.j, pairs.j[[0, 4]]),
        y=np.append(pairs.y, pairs.y[[0, 4]]),
    )
    weighted = pairs._replace(w=np.array([2.0, 1, 1, 1, 2, 1]))
    np.testing.assert_allclose(
        matrix(pair_lda.fit(twice).params), matrix(pair_lda.fit(weighted).params)
    )


@pytest.mark.parametrize("method", METHODS)
def test_singular_close_pairs_are_refused_without_alpha(method):
    pairs = as_pairs([[1.0, 0.0], [2.0, 0.0]], [[1.0, 2.0], [2.0, -1.0]])
    with pytest.raises(ValueError, match=r"alpha .* close pairs"):
        pair_lda.fit(pairs, method=method, alpha=0.0)
    assert np.all(np.isfinite(pair_lda.fit(pairs, method=method).params.factor))


@pytest.mark.parametrize("method", ["generalized", "kissme"])
def test_far_pairs_that_are_nearer_are_refused(method):
    pairs = as_pairs(3 * np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match=r"must be farther apart than close pairs"):
        pair_lda.fit(pairs, method=method)


def test_pairs_of_one_label_are_refused():
    with pytest.raises(ValueError, match=r"y .* got total weights"):
        pair_lda.fit(as_pairs(np.eye(2), np.empty((0, 2))))


@pytest.mark.parametrize("method", ["generalized", "kissme", "rca"])
@pytest.mark.parametrize("weighting", ["log", "excess", "one"])
def test_an_infinite_prior_is_a_multiple_of_the_identity(wine, method, weighting):
    how = {"method": method, "weighting": weighting}
    k = 13 if weighting == "one" else None
    M = matrix(pair_lda.fit(wine, k, **how, prior_strength=np.inf).params)
    # The data weigh n/s = 1.8e-7.
    np.testing.assert_allclose(M / M[0, 0], np.eye(13), atol=1e-5)
    assert M[0, 0] > 0


def test_the_prior_is_an_average_of_moments_weighted_by_points():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    close, far = second_moments(all_pairs(X, y))
    s, n, one = 40.0, 178, np.eye(13)
    held = [(n * S + s * np.trace(S) / 13 * one) / (n + s) for S in (close, far)]
    values, U = eigh(held[1], held[0] + 0.01 * one)
    expected = (U * np.maximum(np.log(values), 0)) @ U.T
    got = matrix(pair_lda.fit(Labeled(X, y), prior_strength=s).params)
    np.testing.assert_allclose(got, expected, atol=1e-10)


@pytest.mark.parametrize("k", [None, 2])
def test_what_is_tried_in_folds_is_the_fit_of_a_fold(monkeypatch, k):
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    found = []

    def kept(learn, *data, images):
        found.append(learn)
        return Chosen(1.0, np.zeros(6), np.zeros(6))

    monkeypatch.setattr(pair_lda, "choose_by_folds", kept)
    pair_lda.choose_strength(Labeled(X, y), k, method="kissme")
    part = Labeled(X[::3], y[::3])
    points = found[0](np.arange(0, 178, 3))
    for s, image in zip(STRENGTHS, points, strict=True):
        whole = pair_lda.fit(part, k, method="kissme", prior_strength=s).params.factor
        np.testing.assert_array_equal(image, X @ whole.T)


@pytest.mark.parametrize("method", ["generalized", "kissme"])
def test_a_choice_in_the_span_of_few_points_is_the_choice_in_all_directions(method):
    y = np.arange(24) % 3
    X = np.random.default_rng(0).normal(size=(24, 40)) + y[:, None]
    chosen = [
        pair_lda.choose_strength(Labeled(X, y), k, method=method) for k in (None, 40)
    ]
    np.testing.assert_allclose(chosen[0].losses, chosen[1].losses, rtol=1e-10)
