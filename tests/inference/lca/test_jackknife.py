"""Refits without a group of points, and links on the pairs that they hold out."""

import numpy as np
import pytest

from probmetric.inference.lca import jackknife
from probmetric.inference.lca.fit import fit
from probmetric.inference.lca.jackknife import held_out_links, leave_out
from probmetric.inference.lca.link import log_logistic
from probmetric.inference.lca.recipe import Fitted
from probmetric.models.lca import to_metric
from tests.inference.lca.problem import simulated


@pytest.fixture(scope="module")
def fitted():
    pairs, prior, _ = simulated()
    return Fitted(fit(pairs, prior, tol=1e-9), pairs, prior, 1.0, 0, 1)


def M_of(params):
    return np.asarray(to_metric(params).matrix)


@pytest.mark.long
def test_a_group_left_out_is_a_fit_without_its_pairs(fitted):
    group = np.arange(80) % 20
    found = leave_out(fitted, group)
    assert found.W.shape == (20, 3, 3)
    pairs = fitted.pairs
    rest = (group[pairs.i] != 3) & (group[pairs.j] != 3)
    some = pairs._replace(**{k: getattr(pairs, k)[rest] for k in ("i", "j", "y", "w")})
    wanted = fit(some, fitted.prior, tol=1e-9).params
    mine = type(wanted)(found.W[3], found.log_sigma2[3])
    np.testing.assert_allclose(M_of(mine), M_of(wanted), rtol=0, atol=2e-3)
    assert np.abs(M_of(mine) - M_of(fitted.fit.params)).max() > 1e-2


@pytest.mark.long
def test_a_refit_that_did_not_end_is_an_error(fitted, monkeypatch):
    one_step = jackknife.bootstrap

    def cut(*arguments, **settings):
        return one_step(*arguments, **settings, max_steps=1, tol=1e-12)

    monkeypatch.setattr(jackknife, "bootstrap", cut)
    with pytest.raises(RuntimeError, match="jackknife: MAX_STEPS in"):
        leave_out(fitted, np.arange(80) % 20)


def numbers(link):
    return [link.intercept, link.slope]


def test_links_are_of_pairs_held_out_and_leave_a_group_out():
    """Against loops over pairs and replicates."""
    rng = np.random.default_rng(1)
    X, codes = rng.normal(size=(24, 3)), np.arange(24) % 2
    X[:, 0] += 2 * codes
    group = np.arange(24) % 8
    L = rng.normal(size=(2, 3))
    left = L + 0.05 * rng.normal(size=(8, 2, 3))
    links = held_out_links(X, codes, group, L, left)
    assert len(links) == 9

    def by_hand(k):
        D, same = [], []
        for i in range(24):
            for j in range(24):
                if group[i] == group[j] or k in (group[i], group[j]):
                    continue
                own = left[group[i]] + (0 if k is None else left[k] - L)
                D.append(np.sum((own @ (X[i] - X[j])) ** 2))
                same.append(codes[i] == codes[j])
        return log_logistic(np.array(D), np.array(same), "all")

    for link, k in ((links[0], None), (links[1], 0), (links[6], 5)):
        np.testing.assert_allclose(numbers(link), numbers(by_hand(k)), rtol=1e-6)


def test_of_many_pairs_some_at_random_are_taken():
    rng = np.random.default_rng(2)
    X, codes = rng.normal(size=(60, 2)), np.arange(60) % 2
    X[:, 0] += 2 * codes
    given = X, codes, np.arange(60), np.eye(2), np.repeat(np.eye(2)[None], 60, 0)
    every = held_out_links(*given)[0]
    some = held_out_links(*given, most=1000)[0]
    assert some.intercept != every.intercept
    np.testing.assert_allclose(some.slope, every.slope, rtol=0.25)


def test_links_on_pairs_held_out_need_three_groups():
    X, codes, group = np.arange(4.0)[:, None], np.arange(4) // 2, np.arange(4) % 2
    with pytest.raises(ValueError, match=r"group must have .* got 2"):
        held_out_links(X, codes, group, np.eye(1), np.ones((2, 1, 1)))
