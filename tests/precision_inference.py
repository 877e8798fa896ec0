"""How each public function of ``probmetric.inference`` is called, on small inputs.

``name: call(f, g)`` calls the function f on inputs g of ``precision_given``.
"""

import numpy as np

from probmetric.data.containers import Distances
from probmetric.data.pairs import nearest_pairs
from probmetric.inference.eig_dml.fit import EigDMLParams
from probmetric.inference.lca.recipe import Recipe
from probmetric.inference.pair_lda import PairLDAParams
from probmetric.models.gdm import GDMPrior
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior
from probmetric.models.lda import LDAParams
from probmetric.models.point_effects import PointEffectsPrior
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
from tests.precision_others import asked

RECIPE = Recipe(n_components=2, max_iter=20)


GENERIC = {
    "inference.solvers.em.run_em": lambda f, g: f(
        g.halve, g.position, None, max_steps=9
    ),
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
    "inference.lda.choose_strength": lambda f, g: f(g.labeled, g.M),
    "inference.lda.shrinkage_prior": lambda f, g: f(g.M, 1.0),
    "models.lda.to_metric": lambda f, g: f(LDAParams(g.M, g.c, g.means, g.M, g.c)),
    "inference.lda.whitening": lambda f, g: f(g.M),
    "inference.triplet_comparisons.start.prior_for": lambda f, g: f(asked(g), 1),
    "inference.triplet_comparisons.fit.fit": lambda f, g: f(asked(g), double_prior(g)),
    "inference.triplet_comparisons.curvature.gap": lambda f, g: f(
        TripletParams(g.L[0]), asked(g), double_prior(g)
    ),
    "inference.pair_lda.fit": lambda f, g: f(g.pairs),
    "inference.pair_lda.choose_strength": lambda f, g: f(g.labeled),
    "inference.pair_lda.to_metric": lambda f, g: f(PairLDAParams(g.M, g.c, 0.0)),
    "inference.pair_lda.second_moments": lambda f, g: f(g.pairs),
    "inference.pair_lda.class_second_moments": lambda f, g: f(
        g.gauss.stats, g.gauss.stats.n
    ),
    "inference.eig_dml.fit.fit": lambda f, g: f(g.few, ridge=1e-3, max_steps=50),
    "inference.eig_dml.choice.choose_strength": lambda f, g: f(
        g.labeled, lambda part: nearest_pairs(part.X, part.y), ridge=1e-3
    ),
    "inference.eig_dml.fit.game": lambda f, g: f(g.few, ridge=1e-3),
    "inference.eig_dml.fit.to_metric": lambda f, g: f(
        EigDMLParams(g.M, g.M, g.c, 0.0, 0.0, 0.0)
    ),
    "inference.mds.fit.embed_new": lambda f, g: f(
        g.distances.params, g.distances.squared[:3]
    ),
    "inference.mds.fit.fit": lambda f, g: f(Distances(g.distances.D), 2),
}

