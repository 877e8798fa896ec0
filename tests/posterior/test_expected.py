"""Every number and message of ``posterior`` equals a stored text.

Numbers were computed a second time in plain NumPy, mostly below.
"""

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.special import xlog1py, xlogy

import probmetric as pm
from probmetric.checks.gdm import problems as gdm
from probmetric.metric import Link, Mahalanobis, SplineCityBlock
from probmetric.metric.feature_names import names_of
from probmetric.models.gdm import to_metric as gdm_metric
from probmetric.posterior import bands, importance, intervals, jackknife, stack
from probmetric.posterior import draws as of_draws
from probmetric.posterior.curves import curves
from probmetric.posterior.interval_metric import IntervalMetric, same_size
from probmetric.posterior.metric import PosteriorMetric
from probmetric.posterior.next_pairs import next_pairs
from tests.dump import outcomes, text
from tests.expected import assert_expected
from tests.metric_kinds import build

X = np.random.default_rng(1).normal(size=(11, 3)).round(2)
RNG = np.random.default_rng(4)
FACTORS = (np.array([[1.0, 0.2, -0.4], [0.0, 0.7, 0.3]])
           + 0.2 * RNG.normal(size=(6, 2, 3))).round(3)  # fmt: skip
B = np.array([0.1, 0.35, 0.2, 0.6, 0.15, 0.45])
LINKED = [Mahalanobis(L, Link(np.array(b), np.array(0.5)))
          for L, b in zip(FACTORS, B, strict=True)]  # fmt: skip
A, C = X[:3], X[4:7]
EACH = np.array([np.linalg.norm((A - C) @ L.T, axis=1) for L in FACTORS])
FAR = np.array([np.linalg.norm((C - X[8:]) @ L.T, axis=1) for L in FACTORS])
P = np.exp(-(B[:, None] + EACH**2 / 2))


def half(values, df, factor=1.0, prob=0.8):
    """Half-widths of jackknife-t limits of values, the first from all points."""
    g = len(values) - 1
    spread = np.sum((values[1:] - values[1:].mean(0)) ** 2, 0) * (g - 1) / g
    return stats.t.ppf((1 + prob) / 2, df) * np.sqrt(factor * spread)


def test_interval_metric():
    made = IntervalMetric(LINKED[0], LINKED[1:], factor=0.3, df=3, about="six")
    ratios = [build("PairSimilarity", s) for s in range(3)]
    plain = IntervalMetric(ratios[0], ratios[1:])
    calls = {
        "is": lambda: [repr(made), repr(plain), str(made.n_features), str(
            made.is_distance)],
        "distance": lambda: made.distance(A, C),
        "same": lambda: made.same_probability(A, C),
        "interval": lambda: made.interval(A, C, prob=0.8),
        "ratio": lambda: made.ratio_interval((A, C), (C, X[8:]), prob=0.8),
        "same interval": lambda: made.same_interval(A, C, prob=0.8),
        "default": lambda: [made.interval(A, C), made.same_interval(A, C)],
        "other kind": lambda: plain.interval(A, C, prob=0.8),
        "padded": lambda: [m.factor for m in same_size(
            [Mahalanobis(FACTORS[0][:1]), Mahalanobis(FACTORS[1])])],
        "prob": lambda: made.interval(A, C, prob=1.0),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "posterior/interval_metric.txt")
    np.testing.assert_allclose(found["distance"], EACH[0])
    np.testing.assert_allclose(found["same"], P[0])
    log, odds = np.log(EACH), np.log(P / (1 - P))
    ends = np.exp(log[0] + np.outer([-1, 1], half(log, 3, 0.3)))
    np.testing.assert_allclose(found["interval"], ends)
    ends = odds[0] + np.outer([-1, 1], half(odds, 3, 0.3))
    np.testing.assert_allclose(found["same interval"], 1 / (1 + np.exp(-ends)))
    log -= np.log(FAR)
    ends = np.exp(log[0] + np.outer([-1, 1], half(log, 3, 0.3)))
    np.testing.assert_allclose(found["ratio"], ends)


