"""Neighbours at any scale are those of exact arithmetic, or there is a refusal."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.evaluation.cross_validate import euclid
from probmetric.linalg import psd_factor
from probmetric.linalg_scaled import balanced, squares
from probmetric.metric import Link, LocalMahalanobis, Mahalanobis
from probmetric.metric.mean import MeanDissimilarity, mean_metric
from probmetric.neighbors import linear as neighbors_linear
from probmetric.neighbors.search import found_but_own
from probmetric.posterior.metric import PosteriorMetric
from tests.cli.runs import run
from tests.metric_kinds import NAMES, build, in_units
from tests.oracles import exact_square

rng = np.random.default_rng(0)
Y = np.arange(30) % 3
X = rng.normal(size=(30, 3)) + 0.8 * Y[:, None]
L = np.array([[1.0, 0.5, -0.25], [0.0, 2.0, 1.0], [0.3, -0.7, 1.5]])
WILD = np.where(np.arange(30)[:, None] == 7, [0.0, 1e308, 0.0], X)
UNITS = np.array([1e200, 1.0, 1e-250])


def exact_neighbors(factor, Q, P, k):
    """Sort by (square, index) in fractions."""
    rows = [[exact_square(factor, q, p) for p in P] for q in Q]
    return [sorted(range(len(P)), key=lambda j, r=r: (r[j], j))[:k] for r in rows]


LATTICE = rng.integers(-2, 3, (30, 3)).astype(float)  # Many ties.
CASES = {
    "scale 1": (L, X, X),
    "1e160": (L, X * 1e160, X * 1e160),
    "1e-170": (L, X * 1e-170, X * 1e-170),
    "subnormal points": (L, X * 1e-310, X * 1e-310),
    "near the largest number": (L, X * 2e307, X * 2e307),
    "a large metric": (L * 1e200, X, X),
    "a small metric": (L * 1e-200, X, X),
    "large metric, small points": (L * 1e200, X * 1e-200, X * 1e-200),
    "features in units of their own": (L / UNITS, X * UNITS, X * UNITS),
    "one feature 1e200": (L, X * [1e200, 1, 1], X * [1e200, 1, 1]),
    "one feature 1e-200": (L, X * [1e-200, 1, 1], X * [1e-200, 1, 1]),
    "one point 1e308": (L, WILD, WILD),
    "queries far from points": (L, X[:3] * 1e160, X * 1e150),
    "differences underflow beside 1": (np.eye(3), 1e-200 * X + 0, 1e-200 * X),
    "close pairs beside a large point": (
        np.eye(3),
        np.concatenate([X[:5] * 1e-180, X[5:10]]),
        np.concatenate([X[:20] * 1e-180, X[20:]]),
    ),
    "ties at 2**-600": (np.eye(3), LATTICE * 2.0**-600, LATTICE * 2.0**-600),
    "ties at 2**600": (np.eye(3), LATTICE * 2.0**600, LATTICE * 2.0**600),
    "a flat metric": (np.eye(3)[:2] * 1e180, LATTICE, LATTICE),
}


# Queries so far off that differences of the points are lost in float64's rounding.
FAR = {"one point 1e308": [7], "close pairs beside a large point": slice(5, 10)}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_neighbours_are_those_of_exact_arithmetic(name):
    factor, Q, P = CASES[name]
    if name in FAR:
        Q = np.delete(Q, FAR[name], 0)
    index = found_but_own(Mahalanobis(factor), Q, P, 4, None)[1]
    np.testing.assert_array_equal(index, exact_neighbors(factor, Q, P, 4))


def test_the_plain_search_would_be_found_wrong():
    """Negative control: the same claim rejects the search without scaling."""
    with np.errstate(all="ignore"):
        plain = neighbors_linear._search(L, X * 1e-170, X * 1e-170, 4, None, 64)[1]
    exact = exact_neighbors(L, X * 1e-170, X * 1e-170, 4)
    assert (plain != exact).mean() > 0.5


@pytest.mark.parametrize("scale", [1e160, 1e-170, 1e307, 1e-310])
def test_dissimilarities_beyond_float64_are_refused_with_their_size(scale):
    with pytest.raises(ValueError, match=r"points: .* float64 holds .*got about 1e"):
        pm.nearest(Mahalanobis(L), X[:2] * scale, X * scale, 2)


def test_points_at_zero_from_each_other_are_no_underflow():
    P = np.repeat(X[:5], 2, 0) * 1e-100
    D, index = pm.nearest(Mahalanobis(L), P, P, 2)
    np.testing.assert_array_equal(D, 0)
    np.testing.assert_array_equal(index, np.arange(10).reshape(5, 2).repeat(2, 0))


def test_what_is_ordinary_is_searched_as_it_is():
    scaled, points, exponent = balanced(L, X)
    assert scaled is L
    assert points[0] is X
    assert exponent == 0
    assert balanced(L, X * 1e100)[2] != 0  # Control.


def test_squares_are_exact_to_rounding_at_every_size():
    for a, b, factor in ((X, X[::-1], L), (X * UNITS, X[::-1] * UNITS, L / UNITS)):
        s, e = squares(factor, a, b)
        for i in range(len(a)):
            exact = exact_square(factor, a[i], b[i])
            ratio = exact / (2**1100) * 2 ** (1100 - int(e[i]))
            # 50 eps: three rows of three products each.
            assert s[i] == pytest.approx(float(ratio), rel=1e-14)


@pytest.mark.parametrize("votes", ["soft", "count"])
@pytest.mark.parametrize("power", [-1000, -560, 520, 900])
def test_a_classifier_is_the_same_at_every_scale(votes, power):
    Q, scale = X[:6] + 0.1, 2.0**power
    plain = pm.KNeighborsClassifier(votes=votes).fit(X, Y)
    scaled = pm.KNeighborsClassifier(votes=votes).fit(X * scale, Y)
    found = scaled.predict_proba(Q * scale)
    np.testing.assert_array_equal(found, plain.predict_proba(Q))
    far, index = scaled.kneighbors(Q * scale)
    np.testing.assert_array_equal(far / scale, plain.kneighbors(Q)[0])
    np.testing.assert_array_equal(index, plain.kneighbors(Q)[1])


@pytest.mark.parametrize("scale", [1e-170, 1e160])
def test_rescaling_a_metric_or_its_draws_changes_no_vote(scale):
    draws = [Mahalanobis(L), Mahalanobis(L[::-1] * [1.0, 2.0, 1.0])]
    scaled = [Mahalanobis(d.factor * s) for d, s in zip(draws, (scale, 1), strict=True)]
    votes = [
        pm.KNeighborsClassifier(PosteriorMetric(m, "prediction"))
        .fit(X, Y)
        .predict_proba(X + 0.1)
        for m in (draws, scaled)
    ]
    # scale is no power of two: the factor is rounded.
    np.testing.assert_allclose(votes[1], votes[0], rtol=1e-12)


def test_queries_whose_squares_overflow_are_refused_by_soft_votes():
    knn = pm.KNeighborsClassifier().fit(X, Y)
    with pytest.raises(ValueError, match=r"X: expected points less than 1e150 times"):
        knn.predict_proba(X[:2] * 1e160)


SCALES = (1e-300, 1e-160, 1e-100, 1e100, 1e160, 1e300)
KINDS = {name: build(name) for name in NAMES}
KINDS |= {
    f"mean of {name}": MeanDissimilarity((build(name), build(name, 1)))
    for name in NAMES
}


def order_or_refusal(metric, scale):
    """Return the neighbours of points times a scale, or None if it is refused."""
    try:
        D, index, _ = found_but_own(metric, X[:4] * scale, X * scale, 3, None)
    except ValueError as error:
        said = str(error)
    else:
        said = None
    if said is not None:
        assert re.search(r"largest entry (of )?\d\S*e[-+]\d", said)  # The scale.
        return None
    assert np.isfinite(D).all()
    return index


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_kind_finds_the_same_neighbours_in_any_units(name, scale):
    """The metric's own numbers are in the units of the points."""
    index = order_or_refusal(in_units(KINDS[name], scale), scale)
    if index is None:  # Covariances of 1e320 are infinite, those of 1e-320 rounded.
        assert "PairSimilarity" in name
        assert abs(np.log10(scale)) > 150
    else:
        np.testing.assert_array_equal(index, order_or_refusal(KINDS[name], 1.0))


