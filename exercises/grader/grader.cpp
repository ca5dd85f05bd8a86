#include "grader/grader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "grader/verdict.h"
#include "harness/device.h"
#include "harness/host_matrix.h"
#include "sim/half.h"
#include "sim/simulator.h"

namespace gemm::grading {
namespace {

constexpr uint64_t BIAS_SEED = 77;
constexpr float SLOPE = 0.25f;
constexpr size_t GUARD = 256;  // bytes before and after the bias
constexpr size_t SHOWN = 3;    // findings of one kind

constexpr const char* STOPPED = "stopped early";
std::string name_of(const sim::Finding& f) { return f.check == "failed" ? STOPPED : f.check; }

// In a student's words: what a finding of the microscope means.
std::string meaning_of(const std::string& check) {
  static const std::map<std::string, std::string> meanings = {
      {"race",
       "Two threads use the same bytes of shared memory, one of them writes, and no barrier stands "
       "between the two. Which comes first is chance: a result may be right today and wrong "
       "tomorrow. Look at both lines: should they touch the same bytes at all? If so, where would "
       "a barrier have to be?"},
      {"uninitialised read",
       "No thread of the block has written this shared memory. Either the tile is not filled "
       "completely, or it is read at another place than it is filled, or too early."},
      {"missing cp.async wait",
       "cp.async returns at once and the bytes arrive later. This memory is used while they may "
       "still be on their way."},
      {"out of bounds",
       "An address outside of the matrices. On a GPU this reads or destroys something else, or "
       "ends "
       "the program."},
      {"forbidden access",
       "A and B are inputs. And when beta is 0, C is output only: it may hold NaN, and 0 * NaN is "
       "NaN."},
      {"unwritten", "Every element of C must be written, also those at the edges."},
      {"written twice", "Two threads computed the same element: some tiles overlap."},
      {STOPPED, "The kernel could not go on; on a GPU it would hang, or end in an error."},
  };
  const auto found = meanings.find(check);
  return found == meanings.end() ? "" : found->second;
}

// Wrapped at 96 columns, every line indented.
void print_indented(const std::string& text, int indent) {
  constexpr size_t WIDTH = 96;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) fmt::print("{:{}}{}\n", "", indent, line);
    line.clear();
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && indent + line.size() + 1 + word.size() > WIDTH) flush();
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  flush();
}

std::string say(const Problem& p) {
  std::string text = fmt::format("M = {}, N = {}, K = {}", p.M, p.N, p.K);
  if (p.op_a == Op::T || p.op_b == Op::T)
    text += fmt::format(", {} transposed", p.op_b == Op::N   ? "A"
                                           : p.op_a == Op::N ? "B"
                                                             : "A and B");
  if (p.alpha != 1 || p.beta != 0) text += fmt::format(", alpha {:g}, beta {:g}", p.alpha, p.beta);
  return text;
}

// Runs the attempt. What it throws becomes a finding, as what the simulator throws does.
void run(const Submission& submission, const GemmCall& c, const void* bias) {
  verdict::at(fmt::format("at M = {}, N = {}, K = {}", c.M, c.N, c.K));
  try {
    submission.launch(c, bias, SLOPE);
  } catch (const sim::Error&) {
    throw;
  } catch (const std::exception& e) {
    throw sim::Error(fmt::format("launch() threw an exception: {}", e.what()));
  } catch (...) {
    throw sim::Error("launch() threw something that is no std::exception");
  }
}

struct Buffer {
  explicit Buffer(size_t bytes)
      : device(make_sim_device()), memory(static_cast<char*>(device->allocate(bytes))) {}
  ~Buffer() { device->release(memory); }
  Buffer(const Buffer&) = delete;
  std::unique_ptr<Device> device;
  char* memory;
};

double element(const void* matrix, DType dtype, int64_t i) {
  return dtype == DType::f16 ? float(static_cast<const sim::half*>(matrix)[i])
                             : static_cast<const float*>(matrix)[i];
}

