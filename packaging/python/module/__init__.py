"""The path of the program `@PROGRAM@` that this package installs."""

import os
import sys
import sysconfig

__all__ = ["find_program"]


def find_program() -> str:
    """Returns the path of the installed program, also if its folder is not in PATH.

    Raises FileNotFoundError if it is not where pip installs programs.
    """
    folders = [
        sysconfig.get_path("scripts"),
        # `pip install --user`
        sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
        if sys.version_info >= (3, 10)
        else sysconfig.get_path("scripts", "posix_user"),
        # `pip install --target FOLDER`
        os.path.join(os.path.dirname(os.path.dirname(__file__)), "bin"),
    ]
    for folder in folders:
        program = os.path.join(folder, "@PROGRAM@")
        if os.path.isfile(program):
            return program
    raise FileNotFoundError(f"@PROGRAM@ is in none of {', '.join(folders)}; reinstall the package @NAME@")
