"""Does a sweep on two dask workers survive SIGKILL, whoever is killed and when?

Kills a worker, the scheduler or the client at random moments, resumes with `--resume`, and checks:
no result that was in the folder is ever lost; the client either finishes, or ends with one line and
status 2; and at the end the results equal those of a sweep that nobody disturbed. A sweep that
finishes before all kills are spent is begun anew in another folder.

    python benchmarks/kill_sweep.py [--kills 50] [--seed 1]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet

GRID = ["chain-64", "residual-12", "recurrent-16", "tree-4", "-p", "dtr", "-p", "lru"]
GRID += ["--ratios", "0.3:0.9:0.01"]
VICTIMS = ("worker 0", "worker 1", "scheduler", "client")
MOMENT_SECONDS = 12.0
"""A kill comes at most so long after the client starts or the last kill."""
LIMIT_SECONDS = 180.0
"""A client that keeps no new result for so long hangs."""
NOTED = ("budget_bytes", "ratio", "simulate_seconds", "engine")
"""Columns that depend on which budget of an interval was run, and where."""
QUIET = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
PROGRAM = [sys.executable, "-m", "dtrdiag"]

Process = subprocess.Popen[str]


class Cluster:
    """A scheduler and two workers, each a process that is started again when it is gone."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.folder = folder
        self.processes: dict[str, Process] = {}

    def supervise(self) -> None:
        for name in VICTIMS[:3]:
            process = self.processes.get(name)
            if process is None or process.poll() is not None:
                self.processes[name] = self._start(name)

    def _start(self, name: str) -> Process:
        if name == "scheduler":
            command = ["distributed.cli.dask_scheduler", "--host", self.address, *QUIET]
        else:
            command = ["distributed.cli.dask_worker", self.address, "--no-nanny", *QUIET]
            command += ["--host", "127.0.0.1"]
            command += ["--nthreads", "1", "--death-timeout", "60"]
            command += ["--local-directory", str(self.folder)]
        with open(self.folder / "dask.log", "a", encoding="utf-8") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *command], stdout=log, stderr=log, text=True
            )

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


def kept_rows(folder: Path) -> dict[tuple[str, int], str]:
    """Digest of decisions of every result in a folder, by its key and interval."""
    rows = {}
    for path in folder.glob("runs/*/*.parquet"):
        with contextlib.suppress(FileNotFoundError):  # put together with others meanwhile
            table = pyarrow.parquet.read_table(
                path, columns=["interval_lo_bytes", "decisions_sha256"], partitioning=None
            )
            for row in table.to_pylist():
                rows[path.parent.name, row["interval_lo_bytes"]] = row["decisions_sha256"]
    return rows


def table_of(folder: Path) -> list[tuple[Any, ...]]:
    """All rows of a folder, sorted, each once, without the columns `NOTED`."""
    rows = set()
    for path in folder.glob("runs/*/*.parquet"):
        table = pyarrow.parquet.read_table(path, partitioning=None)
        for row in table.drop_columns(list(NOTED)).to_pylist():
            rows.add((path.parent.name, *(repr(value) for value in row.values())))
    return sorted(rows)


def answer_of(folder: Path) -> list[dict[str, Any]]:
    """What `sweep --resume --json` says, without what differs from one call to the next."""
    command = [*PROGRAM, "sweep", "--resume", "-o", str(folder), "-j", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    volatile = ("simulate_seconds", "reused_from", "engine")
    runs = json.loads(done.stdout)["runs"]
    missing = sum(run["reused_from"] is None for run in runs)
    if missing:
        sys.exit(f"FAILED: {missing} runs of a finished sweep were not kept")
    return [{k: v for k, v in run.items() if k not in volatile} for run in runs]


class Siege:
    """Sweeps under fire, until the kills are spent and the last sweep is complete."""

    def __init__(self, base: Path, kills: int, seed: int) -> None:
        self.base, self.left, self.dice = base, kills, random.Random(seed)
        self.cluster = Cluster(base)
        self.told: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()
        self.lines: Counter[str] = Counter()

    def run(self) -> list[Path]:
        folders: list[Path] = []
        try:
            while self.left or not folders:
                folders.append(self.base / f"sweep-{len(folders)}")
                self.sweep(folders[-1])
                print(f"{folders[-1].name} finished; {self.left} kills left", flush=True)
        finally:
            self.cluster.end()
        return folders

    def sweep(self, folder: Path) -> None:
        """Begin a sweep, and resume it until it finishes."""
        while True:
            self.cluster.supervise()
            asked = ["--resume"] if (folder / "request.json").exists() else GRID
            command = [*PROGRAM, "sweep", *asked, "-o", str(folder), "--dask", self.cluster.address]
            client = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for killed in self.attack(client, folder):
                if killed in ("scheduler", "client"):
                    break
            status = self.ended(client, folder)
            self.told[f"client ended with status {status}"] += 1
            if status == 0:
                return

    def attack(self, client: Process, folder: Path) -> Iterator[str]:
        """Kill somebody at random moments while the client runs."""
        while self.left:
            if not self.waited(client, self.dice.uniform(0, MOMENT_SECONDS)):
                return
            before = kept_rows(folder)
            name = self.dice.choice(VICTIMS)
            victim = client if name == "client" else self.cluster.processes[name]
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            self.left -= 1
            self.killed[name] += 1
            after = kept_rows(folder)
            if not before.items() <= after.items():
                sys.exit(f"FAILED: results were lost when the {name} was killed")
            print(f"killed the {name}: {len(after)} results kept", flush=True)
            yield name
            self.cluster.supervise()

    def waited(self, client: Process, seconds: float) -> bool:
        """Whether the client still ran after that time."""
        try:
            client.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def ended(self, client: Process, folder: Path) -> int:
        """Wait for the client to finish, or to give up in one line."""
        seen, since = 0, time.monotonic()
        while self.waited(client, 1):
            self.cluster.supervise()
            if (kept := len(kept_rows(folder))) != seen:
                seen, since = kept, time.monotonic()
            if time.monotonic() - since > LIMIT_SECONDS:
                client.kill()
                said = client.communicate()[1]
                sys.exit(f"FAILED: the client hangs; on standard error: {said!r}")
        _, err = client.communicate()
        status = client.returncode
        if status == 2 and err.startswith("dtrdiag: error: ") and err.count("\n") == 1:
            self.lines[err.strip().replace(str(self.base), "...")] += 1
        elif err or status not in (0, -signal.SIGKILL):
            sys.exit(f"FAILED: status {status} and on standard error:\n{err[-3000:]}")
        return status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kill-sweep-") as name:
        base = Path(name)
        calm = base / "undisturbed"
        subprocess.run(
            [*PROGRAM, "sweep", *GRID, "-o", str(calm), "-j", "2"],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        print(f"undisturbed: {len(kept_rows(calm))} results", flush=True)
        siege = Siege(base, options.kills, options.seed)
        folders = siege.run()
        for folder in folders:
            if table_of(folder) != table_of(calm) or answer_of(folder) != answer_of(calm):
                sys.exit(f"FAILED: {folder.name} differs from the undisturbed sweep")
            left = [p for p in folder.rglob("*") if p.is_file() and p.suffix == ".dtrdiag-tmp"]
            print(f"{folder.name} equals the undisturbed sweep; {len(left)} unfinished files left")
        for what, count in [*siege.killed.items(), *siege.told.items(), *siege.lines.items()]:
            print(f"{count:4} x {what}")
    print(f"passed: {options.kills} kills in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    if os.name == "nt":
        sys.exit("SIGKILL is needed")
    main()
