// What regions cost when nothing is cached (the repair of Q-stale-region), on any graph.
//
// `fresh_regions.hpp` is the fast way where edges lead only to new storages and stay.
#pragma once

#include <cstdint>
#include <vector>

#include "storage_graph.hpp"
#include "storage_table.hpp"

namespace dtrdiag {

class WalkedRegions {
 public:
  explicit WalkedRegions(std::size_t tensors) : seen_(tensors, 0) {}

  // Cost of the evicted storages that are reached through evicted ones, or any figure above
  // `limit_ns` once it exceeds that.
  template <bool kForward>
  Ns sum_ns(Id base, Ns limit_ns, const StorageGraph& graph, const StorageTable& table) {
    ++walk_;
    Ns sum_ns = 0;
    stack_.assign(1, base);
    while (!stack_.empty() && sum_ns <= limit_ns) {
      const Id at = stack_.back();
      stack_.pop_back();
      const auto reach = [&](Id id) {
        if (table.residency[id] != kAbsent || seen_[id] == walk_) return;
        seen_[id] = walk_;
        sum_ns += table.compute_ns[id];
        stack_.push_back(id);
      };
      if constexpr (kForward)
        graph.each_child(at, reach);
      else
        graph.each_parent(at, reach);
    }
    return sum_ns;
  }

 private:
  std::vector<std::uint64_t> seen_;  // [tensors] last walk that passed
  std::uint64_t walk_ = 0;
  std::vector<Id> stack_;
};

}  // namespace dtrdiag
