from .engine import distributed as distributed
from .files import open as open
from .passes import checkpointed as checkpointed
from .resampled import without_group as without_group
from .source import Block as Block, Part as Part, Source as Source
