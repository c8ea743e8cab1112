"""Traces computed from formulas: families of nets, parametric in depth, width and batch."""
