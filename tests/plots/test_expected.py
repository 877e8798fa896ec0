"""Everything that each figure shows equals a stored text.

Inputs are few, uneven numbers. Each figure says how its text was verified; where that
is short, the numbers are computed a second time here.
"""

from types import SimpleNamespace as Bag

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_hex, to_rgba_array
from scipy import stats

from probmetric import plots
from probmetric.checks.uniformity import Ranks
from probmetric.data import Pairs
from probmetric.metric import Mahalanobis
from probmetric.plots import draws as of_draws
from probmetric.plots import style
from probmetric.plots.checks import agreement
from probmetric.plots.verification import _apart, cross_entropy
from probmetric.posterior.curves import Curves
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.metric import PosteriorMetric
from tests.dump import outcomes, text
from tests.expected import assert_expected, figure_text, numbers

DIMS = ("chain", "draw", "feature", "feature_bis")
X = np.array([[0.3, 1.0, -2.0], [1.1, 4.0, 0.5], [2.7, -3.0, 1.0], [-1.4, 2.0, 7.0],
              [0.2, 6.5, -1.5], [3.1, 0.4, 2.2], [-0.6, -2.2, 3.9]])  # fmt: skip
Y = np.array([0, 0, 2, 0, 1, 1, 2])
FACTORS = np.array([[[1.0, 0.2, -0.4], [0.0, 0.7, 0.3]],
                    [[1.3, 0.1, -0.2], [0.4, 0.9, 0.1]],
                    [[0.8, -0.3, 0.5], [0.1, 0.6, 0.2]],
                    [[1.1, 0.5, -0.6], [0.3, 1.2, -0.7]]])  # fmt: skip
ONE = Mahalanobis(FACTORS[0])
SEVERAL = PosteriorMetric([Mahalanobis(L) for L in FACTORS], "intervals")
RESPONSES = np.array([1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1])
STATED = np.array([0.07, 0.11, 0.2, 0.31, 0.35, 0.42, 0.5, 0.58, 0.66, 0.8, 0.9, 0.97])
RATIOS = np.array([2.3, 1.1, -0.4, 0.6, 3.1, -1.7, -2.6, 0.9, -0.8, -3.3, 0.1])
SAME = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0])


def colors_of(artist):
    for name in ("edgecolor", "facecolor", "color"):
        if found := getattr(artist, f"get_{name}", None):
            shades = [to_hex(c, keep_alpha=True) for c in to_rgba_array(found())]
            yield " ".join(shades[:9])


def look(artist):
    """Write color, marker, line, size and place of an artist."""
    names = ["linewidth", "sizes", "width", "height", "center", "radius"]
    if hasattr(artist, "get_xydata"):
        names += ["marker", "linestyle", "markersize", "markeredgecolor"]
    found = [str(getattr(artist, f"get_{n}", lambda: "")()) for n in names]
    turn = f"{artist.get_angle() % 180:.8g}" if hasattr(artist, "get_angle") else ""
    return " ".join([type(artist).__name__, *colors_of(artist), *found, turn])


def assert_figure(figure, name):
    """Compare what a figure shows, its limits, and how its marks look."""
    lines = [figure_text(figure), f"size {numbers(figure.get_size_inches())}"]
    lines += [f"below {[t.get_text() for t in e.texts]}" for e in figure.legends]
    for axis in figure.axes:
        ends = numbers([*axis.get_xlim(), *axis.get_ylim()])
        lines.append(f"limits {ends} {axis.get_aspect()}")
        marks = [*axis.lines, *axis.patches[:9], *axis.collections]
        lines += [f" {look(mark)}" for mark in marks]
        lines += [f" {i.get_cmap().name} {numbers(i.get_clim())}" for i in axis.images]
    assert_expected("\n".join(lines), f"plots/{name}.txt")


def draws_of(names=True, constant=True):
    """Two chains of three draws of M and b in two features."""
    W = np.array([[[1.0, 0.3], [0.2, 0.5]], [[1.4, 0.1], [0.3, 0.8]],
                  [[0.7, 0.6], [-0.4, 0.9]], [[1.2, -0.2], [0.1, 1.1]],
                  [[0.9, 0.4], [0.5, 0.2]], [[1.6, -0.5], [0.0, 0.6]]])  # fmt: skip
    M = np.einsum("spi,spj->sij", W, W).reshape(2, 3, 2, 2)
    b = np.array([[0.1, 0.3, 0.2], [0.6, 0.15, 0.45]])
    groups = {"posterior": xr.Dataset({"M": (DIMS, M), "b": (DIMS[:2], b)})}
    if names:
        coords = {dim: ["ash", "malic acid"] for dim in DIMS[2:]}
        groups["posterior"] = groups["posterior"].assign_coords(coords)
    if constant:
        points = xr.Dataset({"X": (("point", "feature"), X[:, :2])})
        groups["constant_data"] = points
    return xr.DataTree.from_dict(groups)


