from .bootstrap import (
    bootstrap as bootstrap,
    dirichlet_weights as dirichlet_weights,
    needed_memory as needed_memory,
)
from .curvature import (
    certificate as certificate,
    generalized_rate as generalized_rate,
    log_evidence as log_evidence,
)
from .draws import draw as draw
from .em import reduced_step as reduced_step, spectrum as spectrum
from .fit import (
    fit as fit,
    scaled_identity as scaled_identity,
    scaled_pca as scaled_pca,
    scaled_within as scaled_within,
)
from .latent import PairPosterior as PairPosterior, pair_posterior as pair_posterior
from .likelihood import (
    log_joint as log_joint,
    log_likelihood as log_likelihood,
    log_prior as log_prior,
)
from .recipe import Recipe as Recipe, fit_labeled as fit_labeled
from .statistics import Statistics as Statistics, prepare as prepare
from .target import TARGET as TARGET, start as start, target_data as target_data
from .jackknife import held_out_links as held_out_links, leave_out as leave_out
