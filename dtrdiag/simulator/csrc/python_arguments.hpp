// What Python hands over, as values of the engine: traces, rules, policies, interventions.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "event_arrays.hpp"
#include "score_arrays.hpp"

namespace dtrdiag {

namespace py = pybind11;

template <class To>
std::vector<To> column(const Ints& values) {
  if (values.ndim() != 1) throw std::invalid_argument("a column has one dimension");
  const auto view = values.unchecked<1>();
  std::vector<To> made(static_cast<std::size_t>(view.shape(0)));
  for (py::ssize_t i = 0; i < view.shape(0); ++i) {
    made[static_cast<std::size_t>(i)] = static_cast<To>(view(i));
    if (static_cast<std::int64_t>(made[static_cast<std::size_t>(i)]) != view(i))
      throw Unsuitable("ids above 2**31");
  }
  return made;
}

template <class Value>
py::array_t<Value> array(const std::vector<Value>& values) {
  return py::array_t<Value>(static_cast<py::ssize_t>(values.size()), values.data());
}

inline std::shared_ptr<PreparedTrace> prepare(const Ints& op_cost_ns, const Ints& input_start,
                                       const Ints& input_tensor, const Ints& output_start,
                                       const Ints& tensor_storage, const Ints& tensor_bytes,
                                       const Ints& step_kind, const Ints& step_operand) {
  TraceArrays arrays;
  arrays.op_cost_ns = column<Ns>(op_cost_ns);
  arrays.input_start = column<Id>(input_start);
  arrays.input_tensor = column<Id>(input_tensor);
  arrays.output_start = column<Id>(output_start);
  arrays.tensor_storage = column<Id>(tensor_storage);
  arrays.tensor_bytes = column<Bytes>(tensor_bytes);
  for (std::int8_t kind : column<std::int8_t>(step_kind)) {
    if (kind < 0 || kind > static_cast<std::int8_t>(Step::Output))
      throw std::invalid_argument("an unknown kind of step");
    arrays.step_kind.push_back(static_cast<Step>(kind));
  }
  arrays.step_operand = column<Id>(step_operand);
  if (arrays.tensors() >= Id{1} << 30 || arrays.ops() >= Id{1} << 30)
    throw Unsuitable("more than 2**30 ops or tensors");
  py::gil_scoped_release unlocked;
  arrays.finish();
  return std::make_shared<PreparedTrace>(std::move(arrays));
}

// pybind11 passes None as no trace.
inline std::shared_ptr<PreparedTrace> there(std::shared_ptr<PreparedTrace> trace) {
  if (!trace) throw std::invalid_argument("no trace");
  return trace;
}

using Changes = std::shared_ptr<Interventions>;

inline Rules rules_of(std::optional<Bytes> budget_bytes, const std::string& dealloc,
               std::optional<Ns> remat_limit_ns, const Changes& changes) {
  Rules rules;
  if (changes) rules.interventions = changes;
  rules.budget_bytes = budget_bytes;
  rules.remat_limit_ns = remat_limit_ns;
  if (dealloc == "eager")
    rules.dealloc = Dealloc::Eager;
  else if (dealloc == "ignore")
    rules.dealloc = Dealloc::Ignore;
  else if (dealloc == "banish")
    rules.dealloc = Dealloc::Banish;
  else
    throw std::invalid_argument("unknown dealloc");
  return rules;
}

Factors factors_of(const std::string& cost, bool size, bool staleness) {
  static const std::pair<const char*, Cost> kCosts[] = {
      {"none", Cost::None},         {"local", Cost::Local}, {"backward", Cost::Backward},
      {"estar", Cost::Estar},       {"eq", Cost::Eq},       {"full", Cost::Full},
      {"last_access", Cost::LastAccess}, {"random", Cost::Random}};
  for (const auto& [name, value] : kCosts)
    if (cost == name) return {value, size, staleness};
  throw std::invalid_argument("unknown cost");
}

inline Repairs repairs_of(const std::vector<std::string>& names) {
  static const std::pair<const char*, bool Repairs::*> kRepairs[] = {
      {"uncomputed-neighbour", &Repairs::uncomputed_neighbour},
      {"stale-region", &Repairs::stale_region},
      {"phantom-credit", &Repairs::phantom_credit},
      {"zero-stops", &Repairs::zero_stops},
      {"live-iteration", &Repairs::live_iteration},
      {"banished-sibling", &Repairs::banished_sibling}};
  Repairs repairs;
  for (const std::string& wanted : names) {
    bool known = false;
    for (const auto& [name, member] : kRepairs)
      if (wanted == name) repairs.*member = known = true;
    if (!known) throw std::invalid_argument("unknown repair");
  }
  return repairs;
}

inline TieBreak tie_break_of(const std::string& wanted) {
  static const std::pair<const char*, TieBreak> kTieBreaks[] = {
      {"last", TieBreak::Last},
      {"first", TieBreak::First},
      {"lowest-id", TieBreak::LowestId},
      {"highest-id", TieBreak::HighestId}};
  for (const auto& [name, value] : kTieBreaks)
    if (wanted == name) return value;
  throw std::invalid_argument("unknown tie-break");
}

// Rows ascend; a victim is (index, storage or -1, forced), a policy (index, cost, size, staleness).
Changes changes_of(const std::vector<std::string>& repairs, const std::string& tie_break,
                   const std::vector<std::tuple<std::int64_t, Id, bool>>& victims,
                   const std::vector<std::tuple<std::int64_t, std::string, bool, bool>>& policies,
                   const std::vector<std::pair<std::int64_t, Bytes>>& budgets,
                   std::vector<Id> pins, std::vector<Id> keeps) {
  auto made = std::make_shared<Interventions>();
  made->repairs = repairs_of(repairs);
  made->tie_break = tie_break_of(tie_break);
  for (const auto& [at, storage, forced] : victims) made->victims.push_back({at, storage, forced});
  for (const auto& [at, cost, size, staleness] : policies)
    made->policies.push_back({at, factors_of(cost, size, staleness)});
  for (const auto& [at, budget_bytes] : budgets) made->budgets.push_back({at, budget_bytes});
  const auto below_zero = [](Id storage) { return storage < 0; };
  if (std::any_of(pins.begin(), pins.end(), below_zero) ||
      std::any_of(keeps.begin(), keeps.end(), below_zero))
    throw std::invalid_argument("a storage below 0");
  made->pins = std::move(pins);
  made->keeps = std::move(keeps);
  return made;
}

}  // namespace dtrdiag
