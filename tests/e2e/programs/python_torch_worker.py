"""A worker with PyTorch and trainrun.torch. `die_at` of train_loop_config: in attempt 0, rank 1 kills itself once the checkpoint of
that epoch is committed."""
import os
import random
import signal

import torch
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

import trainrun
import trainrun.torch

ROWS = 96


class Rows(Dataset):
    """Row i is i and eight numbers, which are noisy if asked for."""

    def __init__(self, noise):
        self.noise = noise
        self.features = torch.randn(ROWS, 8, generator=torch.Generator().manual_seed(5))

    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        return row, self.features[row] + (random.random() if self.noise else 0)


def refusals():
    """Say what is refused."""
    rows = Rows(False)
    loader = DataLoader(rows, sampler=WeightedRandomSampler([1.0] * ROWS, ROWS))
    for call in (lambda: trainrun.torch.prepare_data_loader(loader), lambda: trainrun.torch.prepare_model(torch.nn.Linear(1, 1), True, "dp")):
        try:
            call()
        except trainrun.Failure as error:
            os.write(1, f"{error.kind}: {error}\n".encode())


def weights_of(model, strategy):
    if strategy != "fsdp":
        return model.module.state_dict()
    from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType

    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig()):
        return model.state_dict()


def main():
    context = trainrun.get_context()
    config, rank = context.get_config(), context.get_world_rank()
    if config.get("refusals"):
        assert trainrun.torch.get_devices() == [torch.device("cpu")]
        assert trainrun.torch.prepare_model(torch.nn.Linear(1, 1), torch.device("meta"), None).weight.is_meta
        return refusals()
    strategy = config.get("strategy", "ddp")
    trainrun.torch.enable_reproducibility(7)
    model = trainrun.torch.prepare_model(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)), True, strategy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = trainrun.torch.prepare_data_loader(
        DataLoader(Rows(config.get("noise", False)), batch_size=8, shuffle=True, num_workers=config.get("processes", 0))
    )
    checkpoint, first = trainrun.get_checkpoint(), 0
    if checkpoint:
        state = torch.load(os.path.join(checkpoint.path, "state.pt"), weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, config["epochs"]):
        rows = []
        loader.sampler.set_epoch(epoch)
        for ids, features in loader:
            loss = ((model(features) - features.sum(dim=1, keepdim=True)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows += ids.tolist()
        os.makedirs(f"state-{rank}", exist_ok=True)
        if rank == 0 and strategy == "ddp":
            state = {"epoch": epoch, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, f"state-{rank}/state.pt")
        trainrun.report({"epoch": epoch, "loss": loss}, trainrun.Checkpoint.from_directory(f"state-{rank}"))
        if epoch == config.get("die_at") and rank == 1 and context.get_attempt() == 0:
            trainrun.wait_for_checkpoint()
            os.kill(os.getpid(), signal.SIGKILL)
    numbers = weights_of(model, strategy)
    trainrun.set_result({"first": first, "rows": sorted(rows), "weights": sum(p.double().sum().item() for p in numbers.values())})


main()
