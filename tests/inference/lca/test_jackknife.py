"""Refits without a group of points."""

import numpy as np
import pytest

from probmetric.inference.lca import jackknife
from probmetric.inference.lca.fit import fit
from probmetric.inference.lca.jackknife import leave_out
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
