"""Every array, code and message of ``data`` equals a stored text.

Pairs were found a second time by brute force; the rest was read, and much is below.
"""

from types import SimpleNamespace as Bag

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from probmetric.data import (
    containers,
    factors,
    groups,
    inputs,
    padding,
    pairs,
    scaling,
    sites,
    triplets,
    truth,
    unlabeled,
)
from probmetric.data import hash as hashing
from probmetric.data.chunked import chunked
from probmetric.data.containers import (
    Groups,
    Labeled,
    OddOneOut,
    Pairs,
    Points,
    Triplets,
)
from tests.dump import outcomes, text
from tests.expected import assert_expected

X = np.random.default_rng(1).normal(size=(11, 3)).round(2)
Y = np.array([0, 2, 1, 1, 0, 2, 2, 0, 2, 3, 2])
COUNTED = Pairs(
    X,
    i=np.array([0, 4, 2, 7]),
    j=np.array([3, 1, 9, 5]),
    y=np.array([2, 0, 3, 1]),
    w=np.array([0.5, 2.0, 1.0, 3.0]),
    anchor=np.array([1, 0, 2, 1]),
    trials=np.array([3, 2, 3, 5]),
)


def test_pairs():
    """The nearest of each kind by a full sort of distances, below."""
    D = np.linalg.norm(X[:, None] - X, axis=2) ** 2
    other = np.array([[1.0, 0.3, 0.0], [0.2, -2.0, 0.4]])
    group = np.array([0, 1, 2, 3, 0, 4, 1, 5, 6, 7, 1])
    tied = np.array([[3.0, 1, 1, 2, 1], [0, 5, 5, 0, 2]])
    calls = {
        "impostors": lambda: pairs.impostor_pairs(X, Y, 2),
        "few impostors": lambda: pairs.impostor_pairs(X, Y, 3, max_impostors=2),
        "nearest": lambda: pairs.nearest_pairs(X, Y, 2, 1),
        "mapped": lambda: pairs.nearest_pairs(X, Y, 1, 2, factor=other),
        "grouped": lambda: pairs.nearest_pairs(X, Y, 2, 2, groups=group),
        "anchors": lambda: pairs.nearest_pairs(X, Y, 1, 1, n_anchors=4),
        "all": lambda: pairs.all_pairs(X[:5], Y[:5]),
        "labels": lambda: pairs.as_labels(COUNTED),
        "from rows": lambda: pairs.from_rows(
            lambda x, c, groups: pairs.nearest_pairs(x, c, 1, 1, groups=groups), X, Y,
                group),
        "smallest": lambda: [pairs.smallest(tied, k) for k in range(5)],
        "nearer": lambda: pairs.nearer(np.array([[1.0, 2.0, 1 - 1e-12, 0.99]]),
            np.array([[1.0]])),
        "of groups": lambda: pairs._nearest_of_groups(D[:2], group),
        "k": lambda: pairs.nearest_pairs(X, Y, 5, 1),
        "m": lambda: pairs.nearest_pairs(X, Y, 1, 11),
        "factor": lambda: pairs.nearest_pairs(X, Y, factor=other[:, :2]),
        "labels of rows": lambda: pairs.nearest_pairs(X, Y[:4]),
        "no impostors": lambda: pairs.impostor_pairs(Y[:, None] * 9.0 + X[:, :1] / 9, Y,
            1),
        "singletons": lambda: pairs.nearest_pairs(X, np.arange(11)),
        "NaN": lambda: pairs.nearest_pairs(X * np.nan, Y),
        "text": lambda: pairs.nearest_pairs([["a"]] * 11, Y),
        "alone": lambda: pairs.all_pairs(X, np.arange(11)),
        "shortlist": lambda: pairs._listed(X, X - X.mean(0), np.array([0, 4]),
            np.arange(1, 11), 2),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "data/pairs.txt")
    np.fill_diagonal(D, np.inf)
    same, wanted = Y[:, None] == Y, []
    for i in range(11):
        wanted += [(i, j, y) for y, n in ((1, 2), (0, 1))
                   for j in np.argsort(np.where(same[i] == y, D[i], np.inf))[:n]
                   if same[i, j] == y and i != j]  # fmt: skip
    made = found["nearest"]
    assert [*zip(made.i, made.j, made.y, strict=True)] == wanted
    made, wanted = found["impostors"], []
    for i in range(11):
        near = np.sort(D[i, same[i]])[:2]
        reach = near[np.isfinite(near)].max(initial=-1)
        some = np.flatnonzero(~same[i] & (D[i] < reach))
        wanted += [(i, j, 0) for j in some]
        wanted += [(i, j, 1) for j in np.flatnonzero(same[i] & (D[i] <= reach))] * (
            len(some) > 0
        )
    assert {*zip(made.i, made.j, made.y, strict=True)} == set(wanted)
    D[group[:, None] == group] = np.inf
    made = found["grouped"]
    for i, j, y in zip(made.i, made.j, made.y, strict=True):
        ranked = np.sort(np.unique([D[i, (group == g) & (same[i] == y)].min(
            initial=np.inf)
                                    for g in range(8)]))  # fmt: skip
        assert D[i, j] in ranked[:2]


