"""How each public function of ``probmetric.inference`` is called, on small inputs.

``name: call(f, g)`` calls the function f on inputs g of ``precision_given``.
"""

import numpy as np

from probmetric.data.containers import Distances
from probmetric.data.pairs import nearest_pairs
from probmetric.inference.dca_gm.em import EMPrior
from probmetric.inference.eig_dml.fit import EigDMLParams
from probmetric.inference.lca.laplace import Laplace
from probmetric.inference.lca.recipe import Recipe
from probmetric.inference.pair_lda import PairLDAParams
from probmetric.inference.solvers.result import Fit
from probmetric.inference.triplet_comparisons.statistics import differences
from probmetric.inference.two_stage import online
from probmetric.models.gdm import GDMPrior
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior
from probmetric.models.lda import LDAParams
from probmetric.models.point_effects import PointEffectsPrior
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
from tests.precision_others import asked

RECIPE = Recipe(n_components=2, max_iter=20)
SHARES = np.full((2, 24), 1.0)


def fit_of(value):
    one = np.asarray(1)
    return Fit(np.asarray(value), np.asarray(value), np.asarray(0), one, one, None)


def online_state(g):
    return online.start(g.two.mixture, g.X, None)


GENERIC = {
    "inference.solvers.em.run_em": lambda f, g: f(
        g.halve, g.position, None, max_steps=9
    ),
    "inference.solvers.lbfgs.lbfgs": lambda f, g: f(
        g.square, g.position, None, max_steps=9
    ),
    "data.padding.host_weights": lambda f, g: f(g.few),
    "data.padding.pad_pairs": lambda f, g: f(g.few),
    "checks.compare.holm": lambda f, g: f(np.array([0.01, 0.2])),
    "checks.compare.without_skew": lambda f, g: f(np.array([-2.0, 1]), np.ones(2)),
    "inference.sampling.laplace.pareto_khat": lambda f, g: f(
        np.linspace(0, 3, 99) ** 2
    ),
    "inference.sampling.laplace.laplace_fit": lambda f, g: f(
        g.target, None, g.position
    ),
    "inference.sampling.metrics.mahalanobis": lambda f, g: f(g.S),
    "inference.sampling.target.gaussian_draw": lambda f, g: f(g.gaussian, g.position),
}

