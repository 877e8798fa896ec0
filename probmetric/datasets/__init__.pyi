from .generators import (
    GENERATORS as GENERATORS,
    ringnorm as ringnorm,
    twonorm as twonorm,
    waveform as waveform,
)
from .loading import (
    Dataset as Dataset,
    Unlabeled as Unlabeled,
    load as load,
    load_points as load_points,
    names as names,
)
from .sites import Sites as Sites, biocrust as biocrust
