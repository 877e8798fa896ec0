from .check import Check as Check, Problem as Problem
from .compare import compare as compare
from .criticism import ModelVerdict as ModelVerdict
from .uniformity import uniformity as uniformity
