// What neighbours cost by equivalence classes: union-find with one value per class.
//
// A storage that comes back takes its cost out of its class and leaves the class in one piece. A
// first execution takes it out of a class that never contained it (Q-phantom-credit).
#pragma once

#include <limits>
#include <vector>

#include "storage_graph.hpp"
#include "storage_table.hpp"

namespace dtrdiag {

class EquivalenceClasses {
 public:
  explicit EquivalenceClasses(std::size_t tensors) : class_of_(tensors, kNone) {}

  void called(const std::vector<Id>& fresh) {
    for (Id storage : fresh) class_of_[storage] = node(0);
  }

  void became_resident(const std::vector<Id>& storages, const StorageTable& table) {
    for (Id storage : storages) {
      if (class_of_[storage] == kNone) continue;
      value_ns_[root(class_of_[storage])] -= table.compute_ns[storage];
      class_of_[storage] = kNone;
    }
  }

  void evicted(Id storage, const StorageGraph& graph, const StorageTable& table) {
    const Id own = node(table.compute_ns[storage]);
    class_of_[storage] = own;
    each_near(storage, graph, table, [&](Id neighbour) {
      const Id other = root(class_of_[neighbour]);
      if (other == own) return;
      above_[other] = own;
      value_ns_[own] += value_ns_[other];
    });
  }

  // Compute plus the values of the distinct classes next to a storage.
  Ns sum_ns(Id storage, const StorageGraph& graph, const StorageTable& table) {
    Ns total_ns = table.compute_ns[storage];
    roots_.clear();
    each_near(storage, graph, table, [&](Id neighbour) {
      const Id other = root(class_of_[neighbour]);
      for (Id known : roots_)
        if (known == other) return;
      roots_.push_back(other);
      total_ns += value_ns_[other];
    });
    return total_ns;
  }

 private:
  Id node(Ns value_ns) {
    if (above_.size() >= static_cast<std::size_t>(std::numeric_limits<Id>::max()))
      throw Unsuitable("more than 2**31 classes");
    above_.push_back(static_cast<Id>(above_.size()));
    value_ns_.push_back(value_ns);
    return above_.back();
  }

  Id root(Id node) {
    while (above_[node] != node) node = above_[node] = above_[above_[node]];
    return node;
  }

  // Non-resident neighbours; one that is both parent and child comes twice.
  template <class Visit>
  static void each_near(Id storage, const StorageGraph& graph, const StorageTable& table,
                        Visit visit) {
    const auto absent = [&](Id other) {
      if (table.residency[other] == kAbsent) visit(other);
    };
    graph.each_child(storage, absent);
    graph.each_parent(storage, absent);
  }

  std::vector<Id> class_of_;  // [tensors] node of each non-resident storage
  std::vector<Id> above_;     // union-find
  std::vector<Ns> value_ns_;  // value of each class, valid at its root
  std::vector<Id> roots_;
};

}  // namespace dtrdiag
