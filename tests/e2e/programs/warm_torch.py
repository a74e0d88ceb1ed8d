"""A program that trains a small model of PyTorch twice by the same workers. $RUNS is the storage path. It prints the results of each run's
ranks, as JSON."""
import json
import os

import torch
import trainrun
import trainrun.torch

runs = 0  # of this process


def loop(config):
    global runs
    runs += 1
    torch.manual_seed(7)
    model = trainrun.torch.prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    rank = trainrun.get_context().get_world_rank()
    for step in range(3):
        optimizer.zero_grad()
        model(torch.full((2, 4), 1.0 + rank)).sum().backward()
        optimizer.step()
    weights = [parameter.detach().flatten().tolist() for parameter in model.parameters()]
    return {"pid": os.getpid(), "runs": runs, "weights": weights, "port": os.environ["MASTER_PORT"]}


if __name__ == "__main__":
    with trainrun.WarmTrainer(
        loop,
        scaling_config={"num_workers": 2, "resources_per_worker": {"CPU": 0}},
        run_config={"name": "warm", "storage_path": os.environ["RUNS"]},
    ) as trainer:
        for lr in (0.1, 0.2, 0.1):
            print("ranks", json.dumps(trainer.run({"lr": lr}).results), flush=True)
