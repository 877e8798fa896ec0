from .curvature import gap as gap, hessian as hessian
from .draws import draw as draw, metrics as metrics
from .embedding import (
    check_connected as check_connected,
    embedding_prior as embedding_prior,
    embedding_start as embedding_start,
    object_rows as object_rows,
    of_objects as of_objects,
)
from .fit import fit as fit
from .likelihood import (
    log_joint as log_joint,
    parts as parts,
    value_and_gradient as value_and_gradient,
)
from .start import (
    as_arrays as as_arrays,
    check_prior as check_prior,
    prior_for as prior_for,
    rate_for as rate_for,
)
from .statistics import Differences as Differences, differences as differences
from .target import TARGET as TARGET, posterior as posterior
