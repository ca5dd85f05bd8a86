// A row-major matrix is its own transpose in column-major eyes, so the libraries are asked for
//   C^T (N x M) = op(B)^T (N x K) * op(A)^T (K x M):
// A and B swapped, M and N swapped, the transposition flags unchanged.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "batch.h"
#include "device/blas.h"
#include "harness/device.h"
#include "harness/gpu/blas.h"
#include "harness/gpu/cuda_check.h"

// A baseline's call: what it throws says that the rung itself is not to blame.
#define GEMM_BASELINE(call) ::gemm::check_cublas<::gemm::BaselineError>((call), #call)

namespace gemm {
namespace {

constexpr size_t HANDLE_WORKSPACE = 32u << 20;  // what cuBLAS documents for Hopper

cublasOperation_t operation(Op op) { return op == Op::N ? CUBLAS_OP_N : CUBLAS_OP_T; }

cudaDataType_t data_type(Element element) {
  switch (element) {
    case Element::f32:
      return CUDA_R_32F;
    case Element::f16:
      return CUDA_R_16F;
    case Element::bf16:
      return CUDA_R_16BF;
    case Element::f8e4m3:
      return CUDA_R_8F_E4M3;
    case Element::f8e5m2:
      return CUDA_R_8F_E5M2;
  }
  throw std::logic_error("cuBLAS has no such element");
}

// Only FAST_TF32 lets the libraries round single precision inputs; COMPUTE_32F does not.
cublasComputeType_t compute_type(DType dtype) {
  return info(dtype).rounds_factors() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// The bytes that each product's first element's address is a multiple of, in 256-byte aligned
// allocations.
uint32_t alignment(const Problem& p, Operand operand) {
  const MatrixLayout l = layout(p, operand);
  const int64_t group = p.groups.count > 0 ? l.ld : 0;  // begins at any row
  const uint64_t offset =
      (l.first | (l.products > 1 ? l.stride : 0) | group) * element_size(p, operand);
  return static_cast<uint32_t>(std::min<uint64_t>(256, uint64_t{1} << std::countr_zero(offset)));
}

// The stored matrix, read by columns.
cublasLtMatrixLayout_t create_layout(const Problem& p, Operand operand) {
  const MatrixLayout l = layout(p, operand);
  cublasLtMatrixLayout_t created = nullptr;
  GEMM_BASELINE(cublasLtMatrixLayoutCreate(&created, data_type(info(p.dtype).element(operand)),
                                           l.cols, l.rows, l.ld));
  if (p.batch > 1) {
    const int32_t count = p.batch;
    const int64_t stride = l.products > 1 ? l.stride : 0;
    GEMM_BASELINE(cublasLtMatrixLayoutSetAttribute(created, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                   &count, sizeof count));
    GEMM_BASELINE(cublasLtMatrixLayoutSetAttribute(
        created, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  }
  return created;
}

using Handle = Owned<cublasHandle_t, cublasDestroy>;

// On the current GPU.
template <class Error>
Handle create_handle() {
  // What cuBLAS allocates is no work of a stream: allowed while this thread captures one.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  cublasHandle_t created = nullptr;
  const cublasStatus_t status = cublasCreate(&created);
  cudaThreadExchangeStreamCaptureMode(&mode);
  check_cublas<Error>(status, "cublasCreate");
  Handle handle(created);
  // No TF32 unless asked for, and no partial sums in half, as in every rung of the ladder.
  check_cublas<Error>(
      cublasSetMathMode(
          created, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                             CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
      "cublasSetMathMode");
  return handle;
}

template <class Error>
void set_stream(cublasHandle_t handle, cudaStream_t stream, void* workspace, size_t bytes) {
  check_cublas<Error>(cublasSetStream(handle, stream), "cublasSetStream");
  // After cublasSetStream, which puts the handle back on cuBLAS's own workspace.
  check_cublas<Error>(cublasSetWorkspace(handle, workspace, bytes), "cublasSetWorkspace");
}

bool has_residual(const GemmCall& c) { return c.epilogue.c != nullptr; }

// The problem whose C is what a library writes: of a gated one all products, without gaps.
Problem product_of(Problem p) {
  if (p.gated) p.ld_pad = p.batch_pad = p.misalign = 0;
  p.gated = false;
  return p;
}

// cuBLASLt's name of an epilogue; none where it has no such one. Its bias is one value for each row
// of its column-major D: for each of our columns.
std::optional<cublasLtEpilogue_t> lt_epilogue(const Problem& p) {
  if (p.operands.row_bias || p.operands.scales() > 0 || p.gated) return {};
  const bool bias = p.operands.bias;
  if (p.activation == Activation::none)
    return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (p.activation == Activation::relu)
    return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  if (p.activation == Activation::gelu)
    return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return {};
}

}  // namespace

Blas::Blas(cudaStream_t stream, size_t workspace_bytes)
    : handle_(create_handle<BaselineError>()), workspace_bytes_(workspace_bytes), stream_(stream) {
  void* workspace = nullptr;
  GEMM_CUDA(cudaMalloc(&workspace, workspace_bytes));
  workspace_.reset(workspace);
  set_stream<BaselineError>(handle(), stream, workspace, workspace_bytes);
}

void* Blas::products(size_t bytes) const {
  if (bytes > products_bytes_) {
    products_.reset();
    void* created = nullptr;
    GEMM_CUDA(cudaMalloc(&created, bytes));
    products_.reset(created);
    products_bytes_ = bytes;
  }
  return products_.get();
}

inline namespace gpu {
namespace {

// Handles that no call uses now, by GPU.
struct HandlePool {
  std::mutex mutex;
  std::map<int, std::vector<Handle>> idle;

  // Never destroyed: at exit CUDA may be gone before any static object.
  static HandlePool& get() {
    static HandlePool* const pool = new HandlePool;
    return *pool;
  }

  Handle take(int device) {
    {
      const std::lock_guard lock(mutex);
      std::vector<Handle>& handles = idle[device];
      if (!handles.empty()) {
        Handle handle = std::move(handles.back());
        handles.pop_back();
        return handle;
      }
    }
    return create_handle<std::runtime_error>();
  }
};

}  // namespace

BlasHandle::BlasHandle(Stream stream)
    : device_(device_of(stream)), workspace_(HANDLE_WORKSPACE, stream) {
  Handle handle = HandlePool::get().take(device_);
  set_stream<std::runtime_error>(handle.get(), stream, workspace_.as<void>(), workspace_.bytes());
  handle_ = handle.release();
}

BlasHandle::~BlasHandle() {
  HandlePool& pool = HandlePool::get();
  const std::lock_guard lock(pool.mutex);
  pool.idle[device_].emplace_back(handle_);
}

void blas_check(cublasStatus_t status) { check_cublas(status, "cuBLAS"); }

}  // namespace gpu

void cublas_gemm(const Blas& blas, DType dtype, const GemmCall& c) {
  const cudaDataType_t in = data_type(info(dtype).in), out = data_type(info(dtype).out);
  if (c.batch.count > 1)
    return check_cublas<BaselineError>(
        cublasGemmStridedBatchedEx_64(blas.handle(), operation(c.op_b), operation(c.op_a), c.N, c.M,
                                      c.K, &c.epilogue.alpha, c.B, in, c.ldb, c.batch.stride_b, c.A,
                                      in, c.lda, c.batch.stride_a, &c.epilogue.beta, c.C, out,
                                      c.ldc, c.batch.stride_c, c.batch.count, compute_type(dtype),
                                      CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx_64");
  check_cublas<BaselineError>(
      cublasGemmEx_64(blas.handle(), operation(c.op_b), operation(c.op_a), c.N, c.M, c.K,
                      &c.epilogue.alpha, c.B, in, c.ldb, c.A, in, c.lda, &c.epilogue.beta, c.C, out,
                      c.ldc, compute_type(dtype), CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx_64");
}

GemmCall library_part_of(const Blas& blas, DType dtype, const GemmCall& call) {
  if (call.epilogue.scale_rows != nullptr || call.epilogue.scale_columns != nullptr)
    if (call.epilogue.reads_c() && !has_residual(call))
      throw BaselineError("the libraries have no scales, and beta * C would be scaled, too");
  GemmCall product = call;
  product.epilogue = {.alpha = call.epilogue.alpha,
                      .beta = has_residual(call) ? 0 : call.epilogue.beta};
  if (call.epilogue.gated) {
    product.ldc = call.N;
    product.batch.stride_c = int64_t{call.M} * call.N;
    product.C =
        blas.products(call.batch.count * product.batch.stride_c * info(info(dtype).out).bytes);
  }
  return product;
}

GemmCall rest_of(const GemmCall& call) {
  GemmCall rest = call;
  rest.epilogue.alpha = 1;
  if (!has_residual(call)) rest.epilogue.beta = 0;
  return rest;
}

void apply_epilogue(const Blas& blas, DType dtype, const GemmCall& rest) {
  const FusedEpilogue& e = rest.epilogue;
  if (e == FusedEpilogue{.slope = e.slope}) return;
  GemmCall call = rest;
  call.stream = blas.stream();
  const GemmCall product = e.gated ? library_part_of(blas, dtype, rest) : rest;
  launch_epilogue_pass(Backend::gpu, dtype, call, {product.C, product.ldc, product.batch.stride_c});
}

LtGemm::LtGemm(const Blas& blas, const Problem& p, int max_candidates)
    : blas_(blas),
      a_(create_layout(p, Operand::B)),
      b_(create_layout(p, Operand::A)),
      c_(create_layout(product_of(p),
                       p.operands.residual && lt_epilogue(p) ? Operand::residual : Operand::C)),
      d_(create_layout(product_of(p), Operand::C)),
      dtype_(p.dtype),
      has_epilogue_(lt_epilogue(p).has_value()) {
  cublasLtMatmulDesc_t desc = nullptr;
  GEMM_BASELINE(cublasLtMatmulDescCreate(&desc, compute_type(p.dtype), CUDA_R_32F));
  operation_.reset(desc);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    GEMM_BASELINE(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.op_b));
  set(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.op_a));
  if (info(p.dtype).unit == Unit::tensor_8) {
    const int8_t fast = info(p.dtype).accumulation == Accumulation::fast;
    GEMM_BASELINE(
        cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast));
  }
  if (info(p.dtype).has_block_scales()) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F});
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F});
    set_block_scales(blas.workspace(), blas.workspace());  // for the heuristic: aligned pointers
    if (p.ld_pad != 0) max_candidates = 0;                 // its rows of scales lie without gaps
  }
  if (const auto epilogue = lt_epilogue(p)) set(CUBLASLT_MATMUL_DESC_EPILOGUE, *epilogue);

