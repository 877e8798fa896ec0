"""A metric on disk is the metric, bit for bit; what is no metric is refused."""

import dataclasses
import json
import os
import pickle

import jax
import numpy as np
import pytest

import probmetric as pm
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import names_of
from probmetric.metric.pair_similarity import Calibration
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.storage import metric_file as storage
from probmetric.storage.metric_file import load_metric, save_metric
from tests.metric_kinds import NAMES, build

Q = np.random.default_rng(1).normal(size=(4, 3))


def assert_same_bits(a, b):
    leaves, others = jax.tree.leaves(a), jax.tree.leaves(b)
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(leaves, others, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        assert np.shape(one) == np.shape(other)
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_comes_back_bit_for_bit(name, tmp_path):
    metric = build(name)
    save_metric(metric, tmp_path / "m.npz")
    again = load_metric(tmp_path / "m.npz")
    assert type(again) is type(metric)
    assert_same_bits(metric, again)
    np.testing.assert_array_equal(again.pairwise(Q, Q), metric.pairwise(Q, Q))


@pytest.mark.parametrize("name", NAMES)
def test_draws_of_every_kind_come_back_bit_for_bit(name, tmp_path):
    draws = PosteriorMetric(
        [build(name, seed) for seed in range(3)],
        "intervals",
        source="bootstrap",
        pairs_independent=len(name) % 2 == 0,
        credible=len(name) % 3 == 0,
    )
    save_metric(draws, tmp_path / "m.npz")
    again = load_metric(tmp_path / "m.npz")
    assert (repr(again), again.credible) == (repr(draws), draws.credible)
    for one, other in zip(draws.draws, again.draws, strict=True):
        assert_same_bits(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_refits_of_every_kind_come_back_bit_for_bit(name, tmp_path):
    fits = [build(name, seed) for seed in range(4)]
    refits = IntervalMetric(fits[0], fits[1:], factor=1 / 3, df=7, about="it")
    save_metric(refits, tmp_path / "m.npz", feature_names=["a", "b", "c"])
    again = load_metric(tmp_path / "m.npz")
    assert (repr(again), again.factor, again.df) == (repr(refits), 1 / 3, 7)
    assert names_of(again) == names_of(again.point_metric()) == ("a", "b", "c")
    np.testing.assert_array_equal(again.pairwise(Q, Q), fits[0].pairwise(Q, Q))
    for one, other in zip(
        (refits.metric, *refits.left_out), (again.metric, *again.left_out), strict=True
    ):
        assert_same_bits(one, other)


def test_the_mean_over_draws_of_a_kind_comes_back(tmp_path):
    draws = PosteriorMetric([build("PairSimilarity", s) for s in (0, 1)], "prediction")
    mean = draws.mean_metric()
    save_metric(mean, tmp_path / "m.npz")
    assert_same_bits(mean, load_metric(tmp_path / "m.npz"))


@pytest.mark.parametrize(
    "metric",
    [
        dataclasses.replace(build("LocalMahalanobis"), gamma=float("inf")),
        dataclasses.replace(build("LocalMahalanobis"), gamma=1 / 3, rule="fisher"),
        dataclasses.replace(build("PairSimilarity"), score="vq", blocks=(1, 1)),
        dataclasses.replace(
            build("PairSimilarity"), noise_other=build("PairSimilarity").noise * 2
        ),
        dataclasses.replace(
            build("PairSimilarity"), calibration=Calibration(-0.2, 0.7, 0.1, 3.4)
        ),
        Mahalanobis(np.eye(2, 3, dtype=np.float32)),
        Mahalanobis(np.array([[-0.0, 5e-324, np.finfo(float).max]])),
    ],
    ids=["inf", "static", "blocks", "two noises", "calibrated", "float32", "extremes"],
)
def test_special_values_and_static_facts_come_back(metric, tmp_path):
    save_metric(metric, tmp_path / "m.npz")
    assert_same_bits(metric, load_metric(tmp_path / "m.npz"))


def damaged(path, edit):
    """Rewrite the header of a stored metric."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"]))
    edit(header)
    np.savez(path, **{**arrays, "header": np.array(json.dumps(header))})


def test_a_similarity_stored_before_calibration_has_none(tmp_path):
    metric = build("PairSimilarity")
    save_metric(metric, tmp_path / "m.npz")
    damaged(tmp_path / "m.npz", lambda h: h["metric"]["parts"].pop("calibration"))
    loaded = load_metric(tmp_path / "m.npz")
    assert loaded.calibration is None
    assert_same_bits(metric, loaded)


def test_no_pickle_is_ever_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.abort, ()

    path = tmp_path / "m.npz"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="readable metric file"):
        load_metric(path)
    np.savez(path, header=np.array([Bomb()], object))
    with pytest.raises(ValueError, match="readable metric file"):
        load_metric(path)


def test_a_file_cut_anywhere_or_with_a_flipped_bit_is_refused_or_whole(tmp_path):
    path = tmp_path / "m.npz"
    metric = build("PairSimilarity")
    save_metric(metric, path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="readable metric file"):
            load_metric(path)
    rng = np.random.default_rng(0)
    refused = 0
    for at in rng.integers(0, len(whole), 150):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        try:
            again = load_metric(path)
        except ValueError:
            refused += 1
        else:  # a bit of a time stamp or of padding
            assert_same_bits(metric, again)
    assert refused > 75


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.npz"
    save_metric(build("Mahalanobis"), path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        save_metric(build("LocalFisher"), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "wrong, said",
    [
        (pm.LCA(), r"got LCA\. Pass its get_metric\(\)\.$"),
        (pm.LCA, r"got LCA\. Pass its get_metric\(\)\.$"),
        (np.eye(2), "got ndarray$"),
        ("Mahalanobis", "got str$"),
    ],
)
def test_what_is_no_metric_is_told_where_one_is(wrong, said, tmp_path):
    X = np.eye(2)
    for ask in (
        lambda: pm.save_metric(wrong, tmp_path / "m.npz"),
        lambda: pm.nearest(wrong, X, X, 1),
        lambda: pm.neighbors.neighbor_table(wrong, X, 1),
    ):
        with pytest.raises(ValueError, match=f"^metric must be a metric.*{said}"):
            ask()
    with pytest.raises(ValueError, match=r"metric must be one of .*got Finsler"):
        pm.save_metric(type("Finsler", (), {"pairwise": None})(), tmp_path / "m.npz")
    with pytest.raises(
        ValueError, match=r"arrays must be numeric, got .* in metric\.factor"
    ):
        pm.save_metric(Mahalanobis(np.full((1, 2), np.nan)), tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())
