// The C interface: arguments checked, a plan found or made, and launched.
#include "gemm/gemm.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "batch.h"
#include "launch_mode.h"
#include "library/backend.h"
#include "library/call.h"
#include "library/plan_cache.h"
#include "library/tuned.h"
#include "quantise.h"
#include "registry.h"
#include "version.h"

namespace gemm::library {
namespace {

constexpr int MAX_ALIGN = 128;  // bytes; plans look no further

// Arguments
// -------------------------------------------------------------------------------------------------

// gemm_type and Element are the same list.
static_assert(int{GEMM_F32} == int(Element::f32) && int{GEMM_F16} == int(Element::f16) &&
              int{GEMM_BF16} == int(Element::bf16) && int{GEMM_E4M3} == int(Element::f8e4m3) &&
              int{GEMM_E5M2} == int(Element::f8e5m2));
constexpr const char* TYPE_NAMES[] = {"GEMM_F32", "GEMM_F16", "GEMM_BF16", "GEMM_E4M3",
                                      "GEMM_E5M2"};
int32_t type_of(Element element) { return static_cast<int32_t>(element); }
int element_bytes(int32_t type) { return info(static_cast<Element>(type)).bytes; }
int32_t compute_of(const DTypeInfo& dtype) {
  if (dtype.has_block_scales()) return GEMM_COMPUTE_BLOCK_SCALES;
  if (dtype.accumulation == Accumulation::fast) return GEMM_COMPUTE_FAST_SUMS;
  return dtype.rounds_factors() ? GEMM_COMPUTE_TF32 : GEMM_COMPUTE_EXACT;
}

// What the problem's types are called inside.
DType dtype_of(const gemm_problem& p) {
  const auto check = [](const char* name, int64_t value, int64_t last, const char* allowed) {
    if (value < 0 || value > last)
      fail(GEMM_BAD_ARGUMENT, name, " is ", value, ": allowed are ", allowed);
  };
  constexpr char TYPES[] = "GEMM_F32 to GEMM_E5M2";
  check("type_a", p.type_a, GEMM_E5M2, TYPES);
  check("type_b", p.type_b, GEMM_E5M2, TYPES);
  check("type_c", p.type_c, GEMM_E5M2, TYPES);
  check("compute", p.compute, GEMM_COMPUTE_BLOCK_SCALES,
        "GEMM_COMPUTE_EXACT to GEMM_COMPUTE_BLOCK_SCALES");
  for (const DType dtype : ALL_DTYPES) {
    const DTypeInfo types = info(dtype);
    if (p.type_a == type_of(types.in) && p.type_b == type_of(types.in) &&
        p.type_c == type_of(types.out) && p.compute == compute_of(types))
      return dtype;
  }
  constexpr const char* WITH[] = {"", " with GEMM_COMPUTE_TF32", " with GEMM_COMPUTE_FAST_SUMS",
                                  " with GEMM_COMPUTE_BLOCK_SCALES"};
  fail(GEMM_UNSUPPORTED, "no kernel takes A, B and C of the types ", TYPE_NAMES[p.type_a], ", ",
       TYPE_NAMES[p.type_b], " and ", TYPE_NAMES[p.type_c], WITH[p.compute]);
}

// A problem whose sizes, types and rows have been checked.
struct Checked {
  PlanKey key;  // but for what belongs to the pointers, the epilogue and the device
  Matrix matrices[3];
};

void check_products(const gemm_problem& p) {
  if (p.batch < 0 || p.batch > INT32_MAX)
    fail(GEMM_BAD_ARGUMENT, "batch is ", p.batch, ": allowed are 0 to ", INT32_MAX);
}

// The largest distance of so many products' matrices.
int64_t largest_stride(const Matrix& x, int64_t count) {
  return (INT64_MAX / 8 - x.rows * x.ld) / count;
}
void check_stride(const gemm_problem& p, const Matrix& x, int64_t stride) {
  const int64_t most = largest_stride(x, p.batch);
  if (stride < 0 || stride > most)
    fail(GEMM_BAD_ARGUMENT, "the products' ", x.name, " lie ", stride,
         " elements apart: allowed are 0 to ", most, ", within 2^63 bytes in all");
}

// Elements from the first of a matrix to behind its last.
int64_t span_of(const Matrix& x) {
  return x.rows == 0 || x.cols == 0 ? 0 : (x.rows - 1) * x.ld + x.cols;
}
// Whether products of C do not overlap: one after the other, or beside each other in the rows.
bool are_apart(const Matrix& c, int64_t stride, int64_t count) {
  return stride >= span_of(c) || (stride >= c.cols && (count - 1) * stride + c.cols <= c.ld);
}

// Checks the groups, and writes them to the key.
void check_groups(const gemm_problem& p, Checked& c) {
  check_products(p);
  if (p.compute == GEMM_COMPUTE_BLOCK_SCALES)
    fail(GEMM_UNSUPPORTED, "groups take no block scales: call once a group");
  if (p.gated != 0) fail(GEMM_UNSUPPORTED, "groups are not gated: call once a group");
  c.key.grouped = 1;
  if (p.batch <= 1) return;
  check_stride(p, c.matrices[1], p.stride_b);
  c.key.batch = static_cast<int32_t>(p.batch);
  c.key.stride_b = p.stride_b;
}

// Checks the batch, and writes it to the key.
void check_batch(const gemm_problem& p, Checked& c) {
  check_products(p);
  if (p.batch <= 1) return;
  if (p.compute == GEMM_COMPUTE_BLOCK_SCALES)
    fail(GEMM_UNSUPPORTED, "a batch takes no block scales: call once a product");
  check_stride(p, c.matrices[0], p.stride_a);
  check_stride(p, c.matrices[1], p.stride_b);
  check_stride(p, c.matrices[2], p.stride_c);
  const Matrix& C = c.matrices[2];
  if (!are_apart(C, p.stride_c, p.batch))
    fail(GEMM_BAD_ARGUMENT, "stride_c is ", p.stride_c, ": the products of C overlap, allowed are ",
         span_of(C), " or more, or from ", C.cols, " on with all ", p.batch,
         " products within ldc = ", C.ld);
  c.key.batch = static_cast<int32_t>(p.batch);
  c.key.stride_a = p.stride_a;
  c.key.stride_b = p.stride_b;
  c.key.stride_c = p.stride_c;
}

gemm_problem with_all_fields(const gemm_problem& problem) {
  return sized(problem, 88, "gemm_problem", "GEMM_PROBLEM_DEFAULT");
}

Checked checked(const gemm_problem* problem, bool grouped = false) {
  if (problem == nullptr) fail(GEMM_BAD_ARGUMENT, "problem is a null pointer");
  const gemm_problem p = with_all_fields(*problem);
  check_extent("m", p.m, 0);
  check_extent("n", p.n, 0);
  check_extent("k", p.k, 0);
  check_op("op_a", p.op_a);
  check_op("op_b", p.op_b);
  if (p.gated != 0 && p.gated != 1)
    fail(GEMM_BAD_ARGUMENT, "gated is ", p.gated, ": allowed are 0 and 1");
  if (p.invariant != 0 && p.invariant != 1)
    fail(GEMM_BAD_ARGUMENT, "invariant is ", p.invariant, ": allowed are 0 and 1");
  if (p.gated != 0 && p.n % 2 != 0)
    fail(GEMM_BAD_ARGUMENT, "n is ", p.n,
         ": a gated product has an even number of columns, a gate and a value for each of C's");
  const DType dtype = dtype_of(p);
  const bool ta = p.op_a == GEMM_T, tb = p.op_b == GEMM_T;
  Checked c{.key = {},
            .matrices = {
                {"A", ta ? p.k : p.m, ta ? p.m : p.k, p.lda, element_bytes(p.type_a)},
                {"B", tb ? p.n : p.k, tb ? p.k : p.n, p.ldb, element_bytes(p.type_b)},
                {"C", p.m, p.gated != 0 ? p.n / 2 : p.n, p.ldc, element_bytes(p.type_c)},
            }};
  c.key.gated = static_cast<uint8_t>(p.gated);
  c.key.invariant = static_cast<uint8_t>(p.invariant);
  for (Matrix& x : c.matrices) check_rows(x);
  grouped ? check_groups(p, c) : check_batch(p, c);
  c.key.lda = c.matrices[0].ld;
  c.key.ldb = c.matrices[1].ld;
  c.key.ldc = c.matrices[2].ld;
  c.key.M = static_cast<int32_t>(p.m);
  c.key.N = static_cast<int32_t>(p.n);
  c.key.K = static_cast<int32_t>(p.k);
  c.key.dtype = static_cast<uint8_t>(dtype);
  c.key.op_a = static_cast<uint8_t>(p.op_a);
  c.key.op_b = static_cast<uint8_t>(p.op_b);
  return c;
}

// ScaleOf and gemm_scale_of are the same list.
static_assert(int{GEMM_SCALE_ROW} == int(ScaleOf::row) &&
              int{GEMM_SCALE_BLOCK_ROW} == int(ScaleOf::block_row) &&
              int{GEMM_SCALE_BLOCK} == int(ScaleOf::block));

// But for the pointers.
Quantisation checked(const gemm_quantisation* quantisation) {
  if (quantisation == nullptr) fail(GEMM_BAD_ARGUMENT, "quantisation is a null pointer");
  const gemm_quantisation p =
      sized(*quantisation, sizeof(gemm_quantisation), "gemm_quantisation", "{sizeof it}");
  if (p.scale_of < GEMM_SCALE_TENSOR || p.scale_of > GEMM_SCALE_BLOCK)
    fail(GEMM_BAD_ARGUMENT, "scale_of is ", p.scale_of,
         ": allowed are GEMM_SCALE_TENSOR to GEMM_SCALE_BLOCK");
  const int32_t type_q = p.type_q == 0 ? int32_t{GEMM_E4M3} : p.type_q;
  if (p.type_x < GEMM_F32 || p.type_x > GEMM_BF16)
    fail(GEMM_BAD_ARGUMENT, "type_x is ", p.type_x, ": allowed are GEMM_F32 to GEMM_BF16");
  if (type_q != GEMM_E4M3 && type_q != GEMM_E5M2)
    fail(GEMM_BAD_ARGUMENT, "type_q is ", type_q, ": allowed are GEMM_E4M3 and GEMM_E5M2");
  Quantisation call{.rows = p.rows,
                    .cols = p.cols,
                    .ldx = p.ldx == 0 ? p.cols : p.ldx,
                    .from = static_cast<Element>(p.type_x),
                    .ldq = p.ldq == 0 ? p.cols : p.ldq,
                    .to = static_cast<Element>(type_q),
                    .ld_scales = p.ld_scales,
                    .scale_of = static_cast<ScaleOf>(p.scale_of)};
  for (const auto& [name, value] : {std::pair{"rows", p.rows}, {"cols", p.cols}})
    if (value < 0 || value > LARGEST_EXTENT)
      fail(GEMM_BAD_ARGUMENT, name, " is ", value, ": allowed are 0 to ", LARGEST_EXTENT);
  for (const auto& [name, ld] : {std::pair{"ldx", call.ldx}, {"ldq", call.ldq}})
    if (ld < p.cols || ld > INT64_MAX / 8 / std::max<int64_t>(p.rows, 1))
      fail(GEMM_BAD_ARGUMENT, name, " is ", ld, ": allowed are ", p.cols,
           ", a row's length, or more, within 2^63 bytes in all");
  if (call.scale_of == ScaleOf::block_row || call.scale_of == ScaleOf::block) {
    const int64_t blocks = (p.cols + BlockScales::K - 1) / BlockScales::K;
    const bool by_rows = call.scale_of == ScaleOf::block_row;
    const int64_t least = by_rows ? p.rows : blocks;
    if (call.ld_scales == 0) call.ld_scales = by_rows ? p.rows : (blocks + 3) / 4 * 4;
    if (call.ld_scales < least || call.ld_scales > INT64_MAX / 8 / LARGEST_EXTENT)
      fail(GEMM_BAD_ARGUMENT, "ld_scales is ", call.ld_scales, ": allowed are ", least, " or more");
  }
  return call;
}

// Activation and GEMM_ACTIVATION_... are the same list.
static_assert(int{GEMM_ACTIVATION_RELU} == int(Activation::relu) &&
              int{GEMM_ACTIVATION_LEAKY_RELU} == int(Activation::leaky_relu) &&
              int{GEMM_ACTIVATION_GELU} == int(Activation::gelu) &&
              int{GEMM_ACTIVATION_SILU} == int(Activation::silu) &&
              int{GEMM_ACTIVATION_GELU_ERF} == int(Activation::gelu_erf) &&
              std::size(ALL_ACTIVATIONS) == 1 + int{GEMM_ACTIVATION_GELU_ERF});

// `c`: the matrix that the result goes to. `gated`: its columns are half of the product's.
FusedEpilogue checked(const gemm_epilogue* epilogue, const Matrix& c, bool gated) {
  FusedEpilogue made;
  made.gated = gated;
  if (epilogue == nullptr) return made;
  const gemm_epilogue e = sized(*epilogue, 20, "gemm_epilogue", "GEMM_EPILOGUE_DEFAULT");
  if (e.activation < GEMM_ACTIVATION_NONE || e.activation > GEMM_ACTIVATION_GELU_ERF)
    fail(GEMM_BAD_ARGUMENT, "activation is ", e.activation,
         ": allowed are GEMM_ACTIVATION_NONE to ", "GEMM_ACTIVATION_GELU_ERF");
  if (e.reserved != 0) fail(GEMM_BAD_ARGUMENT, "gemm_epilogue.reserved is not 0");
  const auto check = [](const char* name, const void* p, int bytes) {
    if (reinterpret_cast<uintptr_t>(p) % bytes != 0)
      fail(GEMM_BAD_ARGUMENT, name, " is not aligned to its elements of ", bytes, " bytes");
  };
  check("bias", e.bias, c.bytes);
  check("row_bias", e.row_bias, c.bytes);
  check("scale_columns", e.scale_columns, sizeof(float));
  check("scale_rows", e.scale_rows, sizeof(float));
  check("residual", e.residual, c.bytes);
  if (gated && (e.beta != 0 || e.residual != nullptr))
    fail(GEMM_BAD_ARGUMENT,
         "a gated product is twice as wide as C: beta is 0 then, without a residual");
  const int64_t ld = e.ld_residual == 0 ? c.cols : e.ld_residual;
  if (e.residual != nullptr && (ld < c.cols || ld > INT64_MAX / 8 / std::max<int64_t>(c.rows, 1)))
    fail(GEMM_BAD_ARGUMENT, "the rows of the residual lie ", ld, " elements apart: allowed are ",
         c.cols, ", a row's length, or more, within 2^63 bytes in all");
  return {.alpha = e.alpha,
          .beta = e.beta,
          .activation = static_cast<Activation>(e.activation),
          .slope = e.slope,
          .bias = e.bias,
          .row_bias = e.row_bias,
          .scale_columns = e.scale_columns,
          .scale_rows = e.scale_rows,
          .c = e.residual,
          .ldc = e.residual == nullptr ? 0 : ld,
          .gated = gated};
}

// The block scales of a call whose kernel multiplies with them; of others there must be none.
BlockScales checked_scales(const gemm_epilogue* epilogue, const PlanKey& key) {
  const gemm_epilogue e = epilogue == nullptr
                              ? gemm_epilogue{}
                              : sized(*epilogue, 20, "gemm_epilogue", "GEMM_EPILOGUE_DEFAULT");
  if (!info(static_cast<DType>(key.dtype)).has_block_scales()) {
    if (e.scales_a != nullptr || e.scales_b != nullptr)
      fail(GEMM_BAD_ARGUMENT, "scales_a and scales_b go with GEMM_COMPUTE_BLOCK_SCALES alone");
    return {};
  }
  const auto blocks = [](int64_t extent) { return (extent + BlockScales::K - 1) / BlockScales::K; };
  const auto check = [&](const char* name, const float* p, int64_t& ld, int64_t cols,
                         int64_t otherwise) {
    if (ld == 0) ld = otherwise;
    if (ld < cols || ld > INT64_MAX / 8 / std::max<int64_t>(blocks(INT32_MAX), 1))
      fail(GEMM_BAD_ARGUMENT, "ld_", name, " is ", ld, ": allowed are ", cols, " or more");
    if (reinterpret_cast<uintptr_t>(p) % sizeof(float) != 0)
      fail(GEMM_BAD_ARGUMENT, name, " is not aligned to its elements of 4 bytes");
    if (p == nullptr && key.K > 0 && key.M > 0 && key.N > 0 && e.alpha != 0)
      fail(GEMM_BAD_ARGUMENT, name, " is a null pointer: GEMM_COMPUTE_BLOCK_SCALES needs it");
  };
  BlockScales scales{.a = e.scales_a, .lda = e.ld_scales_a, .b = e.scales_b, .ldb = e.ld_scales_b};
  check("scales_a", scales.a, scales.lda, key.M, key.M);
  check("scales_b", scales.b, scales.ldb, blocks(key.K), (blocks(key.K) + 3) / 4 * 4);
  return scales;
}

// Exponent of the largest power of two, up to MAX_ALIGN, that divides the address.
uint8_t align_of(const void* p) {
  return static_cast<uint8_t>(std::countr_zero(
      static_cast<unsigned>(reinterpret_cast<uintptr_t>(p)) | unsigned{MAX_ALIGN}));
}

// Checks the pointers. `reads_products`: A and B are read.
void check_pointers(const Matrix (&matrices)[3], const void* a, const void* b, const void* c,
                    bool reads_products) {
  if (matrices[2].rows == 0 || matrices[2].cols == 0) return;
  if (reads_products) {
    check_pointer(matrices[0], a);
    check_pointer(matrices[1], b);
  }
  check_pointer(matrices[2], c);
}

uint8_t planned_align(const char* name, int32_t align, int bytes) {
  if (align == 0) align = MAX_ALIGN;
  if (align < bytes || align > MAX_ALIGN || !std::has_single_bit(unsigned(align)))
    fail(GEMM_BAD_ARGUMENT, name, " is ", align, ": allowed are powers of two from ", bytes, " to ",
         MAX_ALIGN);
  return static_cast<uint8_t>(std::countr_zero(unsigned(align)));
}

// Planning
// -------------------------------------------------------------------------------------------------

GemmCall make_call(const PlanKey& key, const FusedEpilogue& e, const BlockScales& scales,
                   const void* a, const void* b, void* c, void* stream,
                   const int32_t* ends = nullptr) {
  GemmCall call{.M = key.M,
                .N = key.N,
                .K = key.K,
                .A = a,
                .lda = key.lda,
                .B = b,
                .ldb = key.ldb,
                .C = c,
                .ldc = key.ldc,
                .epilogue = e,
                .op_a = static_cast<Op>(key.op_a),
                .op_b = static_cast<Op>(key.op_b),
                .stream = stream,
                .batch = {key.batch, key.stride_a, key.stride_b, key.stride_c, ends},
                .scales = scales,
                .invariant = key.invariant != 0};
  if (key.K == 0) {  // no product, whatever would multiply it
    call.epilogue.alpha = 1;
    call.epilogue.scale_rows = call.epilogue.scale_columns = nullptr;
  }
  return call;
}

// Which operands an epilogue has: what planning looks at, beside the activation.
enum : uint8_t { OWN_C = 1, RESIDUAL = 2, BIAS = 4, SCALE = 8 };
void set_epilogue(PlanKey& key, const FusedEpilogue& e) {
  const int c = !e.reads_c() ? 0 : e.c == nullptr ? OWN_C : RESIDUAL;
  key.operands =
      static_cast<uint8_t>(c | (e.has_biases() ? BIAS : 0) | (e.has_scales() ? SCALE : 0));
  key.activation = static_cast<uint8_t>(e.activation);
}
// An epilogue that has them. Nobody reads there.
FusedEpilogue epilogue_of(const PlanKey& key) {
  static constexpr float SOMEWHERE = 0;
  FusedEpilogue e{.beta = key.operands & (OWN_C | RESIDUAL) ? 1.0f : 0.0f,
                  .activation = static_cast<Activation>(key.activation)};
  if (key.operands & RESIDUAL) e.c = &SOMEWHERE;
  if (key.operands & BIAS) e.bias = &SOMEWHERE;
  if (key.operands & SCALE) e.scale_columns = &SOMEWHERE;
  e.gated = key.gated != 0;
  return e;
}

// One of each kind that a launch may have a kernel for: plain, with C, with an activation, and fused.
constexpr FusedEpilogue EPILOGUES[] = {
    {}, {.beta = 1}, {.activation = Activation::gelu}, {.activation = Activation::gelu_erf}};

// The call of a key, on pointers that only have the alignment. Nobody reads or writes there.
GemmCall make_call(const PlanKey& key, const FusedEpilogue& e) {
  const auto address = [](uint8_t align) {
    return reinterpret_cast<void*>((uintptr_t{1} << 32) + (align < 7 ? 1u << align : 0));
  };
  return make_call(key, e, {}, address(key.align_a), address(key.align_b), address(key.align_c),
                   nullptr,
                   key.grouped != 0 ? static_cast<const int32_t*>(address(MAX_ALIGN)) : nullptr);
}

bool takes_ops(const Rung& rung, const PlanKey& key) {
  return rung.needs.transposed || (key.op_a == 0 && key.op_b == 0);
}

bool takes_groups(const Rung& rung, const PlanKey& key) {
  return rung.needs.groups || key.grouped == 0;
}

bool keeps_bits(const Rung& rung, const PlanKey& key) {
  return rung.needs.invariant || key.invariant == 0;
}

// By what was measured, where the program asks for it. Else by the dispatcher of this type. Where there
// is none, by the rung with the least makespan. If none estimates one, by the last of the ladder.
Plan choose(const PlanKey& key, const GemmCall& call, const Place& place) {
  const DeviceInfo& device = place.info();
  std::vector<const Rung*> usable;
  for (const Rung* rung : rungs_of(place.computer))
    if (rung->dtype == static_cast<DType>(key.dtype) && runs_on(rung->needs, device) &&
        takes_ops(*rung, key) && takes_groups(*rung, key) && keeps_bits(*rung, key) &&
        rung->product_error == 0)
      usable.push_back(rung);
  if (usable.empty() && key.invariant != 0)
    fail(GEMM_UNSUPPORTED, "no kernel of this type keeps the bits of rows here (invariant)");
  if (usable.empty())
    fail(GEMM_UNSUPPORTED, "no kernel of this type ",
         key.op_a != 0 || key.op_b != 0 ? "takes transposed operands" : "runs", " on ",
         device.arch.name, " (sm_", device.sm, ")");
  if (const std::optional<Plan> measured = tuned_plan(key, call, usable, device.arch))
    return *measured;
  for (const Rung* rung : usable)
    if (rung->dispatches) return plan(*rung, call, device.arch);
  Plan best{.makespan = NEVER};
  for (const Rung* rung : usable)
    if (rung->estimates)
      if (const Plan p = plan(*rung, call, device.arch); p.makespan < best.makespan) best = p;
  return best.rung != nullptr ? best : plan(*usable.back(), call, device.arch);
}

// By the rung asked for.
Plan choose(const PlanKey& key, const GemmCall& call, const Place& place, const std::string& id) {
  const DeviceInfo& device = place.info();
  bool known = false;
  for (const Rung* rung : rungs_of(place.computer)) {
    if (rung->id != id && rung->name != id) continue;
    known = true;
    if (rung->dtype != static_cast<DType>(key.dtype)) continue;
    if (!takes_ops(*rung, key)) fail(GEMM_UNSUPPORTED, rung->name, " takes no transposed operands");
    if (!keeps_bits(*rung, key))
      fail(GEMM_UNSUPPORTED, rung->name, " does not keep the bits of rows (invariant)");
    if (!runs_on(rung->needs, device))
      fail(GEMM_UNSUPPORTED, rung->name, " does not run on ", device.arch.name, " (sm_", device.sm,
           ")");
    return plan(*rung, call, device.arch);
  }
  if (known) fail(GEMM_UNSUPPORTED, id, " has no kernel of this type");
  fail(GEMM_BAD_ARGUMENT, "there is no rung \"", id, "\": gemm_rung_get lists them");
}

// Plans, and loads what launches will need, whatever their epilogues. `rung`: null for the best.
PreparedPlan prepare(const PlanKey& key, const char* rung = nullptr) {
  const Place place = place_of(key.device);
  place.info();  // throws where there is none
  PreparedPlan made{.key = key, .plan = {}};
  place.computer.on_device(place.device, [&] {
    const GemmCall call = make_call(key, epilogue_of(key));
    made.plan = rung == nullptr ? choose(key, call, place) : choose(key, call, place, rung);
    if (made.plan.rung->dispatches)
      fail(GEMM_INTERNAL_ERROR, made.plan.rung->name, " has chosen no rung");
    const LaunchModeScope scope({.device = place.device, .prepare = true});
    for (FusedEpilogue e : EPILOGUES) {
      e.gated = key.gated != 0;
      if (!e.gated || !e.reads_c()) launch(make_call(key, e), made.plan);
    }
    // Scales beside the call's own C: a pass may want the product in a workspace.
    if (const FusedEpilogue own = epilogue_of(key); own.has_scales() && own.beta != 0)
      launch(make_call(key, own), made.plan);
    made.workspace = launch_mode().workspace_peak;
  });
  return made;
}

const PreparedPlan& find_or_prepare(const PlanKey& key) {
  thread_local std::unique_ptr<PlanCache> cache;
  thread_local const void* tuning = nullptr;  // that its plans are made by
  if (const void* const in_use = tuning_in_use(); cache == nullptr || tuning != in_use) {
    cache = std::make_unique<PlanCache>();
    tuning = in_use;
  }
  if (const PreparedPlan* found = cache->find(key)) return *found;
  return cache->insert(prepare(key));
}

constexpr char NO_RESIDUAL[] = "a batch takes no residual: beta adds each product's own C";

// What a rung's needs leave out of the epilogue is refused, and what a batch does.
void check_needs(const Rung& rung, const PlanKey& key, const FusedEpilogue& e) {
  if (key.batch > 1 && e.c != nullptr) fail(GEMM_UNSUPPORTED, NO_RESIDUAL);
  if (rung.needs.no_activation && (!e.is_plain() || e.activation != Activation::none))
    fail(GEMM_UNSUPPORTED, rung.name, " takes alpha and beta only");
}

// `prepared`: its kernels have been loaded for pointers aligned like these.
void run(const Plan& plan, const PlanKey& key, const FusedEpilogue& e, const BlockScales& scales,
         const void* a, const void* b, void* c, void* stream, bool prepared,
         const int32_t* ends = nullptr) {
  check_needs(*plan.rung, key, e);
  if (e.has_scales() && e.beta != 0) prepared = false;  // its product may lie in a workspace
  LaunchMode mode = launch_mode();
  mode.device = place_of(key.device).device;
  mode.prepared = prepared;
  const LaunchModeScope scope(mode);
  launch(make_call(key, e, scales, a, b, c, stream, ends), plan);
}

// Whether some rung computes the groups: in one launch, where its kernel takes them so.
bool has_grouped_rung(const PlanKey& key) {
  const Place place = place_of(key.device);
  const std::vector<const Rung*>& all = rungs_of(place.computer);
  return std::any_of(all.begin(), all.end(), [&](const Rung* rung) {
    return rung->needs.groups && rung->dtype == static_cast<DType>(key.dtype) &&
           runs_on(rung->needs, place.info()) && takes_ops(*rung, key) && rung->product_error == 0;
  });
}

// Each group by the kernel that is best for it.
void run_group_by_group(const PlanKey& key, const FusedEpilogue& e, const void* a, const void* b,
                        void* c, void* stream, const int32_t* ends) {
  const Place place = place_of(key.device);
  std::vector<int32_t> on_host(static_cast<size_t>(key.batch));
  place.computer.read(place.device, stream, on_host.data(), ends, on_host.size() * sizeof(int32_t));
  const GemmCall all = make_call(key, e, {}, a, b, c, stream, ends);
  for_each_group(on_host, key.M, [&](int group, int first, int end) {
    const GemmCall one = group_of(all, static_cast<DType>(key.dtype), group, first, end);
    PlanKey of_one = key;
    of_one.grouped = 0;
    of_one.batch = 1;
    of_one.stride_b = 0;
    of_one.M = one.M;
    of_one.align_a = align_of(one.A);
    of_one.align_b = align_of(one.B);
    of_one.align_c = align_of(one.C);
    run(find_or_prepare(of_one).plan, of_one, e, {}, one.A, one.B, one.C, stream, true);
  });
}

// The distance in elements of pointers that are equally spaced and rise, or are all the same.
std::optional<int64_t> stride_of(const void* const* pointers, int64_t count, int bytes) {
  const auto distance = [&](int64_t i) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointers[i]) -
                                reinterpret_cast<uintptr_t>(pointers[i - 1]));
  };
  const int64_t first = distance(1);
  for (int64_t i = 2; i < count; ++i)
    if (distance(i) != first) return {};
  if (first < 0 || first % bytes != 0) return {};
  return first / bytes;
}