def limit(metric, scale):
    """Return the Mahalanobis metric whose order a kind has far from its own scale."""
    if isinstance(metric, Mahalanobis):
        return metric
    if isinstance(metric, MeanDissimilarity):
        draws = [limit(draw, scale) for draw in metric.draws]
        return None if None in draws else mean_metric(draws)
    if not hasattr(metric, "matrix_at") or scale > 1:
        return None
    return Mahalanobis(psd_factor(metric.matrix_at(np.zeros((1, 3)))[0]))


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_points_in_other_units_than_the_metric_are_ordered_or_refused(name, scale):
    """Near zero a local metric is that at zero; densities are all alike there."""
    index = order_or_refusal(KINDS[name], scale)
    exact = limit(KINDS[name], scale)
    if index is None:
        assert name != "Mahalanobis"
    elif exact is not None:
        np.testing.assert_array_equal(index, order_or_refusal(exact, scale))
    else:  # Squares of 1e200 are finite.
        assert "PairSimilarity" in name
        assert scale == 1e100


@pytest.mark.parametrize("name", ["LocalMahalanobis", "LocalFisher"])
def test_local_metrics_refuse_points_closer_than_their_squares_can_tell(name):
    with pytest.raises(ValueError, match=r"points: .*closer than 1e-120"):
        pm.nearest(build(name), X[:4] * 1e-200, X * 1e-200, 3)


