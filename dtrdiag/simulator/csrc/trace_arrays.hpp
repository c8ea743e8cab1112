// What the engine reads of a trace: columns, as dtrdiag.trace.model.Trace has them, checked once.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace dtrdiag {

using Id = std::int32_t;  // of an op, a tensor or a storage; a storage's id is its root tensor's
using Bytes = std::int64_t;
using Ns = std::int64_t;

constexpr Id kNone = -1;

// A storage's compute and both its regions come to three times the cost of all outputs at most, so
// this keeps them in 64 bits.
constexpr Ns kMostTotalNs = Ns{1} << 60;
constexpr Bytes kMostTotalBytes = Bytes{1} << 62;

// The trace has figures that 64 bits may not hold on the way; the Python engine serves.
struct Unsuitable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Step : std::int8_t { Call = 0, Constant = 1, Retain = 2, Release = 3, Output = 4 };

// A half-open row [begin, end) of a flat column.
struct Row {
  const Id* first;
  const Id* last;
  const Id* begin() const { return first; }
  const Id* end() const { return last; }
  std::size_t size() const { return static_cast<std::size_t>(last - first); }
  Id operator[](std::size_t index) const { return first[index]; }
};

struct TraceArrays {
  std::vector<Ns> op_cost_ns;         // [ops]
  std::vector<Id> input_start;        // [ops + 1] row starts of input_tensor
  std::vector<Id> input_tensor;       // [inputs] in argument order, repeated where an argument is
  std::vector<Id> output_start;       // [ops + 1]; the outputs of an op are consecutive tensors
  std::vector<Id> tensor_storage;     // [tensors]
  std::vector<Bytes> tensor_bytes;    // [tensors] 0 for an alias
  std::vector<Step> step_kind;        // [steps]
  std::vector<Id> step_operand;       // [steps] op or tensor

  std::vector<Id> op_of;              // [tensors]
  std::vector<Bytes> op_bytes;        // [ops] sum over the outputs
  Ns baseline_cost_ns = 0;

  Id ops() const { return static_cast<Id>(op_cost_ns.size()); }
  Id tensors() const { return static_cast<Id>(tensor_storage.size()); }
  std::size_t steps() const { return step_kind.size(); }

  Row inputs(Id op) const {
    return {input_tensor.data() + input_start[op], input_tensor.data() + input_start[op + 1]};
  }

  // Check every index, and fill in what follows from the columns.
  void finish();

 private:
  void check_rows(const std::vector<Id>& starts, std::size_t total) const;
  void check_ids() const;
  void add_up();
};

inline void TraceArrays::check_rows(const std::vector<Id>& starts, std::size_t total) const {
  bool good = starts.size() == op_cost_ns.size() + 1 && starts.front() == 0 &&
              static_cast<std::size_t>(starts.back()) == total;
  for (std::size_t i = 1; good && i < starts.size(); ++i) good = starts[i - 1] <= starts[i];
  if (!good) throw std::invalid_argument("row starts of a trace are not ascending to its end");
}

inline void TraceArrays::check_ids() const {
  if (tensor_bytes.size() != tensor_storage.size() || step_operand.size() != step_kind.size())
    throw std::invalid_argument("columns of a trace differ in length");
  for (Id op = 0; op < ops(); ++op) {
    if (output_start[op] == output_start[op + 1])
      throw std::invalid_argument("an op of a trace has no output");
    for (Id input : inputs(op))
      if (input < 0 || input >= output_start[op])
        throw std::invalid_argument("an op of a trace reads what no earlier op makes");
  }
  for (Id tensor = 0; tensor < tensors(); ++tensor) {
    const Id root = tensor_storage[tensor];
    if (root < 0 || root > tensor || tensor_storage[root] != root)
      throw std::invalid_argument("a tensor of a trace is in no storage");
  }
  std::vector<char> called(op_cost_ns.size(), 0);
  for (std::size_t step = 0; step < steps(); ++step) {
    const Id operand = step_operand[step];
    const bool call = step_kind[step] == Step::Call || step_kind[step] == Step::Constant;
    if (operand < 0 || operand >= (call ? ops() : tensors()))
      throw std::invalid_argument("a step of a trace names nothing");
    // Every tensor that a step or an op names has been created by then.
    if (call ? called[operand] : !called[op_of[operand]])
      throw std::invalid_argument("a trace calls an op twice, or names a tensor too early");
    if (call) {
      for (Id input : inputs(operand))
        if (!called[op_of[input]])
          throw std::invalid_argument("an op of a trace reads what is not there yet");
      called[operand] = 1;
    }
  }
}

inline void TraceArrays::add_up() {
  Bytes total_bytes = 0;
  for (Id op = 0; op < ops(); ++op) {
    if (op_cost_ns[op] < 0) throw std::invalid_argument("an op of a trace has a negative cost");
    if (op_cost_ns[op] > kMostTotalNs - baseline_cost_ns) throw Unsuitable("costs above 2**60 ns");
    baseline_cost_ns += op_cost_ns[op];
    for (Id tensor = output_start[op]; tensor < output_start[op + 1]; ++tensor) {
      if (tensor_bytes[tensor] < 0) throw std::invalid_argument("a negative size in a trace");
      if (tensor_bytes[tensor] > kMostTotalBytes - total_bytes)
        throw Unsuitable("sizes above 2**62 bytes");
      total_bytes += tensor_bytes[tensor];
      op_bytes[op] += tensor_bytes[tensor];
    }
  }
  // Every output has the cost of its op for its own, so an op counts once per output in a region.
  Ns spread = 0;
  for (Id tensor = 0; tensor < tensors(); ++tensor) {
    const Ns cost = op_cost_ns[op_of[tensor]];
    if (cost > kMostTotalNs - spread) throw Unsuitable("costs above 2**60 ns");
    spread += cost;
  }
}

inline void TraceArrays::finish() {
  check_rows(input_start, input_tensor.size());
  check_rows(output_start, tensor_storage.size());
  op_of.assign(tensor_storage.size(), 0);
  op_bytes.assign(op_cost_ns.size(), 0);
  for (Id op = 0; op < ops(); ++op)
    for (Id tensor = output_start[op]; tensor < output_start[op + 1]; ++tensor) op_of[tensor] = op;
  check_ids();
  add_up();
}

}  // namespace dtrdiag