def test_factors():
    """Levels are sorted; a row is 1 in the column of its level, read."""
    frame = pd.DataFrame({"a": [1.0, 2.5, -1.0, 4.0], "soil": ["peat", "clay", "peat",
        "sand"],
                          "n": pd.Categorical([3, 1, 3, 1])})  # fmt: skip
    levels = {"soil": ("clay", "peat", "sand")}
    other = pd.DataFrame({"soil": ["clay", "loam", None], "a": [1.0, 2, 3]})
    calls = {
        "found": lambda: {k: list(v) for k, v in factors.factors_of(frame).items()},
        "none": lambda: factors.factors_of(X),
        "coded": lambda: factors.coded(frame, levels | {"n": ("1", "3")}),
        "kept": lambda: {k: list(v) for k, v in factors.factors_of(factors.coded(frame,
            levels)).items()},
        "unknown": lambda: factors.coded(other, levels, "ignore"),
        "missing": lambda: factors.coded(other[::2], levels),
        "bad": lambda: factors.coded(other, levels, name="Q"),
        "as it is": lambda: factors.coded(other[["a"]], levels),
        "in": lambda: {k: list(v) for k, v in factors.levels_in(
            ["a", "soil=clay", "soil=sand", "n=1"], frame).items()},
        "places": lambda: factors.places_of(levels, ["a", "soil=sand", "soil=clay",
            "soil=peat"]),
        "numbers": lambda: factors.factors_of(pd.DataFrame({"x": ["1", "2.5", "1"]})),
        "names": lambda: factors.factors_of(pd.DataFrame({"x": ["u", "v", "w"]})),
        "two": lambda: {k: list(v) for k, v in factors.factors_of(pd.DataFrame({"x": [
            "u", "v"]})).items()},
        "double": lambda: factors.factors_of(pd.DataFrame({"x": ["u", "v", "u"],
            "x=u": [1, 2, 3]})),
        "mixed": lambda: factors.factors_of(pd.DataFrame({"x": ["u", 1, "u"]})),
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "data/factors.txt")


