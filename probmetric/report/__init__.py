"""Self-contained HTML pages of a run, drawn from the files of its folder."""