// The products as a batch of equal distances, where they are one.
bool set_strides(PlanKey& key, const Matrix (&matrices)[3], int64_t count, const void* const* a,
                 const void* const* b, void* const* c) {
  std::optional<int64_t> strides[3] = {0, 0, {}};
  if (key.K > 0) {
    strides[0] = stride_of(a, count, matrices[0].bytes);
    strides[1] = stride_of(b, count, matrices[1].bytes);
  }
  strides[2] = stride_of(c, count, matrices[2].bytes);
  for (int i = 0; i < 3; ++i)
    if (!strides[i] || *strides[i] > largest_stride(matrices[i], count)) return false;
  if (!are_apart(matrices[2], *strides[2], count)) return false;
  key.batch = static_cast<int32_t>(count);
  key.stride_a = *strides[0];
  key.stride_b = *strides[1];
  key.stride_c = *strides[2];
  return true;
}

// Products of one shape anywhere in memory: one batch where they are equally spaced, else a launch
// each, planned once for the least alignment.
void run_pointers(PlanKey key, const Matrix (&matrices)[3], int64_t count, const FusedEpilogue& e,
                  const void* const* a, const void* const* b, void* const* c, void* stream) {
  const void* none = nullptr;
  const auto at = [&](const void* const* pointers, int64_t i) {
    return pointers == nullptr ? none : pointers[i];
  };
  const auto set_aligns = [&](PlanKey& of, int64_t i) {
    of.align_a = align_of(at(a, i));
    of.align_b = align_of(at(b, i));
    of.align_c = align_of(c[i]);
  };
  set_aligns(key, 0);
  if (count > 1 && set_strides(key, matrices, count, a, b, c))
    return run(find_or_prepare(key).plan, key, e, {}, at(a, 0), at(b, 0), c[0], stream, true);
  for (int64_t i = 1; i < count; ++i) {
    PlanKey one = key;
    set_aligns(one, i);
    key.align_a = std::min(key.align_a, one.align_a);
    key.align_b = std::min(key.align_b, one.align_b);
    key.align_c = std::min(key.align_c, one.align_c);
  }
  const Plan plan = find_or_prepare(key).plan;
  for (int64_t i = 0; i < count; ++i) {
    PlanKey one = key;
    set_aligns(one, i);
    run(plan, one, e, {}, at(a, i), at(b, i), c[i], stream, one == key);
  }
}

