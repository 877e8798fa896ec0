from .fit import (
    MDSParams as MDSParams,
    additive_constant as additive_constant,
    corrected_squares as corrected_squares,
    embed_new as embed_new,
    fit as fit,
    linear_map as linear_map,
    to_metric as to_metric,
)
