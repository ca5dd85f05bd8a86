// The main loop of Ampere's tensor cores: cp.async stages, ldmatrix, mma.sync. Taught in v17.
#pragma once

#include "device/mma.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "tile/cp_async_loop.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

// BM x BN accumulators of a CTA's warps, WM x WN each, as mma.sync leaves them.
template <int BN, int WM, int WN>
struct MmaLayout {
  static constexpr int ROW = WN / 8 * 4, SIZE = WM / 16 * ROW, VEC = 2;
  static GEMM_DEVICE int first_row() {
    return threadIdx.x / 32 / (BN / WN) * WM + threadIdx.x % 32 / 4;
  }
  static GEMM_DEVICE int first_col() {
    return threadIdx.x / 32 % (BN / WN) * WN + threadIdx.x % 4 * 2;
  }
  static GEMM_DEVICE constexpr int row(int e) { return e / ROW * 16 + e / 2 % 2 * 8; }
  static GEMM_DEVICE constexpr int col(int e) { return e % ROW / 4 * 8 + e % 2; }
};

template <class T, Access ACCESS_A, Access ACCESS_B, int BM_, int BN_, int BK_, int STAGES, int WM,
          int WN>
struct MmaLoop {
  static constexpr bool INT8 = std::is_same_v<T, int8_t>;
  static_assert(sizeof(T) == 2 || INT8, "tensor cores take half, bf16 and int8");
  static constexpr int BM = BM_, BN = BN_, BK = BK_, CHUNK = 16 / sizeof(T), MMA_K = 2 * CHUNK;
  static constexpr int THREADS = (BM / WM) * (BN / WN) * 32, CTAS = 1;
  static_assert(BK / MMA_K % 2 == 0, "fragments alternate between two buffers");
  // Elements that lie anyhow are copied one by one, to where the kernel of A and B as stored wants
  // them. Bytes lie along k: ldmatrix transposes pairs of them.
  static constexpr bool ANY = ACCESS_A == Access::any;
  static constexpr bool A_ALONG_M = ACCESS_A == Access::mn_major;
  static constexpr bool B_ALONG_K = ACCESS_B == Access::k_major || INT8;
  using ViewA = Operand<T, BM, BK>;
  using ViewB = Operand<T, BK, BN>;
  using ViewC = View<Output<T>, BM, BN, ANY ? Vectors::no : Vectors::yes>;
  using Layout = MmaLayout<BN, WM, WN>;
  static constexpr int PART = Layout::ROW;

  struct Stage {
    T A[A_ALONG_M ? BK : BM][A_ALONG_M ? BM : BK];
    T B[B_ALONG_K ? BN : BK][B_ALONG_K ? BK : BN];
  };
  static constexpr size_t SMEM = STAGES * sizeof(Stage);
  struct Sum : Stored {
    using Value = std::conditional_t<INT8, int, float>;
    Value x[WM / 16][WN / 8][4] = {};
    template <class Part>
    GEMM_DEVICE void get(const Part&, Value (&y)[Part::COUNT]) const {
#pragma unroll
      for (int e = 0; e < Part::COUNT; ++e) {
        constexpr int ROW = Layout::ROW;
        y[e] = x[(Part::FIRST + e) / ROW][(Part::FIRST + e) % ROW / 4][e % 4];
      }
    }
  };

  // The tile of s whose rows and columns have these strides in memory; `rows` and `cols` are left.
  template <int ROWS, int COLS>
  static GEMM_DEVICE void copy(T (&s)[ROWS][COLS], const T* g, int64_t row_stride,
                               int64_t col_stride, int rows, int cols) {
    const int tid = threadIdx.x;
    if constexpr (ANY) {
      constexpr int VEC = Vec<T>::SIZE, STEP = THREADS / (COLS / VEC);
      const int row = tid / (COLS / VEC), col = tid % (COLS / VEC) * VEC;
#pragma unroll 1
      for (int r = row; r < ROWS; r += STEP) {
        Vec<T> v = {};
#pragma unroll
        for (int e = 0; e < VEC; ++e)
          if (r < rows && col + e < cols) v.set(e, g[r * row_stride + (col + e) * col_stride]);
        store_vec(swizzled(s, r, col), v);
      }
    } else {
      copy_tile_swizzled_async<true, THREADS>(s, g, row_stride, rows, cols, tid);
    }
  }