def test_posterior_metric():
    """Quantiles, means and shares over six draws; ``exact`` ones as they are."""
    exact = PosteriorMetric(LINKED, "intervals", pairs_independent=True, source="exact")
    noisy = PosteriorMetric(LINKED, "intervals", pairs_independent=True)
    credible = PosteriorMetric(LINKED, "intervals", pairs_independent=True,
        source="nuts",
                               credible=True)  # fmt: skip
    labels = PosteriorMetric(LINKED, "intervals", source="svi")
    ahead = PosteriorMetric(
        LINKED, "prediction", pairs_independent=True, source="bootstrap"
    )
    ratios = PosteriorMetric([build("PairSimilarity", s) for s in range(3)],
        "intervals",
                             pairs_independent=True, source="bootstrap")  # fmt: skip
    calls = {
        "is": lambda: [repr(exact), str(exact.n_draws), str(exact.n_features)],
        "mean": lambda: exact.mean_metric().matrix,
        "dissimilarity": lambda: exact.dissimilarity(A[0], C),
        "pairs": lambda: exact.pair_draws(A, C),
        "closer": lambda: exact.closer_probability(A, C, X[8:]),
        "tie": lambda: exact.closer_probability(A, C, C),
        "near": lambda: exact.neighbor_probability(A, X, 4, exclude_self=False),
        "others": lambda: exact.neighbor_probability(X, X, 2, exclude_self=True),
        "ranks": lambda: exact.rank_interval(A[0], X, prob=0.6),
        "same": lambda: exact.same_probability(A, C),
        "same interval": lambda: exact.same_interval(A, C, prob=0.8),
        "odds": lambda: ratios.same_probability(A, C, prior_odds=0.3),
        "odds interval": lambda: ratios.same_interval(A, C, prob=0.8, prior_odds=0.3),
        "no odds": lambda: exact.same_probability(A, C, prior_odds=0.3),
        "prediction": lambda: ahead.interval(A, C),
        "labels": lambda: labels.interval(A, C),
        "p of labels": lambda: labels.same_interval(A, C),
        "bootstrap": lambda: PosteriorMetric(LINKED, "intervals",
            pairs_independent=True, source="bootstrap").interval(A, C),
        "ratio of ratios": lambda: ratios.ratio_interval((A, C), (A, C)),
        "same points": lambda: exact.ratio_interval((A, C), (A, A)),
        "purpose": lambda: PosteriorMetric(LINKED, "both"),
        "source": lambda: PosteriorMetric(LINKED, "intervals", source="jackknife"),
    } | {
        f"{name} {kind}": call
        for name, one in {"exact": exact, "noisy": noisy, "credible": credible}.items()
        for kind, call in {
            "distance": lambda one=one: one.distance(A, C),
            "interval": lambda one=one: one.interval(A, C, prob=0.8),
            "ratio": lambda one=one: one.ratio_interval((A, C), (C, X[8:]), prob=0.8),
        }.items()
    }  # fmt: skip
    asked = {
        "interval": lambda p: p.interval(A, C),
        "ratio": lambda p: p.ratio_interval((A, C), (C, X[8:])),
        "ranks": lambda p: p.rank_interval(A[0], X),
        "P interval": lambda p: p.same_interval(A, C),
        "P": lambda p: p.same_probability(A, C),
    }
    whole = PosteriorMetric(
        LINKED, "intervals", pairs_independent=True, source="bootstrap"
    )
    local = [build("LocalMahalanobis", s) for s in (0, 1)]
    unlinked = PosteriorMetric(
        local, "intervals", pairs_independent=True, source="bootstrap"
    )
    given = dict(ahead=ahead, labels=labels, sound=whole, unlinked=unlinked)
    calls |= {
        f"{about} {name}": lambda p=p, ask=ask: ask(p)
        for about, p in given.items()
        for name, ask in asked.items()
    }
    found = outcomes(calls)
    assert_expected(text(found), "posterior/posterior_metric.txt")
    tails = [0.1, 0.9]
    wanted = {
        "pairs": EACH,
        "exact distance": np.median(EACH, 0),
        "exact interval": np.quantile(EACH, tails, 0),
        "exact ratio": np.quantile(EACH / FAR, tails, 0),
        "same": P.mean(0),
        "same interval": np.exp(np.quantile(np.log(P), tails, 0)),
        "closer": np.mean(EACH < [np.linalg.norm((A - X[8:]) @ L.T, axis=1)
                                  for L in FACTORS], 0),
        "mean": np.einsum("spi,spj->ij", FACTORS, FACTORS) / 6,
    }  # fmt: skip
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, err_msg=name)
        if f"{name}".startswith("exact"):
            other = found[name.replace("exact", "credible")]
            np.testing.assert_allclose(other, value)
    near = [np.argsort(np.linalg.norm((X - A[1]) @ L.T, axis=1))[:4] for L in FACTORS]
    shares = np.bincount(np.ravel(near), minlength=11) / 6
    np.testing.assert_allclose(found["near"][1], shares)


