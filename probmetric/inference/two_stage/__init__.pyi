from .draws import draw as draw
from .fit import fit as fit
from .pairs import (
    enrol as enrol,
    fit_alpha as fit_alpha,
    representative as representative,
    score_enrolled as score_enrolled,
)