def test_hash():
    """Orders do not depend on the order of rows; hashes are fixed for stored files."""
    shuffled = np.random.default_rng(2).permutation(11)
    order, again = (
        hashing.canonical_order(X, Y),
        hashing.canonical_order(X[shuffled], Y[shuffled]),
    )
    np.testing.assert_array_equal(order, shuffled[again])
    missing = np.where(X > 1, np.nan, X)
    calls = {
        "order": lambda: order,
        "without codes": lambda: hashing.canonical_order(X),
        "tied": lambda: hashing.canonical_order(np.r_[X[:3], X[:3]], np.array([1, 0, 0,
            1, 1, 0])),
        "missing": lambda: hashing.canonical_order(missing),
        "variables": lambda: hashing.data_variables(COUNTED),
        "one": lambda: hashing.data_variables(np.arange(3)),
        "nothing": lambda: hashing.data_variables(None),
        "hash": lambda: [hashing.data_hash(v) for v in (COUNTED, X, X.astype("f4"), {
            "a": 1, "b": "t"})],
        "rows": lambda: hashing.row_hashes(np.r_[X[:3], [[0.0, -0.0, 1.0]], [[-0.0, 0.0,
            1.0]]]),
        "bits": lambda: hashing.row_bits(7, np.array([0, 1, 5])),
        "sample": lambda: [hashing.sampled_rows(40, 6, seed=s) for s in (0, 3)],
        "all": lambda: hashing.sampled_rows(4, 6),
        "best": lambda: [hashing.first_best(np.array(v)) for v in (
            [0.1, 5, 5 + 1e-12], [-3.0, -2, np.nan], [[1.0, 0], [1 + 1e-6, 0]])],
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "data/hash.txt")


def test_labels_and_points():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    frame = pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]})
    infinite = np.where(np.arange(33).reshape(11, 3) % 7 == 2, np.inf, X)
    ends = np.stack([X[:4], X[4:8]], 1)
    index = np.array([[0, 3], [4, 1], [2, 9]])
    calls = {
        "text": lambda: inputs.class_codes(["b", "a", "b"]),
        "floats": lambda: inputs.codes_of([2.5, -1.0, 2.5], "y"),
        "one class": lambda: inputs.class_codes(["b", "b"]),
        "matrix": lambda: inputs.codes_of(X, "y"),
        "none": lambda: inputs.codes_of(["a", None, "b"], "y"),
        "none of others": lambda: inputs.codes_of(["a", float("nan")], "names"),
        "mixture": lambda: inputs.codes_of(["a", 1, b"c"], "y"),
        "objects": lambda: inputs.codes_of([(1,), (2,)], "y"),
        "sets": lambda: inputs.codes_of(np.array([{1}, {2}], object), "y"),
        "large": lambda: inputs.codes_of([2**53, 2**53 + 1, 0.5], "y"),
        "infinite": lambda: inputs.codes_of(np.array([1.0, np.inf]), "y"),
        "dates": lambda: inputs.codes_of(np.array(["2020-01-01"], "M8[D]"), "y"),
        "groups": lambda: inputs.group_codes(["b", "a"], 2),
        "groups of rows": lambda: inputs.group_codes(["b", "a"], 3),
        "continuous": lambda: inputs.label_codes([0.5, 1.0]),
        "whole": lambda: inputs.label_codes([2.0, 1.0]),
        "masked": lambda: inputs.refuse_masked(masked, "X"),
        "is missing": lambda: [inputs.is_missing(v) for v in (None, float("nan"), pd.NA,
            "", 0)],
        "categories": lambda: inputs.check_numeric(frame.astype({"a": "category"})),
        "strings": lambda: inputs.check_numeric(np.array(["a"])),
        "infinity": lambda: inputs.not_finite(infinite, missing=False),
        "missing": lambda: inputs.not_finite(pd.DataFrame(np.where(infinite > 9, np.nan,
            X),
                                                          columns=list("abc")), True,
                                                              "Q"),
        "todo": lambda: inputs.not_finite(infinite, False, todo="Do."),
        "complex": lambda: inputs.real(np.array([1j]), "X"),
        "text of real": lambda: inputs.real(["a"], "X", "labels"),
        "sparse": lambda: inputs.real(Bag(toarray=lambda: X), "X"),
        "column": lambda: inputs.column([1, 2], 3, "y"),
        "points": lambda: inputs.points([[1, 2], [3, 4]]),
        "flat": lambda: inputs.points([1.0, 2.0]),
        "nan": lambda: inputs.points([[np.nan]]),
        "weights": lambda: inputs.check_weights([1, 0, 2], 3),
        "negative": lambda: inputs.check_weights([1, -0.5, 2], 3),
        "zero": lambda: inputs.check_weights([0, 0], 2, "w"),
        "pair labels": lambda: [inputs.pair_labels(y, 3) for y in ([1, 0, 1], [-1, 1,
            -1])],
        "wrong labels": lambda: inputs.pair_labels([0, 1, 2], 3),
        "minus": lambda: inputs.pair_labels([0, 1, -1], 3),
        "one label": lambda: inputs.pair_labels([1, 1, 1], 3),
        "pair weights": lambda: inputs.pair_weights([0, 0, 1], np.array([1, 1, 0])),
        "counts": lambda: inputs.pair_counts([2, 0, 3], [3, 1, 3], [1, 2, 0.5], 3),
        "more than trials": lambda: inputs.pair_counts([2, 0, 4], [3, 1, 3], None, 3),
        "no trials": lambda: inputs.pair_counts([2, 0, 1], [3, 0, 3], None, 3),
        "many trials": lambda: inputs.pair_counts([2, 0, 1], [3, 2**31, 3], None, 3),
        "only same": lambda: inputs.pair_counts([3, 1], [3, 1], None, 2),
        "only different": lambda: inputs.pair_counts([0, 0], [3, 1], None, 2),
        "weights of counts": lambda: inputs.pair_counts([3, 0], [3, 1], [0, 2], 2),
        "halves": lambda: inputs.pair_counts([0.5, 1], [3, 1], None, 2),
        "pair points": lambda: inputs.pair_points(ends),
        "rows": lambda: inputs.pair_points(index, X),
        "float rows": lambda: inputs.pair_points(index * 1.0, X),
        "far rows": lambda: inputs.pair_points(index + 2, X),
        "shape": lambda: inputs.pair_points(index),
        "shape of rows": lambda: inputs.pair_points(ends, X),
        "pairs": lambda: inputs.pairs_from_arrays(index, [1, 0, 1], [1, 2, 3], X=X),
        "counted": lambda: inputs.pairs_from_arrays(ends, [1, 0, 2, 4], trials=[2, 3, 2,
            5]),
        "labels of rows": lambda: inputs._with_name(
            "Found input variables with inconsistent n", X),
        "y": lambda: inputs._with_name("y should be 1d", X, Y),
        "kept": lambda: str(inputs._with_name("X has 2 features", X)),
        "reshape": lambda: inputs._with_name("Expected 2D\nReshape your data", X, None),
        "unnamed": lambda: inputs._warn_of_index(pd.DataFrame(X, columns=["a",
            "Unnamed: 0", "b"])),
        "chunked": lambda: inputs.refuse_chunked(Bag(name="x.csv", implementation=len),
            "X"),
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "data/inputs.txt")


