from .loading import Dataset as Dataset, load as load, load_points as load_points
from .sites import biocrust as biocrust
