// What e* costs: cached evicted regions, kept and refreshed exactly as simrd does it.
//
// Caching makes e* stale, and decisions depend on it (Q-stale-region in docs/semantics.md). This is
// the definition, set by set, for any graph; `fresh_regions.hpp` is the fast way for nearly all.
#pragma once

#include <cstdint>
#include <vector>

#include "storage_graph.hpp"
#include "storage_table.hpp"

namespace dtrdiag {

// A set of storages, one bit each.
class Bits {
 public:
  bool has(Id id) const {
    const std::size_t word = static_cast<std::size_t>(id) >> 6;
    return word < words_.size() && (words_[word] >> (id & 63) & 1);
  }
  void add(Id id) {
    const std::size_t word = static_cast<std::size_t>(id) >> 6;
    if (word >= words_.size()) words_.resize(word + 1, 0);
    words_[word] |= std::uint64_t{1} << (id & 63);
  }
  void drop(Id id) {
    const std::size_t word = static_cast<std::size_t>(id) >> 6;
    if (word < words_.size()) words_[word] &= ~(std::uint64_t{1} << (id & 63));
  }
  void add_all(const Bits& others) {
    if (words_.size() < others.words_.size()) words_.resize(others.words_.size(), 0);
    for (std::size_t i = 0; i < others.words_.size(); ++i) words_[i] |= others.words_[i];
  }
  void clear() { words_.clear(); }

  template <class Visit>
  void each(Visit visit) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      for (std::uint64_t left = words_[i]; left; left &= left - 1)
        visit(static_cast<Id>(i * 64 + static_cast<std::size_t>(__builtin_ctzll(left))));
  }

 private:
  std::vector<std::uint64_t> words_;
};

class CachedRegions {
 public:
  struct Direction {
    std::vector<Bits> interior;  // [tensors] non-resident, reached through non-resident ones
    std::vector<Bits> frontier;  // [tensors] resident, at the edge
    std::vector<Ns> sum_ns;      // [tensors] cost of the interior, as last refreshed

    explicit Direction(std::size_t tensors)
        : interior(tensors), frontier(tensors), sum_ns(tensors, 0) {}

    void absorb(Id storage, Id evicted, const StorageTable& table) {
      // simrd aborts where a stale frontier lacks the evicted storage; here it is let pass.
      frontier[storage].drop(evicted);
      frontier[storage].add_all(frontier[evicted]);
      // simrd lets the storage itself in when a stale frontier holds it.
      Bits& inside = interior[storage];
      Ns gained = 0;
      interior[evicted].each([&](Id id) {
        if (!inside.has(id)) gained += table.compute_ns[id];
      });
      // The evicted storage counts even where a stale interior has it already.
      if (!interior[evicted].has(evicted) || inside.has(evicted))
        gained += table.compute_ns[evicted];
      inside.add_all(interior[evicted]);
      inside.add(evicted);
      sum_ns[storage] += gained;
    }

    void clear(Id storage) {
      interior[storage].clear();
      frontier[storage].clear();
      sum_ns[storage] = 0;
    }
  };

  explicit CachedRegions(std::size_t tensors) : forward(tensors), backward(tensors) {}

  void became_resident(const std::vector<Id>& storages, const StorageGraph& graph,
                       const StorageTable& table) {
    Bits seen_forward, seen_backward;
    for (Id storage : storages) {
      rebuild<true>(storage, graph, table);
      rebuild<false>(storage, graph, table);
      seen_forward.add_all(backward.frontier[storage]);
      seen_backward.add_all(forward.frontier[storage]);
    }
    seen_forward.each([&](Id id) { rebuild<true>(id, graph, table); });
    seen_backward.each([&](Id id) { rebuild<false>(id, graph, table); });
  }

  void evicted(Id storage, const StorageTable& table) {
    backward.frontier[storage].each([&](Id id) { forward.absorb(id, storage, table); });
    forward.frontier[storage].each([&](Id id) { backward.absorb(id, storage, table); });
    forward.clear(storage);
    backward.clear(storage);
  }

  Direction forward;
  Direction backward;

 private:
  template <bool kForward>
  void rebuild(Id base, const StorageGraph& graph, const StorageTable& table) {
    Direction& side = kForward ? forward : backward;
    side.clear(base);
    stack_.assign(1, base);
    while (!stack_.empty()) {
      const Id at = stack_.back();
      stack_.pop_back();
      const auto reach = [&](Id id) {
        if (table.residency[id] == kResident) {
          side.frontier[base].add(id);
        } else if (table.residency[id] == kAbsent && !side.interior[base].has(id)) {
          side.interior[base].add(id);
          side.sum_ns[base] += table.compute_ns[id];
          stack_.push_back(id);
        }
      };
      if constexpr (kForward)
        graph.each_child(at, reach);
      else
        graph.each_parent(at, reach);
    }
    side.frontier[base].drop(base);
  }

  std::vector<Id> stack_;
};

}  // namespace dtrdiag
