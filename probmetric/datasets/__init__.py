"""Data sets: labelled ones by name, file or generator, and sites with their species.

``loading``     ``load`` and ``load_points``: built-in sets, generators, files and
                OpenML, all as one ``Dataset``.
``rows``        rows that commands read in parts, and a sample of them to look at.
``tables``      files to points, labels and groups, checked; NPZ and Parquet.
``text``        CSV and TSV files, as they come, in bounded memory.
``columns``     row counters and codes for missing among the features.
``overlap``     rows that are judged and were also learned from.
``generators``  waveform, twonorm and ringnorm, with their Bayes errors.
``sites``       ``biocrust``: covariates of sites, and what was counted there.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
