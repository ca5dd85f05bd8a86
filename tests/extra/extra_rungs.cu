#include "device/epilogue.cuh"
#include "device/repack.cuh"
#include "extra_rungs.h"
#include "registration.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int THREADS = 64;

// A thread computes 16 bytes of a row of C. It reads whole groups of A and B, and adds what it
// finds in the padding of copies: nothing, if that is zero.
template <class T>
__global__ void gemm_repacks(GemmArgs<T> p, bool a_is_padded, bool b_is_padded) {
  constexpr int VEC = Vec<T>::SIZE;
  const int groups = cdiv(p.N, VEC);
  const int64_t at = int64_t{blockIdx.x} * THREADS + threadIdx.x;
  if (at >= int64_t{p.M} * groups) return;
  const int m = at / groups, n = at % groups * VEC;
  float acc[VEC] = {}, padding = 0;
  for (int k0 = 0; k0 < p.K; k0 += VEC) {
    const Vec<T> a = load_vec(p.A + m * p.lda + k0);
    for (int e = 0; e < VEC; ++e) {
      if (k0 + e >= p.K) {
        if (a_is_padded) padding += float(a[e]);
        continue;
      }
      const Vec<T> b = load_vec(p.B + (k0 + e) * p.ldb + n);
      for (int j = 0; j < VEC; ++j)
        if (n + j < p.N)
          acc[j] += float(a[e]) * float(b[j]);
        else if (b_is_padded)
          padding += float(b[j]);
    }
  }
  for (int j = 0; j < VEC; ++j) store(p, m, n + j, acc[j] + padding);
}

template <class T>
void launch_repacks(const GemmArgs<T>& p, Stream stream) {
  const RepackedPair<T> in({p.A, p.M, p.K, p.lda}, {p.B, p.K, p.N, p.ldb}, stream);
  GemmArgs<T> q = p;
  q.A = in.A.data, q.lda = in.A.ld, q.B = in.B.data, q.ldb = in.B.ld;
  const int64_t threads = int64_t{p.M} * cdiv(p.N, Vec<T>::SIZE);
  gemm::launch(gemm_repacks<T>, (threads + THREADS - 1) / THREADS, dim3(THREADS), {}, stream, q,
               in.A.copied(), in.B.copied());
}

Rung rung(const char* name, Entry e) {
  Rung r;
  r.id = r.name = name;
  r.dtype = e.dtype;
  r.backend = BACKEND;
  r.launch = with_epilogue_pass(product_by_product(calls_of(e)), BACKEND_CALLS).launch;
  return r;
}

std::vector<Rung> all() {
  std::vector<Rung> rungs = {rung("repacks", f32(launch_repacks<float>)),
                             rung("repacks", f16(launch_repacks<half>))};
  if (HAS_SECOND_TYPES) rungs.push_back(rung("repacks", bfloat16(launch_repacks<bf16>)));
  return rungs;
}

}  // namespace

#if GEMM_ON_GPU
std::vector<Rung> gemm::gpu_extra_rungs() { return all(); }
#elif defined(GEMM_SIM_TRACED)
std::vector<Rung> gemm::traced_extra_rungs() { return all(); }
#else
std::vector<Rung> gemm::sim_extra_rungs() { return all(); }
#endif
