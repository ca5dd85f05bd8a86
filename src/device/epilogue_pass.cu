// The epilogue pass: what a rung's kernel lacks of an epilogue, as a second, elementwise kernel. It
// reads the products, and writes D. All rungs share it.
#include <algorithm>
#include <type_traits>

#include "device/vec.cuh"
#include "registry.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int THREADS = 256, CTAS_PER_SM = 8;

template <int SIZE>
struct Floats {
  float x[SIZE];
  __device__ float operator[](int j) const { return x[j]; }
};

// The products of a batch, rows of N elements, and D, of as many or, where they are gated, half of them.
template <class T, class From>
struct Pass {
  int M, N, products;
  const From* from;
  int64_t ld_from, stride_from;
  T* D;
  int64_t ldd, stride_d;
  FusedEpilogue epilogue;
};

// Elements (m, n) to (m, n + VEC) of a product with all of the epilogue but its activation. `to`: where
// the same of D lie.
template <bool ALIGNED, class T, class From, int VEC = Vec<T>::SIZE>
__device__ void before_activation(const Pass<T, From>& p, int product, int m, int n, const T* to,
                                  float (&x)[VEC]) {
  const FusedEpilogue& e = p.epilogue;
  const From* const from = p.from + product * p.stride_from + m * p.ld_from + n;
  const T* const bias = e.bias == nullptr ? nullptr : static_cast<const T*>(e.bias) + n;
  const auto load = [&](const T* x) {
    Vec<T> v = {};
    if constexpr (ALIGNED) {
      v = load_vec(x);
    } else {
#pragma unroll
      for (int j = 0; j < VEC; ++j)
        if (n + j < p.N) v.set(j, x[j]);
    }
    return v;
  };
  const auto sums = [&] {
    if constexpr (std::is_same_v<T, From>) {
      return load(from);
    } else {
      Floats<VEC> v = {};
#pragma unroll
      for (int j = 0; j < VEC; ++j)
        if (n + j < p.N) v.x[j] = from[j];
      return v;
    }
  }();
  Vec<T> old = {}, terms = {};
  if (e.reads_c()) old = load(e.c_at(m, n, to));
  if (bias != nullptr) terms = load(bias);
  const float scale = e.alpha * (e.scale_rows == nullptr ? 1.0f : e.scale_rows[m]);
  const float term = e.row_bias == nullptr ? 0.0f : float(static_cast<const T*>(e.row_bias)[m]);
#pragma unroll
  for (int j = 0; j < VEC; ++j) {
    const bool scaled = e.scale_columns != nullptr && n + j < p.N;
    const float product_scale = scaled ? scale * e.scale_columns[n + j] : scale;
    x[j] = product_scale * float(sums[j]) + e.beta * float(old[j]) + (term + float(terms[j]));
  }
}

// 16 bytes of a row of D a thread: at once if ALIGNED, which also a residual's rows and a bias must be.
template <class T, class From, bool ALIGNED, bool GATED>
__global__ void __launch_bounds__(THREADS) epilogue_pass(Pass<T, From> p) {
  constexpr int VEC = Vec<T>::SIZE;
  const int columns = GATED ? p.N / 2 : p.N;
  const int64_t groups = cdiv(columns, VEC), all = groups * p.M * p.products;
  const int64_t step = int64_t{gridDim.x} * THREADS;
  for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < all; i += step) {
    const int n = int(i % groups) * VEC, product = int(i / groups / p.M), m = int(i / groups % p.M);
    T* const to = p.D + product * p.stride_d + m * p.ldd + n;
    float x[VEC];
    if constexpr (GATED) {
      float pairs[2][VEC], values[VEC];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        before_activation<ALIGNED>(p, product, m, 2 * n + half * VEC, to, pairs[half]);
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        x[j] = pairs[2 * j / VEC][2 * j % VEC];
        values[j] = pairs[2 * j / VEC][2 * j % VEC + 1];
      }
      p.epilogue.activate(x);
#pragma unroll
      for (int j = 0; j < VEC; ++j) x[j] *= values[j];
    } else {
      before_activation<ALIGNED>(p, product, m, n, to, x);
      p.epilogue.activate(x);
    }
    if constexpr (ALIGNED) {
      Vec<T> out = {};
#pragma unroll
      for (int j = 0; j < VEC; ++j) out.set(j, T(x[j]));
      store_vec(to, out);
    } else {
#pragma unroll
      for (int j = 0; j < VEC; ++j)
        if (n + j < columns) to[j] = T(x[j]);
    }
  }
}

template <class T, class From = T>
void launch_pass(const GemmCall& call, const ProductsInMemory& products) {
  constexpr int VEC = Vec<T>::SIZE;
  const FusedEpilogue& e = call.epilogue;
  const Pass<T, From> pass{call.M,
                           call.N,
                           call.batch.count,
                           static_cast<const From*>(products.first),
                           products.ld,
                           products.stride,
                           static_cast<T*>(call.C),
                           call.ldc,
                           call.batch.stride_c,
                           e};
  const auto aligned_matrix = [](const void* first, int64_t ld, int64_t stride) {
    return reinterpret_cast<uintptr_t>(first) % 16 == 0 && ld % VEC == 0 && stride % VEC == 0;
  };
  const int columns = e.gated ? call.N / 2 : call.N;
  constexpr bool FLOAT_SUMS =
      !std::is_same_v<T, From>;  // for few calls: no faster kernel of their own
  const bool aligned = !FLOAT_SUMS && columns % VEC == 0 &&
                       aligned_matrix(pass.from, pass.ld_from, pass.stride_from) &&
                       aligned_matrix(pass.D, pass.ldd, pass.stride_d) &&
                       aligned_matrix(e.c, e.ldc, 0) && aligned_matrix(e.bias, 0, 0);
  const int64_t groups = int64_t{cdiv(columns, VEC)} * call.M * call.batch.count;
  const int64_t grid =
      std::min((groups + THREADS - 1) / THREADS, int64_t{sm_count()} * CTAS_PER_SM);
  const auto stream = static_cast<Stream>(call.stream);
  auto* kernel =
      e.gated ? epilogue_pass<T, From, false, true> : epilogue_pass<T, From, false, false>;
  if constexpr (!FLOAT_SUMS)
    if (aligned)
      kernel = e.gated ? epilogue_pass<T, T, true, true> : epilogue_pass<T, T, true, false>;
  gemm::launch(kernel, grid, dim3(THREADS), {}, stream, pass);
}

void launch_pass_of(DType dtype, const GemmCall& call, const ProductsInMemory& products) {
  const DeviceScope on_its_gpu(device_of(static_cast<Stream>(call.stream)));
  switch (info(dtype).out) {
    case Element::f32:
      return launch_pass<float>(call, products);
    case Element::f16:
      return products.in_float ? launch_pass<half, float>(call, products)
                               : launch_pass<half>(call, products);
    case Element::bf16:
      return launch_pass<bf16>(call, products);
    case Element::f8e4m3:
    case Element::f8e5m2:
      return;  // of no choice of types
  }
}

[[maybe_unused]] const bool registered = (detail::set_epilogue_pass(BACKEND, launch_pass_of), true);

}  // namespace
