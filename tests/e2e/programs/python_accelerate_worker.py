"""A worker with Accelerate and trainrun.accelerate. `die_at` of train_loop_config: in attempt 0, rank 1 kills itself once the
checkpoint of that epoch is committed."""
import os
import signal

import accelerate
import torch
from torch.utils.data import DataLoader, TensorDataset

import trainrun
import trainrun.accelerate


def main():
    context = trainrun.get_context()
    config = context.get_config()
    accelerate.utils.set_seed(3)
    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 8, gamma=0.5)
    rows = TensorDataset(torch.randn(64, 8, generator=torch.Generator().manual_seed(5)))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, DataLoader(rows, batch_size=4), scheduler)
    restored = trainrun.accelerate.load_state(accelerator)
    first = context.get_start_epoch()
    for epoch in range(first, config["epochs"]):
        for (features,) in loader:
            loss = ((model(features) - features.sum(dim=1, keepdim=True)) ** 2).mean()
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
        trainrun.accelerate.report_state(accelerator, {"epoch": epoch, "loss": loss})
        if epoch == config.get("die_at") and context.get_world_rank() == 1 and context.get_attempt() == 0:
            trainrun.wait_for_checkpoint()
            os.kill(os.getpid(), signal.SIGKILL)
    weights = sum(p.double().sum().item() for p in model.parameters())
    files = sorted(os.listdir(restored.path)) if restored else []
    trainrun.set_result({"first": first, "files": files, "weights": weights})
    accelerator.end_training()


main()
