// What happens in a run, decision for decision: the same rules as `machine.py` and `banish.py`.
//
// All of a run's state is in values, so a copy of a machine goes on by itself: a map of budgets
// goes back to the fit check at which the next budget parts from this one. Names in comments
// (`Q-...`) are found in docs/semantics.md.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "banishing.hpp"
#include "event_log.hpp"
#include "interventions.hpp"
#include "pool.hpp"
#include "storage_table.hpp"
#include "tally.hpp"
#include "tracked.hpp"

namespace dtrdiag {

// One op of the pending stack: an execution that waits for its inputs, or for room.
struct Frame {
  Id op;
  Id tensor;             // the output that is wanted
  bool first;            // first execution, not a rematerialisation
  std::size_t found;     // inputs that were missing, as far as they are back and locked
  std::size_t missing;   // where its missing inputs begin in `Machine::missing_`
  std::size_t held;      // where the storages that it locked begin in `Machine::held_`
  Seq seq;               // of its `materialise` event, if events are logged
};

enum class Outcome : std::uint8_t { Running, Ok, Oom, Thrashed };

enum class Dealloc : std::uint8_t { Eager, Ignore, Banish };

struct Rules {
  std::optional<Bytes> budget_bytes;    // none: unlimited
  Dealloc dealloc = Dealloc::Eager;
  std::optional<Ns> remat_limit_ns;     // stop once remat cost exceeds it
  std::shared_ptr<const Interventions> interventions = std::make_shared<const Interventions>();
};

// A tensor that was needed after its storage was banished.
struct NeededAfterBanish {
  Id tensor;
};

class Machine {
 public:
  Machine(const TraceArrays& trace, const Edges& edges, const Rules& rules, Uses uses)
      : table(static_cast<std::size_t>(trace.tensors())),
        tally(static_cast<std::size_t>(trace.tensors())),
        pool(static_cast<std::size_t>(trace.tensors())),
        tracked(edges, static_cast<std::size_t>(trace.tensors()), uses,
                rules.dealloc != Dealloc::Banish, rules.interventions->repairs),
        rules_(rules),
        repairs_(rules.interventions->repairs),
        budget_bytes_(rules.budget_bytes),
        trace_(&trace),
        members_(static_cast<std::size_t>(trace.tensors()), kNone),
        next_member_(members_),
        last_member_(members_),
        defined_(members_.size(), 0),
        pinned_(members_.size(), 0),
        locks_(members_.size(), 0),
        references_(members_.size(), 0) {
    if (rules.dealloc == Dealloc::Banish) banishing_.emplace(members_.size());
    for (Id storage : rules.interventions->keeps)
      if (storage < trace.tensors()) pool.bar(storage);
  }

  // Go on until the schedule ends, the run stops, or room must be made that is not there: then
  // `wants_victim()`, and the run goes on after `evict_for_room`.
  template <class OnFailedCheck>
  void run(OnFailedCheck on_failed_check);

  bool wants_victim() const { return wants_victim_; }
  void evict_for_room(const Choice& choice, const std::vector<Candidate>& losers) {
    wants_victim_ = false;
    if (log) log->chosen(pending_.back().op, choice.score, pool.size(), losers);
    evict(choice.storage, kPressure, checked_);
  }

  // Where no intervention has set the budget yet.
  void set_budget(Bytes budget_bytes) { budget_bytes_ = budget_bytes; }

  // How many executions and evictions there were.
  std::int64_t decisions() const { return static_cast<std::int64_t>(tally.decisions.size()); }

  Outcome outcome() const { return outcome_; }
  Ns clock_ns() const { return clock_ns_; }
  Bytes memory_bytes() const { return memory_bytes_; }
  const std::vector<Frame>& pending() const { return pending_; }
  Bytes requested_bytes() const { return trace_->op_bytes[pending_.back().op]; }

  // Storages that a pending op holds locked, in order, once per lock.
  Row held(std::size_t frame) const {
    const std::size_t end = frame + 1 < pending_.size() ? pending_[frame + 1].held : held_.size();
    return {held_.data() + pending_[frame].held, held_.data() + end};
  }

  bool pinned(Id storage) const { return pinned_[storage] != 0; }

  StorageTable table;
  Tally tally;
  Pool pool;
  Tracked tracked;
  EventLog* log = nullptr;  // takes the events; null when nobody listens

 private:
  enum class Phase : std::uint8_t { Next, Called, Wanted };

  // --- the schedule
  void begin_step();
  void end_step();
  void create_outputs(Id op);
  void pin_on_purpose(Id op);
  bool budget_is_own();
  void begin_output(Id tensor);
  void release(Id tensor);

  // --- materialising
  void push(Id tensor, bool first, Id for_op, Seq cause);
  Id next_missing(Frame& frame);
  void execute(const Frame& frame);
  void finish(const Frame& frame);
  void give_back(Id storage, Id op);
  void stop(Outcome outcome);

  // --- locks, pins, evictions
  void lock(Id storage, const Frame& frame);
  Seq unlock(Id storage, Id op);
  void pin(Id storage, Reason reason, Seq by);
  void evict(Id storage, Cause cause, Seq by);

  // --- what deallocation decides
  const Id* inputs_of(Id tensor, std::size_t& count) const;
  void unreferenced(Id storage, Seq by);
  void try_banish(Id storage, Seq by);
  void detach(Id tensor, Id storage, Seq by);

  template <class Visit>
  void each_member(Id storage, Visit visit) const {
    for (Id tensor = members_[storage]; tensor != kNone; tensor = next_member_[tensor])
      visit(tensor);
  }

  Id storage_of(Id tensor) const { return trace_->tensor_storage[tensor]; }

  Rules rules_;
  Repairs repairs_;
  std::optional<Bytes> budget_bytes_;  // of the next fit check
  std::size_t budgets_used_ = 0;       // of those that interventions set
  const TraceArrays* trace_;
  std::size_t step_ = 0;
  Phase phase_ = Phase::Next;
  Outcome outcome_ = Outcome::Running;
  bool wants_victim_ = false;
  Ns clock_ns_ = 1;
  Bytes memory_bytes_ = 0;
  Seq asked_ = 0;     // the event of the step at hand
  Seq checked_ = 0;   // the last fit check
  Seq executed_ = 0;  // the last execution

  std::vector<Frame> pending_;
  std::vector<Id> missing_;  // of all pending ops, outermost first
  std::vector<Id> held_;

  std::vector<Id> members_, next_member_, last_member_;  // tensors of each storage, linked
  std::vector<std::uint8_t> defined_;
  std::vector<std::uint8_t> pinned_;
  std::vector<std::int32_t> locks_;
  std::vector<std::int32_t> references_;
  std::optional<Banishing> banishing_;

  std::vector<Id> just_defined_, just_resident_, fresh_, giving_back_;
  std::vector<std::pair<Id, Ns>> grown_;
};

}  // namespace dtrdiag
