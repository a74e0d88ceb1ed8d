"""A driver that steers its training pass by pass: operator_driver.py NAME [die]. It prints what the passes give."""
import json
import os
import signal
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

import trainrun
from trainrun.operator import OperatorTrainer, TrainingOperator


class Lines(TrainingOperator):
    """Learns which of two classes a point belongs to."""

    def setup(self, config):
        torch.manual_seed(0)
        points = torch.rand(64, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
        rows = TensorDataset(points, (points.sum(dim=1) > 0).long())
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        self.register(models=model, optimizers=optimizer, criterion=torch.nn.CrossEntropyLoss(),
                      schedulers=torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5), scheduler_step="manual")
        batch = self.per_worker_batch(16)
        self.register_data(train_loader=DataLoader(rows, batch_size=batch, shuffle=True), validation_loader=DataLoader(rows, batch_size=batch))

    def train_batch(self, batch, info):
        if self.config.get("die") and info["epoch"] == 1 and info["batch_idx"] == 2 and self.world_rank == 1 \
                and trainrun.get_context().get_attempt() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if info.get("fail") and self.world_rank in info["fail"]:
            raise ValueError("a mistake of the operator")
        return super().train_batch(batch, info)

    def weights(self, digits):
        return [round(number, digits) for number in next(self._models[0].parameters()).flatten().tolist()]


def say(what, value):
    print(what, json.dumps(value, sort_keys=True), flush=True)


def main():
    name = sys.argv[1]
    with OperatorTrainer(Lines, train_loop_config={"die": "die" in sys.argv},
                         scaling_config={"num_workers": 2, "resources_per_worker": {"CPU": 0}},
                         run_config={"name": name, "storage_path": os.environ["RUNS"]}) as trainer:
        for _ in range(3):
            trained = trainer.train(profile=True)
            say("train", {key: trained[key] for key in ("epoch", "batch_count", "num_samples")})
            say("timed", sorted(key for key in trained if key.endswith("_s") and trained[key] > 0))
        say("steps", trainer.train(num_steps=1, reduce_results=False)[1]["batch_count"])
        say("accuracy", trainer.validate()["val_accuracy"])
        for ranks in ([0], [1]):  # the other one waits for it
            try:
                trainer.train(info={"fail": ranks})
            except trainrun.CallFailed as failed:
                say("failed", str(failed))
        say("rates", trainer.update_scheduler())
        ranks = trainer.apply_all_operators("weights", 6)
        say("equal", ranks[0] == ranks[1])
        say("weights", ranks[0])
        trainer.save(f"{name}.pt")
        trainer.train()
        trainer.load(f"{name}.pt")
        say("loaded", trainer.apply_all_operators("weights", 6)[1] == ranks[0])
        model = trainer.get_model()
        say("model", [round(number, 6) for number in model["weight"].flatten().tolist()] == ranks[0])


if __name__ == "__main__":
    main()
