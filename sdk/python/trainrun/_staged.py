"""A folder in which a framework leaves a checkpoint until report() has copied it."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
from typing import Iterator

from ._context import get_context


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def make_staging(where: str = ".") -> str:
    """Make an empty folder of this rank in `where`. What killed attempts of the run have left there goes."""
    context = get_context()
    run, rank = context.get_run_id() or str(os.getpid()), context.get_world_rank()
    base = os.path.join(os.path.abspath(where), f".trainrun-{run}-")
    for old in glob.glob(f"{glob.escape(base)}*-{rank}"):
        _remove(old)
    folder = f"{base}{context.get_attempt()}-{rank}"
    os.makedirs(folder)
    return folder


@contextlib.contextmanager
def staged(where: str = ".") -> Iterator[str]:
    """Give a folder of make_staging(), which goes when the block ends, in whatever way."""
    folder = make_staging(where)
    try:
        yield folder
    finally:
        _remove(folder)


def place(source: str, folder: str) -> None:
    """Have a file, or a folder with all in it, in another folder: as hard links where the file system has them."""

    def link(one: str, other: str) -> None:
        try:
            os.link(one, other)
        except OSError:
            shutil.copy2(one, other)

    target = os.path.join(folder, os.path.basename(source))
    if os.path.isdir(source):
        shutil.copytree(source, target, copy_function=link)
    else:
        link(source, target)
