"""Makes small data sets of every format in the current folder: numbered rows, as real writers write
them. `make_datasets.py large` makes one of 20,000 rows instead, and `huge` one of 600,000."""
import io
import os
import sys
import tarfile

import numpy
import pyarrow
import pyarrow.feather
import pyarrow.ipc
import pyarrow.orc
import pyarrow.parquet
from PIL import Image


def table(first, rows, width=12):
    ids = list(range(first, first + rows))
    return pyarrow.table({
        "id": pyarrow.array(ids, pyarrow.int64()),
        "image": pyarrow.array([bytes((i * 7 + j) % 256 for j in range(width)) for i in ids],
                               pyarrow.binary(width)),
        "label": pyarrow.array([i % 10 for i in ids], pyarrow.int32()),
        "name": pyarrow.array([f"row {i}" for i in ids]),
    })


def jpeg(number):
    out = io.BytesIO()
    Image.new("RGB", (10, 8), (number * 20 % 256, 90, 30)).save(out, "JPEG")
    return out.getvalue()


def add(tar, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def small():
    for folder in ("numbers", "mixed", "text", "shards", "pics/cat", "pics/dog"):
        os.makedirs(folder)
    pyarrow.parquet.write_table(table(0, 20), "numbers/a.parquet", row_group_size=10)
    pyarrow.parquet.write_table(table(20, 20), "numbers/b.parquet", row_group_size=10)
    pyarrow.parquet.write_table(table(0, 3), "mixed/a.parquet")
    pyarrow.parquet.write_table(table(3, 3).drop(["name"]), "mixed/b.parquet")
    label = pyarrow.array(["x", "y", "z"])
    pyarrow.parquet.write_table(table(6, 3).set_column(2, "label", label), "mixed/c.parquet")
    with open("mixed/d.parquet", "wb") as file:
        file.write(b"PAR1 and then nothing of a Parquet file")
    with open("text/a.csv", "w") as file:
        file.write("id,city,price\n1,Bonn,1.5\n2,Ulm,\n3,\"\x1b[31mred\x1b[0m\",7\n")
    with open("text/b.csv", "w") as file:
        file.write("id,city,price\n4,Jena,2.25\n")
    with open("text/none.csv", "w") as file:
        file.write("id,city,price\n")
    with open("lines.jsonl", "w") as file:
        for i in range(5):
            file.write('{"id": %d, "words": ["a", "b"]}\n' % i)
    numpy.save("array.npy", numpy.arange(24, dtype=numpy.float32).reshape(6, 2, 2))
    pyarrow.orc.write_table(table(0, 7).select(["id", "name"]), "rows.orc")
    with pyarrow.ipc.new_file("rows.arrow", table(0, 9).schema) as writer:
        writer.write_table(table(0, 9), max_chunksize=4)
    with open("batch.bin", "wb") as file:
        for i in range(4):
            file.write(bytes([i]) + bytes((i + j) % 256 for j in range(3072)))
    for number in range(6):
        with open(f"pics/{'cat' if number < 3 else 'dog'}/{number}.jpg", "wb") as file:
            file.write(jpeg(number))
    with tarfile.open("shards/000.tar", "w") as tar:
        for number in range(4):
            add(tar, f"{number:04}.jpg", jpeg(number))
            add(tar, f"{number:04}.cls", str(number).encode())


def large():
    os.makedirs("large")
    for part in range(4):
        pyarrow.parquet.write_table(table(part * 5000, 5000, 400), f"large/{part}.parquet",
                                    row_group_size=700)


def huge():
    """600,000 rows of 1 KiB, which take little room on the disk."""
    os.makedirs("huge")
    blob = pyarrow.array([b"x" * 1024] * 50000, pyarrow.binary(1024))
    for part in range(12):
        ids = pyarrow.array(range(part * 50000, part * 50000 + 50000), pyarrow.int64())
        pyarrow.parquet.write_table(pyarrow.table({"id": ids, "blob": blob}), f"huge/{part:02}.parquet",
                                    row_group_size=25000)


{"large": large, "huge": huge}.get(" ".join(sys.argv[1:]), small)()
