// What a run keeps that frees dead storages for good (simrd: RuntimeV1).
//
// A storage is dead once it has no external reference and no evicted dependents: no tensor of
// another storage that is undefined and has an input in it.
#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "trace_arrays.hpp"

namespace dtrdiag {

struct Banishing {
  std::vector<std::vector<Id>> inputs_left;  // inputs of each tensor that are not banished
  std::vector<std::vector<Id>> children;     // tensors computed from each, once per use and output
  std::vector<std::set<Id>> dependents;      // evicted dependents of each storage
  std::vector<std::uint8_t> banished;

  explicit Banishing(std::size_t tensors)
      : inputs_left(tensors), children(tensors), dependents(tensors), banished(tensors, 0) {}

  void created(Id op, const TraceArrays& trace) {
    const Row inputs = trace.inputs(op);
    for (Id tensor = trace.output_start[op]; tensor < trace.output_start[op + 1]; ++tensor) {
      inputs_left[tensor].assign(inputs.begin(), inputs.end());
      add_dependent(tensor, trace);
    }
    for (Id needed : inputs)
      for (Id tensor = trace.output_start[op]; tensor < trace.output_start[op + 1]; ++tensor)
        children[needed].push_back(tensor);
  }

  // Note an undefined tensor with the storages of its inputs.
  void add_dependent(Id tensor, const TraceArrays& trace) {
    for (Id needed : inputs_left[tensor]) {
      const Id storage = trace.tensor_storage[needed];
      if (storage != trace.tensor_storage[tensor]) dependents[storage].insert(tensor);
    }
  }

  static void remove_first(std::vector<Id>& list, Id id) {
    const auto at = std::find(list.begin(), list.end(), id);
    if (at != list.end()) list.erase(at);
  }
};

}  // namespace dtrdiag
