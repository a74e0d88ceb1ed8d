#!/usr/bin/env python3
"""sbom.py BUILD_FOLDER OUTPUT FILE...: write what is in programs and libraries that ninja has built (FILE, in the build folder),
as CycloneDX 1.5 JSON.

It asks the build, not a list: the headers that the compiler read for the objects of the targets, the archives that the linker
read, and the shared libraries that the results name. dpkg says to which package each belongs. The property `trainrun:linkage`
of a component says how its code gets there: `static` (an archive), `headers` (templates and inline functions), `embedded` (a
file in a program) or `dynamic` (a shared library of the system, which is updated without us)."""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
ORDER = ["static", "embedded", "headers", "dynamic"]  # a component has the first that applies


def run(*argv: str | Path, check: bool = True) -> str:
    return subprocess.run([str(word) for word in argv], check=check, capture_output=True, text=True).stdout


def packages_of(files: set[str]) -> dict[str, str]:
    """Return the Debian package of each file that has one. Debian 12 has its libraries in /usr/lib, and dpkg may know them by
    /lib."""
    names = {name: path for path in files for name in {path, path.removeprefix("/usr")}}
    found: dict[str, str] = {}
    listed = sorted(names)
    for begin in range(0, len(listed), 2000):
        for line in run("dpkg-query", "-S", *listed[begin : begin + 2000], check=False).splitlines():
            package, _, path = line.partition(": ")
            if path in names and not package.startswith("diversion "):
                found[names[path]] = package.split(",")[0].strip()
    return found


def version_of(package: str) -> tuple[str, str]:
    """Return the version and the source package."""
    return tuple(run("dpkg-query", "-W", "-f", "${Version}\t${source:Package}", package).split("\t"))


def read_build(build: Path, targets: list[str]) -> tuple[set[str], set[str]]:
    """Return the headers and archives outside the sources and the build."""
    inputs = run("ninja", "-C", build, "-t", "inputs", *targets).split("\n")
    archives = {path for path in inputs if path.endswith(".a") and path.startswith("/")}
    objects = [path for path in inputs if path.endswith((".o", ".gch"))]
    headers = set()
    for begin in range(0, len(objects), 500):
        for line in run("ninja", "-C", build, "-t", "deps", *objects[begin : begin + 500]).splitlines():
            if line.startswith("    /"):
                headers.add(line.strip())
    own = (str(SOURCE), str(build.resolve()))
    return {path for path in headers if not path.startswith(own)}, archives


def libraries_of(build: Path, targets: list[str]) -> set[str]:
    """Return the paths of the shared libraries that the targets name themselves."""
    cache = dict(re.findall(r"^\s*(\S+) \(.*x86-64.*\) => (\S+)", run("/sbin/ldconfig", "-p"), re.M))
    names = set()
    for target in targets:
        names |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", build / target)))
    return {str(Path(cache[name]).resolve()) for name in names if name in cache}


def compilers_own(build: Path, targets: list[str]) -> set[str]:
    """Return libstdc++.a if a target has it: the compiler adds it, so that the build does not name it."""
    linked = [target for target in targets if not target.endswith(".a")]
    if all("libstdc++.so" in run("readelf", "-d", build / target) for target in linked):
        return set()
    return {str(Path(run("g++", "-print-file-name=libstdc++.a").strip()).resolve())}


def main(build: Path, output: Path, targets: list[str]) -> None:
    headers, archives = read_build(build, targets)
    archives |= compilers_own(build, targets)
    linkage: dict[tuple[str, str, str], str] = {}  # (name, version, purl) → how

    def add(name: str, version: str, purl: str, how: str) -> None:
        before = linkage.get((name, version, purl), how)
        linkage[name, version, purl] = min(before, how, key=ORDER.index)

    embedded = {"/usr/share/javascript/dygraphs/dygraph.min.js"}
    for files, how in ((headers, "headers"), (archives, "static"), (embedded, "embedded"), (libraries_of(build, targets), "dynamic")):
        owners = packages_of(files)
        for package in sorted(set(owners.values())):
            version, source = version_of(package)
            name = package.split(":")[0]
            add(name, version, f"pkg:deb/debian/{name}@{version}?distro=debian-12&upstream={source}", how)
        for path in files - owners.keys():  # the private folder of packaging/deps/install.sh
            if match := re.search(r"/trainrun/deps/([a-z]+)-([0-9.]+)/", path):
                add(match.group(1), match.group(2), f"pkg:generic/{match.group(1)}@{match.group(2)}", how)
    version = re.search(r"^project\(trainrun VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text(), re.M).group(1)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "trainrun", "version": version,
                                   "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": [
            {"type": "library", "name": name, "version": number, "purl": purl,
             "properties": [{"name": "trainrun:linkage", "value": how}]}
            for (name, number, purl), how in sorted(linkage.items())],
    }
    output.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{output}: {len(linkage)} components")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