// A plan as the caller holds it.
struct HeldPlan {
  static constexpr uint64_t MAGIC = 0x6e616c706d6d6567;  // "gemmplan"
  uint64_t magic;
  PreparedPlan prepared;
  Matrix matrices[3];
};
static_assert(sizeof(HeldPlan) <= sizeof(gemm_plan) && std::is_trivially_copyable_v<HeldPlan>);

const HeldPlan& held(const gemm_plan* plan) {
  if (plan == nullptr) fail(GEMM_BAD_ARGUMENT, "plan is a null pointer");
  const HeldPlan& h = *reinterpret_cast<const HeldPlan*>(plan);
  if (h.magic != HeldPlan::MAGIC)
    fail(GEMM_BAD_ARGUMENT, "plan was not made by gemm_plan_create, or that failed");
  return h;
}

}  // namespace
}  // namespace gemm::library

using namespace gemm::library;

namespace {

gemm_status create(const gemm_problem* problem, const gemm_epilogue* epilogue, int device,
                   const char* rung, gemm_plan* plan) {
  int known = -1;
  return guarded(known, [&] {
    if (plan == nullptr) fail(GEMM_BAD_ARGUMENT, "plan is a null pointer");
    std::memset(plan, 0, sizeof *plan);
    Checked c = checked(problem);
    set_epilogue(c.key, checked(epilogue, c.matrices[2], c.key.gated != 0));
    c.key.device = known = key_device(device);
    place_of(known).info();  // throws where there is none
    const int32_t aligns[] = {problem->align_a, problem->align_b, problem->align_c};
    constexpr const char* NAMES[] = {"align_a", "align_b", "align_c"};
    uint8_t* const parts[] = {&c.key.align_a, &c.key.align_b, &c.key.align_c};
    for (int i = 0; i < 3; ++i) *parts[i] = planned_align(NAMES[i], aligns[i], c.matrices[i].bytes);
    HeldPlan h{HeldPlan::MAGIC, prepare(c.key, rung), {}};
    std::copy(std::begin(c.matrices), std::end(c.matrices), h.matrices);
    std::memcpy(plan, &h, sizeof h);
  });
}

}  // namespace

