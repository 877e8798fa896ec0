from .em import (
    e_step as e_step,
    em_step as em_step,
    em_step_missing as em_step_missing,
    m_step as m_step,
)
from .prior import default_prior as default_prior, log_prior as log_prior
from .start import mixture_data as mixture_data, start_mixture as start_mixture
from .statistics import MixtureParams as MixtureParams, MixtureStats as MixtureStats