@pytest.mark.long
@pytest.mark.parametrize("rule", ["min_norm", "regularised", "fisher"])
def test_a_local_metric_refuses_queries_at_which_it_cannot_be_computed(rule):
    local = build("LocalMahalanobis")
    local = LocalMahalanobis(local.classes, local.frame, local.centre, rule=rule)
    assert np.isfinite(local.matrix_at(X[:2] * 1e70)).all()
    for call in (local.matrix_at, lambda Q: pm.nearest(local, Q, X, 2)):
        with pytest.raises(ValueError, match=r"must be within 1e75"):
            call(X[:2] * 1e80)


METHODS = ("dissimilarity", "pairwise", "distance", "transform")
METHODS += ("same_probability", "pair_score", "log_joint", "matrix_at")


def arguments(method, points):
    if method == "dissimilarity":
        return points[0], points[1:7]
    single = method in ("transform", "matrix_at")
    last = 10 if method == "pairwise" else 8
    return (points[:4],) if single else (points[:4], points[4:last])


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", METHODS)
def test_methods_of_metrics_answer_with_finite_numbers_or_refuse(name, method):
    metric = build(name)
    if not hasattr(metric, method):
        pytest.skip(f"{name} has no {method}")
    call = getattr(metric, method)
    assert np.isfinite(call(*arguments(method, X))).all()
    for scale in (1e160, 1e307):
        text = refusal(call, *arguments(method, X * scale))
        if text == "no refusal":
            assert np.isfinite(call(*arguments(method, X * scale))).all()
        else:
            assert "largest entry" in text


def refusal(call, *args):
    """Return the text of a ValueError, or that there was none."""
    try:
        call(*args)
    except ValueError as error:
        return str(error)
    return "no refusal"


@pytest.mark.long
def test_complex_points_are_refused_wherever_points_are_taken(unchecked):
    """Also where annotations are not checked, which refuse them before."""
    said = {}
    for name in NAMES:
        metric = build(name)
        for method in METHODS:
            if hasattr(metric, method):
                args = arguments(method, X + 5j)
                said[f"{name}.{method}"] = refusal(getattr(metric, method), *args)
    M, draws = Mahalanobis(L), PosteriorMetric([Mahalanobis(L)], "prediction")
    knn = pm.KNeighborsClassifier().fit(X, Y)
    said["nearest, queries"] = refusal(pm.nearest, M, X + 5j, X, 2)
    said["nearest, points"] = refusal(pm.nearest, M, X, X + 0j, 2)
    said["draws.pairwise"] = refusal(draws.pairwise, X + 5j, X)
    said["draws.pair_draws"] = refusal(draws.pair_draws, X + 5j, X)
    said["KNeighborsClassifier.fit"] = refusal(knn.fit, X + 5j, Y)
    said["KNeighborsClassifier.predict"] = refusal(knn.predict, X + 5j)
    assert refusal(pm.nearest, M, X, X, 2) == "no refusal"
    assert len(said) > 20
    named = re.compile(
        r"[A-Za-z]+: expected (real )?numbers, got complex|X: .*Complex data"
    )
    assert not {name: text for name, text in said.items() if not named.match(text)}


