"""What is not called in ``test_precision`` and why; what must not see a shift."""

import inspect
import pkgutil
from importlib import import_module

import probmetric

MODULES = {
    "arguments": "checks arguments",
    "checks": "a check or a toy problem: run in float64 by its caller",
    "cli": "the command line: reads, prints, and calls the functions tested here",
    "compilation": "stores compiled programs",
    "data.files": "reads files",
    "data.hash": "hashes bytes",
    "data.scaling": "NumPy only; through the estimators, tested there",
    "evaluation.ranking": "NumPy, and in retrieval and scored_pairs, called here",
    "evaluation.rows": "reads rows; figures are those of evaluate",
    "data.choose": "reads rows, NumPy only",
    "data.resampled": "whole numbers to weights, NumPy only",
    "data.sites": "whole numbers, NumPy only",
    "data.source": "reads rows, NumPy only",
    "datasets": "reads or draws data sets with NumPy",
    "densities": "in the scope of a metric, a model or a fit",
    "estimators": "parts of estimators, tested through these",
    "evaluation.cross_validate": "scores of neighbours, by the functions tested here",
    "evaluation.loo": "labels and log probabilities by NumPy and xarray",
    "files": "reads and writes files",
    "inference.mixture.stream": "sums in a scope of its own: test_reductions",
    "inference.moments": "sums in a scope of its own: test_reductions",
    "inference.reduce": "sums in a scope of its own: test_reductions",
    "inference.effects": "NumPy, or in the scope of fit, which is called here",
    "inference.gdm": "NumPy, or in the scope of fit, which is called here",
    "inference.sampling.checkpoint": "reads and writes files",
    "inference.sampling.datatree": "labels draws, NumPy and xarray only",
    "inference.sampling.diagnostics": "judges draws, NumPy and xarray only",
    "inference.sampling.kernel": "inside a sampler's own scope",
    "inference.sampling.summary": "summarises draws, NumPy and xarray only",
    "inference.sampling.predictive": "inside the scope of sample",
    "inference.sampling.units": "reads a DataTree",
    "inference.sampling.warnings": "prints",
    "inference.gaussian_classes.choice": "NumPy only",
    "inference.lca.anchors": "NumPy, beside the solver, which is called here",
    "inference.lca.jackknife": "NumPy only, beside bootstrap, tested here",
    "inference.lca.link": "NumPy only",
    "inference.two_stage.few": "NumPy only",
    "inference.two_stage.strength": "NumPy only",
    "inference.two_stage.stream": "sums in a scope of its own: two_stage/test_stream",
    "interrupts": "signals",
    "neighbors.source_votes": "NumPy, of nearest, which is called here",
    "neighbors.block": "NumPy; bits are those of nearest, which is called here",
    "neighbors.stream": "NumPy; bits are those of nearest, which is called here",
    "processes": "gathers and stores arrays as they are",
    "linalg_scaled": "NumPy only",
    "metric": "parts of the exported classes, whose methods are tested",
    "names": "names of data sets",
    "neighbors.classifier": "checks arguments",
    "neighbors.learned": "checks arguments, and calls estimators",
    "neighbors.regressor": "checks arguments",
    "neighbors.range": "NumPy only",
    "neighbors.strength": "NumPy only",
    "plots": "draws figures",
    "posterior.bands": "NumPy only",
    "posterior.curves": "NumPy only",
    "posterior.interval_metric": "calls any learner; answers by NumPy and over_draws",
    "posterior.jackknife": "NumPy only",
    "posterior.metric": "checks arguments",
    "posterior.noncentral": "NumPy only",
    "precision": "the mechanism itself",
    "progress": "prints",
    "provenance": "names versions",
    "registry": "looks objects up by name",
    "report": "writes pages",
    "storage": "reads and writes files",
    "validation": "runs checks",
}
"""Reasons by module or folder."""

DRAWN = "moves draws, which are NumPy"
SAMPLER = "a sampler: its dtype says the precision, float64 by default"
STORY = "a NumPyro story: traced by its sampler, which chooses the precision"
WHOLE = "takes no floating array, or gives back none"
TRACED = "called in compiled code or in its caller's scope only"

