// The Python module dtrdiag.simulator._native: arrays in, arrays out, the GIL released meanwhile.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "engine.hpp"
#include "event_arrays.hpp"
#include "score_arrays.hpp"

namespace py = pybind11;

namespace dtrdiag {
namespace {

template <class To>
std::vector<To> column(const Ints& values) {
  if (values.ndim() != 1) throw std::invalid_argument("a column has one dimension");
  const auto view = values.unchecked<1>();
  std::vector<To> made(static_cast<std::size_t>(view.shape(0)));
  for (py::ssize_t i = 0; i < view.shape(0); ++i) {
    made[static_cast<std::size_t>(i)] = static_cast<To>(view(i));
    if (static_cast<std::int64_t>(made[static_cast<std::size_t>(i)]) != view(i))
      throw Unsuitable("ids above 2**31");
  }
  return made;
}

template <class Value>
py::array_t<Value> array(const std::vector<Value>& values) {
  return py::array_t<Value>(static_cast<py::ssize_t>(values.size()), values.data());
}

std::shared_ptr<PreparedTrace> prepare(const Ints& op_cost_ns, const Ints& input_start,
                                       const Ints& input_tensor, const Ints& output_start,
                                       const Ints& tensor_storage, const Ints& tensor_bytes,
                                       const Ints& step_kind, const Ints& step_operand) {
  TraceArrays arrays;
  arrays.op_cost_ns = column<Ns>(op_cost_ns);
  arrays.input_start = column<Id>(input_start);
  arrays.input_tensor = column<Id>(input_tensor);
  arrays.output_start = column<Id>(output_start);
  arrays.tensor_storage = column<Id>(tensor_storage);
  arrays.tensor_bytes = column<Bytes>(tensor_bytes);
  for (std::int8_t kind : column<std::int8_t>(step_kind)) {
    if (kind < 0 || kind > static_cast<std::int8_t>(Step::Output))
      throw std::invalid_argument("an unknown kind of step");
    arrays.step_kind.push_back(static_cast<Step>(kind));
  }
  arrays.step_operand = column<Id>(step_operand);
  if (arrays.tensors() >= Id{1} << 30 || arrays.ops() >= Id{1} << 30)
    throw Unsuitable("more than 2**30 ops or tensors");
  py::gil_scoped_release unlocked;
  arrays.finish();
  return std::make_shared<PreparedTrace>(std::move(arrays));
}

// pybind11 passes None as no trace.
std::shared_ptr<PreparedTrace> there(std::shared_ptr<PreparedTrace> trace) {
  if (!trace) throw std::invalid_argument("no trace");
  return trace;
}

using Changes = std::shared_ptr<Interventions>;

Rules rules_of(std::optional<Bytes> budget_bytes, const std::string& dealloc,
               std::optional<Ns> remat_limit_ns, const Changes& changes) {
  Rules rules;
  if (changes) rules.interventions = changes;
  rules.budget_bytes = budget_bytes;
  rules.remat_limit_ns = remat_limit_ns;
  if (dealloc == "eager")
    rules.dealloc = Dealloc::Eager;
  else if (dealloc == "ignore")
    rules.dealloc = Dealloc::Ignore;
  else if (dealloc == "banish")
    rules.dealloc = Dealloc::Banish;
  else
    throw std::invalid_argument("unknown dealloc");
  return rules;
}

Factors factors_of(const std::string& cost, bool size, bool staleness) {
  static const std::pair<const char*, Cost> kCosts[] = {
      {"none", Cost::None},         {"local", Cost::Local}, {"backward", Cost::Backward},
      {"estar", Cost::Estar},       {"eq", Cost::Eq},       {"full", Cost::Full},
      {"last_access", Cost::LastAccess}, {"random", Cost::Random}};
  for (const auto& [name, value] : kCosts)
    if (cost == name) return {value, size, staleness};
  throw std::invalid_argument("unknown cost");
}

Repairs repairs_of(const std::vector<std::string>& names) {
  static const std::pair<const char*, bool Repairs::*> kRepairs[] = {
      {"uncomputed-neighbour", &Repairs::uncomputed_neighbour},
      {"stale-region", &Repairs::stale_region},
      {"phantom-credit", &Repairs::phantom_credit},
      {"zero-stops", &Repairs::zero_stops},
      {"live-iteration", &Repairs::live_iteration},
      {"banished-sibling", &Repairs::banished_sibling}};
  Repairs repairs;
  for (const std::string& wanted : names) {
    bool known = false;
    for (const auto& [name, member] : kRepairs)
      if (wanted == name) repairs.*member = known = true;
    if (!known) throw std::invalid_argument("unknown repair");
  }
  return repairs;
}

TieBreak tie_break_of(const std::string& wanted) {
  static const std::pair<const char*, TieBreak> kTieBreaks[] = {
      {"last", TieBreak::Last},
      {"first", TieBreak::First},
      {"lowest-id", TieBreak::LowestId},
      {"highest-id", TieBreak::HighestId}};
  for (const auto& [name, value] : kTieBreaks)
    if (wanted == name) return value;
  throw std::invalid_argument("unknown tie-break");
}

// Rows ascend; a victim is (index, storage or -1, forced), a policy (index, cost, size, staleness).
Changes changes_of(const std::vector<std::string>& repairs, const std::string& tie_break,
                   const std::vector<std::tuple<std::int64_t, Id, bool>>& victims,
                   const std::vector<std::tuple<std::int64_t, std::string, bool, bool>>& policies,
                   const std::vector<std::pair<std::int64_t, Bytes>>& budgets,
                   std::vector<Id> pins, std::vector<Id> keeps) {
  auto made = std::make_shared<Interventions>();
  made->repairs = repairs_of(repairs);
  made->tie_break = tie_break_of(tie_break);
  for (const auto& [at, storage, forced] : victims) made->victims.push_back({at, storage, forced});
  for (const auto& [at, cost, size, staleness] : policies)
    made->policies.push_back({at, factors_of(cost, size, staleness)});
  for (const auto& [at, budget_bytes] : budgets) made->budgets.push_back({at, budget_bytes});
  const auto below_zero = [](Id storage) { return storage < 0; };
  if (std::any_of(pins.begin(), pins.end(), below_zero) ||
      std::any_of(keeps.begin(), keeps.end(), below_zero))
    throw std::invalid_argument("a storage below 0");
  made->pins = std::move(pins);
  made->keeps = std::move(keeps);
  return made;
}

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::Ok: return "ok";
    case Outcome::Oom: return "oom";
    case Outcome::Thrashed: return "thrashed";
    case Outcome::Running: break;
  }
  return "running";
}