LDA_LIKE = {
    "inference.lda.class_moments": lambda f, g: f(g.labeled, g.gauss.prior),
    "inference.effects.fit.fit": lambda f, g: (
        f(
            g.pairs._replace(anchor=np.arange(len(g.pairs.i)) % 2),
            HierarchicalLCAPrior(g.lca.prior),
        ),
        f(g.pairs, PointEffectsPrior(g.lca.prior)),
    ),
    "inference.gdm.fit.fit": lambda f, g: f(g.pairs, GDMPrior(knots_of(g))),
    "inference.lda.discriminants": lambda f, g: f(g.c, g.means, g.M, 1),
    "inference.lda.fit": lambda f, g: f(g.labeled),
    "inference.lda.whole": lambda f, g: f(g.labeled, g.gauss.prior),
    "inference.lda.choose_strength": lambda f, g: f(g.labeled, g.M),
    "inference.lda.shrinkage_prior": lambda f, g: f(g.M, 1.0),
    "models.lda.to_metric": lambda f, g: f(LDAParams(g.M, g.c, g.means, g.M, g.c)),
    "inference.lda.whitening": lambda f, g: f(g.M),
    "inference.triplet_comparisons.statistics.differences": lambda f, g: f(asked(g)),
    "inference.triplet_comparisons.likelihood.log_joint": lambda f, g: f(
        g.M, differences(asked(g)), double_prior(g)
    ),
    "inference.triplet_comparisons.likelihood.parts": lambda f, g: f(
        g.M, differences(asked(g)), double_prior(g)
    ),
    "inference.triplet_comparisons.start.as_arrays": lambda f, g: f(
        double_prior(g), float
    ),
    "inference.triplet_comparisons.embedding.object_rows": lambda f, g: f(4),
    "inference.triplet_comparisons.embedding.embedding_prior": lambda f, g: f(4, 2),
    "inference.triplet_comparisons.embedding.embedding_start": lambda f, g: f(
        asked(g), 1
    ),
    "inference.rotations.root_around": lambda f, g: f(np.eye(g.M.size), g.M),
    "inference.rotations.root_across": lambda f, g: f(np.eye(g.M.size), g.M),
    "inference.rotations.inverse_root": lambda f, g: f(g.M),
    "inference.triplet_comparisons.likelihood.value_and_gradient": lambda f, g: f(
        g.M, differences(asked(g)), double_prior(g)
    ),
    "inference.triplet_comparisons.start.prior_for": lambda f, g: f(asked(g), 1),
    "inference.triplet_comparisons.start.rate_for": lambda f, g: f(asked(g)),
    "inference.triplet_comparisons.fit.fit": lambda f, g: f(asked(g), double_prior(g)),
    "inference.triplet_comparisons.curvature.hessian": lambda f, g: f(
        TripletParams(g.L[0]), differences(asked(g)), double_prior(g)
    ),
    "inference.triplet_comparisons.curvature.gap": lambda f, g: f(
        TripletParams(g.L[0]), asked(g), double_prior(g)
    ),
    "inference.pair_lda.alpha_min": lambda f, g: f(g.S[0], g.S[1]),
    "inference.pair_lda.fit": lambda f, g: f(g.pairs),
    "inference.pair_lda.choose_strength": lambda f, g: f(g.labeled),
    "inference.pair_lda.to_metric": lambda f, g: f(PairLDAParams(g.M, g.c, 0.0)),
    "inference.pair_lda.second_moments": lambda f, g: f(g.pairs),
    "inference.pair_lda.class_second_moments": lambda f, g: f(
        g.gauss.stats, g.gauss.stats.n
    ),
    "inference.eig_dml.fit.back_transform": lambda f, g: f(
        g.M / np.trace(g.M), np.linalg.inv(g.M)
    ),
    "inference.eig_dml.fit.fit": lambda f, g: f(g.few, ridge=1e-3, max_steps=50),
    "inference.eig_dml.choice.shrunk": lambda f, g: f(
        EigDMLParams(g.M, g.M, g.c, 0.0, 0.0, 0.0), 2.0, 9
    ),
    "inference.eig_dml.choice.choose_strength": lambda f, g: f(
        g.labeled, lambda part: nearest_pairs(part.X, part.y), ridge=1e-3
    ),
    "inference.eig_dml.fit.game": lambda f, g: f(g.few, ridge=1e-3),
    "inference.eig_dml.fit.to_metric": lambda f, g: f(
        EigDMLParams(g.M, g.M, g.c, 0.0, 0.0, 0.0)
    ),
    "inference.eig_dml.certificate.dual_value": lambda f, g: f(g.far.Z, g.far.u),
    "inference.eig_dml.certificate.far_values": lambda f, g: f(g.far.Z, g.M),
    "inference.eig_dml.certificate.weighted_gram": lambda f, g: f(g.far.Z, g.far.u),
    "inference.eig_dml.frank_wolfe.frank_wolfe": lambda f, g: f(
        g.far.Z, max_steps=9, tol=1e-3
    ),
    "inference.eig_dml.frank_wolfe.softmin": lambda f, g: f(g.far.u, 0.1),
    "inference.eig_dml.frank_wolfe.top_eigenvector": lambda f, g: f(
        g.far.Z, g.far.u, g.far.start
    ),
    "inference.eig_dml.pdhg.operator_norm": lambda f, g: f(g.far.Z),
    "inference.eig_dml.pdhg.pdhg": lambda f, g: f(g.far.Z, max_steps=9, tol=1e-3),
    "inference.eig_dml.pdhg.project_simplex": lambda f, g: f(g.far.u),
    "inference.eig_dml.pdhg.project_spectraplex": lambda f, g: f(g.M),
    "inference.mds.fit.additive_constant": lambda f, g: f(g.distances.D, "cailliez"),
    "inference.mds.fit.corrected_squares": lambda f, g: f(
        g.distances.D, 0.1, "cailliez"
    ),
    "inference.mds.fit.embed_new": lambda f, g: f(
        g.distances.params, g.distances.squared[:3]
    ),
    "inference.mds.fit.fit": lambda f, g: f(Distances(g.distances.D), 2),
    "inference.mds.fit.to_metric": lambda f, g: f(g.distances.params),
    "inference.mds.landmarks.fit_landmarks": lambda f, g: f(
        np.arange(5), g.distances.D[:5]
    ),
    "inference.mds.landmarks.spread_out": lambda f, g: f(
        lambda i: g.distances.D[i], 0, 4
    ),
    "inference.mds.spectrum.double_center": lambda f, g: f(g.distances.squared),
    "inference.mds.spectrum.top_eigenpairs": lambda f, g: f(g.M, 1),
}

