"""The traces that are installed with dtrdiag, made by its own generators."""
