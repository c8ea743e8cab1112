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
      push(missing, false, frame.op, frame.seq);
      continue;
    }
    // The only place where the budget is read.
    Bytes total_bytes;
    if (__builtin_add_overflow(memory_bytes_, requested_bytes(), &total_bytes))
      throw Unsuitable("memory above 2**63 bytes");
    const bool own = budget_is_own();
    const bool fits = !budget_bytes_ || total_bytes <= *budget_bytes_;
    if (own) {
      if (!fits) on_failed_check(*this, total_bytes);
      tally.checked(total_bytes, fits);
    }
    if (log)
      checked_ = log->fit_check(frame.seq, frame.op, memory_bytes_, requested_bytes(), fits);
    if (!fits) {
      wants_victim_ = !pool.empty();
      if (!wants_victim_) stop(Outcome::Oom);
      return;
    }
    execute(frame);
    finish(frame);
    if (rules_.remat_limit_ns && tally.remat_cost_ns > *rules_.remat_limit_ns) {
      stop(Outcome::Thrashed);
      return;
    }
    missing_.resize(frame.missing);
    held_.resize(frame.held);
    pending_.pop_back();
  }
}

inline void Machine::stop(Outcome outcome) {
  outcome_ = outcome;
  if (!log) return;
  if (outcome == Outcome::Oom)
    log->out_of_memory(checked_, pending_.back().op, requested_bytes(), memory_bytes_,
                       *budget_bytes_, pending_.size());
  else
    log->thrashed(executed_, tally.remat_cost_ns);
}

// Whether the budget of the next fit check is the run's own: one that an intervention sets stays, and
// its checks say nothing about the interval.
inline bool Machine::budget_is_own() {
  const auto& budgets = rules_.interventions->budgets;
  while (budgets_used_ < budgets.size() && budgets[budgets_used_].at <= decisions())
    budget_bytes_ = budgets[budgets_used_++].value;
  return budgets_used_ == 0;
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
      if (log) asked_ = log->op_defined(step_, operand);
      push(trace_->output_start[operand], true, kNone, asked_);
      phase_ = Phase::Called;
      return;
    case Step::Output:
      begin_output(operand);
      return;
    case Step::Retain:
      ++references_[storage_of(operand)];
      if (log) log->reference_changed(step_, operand, +1, references_[storage_of(operand)]);
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
      pin(storage_of(trace_->output_start[operand]), Reason::Constant, executed_);
    pin_on_purpose(operand);
  } else {
    pin(storage_of(operand), Reason::Output, asked_);
  }
  phase_ = Phase::Next;
  ++step_;
}

inline void Machine::pin_on_purpose(Id op) {
  if (rules_.interventions->pins.empty()) return;
  for (Id tensor = trace_->output_start[op]; tensor < trace_->output_start[op + 1]; ++tensor)
    if (storage_of(tensor) == tensor && rules_.interventions->pins_storage(tensor))
      pin(tensor, Reason::Intervention, executed_);
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
  if (!repairs_.uncomputed_neighbour) tracked.called(op, fresh_, waits, table);
  tracked.grew(grown_, table);
  if (banishing_) banishing_->created(op, *trace_);
}

// The model wants a tensor at the end: make it defined, and keep it.
inline void Machine::begin_output(Id tensor) {
  phase_ = Phase::Wanted;
  if (log) asked_ = log->output_requested(step_, tensor);
  if (!defined_[tensor]) push(tensor, false, kNone, asked_);
}

inline void Machine::release(Id tensor) {
  const Id storage = storage_of(tensor);
  --references_[storage];
  if (log) asked_ = log->reference_changed(step_, tensor, -1, references_[storage]);
  if (references_[storage] == 0) unreferenced(storage, asked_);
}

}  // namespace dtrdiag
