// Which storage of the pool has the lowest score, exactly as simrd's walk would find it.
//
// The rule: walk the pool in order, keep the best so far, replace it when `score <= best` (so the
// last of equals wins), and stop at once at a score of 0 (Q-zero-stops). Interventions may let another
// of equals win, and repair the stop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "interventions.hpp"
#include "pool.hpp"
#include "score.hpp"
#include "split_mix.hpp"
#include "tracked.hpp"

namespace dtrdiag {

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

// What a policy looks at when it chooses.
struct Sight {
  const Pool& pool;
  Ns clock_ns;
  const StorageTable& table;
  Tracked& tracked;
};

// Storages of the pool that a walk leaves out.
struct PassedOver {
  Id first = kNone;
  Id second = kNone;

  bool has(Id storage) const { return storage == first || storage == second; }
};

class PolicyChooser {
 public:
  PolicyChooser(Factors factors, std::uint64_t seed, std::size_t candidates, TieBreak tie_break,
                bool passes_zero)
      : factors_(factors), rng_(seed), most_(candidates), tie_break_(tie_break),
        passes_zero_(passes_zero) {}

  // The pool is not empty. The best of those that lost are in `losers()`, best first.
  Choice choose(const Sight& sight) {
    losers_.clear();
    if (factors_.cost == Cost::Random) return draw(sight.pool, {});
    if (most_) return choose_among_all(sight);
    if (factors_.cost == Cost::Estar && factors_.quotient() && sight.tracked.walks_regions())
      return choose_bounded(sight);
    Best best;
    for (Id storage : sight.pool.slots()) {
      if (storage == kNone) continue;
      const Quotient value = quotient(storage, sight);
      consider(storage, value, best);
      if (ends_walk(value)) break;
    }
    return {best.storage, score(best.value)};
  }

  const std::vector<Candidate>& losers() const { return losers_; }

  // --- where an intervention has a say: the same rule in more steps

  // From now on other factors are looked at.
  void follow(Factors factors) { factors_ = factors; }

  // The choice among all but one, of which there is at least one.
  Choice choose_without(Id storage, const Sight& sight) {
    losers_.clear();
    if (factors_.cost == Cost::Random) return draw(sight.pool, {storage, kNone});
    return ranked(sight, {storage, kNone}, 1).front();
  }

  // A choice that was made elsewhere. `besides`: also left out of the losers.
  Choice given(Id storage, Id besides, const Sight& sight) {
    losers_.clear();
    if (factors_.cost == Cost::Random) return {storage, {}};
    if (most_)
      for (const Choice& loser : ranked(sight, {storage, besides}, most_))
        losers_.push_back({loser.storage, loser.score});
    return {storage, score(quotient(storage, sight))};
  }

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
    if (best.storage != kNone) {
      if (!below_or_equal(value, best.value)) return;
      if (tie_break_ != TieBreak::Last && below_or_equal(best.value, value) &&
          !goes_before(storage, best.storage))
        return;
    }
    best = {storage, value};
  }

  // Whether the later of two equals in the pool goes.
  bool goes_before(Id later, Id earlier) const {
    switch (tie_break_) {
      case TieBreak::Last: return true;
      case TieBreak::First: return false;
      case TieBreak::LowestId: return later < earlier;
      case TieBreak::HighestId: return later > earlier;
    }
    return true;
  }

  static bool zero(const Quotient& value) { return value.numerator == 0 && !value.infinite(); }
  bool ends_walk(const Quotient& value) const { return !passes_zero_ && zero(value); }

  Choice draw(const Pool& pool, PassedOver passed_over) {
    const bool one_less = passed_over.first != kNone && pool.contains(passed_over.first);
    std::uint64_t position = rng_.below(pool.size() - one_less);
    for (Id storage : pool.slots())
      if (storage != kNone && !passed_over.has(storage) && position-- == 0) return {storage, {}};
    throw std::logic_error("a draw beyond the pool");
  }

  Quotient below(Id storage, Ns last_access_ns, Ns clock_ns, const StorageTable& table) const {
    return {0, factors_.size ? table.size_bytes[storage] : 1,
            factors_.staleness ? clock_ns - last_access_ns : 1};
  }

