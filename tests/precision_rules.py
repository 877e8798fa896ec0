"""What is not called in ``test_precision`` and why; what must not see a shift."""

import inspect
import pkgutil
from importlib import import_module

import probmetric

MODULES = {
    "checks": "a check or a toy problem: run in float64 by its caller",
    "densities": "in the scope of a metric, a model or a fit",
    "interrupts": "signals",
    "progress": "prints",
    "cli.app": "the command line: reads, prints, and calls the functions tested here",
    "datasets.loading": "reads or draws data sets with NumPy",
    "estimators": "parts of estimators, tested through these",
    "files": "reads and writes files",
    "plots": "draws figures",
    "report.page": "writes pages",
    "report.run": "reads and writes files",
    "storage.metric_file": "reads and writes files",
    "validation": "runs checks",
    "inference.agreement": "compares draws, NumPy and xarray only",
    "inference.calibration": "simulates in the dtype asked for",
    "inference.checks": "compares values and draws, NumPy and xarray only",
    "inference.sampling_checkpoint": "reads and writes files",
    "inference.sampling_kernel": "inside a sampler's own scope",
    "inference.sampling_report": "prints",
    "inference.sampling_tree": "labels draws, NumPy and xarray only",
    "neighbors.classifier": "checks arguments",
    "posterior.metric": "checks arguments",
    "evaluation.loo": "labels and log probabilities by NumPy and xarray",
    "precision": "the mechanism itself",
}
"""Reasons by module: of the name itself and of all that starts with it."""

SAMPLER = "a sampler: its dtype says the precision, float64 by default"
STORY = "a NumPyro story: traced by its sampler, which chooses the precision"
WHOLE = "takes no floating array, or gives back none"
TRACED = "called in compiled code or in its caller's scope only"

REASONS = {
    "data.n_units": WHOLE,
    "evaluation.evaluate": "a table of the functions of its module",
    "inference.dca_gm_start.check_labelled": WHOLE,
    "inference.gaussian_classes.is_diagonal": WHOLE,
    "inference.gaussian_classes.is_mean": WHOLE,
    "inference.lca_bootstrap.dirichlet_weights": "takes its dtype as an argument",
    "inference.lca_bootstrap_draws.memory_of_a_refit": WHOLE,
    "inference.lca_bootstrap_draws.needed_memory": WHOLE,
    "inference.lca_draws.draw": SAMPLER,
    "inference.lca_recipe.auto_regularization": WHOLE,
    "inference.padding.bucket": WHOLE,
    "inference.sampling.sample": SAMPLER,
    "inference.sampling_svi.svi": SAMPLER,
    "inference.sampling_svi.target_model": STORY,
    "inference.sampling_target.cast": "takes its dtype as an argument",
    "inference.sampling_target.check_arguments": WHOLE,
    "inference.sampling_target.fill_arguments": "moves arrays, computes nothing",
    "inference.sampling_target.is_double": WHOLE,
    "inference.sampling_target.model_target": STORY,
    "inference.sampling_target.split_arguments": "moves arrays, computes nothing",
    "inference.two_stage_posterior.draw": SAMPLER,
    "inference.two_stage_posterior.pointwise": SAMPLER,
    "inference.two_stage_stats.zero_stats": "takes its dtype as an argument",
    "inputs.class_codes": WHOLE,
    "inputs.count": WHOLE,
    "inputs.pair_labels": WHOLE,
    "models.dca_gm.dca_gm": STORY,
    "models.gaussian_classes.gaussian_classes": STORY,
    "models.gaussian_classes.gaussian_mixture_classes": STORY,
    "models.gaussian_classes_priors.sample_covariances": STORY,
    "models.lca.lca": STORY,
    "models.two_stage.two_stage": STORY,
    "models.two_stage_laws.normal": STORY,
    "neighbors_scan.bucket": WHOLE,
    "neighbors_scan.from_queries": TRACED,
    "neighbors_scan.ready_alone": TRACED,
    "neighbors_scan.refuse_nan": WHOLE,
    "neighbors_search.check_dimension": WHOLE,
    "neighbors_table.neighbor_table": "a data frame of what nearest returns",
    "neighbors_tuning.untuned": WHOLE,
    "pairs.skipped_anchors": WHOLE,
    "posterior_intervals.is_positive": WHOLE,
}

ALL = lambda r: r  # noqa: E731

