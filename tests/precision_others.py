"""How the public functions outside ``probmetric.inference`` are called.

As ``precision_inference``: models, and what is numeric at the root.
"""

import numpy as np

from probmetric.data.containers import Triplets
from probmetric.models.gdm import GDMParams
from probmetric.models.hierarchical_lca import HierarchicalLCAParams
from probmetric.models.lda import LDAParams
from probmetric.models.point_effects import PointEffectsParams
from probmetric.models.triplet_comparisons import TripletParams
from probmetric.posterior.intervals import Interval
from probmetric.posterior.metric import PosteriorMetric

MODELS = {
    "lda.to_metric": lambda f, g: f(LDAParams(g.M, g.c, g.means, g.M, g.c)),
    "dca_gm.to_metric": lambda f, g: f(g.dca.params, g.X),
    "dca_gm.simulate": lambda f, g: f(g.key, g.dca.params, g.labeled),
    "lca.simulate": lambda f, g: f(g.key, g.lca.params, g.few),
    "gaussian_classes.simulate": lambda f, g: f(g.key, g.gauss.params, g.labeled),
    "gaussian_classes.to_densities": lambda f, g: f(g.gauss.params),
    "gaussian_classes.to_metric": lambda f, g: f(g.gauss.params),
    "lda.simulate": lambda f, g: f(
        g.key, LDAParams(g.M, g.c, g.means, g.M, g.c), g.labeled
    ),
    "gdm.simulate": lambda f, g: f(g.key, of_sites(g), g.few),
    "gdm.to_metric": lambda f, g: f(of_sites(g)),
    "hierarchical_lca.simulate": lambda f, g: f(
        g.key, grouped(g), g.few._replace(anchor=np.arange(len(g.few.i)) % 2)
    ),
    "hierarchical_lca.to_metric": lambda f, g: f(grouped(g), 1),
    "point_effects.simulate": lambda f, g: f(g.key, of_points(g), g.few),
    "point_effects.to_metric": lambda f, g: f(of_points(g)),
    "triplet_comparisons.log_odds": lambda f, g: f(TripletParams(g.L[0]), asked(g)),
    "triplet_comparisons.simulate": lambda f, g: f(
        g.key, TripletParams(g.L[0]), asked(g)
    ),
    "triplet_comparisons.to_metric": lambda f, g: f(TripletParams(g.L[0])),
    "lca.to_metric": lambda f, g: f(g.lca.params),
    "two_stage.simulate": lambda f, g: f(g.key, g.two.params, g.groups),
    "two_stage.to_metric": lambda f, g: f(g.two.params),
}

ROOT = {
    "evaluation.answers.answer_scores": lambda f, g: f(
        np.array([0.25, 0.75]), np.array([0, 1])
    ),
    "evaluation.evaluate.coverage": lambda f, g: f(Interval(g.c - 1, g.c + 1), g.c),
    "evaluation.evaluate.retrieval": lambda f, g: f(g.metric, g.X, g.y),
    "evaluation.verification.verification": lambda f, g: f(
        np.array([1.0, 0.5, -1.0]), np.array([1, 0, 0])
    ),
    "evaluation.verification.verification_intervals": lambda f, g: f(
        np.array([1.0, 0.5, -1.0, 2.0, 0.3, 1.5]),
        np.array([1, 0, 0, 1, 0, 1]),
        np.array([[0, 0], [0, 1], [1, 2], [1, 1], [0, 2], [2, 2]]),
    ),
    "neighbors.linear.nearest_linear": lambda f, g: f(
        g.metric, g.X[:3], g.X, 2, None, 64
    ),
    "neighbors.scan.nearest_scanned": lambda f, g: f(
        g.gauss.local, g.X[:3], g.X, 2, None, 64
    ),
    "neighbors.search.nearest": lambda f, g: f(g.metric, g.X[:3], g.X, 2),
    "neighbors.votes.count_votes": lambda f, g: f([g.metric], g.X, g.X, g.y, 2, 2),
    "neighbors.votes.neighborhood_scale": lambda f, g: f(
        g.metric, g.X, 2, np.arange(len(g.X))
    ),
    "neighbors.votes.soft_votes": lambda f, g: f(
        [g.metric], np.ones(1), np.ones(1), g.X[:3], g.X, g.y, 2
    ),
    "data.triplets.nearest_triplets": lambda f, g: f(g.X, g.y, 2, 2),
    "data.pairs.all_pairs": lambda f, g: f(g.X, g.y),
    "data.pairs.impostor_pairs": lambda f, g: f(g.X, g.y, 2),
    "data.pairs.nearest_pairs": lambda f, g: f(g.X, g.y, 2, 2),
    "posterior.next_pairs.next_pairs": lambda f, g: f(
        PosteriorMetric([g.linked, g.linked], "prediction"), np.stack(g.same, 1), 3
    ),
    "posterior.intervals.between_rows": lambda f, g: f(g.metric, *g.same),
    "posterior.intervals.exponent": lambda f, g: f(g.linked, *g.same),
}


def of_sites(g):
    """Parameters of the dissimilarity of sites."""
    knots = np.quantile(g.X, [0.0, 0.5, 1.0], axis=0).T
    return GDMParams(np.array(0.3), np.ones((2, 3)), knots)


def of_points(g):
    """Parameters of LCA with point effects."""
    W, log_sigma2 = g.lca.params[:2]
    effects = np.linspace(-1, 1, len(g.few.X)).astype(W.dtype)
    return PointEffectsParams(W, log_sigma2, np.asarray(0.5, W.dtype), effects)


def grouped(g):
    """Parameters of two groups of hierarchical LCA."""
    W, log_sigma2 = g.lca.params[:2]
    return HierarchicalLCAParams(W, np.stack([W, 2 * W]), log_sigma2, np.array(0.5))


OTHERS = {f"models.{n}": call for n, call in MODELS.items()} | ROOT


def asked(g):
    """Eight answered triplets."""
    a = np.arange(8)
    return Triplets(g.X, a, a + 4, a + 12, np.arange(8) % 2)
