// All that a sharded rung includes, beside the headers under device/: its registration, and
// products on one of its ranks.
#pragma once

#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "registry.h"
#include "rung.h"
#include "sharded/sharded.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Elements from row to row of an exchange buffer: whole groups of 16 bytes, which TMA wants.
inline int64_t exchange_ld(int columns) { return int64_t{cdiv(columns, 8)} * 8; }

// The rung that chooses among all others, by which a rank multiplies what it has.
inline const Rung& dispatching_rung(DType dtype) {
  for (const Rung* rung : rungs(BACKEND))
    if (rung->dispatches && rung->dtype == dtype) return *rung;
  throw std::logic_error("no dispatcher is linked into this program");
}

// Products by one rung, on all ranks: each is planned once, which takes tens of microseconds.
class RankProducts {
 public:
  RankProducts(const ShardedProblem& p, Fabric& fabric, const Rung& rung)
      : p_(p), fabric_(fabric), rung_(rung) {}

  // Queues C = A * B of `rows` rows on a rank's compute stream. ld: of A and C.
  void enqueue(int rank, int rows, const void* A, int64_t lda, const ShardedOperands& of, void* C,
               int64_t ldc) {
    GemmCall call{.M = rows,
                  .N = p_.N,
                  .K = p_.K,
                  .A = A,
                  .lda = lda,
                  .B = of.B,
                  .ldb = of.ldb,
                  .C = C,
                  .ldc = ldc};
    call.op_b = p_.op_b;
    call.stream = fabric_.compute(rank);
    const DeviceScope scope(fabric_.device(rank));
    launch(call, plan_of(call));
  }

 private:
  // All that a plan depends on: no two ranks' GPUs differ.
  struct Key {
    int64_t rows, lda, ldb, ldc;
    uintptr_t align_a, align_b, align_c;
    bool operator==(const Key&) const = default;
  };
  struct Planned {
    Key key;
    Plan plan;
  };

  const Plan& plan_of(const GemmCall& call) {
    const auto align = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 128; };
    const Key key{call.M,        call.lda,      call.ldb,     call.ldc,
                  align(call.A), align(call.B), align(call.C)};
    for (const Planned& known : plans_)
      if (known.key == key) return known.plan;
    constexpr size_t MOST = 64;  // a caller whose operands always differ
    if (plans_.size() == MOST) plans_.clear();
    plans_.push_back({key, plan(rung_, call, current_arch())});
    return plans_.back().plan;
  }

  const ShardedProblem p_;
  Fabric& fabric_;
  const Rung& rung_;
  std::vector<Planned> plans_;
};

// A rank's product with its types, as kernels take it.
template <class T>
GemmArgs<T> args_of_rank(const ShardedProblem& p, const ShardedOperands& of) {
  GemmCall call{.M = p.M,
                .N = p.N,
                .K = p.K,
                .A = of.A,
                .lda = of.lda,
                .B = of.B,
                .ldb = of.ldb,
                .C = of.C,
                .ldc = of.ldc};
  call.op_b = p.op_b;
  return typed<T>(call);
}

// `const ShardedRegistration rung({.prev = "m2", .idea = ...}, {sharded<PeerCopies<half>>(...)});`
struct ShardedAbout {
  const char* prev = "";
  const char* idea = "";
  Needs needs = {};
  bool collectives = false;
  bool apart = false;
  int64_t most_elements = INT64_MAX;
  std::vector<std::string> variants = {};
};
struct ShardedEntry {
  Collective collective;
  DType dtype;
  decltype(ShardedRung::make) make;
};
struct ShardedRegistration {
  ShardedRegistration(const ShardedAbout& about, const std::vector<ShardedEntry>& entries,
                      std::source_location where = std::source_location::current()) {
    for (const ShardedEntry& e : entries) {
      if (!HAS_SECOND_TYPES && is_second_type(e.dtype)) continue;
      gemm::detail::add(ShardedRung{.id = {},
                                    .name = {},
                                    .file = where.file_name(),
                                    .prev = about.prev,
                                    .idea = about.idea,
                                    .needs = about.needs,
                                    .collective = e.collective,
                                    .dtype = e.dtype,
                                    .backend = BACKEND,
                                    .collectives = about.collectives,
                                    .apart = about.apart,
                                    .most_elements = about.most_elements,
                                    .variants = about.variants,
                                    .make = e.make});
    }
  }
};

// An entry whose class is Gemm, of a constructor (problem, fabric, variant).
template <class Gemm>
ShardedEntry sharded(Collective collective, DType dtype) {
  return {collective, dtype, [](const ShardedProblem& p, Fabric& fabric, int variant) {
            return std::unique_ptr<ShardedGemm>(new Gemm(p, fabric, variant));
          }};
}

GEMM_BUILD_NAMESPACE_END
