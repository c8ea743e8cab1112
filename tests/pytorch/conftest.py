"""What tests of recording and running PyTorch share; without torch they are skipped."""

import gc
import importlib.util
import os

import pytest

MISSING = importlib.util.find_spec("torch") is None
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_configure(config):
    """A run that was told to have torch does not pass without it."""
    if MISSING and os.environ.get("DTRDIAG_TORCH") == "1":
        raise pytest.UsageError("DTRDIAG_TORCH=1, but torch is not installed")


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Kernels of small tensors lose more to threads that wait for each other than they gain."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def quick_collections():
    """Each recording collects garbage first, which takes long among all the modules of torch.

    What is there by now stays for good, so collections need not look at it; whatever a test
    leaves behind is looked at as ever.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        torch.ones(1) + 1  # loads the rest of them
    gc.collect()
    gc.freeze()
