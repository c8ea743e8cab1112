"""Random traces in which tight runs go on for long."""

from random import Random

from dtrdiag.trace import TraceBuilder


def dense_trace(number):
    """A trace in which much is released and little wanted at the end, so that tight runs go on."""
    rng = Random(number)
    builder = TraceBuilder("dense")
    live, made = [], 0
    least = 0 if number % 4 == 0 else 1
    for name in ("c", "d"):
        builder.constant(name, rng.randint(1, 9))
        live.append(name)
    for _ in range(rng.randint(12, 45)):
        args = [rng.choice(live[-9:]) for _ in range(rng.randint(1, 4))]
        if rng.random() < 0.07:
            builder.mutate("mutate", [args[0]], [0], rng.randint(0, 9))
        else:
            results = [f"t{made + i}" for i in range(rng.choice((1, 1, 1, 2, 3)))]
            made += len(results)
            sizes = [rng.randint(least, 9) for _ in results]
            most = len(args) - 1 if number % 3 == 0 or len(set(args)) == 1 else -1
            share = 0.2 if most >= 0 else 0
            aliases = [rng.randint(0, most) if rng.random() < share else -1 for _ in results]
            builder.call(results, "op", args, rng.randint(least, 9), sizes, aliases)
            live += results
        while len(live) > 6 and rng.random() < 0.55:
            builder.release(live.pop(rng.randrange(len(live) - 3)))
    while len(live) > 2:
        builder.release(live.pop(0))
    return builder.build("0" * 64)