def test_containers():
    """Padding adds rows of no weight; stacks are groups of one size."""
    labeled = Labeled(X, Y, np.arange(11.0))
    grouped = Groups(X, np.array([4, 2, 4, 7, 2, 2, 9, 7, 7, 4, 9]), np.arange(1.0, 12))
    quads = Triplets(X, *np.arange(8).reshape(4, 2)[:3], None, None, np.array([8, 9]))
    odd = OddOneOut(X, *np.arange(6).reshape(3, 2), np.array([2, 0]))

    class Disk:
        name = "x.csv"

        def implementation(self, name):
            return lambda *a, **k: f"{name} {len(a)} {sorted(k)}"

    @chunked("data")
    def place(k, data=None):
        return f"here {k}"

    def ends(padded):
        return {k: None if v is None else [v[2:6], np.asarray(v)[-2:], np.shape(v)]
                for k, v in padded._asdict().items()}  # fmt: skip

    calls = {
        "labeled": lambda: ends(padding.pad_labeled(labeled)),
        "pairs": lambda: ends(padding.pad_pairs(COUNTED)),
        "plain": lambda: ends(padding.pad_pairs(COUNTED._replace(
            y=np.array([1, 0, 1, 1]), trials=None, w=None, anchor=None))),
        "buckets": lambda: [padding.bucket(n) for n in (1, 512, 513, 2048, 2049, 2600,
            4097, 10**5)],
        "rows": lambda: padding.pad_rows(X[:2], 4, 7),
        "chunks": lambda: padding.chunks(jnp.arange(7), 3),
        "one chunk": lambda: padding.chunks(jnp.arange(4), 9),
        "weights": lambda: [containers.weights(d) for d in (labeled, Points(X[:3]),
            quads, COUNTED._replace(w=None))],
        "beside": lambda: [quads.beside, quads.ends, quads.alternatives, odd.beside,
            odd.ends, odd.alternatives],
        "row": lambda: containers.checked_rows(COUNTED._replace(j=np.array([3, 11, 9,
            5]))),
        "negative": lambda: containers.checked_rows(odd._replace(far=np.array([4,
            -1]))),
        "counts": lambda: containers.refuse_trials(COUNTED, "PairLDA"),
        "groups": lambda: groups.as_groups(COUNTED._replace(y=np.array([1, 0, 1, 0]),
            trials=None)),
        "points": lambda: groups.as_groups(Points(X[:3], np.arange(3.0))),
        "no y": lambda: groups.as_groups(COUNTED._replace(y=None, trials=None)),
        "stack": lambda: groups.stack(grouped),
        "seen": lambda: groups.stack(grouped._replace(X=np.where(X > 1, np.nan, X),
            w=None)),
        "on disk": lambda: [place(1, Disk()), place(2, data=Disk()), place(3), place(4,
            X)],
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "data/containers.txt")
    stacked = found["stack"]
    np.testing.assert_allclose(stacked.X[1], X[[[1, 4, 5], [0, 2, 9], [3, 7, 8]]])
    np.testing.assert_allclose(stacked.w[1], [13 / 3, 14 / 3, 7])


