#include "grader/grader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "grader/channel.h"
#include "harness/device.h"
#include "harness/host_matrix.h"
#include "harness/pattern.h"

namespace gemm::grading {
namespace {

constexpr size_t SHOWN = 3;  // findings of one kind

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
      {"missing mbarrier wait",
       "A TMA load returns at once and the bytes arrive later: the mbarrier's phase tells when."},
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

Test::Test(std::set<std::string> fails, Grade how, std::string what, std::source_location here)
    : exercise(folder_and_stem(here.file_name()).first),
      start_fails(std::move(fails)),
      grade(how),
      form(std::move(what)) {
  all_tests().push_back(*this);
}
const std::vector<Test>& tests() { return all_tests(); }

// ------------------------------------------------------------------------------------------------

Grader::Grader(Attempt& attempt, const std::string& exercise, const std::string& kind,
               const std::string& form)
    : attempt_(attempt) {
  const std::string file = fmt::format("exercises/{}/{}.cu", exercise, kind);
  const nlohmann::json list = ask("list", {}, "before main() began").at("list");
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (folder_and_stem(list[i].at(0)) != std::pair(exercise, kind)) continue;
    if (submission_ >= 0)
      throw Ended(file + ": more than one line `const Exercise exercise(...);`");
    submission_ = i;
    if (list[i].at(1) != form)
      throw Ended(fmt::format("{} hands in another function than start.cu: {}, not {}", file,
                              std::string(list[i].at(1)), form));
  }
  if (submission_ < 0)
    throw Ended(file + " hands in nothing: its line `const Exercise exercise(...);` is missing");
  if (form.starts_with("f16")) dtype_ = DType::f16;
  epilogue_ = form.substr(std::min(form.find(' '), form.size()));
}

nlohmann::json Grader::ask(const char* what, nlohmann::json request, const std::string& step) try {
  request["what"] = what;
  if (submission_ >= 0) request["submission"] = submission_;
  return attempt_.ask(std::move(request), step);
} catch (const nlohmann::json::exception&) {
  throw Ended("What the program answered is no answer; it was not judged.");
}

nlohmann::json Grader::ask(const char* what, Problem& p, nlohmann::json request) {
  p.dtype = dtype_;
  request["problem"] = to_json(p);
  return ask(what, std::move(request), fmt::format("at M = {}, N = {}, K = {}", p.M, p.N, p.K));
}

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

Inspection Grader::look(Problem problem, bool eager_copies) {
  const nlohmann::json answer = ask("look", problem, {{"eager_copies", eager_copies}});
  Inspection seen;
  if (answer.contains("error")) {
    seen.findings.push_back({STOPPED, answer.at("error"), 0, {}, {}});
    return seen;
  }
  seen.skipped = answer.at("skipped");
  seen.blocks = answer.at("blocks");
  seen.threads_per_block = answer.at("threads");
  for (const nlohmann::json& l : answer.at("lines"))
    seen.lines.push_back(
        {{}, {}, l.at(1), l.at(0), l.at(2), 0, {l.at(3), l.at(4), l.at(5), l.at(6)}});
  for (const nlohmann::json& f : answer.at("findings"))
    seen.findings.push_back({f.at(0), f.at(1), f.at(2), {}, {}});
  return seen;
}

const Inspection& Grader::look(Problem problem) {
  const std::string key = to_json(problem).dump();
  if (!seen_.contains(key)) seen_[key] = look(problem, false);
  return seen_[key];
}

std::pair<int64_t, int64_t> Grader::written(Problem problem, int64_t block) {
  const nlohmann::json answer = ask("written", problem, {{"block", block}});
  if (answer.contains("error")) throw Ended(answer.at("error"));
  return {answer.at("row"), answer.at("col")};
}

int64_t Grader::count_wrong(const std::vector<float>& got, const std::vector<double>& want,
                            const std::vector<double>& bound) {
  const nlohmann::json answer =
      ask("count_wrong", {{"got", got}, {"want", want}, {"bound", bound}}, "in its check");
  if (answer.contains("error")) throw Ended(answer.at("error"));
  return answer.at("said");
}

Grader::Driven Grader::drive(const lab::Task& task) {
  const nlohmann::json answer = ask("drive", {{"task", lab::to_json(task)}}, "in its driver");
  if (answer.contains("error")) throw Ended(answer.at("error"));
  Driven driven{answer.at("said"), {}};
  for (const nlohmann::json& l : answer.at("launches"))
    driven.launches.push_back({l.at(0), l.at(1), l.at(2), l.at(3), l.at(4)});
  return driven;
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
    seen.findings = look(problem, true).findings;
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
  const nlohmann::json answer = ask("results", p, {{"inputs", inputs}});
  if (answer.contains("error")) return answer.at("error");
  const nlohmann::json::binary_t& c = answer.at("c").get_binary();
  if (c.size() != layout(p, Operand::C).bytes) return "the program gave no whole C";
  HostReference reference = cpu_reference(p, inputs, SEED);
  for (int64_t i = 0; i < int64_t{p.M} * p.N; ++i) {
    double& want = reference.want[i];
    if (epilogue_ == " bias")
      want += double{bias_at(p.dtype, static_cast<int>(i % p.N), inputs)};
    else if (epilogue_ == " leaky_relu" && want < 0)
      want *= SLOPE;
  }
  const CheckResult result = check_host(c.data(), p, inputs, reference);
  if (result.ok()) return "";
  return fmt::format("{}: {}.{}",
                     inputs == Inputs::integers ? "small integers, bit for bit" : "uniform inputs",
                     describe(result), sentences(pattern(p, c.data(), inputs, reference)));
}

void Grader::right(const std::vector<Problem>& problems) {
  if (dangerous_) return note("Results are not looked at before that is mended.");
  if (failed_.contains("result")) return;  // one wrong result is enough to think about
  tried_ = problems;
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

void Grader::also_right_larger() {
  if (tried_.empty() || dangerous_) return;
  Problem larger = tried_.back();
  larger.M = 301, larger.N = 101, larger.K = 45;
  right({larger});
}

}  // namespace gemm::grading
