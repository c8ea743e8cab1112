"""A graph of two layers, and documents of other nodes."""

TWO_LAYERS = {
    "schema": "dtrdiag.graph/1",
    "name": "two-layers",
    "nodes": [
        {"name": "x", "constant": True, "memory": 40},
        {"name": "a", "cost": 5, "memory": 100, "dependencies": ["x"]},
        {"name": "b", "cost": 6, "memory": 60, "dependencies": [1]},
        {"name": "gb", "cost": 7, "memory": 60, "dependencies": ["b"], "backward": True},
        {"name": "ga", "cost": 8, "memory": 100, "dependencies": ["gb", "a"]},
    ],
}


def with_nodes(*nodes, **fields):
    return {"schema": "dtrdiag.graph/1", "nodes": list(nodes), **fields}