gemm_status gemm_gpu_count(int* count) {
  return guarded([&] {
    if (count == nullptr) fail(GEMM_BAD_ARGUMENT, "count is a null pointer");
    *count = GPUS == nullptr ? 0 : GPUS->gpu_count();
  });
}

gemm_status gemm_plan_create(const gemm_problem* problem, int device, gemm_plan* plan) {
  return create(problem, nullptr, device, nullptr, plan);
}

gemm_status gemm_plan_create_for(const gemm_problem* problem, const gemm_epilogue* epilogue,
                                 int device, gemm_plan* plan) {
  return create(problem, epilogue, device, nullptr, plan);
}

gemm_status gemm_plan_create_with(const gemm_problem* problem, int device, const char* rung,
                                  gemm_plan* plan) {
  return create(problem, nullptr, device, rung == nullptr ? "" : rung, plan);
}

gemm_status gemm_use_tuning(const char* file) {
  return guarded([&] { use_tuning(file); });
}

gemm_status gemm_plan_explain(const gemm_plan* plan, char* text, size_t size) {
  return guarded([&] {
    const HeldPlan& h = held(plan);
    const gemm::Plan& p = h.prepared.plan;
    std::string told = p.rung->name;
    if (p.variant != gemm::ANY_VARIANT) told += " " + p.rung->variants[p.variant].name;
    const PlanKey& key = h.prepared.key;
    const std::string how = key.M == 0 || key.N == 0 ? "C has no elements: nothing to compute"
                                                     : explain(p, make_call(key, EPILOGUES[0]));
    if (!how.empty()) told += ": " + how;
    put_text(told, text, size);
  });
}

