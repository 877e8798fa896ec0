"""Results do not depend on the engine: this process, or workers of a Dask cluster."""

import os
import subprocess
import sys
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import probmetric as pm
from probmetric.large import engine
from probmetric.large.engine import hold, run, split
from probmetric.large.files import Rows
from probmetric.large.resampled import without_group
from probmetric.large.source import Part
from tests.metric_kinds import build

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.xdist_group("dask")


@pytest.fixture(scope="module")
def client():
    with distributed.Client(
        processes=False,
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
    ) as client:
        yield client


def scaled(item, factor):
    return factor * item


def failing(item):
    raise ValueError(f"row {item} of the file")


@pytest.mark.parametrize("n", [0, 1, 3, 64])
def test_results_are_in_the_order_of_the_items(client, n):
    items = [float(i) for i in range(n)]
    with pm.distributed(client):
        assert [*run(scaled, items, 3.0)] == [3.0 * i for i in items]
        held = hold(scaled, items, 2.0)
        assert [*run(scaled, held, 3.0)] == [6.0 * i for i in items]
        assert [i for some in split(items) for i in some] == items


def test_each_worker_gets_one_list_of_consecutive_items(client):
    assert split([*range(5)]) == [[0, 1, 2, 3, 4]]
    with pm.distributed(client):
        assert split([*range(5)]) == [[0, 1], [2, 3, 4]]


def test_an_error_of_a_task_is_the_error_of_the_pass(client):
    for block in (pm.distributed(client), nullcontext()):
        with block, pytest.raises(ValueError, match=r"row \d of the file"):
            [*run(failing, range(3))]


def test_the_cluster_is_used_only_within_the_block(client):
    with pm.distributed(client):
        assert engine._State.client is client
        with pm.distributed() as again:  # The current client of the program.
            assert again is client
    assert engine._State.client is None


def test_without_a_client_the_remedy_is_named(monkeypatch):
    def none():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(ValueError, match=r"client must be .*, got None"):
        with pm.distributed():
            pass


def rows(n=600, d=3):
    """Return labeled rows in parts of unequal sizes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, d)) + 2 * y[:, None]
    source = Rows(X, y)
    ends = [0, *np.sort(rng.choice(np.arange(1, n), 12, False)).tolist(), n]
    source.parts = [Part("", a, b - a, start=a) for a, b in pairwise(ends)]
    return source


def fits(source):
    """Return results of each kind of pass."""
    lda = pm.LDA(prior_strength=1).fit(without_group(source, 2))
    knn = pm.KNeighborsClassifier(lda.get_metric(), votes="count", prior_weight=1.0)
    classes = pm.GaussianClasses(prior="evidence").fit(source)
    figures = pm.evaluate(
        source, classifier=classes, metric=lda.get_metric(), max_queries=50
    )
    Q = np.random.default_rng(1).normal(size=(20, 3))
    mixture = pm.TwoStageMixture(2, max_iter=3, tol=1.0).fit(source)
    return {
        "moments": lda.components_,
        "points": mixture.means_,
        "groups": mixture.fit(source, groups="label").within_,
        "anchors": pm.LCA(n_anchors=60, max_iter=20).fit(source).components_,
        "neighbors": np.stack(pm.nearest(lda.get_metric(), Q, source, 4)),
        "scan": np.stack(pm.nearest(build("PairSimilarity"), Q, source, 4)),
        "votes": knn.fit(source).predict_proba(Q),
        "evaluate": [*figures.values()],
    }


@pytest.mark.long
def test_every_kind_of_pass_has_the_same_bits_on_workers(client):
    alone = fits(rows())
    with pm.distributed(client):
        divided = fits(rows())
    for name, values in alone.items():
        assert np.array_equal(divided[name], values), name


WORKERS = Path(__file__).with_name("workers.py")


@pytest.mark.slow
def test_workers_of_which_one_is_killed_change_no_bit(tmp_path):
    """A script with one thread per process: threads change the last bits."""
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "XLA_FLAGS": flags}
    done = subprocess.run(
        [sys.executable, WORKERS, tmp_path],
        env=alone,
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(tmp_path / "0.npz") as stored:
        wanted = dict(stored)
    with np.load(tmp_path / "killed.npz") as stored:
        for key, values in wanted.items():
            assert stored[key].tobytes() == values.tobytes(), key
