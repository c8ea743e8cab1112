// The evictable storages in their order: appended at the end, removed anywhere, both in O(1).
#pragma once

#include <vector>

#include "trace_arrays.hpp"

namespace dtrdiag {

class Pool {
 public:
  explicit Pool(std::size_t tensors) : position_(tensors, kNone) {}

  bool contains(Id storage) const { return position_[storage] >= 0; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Keep a storage out for good. It is not in the pool yet.
  void bar(Id storage) { position_[storage] = kBarred; }

  void append(Id storage) {
    if (position_[storage] != kNone) return;
    position_[storage] = static_cast<Id>(slots_.size());
    slots_.push_back(storage);
    ++size_;
  }

  void remove(Id storage) {
    const Id position = position_[storage];
    if (position < 0) return;
    position_[storage] = kNone;
    slots_[position] = kNone;
    --size_;
    if (slots_.size() > 2 * size_ + kSlack) close_gaps();
  }

  // In order, with `kNone` where a storage was removed.
  const std::vector<Id>& slots() const { return slots_; }

  std::vector<Id> storages() const {
    std::vector<Id> all;
    all.reserve(size_);
    for (Id storage : slots_)
      if (storage != kNone) all.push_back(storage);
    return all;
  }

 private:
  static constexpr std::size_t kSlack = 32;
  static constexpr Id kBarred = -2;

  void close_gaps() {
    std::size_t kept = 0;
    for (Id storage : slots_) {
      if (storage == kNone) continue;
      position_[storage] = static_cast<Id>(kept);
      slots_[kept++] = storage;
    }
    slots_.resize(kept);
  }

  std::vector<Id> slots_;
  std::vector<Id> position_;  // [tensors] slot; `kNone`: not in the pool; `kBarred`: never
  std::size_t size_ = 0;
};

}  // namespace dtrdiag
