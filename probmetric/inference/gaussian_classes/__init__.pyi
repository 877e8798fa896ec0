from .choice import choose_prior as choose_prior
from .completions import (
    complete as complete,
    evidence_prior_missing as evidence_prior_missing,
)
from .local_metric import (
    choose_by_folds as choose_by_folds,
    choose_gamma as choose_gamma,
    drawn_metrics as drawn_metrics,
    error_expansion as error_expansion,
    expected_bias_metric as expected_bias_metric,
    expected_squared_reach as expected_squared_reach,
    log_euclidean as log_euclidean,
    student_metric as student_metric,
)
from .missing import fill_with_means as fill_with_means, fit_missing as fit_missing
from .mixtures import fit_mixtures as fit_mixtures, mixture_prior as mixture_prior
from .posterior import (
    ClassPosterior as ClassPosterior,
    ClassStatistics as ClassStatistics,
    draw as draw,
    log_evidence as log_evidence,
    mode as mode,
    plug_in as plug_in,
    posterior_mean as posterior_mean,
    statistics as statistics,
)
from .predict import (
    fit as fit,
    predict_log_proba as predict_log_proba,
    predictive as predictive,
)
from .prior import evidence_prior as evidence_prior
