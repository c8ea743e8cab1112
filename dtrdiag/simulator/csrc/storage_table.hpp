// Per-storage facts that scores are made of, indexed by storage id. The machine writes them.
#pragma once

#include <vector>

#include "trace_arrays.hpp"

namespace dtrdiag {

enum Residency : std::uint8_t { kAbsent = 0, kResident = 1, kPinned = 2 };

struct StorageTable {
  std::vector<std::uint8_t> residency;  // `kPinned` where a pin is final
  std::vector<Bytes> size_bytes;
  std::vector<Ns> compute_ns;           // costs of the distinct ops among the storage's tensors
  std::vector<Ns> last_access_ns;       // clock at the last access; -1 before the first

  explicit StorageTable(std::size_t tensors)
      : residency(tensors, kAbsent),
        size_bytes(tensors, 0),
        compute_ns(tensors, 0),
        last_access_ns(tensors, -1) {}
};

}  // namespace dtrdiag
