"""Names of ``effects.recipe`` for points."""

from probmetric.inference.effects.recipe import Fitted as Fitted
from probmetric.inference.effects.recipe import fit_point_recipe
from probmetric.inference.effects.recipe import merged as merged

fit_recipe = fit_point_recipe
