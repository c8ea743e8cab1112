// What is changed on purpose in a run, as docs/interventions.md defines it.
//
// A decision's index counts the executions and evictions before it. Rows ascend by index or by id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "factors.hpp"
#include "trace_arrays.hpp"

namespace dtrdiag {

// Which defects of simrd are repaired.
struct Repairs {
  bool uncomputed_neighbour = false;
  bool stale_region = false;
  bool phantom_credit = false;
  bool zero_stops = false;
  bool live_iteration = false;
  bool banished_sibling = false;
};

// Which of equals in the pool goes: by place in the pool, or by id.
enum class TieBreak : std::uint8_t { Last, First, LowestId, HighestId };

// One eviction under pressure that the policy does not decide alone.
struct Victim {
  std::int64_t at;
  Id storage;   // `kNone`: whichever the policy would choose
  bool forced;  // it goes; otherwise it is passed over
};

template <class Value>
struct From {
  std::int64_t at;  // from this decision on
  Value value;
};

struct Interventions {
  Repairs repairs;
  TieBreak tie_break = TieBreak::Last;
  std::vector<Victim> victims;
  std::vector<From<Factors>> policies;
  std::vector<From<Bytes>> budgets;  // the fit check before the decision is the first
  std::vector<Id> pins;              // pinned once they are computed
  std::vector<Id> keeps;             // never in the pool

  bool pins_storage(Id storage) const {
    return std::binary_search(pins.begin(), pins.end(), storage);
  }
};

// A victim that cannot be had.
struct Impossible {
  enum Reason : std::uint8_t { kNoPressure, kNotInPool, kNothingElse } reason;
  Victim victim;
  Id storage;  // that it is about; `kNone` for none
};

}  // namespace dtrdiag
