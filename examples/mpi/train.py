"""Ranks of MPI train a small network on digits, in step: NumPy computes the gradients, and Allreduce adds them up."""

import hashlib
import os
import tempfile

import numpy as np
from mpi4py import MPI

import trainrun

PIXELS, HIDDEN, DIGITS = 784, 64, 10
WEIGHTS = PIXELS * HIDDEN + HIDDEN * DIGITS


def layers(flat):
    """Return views of the two layers in a flat array, so that one Allreduce is enough for both."""
    one, two = flat[: PIXELS * HIDDEN], flat[PIXELS * HIDDEN : WEIGHTS]
    return one.reshape(PIXELS, HIDDEN), two.reshape(HIDDEN, DIGITS)


def probabilities(weights, images):
    one, two = layers(weights)
    hidden = np.maximum(images @ one, 0)
    logits = hidden @ two
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def rows_of(batch):
    """Return a batch's images and labels, without the rows that only fill up the last step."""
    images = batch["image"][: batch.valid_rows].astype(np.float32) / 255
    return images, batch["label"][: batch.valid_rows]


def sums(weights, images, labels):
    """Return the gradients of the two layers, the loss, and the number of rows: sums over this rank's rows, in one array."""
    total = np.zeros(WEIGHTS + 2, np.float32)
    hidden, guess = probabilities(weights, images)
    total[-2] = -np.log(guess[np.arange(len(labels)), labels]).sum()
    total[-1] = len(labels)
    guess[np.arange(len(labels)), labels] -= 1
    one, two = layers(total)
    one[:] = images.T @ (guess @ layers(weights)[1].T * (hidden > 0))
    two[:] = hidden.T @ guess
    return total


def main():
    world, config = MPI.COMM_WORLD, trainrun.get_context().get_config()
    train, valid = trainrun.get_dataset_shard("train"), trainrun.get_dataset_shard("valid")
    weights = np.random.default_rng(config["seed"]).normal(0, 0.05, WEIGHTS).astype(np.float32)

    checkpoint, first = trainrun.get_checkpoint(), 0
    if checkpoint:
        weights, first = np.load(f"{checkpoint.path}/weights.npy"), checkpoint.metrics["epoch"] + 1
    for epoch in range(first, config["epochs"]):
        loss = 0.0
        for batch in train.iter_batches(batch_size=config["batch_size"]):
            total = sums(weights, *rows_of(batch))
            world.Allreduce(MPI.IN_PLACE, total)
            weights -= config["lr"] * total[:-2] / total[-1]
            loss = total[-2] / total[-1]
        right = np.zeros(2)
        for batch in valid.iter_batches(batch_size=250):
            images, labels = rows_of(batch)
            right += [(probabilities(weights, images)[1].argmax(axis=1) == labels).sum(), len(labels)]
        world.Allreduce(MPI.IN_PLACE, right)
        with tempfile.TemporaryDirectory() as folder:
            if world.rank == 0:  # all ranks have the same weights
                np.save(os.path.join(folder, "weights.npy"), weights)
            trainrun.report({"epoch": epoch, "loss": loss, "accuracy": right[0] / right[1]}, trainrun.Checkpoint.from_directory(folder))
    trainrun.set_result({"first": first, "weights": hashlib.sha256(weights.tobytes()).hexdigest()})


main()
