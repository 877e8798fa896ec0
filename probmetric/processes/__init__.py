"""Several processes as one run, and what a stopped run goes on from.

``distributed``  how processes join, gather once a pass, and leave when one is lost.
``bins``         the total of bins that lie on several processes, in their order.
``checkpoint``   what each pass over a source gave, kept on disk.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
