// The costly state of one run, as far as its policy uses it, and what it makes of a storage's cost.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "cached_regions.hpp"
#include "eq_classes.hpp"
#include "fresh_regions.hpp"
#include "interventions.hpp"
#include "storage_graph.hpp"
#include "walked_regions.hpp"

namespace dtrdiag {

struct Uses {
  bool regions = false;
  bool classes = false;
  bool graph = false;           // the graph alone, to be walked afresh
  bool cached_regions = false;  // keep regions as sets, or walk them plainly, wherever it may be

  Uses& operator|=(const Uses& others) {
    regions = regions || others.regions;
    classes = classes || others.classes;
    graph = graph || others.graph;
    cached_regions = cached_regions || others.cached_regions;
    return *this;
  }
};

// Cost of a storage and its evicted neighbourhood, and the latest access among them.
struct Neighbourhood {
  Ns cost_ns;
  Ns last_access_ns;
};

class Tracked {
 public:
  // `edges_stay`: no storage is ever detached, so walks need not look whether an edge exists.
  Tracked(const Edges& edges, std::size_t tensors, Uses uses, bool edges_stay,
          const Repairs& repairs) {
    if (!(uses.regions || uses.classes || uses.graph)) return;
    graph_.emplace(edges);
    if (uses.classes)
      classes_.emplace(edges, tensors, edges_stay && edges.only_to_new, repairs.phantom_credit);
    if (uses.regions) {
      if (edges.only_to_new && edges_stay && !uses.cached_regions)
        fresh_.emplace(edges, tensors, repairs.stale_region);
      else if (repairs.stale_region)
        walked_.emplace(tensors);
      else
        cached_.emplace(tensors);
    }
    if (uses.graph) mark_.assign(tensors, 0);
  }

  // Whether regions are walked when asked for, so that a limit saves work.
  bool walks_regions() const { return fresh_ || walked_; }

  // The edges of an op, and its new storages, come into being. `waits`: it has inputs that are not
  // there.
  void called(Id op, const std::vector<Id>& fresh, bool waits, const StorageTable& table) {
    if (!graph_) return;
    graph_->connect(op);
    if (classes_) classes_->called(fresh);
    if (fresh_) fresh_->called(fresh, waits, table);
  }

  // Aliases added so much to the cost of storages that were there before.
  void grew(const std::vector<std::pair<Id, Ns>>& grown, const StorageTable& table) {
    if (!fresh_) return;
    for (const auto& [storage, cost_ns] : grown) fresh_->grew(storage, cost_ns, table);
  }

  void call_done() {
    if (fresh_) fresh_->call_done();
  }

  void became_resident(const std::vector<Id>& storages, const StorageTable& table) {
    if (fresh_) fresh_->became_resident(storages, table);
    if (cached_) cached_->became_resident(storages, *graph_, table);
    if (classes_) classes_->became_resident(storages, table);
  }

  void evicted(Id storage, const StorageTable& table) {
    if (fresh_) fresh_->evicted(storage, table);
    if (cached_) cached_->evicted(storage, table);
    if (classes_) classes_->evicted(storage, *graph_, table);
  }

  void detached(Id storage) {
    if (graph_) graph_->detach(storage);
  }

  // Cost of the region, or any figure above the limit once it exceeds that.
  Ns forward_ns(Id storage, Ns limit_ns, const StorageTable& table) {
    if (fresh_) return fresh_->sum_ns<FreshRegions::kForward>(storage, limit_ns);
    if (walked_) return walked_->sum_ns<true>(storage, limit_ns, *graph_, table);
    return cached_->forward.sum_ns[storage];
  }

  Ns backward_ns(Id storage, Ns limit_ns, const StorageTable& table) {
    if (fresh_) return fresh_->sum_ns<FreshRegions::kBackward>(storage, limit_ns);
    if (walked_) return walked_->sum_ns<false>(storage, limit_ns, *graph_, table);
    return cached_->backward.sum_ns[storage];
  }

  // What the regions cost at least, as far as is known without a walk.
  Ns least_ns(Id storage) const { return fresh_ ? fresh_->least_ns(storage) : 0; }
  Ns least_backward_ns(Id storage) const {
    return fresh_ ? fresh_->least_ns(FreshRegions::kBackward, storage) : 0;
  }

  Ns eq_ns(Id storage, const StorageTable& table) {
    return classes_->sum_ns(storage, *graph_, table);
  }

  Neighbourhood neighbourhood(Id storage, const StorageTable& table) {
    ++walk_;
    mark_[storage] = walk_;
    Neighbourhood around{table.compute_ns[storage], table.last_access_ns[storage]};
    walk_around<true>(storage, table, around);
    walk_around<false>(storage, table, around);
    return around;
  }

 private:
  // Storages that both directions reach count once, but each direction has to pass through them.
  template <bool kForward>
  void walk_around(Id base, const StorageTable& table, Neighbourhood& around) {
    passed_.clear();
    stack_.assign(1, base);
    while (!stack_.empty()) {
      const Id at = stack_.back();
      stack_.pop_back();
      const auto reach = [&](Id id) {
        if (table.residency[id] != kAbsent || passed_.has(id)) return;
        passed_.add(id);
        stack_.push_back(id);
        if (mark_[id] == walk_) return;
        mark_[id] = walk_;
        around.cost_ns += table.compute_ns[id];
        if (table.last_access_ns[id] > around.last_access_ns)
          around.last_access_ns = table.last_access_ns[id];
      };
      if constexpr (kForward)
        graph_->each_child(at, reach);
      else
        graph_->each_parent(at, reach);
    }
  }

  std::optional<StorageGraph> graph_;
  std::optional<FreshRegions> fresh_;
  std::optional<WalkedRegions> walked_;
  std::optional<CachedRegions> cached_;
  std::optional<EquivalenceClasses> classes_;
  std::vector<std::uint64_t> mark_;
  std::uint64_t walk_ = 0;
  Bits passed_;
  std::vector<Id> stack_;
};

}  // namespace dtrdiag
