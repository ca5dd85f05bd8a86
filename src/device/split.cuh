// Floats as sums of two halves (v14w) or of three bf16 (v14x): what tensor cores multiply fastest.
#pragma once

#include <cmath>

#include "device/repack.cuh"
#include "device/workspace.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// x * 2^exponent as hi + lo / 2^LO_SHIFT: 22 bits of x's 24 while it is at least 2^-14 after
// scaling; below, the error stays under 2^-36. Of an infinity, lo is NaN.
struct Halves {
  half hi, lo;
};
constexpr int LO_SHIFT = 11;  // what lo is smaller than hi: unshifted it would run out of range
GEMM_DEVICE Halves split(float x, int exponent) {
  const float scaled = scalbnf(x, exponent);
  const half hi = half(scaled);
  return {hi, half((scaled - float(hi)) * (1 << LO_SHIFT))};  // exact but for the last rounding
}

// The exponent that brings the largest of some numbers between 2^14 and 2^15, whose magnitude has
// these bits: halves end at 65504. Subnormal numbers come as near as 2^141 brings them.
GEMM_DEVICE int split_exponent(uint32_t largest_bits) { return 141 - int(largest_bits >> 23); }

// Splits vectors of `length` floats, each by an exponent of its own, which it writes: rows of A, or
// columns of B. A block takes VECTORS neighbours. Element k of vector v lies at v * from_v + k *
// from_k, and its parts at v * to_v + k * to_k. Reads everything twice, the second time from L2
// where that holds it.
template <int THREADS, int VECTORS>
__global__ void __launch_bounds__(THREADS)
    split_kernel(const float* __restrict__ from, int64_t from_v, int64_t from_k, int vectors,
                 int length, half* __restrict__ hi, half* __restrict__ lo, int64_t to_v,
                 int64_t to_k, int* exponents) {
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
  const int exponent = split_exponent(largest[tid % VECTORS]);
  if (tid < VECTORS && v < vectors) exponents[v] = exponent;
#pragma unroll 8
  for (int k = tid / VECTORS; k < length; k += STEP) {
    const Halves halves = split(from[v * from_v + k * from_k], exponent);
    hi[v * to_v + k * to_k] = halves.hi;
    lo[v * to_v + k * to_k] = halves.lo;
  }
}

// An operand of `vectors` rows (of A) or columns (of B), each of `length` numbers, in two parts: two
// matrices of halves, laid out as the operand is, in rows that TMA can address, and an exponent a
// vector. Must live until the kernels that read it have been launched. Throws as Workspace.
class SplitOperand {
  static constexpr int GROUP = 8;  // halves in 16 bytes
  static int64_t padded(int cols) { return int64_t{cdiv(cols, GROUP)} * GROUP; }
  const int64_t elements_;  // of one part
  const Workspace parts_, exponents_;

 public:
  const int64_t ld;

  // `k_major`: a vector is a row in memory (A as stored, B transposed), and not a column.
  SplitOperand(const float* from, int vectors, int length, int64_t from_ld, bool k_major,
               Stream stream)
      : elements_(k_major ? vectors * padded(length) : length * padded(vectors)),
        parts_(2 * sizeof(half) * elements_, stream),
        exponents_(sizeof(int) * vectors, stream),
        ld(padded(k_major ? length : vectors)) {
    if (k_major)
      gemm::launch(split_kernel<256, 1>, vectors, dim3(256), {}, stream, from, from_ld, 1, vectors,
                   length, hi(), lo(), ld, 1, exponents_.as<int>());
    else
      gemm::launch(split_kernel<1024, 32>, cdiv(vectors, 32), dim3(1024), {}, stream, from, 1,
                   from_ld, vectors, length, hi(), lo(), 1, ld, exponents_.as<int>());
  }
  half* hi() const { return parts_.as<half>(); }
  half* lo() const { return hi() + elements_; }
  const int* exponents() const { return exponents_.as<int>(); }
};

// A float is the sum of its parts, part i over 2^(i BF16_SHIFT), exactly if it is finite. The shift
// keeps parts 1 and 2 within bf16's range, which ends where float's does: they are no larger than
// the number, and a subnormal number's last bit, 2^-149, becomes 2^-133.
constexpr int BF16_PARTS = 3, BF16_SHIFT = 8;

// To nearest, where that is finite: the largest floats would become infinities.
GEMM_DEVICE bf16 nearest_finite_bf16(float x) {
  const bf16 nearest = bf16(x);
  if (!std::isinf(float(nearest))) return nearest;
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint16_t upper = static_cast<uint16_t>(bits >> 16);
  bf16 cut;
  memcpy(&cut, &upper, sizeof cut);
  return cut;
}

// Splits a row-major matrix into three, `elements` apart, their rows `to_ld` elements long: zeros
// past the last column. A CTA takes UNROLL * THREADS columns of a row.
template <int THREADS, int UNROLL>
__global__ void __launch_bounds__(THREADS)
    split_bf16_kernel(MatrixView<float> from, bf16* to, int64_t to_ld, int64_t elements) {
  const int chunks = cdiv(from.cols, UNROLL * THREADS);
  const int m = blockIdx.x / chunks, n0 = blockIdx.x % chunks * UNROLL * THREADS + threadIdx.x;
  float x[UNROLL];  // all loads at once
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const int n = n0 + i * THREADS;
    x[i] = n < from.cols ? from.data[m * from.ld + n] : 0;
  }
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const int n = n0 + i * THREADS;
    if (n >= to_ld) break;
#pragma unroll
    for (int part = 0; part < BF16_PARTS; ++part) {
      const bf16 nearest = nearest_finite_bf16(x[i]);
      to[part * elements + m * to_ld + n] = nearest;
      x[i] = (x[i] - float(nearest)) * (1 << BF16_SHIFT);  // exact
    }
  }
}

// A matrix as three of bf16, in rows that TMA can address. Must live until the kernels that read
// them have been launched. Throws as Workspace.
class Bf16Parts {
  static constexpr int GROUP = 8;                  // bf16 in 16 bytes
  static constexpr int THREADS = 256, UNROLL = 8;  // of the kernel that splits
  const int64_t elements_;                         // of one part
  const Workspace parts_;

 public:
  const int64_t ld;

  Bf16Parts(const MatrixView<float>& from, Stream stream)
      : elements_(int64_t{from.rows} * cdiv(from.cols, GROUP) * GROUP),
        parts_(BF16_PARTS * sizeof(bf16) * elements_, stream),
        ld(int64_t{cdiv(from.cols, GROUP)} * GROUP) {
    gemm::launch(split_bf16_kernel<THREADS, UNROLL>,
                 int64_t{from.rows} * cdiv(from.cols, UNROLL * THREADS), dim3(THREADS), {}, stream,
                 from, part(0), ld, elements_);
  }
  bf16* part(int i) const { return parts_.as<bf16>() + i * elements_; }
};

GEMM_BUILD_NAMESPACE_END
