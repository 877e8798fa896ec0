from .choice import choose_strength as choose_strength
from .fit import EigDMLParams as EigDMLParams, fit as fit, to_metric as to_metric
