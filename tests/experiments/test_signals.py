import os
import signal
import subprocess
import sys
import textwrap

import pytest

from dtrdiag.cli.terminating import Terminated, terminable
from dtrdiag.experiments.executors import interrupts_held_back

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals differ")


def script(text, *arguments):
    """Run a module of its own; its pipes end when the last process that it started does."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_signal_is_not_lost_when_what_held_it_back_fails():
    with pytest.raises(Terminated), terminable(), interrupts_held_back():  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        raise RuntimeError


def test_a_process_that_is_started_after_sigterm_can_be_ended():
    shows = "import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
    with terminable():
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # once was enough
        assert script(shows) == (0, "True\n", "")


def test_workers_of_a_local_cluster_never_see_an_interrupt():
    found = script(
        """
        import signal
        from dtrdiag.experiments.cluster import DaskWorkers

        if __name__ == "__main__":
            with DaskWorkers("local", 1) as workers:
                blocked = workers.submit(signal.pthread_sigmask, signal.SIG_BLOCK, []).result()
            print(signal.SIGINT in blocked)
        """
    )
    assert found == (0, "True\n", "")


def test_a_killed_sweep_on_a_local_cluster_leaves_no_process_and_no_words():
    found = script(
        """
        import os, signal
        from dtrdiag.experiments.cluster import DaskWorkers

        if __name__ == "__main__":
            with DaskWorkers("local", 1) as workers:
                os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert found == (-signal.SIGKILL, "", "")


AT_THE_START = """
    import multiprocessing, os, signal, sys, threading, time
    from dtrdiag.cli import main

    def interrupt():
        # As `timeout` does: it asks all processes to end, not just the first.
        while len(multiprocessing.active_children()) < 2:
            time.sleep(0.01)
        time.sleep(0.3)
        for process in multiprocessing.active_children():
            process.kill()
        os.kill(os.getpid(), int(sys.argv[1]))

    if __name__ == "__main__":
        threading.Thread(target=interrupt, daemon=True).start()
        sys.exit(main(["sweep", "chain-64", "--ratios", "0.2,0.5", "--dask", "local", "-j", "2"]))
"""


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_workers_that_are_just_being_started_are_ended(number, status, said):
    found = script(AT_THE_START, str(int(number)))
    assert found == (status, "", f"dtrdiag: {said}\n")
