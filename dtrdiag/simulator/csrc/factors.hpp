// What a built-in policy scores by.
#pragma once

#include <cstdint>

namespace dtrdiag {

enum class Cost : std::uint8_t { None, Local, Backward, Estar, Eq, Full, LastAccess, Random };

// Score = cost / (size x staleness), with each factor of the denominator on or off.
struct Factors {
  Cost cost = Cost::None;
  bool size = false;
  bool staleness = false;

  bool quotient() const { return size || staleness; }
};

}  // namespace dtrdiag