gemm_status gemm_plan_workspace_size(const gemm_plan* plan, size_t* bytes) {
  return guarded([&] {
    const HeldPlan& h = held(plan);
    if (bytes == nullptr) fail(GEMM_BAD_ARGUMENT, "bytes is a null pointer");
    *bytes = h.prepared.workspace;
  });
}

gemm_status gemm_run(const gemm_plan* plan, const gemm_epilogue* epilogue, const void* a,
                     const void* b, void* c, void* stream) {
  int device = -1;
  return guarded(device, [&] {
    const HeldPlan& h = held(plan);
    const bool gated = h.prepared.key.gated != 0;
    const gemm::FusedEpilogue e = checked(epilogue, h.matrices[2], gated);
    check_pointers(h.matrices, a, b, c, e.alpha != 0);
    const PlanKey& planned = h.prepared.key;
    if (planned.M == 0 || planned.N == 0) return;
    device = planned.device;
    PlanKey key = planned;
    if (e.alpha == 0) key.K = 0;  // another problem
    key.align_a = align_of(a);
    key.align_b = align_of(b);
    key.align_c = align_of(c);
    const gemm::BlockScales scales = checked_scales(epilogue, key);
    if (key.K != planned.K)
      return run(find_or_prepare(key).plan, key, e, scales, a, b, c, stream, true);
    const auto check = [](const char* name, uint8_t has, uint8_t wanted) {
      if (has < wanted)
        fail(GEMM_BAD_ARGUMENT, name, " is aligned to ", 1 << has, " bytes, and the plan is for ",
             1 << wanted, ": plan with gemm_problem.align_a, align_b and align_c");
    };
    if (key.K > 0) {
      check("A", key.align_a, planned.align_a);
      check("B", key.align_b, planned.align_b);
    }
    check("C", key.align_c, planned.align_c);
    run(h.prepared.plan, key, e, scales, a, b, c, stream, key == planned);
  });
}

