from .curvature import gap as gap
from .draws import draw as draw
from .fit import fit as fit
from .start import prior_for as prior_for
