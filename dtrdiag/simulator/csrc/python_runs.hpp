// Runs as Python holds them: finished, in steps, with events in batches, over a range of budgets.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python_arguments.hpp"

namespace dtrdiag {

inline const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::Ok: return "ok";
    case Outcome::Oom: return "oom";
    case Outcome::Thrashed: return "thrashed";
    case Outcome::Running: break;
  }
  return "running";
}

// Counts of a run so far, by the names of the fields of the `end` event.
inline py::dict totals(const Machine& machine) {
  const Tally& tally = machine.tally;
  py::dict made;
  made["outcome"] = name_of(machine.outcome());
  made["computes"] = tally.computes;
  made["remats"] = tally.remats;
  made["remat_cost_ns"] = tally.remat_cost_ns;
  made["evictions_pressure"] = tally.evictions[kPressure];
  made["evictions_release"] = tally.evictions[kRelease];
  made["evictions_banish"] = tally.evictions[kBanish];
  made["distinct_evicted"] = tally.distinct_any;
  made["distinct_pressure"] = tally.distinct[kPressure];
  made["distinct_release"] = tally.distinct[kRelease];
  made["distinct_banish"] = tally.distinct[kBanish];
  made["max_memory_bytes"] = tally.max_memory_bytes;
  made["memory_bytes"] = machine.memory_bytes();
  made["clock_ns"] = machine.clock_ns();
  made["interval_lo_bytes"] = tally.fit_lo_bytes;
  made["interval_hi_bytes"] = tally.fit_hi_bytes;
  return made;
}

// Where a run stopped: op, request, memory, pending ops, pinned and evictable storages.
inline py::object stop(const Machine& machine) {
  if (machine.outcome() != Outcome::Oom && machine.outcome() != Outcome::Thrashed)
    return py::none();
  py::list pending;
  for (std::size_t i = 0; i < machine.pending().size(); ++i) {
    const Frame& frame = machine.pending()[i];
    const Row held = machine.held(i);
    pending.append(py::make_tuple(frame.op, frame.tensor, frame.first,
                                  std::vector<Id>(held.begin(), held.end())));
  }
  std::vector<Id> pinned;
  const Id tensors = static_cast<Id>(machine.table.residency.size());
  for (Id id = 0; id < tensors; ++id)
    if (machine.pinned(id) && machine.table.residency[id] != kAbsent) pinned.push_back(id);
  const Bytes requested = machine.outcome() == Outcome::Oom ? machine.requested_bytes() : 0;
  return py::make_tuple(machine.pending().back().op, requested, machine.memory_bytes(), pending,
                        pinned, machine.pool.storages());
}

inline py::bytes text_of(const Machine& machine, std::size_t begin, std::size_t end) {
  const std::size_t size = machine.tally.decisions.size();
  return decisions_text(machine.tally.decisions, std::min(begin, size), std::min(end, size));
}

// What a finished run hands over.
struct Finished {
  std::shared_ptr<PreparedTrace> trace;  // kept for as long as the run looks into it
  Run run;
  Choices choices;
};

inline py::object score_object(const Score& score) {
  switch (score.kind) {
    case Score::kInteger: return py::int_(score.integer);
    case Score::kReal: return py::float_(score.real);
    case Score::kNothing: break;
  }
  return py::none();
}

inline py::list chosen(const Finished& done) {
  py::list made;
  for (const Score& score : done.choices.chosen) made.append(score_object(score));
  return made;
}

inline py::list losers(const Finished& done) {
  py::list rows;
  std::size_t begin = 0;
  for (std::size_t end : done.choices.losers_end) {
    py::list row;
    for (; begin < end; ++begin) {
      const Candidate& loser = done.choices.losers[begin];
      row.append(py::make_tuple(loser.storage, score_object(loser.score)));
    }
    rows.append(row);
  }
  return rows;
}

// A run that a Python policy decides: it stops whenever it needs a victim.
struct Steps {
  std::shared_ptr<PreparedTrace> trace;
  Machine machine;

  bool advance() {
    py::gil_scoped_release unlocked;
    machine.run([](const Machine&, Bytes) {});
    return machine.wants_victim();
  }

  void evict(Id storage) {
    if (!machine.wants_victim() || storage < 0 ||
        static_cast<std::size_t>(storage) >= machine.table.residency.size() ||
        !machine.pool.contains(storage))
      throw std::invalid_argument("no such storage in the pool");
    machine.evict_for_room({storage, {}}, {});
  }

  py::array_t<std::int64_t> column(const std::string& name) {
    std::vector<std::int64_t> made;
    const StorageTable& table = machine.table;
    constexpr Ns no_limit = Ns{1} << 62;
    const auto each = [&](auto value) {
      for (Id id : machine.pool.slots())
        if (id != kNone) made.push_back(value(id));
    };
    if (name == "storages")
      each([&](Id id) { return static_cast<std::int64_t>(id); });
    else if (name == "size_bytes")
      each([&](Id id) { return table.size_bytes[id]; });
    else if (name == "compute_ns")
      each([&](Id id) { return table.compute_ns[id]; });
    else if (name == "last_access_ns")
      each([&](Id id) { return table.last_access_ns[id]; });
    else if (name == "forward_ns")
      each([&](Id id) { return machine.tracked.forward_ns(id, no_limit, table); });
    else if (name == "backward_ns")
      each([&](Id id) { return machine.tracked.backward_ns(id, no_limit, table); });
    else if (name == "eq_ns")
      each([&](Id id) { return machine.tracked.eq_ns(id, table); });
    else if (name == "neighbourhood_ns")
      each([&](Id id) { return machine.tracked.neighbourhood(id, table).cost_ns; });
    else if (name == "neighbourhood_access_ns")
      each([&](Id id) { return machine.tracked.neighbourhood(id, table).last_access_ns; });
    else
      throw std::invalid_argument("no such column");
    return array(made);
  }
};

// A run whose events are taken in batches.
struct Logged {
  std::shared_ptr<PreparedTrace> trace;
  EventLog log;
  Run run;

  Logged(std::shared_ptr<PreparedTrace> prepared, const Rules& rules, const Policy& policy)
      : trace(std::move(prepared)), log(trace->arrays), run(*trace, rules, policy) {
    run.machine.log = &log;
  }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;

  py::dict next(std::size_t most_events) {
    EventBatch batch;
    {
      py::gil_scoped_release unlocked;
      run.finish(nullptr, most_events);
      batch = log.take();
    }
    return arrays(std::move(batch));
  }
};

struct Range {
  std::shared_ptr<PreparedTrace> trace;
  RunsBetween runs;
  const Run* run = nullptr;

  bool next() {
    py::gil_scoped_release unlocked;
    run = runs.next();
    return run != nullptr;
  }

  const Machine& machine() const {
    if (!run) throw std::invalid_argument("no run at hand");
    return run->machine;
  }
};

}  // namespace dtrdiag
