"""Small NumPy float64 inputs for the tables of functions, at any distance from zero.

Coordinates lie on a grid of 2^-10, so that a shift by a whole number is exact and what
is seen at a large one is the rounding of the code, not that of the inputs.
"""

from functools import cached_property
from types import SimpleNamespace

import jax
import numpy as np

from probmetric.data.containers import Distances, Groups, Labeled, Pairs
from probmetric.data.pairs import all_pairs
from probmetric.densities.classes import ClassDensities
from probmetric.inference import mds
from probmetric.inference.gaussian_classes import posterior as gaussian_classes
from probmetric.inference.lca import statistics as lca_statistics
from probmetric.inference.mixture import em as two_stage
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.two_stage import groups as two_stage_groups
from probmetric.inference.two_stage.groups_missing import group_rows
from probmetric.inference.two_stage.target import Fitted, pack
from probmetric.metric import Link, LocalMahalanobis, Mahalanobis
from probmetric.models.dca_gm import DCAGMParams
from probmetric.models.gaussian_classes import GaussianClassesParams, NIWPrior
from probmetric.models.lca import LCAParams, LCAPrior
from probmetric.models.two_stage import TwoStageParams
from probmetric.precision import to_numpy

N, D = 24, 2


def double(function, *args, **options):
    """Return what an input is made of, computed in float64 and held by NumPy."""
    with jax.enable_x64(True):
        return to_numpy(function(*args, **options))


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
        self.x, self.w = self.X[0], np.full(N, 1.5)
        self.holes = self.X.copy()
        self.holes[3, 0] = self.holes[15, 1] = np.nan
        self.S = np.array([[[1.0, 0.3], [0.3, 0.6]], [[0.5, -0.2], [-0.2, 1.2]]])
        self.L, self.M = np.linalg.cholesky(self.S), self.S[0]
        self.c = np.array([0.4, 0.6])
        self.labeled = Labeled(self.X, self.y, self.w)
        self.partly = Labeled(self.holes, self.y)
        self.pairs = all_pairs(self.X, self.y)
        self.few = Pairs(self.X, np.arange(8), np.arange(8, 16), self.y[8:16])
        self.same = self.X[::2], self.X[1::2]
        self.groups = Groups(self.X, np.arange(N) // 2)
        self.position, self.halve = np.array([0.3, -0.2]), halve
        self.metric = Mahalanobis(self.L[0])
        self.linked = Mahalanobis(self.L[0], Link(np.array(0.1), np.array(0.5)))

    @cached_property
    def lca(self):
        """LCA: parameters, prior and statistics."""
        return SimpleNamespace(
            params=LCAParams(0.5 * np.eye(D) + 0.1, np.array(-0.5), np.array(1.0)),
            prior=LCAPrior(0.5 * np.eye(D), np.array(0.5), np.array(4.0)),
            stats=double(lca_statistics.prepare, self.pairs),
        )

    @cached_property
    def two(self):
        """Two-stage mixture: parameters, prior, data in every form."""
        prior = double(default_prior, self.X, 2)
        params = TwoStageParams(self.c, self.means, 0.3 * self.S, 0.7 * self.S)
        data = two_stage.MixtureData(self.X, self.w, prior)
        holes = Groups(self.holes, self.groups.group)
        return SimpleNamespace(
            prior=prior,
            params=params,
            mixture=MixtureParams(self.c, self.means, self.S),
            data=data,
            missing=data._replace(X=self.holes),
            groups=double(two_stage_groups.group_data, self.groups, prior=prior),
            rows=double(group_rows, holes, prior=prior),
            packed=pack(Fitted(self.groups, prior, params, False, None)),
        )

    @cached_property
    def gauss(self):
        """Gaussian classes: parameters, prior, statistics, posterior, metric."""
        prior = NIWPrior(self.means[0], np.eye(D), np.array(0.8), np.array(5.0), 1.5)
        stats = double(gaussian_classes.statistics, self.labeled, 2)
        zero, factor = np.zeros((2, 1)), np.linalg.inv(self.L)[:, None]
        densities = ClassDensities(
            np.log(self.c), zero, self.means[:, None], factor, zero
        )
        centred = densities._replace(loc=self.means[:, None] - self.shift)
        origin = np.full(D, self.shift)
        return SimpleNamespace(
            params=GaussianClassesParams(self.c, self.means, self.L),
            prior=prior,
            stats=stats,
            post=double(gaussian_classes.posterior, stats, prior),
            densities=densities,
            local=LocalMahalanobis(centred, np.eye(D), origin, np.array(0.5)),
        )

    @cached_property
    def dca(self):
        """DCA-GM: parameters, and points under its map."""
        A = np.array([[1.0, 0.2], [-0.1, 0.8]])
        mu, zero = (self.means @ A.T)[:, None], np.zeros((2, 1))
        params = DCAGMParams(A, np.log(self.c), zero, mu, self.L[:, None])
        return SimpleNamespace(params=params, Y=self.X @ A.T)

    @cached_property
    def distances(self):
        """Distances between all points, squared too, and their embedding."""
        squared = ((self.X[:, None] - self.X) ** 2).sum(-1)
        D = np.sqrt(squared)
        params = mds.fit(Distances(D), 2).params
        return SimpleNamespace(D=D, squared=squared, params=params)