def test_scaling():
    """Means and standard deviations of NumPy; blocks have one norm."""
    Z = X.copy()
    Z[:, 1] = 2.5
    missing = np.where(X > 1, np.nan, X)
    times = np.arange(1, 12)
    low, high = X.min(0), X.max(0)
    calls = {
        "plain": lambda: scaling.fit_scaler(X),
        "missing": lambda: scaling.fit_scaler(missing),
        "times": lambda: scaling.fit_scaler(X, times=times),
        "blocks": lambda: scaling.fit_scaler(X, blocks=[[0, 2]]),
        "unscaled": lambda: scaling.fit_scaler(X, standardize=False, blocks=[[0, 2]]),
        "constant": lambda: scaling.standardize_features(Z, ["a", "b", "c"]),
        "six": lambda: scaling._warn_of_constant(np.ones(7, bool), None),
        "as it is": lambda: scaling.standardize_features(Z, standardize=False),
        "which": lambda: scaling.constant_columns(np.c_[X[:, 0], Z[:, 1], 1 + 1e-16 * X[
            :, 0], missing[:, 2]]),
        "taught": lambda: scaling.taught_scale(Z, np.array([1.0, 2, 3])),
        "known": lambda: scaling.scaler_of(low, np.where([0, 1, 0], low, high), X.mean(
            0), X.std(0)),
        "known, unscaled": lambda: scaling.scaler_of(low, high, X.mean(0), X.std(0),
            standardize=False),
        "slices": lambda: [str(scaling.columns_at_a_time(n, d)) for n, d in ((10, 3), (
            2**20, 9), (2**22, 5))],
        "empty": lambda: scaling.fit_scaler(np.c_[X[:, :1], X[:, :1] * np.nan], ["a",
            "b"]),
        "all": lambda: scaling.fit_scaler(Z[:, 1:2], ["b"]),
        "small": lambda: scaling.fit_scaler(X * [1, 1e-160, 1]),
        "big": lambda: scaling.check_sizes(X * [1, 1, 1e160], ["a", "b", "c"]),
        "all small": lambda: scaling.check_sizes(X * 1e-160, smallest=True),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "data/scaling.txt")
    np.testing.assert_allclose(found["plain"], [X.mean(0), X.std(0)])
    np.testing.assert_allclose(
        found["missing"], [np.nanmean(missing, 0), np.nanstd(missing, 0)]
    )
    rows = np.repeat(X, times, axis=0)
    np.testing.assert_allclose(found["times"], [rows.mean(0), rows.std(0)])
    both = np.hypot(X[:, 0].std(), X[:, 2].std())
    np.testing.assert_allclose(found["blocks"].scale, [both, X[:, 1].std(), both])