gemm_status gemm_matmul(const gemm_problem* problem, const gemm_epilogue* epilogue, const void* a,
                        const void* b, void* c, void* stream, int device) {
  int known = -1;
  return guarded(known, [&] {
    const Checked checked_problem = checked(problem);
    PlanKey key = checked_problem.key;
    const gemm::FusedEpilogue e = checked(epilogue, checked_problem.matrices[2], key.gated != 0);
    check_pointers(checked_problem.matrices, a, b, c, e.alpha != 0);
    set_epilogue(key, e);
    if (e.alpha == 0) key.K = 0;
    key.device = known = key_device(device);
    if (key.M == 0 || key.N == 0) {
      place_of(known).info();  // throws where there is none
      return;
    }
    key.align_a = align_of(a);
    key.align_b = align_of(b);
    key.align_c = align_of(c);
    const gemm::BlockScales scales = checked_scales(epilogue, key);
    run(find_or_prepare(key).plan, key, e, scales, a, b, c, stream, true);
  });
}

gemm_status gemm_quantise(const gemm_quantisation* quantisation, const void* x, void* q,
                          float* scales, void* stream, int device) {
  int known = -1;
  return guarded(known, [&] {
    gemm::Quantisation call = checked(quantisation);
    const auto check = [&](const char* name, const void* p, int bytes) {
      if (p == nullptr && call.rows > 0 && call.cols > 0)
        fail(GEMM_BAD_ARGUMENT, name, " is a null pointer");
      if (reinterpret_cast<uintptr_t>(p) % bytes != 0)
        fail(GEMM_BAD_ARGUMENT, name, " is not aligned to its elements of ", bytes, " bytes");
    };
    check("x", x, info(call.from).bytes);
    check("q", q, 1);
    check("scales", scales, sizeof(float));
    const bool has_scale = call.scale_of == gemm::ScaleOf::tensor ||
                           (call.scale_of == gemm::ScaleOf::row && call.rows > 0);
    if (scales == nullptr && has_scale)  // also of no elements
      fail(GEMM_BAD_ARGUMENT, "scales is a null pointer");
    call.x = x;
    call.q = q;
    call.scales = scales;
    call.stream = stream;
    known = key_device(device);
    const Place place = place_of(known);
    place.info();  // throws where there is none
    gemm::LaunchMode mode = gemm::launch_mode();
    mode.device = place.device;
    const gemm::LaunchModeScope scope(mode);
    gemm::quantise(place.computer.backend, call);
  });
}