def test_agreement():
    """z, limits 1.15 × the largest, and the places of constants are read off."""
    compared = xr.Dataset(
        {
            "z": ("entry", [1.2, -4.4, np.nan, np.nan, 0.7, np.inf]),
            "detectable": ("entry", [0.04, 0.07, 0.0, 0.0, 0.3, np.inf]),
            "estimate": ("entry", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            "reference": ("entry", [0.9, 2.4, 3.0, 4.5, 4.0, 5.0]),
            "verdict": ("entry", ["agree", "disagree", "agree", "disagree",
                                  "inconclusive", "disagree"]),
        },
        {"entry": ["M[0, 0]", "M[0, 1]", "c", "d", "b", "log_likelihood"]},
        {"z_crit": 3.2, "tol": 0.1, "alpha": 0.01, "verdict": "disagree"},
    )  # fmt: skip
    assert_figure(agreement(compared), "agreement")
    both = plt.subplots(1, 2)[1]
    given = agreement(compared.isel(entry=[4]), title="given", axes=both)
    assert_figure(given, "agreement_given")
    many = compared.isel(entry=np.arange(46) % 6)
    assert_figure(agreement(many), "agreement_many")


def test_predictive_check():
    """Centers and shares by sorting the distances; bands by the binomial below."""
    i, j = np.triu_indices(7, 1)
    y = (np.arange(21) % 5 < 2).astype(int)
    pairs = Pairs(X[:, :2], i, j, y)
    prior = draws_of()["posterior"].to_dataset() * 0.5
    figure = plots.predictive_check(draws_of(), pairs, prior=prior, bins=4, seed=3)
    assert_figure(figure, "predictive_check")
    trials = np.arange(21) % 4 + 2
    figure = plots.predictive_check(
        draws_of(), pairs._replace(y=y + 1, trials=trials), bins=3, max_draws=4
    )
    assert_figure(figure, "predictive_check_counts")
    M = draws_of()["posterior"]["M"].to_numpy().reshape(6, 2, 2)
    b = draws_of()["posterior"]["b"].to_numpy().ravel()
    delta = X[i, :2] - X[j, :2]
    distance = np.sqrt(np.einsum("ni,ij,nj->n", delta, M.mean(0), delta))
    order = np.argsort(distance)
    line = figure.axes[0].lines[1]
    for at, share, rows in zip(*line.get_data(), np.split(order, 3), strict=True):
        assert at == pytest.approx(distance[rows].mean())
        assert share == pytest.approx((y[rows] + 1).sum() / trials[rows].sum())
    used, rng = [0, 1, 3, 5], np.random.default_rng(0)
    P = np.exp(-b[used, None] - np.einsum("ni,sij,nj->sn", delta, M[used], delta) / 2)
    new = np.stack([rng.binomial(trials, p) for p in P])
    mean = [new[:, r].sum(1).mean() / trials[r].sum() for r in np.split(order, 3)]
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), mean)


def test_calibration():
    """Bars are Wilson's intervals of the shares in parts of the points."""
    figure = plots.calibration(
        {"LCA": RESPONSES, "Euclid": RESPONSES[::-1]},
        {"LCA": STATED, "Euclid": STATED**2},
        bins=3, band=0.8, label="P(rain)",
    )  # fmt: skip
    assert_figure(figure, "calibration")
    figure = plots.calibration(RESPONSES, STATED, bins=4)
    assert_figure(figure, "calibration_one")
    line, _, (bars,) = figure.axes[0].containers[0]
    for k, (x, y) in enumerate(line.get_xydata()):
        hits = RESPONSES[3 * k : 3 * k + 3].sum()
        assert (x, y) == pytest.approx((STATED[3 * k : 3 * k + 3].mean(), hits / 3))
        wilson = stats.binomtest(int(hits), 3).proportion_ci(method="wilson")
        np.testing.assert_allclose(bars.get_segments()[k][:, 1], wilson, atol=1e-12)
    five = plots.calibration(RESPONSES, {f"curve {k}": STATED for k in range(5)})
    assert_figure(five, "calibration_five")


