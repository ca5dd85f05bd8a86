// The main loop of Ampere's tensor cores: cp.async stages, ldmatrix, mma.sync. Taught in v17.
#pragma once

#include <bit>

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

// A thread's element of a swizzled tile, (ROWS, COLS), as an offset in bytes; others lie at constant
// distances from it. With an offset for each, ptxas ran out of registers, and computed them anew for
// every ldmatrix.
template <class T, int ROWS, int COLS>
class SwizzledElement {
 public:
  static constexpr int WIDTH = COLS * sizeof(T) < 128 ? COLS : 128 / sizeof(T);  // of a panel
  static constexpr int ROW_BYTES = WIDTH * sizeof(T);
  // Whether the swizzle is that of the row itself, `rows` further on.
  static GEMM_DEVICE constexpr bool repeats(int rows) { return rows % 8 == 0; }

  GEMM_DEVICE SwizzledElement(int row, int col)
      : first_(col / WIDTH * (ROWS * ROW_BYTES) + row * ROW_BYTES +
               swizzled_column(static_cast<Swizzle>(ROW_BYTES), row, col % WIDTH * sizeof(T))) {}
  // The element `rows` and `cols` further on: repeats(rows), and no bit of `cols` is one of the first
  // column's.
  GEMM_DEVICE T* at(T (&tile)[ROWS][COLS], int rows, int cols) const {
    const uint32_t in_row = first_ ^ cols % WIDTH * uint32_t(sizeof(T));
    return reinterpret_cast<T*>(reinterpret_cast<char*>(&tile) + in_row +
                                cols / WIDTH * (ROWS * ROW_BYTES) + rows * ROW_BYTES);
  }

 private:
  uint32_t first_;
};

template <class T, Access ACCESS_A, Access ACCESS_B, int BM_, int BN_, int BK_, int STAGES, int WM,
          int WN, class Known_ = AnyCall>
struct MmaLoop {
  static constexpr bool INT8 = std::is_same_v<T, int8_t>;
  static_assert(sizeof(T) == 2 || INT8, "tensor cores take half, bf16 and int8");
  static constexpr int BM = BM_, BN = BN_, BK = BK_, CHUNK = 16 / sizeof(T), MMA_K = 2 * CHUNK;
  static constexpr int THREADS = (BM / WM) * (BN / WN) * 32, CTAS = 1;
  static_assert(BK / MMA_K % 2 == 0, "fragments alternate between two buffers");
  static_assert(std::has_single_bit(unsigned(WM)) && std::has_single_bit(unsigned(WN)),
                "columns of fragments differ in bits that a warp's first column has not");
  // Elements that lie anyhow are copied one by one, to where the kernel of A and B as stored wants
  // them. Bytes lie along k: ldmatrix transposes pairs of them.
  static constexpr bool ANY = ACCESS_A == Access::any;
  static constexpr bool A_ALONG_M = ACCESS_A == Access::mn_major;
  static constexpr bool B_ALONG_K = ACCESS_B == Access::k_major || INT8;
  using Known = Known_;
  using ViewA = Operand<typename Known::template A<const T>, BM, BK>;
  using ViewB = Operand<typename Known::template B<const T>, BK, BN>;
  using ViewC = View<Output<T>, BM, BN, ANY ? Vectors::no : Vectors::yes,
                     typename Known::template C<Output<T>>>;
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

  // How a tile is copied, (ROWS, COLS): groups of 16 bytes, by all threads.
  template <int ROWS, int COLS>
  struct Copy {
    static constexpr int STEP = THREADS / (COLS / CHUNK);  // rows that are copied at once
    static_assert(ROWS % STEP == 0, "every thread copies the same number of groups");
    int row = threadIdx.x / (COLS / CHUNK), col = threadIdx.x % (COLS / CHUNK) * CHUNK;
    using Element = SwizzledElement<T, ROWS, COLS>;
    Element first = {row, col};

    GEMM_DEVICE T* to(T (&s)[ROWS][COLS], int r) const {
      if constexpr (Element::repeats(STEP))
        return first.at(s, r, 0);
      else
        return swizzled(s, row + r, col);
    }
    // The tile at g + forward, of which `rows` and `cols` are left. What a thread adds to g is the
    // same for all k-tiles: it is added first, and stays in registers.
    GEMM_DEVICE void operator()(T (&s)[ROWS][COLS], const T* g, int64_t forward, int64_t row_stride,
                                int64_t col_stride, int rows, int cols) const {
      if constexpr (ANY) {
        const int tid = computed_anew(threadIdx.x);  // no registers are left beside the sums
        const int m = tid / (COLS / CHUNK), n = tid % (COLS / CHUNK) * CHUNK;
#pragma unroll 1
        for (int r = m; r < m + ROWS; r += STEP) {
          Vec<T> v = {};
#pragma unroll
          for (int e = 0; e < CHUNK; ++e)
            if (r < rows && n + e < cols)
              v.set(e, g[forward + r * row_stride + (n + e) * col_stride]);
          store_vec(swizzled(s, r, n), v);
        }
      } else {
        // Else ptxas adds the parts that differ from k-tile to k-tile first.
        const T* from = computed_here(g + row * row_stride + col) + forward;
#pragma unroll
        for (int r = 0; r < ROWS; r += STEP, from += STEP * row_stride)
          cp_async_16(to(s, r), from, row + r < rows && col < cols ? 16 : 0);
      }
    }
  };