REASONS = {
    "inference.solvers.lbfgs.value_at": "inside the scope of a fit",
    "data.inputs.not_finite": "counts, and gives back words",
    "data.inputs.refuse_source": WHOLE,
    "inference.lda.host_statistics": "NumPy only, in fit, which is called here",
    "inference.mixture.prior.prior_of_columns": "NumPy, in default_prior, called here",
    "inference.solvers.em.run_em_passes": "in a scope of its own: test_reductions",
    "evaluation.evaluate.pair_figures": "of scored_pairs, which is called here",
    "evaluation.evaluate.evaluate": "a table of the functions of its module",
    "evaluation.sources.source_pairs": WHOLE,
    "inference.dca_gm.start.check_labelled": WHOLE,
    "inference.gaussian_classes.posterior.is_diagonal": WHOLE,
    "inference.lca.curvature.rows": "NumPy only, in gradient and hessian, tested here",
    "inference.gaussian_classes.posterior.is_mean": WHOLE,
    "inference.gaussian_classes.posterior.tile_rows": WHOLE,
    "inference.lca.bootstrap.check_results": WHOLE,
    "inference.lca.bootstrap.dirichlet_weights": "takes its dtype as an argument",
    "inference.lca.bootstrap.memory_of_a_refit": WHOLE,
    "inference.lca.bootstrap.needed_memory": WHOLE,
    "inference.gaussian_classes.draws.metrics": DRAWN,
    "inference.gaussian_classes.draws.sample": "float64; draws by posterior.draw",
    "inference.lca.draws.draw": SAMPLER,
    "inference.dca_gm.draws.draws_of_prior": SAMPLER,
    "inference.dca_gm.draws.metrics": DRAWN,
    "inference.dca_gm.draws.new_classes": WHOLE,
    "inference.lca.draws.draws_of_prior": SAMPLER,
    "inference.lca.draws.new_labels": WHOLE,
    "inference.lca.draws.metrics": DRAWN,
    "inference.lca.draws.posterior": "float64, as the fit that it is around",
    "inference.lca.recipe.on_all_pairs": "by fit_labelled, tested there",
    "inference.lca.recipe.refitted": "by solve, tested there",
    "inference.lca.recipe.mean_of": "a name, or what was given",
    "inference.lca.recipe.as_fitted": "settings",
    "inference.lca.recipe.within_reach": "settings",
    "inference.sampling.metrics.joined": DRAWN,
    "inference.lca.recipe.auto_regularization": WHOLE,
    "inference.lca.recipe.neighbors_of": WHOLE,
    "inference.lca.fit.check_prior": WHOLE,
    "inference.lca.target.closed_form": "by fit and target_data, tested there",
    "models.lca.relative_width": WHOLE,
    "data.padding.bucket": WHOLE,
    "inference.dca_gm.choice.held": WHOLE,
    "inference.dca_gm.start.default_rows": WHOLE,
    "inference.sampling.sample.like": DRAWN,
    "inference.sampling.sample.sample": SAMPLER,
    "inference.sampling.sample.sampler_of": WHOLE,
    "inference.sampling.svi.target_model": STORY,
    "inference.sampling.target.as_draws": DRAWN,
    "inference.sampling.target.call_of": "checks arguments",
    "inference.sampling.target.cast": "takes its dtype as an argument",
    "inference.sampling.target.counts": WHOLE,
    "inference.sampling.target.fill_arguments": "moves arrays, computes nothing",
    "inference.sampling.target.is_double": WHOLE,
    "inference.sampling.target.model_target": STORY,
    "inference.sampling.target.whitened": STORY,
    "inference.triplet_comparisons.embedding.check_connected": "checks arguments",
    "inference.triplet_comparisons.start.check_prior": "checks arguments",
    "inference.triplet_comparisons.draws.draw": SAMPLER,
    "inference.triplet_comparisons.draws.metrics": DRAWN,
    "inference.triplet_comparisons.embedding.of_objects": DRAWN,
    "inference.triplet_comparisons.target.posterior": (
        "float64, as the fit that it is around"
    ),
    "inference.lda.metrics": DRAWN,
    "inference.lda.sample": "float64; draws by posterior.draw",
    "inference.lda.leading": "moves arrays, computes nothing",
    "inference.sampling.target.split_arguments": "moves arrays, computes nothing",
    "inference.two_stage.draws.draw": SAMPLER,
    "inference.two_stage.draws.draws_of_prior": SAMPLER,
    "inference.two_stage.draws.metrics": DRAWN,
    "inference.two_stage.draws.new_points": "NumPy only",
    "inference.two_stage.draws.posterior": "float64, as the fit that it is around",
    "inference.two_stage.draws.pointwise": SAMPLER,
    "data.inputs.check_numeric": "checks arguments",
    "data.inputs.as_sklearn": "checks arguments",
    "data.inputs.check_one_kind": "checks arguments",
    "data.inputs.refuse_masked": "checks arguments",
    "data.inputs.class_codes": WHOLE,
    "data.containers.refuse_trials": "checks arguments",
    "data.inputs.pair_labels": WHOLE,
    "models.dca_gm.dca_gm": STORY,
    "models.gaussian_classes.gaussian_classes": STORY,
    "models.gaussian_classes.gaussian_mixture_classes": STORY,
    "models.gaussian_classes.sample_covariances": STORY,
    "models.gdm.gdm": STORY,
    "models.hierarchical_lca.hierarchical_lca": STORY,
    "models.point_effects.point_effects": STORY,
    "models.triplet_comparisons.triplet_comparisons": STORY,
    "models.lca.lca": STORY,
    "models.lca.mirrored": STORY,
    "models.lca.observation": STORY,
    "models.two_stage.two_stage": STORY,
    "models.distributions.PARTLY_REAL": "a constraint",
    "models.lda.model": STORY,
    "models.distributions.drawn": STORY,
    "models.distributions.normal": STORY,
    "linalg.blas_threads": WHOLE,
    "linalg.one_blas_thread": WHOLE,
    "neighbors.linear.centred_images": "inside nearest_linear, which is called here",
    "neighbors.linear.rounding": "inside nearest_linear, which is called here",
    "neighbors.linear.squared": "inside nearest_linear, which is called here",
    "neighbors.scan.bucket": WHOLE,
    "neighbors.scan.ready_alone": TRACED,
    "neighbors.scan.tile_of": TRACED,
    "neighbors.scan.refuse_nan": WHOLE,
    "neighbors.scan.settle": TRACED,
    "neighbors.search.check_dimension": WHOLE,
    "neighbors.table.neighbor_table": "a data frame of what nearest returns",
    "neighbors.votes.untuned": WHOLE,
    "data.inputs.codes_of": WHOLE,
    "data.inputs.label_codes": WHOLE,
    "data.pairs.skipped_anchors": WHOLE,
    "posterior.draws.draws_to_metric": DRAWN,
    "posterior.draws.posterior_metric": DRAWN,
    "posterior.draws.readers_of": "looks objects up by name",
    "posterior.draws.thinned": DRAWN,
    "posterior.intervals.is_positive": WHOLE,
    "posterior.intervals.same_features": "checks arguments",
    "posterior.intervals.need_distance": WHOLE,
}

