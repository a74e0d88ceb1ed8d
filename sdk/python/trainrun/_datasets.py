"""Datasets of the spec: a rank's batches as NumPy arrays, as tensors, or as Arrow's arrays, without a copy.

libtrainrun_data.so (<train/train_data_c.h>) reads them. It is loaded with the first dataset."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import weakref
from typing import Any, Callable, Iterator, Optional

from . import _library
from ._errors import Failure, Stopped

_LIBRARY = "libtrainrun_data.so.0"
_FORMATS = ("numpy", "torch", "arrow")
_text, _int, _int64, _size, _handle = ctypes.c_char_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t, ctypes.c_void_p


class _Options(ctypes.Structure):
    _fields_ = [
        ("size", _size),
        ("batch_size", _int64),
        ("weight", ctypes.c_double),
        ("drop_last", _int),
        ("prefetch_batches", _int),
        ("prefetch_bytes", _int64),
    ]


class _Column(ctypes.Structure):
    _fields_ = [
        ("name", _text),
        ("type", _text),
        ("shape", ctypes.POINTER(_int64)),
        ("dimensions", _size),
        ("data", ctypes.c_void_p),
    ]


_FUNCTIONS: dict[str, tuple[list[Any], Any]] = {
    "data_last_error": ([], _text),
    "data_last_error_kind": ([], _text),
    "data_serve": ([ctypes.POINTER(_int)], _int),
    "dataset_open": ([_text, ctypes.POINTER(_handle)], _int),
    "dataset_free": ([_handle], None),
    "dataset_rows": ([_handle], _int64),
    "dataset_total_rows": ([_handle], _int64),
    "dataset_schema": ([_handle, ctypes.c_void_p], _int),
    "dataset_set_epoch": ([_handle, ctypes.c_uint64], _int),
    "dataset_stats": ([_handle, ctypes.POINTER(_text)], _int),
    "dataset_iter_batches": ([_handle, ctypes.POINTER(_Options), ctypes.POINTER(_handle)], _int),
    "batches_size": ([_handle], _int64),
    "batches_next": ([_handle, ctypes.POINTER(_handle)], _int),
    "batches_free": ([_handle], None),
    "batch_rows": ([_handle], _int64),
    "batch_valid_rows": ([_handle], _int64),
    "batch_weight": ([_handle], ctypes.c_double),
    "batch_columns": ([_handle, ctypes.POINTER(ctypes.POINTER(_Column)), ctypes.POINTER(_size)], _int),
    "batch_export": ([_handle, ctypes.c_void_p, ctypes.c_void_p], _int),
    "batch_free": ([_handle], None),
}
_lock = threading.Lock()
_loaded: Any = None


def _find() -> str:
    """Return the path of the library: beside libtrainrun.so, of which it must be the same version."""
    folder = os.path.dirname(_library.find())
    return os.path.join(folder, _LIBRARY) if folder else _LIBRARY


def _load() -> Any:
    path = _find()
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise Failure(
            "unavailable",
            f"{path} cannot be loaded: {error} (datasets need it beside libtrainrun.so: build and install trainrun from its sources)",
        ) from None
    for name, (arguments, returned) in _FUNCTIONS.items():
        try:
            function = getattr(loaded, "trainrun_" + name)
        except AttributeError:
            raise Failure("unavailable", f"{path} is of another version of trainrun: it has no trainrun_{name}") from None
        function.argtypes, function.restype = arguments, returned
    return loaded


def _library_of_data() -> Any:
    """Return the functions, once this process is connected to its run."""
    global _loaded
    _library.library()
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded


def _last_error() -> Failure:
    kind, text = (getattr(_loaded, "trainrun_" + name)() or b"" for name in ("data_last_error_kind", "data_last_error"))
    return Failure(kind.decode(errors="replace"), text.decode(errors="replace"))


def _call(name: str, *arguments: Any) -> None:
    """Call a function that returns a code. Raises Failure or Stopped."""
    code = getattr(_library_of_data(), "trainrun_" + name)(*arguments)
    if code == _library.STOPPED:
        raise Stopped(str(_last_error()))
    if code != 0:
        raise _last_error()


def _count(name: str, handle: ctypes.c_void_p) -> int:
    value: int = getattr(_library_of_data(), "trainrun_" + name)(handle)
    if value < 0:
        raise _last_error()
    return value


def _made(name: str, *arguments: Any) -> ctypes.c_void_p:
    out = ctypes.c_void_p()
    _call(name, *arguments, ctypes.byref(out))
    return out


def _free(name: str, handle: ctypes.c_void_p) -> None:
    if not _library.forked():
        getattr(_loaded, "trainrun_" + name)(handle)


def serve() -> int:
    """Serve datasets to the ranks, in a process that the run has started for that. Return the exit code."""
    code = ctypes.c_int()
    _call("data_serve", ctypes.byref(code))
    return code.value


# ---- Arrow's C data interface: https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html

_SCHEMA, _ARRAY = b"arrow_schema", b"arrow_array"  # a capsule keeps the address of its name
_BYTES = {_SCHEMA: 72, _ARRAY: 80}  # of struct ArrowSchema and struct ArrowArray, where pointers have 8 bytes
_RELEASE_AT = {_SCHEMA: 56, _ARRAY: 64}  # the place of `release`, a function that frees what the struct holds
_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_GetName", ctypes.pythonapi))
_structs: dict[int, Any] = {}  # by address, while a capsule has them


def _free_capsule(capsule: int) -> None:
    name = _name_of(capsule)
    address = _pointer_of(capsule, name)
    release = ctypes.c_void_p.from_address(address + _RELEASE_AT[name])
    if release.value:  # who takes over the struct sets it to NULL
        _Release(release.value)(address)
    _structs.pop(address, None)


_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_end_capsule = _Destructor(_free_capsule)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(("PyCapsule_New", ctypes.pythonapi))


def _capsules(function: str, handle: ctypes.c_void_p, *names: bytes) -> tuple[Any, ...]:
    """Call a function that fills structs of these names, and return them as capsules, which free what nobody has taken over."""
    structs = [(ctypes.c_char * _BYTES[name])() for name in names]
    _call(function, handle, *(ctypes.addressof(struct) for struct in structs))
    for struct in structs:
        _structs[ctypes.addressof(struct)] = struct
    return tuple(_new_capsule(ctypes.addressof(struct), name, _end_capsule) for struct, name in zip(structs, names))


class _BatchHandle:
    """A batch of the library. Every view of its memory refers to it."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self.handle = handle
        self._free = weakref.finalize(self, _free, "batch_free", handle)
        self._free.atexit = False  # the process gives all back
        self.rows = _count("batch_rows", handle)
        self.valid_rows = _count("batch_valid_rows", handle)
        self.weight: float = _loaded.trainrun_batch_weight(handle)

    def arrays(self, writeable: bool) -> Iterator[tuple[str, Any]]:
        """Give each column's name, and its memory as an array of NumPy, which keeps the batch alive."""
        import numpy

        columns, count = ctypes.POINTER(_Column)(), ctypes.c_size_t()
        _call("batch_columns", self.handle, ctypes.byref(columns), ctypes.byref(count))
        for column in columns[: count.value]:
            shape, kind = tuple(column.shape[: column.dimensions]), _KINDS[column.type.decode()]
            view = numpy.empty(shape, kind) if 0 in shape else numpy.asarray(_Memory(self, column.data, shape, kind, writeable))
            yield column.name.decode(errors="replace"), view


