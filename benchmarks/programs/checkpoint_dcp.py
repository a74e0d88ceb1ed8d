"""checkpoint_worker.cc with PyTorch: checkpoint_dcp.py HOW MIB COUNT FOLDER, under torchrun. HOW: async (DCP, each rank
its own tensors), sync (DCP), save (torch.save of each rank's tensors, and fsync)."""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

TENSORS = 8


def main() -> None:
    how, mib, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    state = {f"rank{rank}.t{i}": torch.rand(mib * 1024 // TENSORS, 256) for i in range(TENSORS)}
    buffers = [torch.ones_like(tensor) for tensor in state.values()]
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


main()
