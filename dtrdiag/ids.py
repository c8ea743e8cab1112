"""What the integers in traces, events and analyses name.

All three count from 0 in the order of first execution in the schedule. A storage's id is the id of
its root tensor, the one that is no alias.
"""

from __future__ import annotations

from typing import NewType

OpId = NewType("OpId", int)
TensorId = NewType("TensorId", int)
StorageId = NewType("StorageId", int)