_KINDS = {"bool": "|b1", "uint8": "|u1", "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8"}
_KINDS |= {"float16": "<f2", "float32": "<f4", "float64": "<f8"}


class _Memory:
    """A column's memory, as NumPy takes it. The array refers to this, and so to the batch."""

    def __init__(self, batch: _BatchHandle, address: int, shape: tuple[int, ...], kind: str, writeable: bool) -> None:
        self.batch = batch
        self.__array_interface__ = {"version": 3, "data": (address, not writeable), "shape": shape, "typestr": kind}


class Batch(dict[str, Any]):
    """The rows of one step: column name → array or tensor. Rows from valid_rows on are repeats, with which a rank whose share is
    shorter fills up its last batch: leave them out of sums and means. weight: the valid rows' part of those of all ranks, times
    the number of ranks."""

    def __init__(self, columns: dict[str, Any], rows: int, valid_rows: int, weight: float) -> None:
        super().__init__(columns)
        self.rows, self.valid_rows, self.weight = rows, valid_rows, weight


class ArrowBatch:
    """The rows of one step for whatever takes Arrow's arrays, as `pyarrow.record_batch(batch)`. As for Batch: rows, valid_rows,
    weight."""

    def __init__(self, handle: _BatchHandle) -> None:
        self._handle = handle
        self.rows, self.valid_rows, self.weight = handle.rows, handle.valid_rows, handle.weight

    def __len__(self) -> int:
        return self.rows

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        schema, array = _capsules("batch_export", self._handle.handle, _SCHEMA, _ARRAY)
        return schema, array


