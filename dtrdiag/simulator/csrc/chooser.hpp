// Who chooses in a run: the policy, unless an intervention has a say.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "interventions.hpp"
#include "policy.hpp"

namespace dtrdiag {

inline Uses uses_of(const Factors& factors) {
  Uses uses;
  uses.regions = factors.cost == Cost::Estar || factors.cost == Cost::Backward;
  uses.classes = factors.cost == Cost::Eq;
  uses.graph = factors.cost == Cost::Full;
  return uses;
}

struct Policy {
  Factors factors;
  std::uint64_t seed = 0;
  std::size_t candidates = 0;   // how many losers each pressure eviction lists
  bool cached_regions = false;  // see `Uses`

  // What it looks at, and what those look at that it is changed for: tracked from the start.
  Uses uses(const Interventions& interventions) const {
    Uses uses = uses_of(factors);
    uses.cached_regions = cached_regions;
    for (const auto& changed : interventions.policies) uses |= uses_of(changed.value);
    return uses;
  }
};

class Chooser {
 public:
  Chooser(const Policy& policy, std::shared_ptr<const Interventions> interventions)
      : policy_(policy.factors, policy.seed, policy.candidates, interventions->tie_break,
                interventions->repairs.zero_stops),
        interventions_(std::move(interventions)) {}

  // The pool is not empty. `decision`: the index of the eviction that is to be chosen.
  Choice choose(std::int64_t decision, const Sight& sight) {
    const auto& [repairs, tie_break, victims, policies, budgets, pins, keeps] = *interventions_;
    while (policies_used_ < policies.size() && policies[policies_used_].at <= decision)
      policy_.follow(policies[policies_used_++].value);
    if (victims_used_ == victims.size()) return policy_.choose(sight);
    check_passed(decision);
    if (victims[victims_used_].at > decision) return policy_.choose(sight);
    const Victim& victim = victims[victims_used_++];
    return victim.forced ? force(victim, sight) : forbid(victim, sight);
  }

  // Every victim before this decision was an eviction under pressure, or an error is due.
  void check_passed(std::int64_t decision) const {
    const auto& victims = interventions_->victims;
    if (victims_used_ < victims.size() && victims[victims_used_].at < decision)
      throw Impossible{Impossible::kNoPressure, victims[victims_used_], kNone};
  }

  const std::vector<Candidate>& losers() const { return policy_.losers(); }

 private:
  static bool in_pool(Id storage, const Sight& sight) {
    return static_cast<std::size_t>(storage) < sight.table.residency.size() &&
           sight.pool.contains(storage);
  }

  Choice force(const Victim& victim, const Sight& sight) {
    if (!in_pool(victim.storage, sight))
      throw Impossible{Impossible::kNotInPool, victim, victim.storage};
    return policy_.given(victim.storage, kNone, sight);
  }

  Choice forbid(const Victim& victim, const Sight& sight) {
    const Id storage = victim.storage == kNone ? policy_.choose(sight).storage : victim.storage;
    if (!in_pool(storage, sight)) throw Impossible{Impossible::kNotInPool, victim, storage};
    if (sight.pool.size() == 1) throw Impossible{Impossible::kNothingElse, victim, storage};
    return policy_.given(policy_.choose_without(storage, sight).storage, storage, sight);
  }

  PolicyChooser policy_;
  std::shared_ptr<const Interventions> interventions_;
  std::size_t policies_used_ = 0;
  std::size_t victims_used_ = 0;
};

}  // namespace dtrdiag
