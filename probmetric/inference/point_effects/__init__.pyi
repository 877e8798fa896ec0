from .draws import draw as draw, laplace_draws as laplace_draws
from .fit import (
    best_mode as best_mode,
    fit as fit,
    spread_posterior as spread_posterior,
)
from .likelihood import rows_of as rows_of
from .target import TARGET as TARGET, start as start
