from .classes import (
    ClassDensities as ClassDensities,
    class_hessians as class_hessians,
    class_log_densities as class_log_densities,
    class_scores as class_scores,
    log_posterior as log_posterior,
    log_student as log_student,
)
from .gaussian import log_normal as log_normal, log_normal_seen as log_normal_seen
from .pair import PairModel as PairModel
