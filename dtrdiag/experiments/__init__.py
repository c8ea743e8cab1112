"""Many runs of the simulator that answer one question: grids of budgets, exact maps.

```python
from dtrdiag.experiments import sweep
from dtrdiag.simulator import RunConfig
from dtrdiag.trace.catalog import resolve

trace = resolve("chain-64")
runs = sweep([(trace, RunConfig("dtr", budget)) for budget in (4_000_000, 8_000_000)], jobs=1)
```
"""

from typing import TYPE_CHECKING

from dtrdiag.ondemand import on_demand

if TYPE_CHECKING:
    from dtrdiag.experiments.sweeps import SweepRun, sweep

__all__ = ["SweepRun", "sweep"]

__getattr__, __dir__ = on_demand(__name__, {"sweeps": ("SweepRun", "sweep")})
