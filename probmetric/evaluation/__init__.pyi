from .answers import answer_scores as answer_scores
from .evaluate import coverage as coverage, evaluate as evaluate
from .loo import loo as loo
from .verification import (
    verification as verification,
    verification_intervals as verification_intervals,
)
