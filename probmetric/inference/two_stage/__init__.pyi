from .choice import (
    bic as bic,
    choose_components as choose_components,
    choose_flattening as choose_flattening,
)
from .draws import draw as draw
from .fit import fit as fit
from .pairs import (
    enrol as enrol,
    fit_alpha as fit_alpha,
    representative as representative,
    score_enrolled as score_enrolled,
)
from .target import TARGET as TARGET, log_units as log_units
