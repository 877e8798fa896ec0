"""How the public functions outside ``probmetric.inference`` are called.

As ``precision_inference``: models, and what is numeric at the root.
"""

import numpy as np

from probmetric.data.containers import Triplets
from probmetric.data.pairs import all_pairs
from probmetric.models.gdm import GDMParams
from probmetric.models.hierarchical_lca import HierarchicalLCAParams
from probmetric.models.lda import LDAParams
from probmetric.models.point_effects import PointEffectsParams
from probmetric.models.triplet_comparisons import TripletParams
from probmetric.posterior.intervals import Interval
from probmetric.posterior.metric import PosteriorMetric

CLASSES = np.array([[0.2, 0.8], [0.6, 0.4]])
VOTES = np.full((1, 24, 2), 0.5)


MODELS = {
    "models.dca_gm.constrain": lambda f, g: f(g.dca.sites, g.dca.prior.present),
    "models.dca_gm.log_weight": lambda f, g: f(g.dca.params),
    "models.dca_gm.unconstrain": lambda f, g: f(g.dca.params),
    "models.two_stage.group_moments": lambda f, g: f(g.two.params, 2),
    "models.two_stage.instance_moments": lambda f, g: f(g.x, g.S, 2),
    "models.lca.coincidence_exponent": lambda f, g: f(
        g.w, np.array(0.5), np.array(1.0), 2
    ),
    "models.lca.log1mexp": lambda f, g: f(g.w),
    "models.lca.log_b_of": lambda f, g: f(g.w, 3),
    "models.lca.log_sigma2_of": lambda f, g: f(g.w, 3),
    "models.lca.weakest_axis": lambda f, g: f(g.L[0], g.L[0]),
    "models.dca_gm.to_metric": lambda f, g: f(g.dca.params, g.X),
    "models.dca_gm.simulate": lambda f, g: f(g.key, g.dca.params, g.labeled),
    "models.lca.simulate": lambda f, g: f(g.key, g.lca.params, g.few),
    "models.gaussian_classes.simulate": lambda f, g: f(
        g.key, g.gauss.params, g.labeled
    ),
    "models.gaussian_classes.to_densities": lambda f, g: f(g.gauss.params),
    "models.gaussian_classes.to_metric": lambda f, g: f(g.gauss.params),
    "models.lda.simulate": lambda f, g: f(
        g.key, LDAParams(g.M, g.c, g.means, g.M, g.c), g.labeled
    ),
    "models.gdm.height": lambda f, g: f(abs(g.L[0]), np.sort(g.L[0], 1)),
    "models.gdm.simulate": lambda f, g: f(g.key, of_sites(g), g.few),
    "models.gdm.to_metric": lambda f, g: f(of_sites(g)),
    "models.hierarchical_lca.identified": lambda f, g: f(grouped(g)),
    "models.hierarchical_lca.simulate": lambda f, g: f(
        g.key, grouped(g), g.few._replace(anchor=np.arange(len(g.few.i)) % 2)
    ),
    "models.hierarchical_lca.to_metric": lambda f, g: f(grouped(g), 1),
    "models.point_effects.identified": lambda f, g: f(of_points(g)),
    "models.point_effects.intercept_of_new": lambda f, g: f(abs(g.c), abs(g.c)),
    "models.point_effects.simulate": lambda f, g: f(g.key, of_points(g), g.few),
    "models.point_effects.to_metric": lambda f, g: f(of_points(g)),
    "models.triplet_comparisons.log_odds": lambda f, g: f(
        TripletParams(g.L[0]), asked(g)
    ),
    "models.triplet_comparisons.simulate": lambda f, g: f(
        g.key, TripletParams(g.L[0]), asked(g)
    ),
    "models.triplet_comparisons.to_metric": lambda f, g: f(TripletParams(g.L[0])),
    "models.lca.identified": lambda f, g: f(g.lca.params),
    "models.lca.to_metric": lambda f, g: f(g.lca.params),
    "models.two_stage.invariant": lambda f, g: f(g.two.params),
    "models.two_stage.proportional": lambda f, g: f(*g.two.mixture, np.array(0.3)),
    "models.two_stage.simulate": lambda f, g: f(g.key, g.two.params, g.groups),
    "models.two_stage.to_metric": lambda f, g: f(g.two.params),
    "data.groups.as_groups": lambda f, g: f(g.points),
    "data.groups.stack": lambda f, g: f(g.groups),
}