def test_sites():
    """Bray-Curtis: twice the sum of smaller counts over all counts, in a loop."""
    table = np.array([[3, 0, 2, 5], [1, 4, 0, 2], [0, 6, 1, 0], [2, 2, 2, 9]])
    frame = pd.DataFrame(table, ["n", "s", "e", "w"], ["oak", "elm", "ash", "yew"])
    calls = {
        "counts": lambda: sites.site_pairs(X[:4], frame),
        "presence": lambda: sites.site_pairs(X[:4], table / 3, measure="presence"),
        "cover": lambda: sites.site_pairs(X[:4], table / 7, measure="cover"),
        "half": lambda: sites.site_pairs(X[:4], frame / 2),
        "negative": lambda: sites.site_pairs(X[:4], -frame, measure="cover"),
        "missing": lambda: sites.site_pairs(X[:4], frame.where(frame != 6)),
        "empty": lambda: sites.site_pairs(X[:4], frame * [[1], [0], [1], [0]]),
        "shape": lambda: sites.site_pairs(X[:3], frame),
        "one": lambda: sites.site_pairs(X[:1], frame[:1]),
        "many": lambda: sites.site_pairs(X[:4], frame * 2.0**28),
        "measure": lambda: sites.site_pairs(X[:4], frame, measure="mass"),
    }
    found = outcomes(calls)
    assert_expected(text(found), "data/sites.txt")
    made = found["counts"]
    for i, j, y, m in zip(made.i, made.j, made.y, made.trials, strict=True):
        assert y == 2 * sum(map(min, table[i], table[j]))
        assert m == table[i].sum() + table[j].sum()


def test_triplets():
    """Every target with every impostor of its anchor, from the nearest pairs."""
    index = np.array([[0, 3, 5], [4, 1, 9], [2, 9, 7]])
    four = np.array([[0, 3, 5, 2], [4, 1, 9, 8], [2, 9, 7, 0]])
    make = triplets.triplets_from_arrays
    names = np.array([["b", "a", "c"], ["c", "b", "a"]])
    calls = {
        "nearest": lambda: triplets.nearest_triplets(X, Y, 2, 2),
        "rows": lambda: make(index, [1, 0, 1], [1, 2, 0.5], X=X),
        "points": lambda: make(X[index]),
        "quadruplets": lambda: make(four, [1, -1, 1], X=X),
        "odd": lambda: make(index, [2, 0, 1], X=X, odd_one_out=True),
        "again": lambda: make(make(four, [1, -1, 1], [1, 2, 3], X=X)),
        "weighing": lambda: triplets.weighing(make(index, [1, 0, 1], [1, 0, 2], X=X)),
        "selected": lambda: triplets.selected(make(four, X=X), np.array([2, 0])),
        "numbered": lambda: triplets.numbered(names),
        "in order": lambda: triplets.numbered(names, ["c", "a", "d", "b"]),
        "numbers": lambda: triplets.numbered(index),
        "unknown": lambda: triplets.numbered(names, ["a", "b"]),
        "both": lambda: make(make(index, X=X), [1, 1, 1]),
        "four": lambda: make(four, X=X, odd_one_out=True),
        "same": lambda: make(np.array([[0, 3, 3], [1, 2, 4]]), X=X),
        "one point": lambda: make(np.array([[0, 3, 4], [2, 2, 4]]), X=X),
        "same pair": lambda: make(np.array([[0, 3, 3, 0]]), X=X),
        "far": lambda: make(index + 3, X=X),
        "shape": lambda: make(index),
        "shape of rows": lambda: make(X[:, :2], X=X),
        "odd y": lambda: make(index, [3, 0, 1], X=X, odd_one_out=True),
    }
    found = outcomes(calls)
    assert_expected(text(found), "data/triplets.txt")
    near = pairs.nearest_pairs(X, Y, 2, 2)
    wanted = [(i, j, k) for i, j, y in zip(near.i, near.j, near.y, strict=True) if y
              for k in near.j[(near.i == i) & (near.y == 0)]]  # fmt: skip
    made = found["nearest"]
    assert [*zip(made.anchor, made.near, made.far, strict=True)] == wanted


