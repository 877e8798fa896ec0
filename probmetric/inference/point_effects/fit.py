"""Names of ``effects.fit`` for points."""

from probmetric.inference.effects.fit import SpreadPosterior as SpreadPosterior
from probmetric.inference.effects.fit import best_mode as best_mode
from probmetric.inference.effects.fit import fit_points
from probmetric.inference.effects.fit import spread_posterior as spread_posterior

fit = fit_points
