// The machine's schedule: what each step of a trace does, and how a run goes on and stops.
#pragma once

#include "machine.hpp"

namespace dtrdiag {

template <class OnFailedCheck>
void Machine::run(OnFailedCheck on_failed_check) {
  while (outcome_ == Outcome::Running) {
    if (pending_.empty()) {
      if (phase_ != Phase::Next) end_step();
      begin_step();
      continue;
    }
    Frame& frame = pending_.back();
    const Id missing = next_missing(frame);
    if (missing != kNone) {
      push(missing, false);
      continue;
    }
    // The only place where the budget is read.
    Bytes total_bytes;
    if (__builtin_add_overflow(memory_bytes_, requested_bytes(), &total_bytes))
      throw Unsuitable("memory above 2**63 bytes");
    const bool fits = !rules_.budget_bytes || total_bytes <= *rules_.budget_bytes;
    if (!fits) on_failed_check(*this, total_bytes);
    tally.checked(total_bytes, fits);
    if (!fits) {
      if (pool.empty()) {
        outcome_ = Outcome::Oom;
        return;
      }
      wants_victim_ = true;
      return;
    }
    execute(frame);
    finish(frame);
    if (rules_.remat_limit_ns && tally.remat_cost_ns > *rules_.remat_limit_ns) {
      outcome_ = Outcome::Thrashed;
      return;
    }
    missing_.resize(frame.missing);
    held_.resize(frame.held);
    pending_.pop_back();
  }
}

inline void Machine::begin_step() {
  if (step_ == trace_->steps()) {
    outcome_ = Outcome::Ok;
    return;
  }
  const Id operand = trace_->step_operand[step_];
  switch (trace_->step_kind[step_]) {
    case Step::Call:
    case Step::Constant:
      create_outputs(operand);
      push(trace_->output_start[operand], true);
      phase_ = Phase::Called;
      return;
    case Step::Output:
      begin_output(operand);
      return;
    case Step::Retain:
      ++references_[storage_of(operand)];
      break;
    case Step::Release:
      release(operand);
      break;
  }
  ++step_;
}

// What remains of a step once its tensor is there.
inline void Machine::end_step() {
  const Id operand = trace_->step_operand[step_];
  if (phase_ == Phase::Called) {
    for (Id tensor = trace_->output_start[operand]; tensor < trace_->output_start[operand + 1];
         ++tensor)
      table.last_access_ns[storage_of(tensor)] = clock_ns_;
    tracked.call_done();
    if (trace_->step_kind[step_] == Step::Constant)
      pin(storage_of(trace_->output_start[operand]));
  } else {
    pin(storage_of(operand));
  }
  phase_ = Phase::Next;
  ++step_;
}

inline void Machine::create_outputs(Id op) {
  fresh_.clear();
  grown_.clear();
  for (Id tensor = trace_->output_start[op]; tensor < trace_->output_start[op + 1]; ++tensor) {
    const Id storage = storage_of(tensor);
    if (storage == tensor) {
      fresh_.push_back(storage);
      table.size_bytes[storage] = trace_->tensor_bytes[tensor];
    }
    // Outputs of one op in one storage are neighbours in `members`: count its cost once.
    const Id last = last_member_[storage];
    if (last == kNone || trace_->op_of[last] != op) {
      table.compute_ns[storage] += trace_->op_cost_ns[op];
      if (storage != tensor) grown_.push_back({storage, trace_->op_cost_ns[op]});
    }
    (last == kNone ? members_[storage] : next_member_[last]) = tensor;
    last_member_[storage] = tensor;
    ++references_[storage];
  }
  bool waits = false;
  for (Id input : trace_->inputs(op)) waits = waits || !defined_[input];
  // From here on the new storages count as non-resident neighbours (Q-uncomputed-neighbour).
  tracked.called(op, fresh_, waits, grown_, table);
  if (banishing_) banishing_->created(op, *trace_);
}

// The model wants a tensor at the end: make it defined, and keep it.
inline void Machine::begin_output(Id tensor) {
  phase_ = Phase::Wanted;
  if (!defined_[tensor]) push(tensor, false);
}

inline void Machine::release(Id tensor) {
  const Id storage = storage_of(tensor);
  if (--references_[storage] == 0) unreferenced(storage);
}

}  // namespace dtrdiag