  cublasLtMatmulPreference_t preference = nullptr;
  GEMM_BASELINE(cublasLtMatmulPreferenceCreate(&preference));
  const Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> owner(preference);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    GEMM_BASELINE(
        cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{blas.workspace_bytes()});
  // The default assumes 256 bytes; a candidate chosen on that would fault on less.
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p, Operand::B));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p, Operand::A));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
         alignment(product_of(p), p.operands.residual ? Operand::residual : Operand::C));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(product_of(p), Operand::C));

  if (max_candidates <= 0) return;
  found_ = std::make_unique<cublasLtMatmulHeuristicResult_t[]>(max_candidates);
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(blas.lt(), desc, a_.get(), b_.get(), c_.get(), d_.get(),
                                     preference, max_candidates, found_.get(), &count_);
  // "Not supported" means that there is no candidate, which is no failure.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED)
    count_ = 0;
  else
    check_cublas<BaselineError>(status, "cublasLtMatmulAlgoGetHeuristic");
}

// As the libraries see them: A and B are swapped.
void LtGemm::set_block_scales(const void* a, const void* b) const {
  GEMM_BASELINE(cublasLtMatmulDescSetAttribute(operation_.get(),
                                               CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &a, sizeof a));
  GEMM_BASELINE(cublasLtMatmulDescSetAttribute(operation_.get(),
                                               CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &b, sizeof b));
}

