// A run under a built-in policy, and all runs of a range of budgets.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "machine.hpp"
#include "machine_execution.hpp"
#include "machine_steps.hpp"
#include "policy.hpp"

namespace dtrdiag {

// A trace, prepared: shared by all its runs, never changed by them.
struct PreparedTrace {
  TraceArrays arrays;
  Edges edges;

  explicit PreparedTrace(TraceArrays&& finished)
      : arrays(std::move(finished)), edges(arrays) {}
};

struct Policy {
  Factors factors;
  std::uint64_t seed = 0;
  std::size_t candidates = 0;    // how many losers each pressure eviction lists
  bool cached_regions = false;   // see `Uses`

  Uses uses() const {
    Uses uses;
    uses.regions = factors.cost == Cost::Estar || factors.cost == Cost::Backward;
    uses.classes = factors.cost == Cost::Eq;
    uses.graph = factors.cost == Cost::Full;
    uses.cached_regions = cached_regions;
    return uses;
  }
};

// The evictions under pressure, in order.
struct Choices {
  std::vector<Id> victims;
  std::vector<Score> chosen;
  std::vector<std::size_t> losers_end;  // [evictions] row ends of `losers`, if they are listed
  std::vector<Candidate> losers;
};

class Run {
 public:
  Run(const PreparedTrace& trace, const Rules& rules, const Policy& policy)
      : machine(trace.arrays, trace.edges, rules, policy.uses()),
        chooser_(policy.factors, policy.seed, policy.candidates),
        lists_losers_(policy.candidates > 0) {}

  // Go on to the end, or until the log has so many events: then `machine.outcome()` is `Running`.
  template <class OnFailedCheck>
  void finish(Choices* choices, OnFailedCheck on_failed_check, std::size_t most_events = 0) {
    for (;;) {
      if (!machine.wants_victim()) machine.run(on_failed_check);
      if (!machine.wants_victim()) return;
      if (machine.log && most_events && machine.log->size() >= most_events) return;
      const Choice choice =
          chooser_.choose(machine.pool, machine.clock_ns(), machine.table, machine.tracked);
      if (choices) note(choice, *choices);
      machine.evict_for_room(choice, chooser_.losers());
    }
  }

  void finish(Choices* choices, std::size_t most_events = 0) {
    finish(choices, [](const Machine&, Bytes) {}, most_events);
  }

  Machine machine;

 private:
  void note(const Choice& choice, Choices& choices) const {
    choices.victims.push_back(choice.storage);
    choices.chosen.push_back(choice.score);
    if (!lists_losers_) return;
    const auto& losers = chooser_.losers();
    choices.losers.insert(choices.losers.end(), losers.begin(), losers.end());
    choices.losers_end.push_back(choices.losers.size());
  }

  PolicyChooser chooser_;
  bool lists_losers_;
};

// Runs at ascending budgets, each from where it parts from the one before.
//
// A run at its own `hi` makes the same decisions up to the first fit check of exactly `hi` bytes,
// which then fits. So each run leaves a copy of itself at the check that set `hi`, just before the
// check was noted, and the next one goes on from there.
class RunsBetween {
 public:
  RunsBetween(const PreparedTrace& trace, const Rules& rules, const Policy& policy,
              Bytes from_bytes, Bytes to_bytes)
      : next_(std::in_place, trace, rules, policy), budget_bytes_(from_bytes), to_bytes_(to_bytes) {}

  // The run of the next interval, or nothing after the last that meets the range.
  const Run* next() {
    if (!next_ || budget_bytes_ > to_bytes_) return nullptr;
    run_.emplace(std::move(*next_));
    next_.reset();
    run_->machine.set_budget(budget_bytes_);
    run_->finish(nullptr, [&](const Machine& machine, Bytes total_bytes) {
      if (total_bytes <= to_bytes_ && machine.tally.lowers_hi(total_bytes)) next_ = *run_;
    });
    ran_at_ = budget_bytes_;
    if (run_->machine.tally.fit_hi_bytes) budget_bytes_ = *run_->machine.tally.fit_hi_bytes;
    return &*run_;
  }

  Bytes ran_at_bytes() const { return ran_at_; }

 private:
  std::optional<Run> next_;
  std::optional<Run> run_;
  Bytes budget_bytes_;
  Bytes to_bytes_;
  Bytes ran_at_ = 0;
};

}  // namespace dtrdiag