def test_model_check():
    """Rows of each table in the order of ``at``, read off."""
    table = {"at": [0.5, 0.1, 0.9], "low": [0.3, 0.0, 0.6], "high": [0.7, 0.25, 1.0],
             "expected": [0.52, 0.12, 0.88], "observed": [0.45, 0.3, 0.95]}  # fmt: skip
    bins = pd.DataFrame(table)
    parts = [
        Bag(finding=Bag(bins=bins, part="calibration"), verdict="doubtful"),
        Bag(finding=Bag(bins=None, part="prior"), verdict="adequate"),
        Bag(finding=Bag(bins=bins * 2, part="distance"), verdict="conflict"),
    ]
    assert_figure(plots.model_check(Bag(parts=parts)), "model_check")


def ranks_of(m):
    rng = np.random.default_rng(5)
    rows = {f"q{k}": rng.integers(0, 10 - k % 3, 12) for k in range(m)}
    table = xr.Dataset(
        {"verdict": ("entry", ["disagree", "agree", "disagree"])},
        {"entry": ["mean rank of q1", "mean rank of q0", "shape of ranks of q2"]},
        {"n_simulations": 12},
    )
    ranks = Ranks(rows, 9, {"q3": True})
    return Bag(ranks=ranks, table=table, model="lca", verdict="disagree")


def test_sbc():
    """Shares of ranks below each draw, and the binomial band, counted below."""
    figure = plots.sbc(ranks_of(6))
    assert_figure(figure, "sbc")
    assert_figure(plots.sbc(ranks_of(9)), "sbc_many")
    u = np.arange(1, 10) / 10
    row = ranks_of(6).ranks.ranks["q1"]
    shown = figure.axes[0].lines[1].get_ydata()
    np.testing.assert_allclose(shown, [(row < k).mean() - k / 10 for k in range(1, 10)])
    low = stats.binom.ppf(0.005, 12, u) / 12 - u
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert set(np.round(low, 12)) <= set(np.round(band[:, 1], 12))


def test_curves():
    """The tallest first; each line is its row of ``s``."""
    x = np.array([[0.0, 1.0, 3.0], [2.0, 2.5, 4.0], [-1.0, 0.0, 5.0], [7.0, 8.0, 9.5]])
    s = np.array([[0.0, 0.2, 0.9], [0.0, 1.1, 2.6], [0.0, 0.05, 0.3], [0.0, 0.8, 1.7]])
    found = Curves(x, s, s * 0.75, s * 1.5 + 0.01, ("ph", "rain", "slope", "distance"))
    assert_figure(plots.curves(found), "curves")
    assert_figure(plots.curves(Curves(x, s), most=2), "curves_two")
    named = plots.curves(found, ["a name that is longer than a line", "b", "c", "d"])
    assert_figure(named, "curves_named")


def test_metric():
    """Mean and standard deviation of M · sd sdᵀ, computed again below."""
    figure = plots.metric(draws_of())
    assert_figure(figure, "metric_draws")
    M = draws_of()["posterior"]["M"].to_numpy().reshape(6, 2, 2)
    M = M * np.outer(X[:, :2].std(0), X[:, :2].std(0))
    for axis, wanted in zip(figure.axes, (M.mean(0), M.std(0)), strict=False):
        np.testing.assert_allclose(axis.images[0].get_array(), wanted)
    assert_figure(plots.metric(SEVERAL), "metric_several")
    assert_figure(plots.metric(ONE), "metric_one")
    two = plt.subplots(2, 1)[1]
    given = plots.metric(
        draws_of(names=False, constant=False)["posterior"].to_dataset(), axes=two
    )
    assert_figure(given, "metric_given")


