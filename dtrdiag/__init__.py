"""dtrdiag: why a run under Dynamic Tensor Rematerialization OOMs or crawls."""

__version__ = "0.1.0"
