"""Prints the rows of data sets that train-run data convert wrote, as pyarrow and the webdataset package
read them: dump_rows.py FOLDER..."""
import glob
import json
import os
import sys

import numpy
import pyarrow.ipc
import pyarrow.parquet


def shown(value):
    if isinstance(value, bytes):
        return f"<{len(value)} bytes {value[:4].hex()}>"
    if isinstance(value, numpy.ndarray):
        return f"{value.dtype}{list(value.shape)} sum {value.sum()}"
    if isinstance(value, list) and len(json.dumps(value)) > 60:
        return f"lists of {list(numpy.shape(value))}, sum {numpy.sum(value)}"
    return value


def rows_of(path):
    if path.endswith(".tar"):
        import webdataset
        for sample in webdataset.WebDataset(path, shardshuffle=False).decode():
            yield {k: v for k, v in sample.items() if k not in ("__url__", "__local_path__")}
        return
    if path.endswith(".parquet"):
        table = pyarrow.parquet.read_table(path)
    else:
        with pyarrow.ipc.open_file(path) as file:
            table = file.read_all()
    yield from table.to_pylist()


for folder in sys.argv[1:]:
    print("----", folder)
    for path in sorted(glob.glob(folder + "/part-*")):
        print(os.path.basename(path))
        for row in rows_of(path):
            print("  " + json.dumps({k: shown(v) for k, v in sorted(row.items())}))