def test_lengths_and_rotations():
    """Aligned maps are rotations of the draws that fit the reference best."""
    delta = A - C
    turned = intervals.one_rotation(FACTORS)
    calls = {
        "aligned": lambda: intervals.aligned(FACTORS, FACTORS[2]),
        "one": lambda: turned,
        "lengths": lambda: intervals.true_lengths(turned, delta),
        "quantiles": lambda: intervals.quantiles(EACH, 0.7),
        "ranks": lambda: intervals.quantiles(EACH, 0.7, "inverted_cdf"),
        "zero": lambda: intervals.apart(np.array([1.0, 0.0])),
        "infinite": lambda: intervals.ratio(np.array([1e300]), np.array([1e-300])),
        "positive": lambda: [intervals.is_positive(build(n)) for n in (
            "Mahalanobis", "PairSimilarity", "SplineCityBlock")],
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "posterior/lengths.txt")
    for given, made in zip(FACTORS, found["aligned"], strict=True):
        np.testing.assert_allclose(made.T @ made, given.T @ given)
    v = np.einsum("spd,md->smp", turned, delta)
    size = np.linalg.norm(v.mean(0), axis=1)
    np.testing.assert_allclose(found["lengths"][1], size)
    along = np.einsum("smp,mp->sm", v - v.mean(0), v.mean(0)) / size[:, None].T
    across = np.sum((v - v.mean(0)) ** 2, 2) - along**2
    wanted = np.maximum(np.sqrt(np.maximum(size**2 - across, 0)) + along, 0)
    np.testing.assert_allclose(found["lengths"][0], wanted)


def test_jackknife():
    """Limits by a loop; groups take every fiftieth row of each class in turn."""
    values = EACH.copy()
    values[3, 1] = np.inf
    zero = np.where(np.arange(3) == 2, 0.0, EACH)
    codes = np.arange(130) % 3
    points = np.random.default_rng(3).normal(size=(130, 2))
    calls = {
        "limits": lambda: jackknife.limits(EACH, 0.8, 0.3, 3),
        "default": lambda: jackknife.limits(EACH, 0.8),
        "infinite": lambda: jackknife.limits(values, 0.8),
        "positive": lambda: jackknife.positive_limits(zero, 0.8, 0.3, 3),
        "only": lambda: jackknife.positive_limits(np.r_[zero[:1], EACH], 0.8),
        "few": lambda: jackknife.groups_of(codes[:100]),
        "groups": lambda: jackknife.groups_of(codes, 2),
        "quarters": lambda: np.array([*jackknife.quarters(points[:9], codes[:9], 1)])[
            :8],
        "t": lambda: [jackknife.quantile_of_t(0.8, 3), jackknife.FACTOR],
        "prob": lambda: [jackknife.checked_prob(np.array(0.4))],
        "no prob": lambda: jackknife.checked_prob(1.5),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "posterior/jackknife.txt")
    ends = EACH[0] + np.outer([-1, 1], half(EACH, 3, 0.3))
    np.testing.assert_allclose(found["limits"], ends)
    ends = EACH[0] + np.outer([-1, 1], half(EACH, 4))
    np.testing.assert_allclose(found["default"], ends)
    out = ~found["quarters"].reshape(2, 4, 9)
    assert (out.sum(1) == 1).all()