gemm_status gemm_grouped_matmul(const gemm_problem* problem, const gemm_epilogue* epilogue,
                                const void* a, const void* b, void* c, const int32_t* ends,
                                void* stream, int device) {
  int known = -1;
  return guarded(known, [&] {
    const Checked checked_problem = checked(problem, true);
    const gemm::FusedEpilogue e = checked(epilogue, checked_problem.matrices[2], false);
    if (!e.is_plain())
      fail(GEMM_UNSUPPORTED,
           "groups take alpha, beta and an activation but GEMM_ACTIVATION_GELU_ERF: no vectors, no "
           "residual");
    check_pointers(checked_problem.matrices, a, b, c, e.alpha != 0);
    if (ends == nullptr && checked_problem.key.M > 0)
      fail(GEMM_BAD_ARGUMENT, "ends is a null pointer");
    if (reinterpret_cast<uintptr_t>(ends) % sizeof *ends != 0)
      fail(GEMM_BAD_ARGUMENT, "ends is not aligned to its elements of 4 bytes");
    PlanKey key = checked_problem.key;
    if (e.alpha == 0) key.K = 0;
    key.device = known = key_device(device);
    place_of(known).info();  // throws where there is none
    if (key.M == 0 || key.N == 0) return;
    key.align_a = align_of(a);
    key.align_b = align_of(b);
    key.align_c = align_of(c);
    if (has_grouped_rung(key))
      run(find_or_prepare(key).plan, key, e, {}, a, b, c, stream, true, ends);
    else
      run_group_by_group(key, e, a, b, c, stream, ends);
  });
}

