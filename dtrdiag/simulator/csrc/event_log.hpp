// The events of a run in packed columns, as dtrdiag.events.columns describes them.
//
// `machine.py` builds events one at a time, which is the definition; this is for logs of many
// millions. A column has an entry for each event whose kind has the field, in their order.
#pragma once

#include <cstdint>
#include <vector>

#include "policy.hpp"
#include "tally.hpp"
#include "trace_arrays.hpp"

namespace dtrdiag {

using Seq = std::int64_t;

// Codes of kinds and words; native.py compares them with the schema when it loads.
enum class Kind : std::uint8_t {
  Run, Op, Output, Reference, Materialise, Lock, Unlock, Fit, Evict, Compute, Rematerialise, Pin,
  Banish, Oom, Thrashed, End
};
enum class Reason : std::int32_t { First, Remat, Constant, Output, Banish, Intervention };

struct NullableInts {
  std::vector<std::int64_t> values;
  std::vector<std::uint8_t> valid;

  void add(std::int64_t value) { values.push_back(value), valid.push_back(1); }
  void add_null() { values.push_back(0), valid.push_back(0); }
};

struct IntLists {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int64_t> values;

  template <class Items>
  void add(const Items& items) {
    values.insert(values.end(), items.begin(), items.end());
    end();
  }
  void end() { offsets.push_back(static_cast<std::int64_t>(values.size())); }
};

struct ScoreColumn {
  std::vector<std::uint8_t> tags;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;

  void add(const Score& score) {
    tags.push_back(static_cast<std::uint8_t>(score.kind));
    reals.push_back(score.real);
    integers.push_back(score.integer);
  }
};

// One batch of events; `seq` of the first is `first_seq`.
struct EventBatch {
  Seq first_seq = 1;  // the run header has 0
  std::vector<std::uint8_t> kind;
  NullableInts cause_seq, op, for_op, pool_size;
  std::vector<std::int64_t> step, cost_ns, tensor, storage, delta, references, depth, locks,
      memory_bytes, requested_bytes, size_bytes, clock_ns, freed_bytes, budget_bytes,
      remat_cost_ns;
  std::vector<std::int32_t> name_op, reason, cause;
  std::vector<std::uint8_t> fits;
  IntLists inputs, outputs, storages, sizes_bytes, defined, resident;
  ScoreColumn score, loser_scores;
  IntLists losers;

  Seq begin(Kind of) {
    kind.push_back(static_cast<std::uint8_t>(of));
    return first_seq + static_cast<Seq>(kind.size()) - 1;
  }

  Seq caused(Kind of, Seq by) {
    cause_seq.add(by);
    return begin(of);
  }
};

class EventLog {
 public:
  explicit EventLog(const TraceArrays& trace) : trace_(&trace) {}

  std::size_t size() const { return batch_.kind.size(); }

  // The events so far; those to come are a new batch.
  EventBatch take() {
    EventBatch taken;
    taken.first_seq = batch_.first_seq + static_cast<Seq>(batch_.kind.size());
    std::swap(taken, batch_);
    return taken;
  }

  Seq op_defined(std::size_t step, Id op) {
    batch_.cause_seq.add_null();
    batch_.step.push_back(static_cast<std::int64_t>(step));
    batch_.op.add(op);
    batch_.name_op.push_back(op);
    batch_.cost_ns.push_back(trace_->op_cost_ns[op]);
    batch_.inputs.add(trace_->inputs(op));
    for (Id tensor = trace_->output_start[op]; tensor < trace_->output_start[op + 1]; ++tensor) {
      batch_.outputs.values.push_back(tensor);
      batch_.storages.values.push_back(trace_->tensor_storage[tensor]);
      batch_.sizes_bytes.values.push_back(trace_->tensor_bytes[tensor]);
    }
    batch_.outputs.end(), batch_.storages.end(), batch_.sizes_bytes.end();
    return batch_.begin(Kind::Op);
  }

  Seq output_requested(std::size_t step, Id tensor) {
    batch_.cause_seq.add_null();
    asked(step, tensor);
    return batch_.begin(Kind::Output);
  }

  Seq reference_changed(std::size_t step, Id tensor, int delta, std::int64_t references) {
    batch_.cause_seq.add_null();
    asked(step, tensor);
    batch_.delta.push_back(delta);
    batch_.references.push_back(references);
    return batch_.begin(Kind::Reference);
  }

