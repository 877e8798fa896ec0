"""Names of ``effects.left_out``."""

from probmetric.inference.effects.left_out import (
    point_log_likelihood as point_log_likelihood,
)
