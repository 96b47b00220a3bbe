"""Runs the program: `python -m @MODULE@ ARGUMENTS`."""

import os
import sys

from . import find_program

program = find_program()
os.execv(program, [program, *sys.argv[1:]])