  // `for_op`: the op that needs it; `kNone` where the model does.
  Seq materialise(Seq cause, Id op, Id tensor, bool first, Id for_op, std::size_t depth) {
    batch_.op.add(op);
    batch_.tensor.push_back(tensor);
    batch_.reason.push_back(static_cast<std::int32_t>(first ? Reason::First : Reason::Remat));
    if (for_op == kNone)
      batch_.for_op.add_null();
    else
      batch_.for_op.add(for_op);
    batch_.depth.push_back(static_cast<std::int64_t>(depth));
    return batch_.caused(Kind::Materialise, cause);
  }

  Seq lock(Seq cause, Id storage, Id op, std::int64_t locks) {
    return locks_changed(Kind::Lock, cause, storage, op, locks);
  }

  Seq unlock(Seq cause, Id storage, Id op, std::int64_t locks) {
    return locks_changed(Kind::Unlock, cause, storage, op, locks);
  }

  Seq fit_check(Seq cause, Id op, Bytes memory_bytes, Bytes requested_bytes, bool fits) {
    batch_.op.add(op);
    batch_.memory_bytes.push_back(memory_bytes);
    batch_.requested_bytes.push_back(requested_bytes);
    batch_.fits.push_back(fits);
    return batch_.caused(Kind::Fit, cause);
  }

  // An eviction that makes room for `op`, chosen by score.
  void chosen(Id op, const Score& score, std::size_t pool_size,
              const std::vector<Candidate>& losers) {
    batch_.op.add(op);
    batch_.score.add(score);
    batch_.pool_size.add(static_cast<std::int64_t>(pool_size));
    for (const Candidate& loser : losers) {
      batch_.losers.values.push_back(loser.storage);
      batch_.loser_scores.add(loser.score);
    }
    batch_.losers.end();
  }

  // One that makes room for nobody.
  void not_chosen() {
    batch_.op.add_null();
    batch_.score.add({});
    batch_.pool_size.add_null();
    batch_.losers.end();
  }

  Seq evict(Seq by, Id storage, Bytes size_bytes, Cause cause, Bytes memory_bytes, Ns clock_ns) {
    batch_.storage.push_back(storage);
    batch_.size_bytes.push_back(size_bytes);
    batch_.cause.push_back(cause);
    batch_.memory_bytes.push_back(memory_bytes);
    batch_.clock_ns.push_back(clock_ns);
    return batch_.caused(Kind::Evict, by);
  }

  Seq executed(Seq cause, bool first, Id op, Id tensor, const std::vector<Id>& defined,
               const std::vector<Id>& resident, Bytes freed_bytes, Bytes memory_bytes,
               Ns clock_ns) {
    batch_.op.add(op);
    batch_.tensor.push_back(tensor);
    batch_.cost_ns.push_back(trace_->op_cost_ns[op]);
    batch_.defined.add(defined);
    batch_.resident.add(resident);
    batch_.freed_bytes.push_back(freed_bytes);
    batch_.memory_bytes.push_back(memory_bytes);
    batch_.clock_ns.push_back(clock_ns);
    return batch_.caused(first ? Kind::Compute : Kind::Rematerialise, cause);
  }

  Seq pin(Seq cause, Id storage, Reason reason, std::int64_t locks) {
    batch_.storage.push_back(storage);
    batch_.reason.push_back(static_cast<std::int32_t>(reason));
    batch_.locks.push_back(locks);
    return batch_.caused(Kind::Pin, cause);
  }

  Seq banish(Seq cause, Id storage) {
    batch_.storage.push_back(storage);
    return batch_.caused(Kind::Banish, cause);
  }

  Seq out_of_memory(Seq cause, Id op, Bytes requested_bytes, Bytes memory_bytes,
                    Bytes budget_bytes, std::size_t depth) {
    batch_.op.add(op);
    batch_.requested_bytes.push_back(requested_bytes);
    batch_.memory_bytes.push_back(memory_bytes);
    batch_.budget_bytes.push_back(budget_bytes);
    batch_.depth.push_back(static_cast<std::int64_t>(depth));
    return batch_.caused(Kind::Oom, cause);
  }

  Seq thrashed(Seq cause, Ns remat_cost_ns) {
    batch_.remat_cost_ns.push_back(remat_cost_ns);
    return batch_.caused(Kind::Thrashed, cause);
  }

 private:
  void asked(std::size_t step, Id tensor) {
    batch_.step.push_back(static_cast<std::int64_t>(step));
    batch_.tensor.push_back(tensor);
    batch_.storage.push_back(trace_->tensor_storage[tensor]);
  }

  Seq locks_changed(Kind kind, Seq cause, Id storage, Id op, std::int64_t locks) {
    batch_.storage.push_back(storage);
    batch_.op.add(op);
    batch_.locks.push_back(locks);
    return batch_.caused(kind, cause);
  }

  const TraceArrays* trace_;
  EventBatch batch_;
};

}  // namespace dtrdiag
