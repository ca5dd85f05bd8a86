// The types of a GEMM: all that is known of an element, and of a choice of types for A, B and C.
// Whatever else needs to know takes it from the two tables here.
#pragma once

#include <cstddef>

#include "host_device.h"

namespace gemm {

// A GEMM's matrices; the epilogue's operands (epilogue.h), `residual` being a C that is not D; and the
// scales of A's and B's blocks (BlockScales).
enum class Operand {
  A,
  B,
  C,
  residual,
  bias,
  row_bias,
  scale_rows,
  scale_columns,
  scales_a,
  scales_b
};

// Element: name, bytes, significant bits, largest number, and what a check allows near 0, where
// numbers are no closer together (half: its least) or a GPU may flush them (float's least normal).
#define GEMM_ELEMENTS(ROW)                  \
  ROW(f32, 4, 24, 3.402823466e38, 1.2e-38)  \
  ROW(f16, 2, 11, 65504.0, 1.0 / (1 << 24)) \
  ROW(bf16, 2, 8, 3.389531390e38, 1.2e-38)  \
  ROW(f8e4m3, 1, 4, 448.0, 1.0 / (1 << 10)) \
  ROW(f8e5m2, 1, 3, 57344.0, 1.0 / (1 << 17))

// What multiplies: FP32 multiply-adds, or tensor cores on words of 8, 16 or 32 bits.
enum class Unit { ffma, tensor_8, tensor_16, tensor_32 };

// How products are summed. full: 24 bits of the sum, as in a float. fast: 14 bits, what Hopper's
// tensor cores keep of FP8 sums. promoted: 14 bits within 128 of k, whose sums are added in float.
// scaled: promoted, each of those sums times the scales of its blocks of A and B.
enum class Accumulation { full, fast, promoted, scaled };
constexpr int FAST_SUM_BITS = 14, PROMOTED_K = 128;

// Choice of types: name, element of A and B, element of C, significant bits of a factor that a
// product keeps, the unit, and how it sums.
//   f32        float in, FP32 multiply-add         f16_f32, bf16_f32   as f16 and bf16, float out
//   f16, bf16  half or bfloat16, in and out
//   tf32       float in and out, multiplied on tensor cores after rounding to 10 mantissa bits: NOT
//   single precision, always labelled
//   e4m3, e5m2  FP8 in, bfloat16 out; e4m3_f32: float out
//   .._fast     the same summed in 14 bits: a mode of cuBLASLt, faster and coarser
//   .._block    with a float scale for each 1 x 128 of A and each 128 x 128 of B
#define GEMM_DTYPES(ROW)                                \
  ROW(f32, f32, f32, 24, ffma, full)                    \
  ROW(f16, f16, f16, 11, tensor_16, full)               \
  ROW(tf32, f32, f32, 11, tensor_32, full)              \
  ROW(bf16, bf16, bf16, 8, tensor_16, full)             \
  ROW(f16_f32, f16, f32, 11, tensor_16, full)           \
  ROW(bf16_f32, bf16, f32, 8, tensor_16, full)          \
  ROW(e4m3, f8e4m3, bf16, 4, tensor_8, promoted)        \
  ROW(e4m3_fast, f8e4m3, bf16, 4, tensor_8, fast)       \
  ROW(e4m3_block, f8e4m3, bf16, 4, tensor_8, scaled)    \
  ROW(e4m3_f32, f8e4m3, f32, 4, tensor_8, promoted)     \
  ROW(e4m3_f32_fast, f8e4m3, f32, 4, tensor_8, fast)    \
  ROW(e4m3_f32_block, f8e4m3, f32, 4, tensor_8, scaled) \
  ROW(e5m2, f8e5m2, bf16, 3, tensor_8, promoted)        \
  ROW(e5m2_fast, f8e5m2, bf16, 3, tensor_8, fast)

enum class Element {
#define ROW(name, ...) name,
  GEMM_ELEMENTS(ROW)
#undef ROW
};
enum class DType {
#define ROW(name, ...) name,
  GEMM_DTYPES(ROW)
#undef ROW
};

struct ElementInfo {
  const char* name;
  int bytes, bits;
  double largest, tiny;
  // Largest relative error of a rounding to it.
  GEMM_HOST_DEVICE constexpr double roundoff() const {
    return 1.0 / static_cast<double>(1 << bits);
  }
};
GEMM_HOST_DEVICE constexpr ElementInfo info(Element element) {
  switch (element) {
#define ROW(name, ...) \
  case Element::name:  \
    return {#name, __VA_ARGS__};
    GEMM_ELEMENTS(ROW)
#undef ROW
  }
  return {"?", 0, 0, 0, 0};
}

struct DTypeInfo {
  const char* name;
  Element in, out;  // of A and B; of C, D and biases
  int bits;         // of a factor that a product keeps
  Unit unit;
  Accumulation accumulation;
  GEMM_HOST_DEVICE constexpr Element element(Operand operand) const {
    switch (operand) {
      case Operand::A:
      case Operand::B:
        return in;
      case Operand::scale_rows:
      case Operand::scale_columns:
      case Operand::scales_a:
      case Operand::scales_b:
        return Element::f32;
      default:
        return out;
    }
  }
  // Whether the operands' blocks have scales: a part of every call.
  GEMM_HOST_DEVICE constexpr bool has_block_scales() const {
    return accumulation == Accumulation::scaled;
  }
  // Whether factors are rounded before they are multiplied.
  GEMM_HOST_DEVICE constexpr bool rounds_factors() const { return bits < info(in).bits; }
};
GEMM_HOST_DEVICE constexpr DTypeInfo info(DType dtype) {
  switch (dtype) {
#define ROW(name, in, out, bits, unit, accumulation) \
  case DType::name:                                  \
    return {#name, Element::in, Element::out, bits, Unit::unit, Accumulation::accumulation};
    GEMM_DTYPES(ROW)
#undef ROW
  }
  return {"?", Element::f32, Element::f32, 0, Unit::ffma, Accumulation::full};
}

constexpr DType ALL_DTYPES[] = {
#define ROW(name, ...) DType::name,
    GEMM_DTYPES(ROW)
#undef ROW
};

// Calls visit(T()) for T of this element, of a family that names them so.
template <class Types, class Visit>
auto with_element(Element element, Visit&& visit) {
  switch (element) {
#define ROW(name, ...) \
  case Element::name:  \
    return visit(typename Types::name());
    GEMM_ELEMENTS(ROW)
#undef ROW
  }
  return visit(typename Types::f32());
}

// Whether a type's kernels are another's code: bf16 runs f16's, e5m2 runs e4m3's. Tests of tiles and
// variants, and instrumented builds, take the first of the two.
constexpr bool is_second_type(DType dtype) {
  const Element in = info(dtype).in;
  return in == Element::bf16 || in == Element::f8e5m2;
}

}  // namespace gemm