gemm_status gemm_batched_matmul(const gemm_problem* problem, const gemm_epilogue* epilogue,
                                const void* const* a, const void* const* b, void* const* c,
                                void* stream, int device) {
  int known = -1;
  return guarded(known, [&] {
    if (problem == nullptr) fail(GEMM_BAD_ARGUMENT, "problem is a null pointer");
    const gemm_problem batch = with_all_fields(*problem);
    check_products(batch);
    gemm_problem one = batch;
    one.batch = 1;
    const Checked checked_problem = checked(&one);
    PlanKey key = checked_problem.key;
    const gemm::FusedEpilogue e = checked(epilogue, checked_problem.matrices[2], key.gated != 0);
    if (batch.compute == GEMM_COMPUTE_BLOCK_SCALES)
      fail(GEMM_UNSUPPORTED, "a batch takes no block scales: call once a product");
    checked_scales(epilogue, key);
    if (e.c != nullptr) fail(GEMM_UNSUPPORTED, NO_RESIDUAL);
    set_epilogue(key, e);
    if (e.alpha == 0) key.K = 0;
    key.device = known = key_device(device);
    place_of(known).info();  // throws where there is none
    if (batch.batch == 0 || key.M == 0 || key.N == 0) return;
    if ((key.K > 0 && (a == nullptr || b == nullptr)) || c == nullptr)
      fail(GEMM_BAD_ARGUMENT, "an array of pointers is a null pointer");
    if (key.K == 0) a = b = nullptr;  // nothing is read there
    for (int64_t i = 0; i < batch.batch; ++i) try {
        check_pointers(checked_problem.matrices, key.K == 0 ? nullptr : a[i],
                       key.K == 0 ? nullptr : b[i], c[i], key.K > 0);
      } catch (const Failure& f) {
        fail(f.status, "product ", i, ": ", f.what());
      }
    run_pointers(key, checked_problem.matrices, batch.batch, e, a, b, c, stream);
  });
}

const char* gemm_status_string(gemm_status status) {
  switch (status) {
    case GEMM_OK:
      return "ok";
    case GEMM_BAD_ARGUMENT:
      return "bad argument";
    case GEMM_UNSUPPORTED:
      return "unsupported";
    case GEMM_NO_DEVICE:
      return "no device";
    case GEMM_OUT_OF_MEMORY:
      return "out of memory";
    case GEMM_LAUNCH_REFUSED:
      return "launch refused";
    case GEMM_DEVICE_FAULT:
      return "device fault";
    case GEMM_INTERNAL_ERROR:
      return "internal error";
    case GEMM_RANK_FAILED:
      return "rank failed";
  }
  return "unknown status";
}

const char* gemm_last_error() { return last_error().c_str(); }
const char* gemm_version() { return GEMM_VERSION; }
const char* gemm_backend() { return (GPUS == nullptr ? SIMULATOR : *GPUS).name; }

gemm_status gemm_rung_count(int device, int* count) {
  return guarded([&] {
    if (count == nullptr) fail(GEMM_BAD_ARGUMENT, "count is a null pointer");
    const Place place = place_of(key_device(device));
    place.info();  // throws where there is none
    *count = static_cast<int>(rungs_of(place.computer).size());
  });
}

gemm_status gemm_rung_get(int device, int index, gemm_rung* rung) {
  return guarded([&] {
    if (rung == nullptr) fail(GEMM_BAD_ARGUMENT, "rung is a null pointer");
    static_assert(sizeof(gemm_rung) == 56);  // when it grows, fill in what fits
    if (rung->size < sizeof(gemm_rung))
      fail(GEMM_BAD_ARGUMENT, "gemm_rung.size is ", rung->size, ": set it to sizeof(gemm_rung)");
    const Place place = place_of(key_device(device));
    const std::vector<const gemm::Rung*>& all = rungs_of(place.computer);
    if (index < 0 || index >= static_cast<int>(all.size()))
      fail(GEMM_BAD_ARGUMENT, "index is ", index, ": allowed are 0 to ", all.size() - 1);
    const gemm::Rung& r = *all[index];
    const gemm::DTypeInfo types = info(r.dtype);
    *rung = {.size = sizeof(gemm_rung),
             .compute = compute_of(types),
             .type_a = type_of(types.in),
             .type_b = type_of(types.in),
             .type_c = type_of(types.out),
             .transposed = r.needs.transposed,
             .approximate = r.product_error != 0,
             .runs = runs_on(r.needs, place.info()),
             .id = r.id.c_str(),
             .name = r.name.c_str(),
             .idea = r.idea.c_str()};
  });
}
