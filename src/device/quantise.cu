// Quantisation to FP8 (quantise.h): the largest of the elements that share a scale, and a division.
#include <algorithm>

#include "quantise.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int MOST_PARTS = 1024;  // of a whole matrix; each has a largest element

// A matrix, and its parts: each of part_rows x part_cols elements, that or fewer at the edges.
template <class T, class Q>
struct Parts {
  int64_t rows, cols;
  const T* x;
  int64_t ldx;
  Q* q;
  int64_t ldq;
  int64_t part_rows, part_cols;
  // A row without elements has a part, too: its scale.
  GEMM_DEVICE int64_t across() const { return cols == 0 ? 1 : (cols + part_cols - 1) / part_cols; }

  // Calls visit(row, col) for part `index`'s elements, by `group` threads of which this is `thread`:
  // neighbours in a row by neighbouring threads.
  template <class Visit>
  GEMM_DEVICE void for_each(int64_t index, int thread, int group, Visit&& visit) const {
    const int64_t row0 = index / across() * part_rows, col0 = index % across() * part_cols;
    const int64_t height = rows - row0 < part_rows ? rows - row0 : part_rows;
    const int64_t width = cols - col0 < part_cols ? cols - col0 : part_cols;
    for (int64_t i = thread; i < height * width; i += group)
      visit(row0 + i / width, col0 + i % width);
  }
};

// |x| of what counts for a scale; else 0.
GEMM_DEVICE float finite_magnitude(float x) {
  const float magnitude = x < 0 ? -x : x;
  return magnitude <= 3.402823466e38f ? magnitude : 0;  // false for NaN
}

template <class Q>
constexpr float LARGEST =
    static_cast<float>(info(std::is_same_v<Q, f8e4m3> ? Element::f8e4m3 : Element::f8e5m2).largest);

// 1 also where the quotient would be 0: nothing is divided by 0.
template <class Q>
GEMM_DEVICE float scale_of_largest(float largest) {
  const float scale = largest / LARGEST<Q>;
  return scale > 0 ? scale : 1;
}

GEMM_DEVICE float largest_of_warp(float x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const float other = __shfl_xor_sync(~0u, x, lanes);
    x = other > x ? other : x;
  }
  return x;
}

// The largest of a CTA's numbers, in all its threads.
GEMM_DEVICE float largest_of_cta(float x) {
  __shared__ float of_warps[WARPS];
  x = largest_of_warp(x);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
  __syncthreads();
  float largest = of_warps[0];
#pragma unroll
  for (int i = 1; i < WARPS; ++i) largest = of_warps[i] > largest ? of_warps[i] : largest;
  return largest;
}

// A scale for each part: of a warp (BY_WARP: short parts), or of a CTA.
template <class T, class Q, bool BY_WARP>
__global__ void __launch_bounds__(THREADS)
    quantise_parts(Parts<T, Q> p, float* scales, int64_t down, int64_t ld_scales,
                   bool column_major) {
  constexpr int GROUP = BY_WARP ? 32 : THREADS;
  const int64_t index =
      BY_WARP ? int64_t{blockIdx.x} * WARPS + threadIdx.x / 32 : int64_t{blockIdx.x};
  const int thread = threadIdx.x % GROUP;
  if (index >= down * p.across()) return;
  float largest = 0;
  p.for_each(index, thread, GROUP, [&](int64_t row, int64_t col) {
    const float x = finite_magnitude(float(p.x[row * p.ldx + col]));
    largest = x > largest ? x : largest;
  });
  largest = BY_WARP ? largest_of_warp(largest) : largest_of_cta(largest);
  const float scale = scale_of_largest<Q>(largest);
  const int64_t row = index / p.across(), col = index % p.across();
  if (thread == 0) scales[column_major ? col * ld_scales + row : row * ld_scales + col] = scale;
  p.for_each(index, thread, GROUP, [&](int64_t r, int64_t c) {
    p.q[r * p.ldq + c] = Q(float(p.x[r * p.ldx + c]) / scale);
  });
}

