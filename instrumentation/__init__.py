"""What produces event logs: writers, recorders, and adapters for other runtimes."""

# This folder stands at the root of the repository, so Python would load it from there as a second
# package of its own, whose classes would not be equal to the installed ones.
if not __name__.startswith("dtrdiag."):
    raise ImportError("import dtrdiag.instrumentation, not instrumentation")