float bias_at(DType dtype, int n, Inputs inputs) {
  const float x = random_value(BIAS_SEED, n);
  return static_cast<float>(round_to(dtype, inputs == Inputs::uniform ? x : std::round(3 * x)));
}

// What the wrong elements have in common.
std::string pattern(const Problem& p, const char* c, Inputs inputs,
                    const HostReference& reference) {
  const bool exact = allowed_error(p, inputs, 0) == 0;
  const MatrixLayout l = layout(p, Operand::C);
  struct Wrong {
    int64_t row, col;
    double got;
  };
  std::vector<Wrong> wrong;
  int64_t nan = 0, rows[2] = {p.M, -1}, cols[2] = {p.N, -1};
  for (int64_t row = 0; row < p.M; ++row)
    for (int64_t col = 0; col < p.N; ++col) {
      const double got = element(c, p.dtype, l.first + row * l.ld + col);
      const double want = exact ? round_to(p.dtype, reference.want[row * p.N + col])
                                : reference.want[row * p.N + col];
      const double bound = allowed_error(p, inputs, want);
      if (std::abs(got - want) <= bound || got == want) continue;
      wrong.push_back({row, col, got});
      nan += std::isnan(got);
      rows[0] = std::min(rows[0], row), rows[1] = std::max(rows[1], row);
      cols[0] = std::min(cols[0], col), cols[1] = std::max(cols[1], col);
    }
  if (wrong.empty()) return "";
  std::string text;
  if (rows[0] > 0 || rows[1] < p.M - 1 || cols[0] > 0 || cols[1] < p.N - 1)
    text += fmt::format(" All of them are in rows {} to {} and columns {} to {}.", rows[0], rows[1],
                        cols[0], cols[1]);
  if (nan > 0)
    text += fmt::format(
        " {} of them are NaN, which C, shared memory and everything around A and B hold before the "
        "kernel starts.",
        nan == static_cast<int64_t>(wrong.size()) ? "All" : std::to_string(nan));
  if (!exact || p.alpha != 1 || p.beta != 0 || p.op_a == Op::T || p.op_b == Op::T) return text;
  // Is it the product over the first few k alone?
  wrong.resize(std::min<size_t>(wrong.size(), 64));
  std::vector<double> sums(wrong.size());
  const Generator generator(p, inputs, SEED);
  for (int k = 0; k < p.K; ++k) {
    bool all = true;
    for (size_t i = 0; i < wrong.size(); ++i) all = all && sums[i] == wrong[i].got;
    if (all)
      return text + fmt::format(
                        " They are what the first {} of the {} columns of A (and rows of B) give: "
                        "the rest of K is left out.",
                        k, p.K);
    for (size_t i = 0; i < wrong.size(); ++i)
      sums[i] += double{generator.stored(Operand::A, wrong[i].row, k)} *
                 generator.stored(Operand::B, k, wrong[i].col);
  }
  return text;
}

std::vector<Submission>& all_submissions() {
  static std::vector<Submission> all;
  return all;
}
std::vector<Test>& all_tests() {
  static std::vector<Test> all;
  return all;
}

// Folder of a file, and the file, without what comes before and after.
std::pair<std::string, std::string> folder_and_stem(const std::string& file) {
  const size_t slash = file.find_last_of('/');
  const size_t before = file.find_last_of('/', slash - 1);
  const std::string name = file.substr(slash + 1);
  return {file.substr(before + 1, slash - before - 1), name.substr(0, name.find('.'))};
}

}  // namespace

std::string Submission::exercise() const { return folder_and_stem(file).first; }
std::string Submission::kind() const { return folder_and_stem(file).second; }
void add(Submission submission) { all_submissions().push_back(std::move(submission)); }
const std::vector<Submission>& submissions() { return all_submissions(); }

