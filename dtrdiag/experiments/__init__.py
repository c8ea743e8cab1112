"""Many runs of the simulator that answer one question: grids of budgets, exact maps."""
