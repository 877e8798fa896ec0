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
from probmetric.models.point_effects import PointEffectsPrior
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
from tests.precision_others import asked

RECIPE = Recipe(n_components=2, max_iter=20)


GENERIC = {
    "solvers.em.run_em": lambda f, g: f(g.halve, g.position, None, max_steps=9),
}

LDA_LIKE = {
    "lda.class_moments": lambda f, g: f(g.labeled, g.gauss.prior),
    "effects.fit.fit": lambda f, g: (
        f(
            g.pairs._replace(anchor=np.arange(len(g.pairs.i)) % 2),
            HierarchicalLCAPrior(g.lca.prior),
        ),
        f(g.pairs, PointEffectsPrior(g.lca.prior)),
    ),
    "gdm.fit.fit": lambda f, g: f(g.pairs, GDMPrior(knots_of(g))),
    "lda.discriminants": lambda f, g: f(g.c, g.means, g.M, 1),
    "lda.fit": lambda f, g: f(g.labeled),
    "lda.choose_strength": lambda f, g: f(g.labeled, g.M),
    "lda.shrinkage_prior": lambda f, g: f(g.M, 1.0),
    "lda.whitening": lambda f, g: f(g.M),
    "triplet_comparisons.start.prior_for": lambda f, g: f(asked(g), 1),
    "triplet_comparisons.fit.fit": lambda f, g: f(asked(g), double_prior(g)),
    "triplet_comparisons.curvature.gap": lambda f, g: f(
        TripletParams(g.L[0]), asked(g), double_prior(g)
    ),
    "pair_lda.fit": lambda f, g: f(g.pairs),
    "pair_lda.choose_strength": lambda f, g: f(g.labeled),
    "pair_lda.to_metric": lambda f, g: f(PairLDAParams(g.M, g.c, 0.0)),
    "pair_lda.second_moments": lambda f, g: f(g.pairs),
    "pair_lda.class_second_moments": lambda f, g: f(g.gauss.stats, g.gauss.stats.n),
    "eig_dml.fit.fit": lambda f, g: f(g.few, ridge=1e-3, max_steps=50),
    "eig_dml.choice.choose_strength": lambda f, g: f(
        g.labeled, lambda part: nearest_pairs(part.X, part.y), ridge=1e-3
    ),
    "eig_dml.fit.game": lambda f, g: f(g.few, ridge=1e-3),
    "eig_dml.fit.to_metric": lambda f, g: f(EigDMLParams(g.M, g.M, g.c, 0.0, 0.0, 0.0)),
    "mds.fit.embed_new": lambda f, g: f(g.distances.params, g.distances.squared[:3]),
    "mds.fit.fit": lambda f, g: f(Distances(g.distances.D), 2),
}

LCA = {
    "lca.fit.fit": lambda f, g: f(g.pairs, g.lca.prior, max_steps=50),
    "lca.fit.scaled_identity": lambda f, g: f(g.pairs),
    "lca.fit.scaled_pca": lambda f, g: f(g.pairs, 1),
    "lca.fit.principal_axes": lambda f, g: f(g.X, 1),
    "lca.fit.scaled_within": lambda f, g: f(g.pairs, g.y),
    "lca.curvature.certificate": lambda f, g: f(g.lca.params, g.lca.stats),
    "lca.curvature.generalized_rate": lambda f, g: f(
        g.lca.params, g.pairs, g.lca.prior, 0.5
    ),
    "lca.curvature.gradient": lambda f, g: f(g.lca.params, g.lca.stats),
    "lca.curvature.hessian": lambda f, g: f(g.lca.params, g.lca.stats),
    "lca.curvature.log_evidence": lambda f, g: f(
        g.lca.params, g.pairs, -9.0, g.lca.prior, 0.5
    ),
    "lca.em.moments": lambda f, g: f(g.lca.params, g.lca.stats),
    "lca.likelihood.log_likelihood": lambda f, g: f(g.lca.params, g.lca.stats),
    "solvers.lbfgs_traced.minimize": lambda f, g: f(
        lambda x: (0.5 * (x @ x), x), g.position, max_steps=5, tol=1e-6
    ),
    "lca.likelihood.log_joint": lambda f, g: f(g.lca.params, g.lca.stats, g.lca.prior),
    "lca.draws.log_likelihood": lambda f, g: f(g.S[:, None], g.c[:, None], g.few, 0.5),
    "lca.latent.pair_posterior": lambda f, g: f(*g.same, g.y[:12], g.M, np.array(0.5)),
    "lca.recipe.fit_labeled": lambda f, g: f(g.labeled, RECIPE, 1.0),
    "lca.statistics.prepare": lambda f, g: f(g.pairs),
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
    f"gaussian_classes.posterior.{name}": call for name, call in GAUSSIAN.items()
} | {
    "gaussian_classes.local_metric.error_expansion": lambda f, g: f(
        g.gauss.densities, g.x, g.M
    ),
    "gaussian_classes.local_metric.expected_squared_reach": lambda f, g: f(
        np.float64(-0.5), 24, 2
    ),
    "gaussian_classes.missing.expected_statistics": lambda f, g: f(
        g.gauss.params, g.partly
    ),
    "gaussian_classes.missing.fit_missing": lambda f, g: f(
        g.partly, g.gauss.prior, n_classes=2
    ),
    "gaussian_classes.missing.log_joint": lambda f, g: f(
        g.gauss.params, g.partly, g.gauss.prior
    ),
    "gaussian_classes.prior.evidence_prior": lambda f, g: f(g.gauss.stats),
    "gaussian_classes.predict.fit": lambda f, g: f(
        g.labeled, g.gauss.prior, n_classes=2
    ),
    "gaussian_classes.predict.predict_log_proba": lambda f, g: f(g.gauss.post, g.X),
    "gaussian_classes.predict.predictive": lambda f, g: f(g.gauss.post),
}