def _numpy_batch(handle: _BatchHandle) -> Batch:
    return Batch(dict(handle.arrays(writeable=False)), handle.rows, handle.valid_rows, handle.weight)


def _torch_batch(handle: _BatchHandle) -> Batch:
    import torch

    # PyTorch has no read-only tensors: of a read-only array, it would warn for each.
    tensors = {name: torch.from_numpy(array) for name, array in handle.arrays(writeable=True)}
    return Batch(tensors, handle.rows, handle.valid_rows, handle.weight)


class BatchIterator:
    """One pass. len() is its number of batches, the same on all ranks. Any thread may take the next one. A loop may be left early,
    also by an exception: the pass is then over."""

    def __init__(self, handle: ctypes.c_void_p, convert: Callable[[_BatchHandle], Any], lock: threading.Lock) -> None:
        self._handle, self._convert, self._lock = handle, convert, lock
        self._size = _count("batches_size", handle)
        self._free = weakref.finalize(self, _free, "batches_free", handle)
        self._free.atexit = False  # a daemon thread may be taking the next one

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Any:
        _library.library()  # the child of a fork must not wait for the lock
        with self._lock:
            if not self._free.alive:
                raise StopIteration
            batch = _made("batches_next", self._handle)
        if not batch.value:
            raise StopIteration
        return self._convert(_BatchHandle(batch))

    def close(self) -> None:
        """End the pass, as when the last reference to it goes."""
        with self._lock:
            self._free()


