"""Small NumPy float64 inputs for every public function, at any distance from zero.

Coordinates lie on a grid of 2^-10, so that a shift by a whole number is exact and what
is seen at a large one is the rounding of the code, not that of the inputs.
"""

from functools import cached_property
from types import SimpleNamespace

import jax
import numpy as np

from probmetric.data.containers import Distances, Groups, Labeled, Pairs, Points
from probmetric.data.pairs import all_pairs
from probmetric.densities.classes import ClassDensities
from probmetric.densities.pair import PairModel
from probmetric.inference import dca_gm, mds
from probmetric.inference.dca_gm import em as dca_gm_em
from probmetric.inference.dca_gm.fit import Conditioned
from probmetric.inference.dca_gm.hybrid import Penalty
from probmetric.inference.gaussian_classes import posterior as gaussian_classes
from probmetric.inference.lca import em as lca_em
from probmetric.inference.lca import statistics as lca_statistics
from probmetric.inference.mixture import em as two_stage
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.sampling.target import Gaussian, Target
from probmetric.inference.two_stage import groups as two_stage_groups
from probmetric.inference.two_stage.groups_missing import group_rows
from probmetric.inference.two_stage.pairs import AlphaData
from probmetric.inference.two_stage.proportional import ProportionalParams
from probmetric.inference.two_stage.target import Fitted, pack
from probmetric.metric import Link, LocalMahalanobis, Mahalanobis
from probmetric.metric.glml import Spectrum
from probmetric.models.dca_gm import DCAGMParams, unconstrain
from probmetric.models.gaussian_classes import GaussianClassesParams, NIWPrior
from probmetric.models.lca import LCAParams, LCAPrior
from probmetric.models.two_stage import TwoStageParams
from probmetric.precision import to_numpy

N, D = 24, 2


def double(function, *args, **options):
    """Return what an input is made of, computed in float64 and held by NumPy."""
    with jax.enable_x64(True):
        return to_numpy(function(*args, **options))


def square(x, _):
    """Be the objective, and its own step, of the generic solvers."""
    return -0.5 * (x - 1) @ (x - 1)


def halve(x, _):
    """Be an EM step: halve the way to one."""
    return (x + 1) / 2, -0.5 * (x - 1) @ (x - 1)