def test_bands():
    """Bins by sorting; a band is the mean ± q sd, q a quantile of the largest gap."""
    values = np.array([0.3, 1.1, 2.7, 1.4, 0.2, 3.1, 0.6, 5.5, 4.2])
    curved = RNG.gamma(2, size=(8, 4)).round(3)
    sizes = np.array([[1, 2], [3, 0], [0, 1], [2, 4], [1, 1.0]])
    calls = {
        "binned": lambda: [bands.binned(values, n) for n in (1, 3, 4)],
        "ties": lambda: bands.binned(np.array([1.0, 1, 1, 2, 3, 3]), 3),
        "merged": lambda: [
            bands.merged(np.arange(5), sizes, n) for n in (1.0, 3.0, 4.0, 99.0)
        ],
        "deviation": lambda: bands.deviation(curved, curved.mean(0), curved.std(0)),
        "band": lambda: bands.band(curved, 0.7),
    }
    found = outcomes(calls)
    assert_expected(text(found), "posterior/bands.txt")
    largest = (np.abs(curved - curved.mean(0)) / curved.std(0)).max(1)
    q = np.quantile(largest, 0.7) * curved.std(0)
    np.testing.assert_allclose(found["band"], [curved.mean(0) - q, curved.mean(0) + q])
    order = np.argsort(values).reshape(3, 3)
    np.testing.assert_array_equal(found["binned"][1][0][order.ravel()],
                                  np.repeat(np.arange(3), 3))  # fmt: skip
    np.testing.assert_allclose(found["binned"][1][1], values[order].mean(1))


def test_curves():
    """I-splines of two knots are the share of the way between them, by hand."""
    knots = np.array([[0.0, 2.0, 3.0], [-1.0, 0.5, 4.0]])
    heights = RNG.gamma(2, size=(5, 2, 3)).round(3)
    splines = [SplineCityBlock(knots, h) for h in heights]
    refits = IntervalMetric(splines[0], splines[1:], factor=0.3, df=3)
    posterior = PosteriorMetric(
        splines, "intervals", source="exact", pairs_independent=True
    )
    other = SplineCityBlock(knots + 1, heights[0])
    calls = {
        "plain": lambda: curves(splines[0], n_points=4),
        "refits": lambda: curves(splines[0], refits, prob=0.8, n_points=4),
        "draws": lambda: curves(splines[0], posterior, prob=0.8, n_points=4),
        "labels": lambda: curves(splines[0], PosteriorMetric(splines, "intervals"),
            n_points=3),
        "purpose": lambda: curves(splines[0], PosteriorMetric(splines, "prediction")),
        "metric": lambda: curves(LINKED[0]),
        "kinds": lambda: curves(splines[0], IntervalMetric(LINKED[0], LINKED[1:])),
        "knots": lambda: curves(other, refits),
        "points": lambda: curves(splines[0], n_points=1),
        "two knots": lambda: curves(SplineCityBlock(np.array([[0.0, 4.0]]), np.array([[
            2.0, 1.0]])), n_points=3),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "posterior/curves.txt")
    x = found["draws"].x
    each = np.array([m.transform(x.T).T for m in splines])
    np.testing.assert_allclose(found["plain"].s, each[0])
    np.testing.assert_allclose(found["draws"].upper, np.quantile(each, 0.9, 0))
    np.testing.assert_allclose(found["draws"].lower, np.quantile(each, 0.1, 0))
    wide = half(each, 3, 0.3)
    np.testing.assert_allclose(found["refits"].upper, each[0] + wide)
    np.testing.assert_allclose(found["refits"].lower, np.maximum(each[0] - wide, 0))