// Counts of a run so far, by the names of the fields of the `end` event.
py::dict totals(const Machine& machine) {
  const Tally& tally = machine.tally;
  py::dict made;
  made["outcome"] = name_of(machine.outcome());
  made["computes"] = tally.computes;
  made["remats"] = tally.remats;
  made["remat_cost_ns"] = tally.remat_cost_ns;
  made["evictions_pressure"] = tally.evictions[kPressure];
  made["evictions_release"] = tally.evictions[kRelease];
  made["evictions_banish"] = tally.evictions[kBanish];
  made["distinct_evicted"] = tally.distinct_any;
  made["distinct_pressure"] = tally.distinct[kPressure];
  made["distinct_release"] = tally.distinct[kRelease];
  made["distinct_banish"] = tally.distinct[kBanish];
  made["max_memory_bytes"] = tally.max_memory_bytes;
  made["memory_bytes"] = machine.memory_bytes();
  made["clock_ns"] = machine.clock_ns();
  made["interval_lo_bytes"] = tally.fit_lo_bytes;
  made["interval_hi_bytes"] = tally.fit_hi_bytes;
  return made;
}

// Where a run stopped: op, request, memory, pending ops, pinned and evictable storages.
py::object stop(const Machine& machine) {
  if (machine.outcome() != Outcome::Oom && machine.outcome() != Outcome::Thrashed)
    return py::none();
  py::list pending;
  for (std::size_t i = 0; i < machine.pending().size(); ++i) {
    const Frame& frame = machine.pending()[i];
    const Row held = machine.held(i);
    pending.append(py::make_tuple(frame.op, frame.tensor, frame.first,
                                  std::vector<Id>(held.begin(), held.end())));
  }
  std::vector<Id> pinned;
  const Id tensors = static_cast<Id>(machine.table.residency.size());
  for (Id id = 0; id < tensors; ++id)
    if (machine.pinned(id) && machine.table.residency[id] != kAbsent) pinned.push_back(id);
  const Bytes requested = machine.outcome() == Outcome::Oom ? machine.requested_bytes() : 0;
  return py::make_tuple(machine.pending().back().op, requested, machine.memory_bytes(), pending,
                        pinned, machine.pool.storages());
}

