"""A worker with PyTorch Lightning and trainrun.lightning. `die_at` of train_loop_config: in attempt 0, rank 1 kills itself once the
checkpoint of that epoch is committed. `forever`: it trains until it is stopped."""
import os
import signal

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import trainrun
import trainrun.lightning


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self.first = None

    def loss(self, batch):
        (features,) = batch
        return ((self.net(features) - features.sum(dim=1, keepdim=True)) ** 2).mean()

    def training_step(self, batch, _):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", self.loss(batch), sync_dist=True)

    def on_train_epoch_start(self):
        if self.first is None:
            self.first = [self.current_epoch, self.global_step]

    def on_train_epoch_end(self):
        self.log("epochs_done", float(self.current_epoch + 1))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]


class Die(lightning.Callback):
    """Dies in the epoch after `epoch`."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == self.epoch + 1:
            trainrun.wait_for_checkpoint()
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    context = trainrun.get_context()
    config = context.get_config()
    lightning.seed_everything(3, verbose=False)
    rows = TensorDataset(torch.randn(64, 8, generator=torch.Generator().manual_seed(5)))
    callbacks = [trainrun.lightning.ReportCallback(every_n_steps=config.get("every"))]
    if "die_at" in config and context.get_world_rank() == 1 and context.get_attempt() == 0:
        callbacks.append(Die(config["die_at"]))
    trainer = lightning.Trainer(
        max_epochs=-1 if config.get("forever") else config["epochs"],
        callbacks=callbacks,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
        **trainrun.lightning.trainer_args(),
    )
    model, loader = Model(), DataLoader(rows, batch_size=8)
    trainer.fit(model, loader, loader, ckpt_path=trainrun.lightning.ckpt_path())
    weights = sum(p.double().sum().item() for p in model.parameters())
    trainrun.set_result({"first": model.first, "steps": trainer.global_step, "weights": weights})


main()
