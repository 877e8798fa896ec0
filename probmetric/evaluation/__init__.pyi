from .answers import answer_scores as answer_scores
from .cross_validate import held_out as held_out
from .evaluate import (
    Coverage as Coverage,
    brier_score as brier_score,
    calibration_error as calibration_error,
    coverage as coverage,
    evaluate as evaluate,
    pair_roc_auc as pair_roc_auc,
    retrieval as retrieval,
)
from .loo import loo as loo
from .verification import (
    Verification as Verification,
    VerificationIntervals as VerificationIntervals,
    verification as verification,
    verification_intervals as verification_intervals,
)
