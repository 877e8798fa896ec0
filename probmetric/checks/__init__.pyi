from .check import Check as Check, Problem as Problem, judge as judge
from .compare import compare as compare, holm as holm
from .criticism import (
    Finding as Finding,
    ModelVerdict as ModelVerdict,
    Part as Part,
    check_model as check_model,
)
from .sbc import Story as Story, model_story as model_story, sbc as sbc
from .uniformity import Ranks as Ranks, uniformity as uniformity
