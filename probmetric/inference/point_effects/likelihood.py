"""Names of ``effects.points``."""

from probmetric.inference.effects.points import rows_of as rows_of