  struct Fragments {
    using RowA = SwizzledElement<T, A_ALONG_M ? BK : BM, A_ALONG_M ? BM : BK>;
    using RowB = SwizzledElement<T, B_ALONG_K ? BN : BK, B_ALONG_K ? BK : BN>;
    uint32_t a[2][WM / 16][4], b[2][WN / 16][2][2];
    // The rows of 8 x 8 matrices that a lane names to ldmatrix, of the warp's first fragments.
    static GEMM_DEVICE RowA first_of_a(int tid) {
      const int lane = tid % 32, wm = tid / 32 / (BN / WN) * WM;
      return A_ALONG_M ? RowA(lane / 16 * 8 + lane % 8, wm + lane / 8 % 2 * 8)
                       : RowA(wm + lane % 16, lane / 16 * CHUNK);
    }
    static GEMM_DEVICE RowB first_of_b(int tid) {
      const int lane = tid % 32, wn = tid / 32 % (BN / WN) * WN;
      return B_ALONG_K ? RowB(wn + lane / 16 * 8 + lane % 8, lane / 8 % 2 * CHUNK)
                       : RowB(lane % 16, wn + lane / 16 * 8);
    }
    RowA row_a = first_of_a(threadIdx.x);
    RowB row_b = first_of_b(threadIdx.x);

    GEMM_DEVICE void load(Stage& s, int k) {
      auto& to_a = a[k / MMA_K % 2];
      auto& to_b = b[k / MMA_K % 2];
      if constexpr (ANY) {  // no registers are left beside the sums
        const int tid = computed_anew(threadIdx.x);
        row_a = first_of_a(tid), row_b = first_of_b(tid);
      }
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
        if constexpr (A_ALONG_M)
          ldmatrix_x4_trans(to_a[i], row_a.at(s.A, k, i * 16));
        else
          ldmatrix_x4(to_a[i], row_a.at(s.A, i * 16, k));
#pragma unroll
      for (int j = 0; j < WN / 16; ++j) {
        uint32_t r[4];
        if constexpr (B_ALONG_K)
          ldmatrix_x4(r, row_b.at(s.B, j * 16, k));
        else
          ldmatrix_x4_trans(r, row_b.at(s.B, k, j * 16));
        to_b[j][0][0] = r[0];
        to_b[j][0][1] = r[1];
        to_b[j][1][0] = r[2];
        to_b[j][1][1] = r[3];
      }
    }
  };

  using CopyA = Copy<A_ALONG_M ? BK : BM, A_ALONG_M ? BM : BK>;
  using CopyB = Copy<B_ALONG_K ? BN : BK, B_ALONG_K ? BK : BN>;

  // One k-tile, loaded: one group of copies; past the end of K zeros, so that every wait counts
  // alike.
  struct Load {
    Stage& s;
    const CopyA& copy_a;
    const CopyB& copy_b;
    template <class VA, class VB>
    GEMM_DEVICE void dot(const VA& a, const VB& b) const {
      const ViewA& A_ = *a.view;
      const ViewB& B_ = *b.view;
      const int m = a.i * BM, k = a.j * BK, n = b.j * BN;
      const T* gA = A_.template at<ACCESS_A>(m, 0);
      const T* gB = B_.template at<ACCESS_B>(n, 0);
      const int64_t forward = uint32_t(k);  // never negative: one multiplication less
      const int64_t k_in_a = ACCESS_A == Access::k_major ? forward : forward * A_.col_stride;
      const int64_t k_in_b = ACCESS_B == Access::k_major ? forward : forward * B_.col_stride;
      if constexpr (A_ALONG_M)
        copy_a(s.A, gA, k_in_a, A_.col_stride, A_.row_stride, A_.cols - k,
               A_.template rows_from<BM>(m));
      else
        copy_a(s.A, gA, k_in_a, A_.row_stride, A_.col_stride, A_.template rows_from<BM>(m),
               A_.cols - k);
      if constexpr (B_ALONG_K)
        copy_b(s.B, gB, k_in_b, B_.row_stride, B_.col_stride, B_.template rows_from<BN>(n),
               B_.cols - k);
      else
        copy_b(s.B, gB, k_in_b, B_.col_stride, B_.row_stride, B_.cols - k,
               B_.template rows_from<BN>(n));
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
          __syncthreads();  // after it the next k-tile is there, and nobody reads this one any more
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
    const CopyA copy_a;
    const CopyB copy_b;
    const auto load = [&](int k) {
      Load step{stages[k % STAGES], copy_a, copy_b};
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
  template <class T, Access A, Access B, class Known = AnyCall>
  struct Make {
    using Loop = MmaLoop<T, A, B, BM, BN, BK, STAGES, WM, WN, Known>;
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
