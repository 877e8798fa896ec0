"""How each public function of ``probmetric.inference`` is called, on small inputs.

``name: call(f, g)`` calls the function f on inputs g of ``precision_given``.
"""

import numpy as np

from probmetric.data.containers import Distances
from probmetric.inference.dca_gm.em import EMPrior
from probmetric.inference.eig_dml.fit import EigDMLParams
from probmetric.inference.lca.laplace import Laplace
from probmetric.inference.lca.recipe import Recipe
from probmetric.inference.pair_lda import PairLDAParams
from probmetric.inference.solvers.result import Fit
from probmetric.inference.two_stage.pairs import Enrolled
from probmetric.models.lda import LDAParams

RECIPE = Recipe(n_components=2, max_iter=20)
SHARES = np.full((2, 24), 1.0)


def fit_of(value):
    one = np.asarray(1)
    return Fit(np.asarray(value), np.asarray(value), np.asarray(0), one, one, None)


GENERIC = {
    "em.run_em": lambda f, g: f(g.halve, g.position, None, max_steps=9),
    "optimise.lbfgs": lambda f, g: f(g.square, g.position, None, max_steps=9),
    "optimise_traced.minimise": lambda f, g: f(
        lambda x: (0.5 * (x @ x), x), g.position, max_steps=5, tol=1e-6
    ),
    "padding.host_weights": lambda f, g: f(g.few),
    "padding.pad_pairs": lambda f, g: f(g.few),
    "agreement_verdict.holm": lambda f, g: f(np.array([0.01, 0.2])),
    "sampling_laplace.pareto_khat": lambda f, g: f(np.linspace(0, 3, 99) ** 2),
    "sampling_laplace.laplace_fit": lambda f, g: f(g.target, None, g.position),
    "sampling_laplace.gaussian_draws": lambda f, g: f(
        g.target, None, g.gaussian, seed=0, n_draws=128
    ),
    "sampling_laplace.laplace": lambda f, g: f(
        g.target, None, start=g.position, seed=0, n_draws=128
    ),
    "sampling_nuts.nuts": lambda f, g: f(
        g.target,
        None,
        start=g.gaussian,
        seed=0,
        n_chains=1,
        n_draws=8,
        n_warmup=8,
        warn=False,
        progress=False,
    ),
    "sampling_target.gaussian_draw": lambda f, g: f(g.gaussian, g.position),
}

LDA_LIKE = {
    "lda.class_moments": lambda f, g: f(g.labelled, g.gauss.prior),
    "lda.discriminants": lambda f, g: f(g.c, g.means, g.M, 1),
    "lda.fit": lambda f, g: f(g.labelled),
    "lda.shrinkage_prior": lambda f, g: f(g.M, 1.0),
    "lda.to_metric": lambda f, g: f(LDAParams(g.M, g.c, g.means, g.M, g.c)),
    "lda.whitening": lambda f, g: f(g.M),
    "pair_lda.alpha_min": lambda f, g: f(g.S[0], g.S[1]),
    "pair_lda.fit": lambda f, g: f(g.pairs),
    "pair_lda.to_metric": lambda f, g: f(PairLDAParams(g.M, g.c, 0.0)),
    "pair_lda_moments.second_moments": lambda f, g: f(g.pairs),
    "eig_dml.back_transform": lambda f, g: f(g.M / np.trace(g.M), np.linalg.inv(g.M)),
    "eig_dml.fit": lambda f, g: f(g.few, ridge=1e-3, max_steps=50),
    "eig_dml.game": lambda f, g: f(g.few, ridge=1e-3),
    "eig_dml.to_metric": lambda f, g: f(EigDMLParams(g.M, g.M, g.c, 0.0, 0.0, 0.0)),
    "eig_dml_certificate.dual_value": lambda f, g: f(g.far.Z, g.far.u),
    "eig_dml_certificate.far_values": lambda f, g: f(g.far.Z, g.M),
    "eig_dml_certificate.weighted_gram": lambda f, g: f(g.far.Z, g.far.u),
    "eig_dml_frank_wolfe.frank_wolfe": lambda f, g: f(g.far.Z, max_steps=9, tol=1e-3),
    "eig_dml_frank_wolfe.softmin": lambda f, g: f(g.far.u, 0.1),
    "eig_dml_frank_wolfe.top_eigenvector": lambda f, g: f(
        g.far.Z, g.far.u, g.far.start
    ),
    "eig_dml_pdhg.operator_norm": lambda f, g: f(g.far.Z),
    "eig_dml_pdhg.pdhg": lambda f, g: f(g.far.Z, max_steps=9, tol=1e-3),
    "eig_dml_pdhg.project_simplex": lambda f, g: f(g.far.u),
    "eig_dml_pdhg.project_spectraplex": lambda f, g: f(g.M),
    "mds.additive_constant": lambda f, g: f(g.distances.D, "cailliez"),
    "mds.corrected_squares": lambda f, g: f(g.distances.D, 0.1, "cailliez"),
    "mds.embed_new": lambda f, g: f(g.distances.params, g.distances.squared[:3]),
    "mds.fit": lambda f, g: f(Distances(g.distances.D), 2),
    "mds.linear_map": lambda f, g: f(g.distances.params, g.X),
    "mds.to_metric": lambda f, g: f(g.distances.params),
    "mds_landmarks.fit_landmarks": lambda f, g: f(np.arange(5), g.distances.D[:5]),
    "mds_landmarks.spread_out": lambda f, g: f(lambda i: g.distances.D[i], 0, 4),
    "mds_spectrum.double_centre": lambda f, g: f(g.distances.squared),
    "mds_spectrum.top_eigenpairs": lambda f, g: f(g.M, 1),
}

