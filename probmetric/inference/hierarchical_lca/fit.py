"""Names of ``effects.fit`` for groups."""

from probmetric.inference.effects.fit import SpreadPosterior as SpreadPosterior
from probmetric.inference.effects.fit import fit_groups

fit = fit_groups
