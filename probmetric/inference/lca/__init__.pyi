from .curvature import certificate as certificate
from .fit import fit as fit
from .latent import pair_posterior as pair_posterior
from .likelihood import log_joint as log_joint, log_likelihood as log_likelihood
from .statistics import prepare as prepare
