from .local_metric import (
    error_expansion as error_expansion,
    expected_squared_reach as expected_squared_reach,
)
from .posterior import (
    ClassPosterior as ClassPosterior,
    draw as draw,
    log_evidence as log_evidence,
    statistics as statistics,
)
from .predict import fit as fit, predictive as predictive
