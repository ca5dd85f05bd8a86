// GEMM as a library, in C++20: gemm.h with types, defaults and exceptions, and nothing else.
//
//   gemm::matmul({.m = m, .n = n, .k = k}, a, b, c);                     // float, __half or bfloat16
//   const gemm::Plan<__half> plan({.m = m, .n = n, .k = k, .op_b = GEMM_T});
//   plan.run(a, b, c, {.beta = 1}, stream);
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gemm/gemm.h"

struct __half;
struct __nv_bfloat16;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;

namespace gemm {
inline namespace api {

// A call failed. what() is one line.
struct Error : std::runtime_error {
  Error(gemm_status s, const std::string& what) : std::runtime_error(what), status(s) {}
  gemm_status status;
};
inline void check(gemm_status status) {
  if (status != GEMM_OK) throw Error(status, gemm_last_error());
}

// The gemm_type of an element; a program may add its own 16-bit types.
template <class T>
inline constexpr int32_t type_of = -1;
template <>
inline constexpr int32_t type_of<float> = GEMM_F32;
template <>
inline constexpr int32_t type_of<__half> = GEMM_F16;
template <>
inline constexpr int32_t type_of<__nv_bfloat16> = GEMM_BF16;
template <>
inline constexpr int32_t type_of<__nv_fp8_e4m3> = GEMM_E4M3;
template <>
inline constexpr int32_t type_of<__nv_fp8_e5m2> = GEMM_E5M2;

// As gemm_problem, but for the types, which are the pointers'.
struct Problem {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;  // 0: rows without gaps
  gemm_op op_a = GEMM_N, op_b = GEMM_N;
  gemm_compute compute = GEMM_COMPUTE_EXACT;
  int32_t align_a = 0, align_b = 0, align_c = 0;     // of a Plan; 0: 128 bytes
  int64_t batch = 1;                                 // products
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between them; A and B: 0 is shared
  bool gated = false;                                // C is m x n / 2: act(gate) * value
  bool invariant = false;  // a row's bits depend neither on m nor on the other rows
};

struct Epilogue {
  float alpha = 1, beta = 0;
  gemm_activation activation = GEMM_ACTIVATION_NONE;
  float slope = 0.01f;  // of leaky ReLU below 0
  // As in gemm_epilogue. Biases and the residual have C's type, which nobody can check here.
  const void* bias = nullptr;
  const void* row_bias = nullptr;
  const float* scale_columns = nullptr;
  const float* scale_rows = nullptr;
  const void* residual = nullptr;  // times beta
  int64_t ld_residual = 0;         // 0: rows without gaps
  // The block scales of GEMM_COMPUTE_BLOCK_SCALES, as in gemm_epilogue.
  const float* scales_a = nullptr;
  int64_t ld_scales_a = 0;
  const float* scales_b = nullptr;
  int64_t ld_scales_b = 0;
};

// As gemm_quantisation, but for the types, which are the pointers'.
struct Quantisation {
  int64_t rows = 0, cols = 0;
  gemm_scale_of scale_of = GEMM_SCALE_TENSOR;
  int64_t ldx = 0, ldq = 0;  // 0: rows without gaps
  int64_t ld_scales = 0;     // of blocks; 0: as gemm_epilogue's default
};

namespace detail {

template <class A, class B, class C>
gemm_problem to_c(const Problem& p) {
  static_assert(type_of<A> >= 0 && type_of<B> >= 0 && type_of<C> >= 0, "no type of a GEMM");
  gemm_problem problem = GEMM_PROBLEM_DEFAULT;
  problem.m = p.m;
  problem.n = p.n;
  problem.k = p.k;
  problem.lda = p.lda;
  problem.ldb = p.ldb;
  problem.ldc = p.ldc;
  problem.type_a = type_of<A>;
  problem.type_b = type_of<B>;
  problem.type_c = type_of<C>;
  problem.compute = p.compute;
  problem.op_a = p.op_a;
  problem.op_b = p.op_b;
  problem.align_a = p.align_a;
  problem.align_b = p.align_b;
  problem.align_c = p.align_c;
  problem.batch = p.batch;
  problem.stride_a = p.stride_a;
  problem.stride_b = p.stride_b;
  problem.stride_c = p.stride_c;
  problem.gated = p.gated ? 1 : 0;
  problem.invariant = p.invariant ? 1 : 0;
  return problem;
}

inline gemm_epilogue to_c(const Epilogue& e) {
  gemm_epilogue epilogue = GEMM_EPILOGUE_DEFAULT;
  epilogue.alpha = e.alpha;
  epilogue.beta = e.beta;
  epilogue.activation = e.activation;
  epilogue.slope = e.slope;
  epilogue.bias = e.bias;
  epilogue.row_bias = e.row_bias;
  epilogue.scale_columns = e.scale_columns;
  epilogue.scale_rows = e.scale_rows;
  epilogue.residual = e.residual;
  epilogue.ld_residual = e.ld_residual;
  epilogue.scales_a = e.scales_a;
  epilogue.ld_scales_a = e.ld_scales_a;
  epilogue.scales_b = e.scales_b;
  epilogue.ld_scales_b = e.ld_scales_b;
  return epilogue;
}

}  // namespace detail

// FP8 numbers and the scales that they are to be multiplied by, of x. Throws Error.
template <class X, class Q>
void quantise(const Quantisation& quantisation, const X* x, Q* q, float* scales,
              void* stream = nullptr, int device = GEMM_CURRENT_DEVICE) {
  static_assert(type_of<X> >= 0 && type_of<Q> >= 0, "no type of a GEMM");
  gemm_quantisation c{};
  c.size = sizeof c;
  c.scale_of = quantisation.scale_of;
  c.rows = quantisation.rows;
  c.cols = quantisation.cols;
  c.ldx = quantisation.ldx;
  c.ldq = quantisation.ldq;
  c.type_x = type_of<X>;
  c.type_q = type_of<Q>;
  c.ld_scales = quantisation.ld_scales;
  check(gemm_quantise(&c, x, q, scales, stream, device));
}

// C = act(alpha * op(A) * op(B) + beta * C) on a stream of a device. C may be float where A and B are
// 16-bit, and bfloat16 or float where they are FP8. Throws Error.
template <class A, class B, class C>
void matmul(const Problem& problem, const A* a, const B* b, C* c, const Epilogue& epilogue = {},
            void* stream = nullptr, int device = GEMM_CURRENT_DEVICE) {
  const gemm_problem p = detail::to_c<A, B, C>(problem);
  const gemm_epilogue e = detail::to_c(epilogue);
  check(gemm_matmul(&p, &e, a, b, c, stream, device));
}

// matmul() of problem.batch products whose matrices lie anywhere: a, b, c are arrays of pointers,
// in the host's memory. Throws Error.
template <class A, class B, class C>
void batched_matmul(const Problem& problem, const A* const* a, const B* const* b, C* const* c,
                    const Epilogue& epilogue = {}, void* stream = nullptr,
                    int device = GEMM_CURRENT_DEVICE) {
  const gemm_problem p = detail::to_c<A, B, C>(problem);
  const gemm_epilogue e = detail::to_c(epilogue);
  check(gemm_batched_matmul(&p, &e, reinterpret_cast<const void* const*>(a),
                            reinterpret_cast<const void* const*>(b),
                            reinterpret_cast<void* const*>(c), stream, device));
}

// matmul() of products of different heights, the groups of a mixture of experts. problem.m is the
// rows of all, problem.batch how many groups there are, and group i ends before row ends[i]. `ends`
// lies where the matrices do, and is read there. Throws Error.
template <class A, class B, class C>
void grouped_matmul(const Problem& problem, const A* a, const B* b, C* c, const int32_t* ends,
                    const Epilogue& epilogue = {}, void* stream = nullptr,
                    int device = GEMM_CURRENT_DEVICE) {
  const gemm_problem p = detail::to_c<A, B, C>(problem);
  const gemm_epilogue e = detail::to_c(epilogue);
  check(gemm_grouped_matmul(&p, &e, a, b, c, ends, stream, device));
}

// Plans made from now on take what `gemm_bench --tune` has measured: gemm_use_tuning. Throws Error.
inline void use_tuning(const char* file = nullptr) { check(gemm_use_tuning(file)); }

// A planned launch: a value. Throws Error.
template <class A, class B = A, class C = A>
class Plan {
 public:
  // By the rung with this id or name, or by the fastest.
  explicit Plan(const Problem& problem, int device = GEMM_CURRENT_DEVICE,
                const char* rung = nullptr) {
    const gemm_problem p = detail::to_c<A, B, C>(problem);
    check(rung == nullptr ? gemm_plan_create(&p, device, &plan_)
                          : gemm_plan_create_with(&p, device, rung, &plan_));
  }
  // By the fastest for runs with an epilogue like this one: gemm_plan_create_for.
  Plan(const Problem& problem, const Epilogue& epilogue, int device = GEMM_CURRENT_DEVICE) {
    const gemm_problem p = detail::to_c<A, B, C>(problem);
    const gemm_epilogue e = detail::to_c(epilogue);
    check(gemm_plan_create_for(&p, &e, device, &plan_));
  }
  void run(const A* a, const B* b, C* c, const Epilogue& epilogue = {},
           void* stream = nullptr) const {
    const gemm_epilogue e = detail::to_c(epilogue);
    check(gemm_run(&plan_, &e, a, b, c, stream));
  }
  std::string explain() const {
    char text[256];
    check(gemm_plan_explain(&plan_, text, sizeof text));
    return text;
  }
  size_t workspace_size() const {
    size_t bytes = 0;
    check(gemm_plan_workspace_size(&plan_, &bytes));
    return bytes;
  }

 private:
  gemm_plan plan_;
};

// As gemm_sharded_problem, but for the collective, which is the class, and the type.
struct ShardedProblem {
  int64_t m = 0, n = 0, k = 0;  // m: rows of all ranks
  gemm_op op_b = GEMM_N;
  int32_t ranks = 2;
};

// One rank's matrices and stream, as gemm_sharded_operands.
template <class T>
struct ShardedOperands {
  const T* a = nullptr;
  const T* b = nullptr;
  T* c = nullptr;
  int64_t lda = 0, ldb = 0, ldc = 0;  // 0: rows without gaps
  void* stream = nullptr;
};

// The rank of this process, where each has one, as gemm_rank. `exchange` is the launcher's
// all-gather, such as MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, communicator).
// What it throws, the constructor does.
struct Rank {
  int rank = 0;
  std::function<void(const void* mine, void* all, size_t bytes)> exchange;
  int device = GEMM_CURRENT_DEVICE;
  int time_limit = 0;  // seconds; 0: 600
};

// Rows of a matrix that are one rank's shard.
struct ShardRows {
  int64_t first = 0, rows = 0;
};

namespace detail {

// A gemm_sharded and its owner. Move only. Throws Error.
template <class T, gemm_collective COLLECTIVE>
class ShardedGemm {
 public:
  // `devices`: by rank; empty, and `rung`: as gemm_sharded_create takes null.
  explicit ShardedGemm(const ShardedProblem& problem, const std::vector<int>& devices = {},
                       const char* rung = nullptr)
      : problem_(to_c(problem)), here_(problem.ranks) {
    if (!devices.empty() && devices.size() != static_cast<size_t>(problem.ranks))
      throw Error(GEMM_BAD_ARGUMENT, "there are " + std::to_string(devices.size()) +
                                         " devices: problem.ranks is " +
                                         std::to_string(problem.ranks));
    gemm_sharded* made = nullptr;
    check(gemm_sharded_create(&problem_, devices.empty() ? nullptr : devices.data(), rung, &made));
    sharded_.reset(made);
  }
  // One rank's part, as by gemm_sharded_create_rank: all processes construct it.
  // A template, so that {} is no devices and never a rank.
  template <std::same_as<Rank> OfRank>
  ShardedGemm(const ShardedProblem& problem, const OfRank& rank, const char* rung = nullptr)
      : problem_(to_c(problem)), here_(1) {
    struct Context {
      const Rank& rank;
      std::exception_ptr thrown;
    } context{rank, nullptr};
    gemm_rank c = GEMM_RANK_DEFAULT;
    c.rank = rank.rank;
    c.device = rank.device;
    c.time_limit = rank.time_limit;
    c.context = &context;
    c.exchange = [](void* p, const void* mine, void* all, size_t bytes) {
      Context& of = *static_cast<Context*>(p);
      try {
        of.rank.exchange(mine, all, bytes);
        return 0;
      } catch (...) {
        of.thrown = std::current_exception();
        return 1;
      }
    };
    gemm_sharded* made = nullptr;
    const gemm_status status = gemm_sharded_create_rank(&problem_, &c, rung, &made);
    if (context.thrown != nullptr) std::rethrow_exception(context.thrown);
    check(status);
    sharded_.reset(made);
  }
  // As gemm_sharded_run; `operands` by rank, or this rank's alone.
  void run(const std::vector<ShardedOperands<T>>& operands) const {
    if (operands.size() != static_cast<size_t>(here_))
      throw Error(GEMM_BAD_ARGUMENT, "there are operands of " + std::to_string(operands.size()) +
                                         " ranks: this process has " + std::to_string(here_));
    gemm_sharded_operands all[GEMM_MOST_RANKS];
    for (size_t rank = 0; rank < operands.size(); ++rank) {
      const ShardedOperands<T>& of = operands[rank];
      all[rank] = GEMM_SHARDED_OPERANDS_DEFAULT;
      all[rank].a = of.a;
      all[rank].b = of.b;
      all[rank].c = of.c;
      all[rank].lda = of.lda;
      all[rank].ldb = of.ldb;
      all[rank].ldc = of.ldc;
      all[rank].stream = of.stream;
    }
    check(gemm_sharded_run(sharded_.get(), all));
  }
  // The rows of A, or of the sum, that the rank has.
  ShardRows shard(int rank) const {
    ShardRows shard;
    check(gemm_shard_rows(&problem_, rank, &shard.first, &shard.rows));
    return shard;
  }
  std::string explain() const {
    char text[256];
    check(gemm_sharded_explain(sharded_.get(), text, sizeof text));
    return text;
  }

 private:
  static gemm_sharded_problem to_c(const ShardedProblem& p) {
    static_assert(type_of<T> == GEMM_F16 || type_of<T> == GEMM_BF16, "of f16 or bf16");
    gemm_sharded_problem problem = GEMM_SHARDED_PROBLEM_DEFAULT;
    problem.collective = COLLECTIVE;
    problem.m = p.m;
    problem.n = p.n;
    problem.k = p.k;
    problem.type = type_of<T>;
    problem.op_b = p.op_b;
    problem.ranks = p.ranks;
    return problem;
  }
  // Its status has no one to go to: a failed device tells it to every other call, too.
  struct Destroy {
    void operator()(gemm_sharded* sharded) const { gemm_sharded_destroy(sharded); }
  };

  gemm_sharded_problem problem_;
  int here_ = 0;  // ranks that this process has
  std::unique_ptr<gemm_sharded, Destroy> sharded_;
};

}  // namespace detail

// Each rank gathers all rows of A, and multiplies them by its own B:
//
//   gemm::AllGatherGemm<__half> gemm({.m = m, .n = n, .k = k, .ranks = 2});   // GPUs 0 and 1
//   gemm.run({{.a = a0, .b = b0, .c = c0, .stream = s0}, {.a = a1, .b = b1, .c = c1, .stream = s1}});
//
// With a process for each rank, in each of them:
//
//   gemm::AllGatherGemm<__half> gemm({.m = m, .n = n, .k = k, .ranks = ranks},
//                                    gemm::Rank{.rank = rank, .exchange = all_gather});
//   gemm.run({{.a = a, .b = b, .c = c, .stream = stream}});
template <class T>
using AllGatherGemm = detail::ShardedGemm<T, GEMM_ALL_GATHER>;

// Each rank multiplies its A by its B, and keeps its rows of the sum of all ranks' products.
template <class T>
using GemmReduceScatter = detail::ShardedGemm<T, GEMM_REDUCE_SCATTER>;

// Each rank multiplies its A by its B, and has the whole sum of all ranks' products.
template <class T>
using GemmAllReduce = detail::ShardedGemm<T, GEMM_ALL_REDUCE>;

}  // namespace api
}  // namespace gemm
