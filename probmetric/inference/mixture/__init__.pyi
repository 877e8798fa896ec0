from .em import em_step as em_step
from .prior import default_prior as default_prior
from .statistics import MixtureParams as MixtureParams
