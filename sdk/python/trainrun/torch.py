"""PyTorch in a worker: the rank's device, data parallelism, loaders whose ranks share the rows, and reproducible runs.

    import trainrun.torch

    model = trainrun.torch.prepare_model(Net())
    loader = trainrun.torch.prepare_data_loader(DataLoader(data, batch_size=64, shuffle=True))
    for epoch in range(first, epochs):
        if trainrun.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        for batch, labels in loader:
            ...

Names are Ray Train's. The first call that needs the process group forms it, by the variables that trainrun has set: with NCCL if
the ranks have GPUs, else with Gloo. A program may also call torch.distributed.init_process_group() itself, before."""

from __future__ import annotations

import atexit
import gc
import os
import random
import sys
from typing import Any, Callable, Iterator, Optional, Union

import torch
import torch.distributed as dist
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from ._context import get_context
from ._errors import Failure

_reproducible = False


def get_device() -> torch.device:
    """Return this rank's device: one of the node's GPUs by its rank on the node, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", get_context().get_local_rank() % torch.cuda.device_count())


def get_devices() -> list[torch.device]:
    """Return this rank's devices: it has one."""
    return [get_device()]


def _end_process_group() -> None:
    """At exit. A cycle in DistributedDataParallel keeps the group beyond the interpreter's end, where Gloo's threads then abort the
    process. After an error, NCCL could wait here for ranks that do not come."""
    if dist.is_initialized() and not (dist.get_backend() == "nccl" and hasattr(sys, "last_value")):
        gc.collect()
        dist.destroy_process_group()


def _need_process_group(device: torch.device) -> None:
    if dist.is_initialized():
        return
    if "MASTER_PORT" not in os.environ:
        raise Failure(
            "unavailable", "there is no MASTER_PORT for a process group: set the spec's backend to torch, or start the program by train-run"
        )
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    atexit.register(_end_process_group)


def prepare_model(
    model: torch.nn.Module,
    move_to_device: Union[bool, torch.device] = True,
    parallel_strategy: Optional[str] = "ddp",
    parallel_strategy_kwargs: Optional[dict[str, Any]] = None,
) -> torch.nn.Module:
    """Move the model to this rank's device, or to the one given, and make the ranks train it together. parallel_strategy: "ddp"
    (each has all of it; DistributedDataParallel), "fsdp" (each has a part; FullyShardedDataParallel), or None (leave it as it is).
    parallel_strategy_kwargs go to that class. All ranks call it."""
    if parallel_strategy not in ("ddp", "fsdp", None):
        raise Failure("invalid_argument", f"prepare_model: unknown parallel_strategy '{parallel_strategy}' (known: ddp, fsdp, None)")
    device = move_to_device if isinstance(move_to_device, torch.device) else get_device()
    if move_to_device:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        model = model.to(device)
    if parallel_strategy is None or get_context().get_world_size() == 1:
        return model
    _need_process_group(device)
    options = dict(parallel_strategy_kwargs or {})
    if parallel_strategy == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        options.setdefault("device_id", device)
        return FullyShardedDataParallel(model, **options)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return model  # there are no gradients to average, which DistributedDataParallel takes for a mistake
    if device.type == "cuda" and move_to_device:
        options.setdefault("device_ids", [device])
        options.setdefault("output_device", device)
    return torch.nn.parallel.DistributedDataParallel(model, **options)


class _WorkerSeed:
    """Seeds Python's and NumPy's random numbers in a process of a DataLoader, which PyTorch does for its own only."""

    def __init__(self, then: Optional[Callable[[int], None]]) -> None:
        self._then = then

    def __call__(self, worker: int) -> None:
        _seed_python(torch.initial_seed() % 2**32)
        if self._then is not None:
            self._then(worker)


def _moved(value: Any, device: torch.device) -> Any:
    """Return a batch with its tensors on the device; other values stay as they are."""
    if isinstance(value, (dict, list, tuple)):
        if isinstance(value, dict):
            items = {key: _moved(one, device) for key, one in value.items()}
            return items if type(value) is dict else type(value)(items)
        items_list = [_moved(one, device) for one in value]
        return type(value)(*items_list) if hasattr(value, "_fields") else type(value)(items_list)
    move = getattr(value, "to", None)
    return move(device, non_blocking=True) if callable(move) else value


class _DeviceLoader:
    """A DataLoader whose batches are on the rank's device. All else is the DataLoader's."""

    def __init__(self, loader: DataLoader[Any], device: torch.device) -> None:
        self._loader, self._device = loader, device

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader:
            yield _moved(batch, self._device)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _shuffles(loader: DataLoader[Any]) -> bool:
    """Return whether the loader shuffles. Failure if its order is one that a DistributedSampler would not keep."""
    batches, rows = loader.batch_sampler, loader.sampler
    if batches is not None and type(batches) is not BatchSampler:
        own: Any = batches
    elif type(rows) is SequentialSampler:
        return False
    elif type(rows) is RandomSampler and not rows.replacement and rows.num_samples == len(rows.data_source):
        return True
    else:
        own = rows
    raise Failure(
        "invalid_argument",
        f"prepare_data_loader would replace the loader's {type(own).__name__}, and with it the choice of rows: divide the rows among the "
        "ranks in that sampler, and pass add_dist_sampler=False",
    )


def _divided(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Return a loader like this one of this rank's rows."""
    context = get_context()
    sampler: DistributedSampler[Any] = DistributedSampler(
        loader.dataset, num_replicas=context.get_world_size(), rank=context.get_world_rank(), shuffle=_shuffles(loader)
    )
    names = ["batch_size", "drop_last", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context"]
    names += ["generator", "persistent_workers", "in_order"] + (["prefetch_factor"] if loader.num_workers > 0 else [])
    options = {name: getattr(loader, name) for name in names if hasattr(loader, name)}
    return DataLoader(loader.dataset, sampler=sampler, **options)


def prepare_data_loader(data_loader: DataLoader[Any], add_dist_sampler: bool = True, move_to_device: bool = True) -> Any:
    """Return a loader like this one of whose rows each rank gets its part, and whose batches are on the rank's device.

    The rows are divided by PyTorch's DistributedSampler, which shuffles if the loader does: call `loader.sampler.set_epoch(epoch)`
    in each epoch. An IterableDataset divides its rows itself, so it gets no sampler. A loader with a sampler of its own is refused."""
    loader = data_loader
    own = isinstance(loader.dataset, IterableDataset) or isinstance(loader.sampler, DistributedSampler)
    if add_dist_sampler and not own and get_context().get_world_size() > 1:
        loader = _divided(loader)
    if _reproducible and not isinstance(loader.worker_init_fn, _WorkerSeed):
        loader.worker_init_fn = _WorkerSeed(loader.worker_init_fn)
    device = get_device()
    return _DeviceLoader(loader, device) if move_to_device and device.type != "cpu" else loader


def _seed_python(seed: int) -> None:
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def enable_reproducibility(seed: int = 0) -> None:
    """Make the run give the same numbers again, at the same world size: seed Python, NumPy and PyTorch, take deterministic
    algorithms only (an operation that has none raises), and seed the processes of loaders that prepare_data_loader() gets later.
    Call it first: on GPUs before the first CUDA call. It makes some operations slower."""
    global _reproducible
    _reproducible = True
    try:
        import numpy  # noqa: F401  (so that it is seeded, if it is installed)
    except ImportError:
        pass
    _seed_python(seed)
    torch.manual_seed(seed)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, cuBLAS is not deterministic
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