def test_eigenvalues():
    """Quantiles of eigenvalues by ``eigvalsh`` of each draw, computed again below."""
    reference = np.array([[2.0, 0.4], [0.4, 0.5]])
    figure = plots.eigenvalues(draws_of(), prob=0.8, reference=reference)
    assert_figure(figure, "eigenvalues")
    sd = X[:, :2].std(0)
    M = draws_of()["posterior"]["M"].to_numpy().reshape(6, 2, 2) * np.outer(sd, sd)
    each = np.array([np.linalg.eigvalsh(m)[::-1] for m in M])
    thin, thick = figure.axes[0].collections
    for lines, tails in ((thin, [0.1, 0.9]), (thick, [0.25, 0.75])):
        ends = np.array([segment[:, 0] for segment in lines.get_segments()])
        np.testing.assert_allclose(ends, np.quantile(each, tails, 0).T)
    wanted = (np.median(each, 0), np.linalg.eigvalsh(M.mean(0))[::-1],
              np.linalg.eigvalsh(reference * np.outer(sd, sd))[::-1])  # fmt: skip
    for line, values in zip(figure.axes[0].lines, wanted, strict=True):
        np.testing.assert_allclose(line.get_xdata(), values)
    flat = xr.Dataset({"M": (DIMS, np.full((1, 3, 3, 3), 1.0))})
    assert_figure(plots.eigenvalues(flat), "eigenvalues_flat")


def test_chains():
    """Titles only; the shown quantities are b and eigenvalues, as above."""
    shown = of_draws._identified(draws_of())
    assert_expected(text(shown), "plots/identified.txt")
    rng = np.random.default_rng(2)
    b = xr.Dataset({"b": (DIMS[:2], rng.gamma(3, size=(3, 40)))})
    b["b"][1] += 0.4
    found = [of_draws.trace(b), of_draws.rank(b)]
    titles = [[a.get_title() for a in f.axes] + [f.get_supylabel()] for f in found]
    sizes = [f.get_size_inches() for f in found]
    assert_expected(text([titles[0], titles[1][-1:], *sizes]), "plots/chains.txt")


def test_matrix():
    """Shares are squared singular values of X Lᵀ, computed again below."""
    frame = pd.DataFrame(X, columns=["length", "width", "depth"])
    figure = plots.matrix(ONE, frame)
    assert_figure(figure, "matrix")
    values = np.linalg.eigvalsh(np.cov((X @ FACTORS[0].T).T))[::-1]
    widths = [bar.get_width() for bar in figure.axes[1].patches]
    np.testing.assert_allclose(widths, values / values.sum())
    assert_figure(plots.matrix(ONE, X, feature_names=["a", "b", "c"]), "matrix_named")


def test_importance():
    """Steps of one sd, and of two different levels, computed again below."""
    refits = IntervalMetric(ONE, [Mahalanobis(L) for L in FACTORS[1:]])
    assert_figure(plots.importance(refits, X, prob=0.5), "importance_refits")
    levels = Bag(
        get_metric=lambda: ONE, feature_names_in_=["x", "f=a", "f=b"],
        factors_={"f": ("a", "b")}, mean_=np.array([5.0, 0.3, 0.7]),
        standardize=True, scale_=np.array([2.0, 9.0, 9.0]),
    )  # fmt: skip
    figure = plots.importance(levels)
    assert_figure(figure, "importance_levels")
    L = FACTORS[0]
    factor = np.sqrt(0.3 * 0.7) * np.linalg.norm(L[:, 1] - L[:, 2])
    wanted = [2 * np.linalg.norm(L[:, 0]), factor]
    np.testing.assert_allclose(figure.axes[0].lines[0].get_xdata(), wanted)
    wide = Mahalanobis(np.linspace(1, 3, 43)[None])
    assert_figure(plots.importance(wide), "importance_many")


def test_pairs_and_links():
    """Histograms by hand: the edges are the range up to the 99.5% quantile."""
    names = ["u", "v", "w"]
    figure = plots.before_after(ONE, X, Y, links=2, target_names=names)
    assert_figure(figure, "before_after")
    Z = X @ FACTORS[0].T
    gaps = np.linalg.norm(Z[:, None] - Z, axis=2) + np.diag(np.full(7, np.inf))
    crossing = np.mean(Y[np.argsort(gaps)[:, :2]] != Y[:, None])
    assert f"({crossing:.1%})" in figure.axes[1].get_xlabel()
    figure = plots.pair_histogram(ONE, X, Y, seed=4)
    assert_figure(figure, "pair_histogram")
    i, j = np.random.default_rng(4).integers(0, 7, (2, 20000))
    D = gaps[i, j][i != j]
    bins = np.linspace(*np.quantile(D, [0, 0.995]), 41)
    same = (Y[i] == Y[j])[i != j]
    wanted = np.concatenate([np.histogram(D[s], bins, density=True)[0]
                             for s in (same, ~same)])  # fmt: skip
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    np.testing.assert_allclose(heights, wanted, rtol=1e-9)


