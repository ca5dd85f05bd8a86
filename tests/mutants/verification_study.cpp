// How verification does: which of its passes refuses each kernel of the wrong precision, at every K
// and in both layouts, and how often it refuses a right result.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>

#include "device_errors.h"
#include "harness/timing.h"
#include "harness/verify.h"
#include "mutants/mutants.h"
#include "mutants/precision.h"
#include "version.h"

namespace gemm {
namespace {

using Json = nlohmann::ordered_json;

constexpr Inputs PASSES[] = {Inputs::sums, Inputs::products, Inputs::uniform};
constexpr char LETTERS[] = {'s', 'p', 'u'};
constexpr int LENGTHS[] = {64, 256, 1024, 4096, 16384, 65536};
constexpr std::pair<float, float> SCALARS[] = {{1.0f, 0.0f}, {0.3f, 0.7f}};

// What refuses a rung, in either layout, a letter each: "sp"; empty: nothing does.
std::string refused_by(Verifier& verifier, const Rung& rung) try {
  std::string letters;
  for (size_t i = 0; i < std::size(PASSES); ++i)
    if (!verifier.pass(rung, PASSES[i], 0).empty() ||
        (PASSES[i] != Inputs::uniform && !verifier.pass(rung, PASSES[i], 64).empty()))
      letters += LETTERS[i];
  if (!verifier.pass(rung, Inputs::products, 0, true).empty()) letters += 'c';
  if (!excessive_error(rung).empty()) letters += 'd';
  return letters;
} catch (const LaunchError&) {  // on a GPU; the simulator's are among the passes' sentences
  return "l";
}

// Returns how many passed everything somewhere.
int study_mutants(Device& device, const std::vector<PrecisionMutant>& mutants, int size,
                  Json& entries) {
  std::map<std::string, std::map<int, std::string>> found[std::size(SCALARS)];
  int passed = 0;
  for (const int K : LENGTHS)
    for (size_t with = 0; with < std::size(SCALARS); ++with)
      for (const PrecisionMutant& m : mutants) {
        Problem p;
        p.dtype = m.rung.dtype, p.M = p.N = size, p.K = K, p.operands = m.operands;
        std::tie(p.alpha, p.beta) = SCALARS[with];
        if (p.operands.residual && p.beta == 0) p.beta = 1;
        Verifier verifier(device, p, Layouts::also_padded);
        const std::string by = refused_by(verifier, m.rung);
        if (K >= m.from_K) passed += by.empty();
        found[with][m.rung.name][K] = by;
      }
  fmt::print(
      "refused by (s: sums, p: single products, u: uniform inputs, c: a call after a change, l: "
      "its "
      "launch, d: what it declares), C of {} x {};\nafter the slash with alpha {} and beta {}, "
      "where that "
      "differs\n",
      size, size, SCALARS[1].first, SCALARS[1].second);
  fmt::print("{:<26} {:<13} {:<42}", "kernel", "claims", "does");
  for (const int K : LENGTHS) fmt::print(" {:>9}", K);
  fmt::print("\n");
  for (const PrecisionMutant& m : mutants) {
    fmt::print("{:<26} {:<13} {:<42}", m.rung.name, m.claims, m.does);
    Json by_k, with_scalars;
    for (const int K : LENGTHS) {
      const auto told = [&](const std::string& by) {
        return !by.empty() ? by : K < m.from_K ? "-" : "PASSES";
      };
      const std::string& by = found[0][m.rung.name][K];
      const std::string& with = found[1][m.rung.name][K];
      fmt::print(" {:>9}", by == with ? told(by) : told(by) + "/" + told(with));
      by_k[std::to_string(K)] = by, with_scalars[std::to_string(K)] = with;
    }
    fmt::print("\n");
    entries.push_back({{"name", m.rung.name},
                       {"claims", m.claims},
                       {"does", m.does},
                       {"refused_by", by_k},
                       {"with_scalars", with_scalars}});
  }
  fmt::print("{} kernels, {} of {} cases passed\n", mutants.size(), passed,
             mutants.size() * std::size(LENGTHS) * std::size(SCALARS));
  return passed;
}

// `wanted` right results at least: every rung that takes a problem, on random ones.
Json study_right(Device& device, int wanted, int largest, int deepest, uint64_t seed) {
  struct Tally {
    int64_t results = 0, refused = 0;
    double used = 0;  // of the bound on uniform inputs, at most
  };
  std::map<std::string, Tally> by_class;  // "f32 K <= 1024"
  std::mt19937_64 random(seed);
  const auto pick = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  Tally all;
  Json refusals = Json::array();
  while (all.results < wanted) {
    Problem p;
    p.dtype = std::array{DType::f32, DType::f16, DType::bf16, DType::tf32}[pick(0, 3)];
    const auto up_to = [&](int log2) {
      return static_cast<int>(std::exp2(pick(0, 1000) * log2 / 1000.0));
    };
    p.M = up_to(largest), p.N = up_to(largest), p.K = up_to(deepest);
    p.op_a = pick(0, 1) == 0 ? Op::N : Op::T, p.op_b = pick(0, 1) == 0 ? Op::N : Op::T;
    p.alpha = std::array{1.0f, 1.0f, 2.0f, -0.75f, 0.3f}[pick(0, 4)];
    p.beta = std::array{0.0f, 0.0f, 1.0f, -0.5f, 0.7f}[pick(0, 4)];
    p.ld_pad = std::array{0, 1, 8, 64}[pick(0, 3)];
    Verifier verifier(device, p, Layouts::as_asked, random());
    for (const Rung* r : rungs(device.backend())) {
      if (r->dtype != p.dtype || !unmet_need(*r, p, device).empty()) continue;
      const std::string why = verifier.verify(*r);
      const int least = p.K <= 64 ? 64 : p.K <= 1024 ? 1024 : p.K <= 8192 ? 8192 : 65536;
      Tally& t = by_class[fmt::format("{}{} K <= {}", to_string(r->dtype),
                                      r->product_error > 0 ? " split" : "", least)];
      for (Tally* tally : {&t, &all}) {
        ++tally->results;
        tally->refused += !why.empty();
        tally->used = std::max(tally->used, verifier.uniform().max_used);
      }
      if (!why.empty()) {
        const std::string line =
            fmt::format("{} {} {} alpha {} beta {} ld_pad {}: {}", r->name, ops_name(p),
                        shape_name(p), p.alpha, p.beta, p.ld_pad, why);
        fmt::print("refused: {}\n", line);
        refusals.push_back(line);
      }
    }
  }
  Json classes;
  fmt::print("\n{:<24} {:>8} {:>8}  largest error on uniform inputs, over the bound\n",
             "right results", "results", "refused");
  for (const auto& [name, t] : by_class) {
    fmt::print("{:<24} {:>8} {:>8}  {:.3f}\n", name, t.results, t.refused, t.used);
    classes[name] = {{"results", t.results}, {"refused", t.refused}, {"largest", t.used}};
  }
  fmt::print("{:<24} {:>8} {:>8}  {:.3f}\n", "all", all.results, all.refused, all.used);
  return {{"seed", seed},        {"results", all.results}, {"refused", all.refused},
          {"largest", all.used}, {"by_class", classes},    {"refusals", refusals}};
}

int run(int argc, char** argv) {
  CLI::App app("Which wrong kernels verification refuses, and whether it refuses right ones.");
  std::string backend = "sim", json;
  int size = 32, right = 0, largest = 8, deepest = 12;
  uint64_t seed = 1;
  app.add_option("--backend", backend, "gpu | sim")->check(CLI::IsMember({"gpu", "sim"}));
  app.add_option("--size", size, "Rows and columns of C that wrong kernels compute; 0: none do")
      ->check(CLI::Range(0, 4096));
  app.add_option("--right", right, "Right results to verify, at least")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--largest", largest, "Their M and N go up to 2^this")->check(CLI::Range(0, 12));
  app.add_option("--deepest", deepest, "Their K goes up to 2^this")->check(CLI::Range(0, 16));
  app.add_option("--seed", seed, "Of the right results' problems");
  app.add_option("--json", json, "File to write");
  CLI11_PARSE(app, argc, argv);

  std::string why;
  const std::unique_ptr<Device> device =
      backend == "gpu" ? make_gpu_device(why) : make_sim_device();
  if (device == nullptr) {
    fmt::print(stderr, "verification_study: no GPU: {}\n", why);
    return 2;
  }
  Json file;
  file["context"] = {{"git_revision", GIT_REVISION}, {"backend", backend}, {"size", size}};
  if (device->backend() == Backend::gpu)
    for (const auto& [key, value] : describe_gpu(*device)) file["context"][key] = value;
  std::vector<PrecisionMutant> mutants = sim_precision_mutants();
  for (const Rung& r : narrow_operand_mutants())
    mutants.push_back({r, "f32", "read as half", 1, {true, true, true, true, true}});
#ifdef PRECISION_ON_GPU
  if (device->backend() == Backend::gpu) mutants = gpu_precision_mutants();
#endif
  Json entries = Json::array();
  const int passed = size == 0 ? 0 : study_mutants(*device, mutants, size, entries);
  file["mutants"] = std::move(entries);
  int64_t refused = 0;
  if (right > 0) {
    file["right"] = study_right(*device, right, largest, deepest, seed);
    refused = file["right"]["refused"];
  }
  if (!json.empty()) std::ofstream(json) << file.dump(1) << "\n";
  return passed > 0 || refused > 0;
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  try {
    return gemm::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "verification_study: {}\n", e.what());
    return 3;
  }
}
