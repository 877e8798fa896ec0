from .check import Check as Check, Problem as Problem
from .compare import compare as compare
from .criticism import ModelVerdict as ModelVerdict, check_model as check_model
from .uniformity import uniformity as uniformity