SHIFT_FREE = {
    "evaluation.pair_roc_auc": ALL,
    "evaluation.retrieval": ALL,
    "inference.eig_dml.fit": lambda r: r.params.S,
    "inference.eig_dml.game": ALL,
    "inference.gaussian_classes.log_evidence": ALL,
    "inference.gaussian_classes.mode": lambda r: r.chol,
    "inference.gaussian_classes.plug_in": lambda r: r.chol,
    "inference.gaussian_classes.posterior": lambda r: r.Psi,
    "inference.gaussian_classes.statistics": lambda r: r.scatter,
    "inference.gaussian_classes_local.error_expansion": ALL,
    "inference.gaussian_classes_missing.expected_statistics": lambda r: r.scatter,
    "inference.gaussian_classes_missing.fit_missing": lambda r: r.objective,
    "inference.gaussian_classes_missing.log_joint": ALL,
    "inference.gaussian_classes_mixtures.fit_mixtures": lambda r: r.objective,
    "inference.gaussian_classes_predict.evidence_prior": lambda r: r.Psi,
    "inference.gaussian_classes_predict.fit": lambda r: (r.objective, r.params.chol),
    "inference.gaussian_classes_predict.predict_log_proba": ALL,
    "inference.dca_gm_em.own_shares": ALL,
    "inference.dca_gm_likelihood.class_log_probability": ALL,
    "inference.dca_gm_likelihood.conditional_log_likelihood": ALL,
    "inference.dca_gm_start.lda_rca": ALL,
    "inference.lca.fit": lambda r: (r.objective, r.params.W),
    "inference.lca.scaled_identity": ALL,
    "inference.lca.scaled_pca": ALL,
    "inference.lca_bootstrap.bootstrap": lambda r: r.objective,
    "inference.lca_curvature.expected_information": ALL,
    "inference.lca_curvature.generalised_rate": ALL,
    "inference.lca_curvature.gradient": ALL,
    "inference.lca_curvature.hessian": ALL,
    "inference.lca_curvature.log_evidence": ALL,
    "inference.lca_em.moments": ALL,
    "inference.lca_likelihood.log_joint": ALL,
    "inference.lca_pointwise.log_likelihood": ALL,
    "inference.lca_recipe.fit_labelled": lambda r: r.fit.params.W,
    "inference.lda.class_moments": lambda r: r[2],
    "inference.lda.fit": lambda r: (r.params.within, r.params.eigenvalues),
    "inference.mds.fit": lambda r: r.params.eigenvalues,
    "inference.pair_lda.fit": lambda r: r.params.values,
    "inference.pair_lda_moments.second_moments": ALL,
    "inference.two_stage.e_step": ALL,
    "inference.two_stage.em_step": lambda r: (r[0].covariances, r[1]),
    "inference.two_stage.em_step_missing": lambda r: (r[0].covariances, r[1]),
    "inference.two_stage.fit_mixture": lambda r: (r.objective, r.params.covariances),
    "inference.two_stage.log_density": ALL,
    "inference.two_stage.responsibilities": ALL,
    "inference.two_stage_enrol.score_enrolled": ALL,
    "inference.two_stage_fit.fit": lambda r: (r.objective, r.params.within),
    "inference.two_stage_fit.start_mixture": lambda r: r.covariances,
    "inference.two_stage_groups.e_step": ALL,
    "inference.two_stage_groups.log_groups": ALL,
    "inference.two_stage_groups_missing.e_step_rows": ALL,
    "inference.two_stage_groups_missing.log_rows": ALL,
    "inference.two_stage_missing.e_step_missing": ALL,
    "inference.two_stage_pairs.alpha_log_posterior": ALL,
    "inference.two_stage_pairs.fit_alpha": lambda r: (r.params, r.objective),
    "inference.two_stage_pairs.log_joint_small_alpha": ALL,
    "inference.two_stage_pairs.representative": lambda r: (r[0], r[2]),
    "inference.two_stage_prior.default_prior": lambda r: (r.scale, r.within_scale),
    "inference.two_stage_prior.log_prior": ALL,
    "inference.two_stage_range.bic": ALL,
    "inference.two_stage_target.log_units": ALL,
    "neighbors_linear.nearest_linear": ALL,
    "neighbors_scan.nearest_scanned": ALL,
    "neighbors_search.nearest": ALL,
    "neighbors_shortlist.shortlist_recall": ALL,
    "neighbors_votes.count_votes": ALL,
    "neighbors_votes.neighborhood_scale": ALL,
    "neighbors_votes.soft_votes": ALL,
    "posterior_intervals.between_rows": ALL,
    "posterior_intervals.exponent": ALL,
}
"""What of a result must be the same wherever the features' origin is."""


def public_functions():
    """Return every function of an ``__all__`` by name, those of private files left out.

    A file whose name begins with an underscore is reached through the classes that the
    package exports, whose methods are tested.
    """
    found = {}
    for module in pkgutil.walk_packages(probmetric.__path__, "probmetric."):
        if "._" in module.name:
            continue
        loaded = import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            value = getattr(loaded, name)
            own = getattr(value, "__module__", "") == module.name
            if own and callable(value) and not inspect.isclass(value):
                found[f"{module.name.removeprefix('probmetric.')}.{name}"] = value
    return found


def reason(name):
    """Return why a function is not called here, or None where there is no reason."""
    module = name.rpartition(".")[0]
    for start, why in MODULES.items():
        if module == start or module.startswith((f"{start}_", f"{start}.")):
            return why
    return REASONS.get(name)