LCA = {
    "inference.lca.fit.fit": lambda f, g: f(g.pairs, g.lca.prior, max_steps=50),
    "inference.lca.fit.scaled_identity": lambda f, g: f(g.pairs),
    "inference.lca.fit.scaled_axes": lambda f, g: f(np.eye(g.X.shape[1])[:1], g.pairs),
    "inference.lca.fit.scaled_pca": lambda f, g: f(g.pairs, 1),
    "inference.lca.fit.principal_axes": lambda f, g: f(g.X, 1),
    "inference.lca.fit.scaled_within": lambda f, g: f(g.pairs, g.y),
    "inference.lca.bootstrap.bootstrap": lambda f, g: f(
        g.few, g.lca.prior, g.lca.params, SHARES, max_steps=5
    ),
    "inference.lca.curvature.certificate": lambda f, g: f(g.lca.params, g.lca.stats),
    "inference.lca.curvature.generalized_rate": lambda f, g: f(
        g.lca.params, g.pairs, g.lca.prior, 0.5
    ),
    "inference.lca.curvature.gradient": lambda f, g: f(g.lca.params, g.lca.stats),
    "inference.lca.curvature.hessian": lambda f, g: f(g.lca.params, g.lca.stats),
    "inference.lca.curvature.log_evidence": lambda f, g: f(
        g.lca.params, g.pairs, -9.0, g.lca.prior, 0.5
    ),
    "inference.lca.curvature.precision": lambda f, g: f(
        g.lca.params, g.lca.stats, g.lca.prior
    ),
    "inference.lca.curvature.prior_precision": lambda f, g: f(
        g.lca.params, g.lca.prior
    ),
    "inference.lca.em.moments": lambda f, g: f(g.lca.params, g.lca.stats),
    "inference.lca.em.reduced_step": lambda f, g: f(g.lca.free, g.lca.em),
    "inference.lca.likelihood.log_likelihood": lambda f, g: f(
        g.lca.params, g.lca.stats
    ),
    "inference.lca.likelihood.log_prior": lambda f, g: f(g.lca.params, g.lca.prior),
    "inference.solvers.lbfgs_traced.minimize": lambda f, g: f(
        lambda x: (0.5 * (x @ x), x), g.position, max_steps=5, tol=1e-6
    ),
    "inference.lca.em.spectrum": lambda f, g: f(g.lca.stats.T),
    "inference.lca.laplace.laplace": lambda f, g: f(
        g.lca.params, g.lca.stats, g.lca.strong
    ),
    "inference.lca.laplace.laplace_draws": lambda f, g: f(
        Laplace(np.zeros(5), np.eye(5), (2, 2)), g.key, 3
    ),
    "inference.lca.likelihood.log_joint": lambda f, g: f(
        g.lca.params, g.lca.stats, g.lca.prior
    ),
    "inference.lca.draws.log_likelihood": lambda f, g: f(
        g.S[:, None], g.c[:, None], g.few, 0.5
    ),
    "inference.lca.latent.pair_posterior": lambda f, g: f(
        *g.same, g.y[:12], g.M, np.array(0.5)
    ),
    "inference.lca.recipe.build": lambda f, g: f(g.X, g.y, RECIPE),
    "inference.lca.recipe.fit_labeled": lambda f, g: f(g.X, g.y, RECIPE, 1.0),
    "inference.lca.recipe.prior_for": lambda f, g: f(g.pairs, RECIPE, 1.0),
    "inference.lca.recipe.rate_for": lambda f, g: f(g.pairs, RECIPE),
    "inference.lca.recipe.solve": lambda f, g: f(g.pairs, g.lca.prior, RECIPE, 1.0),
    "inference.lca.statistics.prepare": lambda f, g: f(g.pairs),
    "inference.lca.target.position": lambda f, g: f(g.lca.params),
    "inference.lca.target.start": lambda f, g: f(
        g.lca.params, (g.lca.stats, g.lca.strong, np.array(1.0), np.zeros(2))
    ),
    "inference.lca.target.target_data": lambda f, g: f(g.pairs, g.lca.prior, 0.5),
}

