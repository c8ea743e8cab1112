// A run under a built-in policy, and all runs of a range of budgets.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "chooser.hpp"
#include "machine.hpp"
#include "machine_execution.hpp"
#include "machine_steps.hpp"

namespace dtrdiag {

// A trace, prepared: shared by all its runs, never changed by them.
struct PreparedTrace {
  TraceArrays arrays;
  Edges edges;

  explicit PreparedTrace(TraceArrays&& finished)
      : arrays(std::move(finished)), edges(arrays) {}
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
      : machine(trace.arrays, trace.edges, rules, policy.uses(*rules.interventions)),
        chooser_(policy, rules.interventions),
        lists_losers_(policy.candidates > 0) {}

  // Go on to the end, or until the log has so many events: then `machine.outcome()` is `Running`.
  template <class OnFailedCheck>
  void finish(Choices* choices, OnFailedCheck on_failed_check, std::size_t most_events = 0) {
    for (;;) {
      if (!machine.wants_victim()) advance(on_failed_check);
      if (!machine.wants_victim()) {
        chooser_.check_passed(machine.decisions());
        return;
      }
      if (machine.log && most_events && machine.log->size() >= most_events) return;
      const Choice choice = chooser_.choose(
          machine.decisions(), {machine.pool, machine.clock_ns(), machine.table, machine.tracked});
      if (choices) note(choice, *choices);
      machine.evict_for_room(choice, chooser_.losers());
    }
  }

  void finish(Choices* choices, std::size_t most_events = 0) {
    finish(choices, [](const Machine&, Bytes) {}, most_events);
  }

  Machine machine;

 private:
  template <class OnFailedCheck>
  void advance(OnFailedCheck on_failed_check) {
    try {
      machine.run(on_failed_check);
    } catch (const NeededAfterBanish&) {
      chooser_.check_passed(machine.decisions());  // what went wrong first is said
      throw;
    }
  }

  void note(const Choice& choice, Choices& choices) const {
    choices.victims.push_back(choice.storage);
    choices.chosen.push_back(choice.score);
    if (!lists_losers_) return;
    const auto& losers = chooser_.losers();
    choices.losers.insert(choices.losers.end(), losers.begin(), losers.end());
    choices.losers_end.push_back(choices.losers.size());
  }

  Chooser chooser_;
  bool lists_losers_;
};

// Runs at ascending budgets, each from where it parts from the one before.
//
// A run at its own `hi` makes the same decisions up to the first fit check of exactly `hi` bytes,
// which then fits. So whenever a check lowers `hi`, a run leaves a copy of itself, made before the
// check was noted. The next run goes on from the last copy; the copies before it are states of that
// run too, and serve when it finds no lower `hi` of its own.
class RunsBetween {
 public:
  RunsBetween(const PreparedTrace& trace, const Rules& rules, const Policy& policy,
              Bytes from_bytes, Bytes to_bytes)
      : trace_(&trace), rules_(rules), policy_(policy), next_bytes_(from_bytes),
        to_bytes_(to_bytes), done_(from_bytes > to_bytes) {}

  // The run of the next interval, or nothing after the last that meets the range.
  const Run* next() {
    if (done_) return nullptr;
    begin();
    ran_at_bytes_ = next_bytes_;
    run_->finish(nullptr, [&](const Machine& machine, Bytes total_bytes) {
      if (total_bytes <= to_bytes_ && machine.tally.lowers_hi(total_bytes)) keep(total_bytes);
    });
    const std::optional<Bytes> hi = run_->machine.tally.fit_hi_bytes;
    done_ = !hi || *hi > to_bytes_;
    if (!done_) next_bytes_ = *hi;
    return run_.get();
  }

  Bytes ran_at_bytes() const { return ran_at_bytes_; }

 private:
  // So many copies are kept at most: the oldest go first, and a run without one starts anew.
  static constexpr std::size_t kMostCopies = 48;

  struct Copy {
    Bytes total_bytes;
    std::unique_ptr<Run> run;
  };

  void begin() {
    if (!copies_.empty() && copies_.back().total_bytes == next_bytes_) {
      std::swap(run_, copies_.back().run);
      spare_ = std::move(copies_.back().run);
      copies_.pop_back();
      run_->machine.set_budget(next_bytes_);
      return;
    }
    copies_.clear();
    Rules rules = rules_;
    rules.budget_bytes = next_bytes_;
    run_ = std::make_unique<Run>(*trace_, rules, policy_);
  }

  void keep(Bytes total_bytes) {
    if (copies_.size() == kMostCopies) {
      spare_ = std::move(copies_.front().run);
      copies_.erase(copies_.begin());
    }
    if (spare_)
      *spare_ = *run_;  // into memory that is there
    else
      spare_ = std::make_unique<Run>(*run_);
    copies_.push_back({total_bytes, std::move(spare_)});
  }

  const PreparedTrace* trace_;
  Rules rules_;
  Policy policy_;
  std::unique_ptr<Run> run_;
  std::unique_ptr<Run> spare_;
  std::vector<Copy> copies_;  // descending in bytes, ascending in time
  Bytes next_bytes_;
  Bytes to_bytes_;
  bool done_;
  Bytes ran_at_bytes_ = 0;
};

}  // namespace dtrdiag