LCA = {
    "inference.lca.fit.fit": lambda f, g: f(g.pairs, g.lca.prior, max_steps=50),
    "inference.lca.fit.scaled_identity": lambda f, g: f(g.pairs),
    "inference.lca.fit.scaled_pca": lambda f, g: f(g.pairs, 1),
    "inference.lca.fit.principal_axes": lambda f, g: f(g.X, 1),
    "inference.lca.fit.scaled_within": lambda f, g: f(g.pairs, g.y),
    "inference.lca.curvature.certificate": lambda f, g: f(g.lca.params, g.lca.stats),
    "inference.lca.curvature.generalized_rate": lambda f, g: f(
        g.lca.params, g.pairs, g.lca.prior, 0.5
    ),
    "inference.lca.curvature.gradient": lambda f, g: f(g.lca.params, g.lca.stats),
    "inference.lca.curvature.hessian": lambda f, g: f(g.lca.params, g.lca.stats),
    "inference.lca.curvature.log_evidence": lambda f, g: f(
        g.lca.params, g.pairs, -9.0, g.lca.prior, 0.5
    ),
    "inference.lca.em.moments": lambda f, g: f(g.lca.params, g.lca.stats),
    "inference.lca.likelihood.log_likelihood": lambda f, g: f(
        g.lca.params, g.lca.stats
    ),
    "inference.solvers.lbfgs_traced.minimize": lambda f, g: f(
        lambda x: (0.5 * (x @ x), x), g.position, max_steps=5, tol=1e-6
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
    "inference.lca.recipe.fit_labeled": lambda f, g: f(g.labeled, RECIPE, 1.0),
    "inference.lca.statistics.prepare": lambda f, g: f(g.pairs),
}

GAUSSIAN = {
    "draw": lambda f, g: f(g.key, g.gauss.post, 2),
    "log_evidence": lambda f, g: f(g.gauss.stats, g.gauss.prior),
    "mode": lambda f, g: f(g.gauss.post),
    "plug_in": lambda f, g: f(g.gauss.stats),
    "posterior": lambda f, g: f(g.gauss.stats, g.gauss.prior),
    "statistics": lambda f, g: f(g.labeled, 2),
}
GAUSSIAN = {
    f"inference.gaussian_classes.posterior.{name}": call
    for name, call in GAUSSIAN.items()
} | {
    "inference.gaussian_classes.local_metric.error_expansion": lambda f, g: f(
        g.gauss.densities, g.x, g.M
    ),
    "inference.gaussian_classes.local_metric.expected_squared_reach": lambda f, g: f(
        np.float64(-0.5), 24, 2
    ),
    "inference.gaussian_classes.missing.expected_statistics": lambda f, g: f(
        g.gauss.params, g.partly
    ),
    "inference.gaussian_classes.missing.fit_missing": lambda f, g: f(
        g.partly, g.gauss.prior, n_classes=2
    ),
    "inference.gaussian_classes.missing.log_joint": lambda f, g: f(
        g.gauss.params, g.partly, g.gauss.prior
    ),
    "inference.gaussian_classes.prior.evidence_prior": lambda f, g: f(g.gauss.stats),
    "inference.gaussian_classes.predict.fit": lambda f, g: f(
        g.labeled, g.gauss.prior, n_classes=2
    ),
    "inference.gaussian_classes.predict.predict_log_proba": lambda f, g: f(
        g.gauss.post, g.X
    ),
    "inference.gaussian_classes.predict.predictive": lambda f, g: f(g.gauss.post),
}

DCA = {
    "inference.dca_gm.fit.default_prior": lambda f, g: f(g.dca.params, g.labeled),
    "inference.dca_gm.fit.fit": lambda f, g: f(
        g.labeled, n_latent=1, n_gaussians=1, max_steps=9
    ),
    "inference.dca_gm.em.own_shares": lambda f, g: f(g.dca.params, g.dca.Y, g.y),
    "inference.dca_gm.likelihood.class_log_probability": lambda f, g: f(
        g.dca.params, g.X
    ),
    "inference.dca_gm.likelihood.conditional_log_likelihood": lambda f, g: f(
        g.dca.params, g.labeled
    ),
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
    "inference.two_stage.fit.fit": lambda f, g: f(
        g.groups, n_components=2, max_steps=9
    ),
    "inference.mixture.start.start_mixture": lambda f, g: f(g.X, g.w, 2),
    "inference.two_stage.groups.e_step": lambda f, g: f(g.two.params, g.two.groups),
    "inference.two_stage.groups.log_groups": lambda f, g: f(g.two.params, g.two.groups),
    "inference.two_stage.groups_missing.e_step_rows": lambda f, g: f(
        g.two.params, g.two.rows
    ),
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
    "inference.two_stage.choice.bic": lambda f, g: f(g.two.params, g.X),
    "inference.two_stage.target.log_units": lambda f, g: f(
        g.two.params, g.two.packed[0]
    ),
}

TABLES = GENERIC, LDA_LIKE, LCA, GAUSSIAN, DCA, TWO_STAGE
INFERENCE = {n: call for table in TABLES for n, call in table.items()}


def knots_of(g):
    """Three knots of each feature, at its quantiles."""
    return np.quantile(g.pairs.X, [0.0, 0.5, 1.0], axis=0).T


def double_prior(g):
    """A prior of triplets, of float64 arrays."""
    return TripletPrior(g.L[0], np.array(0.8), np.array(2.0))
