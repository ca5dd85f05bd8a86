// cuBLAS and cuBLASLt for the harness: the handle with its workspace, and the two baselines of a
// problem. All matrices are row-major; see blas.cu for how the column-major libraries see them.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include <functional>
#include <map>
#include <memory>
#include <type_traits>

#include "harness/problem.h"

namespace gemm {

// Owns a library's object. A failing destructor is ignored: it can only repeat an earlier kernel's
// failure.
template <auto Destroy>
struct Destroyer {
  template <class T>
  void operator()(T* p) const {
    Destroy(p);
  }
};
template <class Handle, auto Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Destroy>>;

// The baselines' cuBLAS handle, with a workspace of its own, on one stream.
class Blas {
 public:
  // Throws BaselineError, as all below, std::bad_alloc or DeviceFault.
  Blas(cudaStream_t stream, size_t workspace_bytes);

  cudaStream_t stream() const { return stream_; }
  cublasHandle_t handle() const { return handle_.get(); }
  // "Any valid cublasHandle_t can be used in place of cublasLtHandle_t with a simple cast."
  cublasLtHandle_t lt() const { return reinterpret_cast<cublasLtHandle_t>(handle_.get()); }
  void* workspace() const { return workspace_.get(); }
  size_t workspace_bytes() const { return workspace_bytes_; }
  // Memory for a gated call's products, of this many bytes or more; the same at the next call.
  void* products(size_t bytes) const;

 private:
  Owned<void*, cudaFree> workspace_;
  mutable Owned<void*, cudaFree> products_;
  mutable size_t products_bytes_ = 0;
  Owned<cublasHandle_t, cublasDestroy> handle_;
  size_t workspace_bytes_;
  cudaStream_t stream_ = nullptr;
};

// What a library computes of a call whose epilogue it has not: alpha and, where C is D, beta. Of a gated
// call all columns, to Blas::products without gaps.
GemmCall library_part_of(const Blas& blas, DType dtype, const GemmCall& call);
// What is left to do then, on the product in D or there.
GemmCall rest_of(const GemmCall& call);
// Queues that as one elementwise kernel; nothing where nothing is left.
void apply_epilogue(const Blas& blas, DType dtype, const GemmCall& rest);

// Queues the call with cuBLAS's own choice of kernel (cublasGemmEx_64). Throws BaselineError when
// cuBLAS refuses it.
void cublas_gemm(const Blas& blas, DType dtype, const GemmCall& call);

// A problem as cuBLASLt sees it, with the candidates that its heuristic proposes, best first.
// Throws BaselineError when the library refuses.
class LtGemm {
 public:
  LtGemm(const Blas& blas, const Problem& p, int max_candidates);

  int candidates() const { return count_; }
  // Whether the library has the problem's whole epilogue; else an elementwise kernel does the rest.
  bool has_epilogue() const { return has_epilogue_; }
  // Queues the call; not every candidate accepts every call.
  void run(int candidate, const GemmCall& call) const;

 private:
  using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  void set_block_scales(const void* a, const void* b) const;

  const Blas& blas_;
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation_;
  Layout a_, b_, c_, d_;  // as cuBLASLt names them: its A is our B
  DType dtype_;
  bool has_epilogue_;
  // No std::vector: nvcc 13.0 breaks off with an internal error on one of this unnamed C struct.
  std::unique_ptr<cublasLtMatmulHeuristicResult_t[]> found_;
  int count_ = 0;
};

// Groups as a program without a grouped kernel computes them: a call of the library for each, cuBLAS's
// own choice or the fastest of cuBLASLt's candidates for that many rows.
class LoopOfGroups {
 public:
  // `seconds`: times what it is given, a function that queues one launch. `call`: to try on.
  LoopOfGroups(const Blas& blas, const Problem& p, int max_candidates, const GemmCall& call,
               const std::function<double(const std::function<void()>&)>& seconds);

  // Whether cuBLASLt has a candidate for every group.
  bool complete() const { return complete_; }
  int tried() const { return tried_; }
  // Queue a call each group.
  void run_cublas(const GemmCall& call) const;
  void run_lt(const GemmCall& call) const;

 private:
  struct Choice {
    std::unique_ptr<LtGemm> lt;
    int candidate = -1;
  };

  template <class F>
  void for_each(const GemmCall& call, F&& f) const;

  const Blas& blas_;
  const DType dtype_;
  const Groups groups_;
  std::map<int, Choice> by_rows_;
  bool complete_ = true;
  int tried_ = 0;
};

}  // namespace gemm
