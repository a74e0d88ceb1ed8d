"""checkpoint_worker.cc with PyTorch: checkpoint_dcp.py HOW MIB COUNT FOLDER, under torchrun.

HOW: async (DCP with its defaults, where each rank has its own tensors), tuned (the same with permanent staging buffers and
two writer threads), process (as tuned, in DCP's separate process), sync (DCP), save (torch.save of each rank's tensors,
and fsync).
"""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import BlockingAsyncStager
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

TENSORS = 8
WRITERS = 2  # threads per rank


def kept_staging(state: dict[str, torch.Tensor], shared: bool) -> BlockingAsyncStager:
    """Do what `cache_staged_state_dict=True` means, without the pinned memory that it requires, which needs CUDA.

    DefaultStager keeps nothing in PyTorch 2.11: it clears its cache after each state."""
    stager = BlockingAsyncStager(cache_staged_state_dict=True)
    stager.state_dict_cache = {name: torch.empty_like(tensor) for name, tensor in state.items()}
    if shared:
        for tensor in stager.state_dict_cache.values():
            tensor.share_memory_()
    return stager


def main() -> None:
    how, mib, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    state = {f"rank{rank}.t{i}": torch.rand(mib * 1024 // TENSORS, 256) for i in range(TENSORS)}
    buffers = [torch.ones_like(tensor) for tensor in state.values()]
    stager = kept_staging(state, shared=how == "process") if how in ("tuned", "process") else None
    kind = AsyncCheckpointerType.PROCESS if how == "process" else AsyncCheckpointerType.THREAD
    with open(os.path.join(folder, f"checkpoints-{rank}.txt"), "w", encoding="ascii") as out:
        for number in range(1, count + 1):
            for tensor in state.values():
                tensor.add_(1e-3)
            dist.barrier()
            copied = time.monotonic_ns()
            for buffer, tensor in zip(buffers, state.values()):
                buffer.copy_(tensor)
            begin = time.monotonic_ns()
            place = os.path.join(folder, f"dcp-{number}")
            future = None
            if how == "async":
                future = dcp.async_save(state, checkpoint_id=place)
            elif stager is not None:
                writer = dcp.FileSystemWriter(place, thread_count=WRITERS)
                future = dcp.async_save(state, storage_writer=writer, async_stager=stager, async_checkpointer_type=kind)
            elif how == "sync":
                dcp.save(state, checkpoint_id=place)
            else:
                with open(f"{place}-{rank}.pt", "wb") as file:
                    torch.save(state, file)
                    file.flush()
                    os.fsync(file.fileno())
            end = time.monotonic_ns()
            if future is not None:
                future.result()
            out.write(f"{end - begin} {begin - copied} {time.monotonic_ns() - begin}\n")
    dist.destroy_process_group()


if __name__ == "__main__":  # the process is spawned and imports this file
    main()
