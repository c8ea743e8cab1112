// The machine's executions: inputs, locks, pins, evictions, and what deallocation makes of them.
#pragma once

#include "machine.hpp"

namespace dtrdiag {

inline void Machine::push(Id tensor, bool first, Id for_op, Seq cause) {
  Frame frame{trace_->op_of[tensor], tensor, first, 0, missing_.size(), held_.size(), 0};
  std::size_t count;
  const Id* inputs = inputs_of(tensor, count);
  if (log)
    frame.seq = log->materialise(cause, frame.op, tensor, first, for_op, pending_.size() + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const Id storage = storage_of(inputs[i]);
    if (!banishing_ || references_[storage]) table.last_access_ns[storage] = clock_ns_;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (!defined_[inputs[i]]) missing_.push_back(inputs[i]);
  pending_.push_back(frame);
  for (std::size_t i = 0; i < count; ++i)
    if (defined_[inputs[i]]) lock(storage_of(inputs[i]), frame);
}

// Lock inputs that came back in the meantime; the next one still undefined, or `kNone`.
inline Id Machine::next_missing(Frame& frame) {
  while (frame.missing + frame.found < missing_.size()) {
    const Id needed = missing_[frame.missing + frame.found];
    if (!defined_[needed]) return needed;
    lock(storage_of(needed), frame);
    ++frame.found;
  }
  return kNone;
}

inline void Machine::execute(const Frame& frame) {
  const Id op = frame.op;
  just_defined_.assign(1, frame.tensor);
  just_resident_.clear();
  Bytes freed_bytes = 0;
  const auto resident = [&](Id storage) {
    if (table.residency[storage] == kAbsent) just_resident_.push_back(storage);
  };
  for (Id tensor = trace_->output_start[op]; tensor < trace_->output_start[op + 1]; ++tensor) {
    if (tensor == frame.tensor) continue;
    // What was freed for good comes back with its sibling (Q-banished-sibling).
    if (repairs_.banished_sibling && banishing_ && banishing_->banished[storage_of(tensor)]) {
      freed_bytes += trace_->tensor_bytes[tensor];
      continue;
    }
    // Computed a second time although it is there: freed at once.
    if (defined_[tensor])
      freed_bytes += trace_->tensor_bytes[tensor];
    else
      just_defined_.push_back(tensor);
    resident(storage_of(tensor));
  }
  resident(storage_of(frame.tensor));
  if (__builtin_add_overflow(clock_ns_, trace_->op_cost_ns[op], &clock_ns_))
    throw Unsuitable("a clock above 2**63 ns");
  memory_bytes_ += trace_->op_bytes[op];
  tally.executed(op, trace_->op_cost_ns[op], frame.first, memory_bytes_);
  memory_bytes_ -= freed_bytes;
  for (Id tensor : just_defined_) defined_[tensor] = 1;
  if (frame.first && repairs_.uncomputed_neighbour) tracked.called(op, fresh_, false, table);
  for (Id storage : just_resident_) {
    table.residency[storage] = kResident;
    pool.append(storage);
  }
  tracked.became_resident(just_resident_, table);
  if (log)
    executed_ = log->executed(frame.seq, frame.first, op, frame.tensor, just_defined_,
                              just_resident_, freed_bytes, memory_bytes_, clock_ns_);
}

// An op was executed: give its locks back, in argument order.
inline void Machine::finish(const Frame& frame) {
  if (!banishing_) {
    for (Id input : trace_->inputs(frame.op)) unlock(storage_of(input), frame.op);
    return;
  }
  // A banished input leaves `inputs` while this loop walks that very list by index, so the input
  // after it is skipped: it stays locked for good (Q-live-iteration).
  const std::vector<Id>& inputs = banishing_->inputs_left[frame.tensor];
  if (repairs_.live_iteration) {
    giving_back_ = inputs;
    for (Id input : giving_back_)
      if (!banishing_->banished[storage_of(input)]) give_back(storage_of(input), frame.op);
    return;
  }
  for (std::size_t position = 0; position < inputs.size(); ++position)
    give_back(storage_of(inputs[position]), frame.op);
}

inline void Machine::give_back(Id storage, Id op) {
  const Seq unlocked = unlock(storage, op);
  for (Id tensor : just_defined_)
    if (storage_of(tensor) != storage) banishing_->dependents[storage].erase(tensor);
  try_banish(storage, unlocked);
}

inline void Machine::lock(Id storage, const Frame& frame) {
  if (locks_[storage] == 0) pool.remove(storage);
  ++locks_[storage];
  held_.push_back(storage);
  if (log) log->lock(frame.seq, storage, frame.op, locks_[storage]);
}

inline Seq Machine::unlock(Id storage, Id op) {
  if (--locks_[storage] == 0) pool.append(storage);
  return log ? log->unlock(executed_, storage, op, locks_[storage]) : 0;
}

// Lock for good: a pin is one more lock that nobody gives back.
inline void Machine::pin(Id storage, Reason reason, Seq by) {
  if (pinned_[storage]) return;
  if (locks_[storage] == 0) pool.remove(storage);
  ++locks_[storage];
  pinned_[storage] = 1;
  if (!banishing_) table.residency[storage] = kPinned;
  if (log) log->pin(by, storage, reason, locks_[storage]);
}

inline void Machine::evict(Id storage, Cause cause, Seq by) {
  if (banishing_)
    each_member(storage, [&](Id tensor) { banishing_->add_dependent(tensor, *trace_); });
  table.residency[storage] = kAbsent;
  memory_bytes_ -= table.size_bytes[storage];
  pool.remove(storage);
  each_member(storage, [&](Id tensor) { defined_[tensor] = 0; });
  tally.evicted(storage, cause);
  tracked.evicted(storage, table);
  if (!log) return;
  if (cause != kPressure) log->not_chosen();
  log->evict(by, storage, table.size_bytes[storage], cause, memory_bytes_, clock_ns_);
}

inline const Id* Machine::inputs_of(Id tensor, std::size_t& count) const {
  if (!banishing_) {
    const Row inputs = trace_->inputs(trace_->op_of[tensor]);
    count = inputs.size();
    return inputs.begin();
  }
  const std::vector<Id>& inputs = banishing_->inputs_left[tensor];
  if (banishing_->banished[storage_of(tensor)]) throw NeededAfterBanish{tensor};
  for (Id needed : inputs)
    if (banishing_->banished[storage_of(needed)]) throw NeededAfterBanish{needed};
  count = inputs.size();
  return inputs.data();
}

// The last external reference to a storage went.
inline void Machine::unreferenced(Id storage, Seq by) {
  if (banishing_)
    try_banish(storage, by);
  else if (rules_.dealloc == Dealloc::Eager && table.residency[storage] != kAbsent &&
           !pinned_[storage])
    evict(storage, kRelease, by);
}

inline void Machine::try_banish(Id storage, Seq by) {
  if (references_[storage] || !banishing_->dependents[storage].empty() ||
      banishing_->banished[storage])
    return;
  if (table.residency[storage] != kAbsent) {
    locks_[storage] = 0;
    pinned_[storage] = 0;
    evict(storage, kBanish, by);
  }
  banishing_->banished[storage] = 1;
  if (log) by = log->banish(by, storage);
  each_member(storage, [&](Id tensor) { detach(tensor, storage, by); });
  tracked.detached(storage);
}

// Cut a banished tensor's edges; pin what was computed from it.
inline void Machine::detach(Id tensor, Id storage, Seq by) {
  for (Id needed : banishing_->inputs_left[tensor]) {
    const Id other = storage_of(needed);
    if (other == storage) continue;
    banishing_->dependents[other].erase(tensor);
    Banishing::remove_first(banishing_->children[needed], tensor);
  }
  for (Id child : banishing_->children[tensor]) {
    const Id other = storage_of(child);
    if (other == storage) continue;
    Banishing::remove_first(banishing_->inputs_left[child], tensor);
    pin(other, Reason::Banish, by);
  }
}

}  // namespace dtrdiag
