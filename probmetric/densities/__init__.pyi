from .classes import class_log_densities as class_log_densities
from .pair import PairModel as PairModel
