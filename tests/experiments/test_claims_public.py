"""The claims that come with dtrdiag, on the public traces."""

import pytest

from dtrdiag.experiments.claims import differing, own_ledger, read_ledger, run_claims

QUICK_TO_TEST = ("resnet32-inversion", "resnet32-pinned-frontier", "resnet32-inversion-mechanism")


@pytest.mark.usefixtures("traces_archive", "native_engine")
def test_claims_come_to_what_is_written_down():
    ledger = read_ledger(own_ledger())
    claims = [claim for claim in ledger.claims if claim.id in QUICK_TO_TEST]
    judged = run_claims(ledger, claims)
    assert [one.status for one in judged] == ["observed", "demonstrated", "observed"]
    assert differing(ledger, judged) == []


@pytest.mark.slow
@pytest.mark.usefixtures("traces_archive", "native_engine")
def test_all_of_them_do():
    ledger = read_ledger(own_ledger())
    assert differing(ledger, run_claims(ledger, ledger.claims)) == []