ROOT = {
    "data.padding.pad_labeled": lambda f, g: f(g.labeled),
    "data.padding.pad_rows": lambda f, g: f(g.X, len(g.X) + 3),
    "data.containers.weights": lambda f, g: f(g.points),
    "evaluation.answers.answer_auc": lambda f, g: f(g.c, np.arange(len(g.c)) % 2),
    "evaluation.answers.answer_scores": lambda f, g: f(
        np.array([0.25, 0.75]), np.array([0, 1])
    ),
    "evaluation.evaluate.coverage": lambda f, g: f(Interval(g.c - 1, g.c + 1), g.c),
    "evaluation.evaluate.retrieval": lambda f, g: f(g.metric, g.X, g.y),
    "evaluation.evaluate.scored_pairs": lambda f, g: f(
        g.metric, g.X, g.y, max_pairs=9, seed=0
    ),
    "evaluation.sources.judge_sources": lambda f, g: f(
        {"mine": g.metric}, g.X, np.arange(len(g.X)) // 3
    ),
    "evaluation.verification.error_rates": lambda f, g: f(
        np.array([1.0, 0.5, -1.0]), np.array([1, 0, 0])
    ),
    "evaluation.verification.verification": lambda f, g: f(
        np.array([1.0, 0.5, -1.0]), np.array([1, 0, 0])
    ),
    "evaluation.verification.verification_intervals": lambda f, g: f(
        np.array([1.0, 0.5, -1.0, 2.0, 0.3, 1.5]),
        np.array([1, 0, 0, 1, 0, 1]),
        np.array([[0, 0], [0, 1], [1, 2], [1, 1], [0, 2], [2, 2]]),
    ),
    "data.inputs.pair_points": lambda f, g: f(np.stack(g.same, 1)),
    "data.inputs.pair_counts": lambda f, g: f(g.y, g.y + 2, g.w, len(g.y)),
    "data.inputs.pair_weights": lambda f, g: f(g.w, g.y),
    "data.inputs.pairs_from_arrays": lambda f, g: f(
        np.stack(g.same, 1), np.arange(12) % 2
    ),
    "data.inputs.points": lambda f, g: f(g.X),
    "data.inputs.real": lambda f, g: f(g.X, "X"),
    "data.inputs.check_weights": lambda f, g: f(g.w, len(g.w)),
    "data.inputs.column": lambda f, g: f(g.w, len(g.w), "w"),
    "data.truth.right_share": lambda f, g: f(g.y, g.y, g.w),
    "linalg.logdet_chol": lambda f, g: f(g.L),
    "linalg.mixed_with_identity": lambda f, g: f(g.M, 2.0, 9),
    "linalg.psd_factor": lambda f, g: f(g.M),
    "linalg.row_signs": lambda f, g: f(g.M),
    "neighbors.scan.empty": lambda f, g: f(2, 1),
    "neighbors.scan.keep_best": lambda f, g: f(
        (np.full((2, 1), np.nan), np.zeros((2, 1), int)), CLASSES, 0
    ),
    "neighbors.linear.nearest_linear": lambda f, g: f(
        g.metric, g.X[:3], g.X, 2, None, 64
    ),
    "neighbors.scan.in_tiles": lambda f, g: f(g.X, (8, 3)),
    "neighbors.scan.nearest_scanned": lambda f, g: f(
        g.gauss.local, g.X[:3], g.X, 2, None, 64
    ),
    "neighbors.search.nearest": lambda f, g: f(g.metric, g.X[:3], g.X, 2),
    "neighbors.search.found_but_own": lambda f, g: f(
        g.metric, g.X[:3], g.X, 2, np.arange(3)
    ),
    "neighbors.scan.nearest_shortlisted": lambda f, g: f(
        g.gauss.local, g.X[:3], g.X, 2, None, 64, 8
    ),
    "neighbors.votes.leave_one_out": lambda f, g: f(
        VOTES[None, ..., 0], g.y, np.bincount(g.y), ([0.5], [1.0], [0.02]), None
    ),
    "neighbors.votes.mix_prior": lambda f, g: f(VOTES, VOTES[0], 0.1, None),
    "neighbors.votes.count_votes": lambda f, g: f([g.metric], g.X, g.X, g.y, 2, 2),
    "neighbors.votes.neighborhood": lambda f, g: f(
        [g.metric], g.X, 2, [1.0], g.y, 2, np.arange(len(g.X))
    ),
    "neighbors.votes.neighborhood_scale": lambda f, g: f(
        g.metric, g.X, 2, np.arange(len(g.X))
    ),
    "neighbors.votes.soft_votes": lambda f, g: f(
        [g.metric], np.ones(1), np.ones(1), g.X[:3], g.X, g.y, 2
    ),
    "neighbors.votes.stack": lambda f, g: f([g.metric, g.metric])[0],
    "data.triplets.nearest_triplets": lambda f, g: f(g.X, g.y, 2, 2),
    "data.triplets.triplets_from_arrays": lambda f, g: f([[0, 1, 2]], X=g.X),
    "data.triplets.weighing": lambda f, g: f(asked(g)._replace(w=g.X[:8, 0] ** 2)),
    "data.pairs.all_pairs": lambda f, g: f(g.X, g.y),
    "data.pairs.impostor_pairs": lambda f, g: f(g.X, g.y, 2),
    "data.pairs.as_labels": lambda f, g: f(
        (made := all_pairs(g.X, g.y))._replace(trials=1 + np.asarray(made.y))
    ),
    "data.pairs.nearest_pairs": lambda f, g: f(g.X, g.y, 2, 2),
    "metric.mean.mean_metric": lambda f, g: f([g.metric, g.metric]),
    "posterior.next_pairs.next_pairs": lambda f, g: f(
        PosteriorMetric([g.linked, g.linked], "prediction"), np.stack(g.same, 1), 3
    ),
    "posterior.stack.over_draws": lambda f, g: f(
        lambda m, A: m.transform(A), [g.metric, g.metric], g.X
    ),
    "posterior.stack.unstack": lambda f, g: f([g.metric, g.metric]),
    "posterior.intervals.apart": lambda f, g: f(g.c),
    "posterior.intervals.between_rows": lambda f, g: f(g.metric, *g.same),
    "posterior.intervals.exponent": lambda f, g: f(g.linked, *g.same),
    "posterior.intervals.log_odds": lambda f, g: f(g.linked, *g.same),
    "posterior.intervals.pairwise": lambda f, g: f(g.metric, *g.same),
    "posterior.intervals.quantiles": lambda f, g: f(g.B, 0.9),
    "posterior.intervals.ratio": lambda f, g: f(g.c, 2 * g.c),
    "posterior.intervals.same": lambda f, g: f(g.linked, *g.same),
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


OTHERS = MODELS | ROOT


def asked(g):
    """Eight answered triplets."""
    a = np.arange(8)
    return Triplets(g.X, a, a + 4, a + 12, np.arange(8) % 2)
