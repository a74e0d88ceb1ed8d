"""A worker of two that train a linear model in step, each on its own rows, with the client that train_loop_config names. `die_at`:
in attempt 0, rank 1 kills itself once the checkpoint of that epoch is committed. The result has the weights, and the first epoch."""
import os
import random
import signal

import trainrun

ROWS, COLUMNS, STEP = 64, 4, 0.1


class Jax:
    def __init__(self, config):
        import jax

        if config["client"] == "jax":
            jax.distributed.initialize()
        else:  # the arguments that programs for other launchers pass
            jax.distributed.initialize(os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
        import numpy as np
        from jax.experimental import multihost_utils

        self.numpy = np
        self.gather = multihost_utils.process_allgather
        self.rank, self.size = jax.process_index(), jax.process_count()

    def mean(self, gradient):
        rows = self.numpy.asarray(self.gather(self.numpy.array(gradient, self.numpy.float32))).reshape(self.size, -1)
        return [float(x) for x in rows.astype(self.numpy.float64).mean(axis=0)]


class Mpi:
    def __init__(self, config):
        from mpi4py import MPI

        self.world = MPI.COMM_WORLD
        self.rank, self.size = self.world.Get_rank(), self.world.Get_size()
        self.node_size = self.world.Split_type(MPI.COMM_TYPE_SHARED).Get_size()
        os.write(1, f"{MPI.Get_library_version().split(',')[0].split(' Version')[0]}: {self.node_size} on this node\n".encode())

    def mean(self, gradient):
        return [self.world.allreduce(x) / self.size for x in gradient]


CLIENTS = {"jax": Jax, "jax_arguments": Jax, "mpi": Mpi}


def main():
    context = trainrun.get_context()
    config = context.get_config()
    client = CLIENTS[config["client"]](config)
    assert (client.rank, client.size) == (context.get_world_rank(), context.get_world_size()), (client.rank, client.size)
    rng = random.Random(3)
    rows = [[rng.gauss(0, 1) for _ in range(COLUMNS)] for _ in range(ROWS)][client.rank :: client.size]
    weights, first = [0.0] * COLUMNS, 0
    checkpoint = trainrun.get_checkpoint()
    if checkpoint:
        state = checkpoint.to_value()
        weights, first = state["weights"], state["epoch"] + 1
    for epoch in range(first, config["epochs"]):
        errors = [sum((w - column) * x for column, (w, x) in enumerate(zip(weights, row))) for row in rows]
        gradient = [sum(error * row[column] for error, row in zip(errors, rows)) / len(rows) for column in range(COLUMNS)]
        weights = [w - STEP * g for w, g in zip(weights, client.mean(gradient))]
        state = {"epoch": epoch, "weights": weights}
        trainrun.report({"epoch": epoch, "loss": sum(error**2 for error in errors) / len(rows)}, trainrun.Checkpoint.from_value(state))
        if epoch == config.get("die_at") and client.rank == 1 and context.get_attempt() == 0:
            trainrun.wait_for_checkpoint()
            os.kill(os.getpid(), signal.SIGKILL)
    trainrun.set_result({"first": first, "weights": weights})


main()
