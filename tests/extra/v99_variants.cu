// v99 variants: a rung with several template configurations, to test what the harness does with
// them. Not part of the ladder.
#include <string>

#include "device/epilogue.cuh"
#include "device/vec.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int THREADS = 64;

// A thread computes COLS neighbouring elements of a row of C.
template <class T, int COLS>
__global__ void gemm_v99(GemmArgs<T> p) {
  const int groups = cdiv(p.N, COLS);
  const int64_t at = int64_t{blockIdx.x} * THREADS + threadIdx.x;
  if (at >= int64_t{p.M} * groups) return;
  const int m = at / groups, n = at % groups * COLS;
  float acc[COLS] = {};
  for (int k = 0; k < p.K; ++k)
    for (int j = 0; j < COLS; ++j)
      if (n + j < p.N) acc[j] += float(p.A[m * p.lda + k]) * float(p.B[k * p.ldb + n + j]);
  for (int j = 0; j < COLS; ++j) store(p, m, n + j, acc[j]);
}

template <class T, int COLS>
void launch(const GemmArgs<T>& p, const Plan&, Stream stream) {
  const int64_t threads = int64_t{p.M} * cdiv(p.N, COLS);
  gemm::launch(gemm_v99<T, COLS>, (threads + THREADS - 1) / THREADS, dim3(THREADS), {}, stream, p);
}

template <class T>
bool even(const GemmArgs<T>& p) {
  return p.N % 2 == 0;
}

template <class T>
constexpr Variant<T> VARIANTS[] = {
    {"1 column", launch<T, 1>}, {"2 columns", launch<T, 2>, even<T>}, {"4 columns", launch<T, 4>}};

template <class T>
bool enough(const GemmArgs<T>& p, int sms) {
  return int64_t{p.M} * cdiv(p.N, 4) >= int64_t{sms} * THREADS;
}

template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  return {.variant = variant != ANY_VARIANT ? variant : enough(p, arch.sms) ? 2 : 0};
}

template <class T>
std::string explain(const GemmArgs<T>& p, const Plan& plan) {
  return std::to_string(int64_t{p.M} * cdiv(p.N, 4)) + " threads of 4 columns for " +
         std::to_string(plan.sms) + " SMs: " + (enough(p, plan.sms) ? "enough" : "too few");
}

const Planner<float> FLOATS{plan, explain, /*estimates=*/false};
const Planner<half> HALVES{plan, explain, /*estimates=*/false};
const Registration rung({.idea = "one of several configurations"},
                        {f32(VARIANTS<float>, FLOATS), f16(VARIANTS<half>, HALVES)});

}  // namespace
