// The epilogue: what becomes of a product on its way to memory.
//   D = act(scale * alpha * AB + beta * C + bias)
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
#define GEMM_ACTIVATIONS(ROW) \
  ROW(none, 1, 0)             \
  ROW(relu, 1, 0)             \
  ROW(leaky_relu, 1, 1)       \
  ROW(gelu, 1.13, 16)         \
  ROW(silu, 1.1, 16)          \
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

// The sigmoid activations in single precision: x * sigmoid(x * P(x^2)), one code for all of them.
// A kernel has that code once for each 16 accumulators; a function each doubled the kernels of v24.
// GELU with erf has the minimax polynomial of its logit: its error is 3 units of 2^-24 of x.
struct SigmoidPolynomial {
  float c[7];
  GEMM_INLINE_ANYWHERE float operator()(float x) const {
    const float square = x * x;
    float sum = c[6];
    GEMM_UNROLL for (int i = 5; i >= 0; --i) sum = sum * square + c[i];
    return times_sigmoid(x, x * sum);
  }
};
GEMM_INLINE_ANYWHERE constexpr bool has_sigmoid(Activation activation) {
  return activation == Activation::gelu || activation == Activation::silu ||
         activation == Activation::gelu_erf;
}
GEMM_INLINE_ANYWHERE SigmoidPolynomial sigmoid_polynomial(Activation activation) {
  const bool tanh = activation == Activation::gelu, erf = activation == Activation::gelu_erf;
  return {{erf    ? 1.59576988f
           : tanh ? 1.5957691f
                  : 1.0f,
           erf    ? 0.0726661682f
           : tanh ? 0.071354814f
                  : 0.0f,
           erf ? -6.51899463e-05f : 0.0f, erf ? -0.000110612389f : 0.0f,
           erf ? 7.92948958e-06f : 0.0f, erf ? -2.64526704e-07f : 0.0f,
           erf ? 3.51234264e-09f : 0.0f}};
}
constexpr Activation ALL_ACTIVATIONS[] = {
#define ROW(name, slope, roundings) Activation::name,
    GEMM_ACTIVATIONS(ROW)
#undef ROW
};

// All that touches C and D, which are one matrix unless `c` says otherwise. beta == 0 never reads C,
// which may hold NaN: whoever applies the functor asks reads_c() first, and gives it 0 then.
struct Epilogue {
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

  bool operator==(const Epilogue&) const = default;

  GEMM_INLINE_ANYWHERE bool reads_c() const { return beta != 0; }
  // Whether rows or columns have something of their own.
  GEMM_INLINE_ANYWHERE bool has_vectors() const {
    return (reinterpret_cast<uintptr_t>(bias) | reinterpret_cast<uintptr_t>(row_bias) |
            reinterpret_cast<uintptr_t>(scale_columns) | reinterpret_cast<uintptr_t>(scale_rows)) !=
           0;
  }
  // Whether alpha is all there is.
  GEMM_INLINE_ANYWHERE bool only_scales() const {
    return beta == 0 && activation == Activation::none && !has_vectors();
  }
  // Whether D is the product itself: nothing is left to do.
  GEMM_INLINE_ANYWHERE bool is_plain() const { return alpha == 1 && only_scales(); }

  // Where C's element (m, n) lies. `d`: where D's does.
  template <class T>
  GEMM_INLINE_ANYWHERE const T* c_at(int m, int n, const T* d) const {
    return c == nullptr ? d : static_cast<const T*>(c) + m * ldc + n;
  }
  // Whether rows of `c`, of type T, begin at multiples of 16 bytes; where there is none, as D's do.
  template <class T>
  GEMM_INLINE_ANYWHERE bool has_aligned_c() const {
    return (reinterpret_cast<uintptr_t>(c) | static_cast<uintptr_t>(ldc) * sizeof(T)) % 16 == 0;
  }
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
  // The epilogue of the part of D that begins at (m, n).
  template <class T>
  Epilogue part(int64_t m, int64_t n) const {
    Epilogue e = *this;
    if (bias != nullptr) e.bias = static_cast<const T*>(bias) + n;
    if (row_bias != nullptr) e.row_bias = static_cast<const T*>(row_bias) + m;
    if (scale_columns != nullptr) e.scale_columns = scale_columns + n;
    if (scale_rows != nullptr) e.scale_rows = scale_rows + m;
    if (c != nullptr) e.c = static_cast<const T*>(c) + m * ldc + n;
    return e;
  }

  // Element (m, n) of D, of its product. `d`: where it will lie.
  template <class T>
  GEMM_INLINE_ANYWHERE float element(int m, int n, float product, const T* d) const {
    const float old = reads_c() ? float(*c_at(m, n, d)) : 0.0f;
    float x[1] = {combine(scale_at(m, n) * product, old) + bias_at<T>(m, n)};
    activate(x);
    return x[0];
  }
  // Its steps, for kernels that have many elements.
  GEMM_INLINE_ANYWHERE float scale(float product) const { return alpha * product; }
  GEMM_INLINE_ANYWHERE float combine(float product, float c) const {
    return alpha * product + beta * c;
  }
  // One choice of the activation for every 16. Were it one for all of a thread's accumulators, nvcc
  // would interleave them all, and spill what waits.
  template <class Real, int COUNT>
  GEMM_INLINE_ANYWHERE void activate(Real (&x)[COUNT]) const {
    constexpr int EACH = COUNT % 16 == 0 ? 16 : COUNT;
    GEMM_UNROLL for (int first = 0; first < COUNT; first += EACH) {
      auto choice = static_cast<int32_t>(activation);
#ifdef __CUDA_ARCH__
      if constexpr (COUNT > EACH) asm volatile("" : "+r"(choice));  // not known to be the same
#endif
      const auto chosen = static_cast<Activation>(choice);
      if (sizeof(Real) == 4 && has_sigmoid(chosen)) {
        const SigmoidPolynomial function = sigmoid_polynomial(chosen);
        GEMM_UNROLL for (int i = first; i < first + EACH; ++i) x[i] =
            static_cast<Real>(function(static_cast<float>(x[i])));
        continue;
      }
      switch (chosen) {
#define ROW(name, steepest, roundings)                                 \
  case Activation::name:                                               \
    if constexpr (sizeof(Real) != 4 || !has_sigmoid(Activation::name)) \
      GEMM_UNROLL for (int i = first; i < first + EACH; ++i) x[i] =    \
          activations::name(x[i], Real(slope));                        \
    break;
        GEMM_ACTIVATIONS(ROW)
#undef ROW
      }
    }
  }
};

}  // namespace gemm
