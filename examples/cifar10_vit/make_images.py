#!/usr/bin/env python3
"""Make pictures that can be learnt, in the binary format of CIFAR-10: data_batch_1.bin to data_batch_5.bin, test_batch.bin.

    make_images.py --out FOLDER [--train ROWS] [--test ROWS] [--seed SEED]

A row is a byte with the label and 3 x 32 x 32 bytes of red, green and blue. The ten classes are stripes in ten
directions, of any width, place and colour, with noise: what a row shows is not in any single pixel. It needs only
Python's standard library, and gives a file its name only when it is complete.
"""

import argparse
import math
import os
import random

SIDE, CLASSES, TRAIN_FILES = 32, 10, 5
NOISE = int.from_bytes(bytes([0x1f]) * (SIDE * SIDE), "little")  # the lower bits of each pixel


def wave(low, high):
    """Return a table from a phase (0 to 255) to a brightness between low and high."""
    return bytes(round(low + (high - low) * (0.5 + 0.5 * math.sin(2 * math.pi * phase / 256))) for phase in range(256))


# Light stripes on dark ground, and the reverse.
TABLES = [wave(low, high) for low in (10, 40, 70) for high in (150, 190, 230)] + [wave(230, 40), wave(190, 10)]


def picture(label, rng):
    angle = math.pi * label / CLASSES
    stripes = rng.uniform(3, 5)  # in the picture's width
    step = 256 * stripes / SIDE
    across, down = round(step * math.cos(angle)), round(step * math.sin(angle))
    start = rng.randrange(256)
    phases = bytes((start + across * x + down * y) & 255 for y in range(SIDE) for x in range(SIDE))
    planes = []
    for _ in range(3):
        plane = int.from_bytes(phases.translate(rng.choice(TABLES)), "little")
        noise = rng.getrandbits(8 * SIDE * SIDE) & NOISE
        planes.append((plane ^ noise).to_bytes(SIDE * SIDE, "little"))
    return bytes([label]) + b"".join(planes)


def write(path, rows, rng):
    scratch = f"{path}.{os.getpid()}.tmp"
    try:
        with open(scratch, "wb") as out:
            for row in range(rows):
                out.write(picture(row % CLASSES, rng))
            out.flush()
            os.fsync(out.fileno())
        os.rename(scratch, path)
    finally:
        if os.path.exists(scratch):
            os.remove(scratch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="the folder to write to")
    parser.add_argument("--train", type=int, default=10000, help="pictures for training (default: %(default)s)")
    parser.add_argument("--test", type=int, default=2000, help="pictures for validation (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.train < TRAIN_FILES or options.test < 1:
        parser.error(f"--train must be at least {TRAIN_FILES}, and --test at least 1")

    rng = random.Random(options.seed)
    os.makedirs(options.out, exist_ok=True)
    for file in range(TRAIN_FILES):
        rows = options.train // TRAIN_FILES + (file < options.train % TRAIN_FILES)
        write(os.path.join(options.out, f"data_batch_{file + 1}.bin"), rows, rng)
    write(os.path.join(options.out, "test_batch.bin"), options.test, rng)
    print(f"{options.out}: {options.train} pictures for training, {options.test} for validation")


if __name__ == "__main__":
    main()