LCA = {
    "lca.fit": lambda f, g: f(g.pairs, g.lca.prior, max_steps=50),
    "lca.scaled_identity": lambda f, g: f(g.pairs),
    "lca.scaled_pca": lambda f, g: f(g.pairs, 1),
    "lca_bootstrap.bootstrap": lambda f, g: f(
        g.few, g.lca.prior, g.lca.params, SHARES, max_steps=5
    ),
    "lca_bootstrap_draws.bootstrap_draws": lambda f, g: f(
        g.few, g.lca.prior, g.lca.params, seed=0, n_draws=2, max_steps=5, progress=False
    ),
    "lca_curvature.certificate": lambda f, g: f(g.lca.params, g.lca.stats),
    "lca_curvature.expected_information": lambda f, g: f(g.lca.params, g.pairs),
    "lca_curvature.generalised_rate": lambda f, g: f(
        g.lca.params, g.pairs, g.lca.prior, 0.5
    ),
    "lca_curvature.gradient": lambda f, g: f(g.lca.params, g.lca.stats),
    "lca_curvature.hessian": lambda f, g: f(g.lca.params, g.lca.stats),
    "lca_curvature.log_evidence": lambda f, g: f(
        g.lca.params, g.pairs, -9.0, g.lca.prior, 0.5
    ),
    "lca_curvature.precision": lambda f, g: f(
        g.lca.params, g.lca.stats, g.lca.prior, 0.5
    ),
    "lca_em.full_step": lambda f, g: f(g.lca.free, g.lca.em),
    "lca_em.kappa_step": lambda f, g: f(
        {"W": g.lca.params.W, "log_kappa2": np.zeros(3)}, g.lca.per_anchor
    ),
    "lca_em.m_step": lambda f, g: f(
        g.lca.params,
        g.lca.moments,
        g.lca.stats,
        g.lca.prior,
        0.5,
        g.lca.mixed,
        full=False,
    ),
    "lca_em.moments": lambda f, g: f(g.lca.params, g.lca.stats),
    "lca_em.reduced_step": lambda f, g: f(g.lca.free, g.lca.em),
    "lca_em.spectrum": lambda f, g: f(g.lca.stats.T),
    "lca_laplace.laplace": lambda f, g: f(g.lca.params, g.lca.stats, g.lca.strong),
    "lca_laplace.laplace_draws": lambda f, g: f(
        Laplace(np.zeros(5), np.eye(5), (2, 2)), g.key, 3
    ),
    "lca_likelihood.log_joint": lambda f, g: f(g.lca.params, g.lca.stats, g.lca.prior),
    "lca_likelihood.log_likelihood": lambda f, g: f(g.lca.params, g.lca.stats),
    "lca_likelihood.log_prior": lambda f, g: f(g.lca.params, g.lca.prior),
    "lca_likelihood.objective": lambda f, g: f(g.lca.free, g.lca.data),
    "lca_likelihood.to_params": lambda f, g: f(g.lca.free),
    "lca_likelihood.to_unconstrained": lambda f, g: f(g.lca.params),
    "lca_pointwise.log_likelihood": lambda f, g: f(
        g.S[:, None], g.c[:, None], g.few, 0.5
    ),
    "lca_posterior.odds": lambda f, g: f(g.w),
    "lca_posterior.pair_posterior": lambda f, g: f(
        *g.same, g.y[:12], g.M, np.array(0.5)
    ),
    "lca_recipe.build": lambda f, g: f(g.X, g.y, RECIPE),
    "lca_recipe.fit_labelled": lambda f, g: f(g.X, g.y, RECIPE, 1.0),
    "lca_recipe.prior_for": lambda f, g: f(g.pairs, RECIPE, 1.0),
    "lca_recipe.rate_for": lambda f, g: f(g.pairs, RECIPE),
    "lca_recipe.solve": lambda f, g: f(g.pairs, g.lca.prior, RECIPE, 1.0),
    "lca_statistics.merge": lambda f, g: f(g.lca.rows, g.lca.rows),
    "lca_statistics.prepare": lambda f, g: f(g.pairs),
    "lca_statistics.project": lambda f, g: f(g.M, g.lca.stats),
    "lca_statistics.scatter": lambda f, g: f(
        np.ones((len(g.lca.stats.same), 2)), g.lca.stats
    ),
    "lca_target.position": lambda f, g: f(g.lca.params),
    "lca_target.start": lambda f, g: f(
        g.lca.params, (g.lca.stats, g.lca.strong, np.array(1.0))
    ),
    "lca_target.target_data": lambda f, g: f(g.pairs, g.lca.prior, 0.5),
}

