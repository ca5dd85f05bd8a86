// The epilogue: what becomes of a product on its way into C. D = act(alpha * AB + beta * C), in every
// kernel; a fused one has scales, biases, a residual or gates besides.
// Kernels, references and the command line all take it from here.
#pragma once

#include <cmath>
#include <cstdint>

#include "host_device.h"

namespace gemm {

// x / (1 + e^-z). In single precision a GPU takes its fast instructions: their error is below 2^-20
// of the result for z > -5, and nothing beside 1 below that.
template <class Real>
GEMM_INLINE_ANYWHERE Real times_sigmoid(Real x, Real z) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(Real) == 4) return __fdividef(x, 1 + __expf(-z));
#endif
  return x / (1 + std::exp(-z));
}

// Activations: a function here and its row in the table below are all that one takes. Real is float
// in a kernel and double in a reference. `slope` is leaky ReLU's, below 0.
namespace activations {

template <class Real>
GEMM_INLINE_ANYWHERE Real none(Real x, Real) {
  return x;
}
template <class Real>
GEMM_INLINE_ANYWHERE Real relu(Real x, Real) {
  return x < 0 ? Real(0) : x;
}
template <class Real>
GEMM_INLINE_ANYWHERE Real leaky_relu(Real x, Real slope) {
  return x < 0 ? x * slope : x;
}
// With tanh, as cuBLASLt's: 0.5 (1 + tanh(y)) is the sigmoid of 2 y.
template <class Real>
GEMM_INLINE_ANYWHERE Real gelu(Real x, Real) {
  return times_sigmoid(x, x * (Real(1.5957691f) + Real(0.071354814f) * x * x));
}
template <class Real>
GEMM_INLINE_ANYWHERE Real silu(Real x, Real) {
  return times_sigmoid(x, x);
}
// GELU as it is defined: x times the normal distribution's integral.
template <class Real>
GEMM_INLINE_ANYWHERE Real gelu_erf(Real x, Real) {
  return x * Real(0.5) * std::erfc(x * Real(-0.70710678118654752));
}

}  // namespace activations

// Name, steepest slope (of leaky ReLU by the usual parameter), and error of the function in single
// precision, in units of 2^-24 of x: 0 where it is exact.
//
// The first table's are in every kernel. GELU with erf is long: fused kernels and the epilogue pass
// have it.
#define GEMM_PLAIN_ACTIVATIONS(ROW) \
  ROW(none, 1, 0)                   \
  ROW(relu, 1, 0)                   \
  ROW(leaky_relu, 1, 1)             \
  ROW(gelu, 1.13, 16)               \
  ROW(silu, 1.1, 16)
#define GEMM_ACTIVATIONS(ROW) \
  GEMM_PLAIN_ACTIVATIONS(ROW) \
  ROW(gelu_erf, 1.13, 16)

enum class Activation : int32_t {
#define ROW(name, slope, roundings) name,
  GEMM_ACTIVATIONS(ROW)
#undef ROW
};

