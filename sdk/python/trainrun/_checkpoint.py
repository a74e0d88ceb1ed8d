"""Checkpoints: a folder, or a small value, with metadata."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import weakref
from dataclasses import dataclass
from typing import Any, Iterator, Union

from . import _library
from ._errors import Failure


class Checkpoint:
    """A checkpoint that is about to be reported, or that get_checkpoint() has restored."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        """Use from_directory(), from_value() or get_checkpoint()."""
        self._owned = handle
        self._free = weakref.finalize(self, _library.free_checkpoint, handle)
        self._free.atexit = False  # the process gives all back

    @classmethod
    def from_directory(cls, path: Union[str, os.PathLike[str]]) -> Checkpoint:
        """Make a checkpoint of a folder's files. report() copies them before it returns. Files and folders whose names begin
        with "." are left out."""
        return cls(_library.handle("checkpoint_from_directory", os.fsencode(path)))

    @classmethod
    def from_value(cls, value: Any) -> Checkpoint:
        """Make a checkpoint of one small value that JSON can hold. to_value() reads it."""
        return cls(_library.handle("checkpoint_from_json", _library.to_json(value)))

    @classmethod
    def open(cls, path: Union[str, os.PathLike[str]]) -> Checkpoint:
        """Open a committed checkpoint of any run: `path` is one of its checkpoint_… folders. Connects to no run. Failure
        ("corrupt") if it is incomplete."""
        return cls(_library.handle("checkpoint_open", os.fsencode(path), connect=False))

    @property
    def _handle(self) -> ctypes.c_void_p:
        if not self._owned:
            raise Failure("invalid_argument", "the checkpoint was given away: on_stop's function has returned it")
        return self._owned

    @property
    def path(self) -> str:
        """The folder of a committed checkpoint, for reading. Its files are verified first, once."""
        loaded = _library.loaded()
        found: Any = loaded.trainrun_checkpoint_directory(self._handle)
        if found is None:
            raise _library.last_error(loaded)
        return os.fsdecode(found)

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Give the folder for reading, as Ray's `with checkpoint.as_directory() as folder:`."""
        yield self.path

    def to_directory(self, path: Union[str, os.PathLike[str]]) -> str:
        """Copy the files into a folder, which is made if it is not there. Return its path."""
        shutil.copytree(self.path, path, dirs_exist_ok=True)
        return os.fspath(path)

    def to_value(self) -> Any:
        """Return the value that from_value() saved."""
        return json.loads(_library.text("checkpoint_value_json", self._handle, connect=False))

    @property
    def metrics(self) -> dict[str, Any]:
        """What rank 0 reported with the checkpoint; empty before it is committed."""
        return _library.dict_of(_library.text("checkpoint_metrics_json", self._handle, connect=False))

    def get_metadata(self) -> dict[str, Any]:
        """Return the metadata: of a committed checkpoint with the spec's `metadata`, before that what set_metadata() set."""
        return _library.dict_of(_library.text("checkpoint_metadata_json", self._handle, connect=False))

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Set the checkpoint's own metadata, before it is reported."""
        _library.call("checkpoint_set_metadata", self._handle, _library.to_json(metadata))

    def _release(self) -> int:
        """Return the handle, for C to free. The checkpoint must not be used any more."""
        value = self._handle.value
        self._free.detach()
        self._owned = ctypes.c_void_p(None)
        return value or 0


@dataclass(frozen=True)
class ReportedCheckpoint:
    """A checkpoint of the run that is kept. status: "committed", "pending_validation", "validated", "timeout" or "failed"."""

    number: int
    directory: str
    status: str
    metrics: dict[str, Any]
    error: str
