"""``probmetric evaluate``: what is judged, and by what.

``held_out``   votes of neighbours, and answers, that were held out; where a run starts.
``sources``    pairs of rows, of one source or of two.
"""

from probmetric.cli.evaluate.held_out import run as run
