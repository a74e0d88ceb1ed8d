#!/usr/bin/env python3
"""Make a table of visitors of a shop: train.csv, valid.csv, and new.csv without the column that is to be predicted.

    make_people.py --out FOLDER [--train ROWS] [--valid ROWS] [--seed SEED]

Columns: age (some are missing), income (some are missing), visits, city, and buys, 0 or 1. It needs only Python's
standard library, and gives a file its name only when it is complete.
"""

import argparse
import csv
import os
import random

CITIES = {"Aachen": -1.5, "Bonn": 1.5, "Essen": 0.5, "Jena": -0.5, "Kiel": 2.0, "Ulm": -2.0}  # → how willing to buy
MISSING = 0.05


def person(rng):
    age, income = rng.uniform(18, 80), rng.lognormvariate(10.5, 0.5)
    visits, city = rng.randrange(30), rng.choice(sorted(CITIES))
    willing = (age - 45) / 12 + (income - 40000) / 15000 + (visits - 15) / 8 + 1.5 * CITIES[city] + rng.gauss(0, 0.5)
    return [f"{age:.1f}" if rng.random() >= MISSING else "", f"{income:.0f}" if rng.random() >= MISSING else "",
            visits, city, int(willing > 0)]


def write(path, columns, rows):
    scratch = f"{path}.{os.getpid()}.tmp"
    try:
        with open(scratch, "w", newline="", encoding="utf-8") as out:
            csv.writer(out, lineterminator="\n").writerows([columns, *rows])
            out.flush()
            os.fsync(out.fileno())
        os.rename(scratch, path)
    finally:
        if os.path.exists(scratch):
            os.remove(scratch)
    print(f"{path}: {len(rows)} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="the folder to write to")
    parser.add_argument("--train", type=int, default=20000, help="rows for training (default: %(default)s)")
    parser.add_argument("--valid", type=int, default=4000, help="rows for validation (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.train < 1 or options.valid < 1:
        parser.error("--train and --valid must be at least 1")

    rng = random.Random(options.seed)
    columns = ["age", "income", "visits", "city", "buys"]
    os.makedirs(options.out, exist_ok=True)
    write(os.path.join(options.out, "train.csv"), columns, [person(rng) for _ in range(options.train)])
    valid = [person(rng) for _ in range(options.valid)]
    write(os.path.join(options.out, "valid.csv"), columns, valid)
    write(os.path.join(options.out, "new.csv"), columns[:-1], [row[:-1] for row in valid[:10]])


if __name__ == "__main__":
    main()