py::bytes text_of(const Machine& machine, std::size_t begin, std::size_t end) {
  const std::size_t size = machine.tally.decisions.size();
  return decisions_text(machine.tally.decisions, std::min(begin, size), std::min(end, size));
}

// What a finished run hands over.
struct Finished {
  std::shared_ptr<PreparedTrace> trace;  // kept for as long as the run looks into it
  Run run;
  Choices choices;
};

py::object score_object(const Score& score) {
  switch (score.kind) {
    case Score::kInteger: return py::int_(score.integer);
    case Score::kReal: return py::float_(score.real);
    case Score::kNothing: break;
  }
  return py::none();
}

py::list chosen(const Finished& done) {
  py::list made;
  for (const Score& score : done.choices.chosen) made.append(score_object(score));
  return made;
}

py::list losers(const Finished& done) {
  py::list rows;
  std::size_t begin = 0;
  for (std::size_t end : done.choices.losers_end) {
    py::list row;
    for (; begin < end; ++begin) {
      const Candidate& loser = done.choices.losers[begin];
      row.append(py::make_tuple(loser.storage, score_object(loser.score)));
    }
    rows.append(row);
  }
  return rows;
}

// A run that a Python policy decides: it stops whenever it needs a victim.
struct Steps {
  std::shared_ptr<PreparedTrace> trace;
  Machine machine;

  bool advance() {
    py::gil_scoped_release unlocked;
    machine.run([](const Machine&, Bytes) {});
    return machine.wants_victim();
  }

  void evict(Id storage) {
    if (!machine.wants_victim() || storage < 0 ||
        static_cast<std::size_t>(storage) >= machine.table.residency.size() ||
        !machine.pool.contains(storage))
      throw std::invalid_argument("no such storage in the pool");
    machine.evict_for_room({storage, {}}, {});
  }

  py::array_t<std::int64_t> column(const std::string& name) {
    std::vector<std::int64_t> made;
    const StorageTable& table = machine.table;
    constexpr Ns no_limit = Ns{1} << 62;
    const auto each = [&](auto value) {
      for (Id id : machine.pool.slots())
        if (id != kNone) made.push_back(value(id));
    };
    if (name == "storages")
      each([&](Id id) { return static_cast<std::int64_t>(id); });
    else if (name == "size_bytes")
      each([&](Id id) { return table.size_bytes[id]; });
    else if (name == "compute_ns")
      each([&](Id id) { return table.compute_ns[id]; });
    else if (name == "last_access_ns")
      each([&](Id id) { return table.last_access_ns[id]; });
    else if (name == "forward_ns")
      each([&](Id id) { return machine.tracked.forward_ns(id, no_limit, table); });
    else if (name == "backward_ns")
      each([&](Id id) { return machine.tracked.backward_ns(id, no_limit, table); });
    else if (name == "eq_ns")
      each([&](Id id) { return machine.tracked.eq_ns(id, table); });
    else if (name == "neighbourhood_ns")
      each([&](Id id) { return machine.tracked.neighbourhood(id, table).cost_ns; });
    else if (name == "neighbourhood_access_ns")
      each([&](Id id) { return machine.tracked.neighbourhood(id, table).last_access_ns; });
    else
      throw std::invalid_argument("no such column");
    return array(made);
  }
};

