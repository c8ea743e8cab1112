// The Python module dtrdiag.simulator._native: arrays in, arrays out, the GIL released meanwhile.
#include <memory>
#include <string>

#include "python_runs.hpp"
#include "score_arrays.hpp"

namespace py = pybind11;

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
