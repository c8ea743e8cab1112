// The same costs of regions as `cached_regions.hpp`, walked when asked for instead of kept.
//
// A cached region differs from a fresh walk only by what came into being since its last refresh
// and refreshed nothing. Where edges lead only to new storages (`Edges::only_to_new`), that is:
//   - the outputs of the op that is being called, until it executes (Q-uncomputed-neighbour);
//   - the cost that an alias adds to a storage that is not resident, until that comes back.
// Both end with the call that brought them. So a sum is a walk now, corrected by what the region
// has not seen: `includes_new_` and `unseen_ns_` follow the rebuilds and merges of that one call.
// No set is stored, and a walk can stop as soon as its sum shows that the candidate has lost.
//
// What a walk found is kept as a lower bound, with a mark while it is the sum itself, and carried
// along where the change is plain:
//   - an eviction adds the storage's cost to the regions that see it at their edge, and more only
//     if its own region on the far side is not empty;
//   - all parents of a storage that becomes resident are resident (they were its op's inputs), so
//     its backward region is empty, and others' backward regions lose its cost and nothing else.
//
// Where nothing is cached (the repair of Q-stale-region), sums are plain walks: `sees_all`. Then new
// storages and added cost raise what is known of the regions at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "storage_graph.hpp"
#include "storage_table.hpp"

namespace dtrdiag {

class FreshRegions {
 public:
  enum Side { kForward = 0, kBackward = 1 };

  FreshRegions(const Edges& edges, std::size_t tensors, bool sees_all)
      : edges_(&edges),
        sees_all_(sees_all),
        mark_(tensors, kClosed),
        seen_(tensors, 0),
        walk_ns_(tensors, 0),
        includes_new_(tensors, 0),
        unseen_ns_{std::vector<Ns>(tensors, 0), std::vector<Ns>(tensors, 0)},
        least_ns_{std::vector<Ns>(tensors, 0), std::vector<Ns>(tensors, 0)},
        exact_{std::vector<std::uint8_t>(tensors, 0), std::vector<std::uint8_t>(tensors, 0)},
        leads_(tensors, 0) {}

  // An op is called: its new storages can be reached from now on.
  void called(const std::vector<Id>& fresh, bool waits, const StorageTable& table) {
    waits_ = waits && !sees_all_;
    for (Id storage : fresh) {
      mark_[storage] = 0;
      walk_ns_[storage] = sees_all_ ? table.compute_ns[storage] : 0;
      new_ns_ += table.compute_ns[storage];
    }
    new_ = fresh;
    if (sees_all_) {
      for (Id storage : fresh) gains_at_edge<kBackward>(storage, table.compute_ns[storage], table);
      return;
    }
    if (waits_ && !new_.empty()) lead_to_new(new_.front());
  }

  // An alias adds to the cost of a storage that was there before.
  void grew(Id storage, Ns cost_ns, const StorageTable& table) {
    walk_ns_[storage] = table.compute_ns[storage];
    if (table.residency[storage] != kAbsent) return;
    if (sees_all_) {
      gains_at_edge<kBackward>(storage, cost_ns, table);
      gains_at_edge<kForward>(storage, cost_ns, table);
      return;
    }
    // Whoever has it in a region is the frontier of its region on the other side.
    frontier<kBackward>(storage, table);
    for (Id id : found_) note_unseen(kForward, id, cost_ns);
    frontier<kForward>(storage, table);
    for (Id id : found_) note_unseen(kBackward, id, cost_ns);
  }

  // The op that was called has been executed.
  void call_done() {
    for (Id id : touched_) includes_new_[id] = 0, unseen_ns_[0][id] = unseen_ns_[1][id] = 0;
    for (Id id : leading_) leads_[id] = 0;
    touched_.clear();
    leading_.clear();
    new_.clear();
    new_ns_ = 0;
    waits_ = false;
  }

