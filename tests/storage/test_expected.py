"""Headers, names, attributes and messages of stored files equal a stored text.

Read: each array of a file equals the metric's array; other tests compare the bits.
"""

import dataclasses
import json

import numpy as np
import xarray as xr

from probmetric.metric import Link, Mahalanobis
from probmetric.metric.feature_names import named, names_of
from probmetric.metric.mean import MeanDissimilarity
from probmetric.posterior.metric import PosteriorMetric
from probmetric.storage import draws_file, metric_file
from tests.dump import outcomes, text
from tests.expected import assert_expected
from tests.metric_kinds import build

L = np.array([[1.0, 0.2, -0.4], [0.0, 0.7, 0.3]])
ONE = Mahalanobis(L, Link(np.array(0.1), 0.5))


class Own:
    """A metric of one's own with arrays."""

    def __init__(self, weights):
        self.weights = weights
        self.n_features, self.is_distance, self.symmetric = len(weights), True, True

    def to_arrays(self):
        return {"weights": self.weights}

    @classmethod
    def from_arrays(cls, arrays):
        return cls(arrays["weights"])

    def dissimilarity(self, q, Y):
        return np.sum(self.weights * (Y - q) ** 2, -1)

    def pairwise(self, Q, P):
        return np.stack([self.dissimilarity(q, P) for q in Q])

    distance = dissimilarity


def test_metric_files(tmp_path):
    path = tmp_path / "m.npz"

    def stored(metric, **more):
        metric_file.save_metric(metric, path, **more)
        with np.load(path) as file:
            arrays = {k: file[k] for k in file.files if k != "header"}
            return {"header": json.dumps(json.loads(str(file["header"])))} | arrays

    def changed(**header):
        metric_file.save_metric(ONE, path)
        with np.load(path) as file:
            arrays = dict(file)
        new = json.loads(str(arrays.pop("header"))) | header
        new = {k: v for k, v in new.items() if v != "out"}
        np.savez(path, header=np.array(json.dumps(new)), **arrays)
        return metric_file.read_metric(path)

    def old_draws():
        metric_file.save_metric(draws, path)
        with np.load(path) as file:
            arrays = dict(file)
        header = json.loads(str(arrays.pop("header")))
        del header["metric"]["credible"], header["handle_unknown"]
        np.savez(path, header=np.array(json.dumps(header)), **arrays)
        return metric_file.read_metric(path)

    def read(metric, **more):
        metric_file.save_metric(metric, path, **more)
        found = metric_file.read_metric(path)
        again = found.metric
        facts = [str(getattr(again, k, None)) for k in (
            "purpose", "source", "pairs_independent", "credible")]  # fmt: skip
        return {
            "stored": found._replace(metric=repr(again)),
            "names": names_of(again),
            "facts": facts,
        }

    two = [ONE, Mahalanobis(2 * L, Link(np.array(0.3), 0.7))]
    draws = PosteriorMetric(
        two, "intervals", source="nuts", pairs_independent=True, credible=True
    )
    about = {"rows": np.arange(3), "seed": 7, "data": {"n": 5}}
    own = Own(np.array([1.0, 2.0]))
    calls = {
        "one": lambda: stored(ONE, feature_names=["a", "b", "c"], provenance=about),
        "named": lambda: stored(named(ONE, ["u", "v", "w"], "ignore")),
        "mean": lambda: stored(MeanDissimilarity((ONE, ONE))),
        "similarity": lambda: stored(dataclasses.replace(build("PairSimilarity"),
            score="joint")),
        "draws": lambda: stored(draws),
        "own": lambda: stored(own),
        "read": lambda: read(ONE, feature_names=["a", "b", "c"], provenance=about),
        "read names": lambda: read(named(ONE, ["u", "v", "w"], "ignore"), provenance={
            "k": 1}),
        "read draws": lambda: read(named(draws, ["u", "v", "w"])),
        "read own": lambda: [stored(own), metric_file.load_metric(path, kinds=[Link,
            Own]).weights],
        "kinds": lambda: [stored(own), metric_file.load_metric(path, kinds=[Link])],
        "credible": lambda: old_draws().metric.credible,
        "unknown": lambda: changed(metric={"kind": "Euclid", "parts": {}}),
        "parts": lambda: changed(metric={"kind": "Mahalanobis"}),
        "nothing": lambda: changed(metric={"kind": "tuple", "parts": {}}),
        "format": lambda: changed(format="other"),
        "version": lambda: changed(format_version=2, probmetric_version="9.9"),
        "no version": lambda: changed(format_version="1", probmetric_version="9.8"),
        "old": lambda: changed(handle_unknown="out").version,
        "names": lambda: changed(feature_names=[1, 2, 3]).feature_names,
        "object": lambda: metric_file.describe([1], "metric"),
        "tuple": lambda: metric_file.describe((1, 0.5, "a", None, np.float32(2)),
            "metric"),
        "nan": lambda: metric_file.describe(Mahalanobis(L * np.nan), "draws"),
        "text": lambda: metric_file.describe(np.array(["a"]), "metric.x"),
        "NaN": lambda: metric_file.rebuild(float("nan"), {}),
        "no JSON": lambda: metric_file.save_metric(ONE, path, provenance={"a": {1, 2}}),
        "array": lambda: metric_file.save_metric(L, path),
        "no file": lambda: metric_file.load_metric(tmp_path / "none.npz"),
    }  # fmt: skip
    assert_expected(
        text(outcomes(calls)), "storage/metric.txt", FILE=path, FOLDER=tmp_path
    )