INNER = {
    "data.padding": "chunks",
    "inference.dca_gm.em": "em_step em_steps source_centres",
    "inference.dca_gm.fit": "from_white log_prior_parts opening to_white white_joint",
    "inference.dca_gm.likelihood": "gradient_A gradient_A_tied tilt with_fisher",
    "inference.gaussian_classes.missing": "covariances_of",
    "inference.gaussian_classes.posterior": "evidence_of mean_of posterior_of",
    "inference.gaussian_classes.predict": "predictive_of",
    "inference.lca.bootstrap": "gather refit fit_near",
    "inference.lca.em": "best_log_kappa2 full_step kappa_step m_step",
    "inference.lca.latent": "odds",
    "inference.lca.likelihood": "log_priors objective to_params to_unconstrained",
    "inference.lca.statistics": "n_products project scatter squared_lengths",
    "inference.mixture.em": "about new_weights step_of_means symmetric",
    "inference.mixture.statistics": "only_known responsibilities zero_stats",
    "inference.mixture.prior": "log_beta log_inverse_wishart",
    "inference.sampling.target": "named_parts report site_densities",
    "inference.two_stage.groups": "em_step improved m_step",
    "inference.two_stage.pairs": "alpha_step",
    "inference.two_stage.proportional": "best_root "
    "em_step_proportional improved_proportional proportional_m_step",
    "linalg": "cholesky_of log1p_squares mahalanobis_sq root_of solve_lower solve_spd",
    "neighbors.scan": "distances ready",
}
"""Called in compiled code or in their caller's scope only: modules and names."""

REASONS |= {
    f"{module}.{name}": TRACED
    for module, names in INNER.items()
    for name in names.split()
}

ALL = lambda r: r  # noqa: E731

