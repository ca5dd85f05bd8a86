// What the main loops on cp.async share: operands in memory, a CTA, and the launch.
#pragma once

#include "device/dynamic_shared.cuh"
#include "device/fragments.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/tile_copy_async.cuh"
#include "device/with_constant.h"
#include "tile/gemm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

// A pointer to global memory that the compiler does not take apart. A sum that a loop does not
// change is computed before it, and not mixed with the parts that change.
template <class T>
GEMM_DEVICE const T* computed_here(const T* p) {
#if GEMM_ON_GPU
  size_t address = __cvta_generic_to_global(p);
  asm("" : "+l"(address));
  p = static_cast<const T*>(__cvta_global_to_generic(address));  // without it: generic loads
#endif
  return p;
}

// An index that is not kept in registers: what is made of it is computed anew where it is used.
GEMM_DEVICE int computed_anew(int index) {
#if GEMM_ON_GPU
  asm volatile("" : "+r"(index));
#endif
  return index;
}

// How an operand's elements lie: in whole aligned groups of 16 bytes along k or along m or n, which
// cp.async copies; or anyhow.
enum class Access { k_major, mn_major, any };

// An operand in tiles. In: its matrix as op(A), (m, k), or as op(B)^T, (n, k): rows run along k.
template <class In, int ROWS_, int COLS_>
struct Operand : In {
  using Value = float;
  static constexpr int ROWS = ROWS_, COLS = COLS_;  // of a tile

  // Where an element lies. Of a stride that is known to be 1 there is nothing to multiply.
  template <Access ACCESS>
  GEMM_DEVICE auto* at(int mn, int k) const {
    if constexpr (ACCESS == Access::k_major)
      return this->data + mn * this->row_stride + k;
    else if constexpr (ACCESS == Access::mn_major)
      return this->data + k * this->col_stride + mn;
    else
      return this->data + mn * this->row_stride + k * this->col_stride;
  }
};
template <class T>
Access access_of(const Matrix<const T>& op) {
  return op.has_vectors()                ? Access::k_major
         : op.transposed().has_vectors() ? Access::mn_major
                                         : Access::any;
}

// The numbers of a problem for a loop.
template <class Loop, class T>
Call call_of(const Problem<T>& p, int group_m) {
  const int K = p.A.cols;
  return {.M = p.C.rows,
          .N = p.C.cols,
          .K = K,
          .a = {p.A.row_stride, p.A.col_stride},
          .b = {p.B.col_stride, p.B.row_stride},
          .c = {p.C.row_stride, p.C.col_stride},
          .c_vectors = !Loop::ANY,
          .k_tiles = cdiv(K, Loop::BK),
          .group_m = group_m,
          .epilogue = p.epilogue};
}

// Launches a kernel of one loop, whose operands must lie as it wants them.
template <class Loop, class T, class Kernel, class... More>
void launch(const Problem<T>& p, int group_m, Stream stream, Kernel* kernel, const More&... more) {
  const Call c = call_of<Loop>(p, group_m);
  using Known = typename Loop::Known;
  const Gemm<Loop> views{{{Known::template A<const T>::of(p.A.data, c.M, c.K, c.a)},
                          {Known::template B<const T>::of(p.B.data, c.N, c.K, c.b)},
                          {Known::template C<Output<T>>::of(p.C.data, c.M, c.N, c.c), true}},
                         Known::numbers(c)};
  gemm::launch(kernel, int64_t{cdiv(c.M, Loop::BM)} * cdiv(c.N, Loop::BN), dim3(Loop::THREADS),
               {.smem = Loop::SMEM}, stream, views, more...);
}

// Launches by how the operands lie: Make<T, A, B, Known>::Loop is the loop, kernel_for its kernel.
template <template <class, Access, Access, class> class Make, class Known, class T, class KernelOf,
          class... More>
void launch_cp_async(Problem<T> p, int group_m, Stream stream, KernelOf&& kernel_of,
                     const More&... more) {
  if (p.C.col_stride != 1 && p.C.row_stride == 1) {  // C^T = B^T A^T, row-major
    const Matrix<const T> a = p.A;
    p = {p.B.transposed(), a.transposed(), p.C.transposed(), p.epilogue};
  }
  const auto with = [&](auto a, auto b) {
    using Loop = typename Make<T, a(), b(), Known>::Loop;
    const auto kernel = kernel_for<Loop>(kernel_of, call_of<Loop>(p, group_m));
    tile::launch<Loop>(p, group_m, stream, kernel, more...);
  };
  constexpr std::integral_constant<Access, Access::k_major> k_major;
  constexpr std::integral_constant<Access, Access::any> any;
  const Access a = access_of(p.A), b = access_of(p.B.transposed());
  if constexpr (sizeof(T) == 1) {  // ldmatrix cannot transpose bytes
    const bool along_k = a == Access::k_major && b == Access::k_major && p.C.has_vectors();
    return along_k ? with(k_major, k_major) : with(any, any);
  } else {
    constexpr std::integral_constant<Access, Access::mn_major> mn_major;
    if (a == Access::any || b == Access::any || !p.C.has_vectors())
      with(any, any);
    else if constexpr (IS_SAMPLE)
      with(k_major, mn_major);
    else if (a == Access::k_major)
      b == Access::k_major ? with(k_major, k_major) : with(k_major, mn_major);
    else
      b == Access::k_major ? with(mn_major, k_major) : with(mn_major, mn_major);
  }
}

// A CTA of such a loop. Loop has Sum and multiply().
template <class Loop>
struct Cta {
  struct Ready {
    static GEMM_DEVICE void at(int, int) {}
  };
  GEMM_DEVICE TileRange<Ready> tiles(const typename Loop::ViewC& c, int group_m) const {
    return {int(blockIdx.x), int(gridDim.x), cdiv(c.rows, Loop::BM), cdiv(c.cols, Loop::BN),
            group_m};
  }
  GEMM_DEVICE typename Loop::Sum zeros() const { return {}; }
  // The body is compiled twice: it loads k-tile k + STAGES - 1, and multiplies k-tile k.
  template <class Body>
  GEMM_DEVICE void pipeline(int k_tiles, typename Loop::Sum& sum, Body&& body) const {
    Loop::pipeline(k_tiles, sum, body);
  }
  template <class E>
  GEMM_DEVICE void store(const typename Loop::ViewC& c, Place place, const E& e) const {
    store(c, place.row / Loop::BM, place.col / Loop::BN, e);
  }
  template <class E>
  GEMM_DEVICE void store(const typename Loop::ViewC& c, int i, int j, const E& e) const {
    tile::store<typename Loop::Layout, Loop::PART>(c, i, j, e);
  }
};

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