class DatasetShard:
    """A dataset of the spec as this rank sees it: its equal share of "train", or of a dataset with `split: true`; all of any other.
    Checkpoints record where it is read: after a restart, at any world size, the first pass continues there."""

    def __init__(self, name: str) -> None:
        """Use get_dataset_shard()."""
        self.name = name
        self._handle = _made("dataset_open", name.encode())
        self._lock = threading.Lock()  # a dataset and its passes belong to one thread at a time
        weakref.finalize(self, _free, "dataset_free", self._handle).atexit = False

    def rows(self) -> int:
        """Return how many rows this rank's share has."""
        return _count("dataset_rows", self._handle)

    def total_rows(self) -> int:
        """Return how many rows the whole dataset has."""
        return _count("dataset_total_rows", self._handle)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass. Without it, epochs count up from get_start_epoch(), or from the checkpoint's position."""
        if not 0 <= epoch < 2**64:
            raise Failure("invalid_argument", f"dataset '{self.name}': the epoch is {epoch} (give at least 0)")
        _library.library()
        with self._lock:
            _call("dataset_set_epoch", self._handle, epoch)

    def __arrow_c_schema__(self) -> Any:
        """Give the columns of the batches, as to `pyarrow.schema(shard)`."""
        return _capsules("dataset_schema", self._handle, _SCHEMA)[0]

    def stats(self) -> list[dict[str, Any]]:
        """Return what each operator of the dataset has done so far (docs/data.md): name, rows, bytes, busy_us, waited_for_input_us,
        waited_for_room_us, queue_bytes."""
        out = ctypes.c_char_p()
        _call("dataset_stats", self._handle, ctypes.byref(out))
        value: list[dict[str, Any]] = json.loads(out.value or b"[]")
        return value

    def iter_batches(
        self,
        *,
        batch_size: int = 256,
        format: str = "numpy",
        drop_last: bool = False,
        prefetch_batches: int = 2,
        prefetch_bytes: int = 32 << 20,
        weight: float = 1.0,
    ) -> BatchIterator:
        """Return the next pass; each is the next epoch. All ranks call it, for a dataset that they divide.

        format: "numpy" and "torch" give Batch, with read-only views of the reader's memory: copy what you want to change (PyTorch
        does not stop you from writing into them). Strings, dates and nulls have no such view; "arrow" gives them, too: ArrowBatch.
        Views may be kept, and keep their batch in memory. drop_last: leave out the last step if it is short. prefetch_batches,
        prefetch_bytes: what may be prepared ahead. weight: this rank's part of each step, as in <train/dataset.h>."""
        if format not in _FORMATS:
            raise Failure("invalid_argument", f"iter_batches: unknown format '{format}' (known: {', '.join(_FORMATS)})")
        convert: Any = {"numpy": _numpy_batch, "torch": _torch_batch, "arrow": ArrowBatch}[format]
        return self._pass(convert, batch_size, weight, drop_last, prefetch_batches, prefetch_bytes)

    def iter_torch_batches(
        self,
        *,
        batch_size: int = 256,
        device: Any = None,
        dtypes: Optional[dict[str, Any]] = None,
        drop_last: bool = False,
        prefetch_batches: int = 2,
        prefetch_bytes: int = 32 << 20,
        weight: float = 1.0,
    ) -> BatchIterator:
        """Do the same with tensors on a device: by default this rank's. dtypes: the types that columns are converted to."""
        from .torch import get_device

        where = get_device() if device is None else device

        def convert(handle: _BatchHandle) -> Batch:
            batch = _torch_batch(handle)
            for name in dtypes or {}:
                if name not in batch:
                    raise Failure("not_found", f"a batch has no column '{name}' (it has {', '.join(batch)})")
            for name, tensor in batch.items():
                batch[name] = tensor.to(device=where, dtype=(dtypes or {}).get(name))
            return batch

        return self._pass(convert, batch_size, weight, drop_last, prefetch_batches, prefetch_bytes)

    def _pass(self, convert: Callable[[_BatchHandle], Any], *options: Any) -> BatchIterator:
        batch_size, weight, drop_last, batches, size = options
        limits = (("batch_size", batch_size, 2**63), ("prefetch_batches", batches, 2**31), ("prefetch_bytes", size, 2**63))
        for name, value, most in limits:
            if not -most <= value < most:  # C would take its last bits
                raise Failure("invalid_argument", f"dataset '{self.name}': {name} is {value} (give a smaller one)")
        made = _Options(ctypes.sizeof(_Options), batch_size, weight, drop_last, batches, size)
        _library.library()
        with self._lock:
            return BatchIterator(_made("dataset_iter_batches", self._handle, ctypes.byref(made)), convert, self._lock)


_shards: dict[str, DatasetShard] = {}
_shards_lock = threading.Lock()


def get_dataset_shard(name: str = "train") -> DatasetShard:
    """Return this worker's shard of the spec's dataset. The first call opens it; later calls return the same one."""
    with _shards_lock:
        if name not in _shards:
            _shards[name] = DatasetShard(name)
        return _shards[name]


def _forget_shards() -> None:
    with _shards_lock:
        _shards.clear()


_library.forget_before_next_run(_forget_shards)