SHIFT_FREE = {
    "evaluation.evaluate.pair_roc_auc": ALL,
    "evaluation.evaluate.retrieval": ALL,
    "inference.eig_dml.fit.fit": lambda r: r.params.S,
    "inference.eig_dml.fit.game": ALL,
    "inference.gaussian_classes.posterior.log_evidence": ALL,
    "inference.gaussian_classes.posterior.mode": lambda r: r.chol,
    "inference.gaussian_classes.posterior.plug_in": lambda r: r.chol,
    "inference.gaussian_classes.posterior.posterior": lambda r: r.Psi,
    "inference.gaussian_classes.posterior.statistics": lambda r: r.scatter,
    "inference.gaussian_classes.local_metric.error_expansion": ALL,
    "inference.gaussian_classes.missing.expected_statistics": lambda r: r.scatter,
    "inference.gaussian_classes.missing.fit_missing": lambda r: r.objective,
    "inference.gaussian_classes.missing.log_joint": ALL,
    "inference.gaussian_classes.mixtures.fit_mixtures": lambda r: r.objective,
    "inference.gaussian_classes.prior.evidence_prior": lambda r: r.Psi,
    "inference.gaussian_classes.predict.fit": lambda r: (r.objective, r.params.chol),
    "inference.gaussian_classes.predict.predict_log_proba": ALL,
    "inference.dca_gm.em.own_shares": ALL,
    "inference.dca_gm.likelihood.class_log_probability": ALL,
    "inference.dca_gm.likelihood.conditional_log_likelihood": ALL,
    "inference.dca_gm.start.lda_rca": ALL,
    "inference.lca.fit.fit": lambda r: (r.objective, r.params.W),
    "inference.lca.fit.scaled_identity": ALL,
    "inference.lca.fit.scaled_pca": ALL,
    "inference.lca.fit.principal_axes": ALL,
    "inference.lca.fit.scaled_within": ALL,
    "inference.lca.bootstrap.bootstrap": lambda r: r.objective,
    "inference.lca.curvature.generalised_rate": ALL,
    "inference.lca.curvature.gradient": ALL,
    "inference.lca.curvature.hessian": ALL,
    "inference.lca.curvature.log_evidence": ALL,
    "inference.lca.em.moments": ALL,
    "inference.lca.likelihood.log_joint": ALL,
    "inference.lca.draws.log_likelihood": ALL,
    "inference.lca.recipe.fit_labelled": lambda r: r.fit.params.W,
    "inference.lda.class_moments": lambda r: r[2],
    "inference.lda.fit": lambda r: (r.params.within, r.params.eigenvalues),
    "inference.mds.fit.fit": lambda r: r.params.eigenvalues,
    "inference.pair_lda.fit": lambda r: r.params.values,
    "inference.pair_lda.second_moments": ALL,
    "inference.pair_lda.class_second_moments": ALL,
    "inference.mixture.em.e_step": ALL,
    "inference.mixture.em.em_step": lambda r: (r[0].covariances, r[1]),
    "inference.mixture.em.em_step_missing": lambda r: (r[0].covariances, r[1]),
    "inference.two_stage.pairs.score_enrolled": ALL,
    "inference.two_stage.fit.fit": lambda r: (r.objective, r.params.within),
    "inference.mixture.start.start_mixture": lambda r: r.covariances,
    "inference.two_stage.groups.e_step": ALL,
    "inference.two_stage.groups.log_groups": ALL,
    "inference.two_stage.groups_missing.e_step_rows": ALL,
    "inference.two_stage.groups_missing.log_rows": ALL,
    "inference.mixture.missing.e_step_missing": ALL,
    "inference.two_stage.pairs.fit_alpha": lambda r: (r.params, r.objective),
    "inference.two_stage.pairs.log_joint_small_alpha": ALL,
    "inference.two_stage.pairs.representative": lambda r: (r[0], r[2]),
    "inference.mixture.prior.default_prior": lambda r: (r.scale, r.within_scale),
    "inference.mixture.prior.log_prior": ALL,
    "inference.two_stage.choice.bic": ALL,
    "inference.two_stage.target.log_units": ALL,
    "neighbors.linear.nearest_linear": ALL,
    "neighbors.scan.nearest_scanned": ALL,
    "neighbors.search.nearest": ALL,
    "neighbors.shortlist.shortlist_recall": ALL,
    "neighbors.votes.count_votes": ALL,
    "neighbors.votes.neighborhood_scale": ALL,
    "neighbors.votes.soft_votes": ALL,
    "posterior.intervals.between_rows": ALL,
    "posterior.intervals.exponent": ALL,
}
"""What of a result must be the same wherever the features' origin is."""


def public_functions():
    """Return every function by name that a file defines without an underscore.

    A file whose own name begins with one is reached through the classes that the
    package exports, whose methods are tested.
    """
    found = {}
    for module in pkgutil.walk_packages(probmetric.__path__, "probmetric."):
        if "._" in module.name:
            continue
        loaded = import_module(module.name)
        for name, value in vars(loaded).items():
            own = getattr(value, "__module__", "") == module.name
            function = callable(value) and not inspect.isclass(value)
            if own and function and not name.startswith("_"):
                found[f"{module.name.removeprefix('probmetric.')}.{name}"] = value
    return found


def reason(name):
    """Return why a function is not called here, or None where there is no reason."""
    module = name.rpartition(".")[0]
    for start, why in MODULES.items():
        if module == start or module.startswith(f"{start}."):
            return why
    return REASONS.get(name)
