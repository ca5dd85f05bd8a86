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
          int WN, class Known_ = AnyCall>
struct FfmaLoop {
  static_assert(std::is_same_v<T, float>);
  static constexpr int BM = BM_, BN = BN_, BK = BK_, THREADS = (BM / WM) * (BN / WN) * 32;
  static constexpr int CTAS = 2;  // an SM
  static constexpr bool ANY = ACCESS_A == Access::any;
  using Known = Known_;
  using ViewA = Operand<typename Known::template A<const T>, BM, BK>;
  using ViewB = Operand<typename Known::template B<const T>, BK, BN>;
  using ViewC = View<T, BM, BN, ANY ? Vectors::no : Vectors::yes, typename Known::template C<T>>;
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
  // through registers, transposed, in PARTS of a k-tile one after another: a part fills the
  // registers that the one before has left.
  template <int X, Access ACCESS>
  struct Copy {
    static constexpr bool THROUGH_REGISTERS = ACCESS != Access::mn_major;
    static constexpr int PARTS = THROUGH_REGISTERS ? X * BK / 4 / THREADS : 1;
    static constexpr int PART_K = BK / PARTS, K_GROUPS = PART_K / 4;  // groups of four of k
    static_assert(!THROUGH_REGISTERS || (PARTS * THREADS * 4 == X * BK && X * K_GROUPS == THREADS));
    const T* from;  // this thread's first element of the k-tile
    int64_t k_stride;
    int left;  // of k, from there on; 0 in rows outside of the matrix
    Vec<float> part;

    template <class Op>
    GEMM_DEVICE void begin(T (&s)[BK][X + PAD], const Op& op, int x, int k) {
      const int tid = threadIdx.x;
      if constexpr (!THROUGH_REGISTERS) {
        copy_tile_async<true, THREADS, BK, X>(s, op.template at<ACCESS>(x, k), op.col_stride,
                                              op.cols - k, op.template rows_from<X>(x), tid);
      } else {
        const int row = x + tid / K_GROUPS, col = tid % K_GROUPS * 4;
        k_stride = ACCESS == Access::k_major ? 1 : op.col_stride;
        from = computed_here(op.template at<ACCESS>(row, col)) + uint32_t(k) * k_stride;
        left = op.template has_row<X>(row) ? op.cols - k - col : 0;
        fetch(0);
      }
    }
    GEMM_DEVICE void fetch(int p) {
      if constexpr (!THROUGH_REGISTERS) return;
      part = {};
      if constexpr (ACCESS == Access::k_major) {
        if (p * PART_K < left) part = load_vec(from + p * PART_K);
      } else {
        const T* at = from + p * PART_K * k_stride;
#pragma unroll
        for (int e = 0; e < 4; ++e, at += k_stride)
          if (p * PART_K + e < left) part.set(e, *at);
      }
    }
    GEMM_DEVICE void commit(T (&s)[BK][X + PAD], int p) const {
      if constexpr (!THROUGH_REGISTERS) return;
      const int row = threadIdx.x / K_GROUPS, col = threadIdx.x % K_GROUPS * 4;
#pragma unroll
      for (int e = 0; e < 4; ++e) s[col + p * PART_K + e][row] = part[e];
    }
    // Goes on with the next part, if one begins at step k of a k-tile's multiplication.
    GEMM_DEVICE void step(T (&s)[BK][X + PAD], int k) {
      if (k == 0 || k % PART_K != 0) return;
      commit(s, k / PART_K - 1);
      if (k < BK) fetch(k / PART_K);
    }
  };

  // One k-tile, loaded; what goes through registers arrives by step(1) .. step(BK).
  struct Load {
    Stage* s = nullptr;
    Copy<BM, ACCESS_A> copy_a;
    Copy<BN, ACCESS_B> copy_b;
    template <class VA, class VB>
    GEMM_DEVICE void dot(const VA& a, const VB& b) {
      copy_a.begin(s->A, *a.view, a.i * BM, a.j * BK);
      copy_b.begin(s->B, *b.view, b.j * BN, b.i * BK);
      cp_async_commit();
    }
    GEMM_DEVICE void step(int k) {
      copy_a.step(s->A, k);
      copy_b.step(s->B, k);
    }
  };
  // One k-tile, multiplied, while `ahead` loads another.
  struct Multiply {
    const Stage& s;
    Sum& sum;
    Load& ahead;
    template <class VA, class VB>
    GEMM_DEVICE void dot(const VA&, const VB&) const {
      const int tm = Layout::first_row(), tn = Layout::first_col();
#pragma unroll
      for (int k = 0; k < BK; ++k) {
        ahead.step(k);
        float a[TM], b[TN];
        load_fragment(a, &s.A[k][tm], 4 * 4);
        load_fragment(b, &s.B[k][tn], 8 * 4);
#pragma unroll
        for (int j = 0; j < TN; ++j)
#pragma unroll
          for (int i = 0; i < TM; ++i) sum.x[i][j] += a[i] * b[j];
      }
      ahead.step(BK);
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
#pragma unroll
      for (int step = 1; step <= BK; ++step) load.step(step);
    }
    int read = 0, write = STAGES - 1;  // stages
    for (int k = 0; k < k_tiles; ++k) {
      cp_async_wait<STAGES - 2>();
      __syncthreads();  // after it this k-tile is there, and nobody reads the one before any more
      load.s = &stages[write];
      body(load, k + STAGES - 1);
      Multiply multiply{stages[read], sum, load};
      body(multiply, k);
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
  template <class T, Access A, Access B, class Known = AnyCall>
  struct Make {
    using Loop = FfmaLoop<T, A, B, BM, BN, BK, STAGES, WM, WN, Known>;
  };
  // The loop for matrices of any strides: for kernels that are no templates.
  template <class T>
  using Any = typename Make<T, Access::any, Access::any>::Loop;

  template <class Known = AnyCall, class T, class KernelOf, class... More>
  static void launch(const Problem<T>& p, int group_m, Stream stream, KernelOf&& kernel_of,
                     const More&... more) {
    launch_cp_async<Make, Known>(p, group_m, stream, kernel_of, more...);
  }
  template <class Known = AnyCall, class T, class KernelOf, class... More>
  static void launch(const GemmArgs<T>& p, int group_m, int, Stream stream, KernelOf&& kernel_of,
                     const More&... more) {
    launch<Known>(problem(p), group_m, stream, kernel_of, more...);
  }
};

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