def test_draws_files(tmp_path):
    path = tmp_path / "d.nc"
    M = np.einsum("...pi,...pj->...ij", *[np.stack([L, 2 * L, L + 1, 3 * L])] * 2)
    M = M.reshape(2, 2, 3, 3)
    dims = ("chain", "draw", "feature", "feature_bis")

    def tree(names=None, **attrs):
        found = xr.DataTree.from_dict({"posterior": xr.Dataset(
            {"M": (dims, M), "b": (dims[:2], [[0.1, 0.2], [0.3, 0.4]])},
            {} if names is None else {"feature": names})})  # fmt: skip
        found.attrs.update(attrs)
        return found

    def loaded(given):
        draws_file.save_draws(given, path)
        return draws_file.load_draws(path)

    def posterior(given, **more):
        found = draws_file.posterior_of(given, **more)
        return {"is": repr(found), "M": [m.matrix for m in found.draws],
                "links": [str(m.link) for m in found.draws]}  # fmt: skip

    def damaged(change):
        draws_file.save_draws(tree(), path)
        path.write_bytes(change(path.read_bytes()))
        return draws_file.load_draws(path)

    posterior_only = tree()["posterior"].to_dataset()
    calls = {
        "whole": lambda: loaded(tree(["a", "b", "c"], method="svi", seed=3)),
        "mark": lambda: [len(path.read_bytes()) - path.read_bytes().rfind(
            draws_file.MARK)],
        "no posterior": lambda: loaded(xr.DataTree.from_dict({
            "prior": posterior_only})),
        "no chains": lambda: loaded(xr.DataTree.from_dict({
            "posterior": posterior_only.isel(chain=0)})),
        "cut": lambda: damaged(lambda b: b[:-3]),
        "flipped": lambda: damaged(lambda b: b[:9] + b"?" + b[10:]),
        "names": lambda: [draws_file.draws_feature_names(tree(n, **a)) for n, a in (
            (["a", "b", "c"], {}), (None, {}), (["a", "b", "c"], {
                "feature_names": '["u", 2]'}))],
        "no list": lambda: draws_file.draws_feature_names(tree(feature_names="{")),
        "metric": lambda: posterior(tree(["a", "b", "c"], method="svi", learner="lca")),
        "few": lambda: posterior(tree(method="bootstrap", pairs_independent=1),
            purpose="intervals", max_draws=2),
        "text": lambda: posterior(tree().map_over_datasets(lambda d: d.assign(t=(dims[
            :2], [["a"] * 2] * 2)) if d else d)),
        "axes": lambda: posterior(tree().map_over_datasets(lambda d: d.transpose("draw",
            ...) if d else d)),
        "NaN": lambda: posterior(tree().map_over_datasets(lambda d: d.where(d[
            "b"] < 0.3) if d else d)),
        "no file": lambda: draws_file.load_draws(tmp_path / "none.nc"),
    }  # fmt: skip
    assert_expected(
        text(outcomes(calls)), "storage/draws.txt", FILE=path, FOLDER=tmp_path
    )
