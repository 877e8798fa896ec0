"""The bootstrap in blocks: resumed, refused, compiled once, bounded in memory."""

import jax
import numpy as np
import pytest
from scipy import stats

from probmetric.data.containers import Pairs
from probmetric.inference.lca.bootstrap import Bootstrap, dirichlet_weights
from probmetric.inference.lca.target import TARGET
from probmetric.inference.sampling.target import Posterior
from probmetric.models.lca import LCAParams, LCAPrior

rng = np.random.default_rng(0)
N, D = 200, 3
X = rng.normal(size=(60, D))
i = rng.integers(0, 60, N)
PADDED = np.concatenate([X, np.zeros((4, D))])
PAIRS = Pairs(
    PADDED, i, (i + rng.integers(1, 60, N)) % 60, np.arange(N) % 2, np.ones(N)
)
PRIOR = LCAPrior(0.8 * np.eye(D), c=0.8, lam=5.0)
START = LCAParams(0.8 * np.eye(D), np.array(-1.0))


def draws(
    pairs=PAIRS, prior=PRIOR, rate=1.0, n_points=60, seed=1, n_draws=7, **options
):
    posterior = Posterior(TARGET, (pairs, prior, rate, n_points), START)
    sampler = Bootstrap(**{"block_size": 3, **options})
    run = dict(seed=seed, n_draws=n_draws, n_chains=1, progress=False)
    return sampler.draw(posterior, **run).values


@pytest.fixture(scope="module")
def whole():
    return draws()


def equal(a, b):
    assert a.keys() == b.keys() == {"M", "b", "log_sigma2"}
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


@pytest.mark.long
def test_checkpoints_do_not_change_the_draws_and_a_stop_does_not(whole, tmp_path):
    assert whole["M"].shape == (1, 7, D, D)
    equal(draws(checkpoint=tmp_path), whole)
    blocks = sorted(tmp_path.glob("block_*.npz"))
    assert len(blocks) == 3
    for block in blocks[1:]:
        block.unlink()
    equal(draws(checkpoint=tmp_path, resume=True), whole)
    with pytest.raises(ValueError, match=r"checkpoint must be .*resume=True"):
        draws(checkpoint=tmp_path)
    blocks[1].write_bytes(blocks[1].read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"block_00001\.npz cannot be read"):
        draws(checkpoint=tmp_path, resume=True)


@pytest.mark.long
def test_a_draw_depends_on_seed_and_number_alone(whole):
    more = draws(n_draws=8)
    for name in whole:
        np.testing.assert_array_equal(more[name][:, :7], whole[name])
    # In other blocks: rounding apart, within refits that converge to a relative gap,
    # the same draw.
    other = draws(block_size=8)
    np.testing.assert_allclose(other["M"], whole["M"], rtol=1e-6)
    assert np.abs(draws(seed=2)["M"] - whole["M"]).max() > 1e-3


@pytest.mark.long
def test_padding_weighs_nothing(whole):
    moved = np.concatenate([X, np.ones((4, D))])
    equal(whole, draws(pairs=PAIRS._replace(X=moved)))


@pytest.mark.long
def test_a_refit_that_does_not_converge_is_an_error_that_keeps_the_blocks(tmp_path):
    with pytest.raises(RuntimeError, match=r"3 of the 3 refits .*MAX_STEPS.*raise"):
        draws(max_steps=1, tol=1e-14, checkpoint=tmp_path)


@pytest.mark.parametrize("name", ["n_draws", "block_size"])
def test_sizes_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}.* got 0"):
        draws(**{name: 0})


def test_bootstrap_weights_are_dirichlet_and_padding_does_not_dilute_them(x64):
    n, size, draws = 60, 512, 4000
    keys = jax.random.split(jax.random.key(0), draws)
    u = np.asarray(jax.vmap(lambda key: dirichlet_weights(key, n, size))(keys))
    np.testing.assert_array_equal(u[:, n:], 1)
    np.testing.assert_allclose(u[:, :n].mean(1), 1, rtol=1e-13)
    # u/n ~ Dirichlet(1, ..., 1): Var u_i = (n - 1)/(n + 1), Cov(u_i, u_j) = -1/(n + 1).
    moments = np.cov(u[:, :n].T)
    variance = stats.dirichlet(np.ones(n)).var() * n**2
    np.testing.assert_allclose(variance, (n - 1) / (n + 1), rtol=1e-12)
    # The mean over n entries has a standard error of 8^½/(draws n)^½, and less.
    error = np.sqrt(8 / (draws * n))
    assert abs(np.diag(moments).mean() - variance[0]) < 5 * error
    first = u[:, :n].mean(0)
    assert np.abs(first - 1).max() < 5 * np.sqrt(1 / draws)
    off = (moments.sum() - np.trace(moments)) / (n * (n - 1))
    # The weights sum to n: their covariances sum to 0, exactly.
    np.testing.assert_allclose(off, -np.diag(moments).mean() / (n - 1), rtol=1e-10)
    # Beta(1, n - 1) for one weight: a test of its whole law, false alarm 1e-3.
    assert stats.kstest(u[:, 7] / n, stats.beta(1, n - 1).cdf).pvalue > 1e-3
