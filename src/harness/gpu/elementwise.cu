// What is left of an epilogue that a library has not, as one elementwise kernel.
#include <algorithm>

#include "device/epilogue.cuh"
#include "harness/gpu/blas.h"
#include "harness/gpu/cuda_check.h"
#include "harness/gpu/gpu_device.h"

namespace gemm {
namespace {

// D = epilogue(D), 16 bytes of a row a thread where rows are aligned; of a batch, by gridDim.y of its
// products at a time.
template <class T, bool ALIGNED>
__global__ void epilogue_kernel(Output<T, Epilogue> d, int products, int64_t stride_c) {
  constexpr int VEC = Vec<T>::SIZE;
  const int64_t groups = cdiv(d.N, VEC), all = groups * d.M;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  T* const first = d.C;
  for (int product = blockIdx.y; product < products; product += gridDim.y) {
    d.C = first + product * stride_c;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += stride) {
      const int m = static_cast<int>(i / groups), n = static_cast<int>(i % groups) * VEC;
      const T* const from = d.C + m * d.ldc + n;
      float sums[VEC] = {};
      if constexpr (ALIGNED) {
        const Vec<T> group = load_vec(from);
        for (int e = 0; e < VEC; ++e) sums[e] = float(group[e]);
      } else {
        for (int e = 0; e < VEC; ++e)
          if (n + e < d.N) sums[e] = float(from[e]);
      }
      store_group<ALIGNED>(d, m, n, sums);
    }
  }
}

template <class T>
void launch_epilogue(cudaStream_t stream, const GemmCall& rest) {
  constexpr int VEC = Vec<T>::SIZE, THREADS = 256;
  const Output<T, Epilogue> d{rest.M, rest.N, static_cast<T*>(rest.C), rest.ldc, rest.epilogue};
  const Batch& batch = rest.batch;
  const bool aligned = reinterpret_cast<uintptr_t>(d.C) % 16 == 0 && d.ldc % VEC == 0 &&
                       d.N % VEC == 0 && batch.stride_c % VEC == 0 &&
                       d.epilogue.template has_aligned_c<T>();
  const int64_t groups = int64_t{d.M} * cdiv(d.N, VEC);
  const dim3 blocks(
      static_cast<unsigned>(std::min<int64_t>((groups + THREADS - 1) / THREADS, 1 << 20)),
      static_cast<unsigned>(std::min(batch.count, 65535)));
  if (aligned)
    epilogue_kernel<T, true><<<blocks, THREADS, 0, stream>>>(d, batch.count, batch.stride_c);
  else
    epilogue_kernel<T, false><<<blocks, THREADS, 0, stream>>>(d, batch.count, batch.stride_c);
}

}  // namespace

void apply_epilogue(const Blas& blas, DType dtype, const GemmCall& rest) {
  if (rest.epilogue.is_plain() || rest.M == 0 || rest.N == 0) return;
  with_element<GpuTypes>(info(dtype).out,
                         [&](auto t) { launch_epilogue<decltype(t)>(blas.stream(), rest); });
  check_cuda(cudaGetLastError(), "epilogue_kernel");
}

}  // namespace gemm