void LtGemm::run(int candidate, const GemmCall& c) const {
  const cublasLtMatmulHeuristicResult_t& choice = found_[candidate];
  check_cublas<BaselineError>(choice.state, "cublasLtMatmulAlgoGetHeuristic");
  const GemmCall product = has_epilogue_ ? c : library_part_of(blas_, dtype_, c);
  const FusedEpilogue e = product.epilogue;
  if (has_epilogue_ && e.bias != nullptr)
    GEMM_BASELINE(cublasLtMatmulDescSetAttribute(
        operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &e.bias, sizeof e.bias));
  if (info(dtype_).has_block_scales()) set_block_scales(c.scales.b, c.scales.a);
  check_cublas<BaselineError>(
      cublasLtMatmul(blas_.lt(), operation_.get(), &e.alpha, c.B, a_.get(), c.A, b_.get(), &e.beta,
                     e.c == nullptr ? product.C : e.c, c_.get(), product.C, d_.get(), &choice.algo,
                     blas_.workspace(), blas_.workspace_bytes(), blas_.stream()),
      "cublasLtMatmul");
  if (!has_epilogue_) apply_epilogue(blas_, dtype_, rest_of(c));
}

template <class F>
void LoopOfGroups::for_each(const GemmCall& call, F&& f) const {
  for (int group = 0; group < groups_.count; ++group)
    if (groups_.ends[group] > groups_.first(group))
      f(group_of(call, dtype_, group, groups_.first(group), groups_.ends[group]));
}

LoopOfGroups::LoopOfGroups(const Blas& blas, const Problem& p, int max_candidates,
                           const GemmCall& call,
                           const std::function<double(const std::function<void()>&)>& seconds)
    : blas_(blas), dtype_(p.dtype), groups_(p.groups) {
  for_each(call, [&](const GemmCall& group) {
    Choice& choice = by_rows_[group.M];
    if (choice.lt != nullptr) return;
    Problem one = p;
    one.M = group.M;
    choice.lt = std::make_unique<LtGemm>(blas, one, max_candidates);
    double least = INFINITY;
    for (int i = 0; i < choice.lt->candidates(); ++i) try {
        const double taken = seconds([&] { choice.lt->run(i, group); });
        ++tried_;
        if (taken < least) least = taken, choice.candidate = i;
      } catch (const BaselineError&) {  // a candidate that does not take this call is none
      }
    complete_ = complete_ && choice.candidate >= 0;
  });
}

void LoopOfGroups::run_cublas(const GemmCall& call) const {
  for_each(call, [&](const GemmCall& group) {
    cublas_gemm(blas_, dtype_, library_part_of(blas_, dtype_, group));
    apply_epilogue(blas_, dtype_, rest_of(group));
  });
}

void LoopOfGroups::run_lt(const GemmCall& call) const {
  for_each(call, [&](const GemmCall& group) {
    const Choice& choice = by_rows_.at(group.M);
    choice.lt->run(choice.candidate, group);
  });
}

}  // namespace gemm
