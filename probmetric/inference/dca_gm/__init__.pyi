from .fit import default_prior as default_prior, fit as fit
from .likelihood import (
    class_log_probability as class_log_probability,
    conditional_log_likelihood as conditional_log_likelihood,
)
from .start import start as start
