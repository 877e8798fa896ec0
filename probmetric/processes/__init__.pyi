from .checkpoint import checkpointed as checkpointed
from .distributed import distributed as distributed