GAUSSIAN = {
    "draw": lambda f, g: f(g.key, g.gauss.post, 2),
    "log_evidence": lambda f, g: f(g.gauss.stats, g.gauss.prior),
    "mode": lambda f, g: f(g.gauss.post),
    "plug_in": lambda f, g: f(g.gauss.stats),
    "posterior": lambda f, g: f(g.gauss.stats, g.gauss.prior),
    "posterior_mean": lambda f, g: f(g.gauss.post),
    "statistics": lambda f, g: f(g.labeled, 2),
}
GAUSSIAN = {
    f"inference.gaussian_classes.posterior.{name}": call
    for name, call in GAUSSIAN.items()
} | {
    "inference.gaussian_classes.completions.complete": lambda f, g: f(
        g.key,
        g.partly,
        g.gauss.prior,
        g.gauss.params,
        n_completions=6,
        warm_up=5,
        thin=2,
    ),
    "inference.gaussian_classes.completions.evidence_prior_missing": lambda f, g: f(
        g.partly, 2
    ),
    "inference.gaussian_classes.local_metric.with_euclids_distance": lambda f, g: f(
        g.gauss.local
    ),
    "inference.gaussian_classes.local_metric.choose_by_folds": lambda f, g: f(
        lambda rows: g.gauss.local, g.X, g.y
    ),
    "inference.gaussian_classes.local_metric.choose_gamma": lambda f, g: f(
        [g.gauss.local], g.X, g.y, 3
    ),
    "inference.gaussian_classes.local_metric.drawn_metrics": lambda f, g: f(
        g.gauss.draws, g.gauss.local
    ),
    "inference.gaussian_classes.local_metric.error_expansion": lambda f, g: f(
        g.gauss.densities, g.x, g.M
    ),
    "inference.gaussian_classes.local_metric.expected_squared_reach": lambda f, g: f(
        np.float64(-0.5), 24, 2
    ),
    "inference.gaussian_classes.local_metric.log_euclidean": lambda f, g: f(
        g.S[:, None]
    ),
    "inference.gaussian_classes.local_metric.posterior_metrics": lambda f, g: f(
        g.gauss.post, 0, 2
    ),
    "inference.gaussian_classes.local_metric.student_metric": lambda f, g: f(
        g.gauss.post
    ),
    "inference.gaussian_classes.missing.expected_statistics": lambda f, g: f(
        g.gauss.params, g.partly
    ),
    "inference.gaussian_classes.missing.fill_with_means": lambda f, g: f(g.partly, 2),
    "inference.gaussian_classes.missing.fit_missing": lambda f, g: f(
        g.partly, g.gauss.prior, n_classes=2
    ),
    "inference.gaussian_classes.missing.log_joint": lambda f, g: f(
        g.gauss.params, g.partly, g.gauss.prior
    ),
    "inference.gaussian_classes.prior.evidence_prior": lambda f, g: f(g.gauss.stats),
    "inference.gaussian_classes.prior.learn_statistics": lambda f, g: f(g.gauss.stats),
    "inference.gaussian_classes.predict.fit": lambda f, g: f(
        g.labeled, g.gauss.prior, n_classes=2
    ),
    "inference.gaussian_classes.predict.predict_log_proba": lambda f, g: f(
        g.gauss.post, g.X
    ),
    "inference.gaussian_classes.predict.predictive": lambda f, g: f(g.gauss.post),
}

DCA = {
    "inference.dca_gm.choice.close_prior": lambda f, g: f(g.dca.prior, 4.0, 20),
    "inference.dca_gm.fit.default_prior": lambda f, g: f(g.dca.params, g.labeled),
    "inference.dca_gm.fit.fit": lambda f, g: f(
        g.labeled, n_latent=1, n_gaussians=1, max_steps=9
    ),
    "inference.dca_gm.fit.log_joint": lambda f, g: f(g.dca.sites, g.dca.given),
    "inference.dca_gm.em.own_shares": lambda f, g: f(g.dca.params, g.dca.Y, g.y),
    "inference.dca_gm.hybrid.fit_hybrid": lambda f, g: f(
        g.dca.params, g.labeled, g.dca.penalty, EMPrior(), max_steps=2, n_em=1
    ),
    "inference.dca_gm.likelihood.apply_gauge": lambda f, g: f(g.dca.params, g.M),
    "inference.dca_gm.likelihood.class_log_probability": lambda f, g: f(
        g.dca.params, g.X
    ),
    "inference.dca_gm.likelihood.conditional_log_likelihood": lambda f, g: f(
        g.dca.params, g.labeled
    ),
    "inference.dca_gm.likelihood.fix_gauge": lambda f, g: f(g.dca.params),
    "inference.dca_gm.draws.prepare": lambda f, g: f(g.dca.params, g.dca.given),
    "inference.dca_gm.choice.choose_strength": lambda f, g: f(g.labeled, 1),
    "inference.dca_gm.start.em_prior": lambda f, g: f(g.labeled, g.dca.A),
    "inference.dca_gm.start.lda_rca": lambda f, g: f(g.labeled, 1),
    "inference.dca_gm.start.start": lambda f, g: f(g.labeled, 1, n_gaussians=1, n_em=2),
}