Test::Test(std::set<std::string> fails, Grade how, std::source_location here)
    : exercise(folder_and_stem(here.file_name()).first), start_fails(std::move(fails)), grade(how) {
  all_tests().push_back(*this);
}
const std::vector<Test>& tests() { return all_tests(); }

// ------------------------------------------------------------------------------------------------

// One problem under the microscope.
struct Grader::View {
  Problem problem;
  Buffer bias;
  Rung rung;
  Inspector inspector;
  std::optional<Inspection> inspection;

  View(const Problem& p, const Rung& submitted, const Submission& submission)
      : problem(p),
        bias(p.N * element_size(p, Operand::C) + 2 * GUARD),
        rung(submitted),
        inspector(p) {
    const int element = static_cast<int>(element_size(p, Operand::C));
    const size_t bytes = p.N * element + 2 * GUARD;
    std::memset(bias.memory, 0, bytes);
    const char* const first = bias.memory + GUARD;
    rung.launch = [&submission, first](const GemmCall& c) { run(submission, c, first); };
    if (submission.epilogue == Epilogue::bias)
      inspector.add_input({"bias", bias.memory, bytes, first, 1, p.N, p.N, element});
  }
};

Grader::Grader(const Submission& submission) : submission_(submission) {
  rung_.name = submission.exercise();
  rung_.file = submission.file;
  rung_.needs.transposed = true;
  rung_.dtype = submission.dtype;
  rung_.backend = Backend::sim_traced;
}
Grader::~Grader() = default;

void Grader::check(const std::string& name, bool passed, const std::string& detail,
                   const std::string& meaning) {
  ++checks_;
  fmt::print("  {:<7} {}{}\n", passed ? "ok" : "FAILED", name,
             passed && !detail.empty() ? ": " + detail : "");
  std::fflush(stdout);
  if (passed) return;
  failed_.insert(name);
  print_indented(detail, 10);
  if (!meaning.empty()) {
    fmt::print("\n");
    print_indented(meaning, 10);
    fmt::print("\n");
  }
}

void Grader::note(const std::string& text) { print_indented(text, 10); }

void Grader::at_most(const std::string& name, double value, double limit,
                     const std::string& meaning) {
  check(name, value <= limit, fmt::format("{:.10g}, at most {:.10g}", value, limit), meaning);
}

Grader::View& Grader::view(Problem problem) {
  problem.dtype = submission_.dtype;
  std::unique_ptr<View>& view =
      views_[say(problem) + fmt::format("/{}/{}", problem.ld_pad, problem.misalign)];
  if (view == nullptr) view = std::make_unique<View>(problem, rung_, submission_);
  return *view;
}

const Inspection& Grader::look(const Problem& problem) {
  View& v = view(problem);
  if (!v.inspection) v.inspection = v.inspector.inspect(v.rung, default_traced_blocks(v.problem));
  return *v.inspection;
}

sim::Written Grader::written(const Problem& problem, int64_t block) {
  View& v = view(problem);
  return v.inspector.written(v.rung, block);
}

sim::Traffic Grader::traffic(const Problem& problem, bool global, sim::AccessKind kind,
                             const std::string& memory) {
  sim::Traffic sum;
  for (const sim::LineTraffic& l : look(problem).lines)
    if (l.global == global && l.kind == kind && (memory.empty() || l.memory == memory))
      sum += l.traffic;
  return sum;
}

