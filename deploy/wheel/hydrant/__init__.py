"""Hydrant, installed from a wheel: the programs, and the launcher that hands its arguments to them."""

import pathlib

PROGRAMS = pathlib.Path(__file__).resolve().parent / "bin"  # hydrantd, hydrant-loadgen
