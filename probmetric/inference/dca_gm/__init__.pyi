from .choice import choose_strength as choose_strength, close_prior as close_prior
from .em import EMPrior as EMPrior
from .fit import (
    Conditioned as Conditioned,
    default_prior as default_prior,
    fit as fit,
    log_joint as log_joint,
    log_prior as log_prior,
    white_coordinates as white_coordinates,
)
from .hybrid import Penalty as Penalty, fit_hybrid as fit_hybrid
from .likelihood import (
    apply_gauge as apply_gauge,
    class_log_probability as class_log_probability,
    conditional_log_likelihood as conditional_log_likelihood,
    fix_gauge as fix_gauge,
)
from .start import lda_rca as lda_rca, start as start
