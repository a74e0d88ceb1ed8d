#!/usr/bin/env python3
"""completion_test.py BUILD_FOLDER SHELL: press Tab in a real bash, zsh or fish, and compare what the line becomes or what is
offered. The shell loads packaging/completion. Skipped (exit code 77) if the shell is missing."""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUBS = Path(__file__).resolve().parents[2] / "packaging/completion"
DEADLINE_S = 30
PROMPT = "ready> "

# What is typed before Tab → what the line becomes.
COMPLETED = {
    "train-run stat": "train-run status ",
    "train-run checkpoint ver": "train-run checkpoint verify ",
    "train-run logs --str": "train-run logs --stream ",
    "train-run logs --stream er": "train-run logs --stream err ",
    "train-run run job.yaml --output=j": "train-run run job.yaml --output=json ",
    "train-run run job.yaml --set scal": "train-run run job.yaml --set scaling_config.",
    "train-run run job.yaml --set scaling_config.use": "train-run run job.yaml --set scaling_config.use_gpu=",
    "train-run run job.yaml --set scaling_config.use_gpu=t": "train-run run job.yaml --set scaling_config.use_gpu=true ",
    "train-run run job.yaml --hosts gpu-1:7070,gpu-2": "train-run run job.yaml --hosts gpu-1:7070,gpu-2:7070 ",
    "train-run status vi": "train-run status vit-1 ",
    "train-run checkpoint verify vit-1 checkpoint_": "train-run checkpoint verify vit-1 checkpoint_000007 ",
    "train-run vali": "train-run validate ",
    "train-run onl": "train-run only.yaml ",
    "train-run -n 4 --dry-r": "train-run -n 4 --dry-run ",
    "train-run -n 4 -- ./onl": "train-run -n 4 -- ./only.yaml ",
    "train-run --dry-run only.yaml --prin": "train-run --dry-run only.yaml --print-config ",
}


def make_home(folder: Path) -> dict[str, str]:
    run = folder / "train_results/vit-1"
    (run / "checkpoints/checkpoint_000007").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (folder / "train_results/vit-other").mkdir()  # no run
    (folder / "only.yaml").write_text("")
    (folder / "job.yaml").write_text("")
    # The menu of zsh asks nothing, and its cache stays in this folder.
    (folder / ".zshrc").write_text(
        f"fpath=({STUBS} $fpath); autoload -U compinit; compinit -u -d {folder}/cache; PROMPT='{PROMPT}'; RPROMPT=\n"
        "unsetopt zle_bracketed_paste prompt_sp; unset zle_bracketed_paste; setopt no_beep\n")
    (folder / ".bashrc").write_text(
        f"source {STUBS}/train-run.bash; PS1='{PROMPT}'; bind 'set enable-bracketed-paste off' 'set bell-style none'\n")
    environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return environment | {"HOME": str(folder), "ZDOTDIR": str(folder), "TERM": "dumb", "COLUMNS": "200", "LC_ALL": "C.UTF-8",
                          "TRAINRUN_HOSTS": "gpu-1:7070,gpu-2:7070", "XDG_DATA_HOME": str(folder / "data"),
                          "XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, argv: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.seen = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(argv[0], argv, environment)
        self.wait_for(PROMPT)

    def read(self, seconds: float) -> bool:
        if not select.select([self.terminal], [], [], seconds)[0]:
            return False
        self.seen += os.read(self.terminal, 65536).decode(errors="replace")
        return True

    def wait_for(self, wanted: str) -> bool:
        end = time.monotonic() + DEADLINE_S
        while wanted not in self.plain():
            if not self.read(end - time.monotonic()):
                return False
        return True

    def plain(self) -> str:
        """Return what the terminal shows: without sequences, and with what was erased erased."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x07", "", self.seen)
        while "\b" in text:
            text = re.sub(r"[^\b]\b|^\b", "", text, count=1)
        return text

    def complete(self, typed: str, wanted: str) -> str:
        """Type, press Tab, and return the line, which is echoed once more by `#`-ing it out."""
        self.seen = ""
        os.write(self.terminal, typed.encode() + b"\t")
        found = self.wait_for(wanted)
        shown = self.plain()
        os.write(self.terminal, b"\x15")  # ^U: empty the line
        os.write(self.terminal, b"echo next''line\r")
        self.wait_for("nextline")
        self.wait_for(PROMPT)
        return wanted if found else shown

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def in_fish(typed: str, folder: Path, environment: dict[str, str]) -> str:
    """Return the line with the only candidate that fish offers, or all candidates."""
    script = f"source {STUBS}/train-run.fish; complete --do-complete (cat line)"
    (folder / "line").write_text(typed)
    done = subprocess.run(["fish", "--no-config", "-c", script], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    words = [line.split("\t")[0] for line in done.stdout.splitlines()]
    if len(words) != 1:
        return f"{words} {done.stderr}"
    head = typed[: typed.rfind(" ") + 1]
    return head + words[0] + ("" if words[0][-1] in ".=," else " ")


def main(build: str, name: str) -> int:
    if shutil.which(name) is None:
        print(f"completion_test: skipped: needs {name}")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        environment = make_home(folder) | {"PATH": f"{Path(build).resolve()}/bin:/usr/bin:/bin"}
        shell = None
        if name != "fish":
            argv = {"bash": ["bash", "--noprofile", "--rcfile", f"{home}/.bashrc", "-i"], "zsh": ["zsh", "-i"]}[name]
            shell = Shell(argv, folder, environment)
        for typed, wanted in COMPLETED.items():
            became = shell.complete(typed, wanted) if shell else in_fish(typed, folder, environment)
            if became != wanted:
                failed += 1
                print(f"completion_test: {name}: {typed!r} became {became!r}, not {wanted!r}")
        if shell:
            shell.close()
    print(f"completion_test: {name}: {len(COMPLETED) - failed} of {len(COMPLETED)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