@pytest.mark.parametrize("method", ["pairwise", "pair_draws"])
def test_draws_refuse_infinite_answers(method):
    draws = PosteriorMetric([Mahalanobis(L), Mahalanobis(L * 1e200)], "prediction")
    far = X * (1e160 if method == "pairwise" else 1e200)
    with pytest.raises(ValueError, match=r"expected .* float64 holds"):
        getattr(draws, method)(far, far[::-1])


def test_the_mean_metric_of_large_draws_is_that_of_the_draws():
    small = PosteriorMetric([Mahalanobis(L), Mahalanobis(2 * L)], "prediction")
    large = [Mahalanobis(d.factor * 2.0**600) for d in small.draws]
    found = PosteriorMetric(large, "prediction").mean_metric()
    np.testing.assert_array_equal(found.factor * 2.0**-600, small.mean_metric().factor)


def test_a_metric_with_nan_is_blamed_itself():
    with pytest.raises(ValueError, match=r"metric: expected a finite factor, got NaN"):
        pm.nearest(Mahalanobis(L * np.nan), X, X, 2)


@pytest.mark.parametrize("part", ["link.b", "link.scale", "factor"])
def test_nan_in_a_stored_metric_is_refused_on_reading(tmp_path, part):
    path = tmp_path / "m.npz"
    pm.save_metric(Mahalanobis(L, Link(np.array(0.1), np.array(0.5))), path)
    pm.load_metric(path)
    with np.load(path) as held:
        arrays = dict(held)
    arrays[f"metric.{part}"] = arrays[f"metric.{part}"] * np.nan
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=rf"metric: expected numbers in metric.{part}"):
        pm.load_metric(path)


@pytest.mark.parametrize("as_text", [{"float": "nan"}, float("nan")])
def test_nan_among_stored_numbers_is_refused_on_reading(tmp_path, as_text):
    path, local = tmp_path / "m.npz", build("LocalMahalanobis")
    local = LocalMahalanobis(local.classes, local.frame, local.centre, epsilon=0.1)
    pm.save_metric(local, path)
    with np.load(path) as held:
        arrays = dict(held)
    header = json.loads(str(arrays["header"]))
    header["metric"]["parts"]["epsilon"] = as_text
    np.savez(path, **{**arrays, "header": np.array(json.dumps(header))})
    with pytest.raises(ValueError, match=r"metric: expected numbers in metric.epsilon"):
        pm.load_metric(path)
    args = local.classes, local.frame, local.centre
    bad = LocalMahalanobis(*args, epsilon=float("nan"))
    with pytest.raises(ValueError, match=r"metric: expected numbers in metric.epsilon"):
        pm.save_metric(bad, path)


def test_the_command_refuses_a_wild_entry_in_one_line(tmp_path):
    pd.DataFrame(WILD, columns=["a", "b", "c"]).to_csv(tmp_path / "d.csv", index=False)
    pm.save_metric(Mahalanobis(L), tmp_path / "m.npz", feature_names=["a", "b", "c"])
    words = ("--metric", tmp_path / "m.npz", "--data", tmp_path / "d.csv", "-k", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = run("neighbors", *words)
    assert done.exit_code == 2
    assert "float64 holds" in " ".join(done.output.split())
    assert "inf," not in done.output


def test_euclid_of_the_report_refuses_columns_it_cannot_standardise():
    for factor in (1e-310, 1e160):
        with pytest.raises(ValueError, match=r"X: expected .*columns"):
            euclid(X * np.array([factor, 1.0, 1.0]))
