#include "harness/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/errors.h"
#include "harness/operand_buffers.h"
#include "harness/output_file.h"
#include "harness/text.h"

namespace gemm {
namespace {

constexpr int FORMAT = 1;
constexpr size_t LARGEST_FILE = 64 << 20;

bool is_aligned(const Problem& p) {
  const GemmCall c = make_call(p, nullptr, nullptr, nullptr);
  const auto aligned = [&](const void* base, int64_t ld, Operand o) {
    const auto group = static_cast<int64_t>(16 / element_size(p, o));
    return reinterpret_cast<uintptr_t>(base) % 16 == 0 && ld % group == 0 &&
           layout(p, o).cols % group == 0;
  };
  return aligned(c.A, c.lda, Operand::A) && aligned(c.B, c.ldb, Operand::B) &&
         aligned(c.C, c.ldc, Operand::C);
}

int nearest_power(int x) {
  return x <= 0 ? 0 : static_cast<int>(std::exp2(std::round(std::log2(x))));
}

// Octaves, summed over M, N and K.
double distance(const Problem& a, const Problem& b) {
  const auto octaves = [](int x, int y) { return std::abs(std::log2((x + 1.0) / (y + 1.0))); };
  return octaves(a.M, b.M) + octaves(a.N, b.N) + octaves(a.K, b.K);
}

bool same_key(const TunedProblem& a, const TunedProblem& b) {
  const auto key = [](const TunedProblem& t) {
    const Problem& p = t.problem;
    return std::make_tuple(t.gpu, t.rung, p.dtype, p.op_a, p.op_b, p.M, p.N, p.K, is_aligned(p));
  };
  return key(a) == key(b);
}

nlohmann::ordered_json to_json(const TunedProblem& t) {
  const Problem& p = t.problem;
  nlohmann::ordered_json j{{"gpu", t.gpu},
                           {"rung", t.rung},
                           {"dtype", to_string(p.dtype)},
                           {"ops", ops_name(p)},
                           {"shape", {p.M, p.N, p.K}},
                           {"ld_pad", p.ld_pad},
                           {"bucket", bucket(p)},
                           {"variants", nlohmann::ordered_json::array()},
                           {"revision", t.revision}};
  for (const TimedVariant& v : t.variants)
    j["variants"].push_back({{"name", v.name}, {"tflops", v.tflops}});
  return j;
}

// Throws std::invalid_argument unless `j` is a size or a leading dimension's padding.
int extent(const nlohmann::json& j, const char* name) {
  if (!j.is_number_integer() || j < 0 || j > LARGEST_EXTENT)
    throw std::invalid_argument(
        fmt::format("{}: want a whole number from 0 to {}", name, LARGEST_EXTENT));
  return j;
}

// Throws std::invalid_argument unless `j` is one: nlohmann takes null and objects for lists too.
const nlohmann::json& list(const nlohmann::json& j, const char* name) {
  if (!j.is_array()) throw std::invalid_argument(fmt::format("{}: want a list", name));
  return j;
}

Op op_of(char letter) {
  if (letter != 'n' && letter != 't') throw std::invalid_argument("ops: want nn, nt, tn or tt");
  return letter == 't' ? Op::T : Op::N;
}

// Throws what nlohmann throws, or std::invalid_argument.
TunedProblem from_json(const nlohmann::json& j) {
  TunedProblem t;
  t.gpu = j.at("gpu");
  t.rung = j.at("rung");
  t.revision = j.at("revision");
  t.problem.dtype = dtype_of(j.at("dtype"));
  const std::string ops = j.at("ops");
  if (ops.size() != 2) throw std::invalid_argument("ops: want nn, nt, tn or tt");
  t.problem.op_a = op_of(ops[0]);
  t.problem.op_b = op_of(ops[1]);
  const nlohmann::json& shape = j.at("shape");
  if (shape.size() != 3) throw std::invalid_argument("shape: want three numbers, M, N and K");
  t.problem.M = extent(shape.at(0), "M");
  t.problem.N = extent(shape.at(1), "N");
  t.problem.K = extent(shape.at(2), "K");
  t.problem.ld_pad = extent(j.at("ld_pad"), "ld_pad");
  for (const nlohmann::json& v : list(j.at("variants"), "variants")) {
    if (!v.at("tflops").is_number() || !(v.at("tflops") >= 0))
      throw std::invalid_argument("tflops: want a number from 0");
    t.variants.push_back({v.at("name"), v.at("tflops")});
  }
  return t;
}

}  // namespace

std::string bucket(const Problem& p) {
  return fmt::format("{}x{}x{}{}", nearest_power(p.M), nearest_power(p.N), nearest_power(p.K),
                     is_aligned(p) ? "" : " unaligned");
}

TuningCache TuningCache::read(const std::string& file, const char* remedy) {
  TuningCache cache;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return cache;
  const std::string text = read_file("the tuning cache", file, LARGEST_FILE);
  try {
    const nlohmann::json j = nlohmann::json::parse(text);
    if (j.at("format") != FORMAT) throw std::invalid_argument("another format");
    for (const nlohmann::json& t : list(j.at("measured"), "measured")) cache.put(from_json(t));
  } catch (const std::exception& e) {
    throw UsageError(fmt::format("'{}' is not a tuning cache ({}): {}", printable(file),
                                 printable(e.what()), remedy));
  }
  return cache;
}

TuningCache TuningCache::read_unnamed(const std::string& file, std::string& note) try {
  return read(file);
} catch (const UsageError& e) {
  note = fmt::format("going on without measurements: {}", e.what());
  return {};
}

void TuningCache::write(const std::string& file) const {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::path(file).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (fs::exists(file, error) && !fs::is_regular_file(file, error))
    throw OutputError(
        fmt::format("cannot write the tuning cache '{}': it is no regular file; "
                    "--tune-cache names another",
                    printable(file)));
  const FileLock lock("the tuning cache", file);
  TuningCache merged = read(file);
  for (const TunedProblem& t : all_) merged.put(t);
  nlohmann::ordered_json j{{"format", FORMAT}, {"measured", nlohmann::ordered_json::array()}};
  for (const TunedProblem& t : merged.all_) j["measured"].push_back(to_json(t));
  replace_file("the tuning cache", file, j.dump(1) + "\n");
}

void TuningCache::put(const TunedProblem& tuned) {
  std::erase_if(all_, [&](const TunedProblem& t) { return same_key(t, tuned); });
  all_.push_back(tuned);
}

bool TuningCache::holds(const std::string& gpu, const std::string& rung, const Problem& p) const {
  const TunedProblem wanted{gpu, rung, p, {}, ""};
  return std::any_of(all_.begin(), all_.end(),
                     [&](const TunedProblem& t) { return same_key(t, wanted); });
}

const TunedProblem* TuningCache::find(const std::string& gpu, const std::string& rung,
                                      const Problem& p) const {
  const TunedProblem* best = nullptr;
  for (const TunedProblem& t : all_) {
    const Problem& q = t.problem;
    if (t.gpu != gpu || t.rung != rung || q.dtype != p.dtype || q.op_a != p.op_a ||
        q.op_b != p.op_b || bucket(q) != bucket(p))
      continue;
    if (best == nullptr || distance(q, p) < distance(best->problem, p)) best = &t;
  }
  return best;
}

std::string default_tuning_cache() {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string cache = set("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/gemm_ladder/tuning.json";
  if (const std::string home = set("HOME"); !home.empty())
    return home + "/.cache/gemm_ladder/tuning.json";
  return "";
}

ExplainedPlan plan_variant(const Rung& rung, const Problem& p, const Arch& arch, int variant,
                           const std::string& why) {
  return {plan(rung, call_to_plan(p), arch, variant), variant, rung.variants.at(variant).name, why};
}

ExplainedPlan choose_plan(const Rung& rung, const Problem& p, const TuningCache* cache,
                          const std::string& gpu, const Arch& arch) {
  const GemmCall call = call_to_plan(p);
  const TunedProblem* tuned =
      cache == nullptr || !batch_name(p).empty() || !epilogue_name(p).empty()
          ? nullptr
          : cache->find(gpu, rung.name, p);
  if (tuned != nullptr) {  // the fastest of those that are still there and take this call
    int chosen = -1;
    std::string why;
    for (const TimedVariant& timed : tuned->variants) {
      const auto it = std::find_if(rung.variants.begin(), rung.variants.end(),
                                   [&](const RungVariant& v) { return v.name == timed.name; });
      if (it == rung.variants.end() || !it->fits(call)) continue;
      if (chosen < 0) {
        chosen = static_cast<int>(it - rung.variants.begin());
        const bool same = shape_name(tuned->problem) == shape_name(p);
        why = fmt::format("measured on this GPU at {}{}: {:.2f} TFLOPS", shape_name(tuned->problem),
                          same ? "" : ", which stands for " + bucket(p), timed.tflops);
      } else {
        why += fmt::format(", {} {:.2f}", timed.name, timed.tflops);
      }
    }
    if (chosen >= 0) return plan_variant(rung, p, arch, chosen, why);
  }
  ExplainedPlan own{plan(rung, call, arch), ANY_VARIANT, "", ""};
  const Rung& runs = *own.plan.rung;
  if (own.plan.variant != ANY_VARIANT) own.name = runs.variants.at(own.plan.variant).name;
  const bool empty = p.M == 0 || p.N == 0;  // rungs tell of tiles, and of an average row
  own.why = empty          ? "C has no elements: nothing to compute"
            : runs.explain ? explain(own.plan, call)
                           : "it computes what " + rung.id + " leaves to it";
  if (rung.dispatches) {
    const auto it = std::find(rung.candidates.begin(), rung.candidates.end(), &runs);
    own.variant = static_cast<int>(it - rung.candidates.begin());
    own.why = fmt::format("{}: {}", own.name, own.why);
    own.name = runs.id;
  } else if (runs.name != rung.name) {  // it does not take this call
    own.name = own.name.empty() ? runs.id : runs.id + " " + own.name;
  } else {
    own.variant = own.plan.variant;
    if (!rung.variants[own.variant].fits(call))
      throw std::logic_error(fmt::format("{} plans {} for {}, which it does not fit", rung.name,
                                         own.name, shape_name(p)));
  }
  return own;
}

Rung as_planned(const Rung& rung, const ExplainedPlan& planned) {
  return planned.variant == ANY_VARIANT ? rung : with_variant(rung, planned.variant);
}

}  // namespace gemm
