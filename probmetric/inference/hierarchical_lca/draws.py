"""Names of ``effects.draws`` for groups."""

from probmetric.inference.effects.draws import draw as draw
from probmetric.inference.effects.draws import grid as grid
from probmetric.inference.effects.draws import group_metrics, group_probability
from probmetric.inference.effects.draws import new_groups as new_groups

metrics = group_metrics
averaged = group_probability
