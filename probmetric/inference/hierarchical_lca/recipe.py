"""Names of ``effects.recipe`` for groups."""

from probmetric.inference.effects.recipe import Fitted as Fitted
from probmetric.inference.effects.recipe import fit_group_recipe
from probmetric.inference.effects.recipe import pairs_in_groups as pairs_in_groups

fit_recipe = fit_group_recipe