  void became_resident(const std::vector<Id>& storages, const StorageTable& table) {
    for (Id storage : storages) {
      mark_[storage] = kClosed;
      walk_ns_[storage] = table.compute_ns[storage];
      leads_[storage] = 0;
    }
    for (Id storage : storages) know(kBackward, storage, 0);
    if (storages.empty()) return;
    if (!new_.empty() && table.residency[new_.front()] != kAbsent) {
      // A call's own end: nobody has read its outputs yet, and of all regions only those of its
      // inputs can have them.
      for (Id storage : storages) {
        know(kForward, storage, 0);
        for (Id id : edges_->parents.of(storage)) {
          if (sees_all_) least_ns_[kForward][id] -= table.compute_ns[storage];
          if (includes_new_[id]) forget(kForward, id);
        }
      }
      return;
    }
    for (Id storage : storages) rebuilt(storage, table);
  }

  void evicted(Id storage, const StorageTable& table) {
    mark_[storage] = 0;
    const Ns cost_ns = table.compute_ns[storage];
    const bool forward_empty = frontier<kForward>(storage, table);
    const std::vector<Id> below = found_;
    const bool backward_empty = frontier<kBackward>(storage, table);
    for (Id id : below) absorb(kBackward, id, cost_ns, backward_empty);
    for (Id id : found_) absorb(kForward, id, cost_ns, forward_empty);
    if (waits_ && !new_.empty()) {
      if (includes_new_[storage])
        for (Id id : found_) set_includes_new(id, 1);
      if (reaches_new(storage)) lead_to_new(storage);
    }
    includes_new_[storage] = 0;
    for (Side which : {kForward, kBackward}) {
      unseen_ns_[which][storage] = 0;
      forget(which, storage);
    }
  }

  // Cost of a resident storage's region, or any figure above `limit_ns` once it exceeds that.
  template <Side kSide>
  Ns sum_ns(Id storage, Ns limit_ns) {
    if (exact_[kSide][storage]) return least_ns_[kSide][storage];
    Ns correction_ns = -unseen_ns_[kSide][storage];
    if (kSide == kForward && includes_new_[storage]) correction_ns += new_ns_;
    const Ns sum_ns = walk<kSide>(storage, limit_ns - correction_ns) + correction_ns;
    least_ns_[kSide][storage] = sum_ns;
    exact_[kSide][storage] = sum_ns <= limit_ns;
    return sum_ns;
  }

  // What the two regions cost at least, as far as is known without a walk.
  Ns least_ns(Id storage) const { return least_ns_[0][storage] + least_ns_[1][storage]; }
  Ns least_ns(Side which, Id storage) const { return least_ns_[which][storage]; }

 private:
  static constexpr std::uint32_t kClosed = std::numeric_limits<std::uint32_t>::max();

  const Adjacency& side(Side which) const {
    return which == kForward ? edges_->children : edges_->parents;
  }

  void note_unseen(Side which, Id id, Ns cost_ns) {
    unseen_ns_[which][id] += cost_ns;
    touched_.push_back(id);
  }

  // A non-resident storage costs more, and so do the regions that it is in: those of the storages at
  // the edge of its own region on the other side.
  template <Side kSide>
  void gains_at_edge(Id storage, Ns cost_ns, const StorageTable& table) {
    frontier<kSide>(storage, table);
    for (Id id : found_) least_ns_[kSide == kForward ? kBackward : kForward][id] += cost_ns;
  }

  void set_includes_new(Id id, std::uint8_t value) {
    if (includes_new_[id] == value) return;
    includes_new_[id] = value;
    touched_.push_back(id);
  }

  // simrd rebuilds the regions of this storage, and of those that see it at their edge.
  void rebuilt(Id storage, const StorageTable& table) {
    const bool reaches = waits_ && !new_.empty();
    const auto rebuild = [&](Id id) {
      forget(kForward, id);
      unseen_ns_[kForward][id] = 0;
      if (reaches) set_includes_new(id, reaches_new(id));
    };
    rebuild(storage);
    for (Id id : edges_->parents.of(storage)) rebuild(id);
    frontier<kForward>(storage, table);
    for (Id id : found_) {
      least_ns_[kBackward][id] += unseen_ns_[kBackward][id] - table.compute_ns[storage];
      unseen_ns_[kBackward][id] = 0;
    }
  }

