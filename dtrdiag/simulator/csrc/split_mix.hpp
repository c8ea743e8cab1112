// A small seeded generator, the same in every language (SplitMix64; Steele et al., OOPSLA 2014).
#pragma once

#include <cstdint>

#include "score.hpp"

namespace dtrdiag {

class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  // In [0, bound): the high half of a 64-bit draw times `bound`.
  std::uint64_t below(std::uint64_t bound) {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return static_cast<std::uint64_t>((static_cast<Wide>(z) * bound) >> 64);
  }

 private:
  std::uint64_t state_;
};

}  // namespace dtrdiag
