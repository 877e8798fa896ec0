from .draws import draw as draw
from .fit import fit as fit, gap as gap, knots_for as knots_for