  // `id`'s region on one side takes in a storage at its edge, with that one's own region.
  void absorb(Side which, Id id, Ns cost_ns, bool alone) {
    least_ns_[which][id] += cost_ns;
    if (!alone) exact_[which][id] = 0;
  }

  void know(Side which, Id id, Ns sum_ns) {
    least_ns_[which][id] = sum_ns;
    exact_[which][id] = 1;
  }

  void forget(Side which, Id id) {
    least_ns_[which][id] = 0;
    exact_[which][id] = 0;
  }

  // Whether a walk from here would pass the outputs of the call at hand.
  bool reaches_new(Id storage) const {
    for (Id id : edges_->children.of(storage))
      if (leads_[id]) return true;
    return false;
  }

  // A non-resident storage leads to the outputs of the call at hand, so all before it do.
  void lead_to_new(Id storage) {
    for (Id id : new_) leads_[id] = 1;
    leading_.insert(leading_.end(), new_.begin(), new_.end());
    stack_.assign(1, storage);
    while (!stack_.empty()) {
      const Id at = stack_.back();
      stack_.pop_back();
      if (!leads_[at]) {
        leads_[at] = 1;
        leading_.push_back(at);
      }
      for (Id id : edges_->parents.of(at))
        if (mark_[id] != kClosed && !leads_[id]) stack_.push_back(id);
    }
  }

  void next_walk() {
    if (++walk_ < kClosed) return;
    for (std::uint32_t& mark : mark_)
      if (mark != kClosed) mark = 0;
    std::fill(seen_.begin(), seen_.end(), 0);
    walk_ = 1;
  }

  template <Side kSide>
  Ns walk(Id base, Ns limit_ns) {
    next_walk();
    const Adjacency& edges = side(kSide);
    const std::uint32_t walk = walk_;
    Ns sum_ns = 0;
    stack_.clear();
    Id at = base;
    for (;;) {
      for (Id id : edges.of(at)) {
        if (mark_[id] >= walk) continue;  // closed, or visited
        mark_[id] = walk;
        sum_ns += walk_ns_[id];
        if (sum_ns > limit_ns) return sum_ns;
        stack_.push_back(id);
      }
      if (stack_.empty()) return sum_ns;
      at = stack_.back();
      stack_.pop_back();
    }
  }

  // Resident storages at the edge of a storage's region, in `found_`. Whether the region is empty.
  template <Side kSide>
  bool frontier(Id base, const StorageTable& table) {
    next_walk();
    const Adjacency& edges = side(kSide);
    const std::uint32_t walk = walk_;
    bool empty = true;
    found_.clear();
    stack_.clear();
    Id at = base;
    for (;;) {
      for (Id id : edges.of(at)) {
        if (mark_[id] < walk) {
          mark_[id] = walk;
          empty = false;
          stack_.push_back(id);
        } else if (table.residency[id] == kResident && seen_[id] != walk) {
          seen_[id] = walk;
          found_.push_back(id);
        }
      }
      if (stack_.empty()) return empty;
      at = stack_.back();
      stack_.pop_back();
    }
  }

  const Edges* edges_;
  bool sees_all_;
  std::vector<std::uint32_t> mark_;  // last walk that passed; `kClosed`: resident or not yet there
  std::vector<std::uint32_t> seen_;  // last walk that found it at the edge
  std::uint32_t walk_ = 0;
  std::vector<Ns> walk_ns_;          // what a walk adds: compute, 0 for `new_`

  bool waits_ = false;               // the call at hand has inputs to rematerialise
  std::vector<Id> new_;              // outputs of the call at hand, not executed yet
  Ns new_ns_ = 0;                    // their cost
  std::vector<std::uint8_t> includes_new_;  // the forward region has seen `new_`
  std::vector<Ns> unseen_ns_[2];     // cost that aliases added and the region has not seen
  std::vector<Id> touched_;          // storages with either of the two
  std::vector<Ns> least_ns_[2];      // lower bounds of what the regions cost
  std::vector<std::uint8_t> exact_[2];  // the lower bound is the cost

  std::vector<std::uint8_t> leads_;  // non-resident, and leads to `new_`
  std::vector<Id> leading_;          // all that had that mark

  std::vector<Id> stack_, found_;
};

}  // namespace dtrdiag
