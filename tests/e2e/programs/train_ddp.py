"""Plain PyTorch data parallelism, as under torchrun, without any import of trainrun."""

import gc
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(victim):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)  # DDP must make the models equal
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(100 + rank)
    for step in range(5):
        features = torch.randn(16, 8, generator=data)
        loss = ((model(features) - features.sum(dim=1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 2 and rank == victim and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    weights = sum(p.double().sum().item() for p in model.parameters())
    line = f"of {world_size}: loss {mean.item() / world_size:.6f} weights {weights:.6f}\n"
    os.write(1, line.encode())  # at once: with PYTHONUNBUFFERED, print would write the end of the line apart


def main():
    # "die RANK" kills that rank once, in the first attempt, after a few steps.
    victim = int(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[1] == "die" else -1
    dist.init_process_group("gloo")
    train(victim)
    # In PyTorch 2.11 without any launcher, 3 of 6 such scripts abort at exit ("terminate called without an active exception"): a
    # cycle in the DDP module keeps the group, which then outlives the interpreter together with Gloo's threads.
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
