// Scores as exact quotients of integers, compared as their correctly rounded doubles.
//
// simrd compares Python's int / int: the double nearest to the exact quotient. Products of size and
// staleness exceed 2**53, so plain doubles would round twice and change decisions. Here a plain
// double with an error bound settles nearly every comparison, and long division the rest.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "trace_arrays.hpp"

namespace dtrdiag {

__extension__ using Wide = unsigned __int128;

// Relative error of `approximate`: five roundings, three of integers, one of the product and one of
// the quotient, each within 2**-53, so less than 2**-50 in all. This is twice as much, so that values
// further apart than it allows stay apart when they are rounded.
constexpr double kTolerance = 0x1p-49;

// numerator / (size x staleness); a denominator of 0 gives +inf.
struct Quotient {
  std::int64_t numerator = 0;
  std::int64_t size = 1;       // 0 <= size < 2**63
  std::int64_t staleness = 1;  // 0 <= staleness < 2**63

  bool infinite() const { return size == 0 || staleness == 0; }

  double approximate() const {
    if (infinite()) return std::numeric_limits<double>::infinity();
    const double below = static_cast<double>(size) * static_cast<double>(staleness);
    return static_cast<double>(numerator) / below;
  }

  double rounded() const;
};

namespace score_detail {

constexpr int kBits = 53;

inline int bit_length(Wide value) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  const auto low = static_cast<std::uint64_t>(value);
  if (high) return 128 - __builtin_clzll(high);
  return low ? 64 - __builtin_clzll(low) : 0;
}

// The double nearest to above / below, ties to even. Both in [1, 2**126).
inline double divide(Wide above, Wide below) {
  // Scale so that below <= above < 2 x below; `exponent` undoes it.
  int exponent = bit_length(above) - bit_length(below);
  if (exponent > 0)
    below <<= exponent;
  else
    above <<= -exponent;
  if (above < below) {
    above <<= 1;
    --exponent;
  }
  std::uint64_t quotient = 0;
  for (int bit = 0; bit < kBits; ++bit) {
    quotient <<= 1;
    if (above >= below) {
      above -= below;
      quotient |= 1;
    }
    above <<= 1;
  }
  // `above` is twice the remainder by now: compare the rest with one half.
  if (above > below || (above == below && (quotient & 1))) ++quotient;
  return std::ldexp(static_cast<double>(quotient), exponent - (kBits - 1));
}

}  // namespace score_detail

inline double Quotient::rounded() const {
  if (infinite()) return std::numeric_limits<double>::infinity();
  if (numerator == 0) return 0.0;
  const bool negative = numerator < 0;
  const auto bits = static_cast<std::uint64_t>(numerator);
  const Wide above = negative ? ~bits + 1 : bits;
  const Wide below = static_cast<Wide>(size) * static_cast<Wide>(staleness);
  const double value = score_detail::divide(above, below);
  return negative ? -value : value;
}

// Whether the rounded value of `a` is at most that of `b`.
inline bool at_most(const Quotient& a, const Quotient& b) {
  const double left = a.approximate();
  const double right = b.approximate();
  if (std::isinf(left) || std::isinf(right)) return !std::isinf(left) || std::isinf(right);
  const double slack = (std::fabs(left) + std::fabs(right)) * kTolerance;
  if (left < right - slack) return true;
  if (left > right + slack) return false;
  return a.rounded() <= b.rounded();
}

}  // namespace dtrdiag
