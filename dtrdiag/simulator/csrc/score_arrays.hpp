// Score arithmetic on whole arrays, so that tests can hold it against Python's integers.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <stdexcept>

#include "score.hpp"

namespace dtrdiag {

using Ints = pybind11::array_t<std::int64_t, pybind11::array::c_style | pybind11::array::forcecast>;

inline void same_length(const Ints& a, const Ints& b, const Ints& c) {
  if (a.ndim() != 1 || b.ndim() != 1 || c.ndim() != 1 || a.shape(0) != b.shape(0) ||
      a.shape(0) != c.shape(0))
    throw std::invalid_argument("columns differ in length");
}

inline pybind11::array_t<double> rounded(const Ints& numerators, const Ints& sizes,
                                        const Ints& staleness) {
  same_length(numerators, sizes, staleness);
  const auto n = numerators.unchecked<1>();
  const auto s = sizes.unchecked<1>();
  const auto t = staleness.unchecked<1>();
  pybind11::array_t<double> made(n.shape(0));
  auto out = made.mutable_unchecked<1>();
  for (pybind11::ssize_t i = 0; i < n.shape(0); ++i) out(i) = Quotient{n(i), s(i), t(i)}.rounded();
  return made;
}

// Whether each quotient is at most the one after it, as doubles.
inline pybind11::array_t<bool> ordered(const Ints& numerators, const Ints& sizes,
                                        const Ints& staleness) {
  same_length(numerators, sizes, staleness);
  const auto n = numerators.unchecked<1>();
  const auto s = sizes.unchecked<1>();
  const auto t = staleness.unchecked<1>();
  pybind11::array_t<bool> made(std::max<pybind11::ssize_t>(n.shape(0) - 1, 0));
  auto out = made.mutable_unchecked<1>();
  for (pybind11::ssize_t i = 0; i + 1 < n.shape(0); ++i)
    out(i) = at_most({n(i), s(i), t(i)}, {n(i + 1), s(i + 1), t(i + 1)});
  return made;
}

}  // namespace dtrdiag
