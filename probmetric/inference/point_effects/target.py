"""Names of ``effects.target`` for points."""

from probmetric.inference.effects.target import POINT_TARGET
from probmetric.inference.effects.target import start as start

TARGET = POINT_TARGET
