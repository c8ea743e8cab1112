// Which storage of the pool has the lowest score, exactly as simrd's walk would find it.
//
// The rule: walk the pool in order, keep the best so far, replace it when `score <= best` (so the
// last of equals wins), and stop at once at a score of 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pool.hpp"
#include "score.hpp"
#include "split_mix.hpp"
#include "tracked.hpp"

namespace dtrdiag {

enum class Cost : std::uint8_t { None, Local, Backward, Estar, Eq, Full, LastAccess, Random };

// Score = cost / (size x staleness), with each factor of the denominator on or off.
struct Factors {
  Cost cost = Cost::None;
  bool size = false;
  bool staleness = false;

  bool quotient() const { return size || staleness; }
};

// A score: an integer, a double, or none where the choice was drawn.
struct Score {
  enum Kind : std::uint8_t { kNothing, kInteger, kReal } kind = kNothing;
  std::int64_t integer = 0;
  double real = 0;
};

struct Candidate {
  Id storage;
  Score score;
};

struct Choice {
  Id storage = kNone;
  Score score;
};

class PolicyChooser {
 public:
  PolicyChooser(Factors factors, std::uint64_t seed, std::size_t candidates)
      : factors_(factors), rng_(seed), most_(candidates) {}

  // `pool` is not empty. The best of those that lost are in `losers()`, best first.
  Choice choose(const Pool& pool, Ns clock_ns, const StorageTable& table, Tracked& tracked) {
    losers_.clear();
    if (factors_.cost == Cost::Random) return draw(pool);
    if (most_) return choose_among_all(pool, clock_ns, table, tracked);
    if (factors_.cost == Cost::Estar && factors_.quotient() && tracked.walked_regions())
      return choose_bounded(pool, clock_ns, table, *tracked.walked_regions());
    Best best;
    for (Id storage : pool.slots()) {
      if (storage == kNone) continue;
      const Quotient value = quotient(storage, clock_ns, table, tracked);
      consider(storage, value, best);
      if (zero(value)) break;
    }
    return {best.storage, score(best.value)};
  }

  const std::vector<Candidate>& losers() const { return losers_; }

 private:
  struct Best {
    Id storage = kNone;
    Quotient value;
  };

  // More than any sum of costs: no limit.
  static constexpr Ns kNoLimit = Ns{1} << 62;
  static constexpr Ns kAhead = 2;

  bool below_or_equal(const Quotient& a, const Quotient& b) const {
    return factors_.quotient() ? at_most(a, b) : a.numerator <= b.numerator;
  }

  Score score(const Quotient& value) const {
    if (factors_.quotient()) return {Score::kReal, 0, value.rounded()};
    return {Score::kInteger, value.numerator, 0};
  }

  void consider(Id storage, const Quotient& value, Best& best) const {
    if (best.storage != kNone && !below_or_equal(value, best.value)) return;
    best = {storage, value};
  }

  static bool zero(const Quotient& value) { return value.numerator == 0 && !value.infinite(); }

  Choice draw(const Pool& pool) {
    std::uint64_t position = rng_.below(pool.size());
    for (Id storage : pool.slots())
      if (storage != kNone && position-- == 0) return {storage, {}};
    throw std::logic_error("a draw beyond the pool");
  }

  Quotient below(Id storage, Ns last_access_ns, Ns clock_ns, const StorageTable& table) const {
    return {0, factors_.size ? table.size_bytes[storage] : 1,
            factors_.staleness ? clock_ns - last_access_ns : 1};
  }

  Quotient quotient(Id storage, Ns clock_ns, const StorageTable& table, Tracked& tracked) {
    Ns last_access_ns = table.last_access_ns[storage];
    Ns cost_ns = 1;
    switch (factors_.cost) {
      case Cost::None:
      case Cost::Random:
        break;
      case Cost::LastAccess:
        cost_ns = last_access_ns;
        break;
      case Cost::Local:
        cost_ns = table.compute_ns[storage];
        break;
      case Cost::Backward:
        cost_ns = table.compute_ns[storage] + tracked.backward_ns(storage, kNoLimit);
        break;
      case Cost::Estar:
        cost_ns = table.compute_ns[storage] + tracked.forward_ns(storage, kNoLimit) +
                  tracked.backward_ns(storage, kNoLimit);
        break;
      case Cost::Eq:
        cost_ns = tracked.eq_ns(storage, table);
        break;
      case Cost::Full: {
        // Here staleness counts from the latest access in the whole neighbourhood.
        const Neighbourhood around = tracked.neighbourhood(storage, table);
        cost_ns = around.cost_ns;
        last_access_ns = around.last_access_ns;
        break;
      }
    }
    Quotient value = below(storage, last_access_ns, clock_ns, table);
    value.numerator = cost_ns;
    return value;
  }