// The largest element of each part of a whole matrix.
template <class T, class Q>
__global__ void __launch_bounds__(THREADS) find_largest(Parts<T, Q> p, float* of_parts) {
  float largest = 0;
  p.for_each(blockIdx.x, threadIdx.x, THREADS, [&](int64_t row, int64_t col) {
    const float x = finite_magnitude(float(p.x[row * p.ldx + col]));
    largest = x > largest ? x : largest;
  });
  largest = largest_of_cta(largest);
  if (threadIdx.x == 0) of_parts[blockIdx.x] = largest;
}

// Divides the parts by one scale, which each CTA finds again in what find_largest has left.
template <class T, class Q>
__global__ void __launch_bounds__(THREADS)
    quantise_by_largest(Parts<T, Q> p, const float* of_parts, int parts, float* scales) {
  float largest = 0;
  for (int i = threadIdx.x; i < parts; i += THREADS)
    largest = of_parts[i] > largest ? of_parts[i] : largest;
  const float scale = scale_of_largest<Q>(largest_of_cta(largest));
  if (blockIdx.x == 0 && threadIdx.x == 0) *scales = scale;
  p.for_each(blockIdx.x, threadIdx.x, THREADS, [&](int64_t row, int64_t col) {
    p.q[row * p.ldq + col] = Q(float(p.x[row * p.ldx + col]) / scale);
  });
}

template <class T, class Q>
void launch_quantise(const Quantisation& c) {
  const auto stream = static_cast<Stream>(c.stream);
  Parts<T, Q> p{c.rows, c.cols, static_cast<const T*>(c.x), c.ldx, static_cast<Q*>(c.q), c.ldq,
                1,      c.cols};
  const auto blocks = [](int64_t extent, int64_t of) { return (extent + of - 1) / of; };
  switch (c.scale_of) {
    case ScaleOf::tensor: {
      p.part_rows = blocks(c.rows, MOST_PARTS);
      const int64_t down = blocks(c.rows, p.part_rows);
      p.part_cols = blocks(c.cols, std::max<int64_t>(1, MOST_PARTS / down));
      const int64_t parts = down * blocks(c.cols, p.part_cols);
      const Workspace largest(parts * sizeof(float), stream);
      gemm::launch(find_largest<T, Q>, parts, dim3(THREADS), {}, stream, p, largest.as<float>());
      gemm::launch(quantise_by_largest<T, Q>, parts, dim3(THREADS), {}, stream, p,
                   static_cast<const float*>(largest.as<float>()), static_cast<int>(parts),
                   c.scales);
      return;
    }
    case ScaleOf::row:
      gemm::launch(quantise_parts<T, Q, false>, c.rows, dim3(THREADS), {}, stream, p, c.scales,
                   c.rows, int64_t{1}, false);
      return;
    case ScaleOf::block_row:
      p.part_cols = BlockScales::K;
      gemm::launch(quantise_parts<T, Q, true>,
                   blocks(c.rows * blocks(c.cols, BlockScales::K), WARPS), dim3(THREADS), {},
                   stream, p, c.scales, c.rows, c.ld_scales, true);
      return;
    case ScaleOf::block:
      p.part_rows = BlockScales::N;
      p.part_cols = BlockScales::K;
      gemm::launch(quantise_parts<T, Q, false>,
                   blocks(c.rows, BlockScales::N) * blocks(c.cols, BlockScales::K), dim3(THREADS),
                   {}, stream, p, c.scales, blocks(c.rows, BlockScales::N), c.ld_scales, false);
      return;
  }
}

template <class T>
void launch_to(const Quantisation& c) {
  c.to == Element::f8e4m3 ? launch_quantise<T, f8e4m3>(c) : launch_quantise<T, f8e5m2>(c);
}

void launch_from(const Quantisation& c) {
  const DeviceScope on_its_gpu(device_of(static_cast<Stream>(c.stream)));
  switch (c.from) {
    case Element::f32:
      return launch_to<float>(c);
    case Element::f16:
      return launch_to<half>(c);
    case Element::bf16:
      return launch_to<bf16>(c);
    case Element::f8e4m3:
    case Element::f8e5m2:
      return;  // is FP8
  }
}

[[maybe_unused]] const bool registered = (detail::set_quantise(BACKEND, launch_from), true);

}  // namespace
