// Which storages neighbour which: an edge from the storage of an input to that of an output.
//
// All edges that a trace will ever have are known before it runs, so they are laid out once, and a
// run only marks which of them exist. Edges appear when the op is called, before it is executed
// (simrd: Q-uncomputed-neighbour), and vanish when a storage is banished.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "trace_arrays.hpp"

namespace dtrdiag {

// Neighbours of every storage in one direction, flat. Shared by all runs of a trace.
struct Adjacency {
  std::vector<Id> start;    // [tensors + 1]
  std::vector<Id> storage;  // [edges]
  std::vector<Id> edge;     // [edges] the same number in both directions

  Row of(Id of_storage) const {
    return {storage.data() + start[of_storage], storage.data() + start[of_storage + 1]};
  }
};

struct Edges {
  Adjacency children;
  Adjacency parents;
  std::vector<Id> op_start;  // [ops + 1] row starts of op_edge
  std::vector<Id> op_edge;   // edges that the call of an op brings, new or again
  std::vector<Id> op_of;     // [edges] the first op that brings the edge
  // No op adds an edge to a storage that was there before it: then cached regions never miss one.
  bool only_to_new = true;

  explicit Edges(const TraceArrays& trace);
};

namespace graph_detail {

using Pair = std::pair<Id, Id>;  // parent, child

inline std::vector<Pair> pairs_of(const TraceArrays& trace, Id op) {
  std::vector<Pair> pairs;
  for (Id output = trace.output_start[op]; output < trace.output_start[op + 1]; ++output)
    for (Id input : trace.inputs(op)) {
      const Pair pair{trace.tensor_storage[input], trace.tensor_storage[output]};
      if (pair.first != pair.second) pairs.push_back(pair);
    }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

// `pairs` are sorted by their first member.
inline Adjacency adjacency(const std::vector<std::pair<Pair, Id>>& pairs, Id tensors) {
  Adjacency made;
  made.start.assign(static_cast<std::size_t>(tensors) + 1, 0);
  for (const auto& [pair, edge] : pairs) {
    ++made.start[pair.first + 1];
    made.storage.push_back(pair.second);
    made.edge.push_back(edge);
  }
  for (Id id = 0; id < tensors; ++id) made.start[id + 1] += made.start[id];
  return made;
}

}  // namespace graph_detail

inline Edges::Edges(const TraceArrays& trace) {
  using graph_detail::Pair;
  std::vector<std::pair<Pair, Id>> called;  // each pair, with the op that brings it
  for (Id op = 0; op < trace.ops(); ++op)
    for (const Pair& pair : graph_detail::pairs_of(trace, op)) called.push_back({pair, op});
  std::vector<std::pair<Pair, Id>> forward = called;
  std::sort(forward.begin(), forward.end());
  std::vector<std::pair<Pair, Id>> backward;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    if (i && forward[i].first == forward[i - 1].first) continue;
    op_of.push_back(forward[i].second);
    const Pair pair = forward[i].first;
    if (trace.op_of[pair.second] != forward[i].second) only_to_new = false;
    forward[kept] = {pair, static_cast<Id>(kept)};
    backward.push_back({{pair.second, pair.first}, static_cast<Id>(kept)});
    ++kept;
  }
  forward.resize(kept);
  std::sort(backward.begin(), backward.end());
  children = graph_detail::adjacency(forward, trace.tensors());
  parents = graph_detail::adjacency(backward, trace.tensors());
  op_start.assign(static_cast<std::size_t>(trace.ops()) + 1, 0);
  for (const auto& [pair, op] : called) {
    const auto at = std::lower_bound(
        forward.begin(), forward.end(), pair,
        [](const std::pair<Pair, Id>& entry, const Pair& wanted) { return entry.first < wanted; });
    op_edge.push_back(at->second);
    ++op_start[op + 1];
  }
  for (Id op = 0; op < trace.ops(); ++op) op_start[op + 1] += op_start[op];
}

// Which edges exist in one run. A banished storage is forgotten by others but keeps its own edges,
// which count if it comes back (Q-banished-sibling), so the two ends of an edge are separate.
class StorageGraph {
 public:
  explicit StorageGraph(const Edges& edges)
      : edges_(&edges), child_there_(edges.op_of.size(), 0), parent_there_(edges.op_of.size(), 0) {}

  const Edges& edges() const { return *edges_; }

  void connect(Id op) {
    for (Id i = edges_->op_start[op]; i < edges_->op_start[op + 1]; ++i) {
      const Id edge = edges_->op_edge[i];
      child_there_[edge] = parent_there_[edge] = 1;
    }
  }

  void detach(Id storage) {
    each_edge(edges_->parents, parent_there_, storage, [&](Id, Id edge) { child_there_[edge] = 0; });
    each_edge(edges_->children, child_there_, storage, [&](Id, Id edge) { parent_there_[edge] = 0; });
  }

  template <class Visit>
  void each_child(Id storage, Visit visit) const {
    each_edge(edges_->children, child_there_, storage, [&](Id other, Id) { visit(other); });
  }

  template <class Visit>
  void each_parent(Id storage, Visit visit) const {
    each_edge(edges_->parents, parent_there_, storage, [&](Id other, Id) { visit(other); });
  }

 private:
  template <class Visit>
  static void each_edge(const Adjacency& side, const std::vector<std::uint8_t>& there, Id storage,
                        Visit visit) {
    for (Id i = side.start[storage]; i < side.start[storage + 1]; ++i)
      if (there[side.edge[i]]) visit(side.storage[i], side.edge[i]);
  }

  const Edges* edges_;
  std::vector<std::uint8_t> child_there_;   // [edges] the parent knows the child
  std::vector<std::uint8_t> parent_there_;  // [edges] the child knows the parent
};

}  // namespace dtrdiag