DCA = {
    "dca_gm.fit.default_prior": lambda f, g: f(g.dca.params, g.labeled),
    "dca_gm.fit.fit": lambda f, g: f(g.labeled, n_latent=1, n_gaussians=1, max_steps=9),
    "dca_gm.em.own_shares": lambda f, g: f(g.dca.params, g.dca.Y, g.y),
    "dca_gm.likelihood.class_log_probability": lambda f, g: f(g.dca.params, g.X),
    "dca_gm.likelihood.conditional_log_likelihood": lambda f, g: f(
        g.dca.params, g.labeled
    ),
    "dca_gm.start.lda_rca": lambda f, g: f(g.labeled, 1),
    "dca_gm.start.start": lambda f, g: f(g.labeled, 1, n_gaussians=1, n_em=2),
}

TWO_STAGE = {
    "two_stage.choice.choose_flattening": lambda f, g: f(g.two.params, g.X),
    "two_stage.choice.flatten": lambda f, g: f(g.two.params, g.c),
    "mixture.em.e_step": lambda f, g: f(g.two.mixture, g.two.data),
    "mixture.em.em_step": lambda f, g: f(g.two.mixture, g.two.data),
    "mixture.em.em_step_missing": lambda f, g: f(g.two.mixture, g.two.missing),
    "two_stage.fit.fit": lambda f, g: f(g.groups, n_components=2, max_steps=9),
    "mixture.start.start_mixture": lambda f, g: f(g.X, g.w, 2),
    "two_stage.groups.e_step": lambda f, g: f(g.two.params, g.two.groups),
    "two_stage.groups.log_groups": lambda f, g: f(g.two.params, g.two.groups),
    "two_stage.groups_missing.e_step_rows": lambda f, g: f(g.two.params, g.two.rows),
    "two_stage.groups_missing.log_rows": lambda f, g: f(g.two.params, g.two.rows),
    "mixture.missing.e_step_missing": lambda f, g: f(g.two.mixture, g.holes, g.w),
    "two_stage.pairs.fit_alpha": lambda f, g: f(g.two.mixture, *g.same),
    "two_stage.pairs.log_joint_small_alpha": lambda f, g: f(
        g.two.mixture, 0.1, *g.same
    ),
    "two_stage.pairs.representative": lambda f, g: f(g.two.params, g.X[:3]),
    "mixture.prior.default_prior": lambda f, g: f(g.X, 2),
    "mixture.prior.log_prior": lambda f, g: f(g.c, g.means, g.S, g.two.prior),
    "two_stage.choice.bic": lambda f, g: f(g.two.params, g.X),
    "two_stage.target.log_units": lambda f, g: f(g.two.params, g.two.packed[0]),
}

TABLES = GENERIC, LDA_LIKE, LCA, GAUSSIAN, DCA, TWO_STAGE
INFERENCE = {f"inference.{n}": call for t in TABLES for n, call in t.items()}


def knots_of(g):
    """Three knots of each feature, at its quantiles."""
    return np.quantile(g.pairs.X, [0.0, 0.5, 1.0], axis=0).T


def double_prior(g):
    """A prior of triplets, of float64 arrays."""
    return TripletPrior(g.L[0], np.array(0.8), np.array(2.0))
