"""A worker with the Trainer of transformers. `die_at` of train_loop_config: in attempt 0, rank 1 kills itself at that step. `alone`: the
Trainer is not told to use CPUs, and where there is no GPU, it then takes no notice of the other rank."""
import os
import signal

import torch
import transformers

import trainrun
import trainrun.transformers


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))

    def forward(self, x, labels):
        return {"loss": ((self.net(x) - labels) ** 2).mean()}


class Die(transformers.TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **more):
        if state.global_step == self.step:
            trainrun.wait_for_checkpoint()
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    context = trainrun.get_context()
    config, rank = context.get_config(), context.get_world_rank()
    numbers = torch.randn(64, 8, generator=torch.Generator().manual_seed(5))
    rows = [{"x": row, "labels": row.sum().reshape(1)} for row in numbers]
    callbacks = [trainrun.transformers.ReportCallback()]
    if "die_at" in config and rank == 1 and context.get_attempt() == 0:
        callbacks.append(Die(config["die_at"]))
    args = transformers.TrainingArguments(
        output_dir="output",
        max_steps=config["steps"],
        per_device_train_batch_size=4,
        logging_steps=2,
        save_steps=config.get("save_steps", 4),
        save_total_limit=1,
        seed=11,
        report_to=[],
        disable_tqdm=True,
        use_cpu=not config.get("alone", False),
    )
    transformers.set_seed(11)
    model = Model()
    trainer = transformers.Trainer(model, args, train_dataset=rows, callbacks=callbacks)
    resumed = trainrun.transformers.resume()
    trainer.train(resume_from_checkpoint=resumed)
    files = sorted(os.listdir(resumed)) if resumed else []
    weights = sum(p.double().sum().item() for p in model.parameters())
    trainrun.set_result({"files": files, "steps": trainer.state.global_step, "weights": weights})


main()