// A run whose events are taken in batches.
struct Logged {
  std::shared_ptr<PreparedTrace> trace;
  EventLog log;
  Run run;

  Logged(std::shared_ptr<PreparedTrace> prepared, const Rules& rules, const Policy& policy)
      : trace(std::move(prepared)), log(trace->arrays), run(*trace, rules, policy) {
    run.machine.log = &log;
  }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;

  py::dict next(std::size_t most_events) {
    EventBatch batch;
    {
      py::gil_scoped_release unlocked;
      run.finish(nullptr, most_events);
      batch = log.take();
    }
    return arrays(std::move(batch));
  }
};

struct Range {
  std::shared_ptr<PreparedTrace> trace;
  RunsBetween runs;
  const Run* run = nullptr;

  bool next() {
    py::gil_scoped_release unlocked;
    run = runs.next();
    return run != nullptr;
  }

  const Machine& machine() const {
    if (!run) throw std::invalid_argument("no run at hand");
    return run->machine;
  }
};

}  // namespace
}  // namespace dtrdiag

PYBIND11_MODULE(_native, module) {
  using namespace dtrdiag;
  module.doc() = "The compiled engine of dtrdiag.simulator; see dtrdiag/simulator/native.py.";
  py::register_exception<Unsuitable>(module, "Unsuitable");
  static py::exception<NeededAfterBanish> needed(module, "NeededAfterBanish");
  static py::exception<Impossible> impossible(module, "Impossible");
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const NeededAfterBanish& error) {
      py::set_error(needed, py::int_(error.tensor));
    } catch (const Impossible& error) {
      py::set_error(impossible, py::make_tuple(static_cast<int>(error.reason), error.victim.at,
                                               error.storage));
    }
  });

  py::class_<PreparedTrace, std::shared_ptr<PreparedTrace>>(module, "Trace")
      .def(py::init(&prepare))
      .def_property_readonly("only_to_new", [](const PreparedTrace& trace) {
        return trace.edges.only_to_new;
      });

  py::class_<Interventions, Changes>(module, "Interventions").def(py::init(&changes_of));

  py::class_<Finished>(module, "Finished")
      .def_property_readonly("totals",
                             [](const Finished& done) { return totals(done.run.machine); })
      .def_property_readonly("stop", [](const Finished& done) { return stop(done.run.machine); })
      .def_property_readonly("victims",
                             [](const Finished& done) { return array(done.choices.victims); })
      .def_property_readonly("scores", &chosen)
      .def_property_readonly("losers", &losers)
      .def("text", [](const Finished& done, std::size_t begin, std::size_t end) {
        return text_of(done.run.machine, begin, end);
      });

  module.def("run", [](std::shared_ptr<PreparedTrace> trace, std::optional<Bytes> budget_bytes,
                       const std::string& dealloc, std::optional<Ns> remat_limit_ns,
                       const std::string& cost, bool size, bool staleness, std::uint64_t seed,
                       std::size_t candidates, bool scores, bool cached_regions,
                       Changes changes) {
    const Rules rules = rules_of(budget_bytes, dealloc, remat_limit_ns, changes);
    const Policy policy{factors_of(cost, size, staleness), seed, candidates, cached_regions};
    there(trace);
    py::gil_scoped_release unlocked;
    auto done = std::make_unique<Finished>(Finished{trace, Run(*trace, rules, policy), {}});
    done->run.finish(scores ? &done->choices : nullptr);
    return done;
  }, py::arg("trace"), py::arg("budget_bytes"), py::arg("dealloc"), py::arg("remat_limit_ns"),
     py::arg("cost"), py::arg("size"), py::arg("staleness"), py::arg("seed"),
     py::arg("candidates"), py::arg("scores"), py::arg("cached_regions"),
     py::arg("interventions") = Changes());

  py::class_<Logged>(module, "Logged")
      .def(py::init([](std::shared_ptr<PreparedTrace> trace, std::optional<Bytes> budget_bytes,
                       const std::string& dealloc, std::optional<Ns> remat_limit_ns,
                       const std::string& cost, bool size, bool staleness, std::uint64_t seed,
                       std::size_t candidates, Changes changes) {
        return std::make_unique<Logged>(
            there(std::move(trace)), rules_of(budget_bytes, dealloc, remat_limit_ns, changes),
            Policy{factors_of(cost, size, staleness), seed, candidates, false});
      }),
           py::arg("trace"), py::arg("budget_bytes"), py::arg("dealloc"),
           py::arg("remat_limit_ns"), py::arg("cost"), py::arg("size"), py::arg("staleness"),
           py::arg("seed"), py::arg("candidates"), py::arg("interventions") = Changes())
      .def("next", &Logged::next)
      .def_property_readonly("totals", [](const Logged& run) { return totals(run.run.machine); })
      .def_property_readonly("stop", [](const Logged& run) { return stop(run.run.machine); })
      .def("text", [](const Logged& run, std::size_t begin, std::size_t end) {
        return text_of(run.run.machine, begin, end);
      });

  py::class_<Range>(module, "Range")
      .def(py::init([](std::shared_ptr<PreparedTrace> trace, const std::string& dealloc,
                       std::optional<Ns> remat_limit_ns, const std::string& cost, bool size,
                       bool staleness, std::uint64_t seed, Bytes from_bytes, Bytes to_bytes,
                       Changes changes) {
        const Rules rules = rules_of(from_bytes, dealloc, remat_limit_ns, changes);
        const Policy policy{factors_of(cost, size, staleness), seed, 0, false};
        there(trace);
        return Range{trace, RunsBetween(*trace, rules, policy, from_bytes, to_bytes)};
      }),
           py::arg("trace"), py::arg("dealloc"), py::arg("remat_limit_ns"), py::arg("cost"),
           py::arg("size"), py::arg("staleness"), py::arg("seed"), py::arg("from_bytes"),
           py::arg("to_bytes"), py::arg("interventions") = Changes())
      .def("next", &Range::next)
      .def_property_readonly("budget_bytes", [](const Range& range) {
        return range.runs.ran_at_bytes();
      })
      .def_property_readonly("totals", [](const Range& range) { return totals(range.machine()); })
      .def_property_readonly("stop", [](const Range& range) { return stop(range.machine()); })
      .def("text", [](const Range& range, std::size_t begin, std::size_t end) {
        return text_of(range.machine(), begin, end);
      });

  py::class_<Steps>(module, "Steps")
      .def(py::init([](std::shared_ptr<PreparedTrace> trace, std::optional<Bytes> budget_bytes,
                       const std::string& dealloc, std::optional<Ns> remat_limit_ns, bool regions,
                       bool classes, bool graph, Changes changes) {
        const Rules rules = rules_of(budget_bytes, dealloc, remat_limit_ns, changes);
        there(trace);
        Uses uses;
        uses.regions = regions;
        uses.classes = classes;
        uses.graph = graph;
        return Steps{trace, Machine(trace->arrays, trace->edges, rules, uses)};
      }),
           py::arg("trace"), py::arg("budget_bytes"), py::arg("dealloc"),
           py::arg("remat_limit_ns"), py::arg("regions"), py::arg("classes"), py::arg("graph"),
           py::arg("interventions") = Changes())
      .def("advance", &Steps::advance)
      .def("evict", &Steps::evict)
      .def("column", &Steps::column)
      .def_property_readonly("clock_ns",
                             [](const Steps& steps) { return steps.machine.clock_ns(); })
      .def_property_readonly("totals", [](const Steps& steps) { return totals(steps.machine); })
      .def_property_readonly("stop", [](const Steps& steps) { return stop(steps.machine); })
      .def("text", [](const Steps& steps, std::size_t begin, std::size_t end) {
        return text_of(steps.machine, begin, end);
      });

  module.def("rounded", &rounded);
  module.def("ordered", &ordered);
}