def test_local_ellipses():
    """Half axes are 1/√ of eigenvalues, computed again below for one center."""
    slope = np.array([[0.2, 0.1, 0.0], [0.1, 0.3, 0.05], [0.0, 0.05, 0.6]])
    local = Bag(matrix_at=lambda P: np.eye(3) + np.abs(P[:, :1, None]) * slope)
    figure = plots.local_ellipses(
        local, X, Y, features=(2, 0), number=4, size=0.1,
        target_names=["u", "v", "w"], feature_names=["a", "b", "c"],
    )  # fmt: skip
    assert_figure(figure, "local_ellipses")
    flat, long = X * [1, 9, 1], [f"class {k} of a group of many" for k in range(3)]
    assert_figure(
        plots.local_ellipses(ONE, flat, Y, at=flat[2:4], target_names=long),
        "local_ellipses_at",
    )
    assert_figure(plots.local_ellipses(ONE, X[:1], Y[:1]), "local_ellipses_point")
    chosen, unit = X[[0, 2, 4, 6]], np.ptp(X[:, 2])
    assert np.ptp(X[:, 2]) <= 3 * np.ptp(X[:, 0])
    M = local.matrix_at(chosen)[:, [2, 0]][:, :, [2, 0]]
    radii = 1 / np.sqrt(np.linalg.eigvalsh(M * unit**2))
    sizes = 2 * unit * radii * 0.1 / np.median(radii)
    shown = [[e.width, e.height] for e in figure.axes[0].patches]
    np.testing.assert_allclose(shown, sizes)


def test_embedding():
    """The plane keeps all distances of a map to the plane."""
    figure = plots.embedding(ONE, X, Y, links=1, title="Here")
    Z = X @ FACTORS[0].T
    places = np.concatenate([c.get_offsets() for c in figure.axes[0].collections[2:]])
    order = np.argsort(Y, kind="stable")
    gaps = np.linalg.norm(places[:, None] - places, axis=2)
    np.testing.assert_allclose(gaps, np.linalg.norm(Z[order, None] - Z[order], axis=2))
    assert_figure(figure, "embedding")
    line = plots.embedding(Mahalanobis(FACTORS[0][:1]), X, Y)
    assert_figure(line, "embedding_line")


def test_neighbors_of_a_query():
    """Shares of four draws, counted below."""
    figure = plots.neighbor_probabilities(
        SEVERAL, [0.4, 1.2, 0.3], X, 3, top=5, y=Y, names=list("abcdefg")
    )
    assert_figure(figure, "neighbor_probabilities")
    near = [np.argsort(np.linalg.norm((X - [0.4, 1.2, 0.3]) @ L.T, axis=1))[:3]
            for L in FACTORS]  # fmt: skip
    shares = np.sort(np.bincount(np.ravel(near), minlength=7) / 4)[::-1]
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    np.testing.assert_allclose(widths, shares[: len(widths)])


def test_objects():
    """One map: its centered columns, up to a rotation."""
    figure = plots.objects(SEVERAL, prob=0.7)
    assert_figure(figure, "objects")
    figure = plots.objects(ONE, names=["p", "q", "r"])
    Z = FACTORS[0].T - FACTORS[0].T.mean(0)
    places = np.asarray(figure.axes[0].collections[0].get_offsets())
    gaps = np.linalg.norm(places[:, None] - places, axis=2)
    np.testing.assert_allclose(gaps, np.linalg.norm(Z[:, None] - Z, axis=2))
    assert_figure(figure, "objects_one")
    assert_figure(plots.objects(Mahalanobis(FACTORS[0][:1])), "objects_line")


