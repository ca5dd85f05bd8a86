// The student's program: runs what is linked into it as the grader asks, and tells what came of it.
//
// The grader (own/attempt.cpp) starts it and alone judges. Its answers are the elements of C, what the
// microscope saw, and an exercise's own numbers.
#include <unistd.h>

#include <cstring>

#include "grader/benchmark.h"
#include "grader/channel.h"
#include "grader/submission.h"
#include "harness/device.h"
#include "harness/host_matrix.h"
#include "harness/inspector.h"
#include "own/serve.h"
#include "sim/half.h"
#include "sim/runtime.h"
#include "sim/simulator.h"

namespace gemm::grading {
namespace {
using nlohmann::json;

constexpr size_t GUARD = 256;  // bytes before and after the bias

std::vector<Submission>& all_submissions() {
  static std::vector<Submission> all;
  return all;
}

std::vector<lab::Driver>& drivers() {
  static std::vector<lab::Driver> all;
  return all;
}
const lab::Driver& driver_of(const Submission& submission) {
  for (const lab::Driver& driver : drivers())
    if (driver.file == submission.file) return driver;
  throw std::runtime_error("its line `const Benchmark exercise(...);` is missing");
}

struct Buffer {
  explicit Buffer(size_t bytes)
      : device(make_sim_device()), memory(static_cast<char*>(device->allocate(bytes))) {}
  ~Buffer() { device->release(memory); }
  Buffer(const Buffer&) = delete;
  std::unique_ptr<Device> device;
  char* memory;
};

std::string form_of(const Submission& s) {
  if (s.count_wrong) return "count_wrong";
  if (!s.launch) return driver_of(s).verify ? "verify" : "compare";
  static const char* const epilogues[] = {"", " bias", " leaky_relu"};
  return to_string(s.dtype) + epilogues[static_cast<int>(s.epilogue)];
}

// Runs the attempt. What it throws becomes a finding, as what the simulator throws does.
void run(const Submission& submission, const GemmCall& c, const void* bias) {
  try {
    submission.launch(c, bias, SLOPE);
  } catch (const sim::Error&) {
    throw;
  } catch (const std::exception& e) {
    throw sim::Error(std::string("launch() threw an exception: ") + e.what());
  } catch (...) {
    throw sim::Error("launch() threw something that is no std::exception");
  }
}

// N elements of the matrices' type with guards: what is not one of them is `byte`.
struct Bias {
  Bias(const Problem& p, int byte)
      : bytes(p.N * element_size(p, Operand::C) + 2 * GUARD),
        buffer(bytes),
        first(buffer.memory + GUARD) {
    std::memset(buffer.memory, byte, bytes);
  }
  size_t bytes;
  Buffer buffer;
  char* first;
};

// The elements of C, guards included.
json results(const Submission& submission, const Problem& p, Inputs inputs) {
  Buffer a(layout(p, Operand::A).bytes), b(layout(p, Operand::B).bytes),
      c(layout(p, Operand::C).bytes);
  fill_host(a.memory, p, Operand::A, inputs, SEED);
  fill_host(b.memory, p, Operand::B, inputs, SEED);
  fill_host(c.memory, p, Operand::C, inputs, SEED);
  const Bias bias(p, 0xff);  // NaN
  for (int n = 0; n < p.N; ++n) {
    const float x = bias_at(p.dtype, n, inputs);
    if (p.dtype == DType::f16)
      reinterpret_cast<sim::half*>(bias.first)[n] = sim::half(x);
    else
      reinterpret_cast<float*>(bias.first)[n] = x;
  }
  run(submission, make_call(p, a.memory, b.memory, c.memory), bias.first);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(c.memory);
  return {{"c", json::binary({bytes, bytes + layout(p, Operand::C).bytes})}};
}

// One problem under the microscope.
struct View {
  View(const Problem& p, const Submission& submission) : bias(p, 0), inspector(p) {
    rung.needs.transposed = true;
    rung.dtype = submission.dtype;
    rung.backend = Backend::sim_traced;
    rung.launch = [&submission, first = bias.first](const GemmCall& c) {
      run(submission, c, first);
    };
    const int element = static_cast<int>(element_size(p, Operand::C));
    if (submission.epilogue == Epilogue::bias)
      inspector.add_input(
          {"bias", bias.buffer.memory, bias.bytes, bias.first, 1, p.N, p.N, element});
  }
  Bias bias;
  Rung rung;
  Inspector inspector;
};

json look(const Submission& submission, const Problem& p) {
  View view(p, submission);
  const Inspection seen = view.inspector.inspect(view.rung, default_traced_blocks(p));
  json lines = json::array(), findings = json::array();
  for (const sim::LineTraffic& l : seen.lines) {
    const sim::Traffic& t = l.traffic;
    lines.push_back({l.global, int(l.kind), l.memory, t.requests, t.bytes, t.passes, t.ideal});
  }
  for (const sim::Finding& f : seen.findings) findings.push_back({f.check, f.what, f.count});
  return {{"skipped", seen.skipped},
          {"blocks", seen.blocks},
          {"threads", seen.threads_per_block},
          {"lines", lines},
          {"findings", findings}};
}

json written(const Submission& submission, const Problem& p, int64_t block) {
  View view(p, submission);
  const sim::Written w = view.inspector.written(view.rung, block);
  return {{"row", w.row_begin}, {"col", w.col_begin}};
}

json count_wrong(const Submission& submission, const json& request) {
  const std::vector<float> got = request.at("got");
  const std::vector<double> want = request.at("want"), bound = request.at("bound");
  return {{"said", submission.count_wrong(got.data(), want.data(), bound.data(),
                                          static_cast<int64_t>(got.size()))}};
}

json drive(const Submission& submission, const lab::Task& task) {
  const lab::Driver& driver = driver_of(submission);
  lab::Machine::Model model;
  lab::Machine gpu(model);
  const std::vector<lab::Kernel> kernels = model.add_kernels(task.kernels);
  const std::vector<lab::Kernel> libraries(kernels.begin() + 1, kernels.end());
  const double said = driver.verify ? driver.verify(gpu, kernels.at(0), libraries.at(0), task.sizes)
                                    : driver.compare(gpu, kernels.at(0), libraries, task.sizes);
  json launches = json::array();
  for (const lab::Launch& l : model.launches())
    launches.push_back({l.kernel, l.warm, l.zeros, l.first, l.timed});
  return {{"said", said}, {"launches", launches}};
}

json answer(const json& request) {
  const std::string what = request.at("what");
  if (what == "list") {
    json list = json::array();
    for (const Submission& s : all_submissions()) list.push_back({s.file, form_of(s)});
    return {{"list", list}};
  }
  const Submission& submission = all_submissions().at(request.at("submission"));
  if (what == "count_wrong") return count_wrong(submission, request);
  if (what == "drive") return drive(submission, lab::task_of(request.at("task")));
  const Problem p = problem_of(request.at("problem"));
  const bool eager = request.value("eager_copies", false);
  sim::set_async_schedule(eager ? sim::AsyncSchedule::eager_copies
                                : sim::AsyncSchedule::lazy_copies);
  if (what == "results") return results(submission, p, request.at("inputs"));
  if (what == "look") return look(submission, p);
  return written(submission, p, request.at("block"));
}

}  // namespace

void add(Submission submission) { all_submissions().push_back(std::move(submission)); }

}  // namespace gemm::grading

void gemm::lab::add(Driver driver) {
  grading::add({driver.file, DType::f32, grading::Epilogue::none, {}, {}});
  grading::drivers().push_back(std::move(driver));
}

int main() {
  // Unbuffered: what is printed before a crash or an endless loop must be seen.
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  // exit() ends the process at once, in whatever thread it is called: destructors would wait for the
  // simulator's threads, which are started here so that they are gone after this.
  gemm::sim::runtime::launch([](void*) {}, nullptr, {});
  on_exit([](int status, void*) { _exit(status); }, nullptr);
  gemm::own::serve(gemm::grading::answer, "something was thrown that is no std::exception");
  _exit(0);
}
