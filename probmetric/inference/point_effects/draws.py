"""Names of ``effects.draws`` for points."""

from probmetric.inference.effects.draws import draw as draw
from probmetric.inference.effects.draws import grid as grid
from probmetric.inference.effects.draws import laplace_draws as laplace_draws
from probmetric.inference.effects.draws import point_metrics, point_probability

metrics = point_metrics
averaged = point_probability
