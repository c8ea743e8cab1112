// What a run adds up to: counts, its decisions, the interval of equal budgets.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace_arrays.hpp"

namespace dtrdiag {

enum Cause : std::uint8_t { kPressure = 0, kRelease = 1, kBanish = 2 };
constexpr std::size_t kCauses = 3;

enum class Decision : std::uint32_t { Compute = 0, Remat = 1, Evict = 2 };

class Tally {
 public:
  explicit Tally(std::size_t tensors) {
    for (auto& storages : seen_) storages.assign(tensors, 0);
  }

  std::int64_t computes = 0;
  std::int64_t remats = 0;
  Ns remat_cost_ns = 0;
  std::array<std::int64_t, kCauses> evictions{};
  std::array<std::int64_t, kCauses> distinct{};
  std::int64_t distinct_any = 0;
  Bytes max_memory_bytes = 0;
  Bytes fit_lo_bytes = 0;              // largest memory + request that was found to fit
  std::optional<Bytes> fit_hi_bytes;   // smallest that was found not to
  std::vector<std::uint32_t> decisions;

  void executed(Id op, Ns cost_ns, bool first, Bytes memory_bytes) {
    if (memory_bytes > max_memory_bytes) max_memory_bytes = memory_bytes;
    if (first) {
      ++computes;
    } else {
      ++remats;
      if (__builtin_add_overflow(remat_cost_ns, cost_ns, &remat_cost_ns))
        throw Unsuitable("remat cost above 2**63 ns");
    }
    decide(first ? Decision::Compute : Decision::Remat, op);
  }

  void evicted(Id storage, Cause cause) {
    ++evictions[cause];
    const bool before = seen_[0][storage] || seen_[1][storage] || seen_[2][storage];
    distinct_any += !before;
    distinct[cause] += !seen_[cause][storage];
    seen_[cause][storage] = 1;
    decide(Decision::Evict, storage);
  }

  void checked(Bytes total_bytes, bool fits) {
    if (fits) {
      if (total_bytes > fit_lo_bytes) fit_lo_bytes = total_bytes;
    } else if (lowers_hi(total_bytes)) {
      fit_hi_bytes = total_bytes;
    }
  }

  bool lowers_hi(Bytes total_bytes) const {
    return !fit_hi_bytes || total_bytes < *fit_hi_bytes;
  }

 private:
  void decide(Decision kind, Id id) {
    decisions.push_back(static_cast<std::uint32_t>(kind) << 30 | static_cast<std::uint32_t>(id));
  }

  std::array<std::vector<std::uint8_t>, kCauses> seen_;
};

// The text whose SHA-256 identifies a run: one line `C OP`, `R OP` or `E STORAGE` per decision.
inline std::string decisions_text(const std::vector<std::uint32_t>& decisions, std::size_t begin,
                                  std::size_t end) {
  std::string text;
  text.reserve((end - begin) * 8);
  char digits[12];
  for (std::size_t i = begin; i < end; ++i) {
    text += "CRE"[decisions[i] >> 30];
    text += ' ';
    std::uint32_t id = decisions[i] & ((1u << 30) - 1);
    char* at = digits + sizeof digits;
    do *--at = static_cast<char>('0' + id % 10);
    while (id /= 10);
    text.append(at, digits + sizeof digits);
    text += '\n';
  }
  return text;
}

}  // namespace dtrdiag