struct ActivationInfo {
  const char* name;
  double slope, roundings;
};
GEMM_INLINE_ANYWHERE ActivationInfo info(Activation activation) {
  switch (activation) {
#define ROW(name, slope, roundings) \
  case Activation::name:            \
    return {#name, slope, roundings};
    GEMM_ACTIVATIONS(ROW)
#undef ROW
  }
  return {"?", 1, 0};
}
constexpr Activation ALL_ACTIVATIONS[] = {
#define ROW(name, slope, roundings) Activation::name,
    GEMM_ACTIVATIONS(ROW)
#undef ROW
};

// All that touches C in a plain kernel. beta == 0 never reads C, which may hold NaN: whoever applies the functor asks
// reads_c() first, and gives it 0 then.
struct Epilogue {
  float alpha = 1, beta = 0;
  Activation activation = Activation::none;
  float slope = 0.01f;  // of leaky ReLU below 0

  bool operator==(const Epilogue&) const = default;

  GEMM_INLINE_ANYWHERE bool reads_c() const { return beta != 0; }
  // Whether alpha is all there is.
  GEMM_INLINE_ANYWHERE bool only_scales() const {
    return beta == 0 && activation == Activation::none;
  }
  // Whether C is the product itself: nothing is left to do.
  GEMM_INLINE_ANYWHERE bool is_plain() const { return alpha == 1 && only_scales(); }

  // One element: the product and C's old value, or 0 where that is not read.
  GEMM_INLINE_ANYWHERE float operator()(float product, float c) const {
    float x[1] = {combine(product, c)};
    activate(x);
    return x[0];
  }
  // Its steps, for kernels that have many elements.
  GEMM_INLINE_ANYWHERE float scale(float product) const { return alpha * product; }
  GEMM_INLINE_ANYWHERE float combine(float product, float c) const {
    return std::fma(alpha, product, beta * c);  // in one way, in every kernel
  }
  // One choice of the activation for all.
  template <class Real, int COUNT>
  GEMM_INLINE_ANYWHERE void activate(Real (&x)[COUNT]) const {
    switch (activation) {
#define ROW(name, steepest, roundings)                                                       \
  case Activation::name:                                                                     \
    GEMM_UNROLL for (int i = 0; i < COUNT; ++i) x[i] = activations::name(x[i], Real(slope)); \
    break;
      GEMM_PLAIN_ACTIVATIONS(ROW)
#undef ROW
      default:
        break;
    }
  }
};

// The epilogue of a call: D = act(scale * alpha * AB + beta * C + bias). What a plain kernel lacks of
// it is the work of a fused kernel, or of an epilogue pass after a plain one.
struct FusedEpilogue {
  float alpha = 1, beta = 0;
  Activation activation = Activation::none;
  float slope = 0.01f;  // of leaky ReLU below 0

  // Operands, each of which may be missing: null. They need only the alignment of their elements.
  const void* bias = nullptr;            // N elements of C's type: added to the columns
  const void* row_bias = nullptr;        // M elements of C's type: added to the rows
  const float* scale_columns = nullptr;  // N factors of the columns of AB
  const float* scale_rows = nullptr;     // M factors of its rows
  const void* c = nullptr;               // C where it is another matrix than D: a residual
  int64_t ldc = 0;                       // of that, in elements

  // D has a column for each two neighbouring ones of the product, a gate and a value. With x all of
  // the above but the activation, D(m, j) = act(x(m, 2 j)) * x(m, 2 j + 1); beta is 0 then.
  bool gated = false;

  bool operator==(const FusedEpilogue&) const = default;

  GEMM_INLINE_ANYWHERE bool reads_c() const { return beta != 0; }
  GEMM_INLINE_ANYWHERE bool has_scales() const {
    return scale_columns != nullptr || scale_rows != nullptr;
  }
  GEMM_INLINE_ANYWHERE bool has_biases() const { return bias != nullptr || row_bias != nullptr; }
  GEMM_INLINE_ANYWHERE bool has_vectors() const { return has_scales() || has_biases(); }
  // Whether every kernel computes it.
  GEMM_INLINE_ANYWHERE bool is_plain() const {
    return !has_vectors() && (c == nullptr || beta == 0) && activation != Activation::gelu_erf &&
           !gated;
  }
  GEMM_INLINE_ANYWHERE Epilogue plain() const { return {alpha, beta, activation, slope}; }

  // What an element's product is multiplied by beside alpha, and what is added beside beta * C.
  GEMM_INLINE_ANYWHERE float scale_at(int m, int n) const {
    return (scale_rows == nullptr ? 1.0f : scale_rows[m]) *
           (scale_columns == nullptr ? 1.0f : scale_columns[n]);
  }
  template <class T>
  GEMM_INLINE_ANYWHERE float bias_at(int m, int n) const {
    return (bias == nullptr ? 0.0f : float(static_cast<const T*>(bias)[n])) +
           (row_bias == nullptr ? 0.0f : float(static_cast<const T*>(row_bias)[m]));
  }
  // Where C's element (m, n) lies. `d`: where D's does.
  template <class T>
  GEMM_INLINE_ANYWHERE const T* c_at(int m, int n, const T* d) const {
    return c == nullptr ? d : static_cast<const T*>(c) + m * ldc + n;
  }
  template <class Real, int COUNT>
  GEMM_INLINE_ANYWHERE void activate(Real (&x)[COUNT]) const {
    switch (activation) {
#define ROW(name, steepest, roundings)                                                       \
  case Activation::name:                                                                     \
    GEMM_UNROLL for (int i = 0; i < COUNT; ++i) x[i] = activations::name(x[i], Real(slope)); \
    break;
      GEMM_ACTIVATIONS(ROW)
#undef ROW
    }
  }
};

}  // namespace gemm
