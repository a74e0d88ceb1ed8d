"""Processes of JAX train a small network on digits: one mesh over the devices of all, with the rows of a batch divided among them."""

import hashlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import trainrun

jax.distributed.initialize()  # before anything else of JAX; trainrun's variables tell it the rest
MESH = Mesh(np.array(jax.devices()), ("rows",))
BY_ROWS, WHOLE = NamedSharding(MESH, PartitionSpec("rows")), NamedSharding(MESH, PartitionSpec())


def start(seed):
    one, two = jax.random.split(jax.random.key(seed))
    return {"one": 0.05 * jax.random.normal(one, (784, 64)), "two": 0.05 * jax.random.normal(two, (64, 10))}


def logits(weights, images):
    return jax.nn.relu(images @ weights["one"]) @ weights["two"]


def mean_loss(weights, images, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(weights, images)), labels[:, None], axis=1).mean()


@jax.jit
def train_step(weights, images, labels, rate):
    loss, gradients = jax.value_and_grad(mean_loss)(weights, images, labels)  # of the rows of all processes
    return jax.tree.map(lambda weight, gradient: weight - rate * gradient, weights, gradients), loss


@jax.jit
def count_right(weights, images, labels, real):
    return ((logits(weights, images).argmax(axis=1) == labels) & real).sum(), real.sum()


def arrays(batch):
    """Make arrays over the mesh of the rows that each process has read. `real` is false where a row only fills up the last step."""
    parts = batch["image"].astype(np.float32) / 255, batch["label"].astype(np.int32), np.arange(batch.rows) < batch.valid_rows
    return [jax.make_array_from_process_local_data(BY_ROWS, part) for part in parts]


def main():
    config = trainrun.get_context().get_config()
    train, valid = trainrun.get_dataset_shard("train"), trainrun.get_dataset_shard("valid")
    weights, first = start(config["seed"]), 0
    checkpoint = trainrun.get_checkpoint()
    if checkpoint:
        weights, first = dict(np.load(f"{checkpoint.path}/weights.npz")), checkpoint.metrics["epoch"] + 1
    weights = jax.device_put(weights, WHOLE)
    for epoch in range(first, config["epochs"]):
        for batch in train.iter_batches(batch_size=config["batch_size"], drop_last=True):
            images, labels, _ = arrays(batch)
            weights, loss = train_step(weights, images, labels, config["lr"])
        counts = [count_right(weights, *arrays(batch)) for batch in valid.iter_batches(batch_size=250)]
        right, rows = np.sum([[int(count) for count in pair] for pair in counts], axis=0)
        with tempfile.TemporaryDirectory() as folder:
            if jax.process_index() == 0:  # all processes have the same weights
                np.savez(f"{folder}/weights.npz", **weights)
            trainrun.report({"epoch": epoch, "loss": float(loss), "accuracy": right / rows}, trainrun.Checkpoint.from_directory(folder))
    digest = hashlib.sha256(b"".join(np.asarray(weights[name]).tobytes() for name in sorted(weights)))
    trainrun.set_result({"first": first, "weights": digest.hexdigest()})


main()
