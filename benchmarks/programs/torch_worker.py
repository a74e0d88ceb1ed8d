"""torch_worker.cc in Python: an unmodified PyTorch DDP script, which both torchrun and train-run run."""

import os
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from events import event, held  # noqa: E402


def main() -> None:
    events, rank = os.environ["BENCH_EVENTS"], int(os.environ["RANK"])
    event("first_line", rank, events)
    stay = held(os.environ["BENCH_HOLD"])
    dist.init_process_group("gloo")
    event("joined", rank, events)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first = True
    while first or stay:
        optimizer.zero_grad()
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        if first:
            event("first_step", rank, events)
        first = False
    dist.destroy_process_group()


main()
