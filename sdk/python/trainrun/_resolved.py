"""What train-run makes of a spec, before it runs it (`--print-config`)."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass

from ._failures import ControllerError, error_of
from ._result import Result


@dataclass(frozen=True)
class SpecValue:
    """A value of the spec, as text."""

    text: str = ""
    given: bool = False  #: by somebody, so that it is no default


def resolved_spec(program: str, words: list[str]) -> str:
    """Return the complete spec, in YAML, of what train-run is told. Raises SpecError with all mistakes."""
    try:
        ended = subprocess.run([program, words[0], "--print-config", *words[1:]], stdin=subprocess.DEVNULL, capture_output=True)
    except OSError as error:
        raise ControllerError(f"cannot start '{program}': {error.strerror or error}", Result()) from None
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").rstrip("\n")
        raise error_of(Result(outcome="refused", exit_code=ended.returncode), said or f"train-run ended with {ended.returncode}", None)
    return ended.stdout.decode(errors="replace")


def value_of(spec: str, key: str, section: str = "") -> SpecValue:
    """Return a value of resolved_spec(), at its top or in a section there."""
    within = rf"^{section}:\n(?:  .*\n)*?  " if section else "^"
    found = re.search(rf"{within}{key}: (.*)$", spec, re.MULTILINE)
    if found is None:
        return SpecValue()
    if not found[1].startswith('"'):
        text, _, origin = found[1].partition("  # ")
        return SpecValue(text, origin != "default")
    text, end = json.JSONDecoder().raw_decode(found[1])
    return SpecValue(text, found[1][end:] != "  # default")


def escaped(text: str) -> str:
    """Write a text so that train-run takes no part of it for a variable."""
    return text.replace("${", "$${")


def unescaped(text: str) -> str:
    return text.replace("$${", "${")