GAUSSIAN = {
    "draw": lambda f, g: f(g.key, g.gauss.post, 2),
    "log_evidence": lambda f, g: f(g.gauss.stats, g.gauss.prior),
    "merge": lambda f, g: f(g.gauss.stats, g.gauss.stats),
    "mode": lambda f, g: f(g.gauss.post),
    "plug_in": lambda f, g: f(g.gauss.stats),
    "posterior": lambda f, g: f(g.gauss.stats, g.gauss.prior),
    "posterior_mean": lambda f, g: f(g.gauss.post),
    "statistics": lambda f, g: f(g.labelled, 2),
}
GAUSSIAN = {f"gaussian_classes.{name}": call for name, call in GAUSSIAN.items()} | {
    "gaussian_classes_completions.complete": lambda f, g: f(
        g.key,
        g.partly,
        g.gauss.prior,
        g.gauss.params,
        n_completions=2,
        warm_up=2,
        thin=1,
    ),
    "gaussian_classes_completions.evidence_prior_missing": lambda f, g: f(g.partly, 2),
    "gaussian_classes_gamma.choose_gamma": lambda f, g: f([g.gauss.local], g.X, g.y, 3),
    "gaussian_classes_local.drawn_metrics": lambda f, g: f(
        g.gauss.draws, g.gauss.local
    ),
    "gaussian_classes_local.error_expansion": lambda f, g: f(
        g.gauss.densities, g.x, g.M
    ),
    "gaussian_classes_local.expected_bias_metric": lambda f, g: f(
        g.gauss.draws, g.gauss.local
    ),
    "gaussian_classes_local.expected_squared_reach": lambda f, g: f(
        np.float64(-0.5), 24, 2
    ),
    "gaussian_classes_local.log_euclidean": lambda f, g: f(g.S[:, None]),
    "gaussian_classes_local.student_metric": lambda f, g: f(g.gauss.post),
    "gaussian_classes_missing.covariances_of": lambda f, g: f(g.gauss.params),
    "gaussian_classes_missing.expected_statistics": lambda f, g: f(
        g.gauss.params, g.partly
    ),
    "gaussian_classes_missing.fill_with_means": lambda f, g: f(g.partly, 2),
    "gaussian_classes_missing.fit_missing": lambda f, g: f(
        g.partly, g.gauss.prior, n_classes=2
    ),
    "gaussian_classes_missing.log_joint": lambda f, g: f(
        g.gauss.params, g.partly, g.gauss.prior
    ),
    "gaussian_classes_mixtures.fit_mixtures": lambda f, g: f(
        g.labelled, g.gauss.prior, n_classes=2, n_components=1, n_starts=1
    ),
    "gaussian_classes_mixtures.mixture_prior": lambda f, g: f(g.gauss.prior, 2),
    "gaussian_classes_predict.evidence_prior": lambda f, g: f(g.gauss.stats),
    "gaussian_classes_predict.fit": lambda f, g: f(
        g.labelled, g.gauss.prior, n_classes=2
    ),
    "gaussian_classes_predict.predict_log_proba": lambda f, g: f(g.gauss.post, g.X),
    "gaussian_classes_predict.predictive": lambda f, g: f(g.gauss.post),
}