void Grader::clean(const Problem& problem) {
  if (dangerous_) return;
  Inspection seen = look(problem);
  if (!seen.skipped.empty())
    return check("launched", false, seen.skipped, "No kernel was launched: see launch().");
  if (seen.findings.empty()) {  // what is asynchronous again, with the other end of what may happen
    sim::set_async_schedule(sim::AsyncSchedule::eager_copies);
    View& v = view(problem);
    seen.findings = v.inspector.inspect(v.rung, default_traced_blocks(v.problem)).findings;
    sim::set_async_schedule(sim::AsyncSchedule::lazy_copies);
  }
  std::vector<std::string> names;
  for (const sim::Finding& f : seen.findings)
    if (std::find(names.begin(), names.end(), name_of(f)) == names.end())
      names.push_back(name_of(f));
  if (names.empty()) return check("no mistakes under the microscope", true, say(problem));
  for (const std::string& name : names) {
    std::vector<const sim::Finding*> of_name;
    for (const sim::Finding& f : seen.findings)
      if (name_of(f) == name) of_name.push_back(&f);
    const bool explained = failed_.contains(name);
    check(name, false, "the microscope, at " + say(problem) + ":");
    for (size_t i = 0; i < std::min(SHOWN, of_name.size()); ++i) {
      const sim::Finding& f = *of_name[i];
      print_indented("- " + f.what + (f.count > 1 ? fmt::format(" ({} times)", f.count) : ""), 10);
    }
    if (of_name.size() > SHOWN)
      fmt::print("          and {} more pairs of lines\n", of_name.size() - SHOWN);
    fmt::print("\n");
    if (!explained) {
      print_indented(meaning_of(name), 10);
      fmt::print("\n");
    }
    dangerous_ |= name == STOPPED || name == "out of bounds";
  }
}

// Empty when right.
std::string Grader::wrong(Problem p, Inputs inputs) {
  p.dtype = submission_.dtype;
  Buffer a(layout(p, Operand::A).bytes), b(layout(p, Operand::B).bytes),
      c(layout(p, Operand::C).bytes);
  fill_host(a.memory, p, Operand::A, inputs, SEED);
  fill_host(b.memory, p, Operand::B, inputs, SEED);
  fill_host(c.memory, p, Operand::C, inputs, SEED);
  HostReference reference = cpu_reference(p, inputs, SEED);

  Buffer bias(p.N * element_size(p, Operand::C) + 2 * GUARD);
  std::memset(bias.memory, 0xff, p.N * element_size(p, Operand::C) + 2 * GUARD);  // NaN
  char* const first = bias.memory + GUARD;
  for (int n = 0; n < p.N; ++n) {
    const float x = bias_at(p.dtype, n, inputs);
    if (p.dtype == DType::f16)
      reinterpret_cast<sim::half*>(first)[n] = sim::half(x);
    else
      reinterpret_cast<float*>(first)[n] = x;
  }
  for (int64_t i = 0; i < int64_t{p.M} * p.N; ++i) {
    double& want = reference.want[i];
    if (submission_.epilogue == Epilogue::bias) {
      const double x = bias_at(p.dtype, static_cast<int>(i % p.N), inputs);
      want += x;
    } else if (submission_.epilogue == Epilogue::leaky_relu && want < 0) {
      want *= SLOPE;
    }
  }
  try {
    run(submission_, make_call(p, a.memory, b.memory, c.memory), first);
  } catch (const sim::Error& e) {
    return e.what();
  }
  const CheckResult result = check_host(c.memory, p, inputs, reference);
  if (result.ok()) return "";
  return fmt::format("{}: {}.{}",
                     inputs == Inputs::integers ? "small integers, bit for bit" : "uniform inputs",
                     describe(result), pattern(p, c.memory, inputs, reference));
}

void Grader::right(const std::vector<Problem>& problems) {
  if (dangerous_) return note("Results are not looked at before that is mended.");
  if (failed_.contains("result")) return;  // one wrong result is enough to think about
  for (Problem p : problems)
    for (const int pad : {0, 5})
      for (const Inputs inputs : {Inputs::integers, Inputs::uniform}) {
        p.ld_pad = pad;
        if (const std::string why = wrong(p, inputs); !why.empty())
          return check(
              "result", false,
              fmt::format("{}{}; {}", say(p),
                          pad > 0 ? fmt::format(", rows {} elements longer", pad) : "", why));
      }
  check("result", true, fmt::format("right in {} cases", problems.size() * 4));
}

}  // namespace gemm::grading
