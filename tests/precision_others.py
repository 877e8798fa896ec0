"""How the public functions outside ``probmetric.inference`` are called.

As ``precision_inference``: models, and what is numeric at the root.
"""

import numpy as np

from probmetric.posterior.intervals import Interval

CLASSES = np.array([[0.2, 0.8], [0.6, 0.4]])
VOTES = np.full((1, 24, 2), 0.5)


MODELS = {
    "dca_gm.constrain": lambda f, g: f(g.dca.sites, g.dca.prior.present),
    "dca_gm.log_weight": lambda f, g: f(g.dca.params),
    "dca_gm.to_metric": lambda f, g: f(g.dca.params, g.X),
    "dca_gm.unconstrain": lambda f, g: f(g.dca.params),
    "dca_gm.simulate": lambda f, g: f(g.key, g.dca.params, g.labelled),
    "lca.simulate": lambda f, g: f(g.key, g.lca.params, g.few),
    "gaussian_classes.simulate": lambda f, g: f(g.key, g.gauss.params, g.labelled),
    "gaussian_classes.to_densities": lambda f, g: f(g.gauss.params),
    "gaussian_classes.to_metric": lambda f, g: f(g.gauss.params),
    "lca.coincidence_exponent": lambda f, g: f(g.w, np.array(0.5), np.array(1.0), 2),
    "lca.identified": lambda f, g: f(g.lca.params),
    "lca.log1mexp": lambda f, g: f(g.w),
    "lca.to_metric": lambda f, g: f(g.lca.params),
    "two_stage.invariant": lambda f, g: f(g.two.params),
    "two_stage.proportional": lambda f, g: f(*g.two.mixture, np.array(0.3)),
    "two_stage.simulate": lambda f, g: f(g.key, g.two.params, g.groups),
    "two_stage.to_metric": lambda f, g: f(g.two.params),
    "two_stage_data.as_groups": lambda f, g: f(g.points),
    "two_stage_data.stack": lambda f, g: f(g.groups),
    "two_stage_laws.group_moments": lambda f, g: f(g.two.params, 2),
    "two_stage_laws.instance_moments": lambda f, g: f(g.x, g.S, 2),
}

ROOT = {
    "data.unit_weights": lambda f, g: f(g.few, g.w),
    "data.weights": lambda f, g: f(g.points),
    "evaluation.brier_score": lambda f, g: f(np.array([0, 1]), CLASSES),
    "evaluation.calibration_error": lambda f, g: f(np.array([0, 1]), CLASSES),
    "evaluation.coverage": lambda f, g: f(Interval(g.c - 1, g.c + 1), g.c),
    "evaluation.pair_roc_auc": lambda f, g: f(g.metric, g.X, g.y),
    "evaluation.retrieval": lambda f, g: f(g.metric, g.X, g.y),
    "inputs.pair_points": lambda f, g: f(np.stack(g.same, 1)),
    "inputs.pair_weights": lambda f, g: f(g.w, g.y),
    "inputs.pairs_from_arrays": lambda f, g: f(np.stack(g.same, 1), np.arange(12) % 2),
    "inputs.points": lambda f, g: f(g.X),
    "linalg.logdet_chol": lambda f, g: f(g.L),
    "linalg.mahalanobis_sq": lambda f, g: f(g.L[0], g.X),
    "linalg.psd_factor": lambda f, g: f(g.M),
    "linalg.solve_spd": lambda f, g: f(g.M, g.S[1]),
    "neighbors_keep.empty": lambda f, g: f(2, 1),
    "neighbors_keep.keep_best": lambda f, g: f(
        (np.full((2, 1), np.nan), np.zeros((2, 1), int)), CLASSES, 0
    ),
    "neighbors_linear.nearest_linear": lambda f, g: f(
        g.metric, g.X[:3], g.X, 2, None, 64
    ),
    "neighbors_scan.in_tiles": lambda f, g: f(g.X, (8, 3)),
    "neighbors_scan.nearest_scanned": lambda f, g: f(
        g.gauss.local, g.X[:3], g.X, 2, None, 64
    ),
    "neighbors_search.as_points": lambda f, g: f(g.X, "X"),
    "neighbors_search.nearest": lambda f, g: f(g.metric, g.X[:3], g.X, 2),
    "neighbors_search.nearest_but_own": lambda f, g: f(
        g.metric, g.X[:3], g.X, 2, np.arange(3)
    ),
    "neighbors_shortlist.nearest_shortlisted": lambda f, g: f(
        g.gauss.local, g.X[:3], g.X, 2, None, 64, 8
    ),
    "neighbors_shortlist.shortlist_recall": lambda f, g: f(
        g.gauss.local, g.X[:3], g.X, 2, 8
    ),
    "neighbors_tuning.leave_one_out": lambda f, g: f(VOTES, g.y, [0.5], [0.02], None),
    "neighbors_tuning.mix_prior": lambda f, g: f(VOTES, VOTES[0], 0.1, None),
    "neighbors_votes.count_votes": lambda f, g: f([g.metric], g.X, g.X, g.y, 2, 2),
    "neighbors_votes.neighborhood_scale": lambda f, g: f(g.metric, g.X, 2),
    "neighbors_votes.soft_votes": lambda f, g: f(
        [g.metric], np.ones(1), np.ones(1), g.X[:3], g.X, g.y, 2
    ),
    "neighbors_votes.stack": lambda f, g: f([g.metric, g.metric])[0],
    "pairs.all_pairs": lambda f, g: f(g.X, g.y),
    "pairs.impostor_pairs": lambda f, g: f(g.X, g.y, 2),
    "pairs.nearest_pairs": lambda f, g: f(g.X, g.y, 2, 2),
    "posterior_draws.mean_metric": lambda f, g: f([g.metric, g.metric]),
    "posterior_draws.over_draws": lambda f, g: f(
        lambda m, A: m.transform(A), [g.metric, g.metric], g.X
    ),
    "posterior_draws.unstack": lambda f, g: f([g.metric, g.metric]),
    "posterior_intervals.between_rows": lambda f, g: f(g.metric, *g.same),
    "posterior_intervals.exponent": lambda f, g: f(g.linked, *g.same),
    "posterior_intervals.pairwise": lambda f, g: f(g.metric, *g.same),
    "posterior_intervals.quantiles": lambda f, g: f(g.B, 0.9),
    "posterior_intervals.same": lambda f, g: f(g.linked, *g.same),
    "posterior_intervals.spread": lambda f, g: f(g.S, 2.0, False),
}

OTHERS = {f"models.{name}": call for name, call in MODELS.items()} | ROOT
