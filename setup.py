"""Builds the compiled engine, where a C++ compiler is there; everything else is in pyproject.toml.

DTRDIAG_NATIVE=0 leaves it out, DTRDIAG_NATIVE=1 insists on it: a build that fails is an error then.
"""

import os
from glob import glob

from setuptools import setup

wish = os.environ.get("DTRDIAG_NATIVE", "")
extensions, commands = [], {}
if wish != "0":
    from pybind11.setup_helpers import Pybind11Extension, build_ext

    engine = Pybind11Extension(
        "dtrdiag.simulator._native",
        ["dtrdiag/simulator/csrc/bindings.cpp"],
        depends=sorted(glob("dtrdiag/simulator/csrc/*")),
        cxx_std=17,  # named, or a compiler that cannot do it fails although it is optional
        optional=wish != "1",
        extra_compile_args=["-O3", *os.environ.get("DTRDIAG_NATIVE_FLAGS", "").split()],
    )
    extensions, commands = [engine], {"build_ext": build_ext}

setup(ext_modules=extensions, cmdclass=commands)
