"""Factors: text and categorical columns of data frames."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder

import probmetric as pm
from probmetric.data.factors import coded, factors_of

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], 20)
SOIL = np.array(["clay", "peat", "rock", "sand"])
KINDS = SOIL[np.where(RNG.random(60) < 0.6, Y, RNG.integers(0, 4, 60))]
X = pd.DataFrame(
    {
        "rain": RNG.normal(size=60) + Y,
        "soil": KINDS,
        "grade": pd.Categorical(RNG.integers(1, 4, 60) * 10),
    }
)


def by_hand(frame=X):
    """Code by scikit-learn; each factor is divided by the root of its variance."""
    rain = (frame["rain"] - X["rain"].mean()) / X["rain"].std(ddof=0)
    parts = [rain.to_numpy()[:, None]]
    for name in ("soil", "grade"):
        encoder = OneHotEncoder(sparse_output=False).fit(X[[name]])
        total = encoder.transform(X[[name]]).var(0).sum()
        parts.append(encoder.transform(frame[[name]]) / np.sqrt(total))
    return np.column_stack(parts)


@pytest.fixture(scope="module")
def lda():
    return pm.LDA().fit(X, Y)


@pytest.mark.parametrize("kind", [pm.LDA, pm.LCA])
def test_a_fit_equals_that_to_columns_coded_by_hand(kind):
    metric = kind().fit(X, Y).get_metric()
    hand = kind(standardize=False).fit(by_hand(), Y).get_metric()
    wanted = hand.pairwise(by_hand()[:5], by_hand())
    np.testing.assert_allclose(metric.pairwise(X[:5], X), wanted, rtol=1e-6, atol=1e-9)


def test_levels_are_equally_far_apart_before_learning():
    """Without information in the classes, at infinite prior strength, M is scaled."""
    rca = pm.RCA(prior_strength=np.inf).fit(X, Y)
    rows = X.iloc[[0] * 4].assign(soil=SOIL)
    D = rca.get_metric().pairwise(rows, rows)
    apart = D[np.triu_indices(4, 1)]
    np.testing.assert_allclose(apart, apart[0])
    p = pd.Series(KINDS).value_counts(normalize=True)
    step = X.iloc[[0, 0]].assign(rain=[0.0, X["rain"].std(ddof=0)])
    unit = rca.get_metric().distance(step[:1], step[1:])[0] ** 2
    np.testing.assert_allclose(apart[0] / unit, 2 / (1 - (p**2).sum()))


@pytest.mark.parametrize(
    "model", [pm.RCA(prior_strength=np.inf, standardize=False), None]
)
def test_without_a_scale_levels_are_1_apart(model):
    frame = X[["soil", "rain"]].assign(rain=0.1 * X["rain"])
    knn = pm.KNeighborsClassifier(model).fit(frame, Y)
    rows = frame.iloc[[0, 0, 0]].assign(soil=SOIL[:3], rain=[0.0, 0.0, 0.0])
    step = rows.iloc[[0, 0]].assign(rain=[0.0, 1.0])
    D = knn.metric_.pairwise(coded(rows, knn.factors_), coded(step, knn.factors_))
    np.testing.assert_allclose(D[1:, 0], D[0, 1])


def test_categories_that_are_integers_are_no_numbers(lda):
    changed = X.assign(grade=X["grade"].cat.rename_categories({20: 1000}))
    other = pm.LDA().fit(changed, Y)
    np.testing.assert_allclose(
        pdist(other.transform(changed)), pdist(lda.transform(X)), rtol=1e-9
    )
    assert lda.factors_["grade"] == ("10", "20", "30")
    plain = X.assign(grade=X["grade"].astype(float))  # The file has no categories.
    np.testing.assert_array_equal(lda.transform(plain), lda.transform(X))


def test_every_way_to_a_distance_accepts_the_frame(lda, tmp_path):
    metric = lda.get_metric()
    wanted = np.linalg.norm(lda.transform(X)[[0, 2]] - lda.transform(X)[[1, 3]], axis=1)
    np.testing.assert_allclose(
        lda.pair_distance(X.to_numpy()[[[0, 1], [2, 3]]]), wanted
    )
    np.testing.assert_allclose(metric.distance(X.iloc[[0, 2]], X.iloc[[1, 3]]), wanted)
    pm.save_metric(metric, tmp_path / "metric.npz")
    stored = pm.load_metric(tmp_path / "metric.npz")
    near = pm.nearest(stored, X[:3], X, 5)
    np.testing.assert_allclose(near[0], np.sort(metric.pairwise(X[:3], X))[:, :5])
    with pytest.raises(
        ValueError, match=r"queries: the factor 'soil' must be one of clay"
    ):
        pm.nearest(stored, X[:3].assign(soil="ice"), X, 1)
    with pytest.raises(ValueError, match="without 'soil=clay'"):
        metric.pairwise(X[["rain", "grade"]], X)


def test_refits_keep_the_scale_of_factors(monkeypatch):
    scales, fit = [], pm.RCA.fit
    monkeypatch.setattr(
        pm.RCA, "fit", lambda self, *a: scales.append(fit(self, *a).scale_) or self
    )
    classes = np.arange(60) % 6  # Left out in turn for P(same) of new classes.
    rca = pm.RCA(prior_strength=1.0).fit(X, classes)
    rca.same_probability(X.to_numpy()[[[0, 1]]], new_classes=True, prior_odds=0.2)
    assert len(scales) > 2
    for scale in scales:
        np.testing.assert_array_equal(scale[1:5], scale[1])


def test_a_preprocessor_may_be_a_frame_with_factors():
    rows = RNG.integers(0, 60, (80, 2))
    same = (Y[rows[:, 0]] == Y[rows[:, 1]]).astype(int)
    found = pm.PairLDA(preprocessor=X).fit_pairs(rows, same)
    coding = coded(X, factors_of(X)).to_numpy()
    s = np.sqrt(
        [
            np.var(coding[rows.T.ravel()][:, b], 0).sum()
            for b in ([0], [1, 2, 3, 4], [5, 6, 7])
        ]
    )
    hand = coding / s[[0, 1, 1, 1, 1, 2, 2, 2]]
    wanted = pm.PairLDA(standardize=False).fit_pairs(hand[rows], same)
    np.testing.assert_allclose(
        found.pair_distance(rows), wanted.pair_distance(hand[rows]), rtol=1e-6
    )
    np.testing.assert_allclose(
        found.get_metric().distance(X[:5], X[5:10]),
        found.pair_distance(np.arange(10).reshape(2, 5).T),
    )


def test_unknown_levels(lda, tmp_path):
    ice = X[:2].assign(soil="ice")
    with pytest.raises(
        ValueError, match="X: the factor 'soil' must be one of clay, peat, rock, sand"
    ):
        lda.transform(ice)
    with pytest.raises(ValueError, match="X must be finite numbers, got NaN in 2 of 2"):
        lda.transform(X[:2].assign(soil=None))
    easy = pm.RCA(prior_strength=np.inf, handle_unknown="ignore").fit(X, Y)
    rows = X.iloc[[0] * 4].assign(soil=SOIL)
    for soil in ("ice", None):
        D = easy.get_metric().pairwise(X[:1].assign(soil=soil), rows)
        apart = easy.get_metric().pairwise(rows[:1], rows)[0, 1]
        np.testing.assert_allclose(D, apart / 2 * (1 - 1 / 4))  # Center of a simplex.
    pm.save_metric(easy.get_metric(), tmp_path / "metric.npz")
    np.testing.assert_array_equal(
        pm.load_metric(tmp_path / "metric.npz").transform(ice), easy.transform(ice)
    )
    missing = X.assign(soil=X["soil"].where(np.arange(60) > 5))
    assert pm.RCA(handle_unknown="ignore").fit(missing, Y).n_features_in_ == 8


@pytest.mark.parametrize("learner", [pm.LDA(), pm.PairLDA()], ids=repr)
def test_rows_of_a_preprocessor_are_those_of_its_frame(learner):
    learner.set_params(prior_strength=4.0)
    rows = np.arange(60)[::-1]
    wanted = clone(learner).fit(X.iloc[rows], Y[rows])
    found = learner.set_params(preprocessor=X).fit(rows, Y[rows])
    assert found.factors_ == wanted.factors_
    np.testing.assert_allclose(found.transform(rows), wanted.transform(X.iloc[rows]))


def test_another_preprocessor_is_coded_by_the_levels_of_the_fit():
    rows = np.random.default_rng(3).permutation(60).reshape(30, 2)
    same = (Y[rows[:, 0]] == Y[rows[:, 1]]).astype(int)
    found = pm.PairLDA(preprocessor=X).fit_pairs(rows, same)
    wanted = found.pair_distance(rows)
    other = X.assign(soil=X["soil"].replace({"sand": "silt"}))
    found.set_params(preprocessor=other)
    with pytest.raises(ValueError, match=r"preprocessor: the factor .* 'silt'"):
        found.pair_distance(rows)
    fewer = np.flatnonzero(X["soil"] != "sand")
    found.set_params(preprocessor=X.iloc[fewer])
    at = np.flatnonzero(np.isin(rows, fewer).all(1))
    again = found.pair_distance(np.searchsorted(fewer, rows[at]))
    np.testing.assert_allclose(again, wanted[at])


def test_text_keeps_its_decimals_and_numbers_of_earlier_models_are_found():
    frame = pd.DataFrame({"soil": ["v1", "v1.0", "v1", "v1.0"]})
    assert factors_of(frame) == {"soil": ("v1", "v1.0")}
    grade = pd.DataFrame({"grade": pd.Categorical([1.0, 2.0])})
    earlier = coded(grade, {"grade": ("1.0", "2.0")})
    assert earlier.to_numpy().tolist() == [[1, 0], [0, 1]]


def test_a_numeric_column_may_look_like_a_level_but_not_be_one():
    frame = X.assign(**{"soil=wet": X["rain"] ** 2})
    lda = pm.LDA(prior_strength=4.0).fit(frame, Y)
    metric = lda.get_metric()
    D = pm.nearest(metric, frame[:3], frame, 2)[0]
    np.testing.assert_allclose(D[:, 0], 0, atol=1e-12)
    with pytest.raises(ValueError, match="factor levels, got 'soil=clay' twice"):
        pm.LDA().fit(X.assign(**{"soil=clay": X["rain"]}), Y)


@pytest.mark.long
@pytest.mark.parametrize(
    "learner",
    [
        pm.LCA(regularization=10.0),
        pm.RCA(prior_strength=1.0),
        pm.GLML(gamma=1.0, random_state=0),
    ],
)
def test_stored_draws_know_whether_unknown_levels_are_ignored(learner, tmp_path):
    easy = learner.set_params(handle_unknown="ignore").fit(X, Y)
    method = "laplace" if isinstance(learner, pm.LCA) else None
    draws = easy.sample(method, n_draws=4, n_chains=1, progress=False)
    pm.save_draws(draws, tmp_path / "draws.nc")
    ice = X[:2].assign(soil="ice")
    memory, file = (
        pm.KNeighborsClassifier(pm.draws_to_metric(tree, "prediction"))
        .fit(X, Y)
        .predict_proba(ice)
        for tree in (draws, pm.load_draws(tmp_path / "draws.nc"))
    )
    np.testing.assert_array_equal(file, memory)