def test_labels_that_are_left_out():
    class Known(truth.TellsClasses):
        unlabeled = -1

        def predict(self, rows):
            return np.asarray(rows)[:, 0].astype(int)

    rows = np.array([[0, 1], [1, 1], [2, 0], [1, 3], [0, 9]])
    log_p = np.log([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    classes = np.array(["a", "b", "c"])
    before = np.array([0.2, 0.3, 0.5])
    shift = truth.shift_to({"b": 0.5, "a": 0.4, "c": 0.1}, classes, before)
    calls = {
        "shift": lambda: shift,
        "none": lambda: truth.shift_to(None, classes, before),
        "rates": lambda: truth.at_base_rates(log_p, shift),
        "as they are": lambda: truth.at_base_rates(log_p, 0.0),
        "classes": lambda: truth.shift_to({"a": 0.5, "d": 0.5}, classes, before),
        "sum": lambda: truth.shift_to([0.5, 0.2, 0.2], classes, before),
        "score": lambda: Known().score(rows, [0, 1, -1, 2, 0], [1, 2, 9, 4, 3]),
        "no y": lambda: Known().score(rows, None),
        "shares": lambda: [truth.right_share(np.array([1, 2, 1]), np.array([[1], [1], [
            1]])),
                           truth.right_share(np.array(["a", "b"]), ["a", "c"], [3, 1])],
        "kinds": lambda: truth.right_share(np.array(["a", "b"]), [1, 2]),
        "bytes": lambda: truth.right_share(np.array([1, 2]), np.array([b"a", b"c"])),
        "length": lambda: truth.right_share(np.array([1, 2]), [1]),
        "leaves out": lambda: [unlabeled.leaves_out(v) for v in (None, "warn", -1, "",
            float("nan"))],
        "labels": lambda: unlabeled.leaves_out([1, 2]),
        "has": lambda: [unlabeled.has_label([-1, 0, -1.0, "x"], -1),
                        unlabeled.has_label([None, float("nan"), "a"], float("nan"))],
        "left": lambda: unlabeled.leave_out(-1, [0, -1, 1], pd.DataFrame(rows[:3]),
            None, rows[:3]),
        "whole": lambda: unlabeled.leave_out(-1, [0, 1], [5, 6]),
        "only": lambda: unlabeled.leave_out(-1, [-1, -1], name="groups"),
        "rows": lambda: unlabeled.leave_out(-1, [0, -1, 1], rows),
        "disk": lambda: unlabeled.refuse_unlabeled(-1),
        "warning": lambda: unlabeled.warn_of_unlabeled("warn", [-1, 0, 1, 2, 3], "y",
            " (--x)"),
        "few": lambda: unlabeled.warn_of_unlabeled("warn", [-1, 0, 1], "groups"),
        "no warning": lambda: [unlabeled.warn_of_unlabeled(u, c, "y") for u, c in (
            ("warn", [-1, 0]), (None, [-1, 0, 1]), ("warn", [0, 1, 2]))],
        "spelled": lambda: [unlabeled.spelled(v) for v in (1, 1.0, -1.0, 0.5, "a", None,
            True, b"c")],
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "data/labels.txt")
    moved = np.exp(log_p) * [2.0, 5 / 3, 0.2]
    np.testing.assert_allclose(
        np.exp(found["rates"]), moved / moved.sum(1, keepdims=True)
    )
    assert found["score"] == pytest.approx(6 / 10)