  Quotient quotient(Id storage, const Sight& sight) const {
    const auto& [pool, clock_ns, table, tracked] = sight;
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
        cost_ns = table.compute_ns[storage] + tracked.backward_ns(storage, kNoLimit, table);
        break;
      case Cost::Estar:
        cost_ns = table.compute_ns[storage] + tracked.forward_ns(storage, kNoLimit, table) +
                  tracked.backward_ns(storage, kNoLimit, table);
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

  // As above, and all that were scored besides.
  Choice choose_among_all(const Sight& sight) {
    const std::vector<Choice> best = ranked(sight, {}, most_ + 1);
    for (std::size_t i = 1; i < best.size(); ++i)
      losers_.push_back({best[i].storage, best[i].score});
    return best.front();
  }

  // The best of the walk over the pool, so many at most, best first. Nothing after the score that
  // ends the walk is among them.
  std::vector<Choice> ranked(const Sight& sight, PassedOver passed_over, std::size_t most) const {
    struct Scored {
      std::size_t position;
      Choice choice;
    };
    std::vector<Scored> walked;
    for (Id storage : sight.pool.slots()) {
      if (storage == kNone || passed_over.has(storage)) continue;
      const Quotient value = quotient(storage, sight);
      walked.push_back({walked.size(), {storage, score(value)}});
      if (ends_walk(value)) break;
    }
    const auto better = [this](const Scored& a, const Scored& b) {
      const Score &left = a.choice.score, &right = b.choice.score;
      if (left.integer != right.integer) return left.integer < right.integer;
      if (left.real < right.real || left.real > right.real) return left.real < right.real;
      if (a.position == b.position) return false;
      return a.position > b.position ? goes_before(a.choice.storage, b.choice.storage)
                                     : !goes_before(b.choice.storage, a.choice.storage);
    };
    const std::size_t kept = std::min(walked.size(), most);
    std::partial_sort(walked.begin(), walked.begin() + static_cast<std::ptrdiff_t>(kept),
                      walked.end(), better);
    std::vector<Choice> best;
    for (std::size_t i = 0; i < kept; ++i) best.push_back(walked[i].choice);
    return best;
  }

  Choice choose_bounded(const Sight& sight) const;

  // Compute and both regions, or any figure above the limit once it exceeds that. A walk goes on to
  // `kAhead` times the limit, since limits grow from decision to decision.
  static Ns walked_ns(Id storage, Ns limit_ns, const Sight& sight) {
    Tracked& tracked = sight.tracked;
    const Ns far_ns = limit_ns < kNoLimit / kAhead ? limit_ns * kAhead : kNoLimit;
    Ns cost_ns = sight.table.compute_ns[storage];
    cost_ns += tracked.forward_ns(storage, far_ns - cost_ns - tracked.least_backward_ns(storage),
                                  sight.table);
    if (cost_ns > limit_ns) return cost_ns;
    return cost_ns + tracked.backward_ns(storage, far_ns - cost_ns, sight.table);
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
  TieBreak tie_break_;
  bool passes_zero_;
  std::vector<Candidate> losers_;
};

// The same choice with fewer steps: a storage is passed over once what its regions are known to cost
// shows that it has lost to another one, and a walk stops there too. The first to be known is the
// one that looks best by such lower bounds; any storage of the pool would do.
inline Choice PolicyChooser::choose_bounded(const Sight& sight) const {
  const auto& [pool, clock_ns, table, tracked] = sight;
  Id first = kNone;
  double lowest = 0;
  for (Id storage : pool.slots()) {
    if (storage == kNone) continue;
    Quotient value = below(storage, table.last_access_ns[storage], clock_ns, table);
    value.numerator = table.compute_ns[storage] + tracked.least_ns(storage);
    const double guess = value.approximate();
    if (first != kNone && !(guess < lowest)) continue;
    first = storage;
    lowest = guess;
  }
  const Ns known_ns = walked_ns(first, kNoLimit, sight);
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
    if (table.compute_ns[storage] + tracked.least_ns(storage) > most_ns) continue;
    value.numerator = storage == first ? known_ns : walked_ns(storage, most_ns, sight);
    if (value.numerator > most_ns) continue;
    consider(storage, value, best);
    if (ends_walk(value)) break;
    if (best.storage == storage) bound = std::min(bound, value.approximate());
  }
  return {best.storage, score(best.value)};
}

}  // namespace dtrdiag
