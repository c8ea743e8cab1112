"""What a diff says after the runs have parted, worked out event by event from the definitions."""

# mypy: no-check-untyped-defs

from fractions import Fraction


class NaiveRun:
    """The steps of one run: what each left resident, and which decisions it took."""

    def __init__(self, events):
        self.begun, self.decisions, self.resident, self.paid_ns = [0], {0: []}, {}, {}
        self.sizes, resident, paid_ns = {}, set(), 0
        began = False
        for event in events:
            if event.kind in ("op", "reference", "output"):
                if event.step != self.begun[-1]:
                    self.begun.append(event.step)
                    self.decisions[event.step] = []
                began = True
            if event.kind == "op":
                for storage, size in zip(event.storages, event.sizes_bytes, strict=True):
                    self.sizes.setdefault(storage, size)
            elif event.kind == "evict":
                resident.discard(event.storage)
                self.decisions[self.begun[-1]].append(("E", event.storage, event.cause))
            elif event.kind in ("compute", "rematerialise"):
                resident.update(event.resident)
                letter = "C" if event.kind == "compute" else "R"
                paid_ns += event.cost_ns if letter == "R" else 0
                self.decisions[self.begun[-1]].append((letter, event.op, event))
            self.resident[self.begun[-1]] = frozenset(resident)
            self.paid_ns[self.begun[-1]] = paid_ns
        assert began
        self.total_ns = paid_ns
        self.finished = events[-1].kind == "end" and events[-1].outcome == "ok"

    def state(self, step):
        latest = max(each for each in self.begun if each <= step)
        return self.resident[latest], self.paid_ns[latest]

    def texts(self, after):
        return [
            (step, [decision[:2] for decision in self.decisions[step]])
            for step in self.begun
            if step > after and self.decisions[step]
        ]

    def parted(self, index):
        for step in self.begun:
            index -= len(self.decisions[step])
            if index < 0:
                return step
        return self.begun[-1]

    def re_evictions(self, until):
        """By storage: evictions under pressure, re-evictions, and what brought it back."""
        counts = {}
        for step in self.begun:
            if until is not None and step > until:
                break
            for letter, subject, what in self.decisions[step]:
                if letter == "E":
                    found = counts.setdefault(subject, [0, 0, [], False])
                    if what == "pressure":
                        found[1] += found[0] > 0
                        found[0] += 1
                    found[3] = what == "pressure"
                    continue
                for storage in what.resident:
                    if storage in counts and counts[storage][3]:
                        counts[storage][2].append(what)
                        counts[storage][3] = False
        return counts


def compared_steps(a, b, parted):
    ends = [run.begun[-1] for run in (a, b) if not run.finished]
    stopped = min(ends, default=None)
    steps = sorted({*a.begun, *b.begun})
    return [s for s in steps if s >= parted and (stopped is None or s < stopped)], stopped


def jaccard(a, b, weight):
    both, either = (sum(map(weight, which)) for which in (a & b, a | b))
    return float(Fraction(both, either)) if either else 1.0


def accrued(extra, steps, percent):
    """By trying every step."""
    if not steps or not extra[-1]:
        return None
    for at, step in enumerate(steps):
        if all(Fraction(later, extra[-1]) * 100 >= percent for later in extra[at:]):
            return step
    raise AssertionError("the last step has all of it")


def rejoined(a, b, steps):
    for at, step in enumerate(steps):
        alike = all(a.state(later)[0] == b.state(later)[0] for later in steps[at:])
        if alike and a.texts(step) == b.texts(step):
            return step
    return None
