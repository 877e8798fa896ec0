from .draws import draw as draw
from .fit import fit as fit
from .pairs import (
    fit_alpha as fit_alpha,
    representative as representative,
)