class Given:
    """Inputs whose features are moved by ``shift``."""

    def __init__(self, shift=0.0):
        rng = np.random.default_rng(0)
        self.shift, self.key = shift, jax.random.key(0)
        self.y = np.repeat([0, 1], N // 2)
        centre = np.array([[0.0, 0.0], [2.0, 1.0]])
        near = np.round(1024 * (rng.normal(size=(N, D)) + centre[self.y])) / 1024
        self.X, self.means = near + shift, centre + shift
        self.x, self.origin = self.X[0], np.full(D, shift)
        self.w = np.full(N, 1.5)
        self.holes = self.X.copy()
        self.holes[3, 0] = self.holes[15, 1] = np.nan
        self.S = np.array([[[1.0, 0.3], [0.3, 0.6]], [[0.5, -0.2], [-0.2, 1.2]]])
        self.L = np.linalg.cholesky(self.S)
        self.c = np.array([0.4, 0.6])
        self.M = self.S[0]
        self.points = Points(self.X)
        self.labeled = Labeled(self.X, self.y, self.w)
        self.partly = Labeled(self.holes, self.y)
        self.pairs = all_pairs(self.X, self.y)
        self.few = Pairs(self.X, np.arange(8), np.arange(8, 16), self.y[8:16])
        self.same = self.X[::2], self.X[1::2]
        self.groups = Groups(self.X, np.arange(N) // 2)
        self.B = self.S - 0.8 * np.eye(D)
        self.log_p = np.log(np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]))
        self.position = np.array([0.3, -0.2])
        self.target = Target(square, lambda x, _: {"x": x})
        self.gaussian = Gaussian(self.position, np.eye(2))
        self.metric = Mahalanobis(self.L[0])
        self.linked = Mahalanobis(self.L[0], Link(np.array(0.1), np.array(0.5)))
        self.spectrum = Spectrum(np.array([0.5, 2.0]), np.eye(2))
        self.square, self.halve = square, halve

    @cached_property
    def lca(self):
        """LCA: parameters, prior and statistics."""
        stats = double(lca_statistics.prepare, self.pairs)
        params = LCAParams(0.5 * np.eye(D) + 0.1, np.array(-0.5), np.array(1.0))
        prior = LCAPrior(0.5 * np.eye(D), np.array(0.5), np.array(4.0))
        mixed = double(np.linalg.eigh, stats.T)
        anchored = self.pairs._replace(anchor=np.asarray(self.pairs.i) % 3)
        per_anchor = double(lca_statistics.prepare, anchored, per_anchor=True)
        return SimpleNamespace(
            params=params,
            prior=prior,
            stats=stats,
            free={"W": params.W, "log_b": np.array(-0.9)},
            data=(stats, prior, np.array(0.5)),
            mixed=mixed,
            em=(stats, prior, np.array(0.5), mixed),
            per_anchor=(per_anchor, prior, np.array(0.5), mixed),
            moments=double(lca_em.moments, params, stats),
            strong=prior._replace(lam=np.array(1e4)),
        )

    @cached_property
    def two(self):
        """Two-stage mixture: parameters, prior, data in every form, statistics."""
        prior = double(default_prior, self.X, 2)
        params = TwoStageParams(self.c, self.means, 0.3 * self.S, 0.7 * self.S)
        mixture = MixtureParams(self.c, self.means, self.S)
        data = two_stage.MixtureData(self.X, self.w, prior)
        groups = double(two_stage_groups.group_data, self.groups, prior=prior)
        holes = Groups(self.holes, self.groups.group)
        q, y = (np.stack([A - m for m in self.means]) for A in self.same)
        posterior = Fitted(self.groups, prior, params, False, None)
        return SimpleNamespace(
            prior=prior,
            params=params,
            mixture=mixture,
            data=data,
            missing=data._replace(X=self.holes),
            groups=groups,
            rows=double(group_rows, holes, prior=prior),
            holes=holes,
            tied=ProportionalParams(*mixture, np.array(0.3)),
            stats=double(two_stage.e_step, mixture, data),
            group_stats=double(two_stage_groups.e_step, params, groups),
            alpha=AlphaData(q, y, np.log(self.c), np.ones(N // 2)),
            posterior=posterior,
            packed=pack(posterior),
            draws=jax.tree.map(lambda a: np.stack([a, a[::-1]]), params),
            model=PairModel(
                np.log(self.c), self.means, 0.7 * self.S, 0.3 * self.S, 0.4 * self.S
            ),
        )

    @cached_property
    def gauss(self):
        """Gaussian classes: parameters, prior, statistics, posterior, draws, metric."""
        params = GaussianClassesParams(self.c, self.means, self.L)
        prior = NIWPrior(self.means[0], np.eye(D), np.array(0.8), np.array(5.0), 1.5)
        stats = double(gaussian_classes.statistics, self.labeled, 2)
        densities = ClassDensities(
            np.log(self.c),
            np.zeros((2, 1)),
            self.means[:, None],
            np.linalg.inv(self.L)[:, None],
            np.zeros((2, 1)),
        )
        local = LocalMahalanobis(
            densities._replace(loc=self.means[:, None] - self.shift),
            np.eye(D),
            self.origin,
            np.array(0.5),
        )
        return SimpleNamespace(
            params=params,
            prior=prior,
            stats=stats,
            post=double(gaussian_classes.posterior, stats, prior),
            draws=jax.tree.map(lambda a: np.stack([a, a]), params),
            densities=densities,
            local=local,
        )

    @cached_property
    def dca(self):
        """DCA-GM: parameters, unconstrained sites, prior and what is conditioned on."""
        A = np.array([[1.0, 0.2], [-0.1, 0.8]])
        mu = (self.means @ A.T)[:, None]
        params = DCAGMParams(A, np.log(self.c), np.zeros((2, 1)), mu, self.L[:, None])
        prior = double(dca_gm.default_prior, params, self.labeled)
        given = Conditioned(self.labeled, prior, np.array(1.0))
        Y = self.X @ A.T
        return SimpleNamespace(
            A=A,
            params=params,
            sites=double(unconstrain, params),
            prior=prior,
            given=given,
            Y=Y,
            theta=(params.log_alpha[:, None] + params.log_beta, mu, self.L[:, None]),
            em=dca_gm_em.EMData(Y, self.y, self.w, dca_gm_em.EMPrior()),
            penalty=Penalty(A, np.array(1.0)),
        )

    @cached_property
    def far(self):
        """Differences of unlike pairs, and weights of them, for the max-min game."""
        Z = (self.X[:12] - self.X[12:])[:8]
        return SimpleNamespace(Z=Z, u=np.full(8, 1 / 8), start=np.ones(D) / 2**0.5)

    @cached_property
    def distances(self):
        """Distances between all points, squared too, and their embedding."""
        D2 = ((self.X[:, None] - self.X) ** 2).sum(-1)
        data = Distances(np.sqrt(D2))
        return SimpleNamespace(
            D=data.D, squared=D2, data=data, params=mds.fit(data, 2).params
        )
