"""Replay by eye: a log in a terminal, one event at a time, forwards and backwards.

`eventfile`, `rewinding`, `reading`, `cursor` and `pair` know the log and no terminal; `panes` says
what stands where, as text; `app` and `screens` are all that needs textual.
"""
