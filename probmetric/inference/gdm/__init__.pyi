from .bootstrap import (
    leave_out as leave_out,
    refits as refits,
    site_weights as site_weights,
)
from .draws import (
    draw as draw,
    metrics as metrics,
    posterior as posterior,
)
from .fit import (
    check_prior as check_prior,
    climb as climb,
    deviance_explained as deviance_explained,
    fit as fit,
    gap as gap,
    gap_at as gap_at,
    knots_for as knots_for,
)
from .likelihood import (
    Rows as Rows,
    log_joint as log_joint,
    precisions as precisions,
    rows_of as rows_of,
    value_and_derivatives as value_and_derivatives,
)
from .target import TARGET as TARGET, start as start