DCA = {
    "dca_gm.default_prior": lambda f, g: f(g.dca.params, g.labelled),
    "dca_gm.fit": lambda f, g: f(g.labelled, n_latent=1, n_gaussians=1, max_steps=9),
    "dca_gm.from_white": lambda f, g: f(g.dca.sites, g.dca.white),
    "dca_gm.log_joint": lambda f, g: f(g.dca.sites, g.dca.given),
    "dca_gm.log_prior": lambda f, g: f(g.dca.sites, g.dca.prior),
    "dca_gm.to_white": lambda f, g: f(g.dca.sites, g.dca.white),
    "dca_gm.white_coordinates": lambda f, g: f(g.dca.given),
    "dca_gm.white_joint": lambda f, g: f(g.dca.sites, g.dca.white),
    "dca_gm_em.em_step": lambda f, g: f(g.dca.params, g.dca.em),
    "dca_gm_em.em_steps": lambda f, g: f(g.dca.params, g.dca.em, 2),
    "dca_gm_em.own_shares": lambda f, g: f(g.dca.params, g.dca.Y, g.y),
    "dca_gm_em.source_centres": lambda f, g: f(g.dca.params, g.X, g.y, g.w),
    "dca_gm_hybrid.fit_hybrid": lambda f, g: f(
        g.dca.params, g.labelled, g.dca.penalty, EMPrior(), max_steps=2, n_em=1
    ),
    "dca_gm_likelihood.apply_gauge": lambda f, g: f(g.dca.params, g.M),
    "dca_gm_likelihood.class_log_probability": lambda f, g: f(g.dca.params, g.X),
    "dca_gm_likelihood.conditional_log_likelihood": lambda f, g: f(
        g.dca.params, g.labelled
    ),
    "dca_gm_likelihood.fix_gauge": lambda f, g: f(g.dca.params),
    "dca_gm_likelihood.gradient_A": lambda f, g: f(g.dca.params, g.labelled),
    "dca_gm_likelihood.gradient_A_tied": lambda f, g: f(
        g.dca.params, g.means[:, None], g.labelled
    ),
    "dca_gm_likelihood.tilt": lambda f, g: f(g.dca.params, 0.1 * g.M, g.position),
    "dca_gm_likelihood.with_fisher": lambda f, g: f(g.dca.params, g.labelled),
    "dca_gm_posterior.metrics": lambda f, g: f(g.S, 2),
    "dca_gm_posterior.prepare": lambda f, g: f(g.dca.params, g.dca.given),
    "dca_gm_start.em_prior": lambda f, g: f(g.labelled, g.dca.A),
    "dca_gm_start.lda_rca": lambda f, g: f(g.labelled, 1),
    "dca_gm_start.start": lambda f, g: f(g.labelled, 1, n_gaussians=1, n_em=2),
}

