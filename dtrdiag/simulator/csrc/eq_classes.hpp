// What neighbours cost by equivalence classes: union-find with one value per class.
//
// A storage that comes back takes its cost out of its class and leaves the class in one piece. A
// first execution takes it out of a class that never contained it (Q-phantom-credit); repaired, a
// storage takes out what it brought.
#pragma once

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "storage_graph.hpp"
#include "storage_table.hpp"

namespace dtrdiag {

class EquivalenceClasses {
 public:
  // `edges_last`: edges come with their child and never go, so every edge between storages that are
  // there exists.
  EquivalenceClasses(const Edges& edges, std::size_t tensors, bool edges_last,
                     bool takes_what_it_brought)
      : edges_(&edges), edges_last_(edges_last), class_of_(tensors, kNone), nearby_(tensors) {
    if (takes_what_it_brought) brought_ns_.emplace(tensors, 0);
  }

  void called(const std::vector<Id>& fresh) {
    for (Id storage : fresh) {
      class_of_[storage] = node();
      neighbours_changed(storage);
    }
  }

  void became_resident(const std::vector<Id>& storages, const StorageTable& table) {
    for (Id storage : storages) {
      if (class_of_[storage] == kNone) continue;
      value_ns_[root(class_of_[storage])] -=
          brought_ns_ ? (*brought_ns_)[storage] : table.compute_ns[storage];
      class_of_[storage] = kNone;
      neighbours_changed(storage);
    }
  }

  // Join the classes of the non-resident neighbours, and add the storage.
  void evicted(Id storage, const StorageGraph& graph, const StorageTable& table) {
    Id joined = kNone;
    each_near(storage, graph, table, [&](Id neighbour) {
      const Id other = root(class_of_[neighbour]);
      joined = joined == kNone ? other : join(joined, other);
    });
    if (joined == kNone) joined = node();
    value_ns_[joined] += table.compute_ns[storage];
    if (brought_ns_) (*brought_ns_)[storage] = table.compute_ns[storage];
    ++weight_[joined];
    class_of_[storage] = joined;
    neighbours_changed(storage);
  }

  // Compute plus the values of the distinct classes next to a storage.
  Ns sum_ns(Id storage, const StorageGraph& graph, const StorageTable& table) {
    Nearby& nearby = nearby_[storage];
    if (!edges_last_ || !still_roots(nearby)) find_nearby(storage, nearby, graph, table);
    Ns total_ns = table.compute_ns[storage];
    if (nearby.count <= kRemembered) {
      for (int i = 0; i < nearby.count; ++i) total_ns += value_ns_[nearby.roots[i]];
    } else {
      for (Id other : roots_) total_ns += value_ns_[other];
    }
    return total_ns;
  }

 private:
  static constexpr int kRemembered = 3;
  static constexpr int kUnknown = 127;

  // The distinct classes next to a storage, remembered until a neighbour comes or goes.
  struct Nearby {
    Id roots[kRemembered] = {};
    std::int32_t count = kUnknown;  // `kUnknown` also where there are more than can be remembered
  };

  bool still_roots(const Nearby& nearby) const {
    if (nearby.count > kRemembered) return false;
    for (int i = 0; i < nearby.count; ++i)
      if (above_[nearby.roots[i]] != nearby.roots[i]) return false;
    return true;
  }

  void find_nearby(Id storage, Nearby& nearby, const StorageGraph& graph,
                   const StorageTable& table) {
    roots_.clear();
    each_near(storage, graph, table, [&](Id neighbour) {
      const Id other = root(class_of_[neighbour]);
      for (Id known : roots_)
        if (known == other) return;
      roots_.push_back(other);
    });
    nearby.count = kUnknown;
    if (roots_.size() > kRemembered) return;
    nearby.count = static_cast<std::int32_t>(roots_.size());
    for (std::size_t i = 0; i < roots_.size(); ++i) nearby.roots[i] = roots_[i];
  }

  Id node() {
    if (above_.size() >= static_cast<std::size_t>(std::numeric_limits<Id>::max()))
      throw Unsuitable("more than 2**31 classes");
    above_.push_back(static_cast<Id>(above_.size()));
    value_ns_.push_back(0);
    weight_.push_back(1);
    return above_.back();
  }

  Id root(Id node) {
    while (above_[node] != node) node = above_[node] = above_[above_[node]];
    return node;
  }

  Id join(Id a, Id b) {
    if (a == b) return a;
    if (weight_[a] < weight_[b]) std::swap(a, b);
    above_[b] = a;
    value_ns_[a] += value_ns_[b];
    weight_[a] += weight_[b];
    return a;
  }

  // Non-resident neighbours; one that is both parent and child comes twice. A storage is in a class
  // from its creation on while it is not resident.
  template <class Visit>
  void each_near(Id storage, const StorageGraph& graph, const StorageTable& table, Visit visit) {
    if (edges_last_) {
      for (Id other : edges_->children.of(storage))
        if (class_of_[other] != kNone) visit(other);
      for (Id other : edges_->parents.of(storage))
        if (class_of_[other] != kNone) visit(other);
      return;
    }
    const auto absent = [&](Id other) {
      if (table.residency[other] == kAbsent) visit(other);
    };
    graph.each_child(storage, absent);
    graph.each_parent(storage, absent);
  }

  void neighbours_changed(Id storage) {
    for (Id other : edges_->children.of(storage)) nearby_[other].count = kUnknown;
    for (Id other : edges_->parents.of(storage)) nearby_[other].count = kUnknown;
  }

  const Edges* edges_;
  bool edges_last_;
  std::vector<Id> class_of_;          // [tensors] node of each non-resident storage
  std::vector<Nearby> nearby_;        // [tensors]
  std::vector<Id> above_;             // union-find
  std::vector<Ns> value_ns_;          // value of each class, valid at its root
  std::vector<std::int64_t> weight_;  // how much was ever added to each class
  std::optional<std::vector<Ns>> brought_ns_;  // [tensors] compute at the last eviction
  std::vector<Id> roots_;
};

}  // namespace dtrdiag
