"""Where the parts of this installation are."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sysconfig
from pathlib import Path

from . import _library

_PROGRAMS = ("train-run", "traind")


def cmake_prefix_path() -> str:
    """Return the folder in which CMake's find_package(trainrun) finds this installation's C++ libraries."""
    own = Path(__file__).parent
    if not (own / "lib" / "cmake" / "trainrun").is_dir():
        raise FileNotFoundError(f"there is no CMake package in {own}: it comes with trainrun's wheel")
    return str(own)


def library() -> str:
    """Return the path of libtrainrun.so, or its name if the system is to find it."""
    return _library.find()


def _candidates(name: str) -> list[str]:
    """Return where the wheel's installer may have put a program: what it noted, then this Python's folder, then PATH."""
    found = []
    try:
        for file in importlib.metadata.distribution("trainrun").files or []:
            if file.name == name and file.parent.name in ("bin", "scripts"):
                found.append(str(file.locate()))
    except importlib.metadata.PackageNotFoundError:
        pass
    found += [os.path.join(folder, name) for folder in (sysconfig.get_path("scripts"), str(Path(__file__).parents[1] / "bin"))]
    on_path = shutil.which(name)
    return [*found, on_path] if on_path else found


def program(name: str) -> str:
    """Return the path of train-run or traind."""
    if name not in _PROGRAMS:
        raise FileNotFoundError(f"there is no program '{name}' (known: {', '.join(_PROGRAMS)})")
    for path in _candidates(name):
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return os.path.realpath(path)
    raise FileNotFoundError(f"{name} was not found: neither beside this Python nor on PATH")