def test_verification():
    """Rates by counting pairs at or above each ratio, computed again below."""
    curves = {"LCA": RATIOS, "Euclid": RATIOS[::-1] * 0.7 + 0.2}
    figure = plots.det(curves, SAME)
    assert_figure(figure, "det")
    alarms, misses = figure.axes[0].lines[0].get_data()
    for c in RATIOS:
        rates = np.mean(RATIOS[SAME == 0] >= c), np.mean(RATIOS[SAME == 1] < c)
        x = stats.norm.ppf(np.clip(rates, [1 / 12, 0.1], [11 / 12, 0.9]))
        assert np.isclose(np.c_[alarms, misses], x).all(1).any()
    many = np.arange(3000) % 2
    assert_figure(plots.det(np.sin(np.arange(3000)) + many, many), "det_ticks")
    figure = plots.likelihood_ratios(RATIOS, SAME)
    assert_figure(figure, "likelihood_ratios")
    small = plots.likelihood_ratios(RATIOS / 30, SAME)
    assert_figure(small, "likelihood_ratios_small")
    odds, costs = 10.0 ** np.array([-1, 0, 2]), []
    for o in odds:  # Expected bits at P(same) = o/(1 + o).
        own = np.where(SAME, -np.log2(1 - 1 / (1 + o * np.exp(RATIOS))),
                       np.log2(1 + o * np.exp(RATIOS)))  # fmt: skip
        costs.append((o * own[SAME == 1].mean() + own[SAME == 0].mean()) / (1 + o))
    found = cross_entropy(RATIOS / np.log(10), SAME == 1, np.log10(odds))
    np.testing.assert_allclose(found, costs)
    assert _apart([0.01, 0.011, 0.05, 0.5, 0.51], 4.0) == [0.01, 0.05, 0.5]


def test_typicality():
    """Steps at the sorted p-values; 1 of 4 and 2 of 3 are at most 0.06."""
    p = np.array([0.03, 0.4, 0.7, 0.9, 0.01, 0.06, 0.5])
    figure = plots.typicality(p, np.arange(7) < 4, novelty=0.06)
    assert_figure(figure, "typicality")
    assert_figure(plots.typicality(p), "typicality_unknown")


def test_style():
    """Names, marks and legends, read."""
    frame = pd.DataFrame(X[:2], columns=["a", "b", "c"])
    variable = draws_of()["posterior"]["M"]
    digits = variable.assign_coords({dim: ["0", "1"] for dim in DIMS[2:]})
    calls = {
        "marks": lambda: [f"{c} {m}" for c, m in style.marks(66)],
        "columns": lambda: [style.legend_columns(["abc", "de"] * n) for n in (1, 11)],
        "beside": lambda: str(style.beside(["abc", "de"] * 3)),
        "beside few": lambda: str(style.beside(["a"] * 4)),
        "shade": lambda: style.shade(0.3),
        "side": lambda: [style.matrix_side(d) for d in (1, 10, 90)],
        "shortened": lambda: style._shortened("abcdefghijklmnopqrstuvwxyz0123456789"),
        "others": lambda: [
            name
            for _, name, *_ in style.class_marks(
                np.arange(66), [f"c{k}" for k in range(66)]
            )
        ][62:],
        "classes": lambda: style.class_names([3, 1, 1]),
        "codes": lambda: style.class_names([2, 0, 2], ["u", "v", "w"]),
        "far codes": lambda: style.class_names([7, 0, 7], ["u", "v"]),
        "words": lambda: style.class_names(["b", "a"], ["u", "v"]),
        "short": lambda: style.class_names([5, 6, 7], ["u", "v"]),
        "names": lambda: [style.names_of(v) for v in (variable, digits)],
        "frame": lambda: style.named_features(None, frame, None),
        "fit": lambda: style.named_features(
            None, X, Bag(feature_names_in_=["r", "s", "t"])
        ),
        "none": lambda: style.named_features(None, X, None),
        "two": lambda: style.named_features(["a", "b"], X, None),
        "scale": lambda: style.feature_scale(draws_of(), 2),
        "other d": lambda: style.feature_scale(draws_of(), 3),
        "labels": lambda: style.labeled(ONE, X, Y[:3]),
        "alt": lambda: style.words(plots.matrix(ONE, X)),
        "no posterior": lambda: style.posterior(xr.DataTree.from_dict({"prior": None})),
        "no b": lambda: style.posterior(xr.Dataset({"M": 1, "W": 2}), "M", "b"),
        "array": lambda: style.posterior(X),
        "names of curves": lambda: plots.calibration({"a": [1]}, {"b": [0.5]}),
        "no curves": lambda: plots.det({}, [1, 0]),
        "of b": lambda: plots.det({"b": [np.nan, 1.0]}, [1, 0]),
        "p": lambda: plots.typicality([0.1, 0.2], [True]),
        "bins": lambda: plots.model_check(Bag(parts=[])),
        "chains": lambda: of_draws.rank(draws_of().isel(chain=[0])),
        "map": lambda: plots.objects(ONE, names=["p"]),
        "no matrix": lambda: plots.local_ellipses(Bag(), X, Y),
        "covariates": lambda: plots.curves(Curves(X, X), ["a"]),
    }
    assert_expected(text(outcomes(calls)), "plots/style.txt")