TWO_STAGE = {
    "two_stage.e_step": lambda f, g: f(g.two.mixture, g.two.data),
    "two_stage.em_step": lambda f, g: f(g.two.mixture, g.two.data),
    "two_stage.em_step_missing": lambda f, g: f(g.two.mixture, g.two.missing),
    "two_stage.fit_mixture": lambda f, g: f(g.two.mixture, g.two.data, max_steps=9),
    "two_stage.log_density": lambda f, g: f(g.two.mixture, g.X),
    "two_stage.m_step": lambda f, g: f(g.two.stats, g.means, g.two.prior),
    "two_stage.recentre": lambda f, g: f(g.two.stats, g.means, g.means + 0.5),
    "two_stage.responsibilities": lambda f, g: f(g.two.mixture, g.X),
    "two_stage_cubic.best_root": lambda f, g: f(
        np.array([1.0, 0.0, -0.25, 0.0]), 0.0, 1.0, lambda t: -((t - 0.5) ** 2)
    ),
    "two_stage_draws.relabel": lambda f, g: f(g.two.draws, g.two.params),
    "two_stage_enrol.enrol": lambda f, g: f(g.two.params, g.groups),
    "two_stage_enrol.score_enrolled": lambda f, g: f(
        g.two.params, g.X, Enrolled(np.log(g.c)[None], g.X[:1], np.ones(1))
    ),
    "two_stage_fit.best_of": lambda f, g: f([fit_of(1.0), fit_of(2.0)]),
    "two_stage_fit.fit": lambda f, g: f(g.groups, n_components=2, max_steps=9),
    "two_stage_fit.mixture_data": lambda f, g: f(g.X),
    "two_stage_fit.start_groups": lambda f, g: f(g.two.groups, 2),
    "two_stage_fit.start_mixture": lambda f, g: f(g.X, g.w, 2),
    "two_stage_groups.about": lambda f, g: f(g.two.group_stats, g.S[0]),
    "two_stage_groups.e_step": lambda f, g: f(g.two.params, g.two.groups),
    "two_stage_groups.em_step": lambda f, g: f(g.two.params, g.two.groups),
    "two_stage_groups.group_data": lambda f, g: f(g.groups),
    "two_stage_groups.log_groups": lambda f, g: f(g.two.params, g.two.groups),
    "two_stage_groups.m_step": lambda f, g: f(g.two.group_stats, g.means, g.two.prior),
    "two_stage_groups.new_weights": lambda f, g: f(g.two.group_stats, g.two.prior),
    "two_stage_groups.outer": lambda f, g: f(g.M, g.M),
    "two_stage_groups_missing.e_step_rows": lambda f, g: f(g.two.params, g.two.rows),
    "two_stage_groups_missing.filled": lambda f, g: f(g.two.holes),
    "two_stage_groups_missing.group_rows": lambda f, g: f(g.two.holes),
    "two_stage_groups_missing.log_rows": lambda f, g: f(g.two.params, g.two.rows),
    "two_stage_missing.e_step_missing": lambda f, g: f(g.two.mixture, g.holes, g.w),
    "two_stage_pairs.alpha_log_posterior": lambda f, g: f(
        g.two.mixture, *g.same, np.array([0.2, 0.4])
    ),
    "two_stage_pairs.alpha_step": lambda f, g: f(np.array(0.3), g.two.alpha),
    "two_stage_pairs.fit_alpha": lambda f, g: f(g.two.mixture, *g.same),
    "two_stage_pairs.log_joint_small_alpha": lambda f, g: f(
        g.two.mixture, 0.1, *g.same
    ),
    "two_stage_pairs.representative": lambda f, g: f(g.two.params, g.X[:3]),
    "two_stage_prior.default_prior": lambda f, g: f(g.X, 2),
    "two_stage_prior.log_beta": lambda f, g: f(np.array(0.3), g.two.prior),
    "two_stage_prior.log_inverse_wishart": lambda f, g: f(g.M, 5.0, g.M),
    "two_stage_prior.log_prior": lambda f, g: f(g.c, g.means, g.S, g.two.prior),
    "two_stage_proportional.em_step_proportional": lambda f, g: f(
        g.two.tied, g.two.groups
    ),
    "two_stage_proportional.proportional_m_step": lambda f, g: f(
        g.S, g.S, g.c, 2 * g.c, np.array(0.3)
    ),
    "two_stage_range.bic": lambda f, g: f(g.two.params, g.X),
    "two_stage_range.blend": lambda f, g: f([g.two.params, g.two.params]),
    "two_stage_range.choose_components": lambda f, g: f(
        g.X, [1, 2], n_folds=2, max_steps=9
    ),
    "two_stage_range.choose_flattening": lambda f, g: f(g.two.params, g.X),
    "two_stage_range.flatten": lambda f, g: f(g.two.params, g.c),
    "two_stage_target.log_units": lambda f, g: f(g.two.params, g.two.packed[0]),
    "two_stage_target.pack": lambda f, g: f(g.two.posterior),
    "two_stage_target.position": lambda f, g: f(g.two.posterior),
}

TABLES = GENERIC, LDA_LIKE, LCA, GAUSSIAN, DCA, TWO_STAGE
INFERENCE = {n: call for table in TABLES for n, call in table.items()}