def tree(names=("ash", "malic acid", "magnesium"), **attrs):
    """Two chains of three draws of W, M and b, and an axis of two groups."""
    M = np.einsum("spi,spj->sij", FACTORS, FACTORS).reshape(2, 3, 3, 3)
    dims = ("chain", "draw", "feature", "feature_bis")
    grouped = np.stack([M, 4 * M], 2)
    coords = {"feature": list(names), "chain": [3, 5], "group": ["north", "south"]}
    posterior = xr.Dataset(
        {"M": (dims, M), "b": (dims[:2], B.reshape(2, 3)),
         "M_group": ((*dims[:2], "group", *dims[2:]), grouped)}, coords,
    )  # fmt: skip
    found = xr.DataTree.from_dict(
        {"posterior": posterior, "other": xr.Dataset({"c": 1})}
    )
    found.attrs.update(attrs)
    return found


def facts(posterior):
    kept = [f"{k}={getattr(posterior, k)}" for k in (
        "purpose", "source", "pairs_independent", "credible")]  # fmt: skip
    matrices = [draw.matrix for draw in posterior.draws]
    links = [str(draw.link) for draw in posterior.draws]
    return {"facts": kept, "M": matrices, "links": links, "names": names_of(posterior)}


def test_draws():
    """Draws 0, 2 and 5 of six, in the order of the chains; attributes are read."""
    own = tree(method="nuts", learner="lca", pairs_independent=1, own_model=1)
    grouped = own["posterior"].to_dataset().drop_vars("M").rename(M_group="M")
    several = xr.DataTree.from_dict({"posterior": grouped})

    def linked(sites):
        return Mahalanobis(np.linalg.cholesky(sites["M"] + np.eye(3)).T)

    calls = {
        "thinned": lambda: of_draws.thinned(tree(method="svi"), 3),
        "whole": lambda: facts(pm.draws_to_metric(own)),
        "few": lambda: facts(pm.draws_to_metric(tree(method="svi"), "prediction",
            n_draws=2)),
        "unknown": lambda: facts(pm.draws_to_metric(tree(range(3), method="mine"),
            n_draws=1)),
        "independent": lambda: facts(pm.draws_to_metric(own, pairs_independent=False,
            n_draws=1)),
        "north": lambda: facts(pm.draws_to_metric(several, sel={"group": "south"},
            n_draws=2)),
        "by function": lambda: facts(pm.draws_to_metric(own, to_metric=linked,
            n_draws=2)),
        "factor": lambda: facts(pm.draws_to_metric(own, to_metric=lambda s: s["M"][:2],
            n_draws=2)),
        "no map": lambda: pm.draws_to_metric(own, to_metric=lambda s: s["b"]),
        "text": lambda: pm.draws_to_metric(own, to_metric=lambda s: "no"),
        "axes": lambda: pm.draws_to_metric(several),
        "axis": lambda: pm.draws_to_metric(several, sel={"site": 1}),
        "label": lambda: pm.draws_to_metric(several, sel={"group": "west"}),
        "posterior": lambda: pm.draws_to_metric(several.filter(lambda n: False)),
        "nothing": lambda: pm.draws_to_metric(xr.DataTree.from_dict({"posterior": own[
            "posterior"].to_dataset()[["b"]]})),
        "number": lambda: pm.draws_to_metric(own, n_draws=0),
        "readers": lambda: [str(len(of_draws.readers_of(k))) for k in ("lca", "none",
            None)],
        "no draws": lambda: stack.unstack([]),
        "kinds": lambda: stack.unstack([LINKED[0], Mahalanobis(FACTORS[0])]),
        "nan": lambda: stack.unstack([Mahalanobis(FACTORS[0] * np.nan)]),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "posterior/draws.txt")
    M = np.einsum("spi,spj->sij", FACTORS, FACTORS)
    np.testing.assert_allclose(found["whole"]["M"], M, atol=1e-12)
    np.testing.assert_allclose(found["thinned"]["posterior"]["b"][0], B[[0, 2, 5]])
    np.testing.assert_allclose(found["north"]["M"], 4 * M[[0, 5]], atol=1e-12)


