from .draws import draw as draw
from .fit import fit as fit, spread_posterior as spread_posterior
