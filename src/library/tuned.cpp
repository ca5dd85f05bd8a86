#include "library/tuned.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>

#include "harness/errors.h"
#include "harness/tuning.h"
#include "library/call.h"

namespace gemm::library {
namespace {

std::mutex guard;  // of the pointer
std::shared_ptr<const TuningCache> tuning;
std::atomic<unsigned> generation = 0;

std::shared_ptr<const TuningCache> current() {
  const std::lock_guard lock(guard);
  return tuning;
}

// The problem under which a call's variants are kept: its rows lie in whole groups of 16 bytes, or do not.
Problem problem_of(const PlanKey& key) {
  Problem p;
  p.M = key.M, p.N = key.N, p.K = key.K;
  p.dtype = static_cast<DType>(key.dtype);
  p.op_a = static_cast<Op>(key.op_a), p.op_b = static_cast<Op>(key.op_b);
  const auto whole = [&](uint8_t align, int64_t ld, Element element) {
    return align >= 4 && ld * info(element).bytes % 16 == 0;
  };
  const DTypeInfo types = info(p.dtype);
  if (!whole(key.align_a, key.lda, types.in) || !whole(key.align_b, key.ldb, types.in) ||
      !whole(key.align_c, key.ldc, types.out))
    p.ld_pad = 1;
  return p;
}

}  // namespace

void use_tuning(const char* file) {
  std::shared_ptr<const TuningCache> read;
  if (file == nullptr || *file != 0) {
    const std::string name = file == nullptr ? default_tuning_cache() : file;
    if (name.empty())
      fail(GEMM_BAD_ARGUMENT,
           "neither XDG_CACHE_HOME nor HOME says where --tune keeps its results");
    if (!std::filesystem::exists(name))
      fail(GEMM_BAD_ARGUMENT, "there is no file \"", name, "\": gemm_bench --tune writes it");
    try {
      read = std::make_shared<const TuningCache>(
          TuningCache::read(name, "gemm_bench --tune writes one"));
    } catch (const std::runtime_error& e) {
      fail(GEMM_BAD_ARGUMENT, e.what());
    }
  }
  const std::lock_guard lock(guard);
  tuning = read;
  ++generation;
}

unsigned tuning_generation() { return generation.load(std::memory_order_relaxed); }

std::optional<Plan> tuned_plan(const PlanKey& key, const GemmCall& call,
                               const std::vector<const Rung*>& rungs, const Arch& arch) {
  const std::shared_ptr<const TuningCache> measured = current();
  const bool plain = key.batch == 1 && key.operands == 0 && key.activation == 0 &&
                     key.grouped == 0 && key.gated == 0 && key.invariant == 0;
  if (measured == nullptr || !plain || key.K == 0) return {};
  const Problem problem = problem_of(key);
  const Rung* fastest = nullptr;
  int variant = ANY_VARIANT;
  double tflops = 0;
  for (const Rung* rung : rungs) {
    if (!measured->holds(arch.name, rung->name, problem)) continue;
    for (const TimedVariant& timed : measured->find(arch.name, rung->name, problem)->variants) {
      const auto it = std::ranges::find(rung->variants, timed.name, &RungVariant::name);
      if (timed.tflops <= tflops || it == rung->variants.end() || !it->fits(call)) continue;
      fastest = rung, tflops = timed.tflops;
      variant = static_cast<int>(it - rung->variants.begin());
    }
  }
  if (fastest == nullptr) return {};
  return plan(*fastest, call, arch, variant);
}

}  // namespace gemm::library
