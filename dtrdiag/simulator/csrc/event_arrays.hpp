// A batch of events as numpy arrays, by column: what native.py turns into EventColumns.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <utility>
#include <vector>

#include "event_log.hpp"

namespace dtrdiag {

// An array that owns a vector's memory: nothing is copied.
template <class Value>
pybind11::array_t<Value> owned(std::vector<Value>&& values) {
  auto held = std::make_unique<std::vector<Value>>(std::move(values));
  const auto size = static_cast<pybind11::ssize_t>(held->size());
  const Value* data = held->data();
  pybind11::capsule owner(held.get(), [](void* pointer) {
    delete static_cast<std::vector<Value>*>(pointer);
  });
  held.release();
  return pybind11::array_t<Value>(size, data, owner);
}

inline pybind11::tuple owned(NullableInts&& column) {
  return pybind11::make_tuple(owned(std::move(column.values)), owned(std::move(column.valid)));
}

inline pybind11::tuple owned(IntLists&& column) {
  return pybind11::make_tuple(owned(std::move(column.offsets)), owned(std::move(column.values)));
}

inline pybind11::tuple owned(ScoreColumn&& column) {
  return pybind11::make_tuple(owned(std::move(column.tags)), owned(std::move(column.reals)),
                              owned(std::move(column.integers)));
}

inline pybind11::dict arrays(EventBatch&& batch) {
  pybind11::dict made;
  made["first_seq"] = batch.first_seq;
  made["kind"] = owned(std::move(batch.kind));
#define DTRDIAG_COLUMN(name) made[#name] = owned(std::move(batch.name))
  DTRDIAG_COLUMN(cause_seq);
  DTRDIAG_COLUMN(op);
  DTRDIAG_COLUMN(for_op);
  DTRDIAG_COLUMN(pool_size);
  DTRDIAG_COLUMN(step);
  DTRDIAG_COLUMN(cost_ns);
  DTRDIAG_COLUMN(tensor);
  DTRDIAG_COLUMN(storage);
  DTRDIAG_COLUMN(delta);
  DTRDIAG_COLUMN(references);
  DTRDIAG_COLUMN(depth);
  DTRDIAG_COLUMN(locks);
  DTRDIAG_COLUMN(memory_bytes);
  DTRDIAG_COLUMN(requested_bytes);
  DTRDIAG_COLUMN(size_bytes);
  DTRDIAG_COLUMN(clock_ns);
  DTRDIAG_COLUMN(freed_bytes);
  DTRDIAG_COLUMN(budget_bytes);
  DTRDIAG_COLUMN(remat_cost_ns);
  DTRDIAG_COLUMN(name_op);
  DTRDIAG_COLUMN(reason);
  DTRDIAG_COLUMN(cause);
  DTRDIAG_COLUMN(fits);
  DTRDIAG_COLUMN(inputs);
  DTRDIAG_COLUMN(outputs);
  DTRDIAG_COLUMN(storages);
  DTRDIAG_COLUMN(sizes_bytes);
  DTRDIAG_COLUMN(defined);
  DTRDIAG_COLUMN(resident);
  DTRDIAG_COLUMN(score);
  DTRDIAG_COLUMN(losers);
  DTRDIAG_COLUMN(loser_scores);
#undef DTRDIAG_COLUMN
  return made;
}

}  // namespace dtrdiag