TWO_STAGE = {
    "inference.two_stage.choice.choose_flattening": lambda f, g: f(g.two.params, g.X),
    "inference.two_stage.choice.flatten": lambda f, g: f(g.two.params, g.c),
    "inference.mixture.em.e_step": lambda f, g: f(g.two.mixture, g.two.data),
    "inference.mixture.em.em_step": lambda f, g: f(g.two.mixture, g.two.data),
    "inference.mixture.em.em_step_missing": lambda f, g: f(
        g.two.mixture, g.two.missing
    ),
    "inference.mixture.em.m_step": lambda f, g: f(g.two.stats, g.means, g.two.prior),
    "inference.mixture.em.recentre": lambda f, g: f(
        g.two.stats, g.means, g.means + 0.5
    ),
    "inference.two_stage.draws.relabel": lambda f, g: f(g.two.draws, g.two.params),
    "inference.mixture.start.best_of": lambda f, g: f([fit_of(1.0), fit_of(2.0)]),
    "inference.two_stage.fit.fit": lambda f, g: f(
        g.groups, n_components=2, max_steps=9
    ),
    "inference.mixture.start.mixture_data": lambda f, g: f(g.X),
    "inference.two_stage.fit.start_of": lambda f, g: f(
        g.two.mixture, 3 * g.S[0], 5.0, 0.3
    ),
    "inference.two_stage.fit.tied": lambda f, g: f(g.two.params),
    "inference.two_stage.fit.start_groups": lambda f, g: f(g.two.groups, 2),
    "inference.mixture.start.start_mixture": lambda f, g: f(g.X, g.w, 2),
    "inference.two_stage.groups.e_step": lambda f, g: f(g.two.params, g.two.groups),
    "inference.two_stage.groups.group_data": lambda f, g: f(g.groups),
    "inference.two_stage.groups.log_groups": lambda f, g: f(g.two.params, g.two.groups),
    "inference.two_stage.groups_missing.e_step_rows": lambda f, g: f(
        g.two.params, g.two.rows
    ),
    "inference.two_stage.groups_missing.filled": lambda f, g: f(g.two.holes),
    "inference.two_stage.groups_missing.group_rows": lambda f, g: f(g.two.holes),
    "inference.two_stage.groups_missing.log_rows": lambda f, g: f(
        g.two.params, g.two.rows
    ),
    "inference.mixture.missing.e_step_missing": lambda f, g: f(
        g.two.mixture, g.holes, g.w
    ),
    "inference.two_stage.pairs.fit_alpha": lambda f, g: f(g.two.mixture, *g.same),
    "inference.two_stage.pairs.log_joint_small_alpha": lambda f, g: f(
        g.two.mixture, 0.1, *g.same
    ),
    "inference.two_stage.pairs.representative": lambda f, g: f(g.two.params, g.X[:3]),
    "inference.mixture.prior.default_prior": lambda f, g: f(g.X, 2),
    "inference.mixture.prior.log_prior": lambda f, g: f(g.c, g.means, g.S, g.two.prior),
    "inference.two_stage.online.start": lambda f, g: f(g.two.mixture, g.X, None),
    "inference.two_stage.online.add": lambda f, g: f(online_state(g), g.X),
    "inference.two_stage.choice.bic": lambda f, g: f(g.two.params, g.X),
    "inference.two_stage.choice.blend": lambda f, g: f([g.two.params, g.two.params]),
    "inference.two_stage.choice.choose_components": lambda f, g: f(
        g.X, [1, 2], n_folds=2, max_steps=9
    ),
    "inference.two_stage.target.log_units": lambda f, g: f(
        g.two.params, g.two.packed[0]
    ),
    "inference.two_stage.target.pack": lambda f, g: f(g.two.posterior),
    "inference.two_stage.target.position": lambda f, g: f(g.two.posterior),
}

TABLES = GENERIC, LDA_LIKE, LCA, GAUSSIAN, DCA, TWO_STAGE
INFERENCE = {n: call for table in TABLES for n, call in table.items()}


def knots_of(g):
    """Three knots of each feature, at its quantiles."""
    return np.quantile(g.pairs.X, [0.0, 0.5, 1.0], axis=0).T


def double_prior(g):
    """A prior of triplets, of float64 arrays."""
    return TripletPrior(g.L[0], np.array(0.8), np.array(2.0))
