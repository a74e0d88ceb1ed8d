"""python -m trainrun: run the train-run of this installation, or say where its parts are."""

from __future__ import annotations

import os
import sys

from ._places import cmake_prefix_path, library, program

_USAGE = """usage: python -m trainrun ARGUMENTS...            the same as train-run ARGUMENTS...
       python -m trainrun --cmake-prefix-path     for cmake -DCMAKE_PREFIX_PATH=
       python -m trainrun --library               the path of libtrainrun.so
       python -m trainrun --program train-run|traind
"""


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["--cmake-prefix-path"]:
            print(cmake_prefix_path())
        elif arguments == ["--library"]:
            print(library())
        elif arguments[:1] == ["--program"] and len(arguments) == 2:
            print(program(arguments[1]))
        elif not arguments:
            sys.stderr.write(_USAGE)
            return 2
        else:
            path = program("train-run")
            sys.stdout.flush()
            os.execv(path, [path, *arguments])
    except FileNotFoundError as error:
        print(f"trainrun: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main(sys.argv[1:]))
