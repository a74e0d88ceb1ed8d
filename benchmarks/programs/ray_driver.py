"""Start one Ray Train run as a Ray user would: the peer of a train-run command line.

ray_driver.py MODE [--workers N] [--reports N] [--max-failures N] [--cold CPUS]

MODE: noop (DataParallelTrainer, nothing but the first line), step (a step every 20 ms), torch (TorchTrainer over gloo, one
DDP step), report (ray.train.report N times). It uses the cluster in RAY_ADDRESS, or with --cold starts its own.
"""

import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def noop_loop(config: dict) -> None:
    import time

    import ray.train
    sys.path.insert(0, config["programs"])
    from events import event, held
    event("first_line", ray.train.get_context().get_world_rank(), config["events"])
    if held(config["hold"]):
        while True:
            time.sleep(3600)


def step_loop(config: dict) -> None:
    import time

    import ray.train
    sys.path.insert(0, config["programs"])
    from events import event, held
    rank = ray.train.get_context().get_world_rank()
    while held(config["hold"]):
        time.sleep(0.02)
        event("step", rank, config["events"])


def torch_loop(config: dict) -> None:
    import ray.train
    import ray.train.torch
    import torch
    sys.path.insert(0, config["programs"])
    from events import event, held
    rank = ray.train.get_context().get_world_rank()
    event("first_line", rank, config["events"])  # Ray joins gloo before it calls the loop
    event("joined", rank, config["events"])
    stay = held(config["hold"])
    model = ray.train.torch.prepare_model(torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first = True
    while first or stay:
        optimizer.zero_grad()
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        if first:
            event("first_step", rank, config["events"])
        first = False


def report_loop(config: dict) -> None:
    import time

    import ray.train
    sys.path.insert(0, config["programs"])
    from events import event
    rank = ray.train.get_context().get_world_rank()
    calls = []
    event("loop_begins", rank, config["events"])
    for step in range(config["reports"]):
        before = time.monotonic_ns()
        ray.train.report({"step": step, "loss": 1.0 / (step + 1)})
        calls.append(time.monotonic_ns() - before)
    event("loop_ends", rank, config["events"])
    with open(os.path.join(config["folder"], f"calls-{rank}.txt"), "w", encoding="ascii") as file:
        file.writelines(f"{nanoseconds}\n" for nanoseconds in calls)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["noop", "step", "torch", "report"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--reports", type=int, default=5)
    parser.add_argument("--max-failures", type=int, default=0)
    parser.add_argument("--cold", type=int, default=0)
    arguments = parser.parse_args()

    import ray
    import ray.train
    from ray.train.torch import TorchConfig, TorchTrainer
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer  # the base of TorchTrainer
    folder = os.environ["BENCH_FOLDER"]
    if arguments.cold:
        ray.init(num_cpus=arguments.cold, _temp_dir=os.path.join(folder, "r"))
    config = {"events": os.environ["BENCH_EVENTS"], "hold": os.environ["BENCH_HOLD"], "folder": folder,
              "programs": HERE, "reports": arguments.reports}
    common = {
        "train_loop_config": config,
        "scaling_config": ray.train.ScalingConfig(num_workers=arguments.workers, resources_per_worker={"CPU": 1}),
        "run_config": ray.train.RunConfig(
            name="bench", storage_path=os.path.join(folder, "ray-results"),
            failure_config=ray.train.FailureConfig(max_failures=arguments.max_failures)),
    }
    if arguments.mode == "torch":
        trainer = TorchTrainer(torch_loop, torch_config=TorchConfig(backend="gloo"), **common)
    else:
        loop = {"noop": noop_loop, "step": step_loop, "report": report_loop}[arguments.mode]
        trainer = DataParallelTrainer(loop, **common)
    trainer.fit()


main()
