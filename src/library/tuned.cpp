#include "library/tuned.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <tuple>

#include "harness/errors.h"
#include "harness/tuning.h"
#include "library/call.h"

namespace gemm::library {
namespace {

using Key = std::tuple<DType, Op, Op, int, int, int>;  // M, N, K

// What one use_tuning() has read. None ends: others may plan by it, and no lock outlives a fork.
struct Tuning {
  TuningCache cache;
  std::multimap<Key, const TunedProblem*> by_key;
  const Tuning* before;
};
std::atomic<const Tuning*> tuning = nullptr;

void put_in_place(TuningCache cache) {
  auto read = std::make_unique<Tuning>(std::move(cache));
  for (const TunedProblem& t : read->cache.all()) {
    const Problem& p = t.problem;
    read->by_key.emplace(Key{p.dtype, p.op_a, p.op_b, p.M, p.N, p.K}, &t);
  }
  read->before = tuning.load();
  while (!tuning.compare_exchange_weak(read->before, read.get())) continue;
  read.release();
}

// Whether rows of each operand lie in whole groups of 16 bytes where those that were measured did.
bool rows_lie_alike(const PlanKey& key, const Problem& measured) {
  const auto alike = [&](Operand o, uint8_t align, int64_t ld) {
    const auto bytes = static_cast<int64_t>(element_size(measured, o));
    return (align >= 4 && ld * bytes % 16 == 0) == (layout(measured, o).ld * bytes % 16 == 0);
  };
  return alike(Operand::A, key.align_a, key.lda) && alike(Operand::B, key.align_b, key.ldb) &&
         alike(Operand::C, key.align_c, key.ldc);
}

}  // namespace

void use_tuning(const char* file) {
  if (file != nullptr && *file == 0) return put_in_place({});
  const std::string name = file == nullptr ? default_tuning_cache() : file;
  if (name.empty())
    fail(GEMM_BAD_ARGUMENT, "neither XDG_CACHE_HOME nor HOME says where --tune keeps its results");
  std::error_code unseen;
  if (!std::filesystem::exists(name, unseen))
    fail(GEMM_BAD_ARGUMENT, "there is no file \"", name, "\": gemm_bench --tune writes it");
  try {
    put_in_place(TuningCache::read(name, "gemm_bench --tune writes one"));
  } catch (const UsageError& e) {
    fail(GEMM_BAD_ARGUMENT, e.what());
  }
}

const void* tuning_in_use() { return tuning.load(std::memory_order_acquire); }

std::optional<Plan> tuned_plan(const PlanKey& key, const GemmCall& call,
                               const std::vector<const Rung*>& rungs, const Arch& arch) {
  const Tuning* const measured = tuning.load(std::memory_order_acquire);
  const bool plain = key.batch == 1 && key.operands == 0 && key.activation == 0 &&
                     key.grouped == 0 && key.gated == 0 && key.invariant == 0;
  if (measured == nullptr || !plain || key.K == 0) return {};
  const Rung* fastest = nullptr;
  int variant = ANY_VARIANT;
  double tflops = 0;
  const auto [begin, end] = measured->by_key.equal_range(
      {static_cast<DType>(key.dtype), call.op_a, call.op_b, key.M, key.N, key.K});
  for (auto entry = begin; entry != end; ++entry) {
    const TunedProblem& t = *entry->second;
    const auto rung = std::ranges::find_if(rungs, [&](const Rung* r) { return r->name == t.rung; });
    if (t.gpu != arch.name || rung == rungs.end() || !rows_lie_alike(key, t.problem)) continue;
    const std::vector<RungVariant>& variants = (*rung)->variants;
    for (const TimedVariant& timed : t.variants) {
      const auto it = std::ranges::find(variants, timed.name, &RungVariant::name);
      if (timed.tflops <= tflops || it == variants.end() || !it->fits(call)) continue;
      fastest = *rung, tflops = timed.tflops;
      variant = static_cast<int>(it - variants.begin());
    }
  }
  if (fastest == nullptr) return {};
  return plan(*fastest, call, arch, variant);
}

}  // namespace gemm::library