  // As above, and all that were scored besides. Nothing after a score of 0 is.
  Choice choose_among_all(const Pool& pool, Ns clock_ns, const StorageTable& table,
                          Tracked& tracked) {
    struct Scored {
      std::size_t position;
      Id storage;
      Score score;
    };
    std::vector<Scored> walked;
    for (Id storage : pool.slots()) {
      if (storage == kNone) continue;
      const Score value = score(quotient(storage, clock_ns, table, tracked));
      walked.push_back({walked.size(), storage, value});
      if (value.kind == Score::kInteger ? value.integer == 0 : value.real == 0) break;
    }
    const auto better = [](const Scored& a, const Scored& b) {
      if (a.score.integer != b.score.integer) return a.score.integer < b.score.integer;
      if (a.score.real != b.score.real) return a.score.real < b.score.real;
      return a.position > b.position;
    };
    const std::size_t kept = std::min(walked.size(), most_ + 1);
    std::partial_sort(walked.begin(), walked.begin() + static_cast<std::ptrdiff_t>(kept),
                      walked.end(), better);
    for (std::size_t i = 1; i < kept; ++i) losers_.push_back({walked[i].storage, walked[i].score});
    return {walked.front().storage, walked.front().score};
  }

  Choice choose_bounded(const Pool& pool, Ns clock_ns, const StorageTable& table,
                        FreshRegions& regions) const;

  // Compute and both regions, or any figure above the limit once it exceeds that. A walk goes on to
  // `kAhead` times the limit, since limits grow from decision to decision.
  static Ns walked_ns(Id storage, Ns limit_ns, const StorageTable& table, FreshRegions& regions) {
    const Ns far_ns = limit_ns < kNoLimit / kAhead ? limit_ns * kAhead : kNoLimit;
    Ns cost_ns = table.compute_ns[storage];
    cost_ns += regions.sum_ns<FreshRegions::kForward>(
        storage, far_ns - cost_ns - regions.least_ns(FreshRegions::kBackward, storage));
    if (cost_ns > limit_ns) return cost_ns;
    return cost_ns + regions.sum_ns<FreshRegions::kBackward>(storage, far_ns - cost_ns);
  }

  // The largest cost with which a storage could still score at most `bound`, or more than that.
  static Ns most_cost(double bound, const Quotient& below) {
    const double most = bound * static_cast<double>(below.size) *
                        static_cast<double>(below.staleness) * (1 + 0x1p-40);
    return most < 0x1p61 ? static_cast<Ns>(most) + 1 : kNoLimit;
  }

  Factors factors_;
  SplitMix64 rng_;
  std::size_t most_;
  std::vector<Candidate> losers_;
};

// The same choice with fewer steps: a storage is passed over once what its regions are known to cost
// shows that it has lost to another one, and a walk stops there too. The first to be known is the
// one that looks best by such lower bounds; any storage of the pool would do.
inline Choice PolicyChooser::choose_bounded(const Pool& pool, Ns clock_ns,
                                            const StorageTable& table,
                                            FreshRegions& regions) const {
  Id first = kNone;
  double lowest = 0;
  for (Id storage : pool.slots()) {
    if (storage == kNone) continue;
    Quotient value = below(storage, table.last_access_ns[storage], clock_ns, table);
    value.numerator = table.compute_ns[storage] + regions.least_ns(storage);
    const double guess = value.approximate();
    if (first != kNone && !(guess < lowest)) continue;
    first = storage;
    lowest = guess;
  }
  const Ns known_ns = walked_ns(first, kNoLimit, table, regions);
  Quotient known = below(first, table.last_access_ns[first], clock_ns, table);
  known.numerator = known_ns;
  double bound = known.approximate();
  Best best;
  for (Id storage : pool.slots()) {
    if (storage == kNone) continue;
    Quotient value = below(storage, table.last_access_ns[storage], clock_ns, table);
    if (value.infinite()) {
      if (std::isinf(bound)) consider(storage, value, best);
      continue;
    }
    const Ns most_ns = most_cost(bound, value);
    if (table.compute_ns[storage] + regions.least_ns(storage) > most_ns) continue;
    value.numerator = storage == first ? known_ns : walked_ns(storage, most_ns, table, regions);
    if (value.numerator > most_ns) continue;
    consider(storage, value, best);
    if (zero(value)) break;
    if (best.storage == storage) bound = std::min(bound, value.approximate());
  }
  return {best.storage, score(best.value)};
}

}  // namespace dtrdiag
