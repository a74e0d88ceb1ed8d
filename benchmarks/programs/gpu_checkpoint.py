"""gpu_checkpoint.cc with PyTorch: gpu_checkpoint.py FOLDER.

The copies are those of DCP's tuned staging (permanent pinned buffers) and of its default; the files are those of the
safetensors package.
"""

import sys
import time

import torch
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.staging import BlockingAsyncStager

ROUNDS = 5
ROWS = 1 << 20  # of 1 KiB


def measure(what, body):
    torch.cuda.synchronize()
    start = time.monotonic()
    body()
    torch.cuda.synchronize()
    print(f"{what} {(time.monotonic() - start) * 1000:.1f}", flush=True)


def measure_copies(tensors):
    state = {f"t{i}": torch.rand(ROWS // tensors, 256, device="cuda") for i in range(tensors)}
    kept = BlockingAsyncStager(cache_staged_state_dict=True)
    for _ in range(ROUNDS):
        measure(f"copy-{tensors} tuned", lambda: kept.stage(state))
    for _ in range(ROUNDS):
        measure(f"copy-{tensors} default", lambda: BlockingAsyncStager(cache_staged_state_dict=False).stage(state))


def measure_files(path):
    state = {"weights": torch.rand(ROWS, 256, device="cuda")}

    def load():
        state["weights"].copy_(load_file(path, device="cuda")["weights"])

    for _ in range(ROUNDS):
        measure("save", lambda: save_file(state, path))
        measure("load", load)


if __name__ == "__main__":
    measure_copies(8)
    measure_copies(400)
    measure_files(f"{sys.argv[1]}/weights.safetensors")
