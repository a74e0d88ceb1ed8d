"""Fits a small network with torchft: each replica group has its part of every batch, and all have the same weights.

A group that is killed comes back with the weights of the others, which meanwhile train without it.
"""
import hashlib
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed
from torchft import Manager, Optimizer, ProcessGroupGloo

STEPS = int(sys.argv[1])
PAUSE = float(sys.argv[2])  # seconds a step: this network alone would be done before anybody can kill a group
BATCH = 64

group, groups = int(os.environ["REPLICA_GROUP_ID"]), int(os.environ["NUM_REPLICA_GROUPS"])
rank = int(os.environ["RANK"])


def rows_of(step):
    """Return this group's part of the batch of a step."""
    random = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 8, generator=random)
    y = torch.sin(x.sum(dim=1, keepdim=True))
    return x[group::groups], y[group::groups]


def digest(model):
    """Return a few letters that are the same for the same weights."""
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()[:12]


# torchft's Manager looks for the store of its group, which torchrun's agent would serve. Here rank 0 does.
store = torch.distributed.TCPStore(
    os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=rank == 0, wait_for_workers=False
)
network = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
sgd = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)


def state():
    return {"network": network.state_dict(), "sgd": sgd.state_dict()}


def load_state(loaded):
    network.load_state_dict(loaded["network"])
    sgd.load_state_dict(loaded["sgd"])


manager = Manager(
    pg=ProcessGroupGloo(timeout=timedelta(seconds=10)),
    min_replica_size=1,
    state_dict=state,
    load_state_dict=load_state,
    replica_id=f"group_{group}",
    timeout=timedelta(seconds=30),
)
optimizer = Optimizer(manager, sgd)

while (step := manager.current_step()) < STEPS:
    x, y = rows_of(step)
    optimizer.zero_grad()  # asks which groups are there
    loss = torch.nn.functional.mse_loss(network(x), y)
    loss.backward()
    # torchft's DistributedDataParallel does the same, but in 0.2.0, over Gloo, it ends the process by an AssertionError
    # if another group dies meanwhile. Here the manager hears of it, and no group takes the step.
    for averaged in [manager.allreduce(parameter.grad) for parameter in network.parameters()]:
        averaged.wait()
    optimizer.step()
    time.sleep(PAUSE)
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.3f}, {manager.num_participants()} of {groups} groups", flush=True)

print(f"step {manager.current_step()}: weights {digest(network)}", flush=True)
manager.shutdown()
