// The main loop of FP32 multiply-adds: cp.async stages, thread tiles. Taught in v12.
#pragma once

#include "device/ptx/cp_async.cuh"
#include "tile/cp_async_loop.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

// BM x BN sums of a CTA: WM x WN a warp, in 4 x 8 lanes, each with groups of four rows and columns.
// Lanes l and l ^ 1 read the same words of A, l and l ^ 2 the same words of B.
template <int BN, int WM, int WN>
struct FfmaLayout {
  static constexpr int TM = WM / 4, TN = WN / 8, SIZE = TM * TN, VEC = 4;
  static GEMM_DEVICE int first_row() {
    return threadIdx.x / 32 / (BN / WN) * WM + (threadIdx.x >> 1 & 3) * VEC;
  }
  static GEMM_DEVICE int first_col() {
    const int lane = threadIdx.x % 32;
    return threadIdx.x / 32 % (BN / WN) * WN + ((lane & 1) | lane >> 3 << 1) * VEC;
  }
  static GEMM_DEVICE constexpr int row(int e) { return tile_row<VEC, 4>(0, e / TN); }
  static GEMM_DEVICE constexpr int col(int e) { return tile_row<VEC, 8>(0, e % TN); }
};

template <class T, Access ACCESS_A, Access ACCESS_B, int BM_, int BN_, int BK_, int STAGES, int WM,
          int WN>
struct FfmaLoop {
  static_assert(std::is_same_v<T, float>);
  static constexpr int BM = BM_, BN = BN_, BK = BK_, THREADS = (BM / WM) * (BN / WN) * 32;
  static constexpr int CTAS = 2;  // an SM
  static constexpr bool ANY = ACCESS_A == Access::any;
  using ViewA = Operand<T, BM, BK>;
  using ViewB = Operand<T, BK, BN>;
  using ViewC = View<T, BM, BN, ANY ? Vectors::no : Vectors::yes>;
  using Layout = FfmaLayout<BN, WM, WN>;
  static constexpr int TM = Layout::TM, TN = Layout::TN, PART = TN, PAD = 4;

  struct Stage {
    T A[BK][BM + PAD], B[BK][BN + PAD];
  };
  static constexpr size_t SMEM = STAGES * sizeof(Stage);
  struct Sum : Stored {
    using Value = float;
    float x[TM][TN] = {};
    template <class Part>
    GEMM_DEVICE void get(const Part&, float (&y)[Part::COUNT]) const {
#pragma unroll
      for (int e = 0; e < Part::COUNT; ++e)
        y[e] = x[(Part::FIRST + e) / TN][(Part::FIRST + e) % TN];
    }
  };

  // An operand's way to shared memory, (BK, X): by cp.async where its rows run along m or n, else
  // through registers, transposed, in groups of four of k.
  template <int X, Access ACCESS>
  struct Copy {
    static constexpr int COUNT = X * BK / 4 / THREADS, HALF = BK / COUNT, K_GROUPS = HALF / 4;
    static_assert(COUNT * THREADS * 4 == X * BK && X * K_GROUPS == THREADS);
    Vec<float> next[COUNT];

    template <class Op>
    GEMM_DEVICE void load(T (&s)[BK][X + PAD], const Op& op, int x, int k) {
      const int tid = threadIdx.x;
      const float* g = op.template at<ACCESS>(x, k);
      if constexpr (ACCESS == Access::mn_major) {
        copy_tile_async<true, THREADS, BK, X>(s, g, op.k_stride, op.k - k, op.mn - x, tid);
      } else {
        const int row = tid / K_GROUPS, col = tid % K_GROUPS * 4;
#pragma unroll
        for (int c = 0; c < COUNT; ++c) {
          const int at = col + c * HALF;
          if constexpr (ACCESS == Access::k_major) {
            next[c] = load_group<true>(g, op.mn_stride, row, at, op.mn - x, op.k - k);
          } else {
            next[c] = {};
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if (row < op.mn - x && at + e < op.k - k)
                next[c].set(e, g[row * op.mn_stride + (at + e) * op.k_stride]);
          }
        }
      }
    }
    GEMM_DEVICE void commit(T (&s)[BK][X + PAD]) const {
      if constexpr (ACCESS == Access::mn_major) return;
      const int row = threadIdx.x / K_GROUPS, col = threadIdx.x % K_GROUPS * 4;
#pragma unroll
      for (int c = 0; c < COUNT; ++c)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[col + c * HALF + e][row] = next[c][e];
    }
  };

  // One k-tile, loaded; what goes through registers arrives with commit().
  struct Load {
    Stage* s = nullptr;
    Copy<BM, ACCESS_A> copy_a;
    Copy<BN, ACCESS_B> copy_b;
    template <class VA, class VB>
    GEMM_DEVICE void dot(const VA& a, const VB& b) {
      // What goes through registers first: in the other order ptxas spills 68 bytes.
      if constexpr (ACCESS_A != Access::mn_major) copy_a.load(s->A, *a.view, a.i * BM, a.j * BK);
      copy_b.load(s->B, *b.view, b.j * BN, b.i * BK);
      if constexpr (ACCESS_A == Access::mn_major) copy_a.load(s->A, *a.view, a.i * BM, a.j * BK);
      cp_async_commit();
    }
    GEMM_DEVICE void commit() const {
      copy_a.commit(s->A);
      copy_b.commit(s->B);
    }
  };
  // One k-tile, multiplied.
  struct Multiply {
    const Stage& s;
    Sum& sum;
    template <class VA, class VB>
    GEMM_DEVICE void dot(const VA&, const VB&) const {
      const int tm = Layout::first_row(), tn = Layout::first_col();
#pragma unroll
      for (int k = 0; k < BK; ++k) {
        float a[TM], b[TN];
        load_fragment(a, &s.A[k][tm], 4 * 4);
        load_fragment(b, &s.B[k][tn], 8 * 4);
#pragma unroll
        for (int j = 0; j < TN; ++j)
#pragma unroll
          for (int i = 0; i < TM; ++i) sum.x[i][j] += a[i] * b[j];
      }
    }
  };

  template <class Body>
  static GEMM_DEVICE void pipeline(int k_tiles, Sum& sum, Body&& body) {
    auto* const stages = static_cast<Stage*>(dynamic_shared());
    Load load;
#pragma unroll
    for (int k = 0; k < STAGES - 1; ++k) {
      load.s = &stages[k];
      body(load, k);
      load.commit();
    }
    int read = 0, write = STAGES - 1;  // stages
    for (int k = 0; k < k_tiles; ++k) {
      cp_async_wait<STAGES - 2>();
      __syncthreads();  // both: this k-tile is there, and the one before has been read
      load.s = &stages[write];
      body(load, k + STAGES - 1);
      Multiply multiply{stages[read], sum};
      body(multiply, k);
      load.commit();
      read = (read + 1) % STAGES;
      write = (write + 1) % STAGES;
    }
    cp_async_wait<0>();  // of copies past the end, before shared memory is used anew
    __syncthreads();
  }

  template <class Program>
  static GEMM_DEVICE void run(Program&& program) {
    Cta<FfmaLoop> cta;
    program(cta);
  }
};

// Tile sizes of the loop above, and its launch.
template <int BM, int BN, int BK, int STAGES, int WM = 32, int WN = 64>
struct Ffma {
  template <class T, Access A, Access B>
  struct Make {
    using Loop = FfmaLoop<T, A, B, BM, BN, BK, STAGES, WM, WN>;
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