  struct Fragments {
    uint32_t a[2][WM / 16][4], b[2][WN / 16][2][2];
    GEMM_DEVICE void load(Stage& s, int k) {
      const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
      const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
      auto& to_a = a[k / MMA_K % 2];
      auto& to_b = b[k / MMA_K % 2];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
        if constexpr (A_ALONG_M)
          ldmatrix_x4_trans(
              to_a[i], swizzled(s.A, k + lane / 16 * 8 + lane % 8, wm + i * 16 + lane / 8 % 2 * 8));
        else
          load_a(to_a[i], s.A, wm + i * 16, k);
#pragma unroll
      for (int j = 0; j < WN / 16; ++j)
        if constexpr (B_ALONG_K) {
          uint32_t r[4];
          ldmatrix_x4(
              r, swizzled(s.B, wn + j * 16 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * CHUNK));
          to_b[j][0][0] = r[0];
          to_b[j][0][1] = r[1];
          to_b[j][1][0] = r[2];
          to_b[j][1][1] = r[3];
        } else {
          load_b(to_b[j], s.B, k, wn + j * 16);
        }
    }
  };

  // One k-tile, loaded: one group of copies; past the end of K zeros, so that every wait counts
  // alike.
  struct Load {
    Stage& s;
    template <class VA, class VB>
    GEMM_DEVICE void dot(const VA& a, const VB& b) const {
      const ViewA& A_ = *a.view;
      const ViewB& B_ = *b.view;
      const int m = a.i * BM, k = a.j * BK, n = b.j * BN;
      const T* gA = A_.template at<ACCESS_A>(m, k);
      const T* gB = B_.template at<ACCESS_B>(n, k);
      if constexpr (A_ALONG_M)
        copy(s.A, gA, A_.k_stride, A_.mn_stride, A_.k - k, A_.mn - m);
      else
        copy(s.A, gA, A_.mn_stride, A_.k_stride, A_.mn - m, A_.k - k);
      if constexpr (B_ALONG_K)
        copy(s.B, gB, B_.mn_stride, B_.k_stride, B_.mn - n, B_.k - k);
      else
        copy(s.B, gB, B_.k_stride, B_.mn_stride, B_.k - k, B_.mn - n);
      cp_async_commit();
    }
  };
  // One k-tile, multiplied. The next one's first fragments are loaded at its end; load_ahead()
  // begins a copy over the k-tile before.
  template <class LoadAhead>
  struct Multiply {
    Stage &s, &next;
    Fragments& r;
    Sum& sum;
    LoadAhead& load_ahead;
    template <class VA, class VB>
    GEMM_DEVICE void dot(const VA&, const VB&) const {
#pragma unroll
      for (int k = 0; k < BK; k += MMA_K) {
        if (k + MMA_K < BK) {
          r.load(s, k + MMA_K);
        } else {
          cp_async_wait<STAGES - 2>();
          __syncthreads();  // both: the next k-tile is there, and this one has been read
          r.load(next, 0);
        }
        if (k == 0) load_ahead();
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
#pragma unroll
          for (int j = 0; j < WN / 8; ++j)
            mma<T>(sum.x[i][j], r.a[k / MMA_K % 2][i], r.b[k / MMA_K % 2][j / 2][j % 2]);
      }
    }
  };

  template <class Body>
  static GEMM_DEVICE void pipeline(int k_tiles, Sum& sum, Body&& body) {
    auto* const stages = static_cast<Stage*>(dynamic_shared());
    const auto load = [&](int k) {
      Load step{stages[k % STAGES]};
      body(step, k);
    };
#pragma unroll
    for (int k = 0; k < STAGES - 1; ++k) load(k);
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    Fragments r;
    r.load(stages[0], 0);
    for (int k = 0; k < k_tiles; ++k) {
      const auto load_ahead = [&] { load(k + STAGES - 1); };
      Multiply<decltype(load_ahead)> step{stages[k % STAGES], stages[(k + 1) % STAGES], r, sum,
                                          load_ahead};
      body(step, k);
    }
    cp_async_wait<0>();  // of copies past the end, before shared memory is used anew
    __syncthreads();
  }

  template <class Program>
  static GEMM_DEVICE void run(Program&& program) {
    Cta<MmaLoop> cta;
    program(cta);
  }
};

// Tile sizes of the loop above, and its launch.
template <int BM, int BN, int BK, int STAGES, int WM = 64, int WN = 64>
struct MmaSync {
  template <class T, Access A, Access B>
  struct Make {
    using Loop = MmaLoop<T, A, B, BM, BN, BK, STAGES, WM, WN>;
  };
  // The loop for matrices of any strides: for kernels that are no templates.
  template <class T>
  using Any = typename Make<T, Access::any, Access::any>::Loop;

  template <class T, class KernelOf, class... More>
  static void launch(const Problem<T>& p, int group_m, Stream stream, KernelOf&& kernel_of,
                     const More&... more) {
    launch_cp_async<Make>(p, group_m, stream, kernel_of, more...);
  }
  template <class T, class KernelOf, class... More>
  static void launch(const GemmArgs<T>& p, int group_m, int, Stream stream, KernelOf&& kernel_of,
                     const More&... more) {
    launch(problem(p), group_m, stream, kernel_of, more...);
  }
};

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
