"""Results do not depend on the engine: this process, or workers of a Dask cluster."""

from contextlib import nullcontext
from itertools import pairwise

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


def kinds(source):
    """Return a function for each kind of pass, which returns its result."""
    metric = build("Mahalanobis")
    Q = np.random.default_rng(1).normal(size=(20, 3))
    mixture = pm.TwoStageMixture(2, max_iter=3, tol=1.0)

    def moments():
        return pm.LDA(prior_strength=1).fit(without_group(source, 2)).components_

    def votes():
        knn = pm.KNeighborsClassifier(metric, votes="count", prior_weight=1.0)
        return knn.fit(source).predict_proba(Q)

    def evaluate():
        classes = pm.GaussianClasses(prior="evidence").fit(source)
        figures = pm.evaluate(source, classifier=classes, metric=metric, max_queries=50)
        return [*figures.values()]

    return {
        "moments": moments,
        "points": lambda: mixture.fit(source).means_,
        "groups": lambda: mixture.fit(source, groups="label").within_,
        "anchors": lambda: pm.LCA(n_anchors=60, max_iter=20).fit(source).components_,
        "neighbors": lambda: np.stack(pm.nearest(metric, Q, source, 4)),
        "scan": lambda: np.stack(pm.nearest(build("PairSimilarity"), Q, source, 4)),
        "votes": votes,
        "evaluate": evaluate,
    }


def fits(source):
    """Return the results of each kind of pass."""
    return {name: np.asarray(compute()) for name, compute in kinds(source).items()}


@pytest.mark.long
def test_every_kind_of_pass_has_the_same_bits_on_workers(client):
    alone = fits(rows())
    with pm.distributed(client):
        divided = fits(rows())
    for name, values in alone.items():
        assert np.array_equal(divided[name], values), name
