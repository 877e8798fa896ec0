"""Results of ``test_precision`` that must not see a shift of the features."""

PARTS = {
    "inference.eig_dml.fit.fit": lambda r: r.params.S,
    "inference.gaussian_classes.posterior.mode": lambda r: r.chol,
    "inference.gaussian_classes.posterior.plug_in": lambda r: r.chol,
    "inference.gaussian_classes.posterior.posterior": lambda r: r.Psi,
    "inference.gaussian_classes.posterior.statistics": lambda r: r.scatter,
    "inference.gaussian_classes.missing.expected_statistics": lambda r: r.scatter,
    "inference.gaussian_classes.missing.fit_missing": lambda r: r.objective,
    "inference.gaussian_classes.prior.evidence_prior": lambda r: r.Psi,
    "inference.gaussian_classes.predict.fit": lambda r: (r.objective, r.params.chol),
    "inference.lca.fit.fit": lambda r: (r.objective, r.params.W),
    "inference.lca.recipe.fit_labeled": lambda r: r.fit.params.W,
    "inference.lda.class_moments": lambda r: r[2],
    "inference.lda.fit": lambda r: (r.params.within, r.params.eigenvalues),
    "inference.mds.fit.fit": lambda r: r.params.eigenvalues,
    "inference.pair_lda.fit": lambda r: r.params.values,
    "inference.mixture.em.em_step": lambda r: (r[0].covariances, r[1]),
    "inference.mixture.em.em_step_missing": lambda r: (r[0].covariances, r[1]),
    "inference.two_stage.fit.fit": lambda r: (r.objective, r.params.within),
    "inference.mixture.start.start_mixture": lambda r: r.covariances,
    "inference.two_stage.pairs.fit_alpha": lambda r: (r.params, r.objective),
    "inference.two_stage.pairs.representative": lambda r: (r[0], r[2]),
    "inference.mixture.prior.default_prior": lambda r: (r.scale, r.within_scale),
}
"""What of a result must be the same; of other functions, the whole of it."""

MOVED = """
    solvers.em.run_em effects.fit.fit gdm.fit.fit lda.discriminants
    lda.choose_strength lda.shrinkage_prior lda.whitening
    triplet_comparisons.start.prior_for triplet_comparisons.fit.fit
    triplet_comparisons.curvature.gap pair_lda.choose_strength pair_lda.to_metric
    eig_dml.choice.choose_strength eig_dml.fit.to_metric mds.fit.embed_new
    lca.curvature.certificate lca.likelihood.log_likelihood
    solvers.lbfgs_traced.minimize lca.latent.pair_posterior lca.statistics.prepare
    gaussian_classes.posterior.draw dca_gm.fit.default_prior dca_gm.fit.fit
    dca_gm.start.start two_stage.choice.choose_flattening two_stage.choice.flatten
    gaussian_classes.local_metric.expected_squared_reach
    gaussian_classes.predict.predictive
""".split()
"""Functions of ``inference`` whose inputs or results move with the features."""


def sees_no_shift(name):
    """Tell whether a function's result must not see where the features' origin is."""
    room, _, rest = name.partition(".")
    if room == "evaluation":
        return rest == "evaluate.retrieval"
    free = ("inference", "neighbors", "posterior")
    return room in free and rest not in (*MOVED, "next_pairs.next_pairs")
