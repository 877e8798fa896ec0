"""Gaussian classes under the LKJ prior: NUTS on the model against quadrature.

In two dimensions a class's posterior is an integral over (log τ₁, log τ₂, ρ): the
mean is normal given these, and the density of ρ is (1 - ρ²)^(ζ - 1).
"""

import jax
import numpy as np
import pytest
import xarray as xr
from scipy import stats

from probmetric.checks.compare import compare
from probmetric.data.containers import Labeled
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Posterior, model_target
from probmetric.models.gaussian_classes import LKJPrior, gaussian_classes

pytestmark = pytest.mark.usefixtures("x64")
PRIOR = LKJPrior(
    mean=np.array([0.2, -0.1]),
    mean_scale=np.array([1.0, 1.5]),
    scale=np.array([0.8, 1.2]),
    spread=0.5,
    concentration=2.0,
)


def toy():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [10, 14])
    X = rng.normal(size=(24, 2)) @ np.array([[1.0, 0.7], [0.0, 0.7]]) + y[:, None]
    return Labeled(X, y)


def by_quadrature(X, prior, reach=4.0):
    """Return E log τ, E ρ, E μ and log of the integral for one class's points."""
    n, mean = len(X), X.mean(0)
    S = (X - mean).T @ (X - mean)
    u, w = np.polynomial.legendre.leggauss(60)
    logs = [np.log(np.sqrt(S[j, j] / n)) + 2.0 * u for j in range(2)]
    z = reach * u  # arctanh ρ
    a, b, z = np.meshgrid(*logs, z, indexing="ij")
    weight = np.einsum("i,j,k->ijk", w, w, w)
    rho, tau = np.tanh(z), np.exp(np.stack([a, b], -1))
    r = np.stack([np.ones_like(rho), rho, rho, np.ones_like(rho)], -1)
    Sigma = tau[..., :, None] * r.reshape(*rho.shape, 2, 2) * tau[..., None, :]
    T = np.diag(prior.mean_scale**2)
    around = T + Sigma / n  # Of the mean of the points, μ integrated out.
    off = mean - prior.mean
    solved = np.linalg.solve(around, np.broadcast_to(off, (*rho.shape, 2))[..., None])
    solved = solved[..., 0]
    log_p = (
        -0.5 * (n - 1) * np.linalg.slogdet(Sigma)[1]
        - 0.5
        * np.trace(np.linalg.solve(Sigma, np.broadcast_to(S, Sigma.shape)), 0, -2, -1)
        - 0.5 * np.linalg.slogdet(around)[1]
        - 0.5 * solved @ off
        + stats.norm.logpdf(a, np.log(prior.scale[0]), prior.spread)
        + stats.norm.logpdf(b, np.log(prior.scale[1]), prior.spread)
        + (prior.concentration - 1) * np.log1p(-(rho**2))
        + np.log1p(-(rho**2))  # dρ = (1 - ρ²) dz
    )
    p = weight * np.exp(log_p - log_p.max())
    p /= p.sum()
    mu = prior.mean + solved @ T
    each = {"log tau": np.stack([a, b], -1), "mean": mu, "rho": rho[..., None]}
    each["mean squared"] = mu**2 + np.diagonal(
        T - T @ np.linalg.solve(around, np.broadcast_to(T, around.shape)), 0, -2, -1
    )
    assert p[[0, -1]].sum() + p[:, [0, -1]].sum() + p[..., [0, -1]].sum() < 1e-6
    return {name: np.einsum("ijk,ijkm->m", p, v) for name, v in each.items()}


@pytest.mark.slow
def test_nuts_on_the_lkj_model_is_quadrature():
    """14 quantities, 1 % family-wise. Control: ζ = 6 in place of 2 is refused."""
    data = toy()
    target, given, shapes = model_target(
        gaussian_classes, (data, PRIOR), {"n_classes": 2}
    )
    origin = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
    found = (
        NUTS()
        .draw(Posterior(target, given, origin), seed=1, n_draws=2500, progress=False)
        .values
    )
    chol, mean = np.asarray(found["chol"]), np.asarray(found["mean"])
    rho = chol[..., 1, 0] / np.linalg.norm(chol[..., 1, :], axis=-1)
    columns = {
        "log tau": np.log(np.asarray(found["tau"])),
        "mean": mean,
        "rho": rho[..., None],
        "mean squared": mean**2,
    }
    draws = xr.Dataset(
        {
            name: (("chain", "draw", "class", f"{name} of"), value)
            for name, value in columns.items()
        }
    )

    def reference(prior):
        each = [by_quadrature(data.X[data.y == c], prior) for c in (0, 1)]
        return {name: np.stack([e[name] for e in each]) for name in columns}

    assert compare(reference(PRIOR), draws).attrs["verdict"] == "agree"
    wrong = PRIOR._replace(concentration=6.0)
    assert compare(reference(wrong), draws).attrs["verdict"] == "disagree"