def test_next_pairs():
    """The best first pair by H(mean P) - mean H(P), and by the variance of P."""
    posterior = PosteriorMetric(LINKED, "prediction")
    i, j = np.triu_indices(6, 1)
    index, points = np.stack([i, j], 1), np.stack([X[i], X[j]], 1)
    calls = {
        rule: lambda rule=rule: next_pairs(posterior, index, 4, rule, X=X)
        for rule in ("information", "disagreement")
    } | {
        "many": lambda: next_pairs(posterior, points, 12, seed=3),
        "twice": lambda: next_pairs(posterior, pm.data.Pairs(X, i, j, None), 2, X=X),
        "too many": lambda: next_pairs(posterior, points, 16),
        "zero": lambda: next_pairs(posterior, points, 0),
        "NaN": lambda: next_pairs(posterior, points * np.nan, 1),
        "ends": lambda: next_pairs(posterior, np.zeros((3, 3, 3)), 1),
        "features": lambda: next_pairs(posterior, np.zeros((3, 2, 4)), 1),
        "empty": lambda: next_pairs(posterior, [], 1),
        "far": lambda: next_pairs(posterior, index + 9, 1, X=X),
        "pairs": lambda: next_pairs(posterior, pm.Pairs(X, i, j, None), 2),
        "negative": lambda: next_pairs(PosteriorMetric(
            [Mahalanobis(L, Link(-9.0, 0.5)) for L in FACTORS], "prediction"), points,
                1),
        "undefined": lambda: next_pairs(PosteriorMetric(
            [build("LocalMahalanobis", s) for s in (0, 1)], "prediction"), points, 1),
        "rule": lambda: next_pairs(posterior, points, 1, "random"),
        "one draw": lambda: next_pairs(PosteriorMetric(LINKED[:1], "prediction"),
            points, 1),
        "no link": lambda: next_pairs(PosteriorMetric([Mahalanobis(L) for L in FACTORS],
            "prediction"), points, 1),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "posterior/next_pairs.txt")
    D = np.array([np.sum(((X[i] - X[j]) @ L.T) ** 2, 1) for L in FACTORS])
    p = np.exp(-(B[:, None] + D / 2))
    entropy = stats.bernoulli(p.mean(0)).entropy() - stats.bernoulli(p).entropy().mean(
        0
    )
    first = found["information"]
    assert first.indices[0] == np.argmax(entropy)
    assert first.scores[0] == pytest.approx(entropy.max(), abs=1e-11)
    assert found["disagreement"].scores[0] == pytest.approx(p.var(0).max(), abs=1e-11)
    assert found["disagreement"].indices[0] == np.argmax(p.var(0))


def test_importance():
    """Explained deviance by a loop over pairs; a whole fit explains more than parts."""
    problem = gdm.toy(0)
    pairs, prior, params = problem.data, problem.prior, problem.params
    given = pairs, prior, params, [[0], [1, 2]]
    rate = {"learning_rate": 0.8}
    calls = {
        "importance": lambda: importance.importance(*given, n_repeats=3, seed=2,
            **rate),
        "once": lambda: importance.importance(*given, n_repeats=1, prob=0.5, **rate),
        "by": lambda: [importance.explained_by(pairs, prior, 0.8, k) for k in ([0], [1,
            2])],
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "posterior/importance.txt")
    rows = importance.rows_of(pairs, importance.in_float64(prior), 0.8)
    beta = importance.to_beta(params).astype(float)
    whole = importance._explained(rows, beta, pairs.i, pairs.j)
    metric = gdm_metric(params)
    D = np.diagonal(metric.pairwise(pairs.X[pairs.i], pairs.X[pairs.j]))
    p, y, m = np.exp(-params.b - D), pairs.y, pairs.trials
    for k in (None, 4):  # Without the pairs of one site.
        w = pairs.w * ((pairs.i != k) & (pairs.j != k))
        null = w @ y / (w @ m)
        fit, flat, best = (
            w @ (xlogy(y, q) + xlog1py(m - y, -q)) for q in (p, null, y / m)
        )
        at = 0 if k is None else k + 1
        assert whole[at] == pytest.approx(1 - (best - fit) / (best - flat))
    assert max(found["by"]) < whole[0]
