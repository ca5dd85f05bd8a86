// Floats as sums of two halves or of three bf16: what tensor cores multiply fastest.
#pragma once

#include <cmath>

#include "device/launch.h"
#include "device/workspace.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Formats of a float as the sum of PARTS numbers of type T. Before, a power of two scales its row
// (of A) or column (of B), so that the largest number there is between 2^TOP and 2^(TOP + 1). All
// parts of an infinity but the first are NaN.

// Two halves, hi + lo / 2^LO_SHIFT: 22 bits of x's 24 while x is at least 2^-14; below, the error
// stays under 2^-36. Halves end at 65504. Taught in v14w.
struct TwoHalves {
  using T = half;
  static constexpr int PARTS = 2, TOP = 14;
  static constexpr int LO_SHIFT = 11;  // lo is scaled up by 2^11, or it would underflow
  static GEMM_DEVICE void split(float x, T (&part)[PARTS]) {
    part[0] = half(x);
    part[1] = half((x - float(part[0])) * (1 << LO_SHIFT));  // exact but for the last rounding
  }
};

// Three bf16, hi + mid + lo: all 24 bits while x is at least 2^-110; below, the error stays under
// 2^-134. Sums of 2^31 products of 2^(TOP + 1) are finite. Taught in v14x.
struct ThreeBf16 {
  using T = bf16;
  static constexpr int PARTS = 3, TOP = 46;
  static GEMM_DEVICE void split(float x, T (&part)[PARTS]) {
#pragma unroll
    for (T& p : part) {
      p = bf16(x);
      x -= float(p);  // exact
    }
  }
};

// The exponent of that scaling, from the bits of the largest magnitude. For subnormal numbers it is
// too small to reach 2^TOP.
template <class Format>
GEMM_DEVICE int split_exponent(uint32_t largest_bits) {
  return Format::TOP + 127 - int(largest_bits >> 23);
}

// Splits vectors of `length` floats, each by an exponent of its own, which it writes: rows of A, or
// columns of B. A CTA takes VECTORS neighbours. Element k of vector v lies at v * from_v + k *
// from_k; part i of it at v * to_v + k * to_k + i * elements. Reads everything twice, the second
// time from L2 where that holds it.
template <class Format, int THREADS, int VECTORS>
__global__ void __launch_bounds__(THREADS)
    split_kernel(const float* __restrict__ from, int64_t from_v, int64_t from_k, int vectors,
                 int length, typename Format::T* __restrict__ to, int64_t to_v, int64_t to_k,
                 int64_t elements, int* exponents) {
  constexpr int STEP = THREADS / VECTORS;  // threads a vector
  __shared__ uint32_t largest[THREADS];
  const int tid = threadIdx.x, v = blockIdx.x * VECTORS + tid % VECTORS;
  if (v >= vectors) length = 0;
  uint32_t bits = 0;
#pragma unroll 8
  for (int k = tid / VECTORS; k < length; k += STEP) {
    const float x = from[v * from_v + k * from_k];
    uint32_t magnitude;
    memcpy(&magnitude, &x, sizeof magnitude);
    magnitude &= 0x7fffffff;
    bits = bits < magnitude ? magnitude : bits;
  }
  largest[tid] = bits;
  __syncthreads();
  for (int n = STEP / 2; n > 0; n /= 2) {
    if (tid < n * VECTORS) {
      const uint32_t other = largest[tid + n * VECTORS];
      largest[tid] = bits = bits < other ? other : bits;
    }
    __syncthreads();
  }
  const int exponent = split_exponent<Format>(largest[tid % VECTORS]);
  if (tid < VECTORS && v < vectors) exponents[v] = exponent;
#pragma unroll 8
  for (int k = tid / VECTORS; k < length; k += STEP) {
    typename Format::T part[Format::PARTS];
    Format::split(scalbnf(from[v * from_v + k * from_k], exponent), part);
#pragma unroll
    for (int i = 0; i < Format::PARTS; ++i) to[v * to_v + k * to_k + i * elements] = part[i];
  }
}

// An operand of `vectors` rows (of A) or columns (of B), each of `length` numbers, in parts: PARTS
// matrices, laid out as the operand is, in rows that TMA can address, and an exponent a vector.
// Must live until the kernels that read it have been launched. Throws as Workspace.
template <class Format>
class SplitOperand {
  using T = typename Format::T;
  static constexpr int GROUP = 16 / sizeof(T);  // elements in 16 bytes
  static int64_t padded(int cols) { return int64_t{cdiv(cols, GROUP)} * GROUP; }
  const int64_t elements_;  // of one part
  const Workspace parts_, exponents_;

 public:
  const int64_t ld;

  // `k_major`: a vector is a row in memory (A as stored, B transposed), and not a column.
  SplitOperand(const float* from, int vectors, int length, int64_t from_ld, bool k_major,
               Stream stream)
      : elements_(k_major ? vectors * padded(length) : length * padded(vectors)),
        parts_(Format::PARTS * sizeof(T) * elements_, stream),
        exponents_(sizeof(int) * vectors, stream),
        ld(padded(k_major ? length : vectors)) {
    if (k_major)
      gemm::launch(split_kernel<Format, 256, 1>, vectors, dim3(256), {}, stream, from, from_ld, 1,
                   vectors, length, part(0), ld, 1, elements_, exponents_.as<int>());
    else
      gemm::launch(split_kernel<Format, 1024, 32>, cdiv(vectors, 32), dim3(1024), {}, stream, from,
                   1, from_ld, vectors, length, part(0), 1, ld, elements_, exponents_.as<int>());
  }
  T* part(int i) const { return parts_.as<T>() + i * elements_; }
  const int* exponents() const { return exponents_.as<int>(); }
};

GEMM_BUILD_NAMESPACE_END
