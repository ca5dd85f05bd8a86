// The main loop of Hopper's tensor cores: TMA, a pipeline of mbarriers, wgmma, two consumers by
// turns. The design is pingpong's. Taught in v24.
//
//   role        threads   waits for               then                   and tells
//   producer    one       empty[stage]            loads a k-tile         full[stage], TMA's bytes
//   consumers   2 x 128   order[wg], full[stage]  wgmma of whole tiles   empty[stage], a k-tile on;
//                                                                        order[other], tile issued
#pragma once

#include <algorithm>

#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma_epilogue.cuh"
#include "device/wgmma_main_loop.cuh"
#include "tile/gemm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

// The role of a program: each instantiates it once. To the producer a tile is nothing: its
// arithmetic is left out, its dot is a load.
enum class Role { producer, consumer };
struct Nothing : Expression {
  using Value = float;
};

// BM x BN accumulators of a warpgroup: blocks of 64 rows, as wgmma leaves them.
template <int BM, int BN>
struct WgmmaLayout {
  static constexpr int BLOCK = BN / 2, SIZE = BM / 64 * BLOCK, VEC = 2;
  static GEMM_DEVICE int first_row() { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4; }
  static GEMM_DEVICE int first_col() { return threadIdx.x % 4 * 2; }
  static GEMM_DEVICE constexpr int row(int e) { return e / BLOCK * 64 + e / 2 % 2 * 8; }
  static GEMM_DEVICE constexpr int col(int e) { return e % BLOCK / 4 * 8 + e % 2; }
};

template <class T, Major A_MAJOR, Major B_MAJOR, int BM_, int BN_, int STAGES, int EPILOGUE_STAGES,
          class Known_ = AnyCall>
struct WgmmaLoop {
  static_assert(sizeof(T) == 2, "tensor cores take half and bf16");
  static constexpr int BM = BM_, BN = BN_, BK = 64, THREADS = 3 * 128, CTAS = 1;
  static constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240, PANEL = 8192;
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  using Layout = WgmmaLayout<BM, BN>;
  using Known = Known_;

  // An operand is known by its tensor map alone.
  struct ViewA {
    using Value = float;
    TensorMap map;
  };
  using ViewB = ViewA;
  using TilesOfC = View<T, BM, BN, Known::C_VECTORS, typename Known::template C<T>>;
  struct ViewC : TilesOfC {
    TensorMap map;

    GEMM_DEVICE GemmArgs<T> args() const {
      GemmArgs<T> p{};
      p.M = this->rows;
      p.N = this->cols;
      p.C = this->data;
      p.ldc = this->row_stride;
      return p;
    }
    // Where rows are aligned, four lanes read 64 bytes of a row, and exchange what they read.
    template <class Part>
    GEMM_DEVICE void get(const Part& part, int i, int j, bool mask, float other,
                         float (&x)[Part::COUNT]) const {
      if (!this->has_vectors() || !mask || other != 0)
        return TilesOfC::get(part, i, j, mask, other, x);
      Pair<T> pairs[Part::COUNT / 2] = {};
      load_pairs<true, Part::COUNT>(args(), i * BM + part.row_of(0), j * BN + part.col_of(0),
                                    pairs);
#pragma unroll
      for (int e = 0; e < Part::COUNT; e += 2) unpack<T>(pairs[e / 2], x[e], x[e + 1]);
    }
  };

  // The sums of a tile.
  struct Sum : Stored {
    using Value = float;
    float x[BM / 64][BN / 2];
    template <class Part>
    GEMM_DEVICE void get(const Part&, float (&y)[Part::COUNT]) const {
#pragma unroll
      for (int e = 0; e < Part::COUNT; ++e)
        y[e] = x[(Part::FIRST + e) / (BN / 2)][(Part::FIRST + e) % (BN / 2)];
    }
  };

  struct Shared {                     // every panel starts at a multiple of 1024 bytes
    uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK) or, transposed, (STAGES, BM / 64, BK, 64)
    uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN / 64, BK, 64) or, transposed, (STAGES, BN, BK)
    uint8_t C[2][EPILOGUE_STAGES][PANEL];  // (consumer, EPILOGUE_STAGES, 64, 64), swizzled
    uint64_t full[STAGES], empty[STAGES], order[2];
  };
  static constexpr size_t SMEM = sizeof(Shared);

  // One k-tile, for either role.
  struct Load {
    Shared& shared;
    int stage;
    template <class A, class B>
    GEMM_DEVICE void dot(const A& a, const B& b) const {
      TileA::load(shared.A[stage], a.view->map, a.i * BM, a.j * BK, &shared.full[stage]);
      TileB::load(shared.B[stage], b.view->map, b.j * BN, b.i * BK, &shared.full[stage]);
    }
  };
  struct Multiply {
    Shared& shared;
    int stage;
    Sum& sum;
    template <class A, class B>
    GEMM_DEVICE void dot(const A&, const B&) const {
      multiply_k_tile<TileA, TileB>(sum.x, shared.A[stage], shared.B[stage]);
    }
  };

  struct Producer {
    Shared& shared;
    PipelineState<STAGES> state;

    struct Ready {  // the first load waits for the kernel before, its coordinates do not
      static GEMM_DEVICE void at(int m, int n) { grid_dependency_wait(m, n); }
    };
    GEMM_DEVICE TileRange<Ready> tiles(const ViewC& c, int group_m) const {
      return {int(blockIdx.x), int(gridDim.x), cdiv(c.rows, BM), cdiv(c.cols, BN), group_m};
    }
    GEMM_DEVICE Nothing zeros() const { return {}; }
    template <class Body>
    GEMM_DEVICE void pipeline(int k_tiles, Nothing&, Body&& body) {
      load_k_tiles(shared.full, shared.empty, state, 0, k_tiles, TileA::BYTES + TileB::BYTES,
                   [&](int stage, int k) {
                     Load step{shared, stage};
                     body(step, k);
                   });
    }
    template <class E>
    GEMM_DEVICE void store(const ViewC&, int, int, const E&) const {}
  };

  struct Consumer {
    Shared& shared;
    PipelineState<STAGES> state;
    int wg;
    uint32_t order_phase;

    struct Ready {  // coordinates are computed here, not behind the main loop
      static GEMM_DEVICE void at(int& m, int& n) { fence_operand(m, n); }
    };
    // Every other tile of the CTA.
    GEMM_DEVICE TileRange<Ready> tiles(const ViewC& c, int group_m) const {
      return {int(blockIdx.x + wg * gridDim.x), int(2 * gridDim.x), cdiv(c.rows, BM),
              cdiv(c.cols, BN), group_m};
    }
    GEMM_DEVICE Sum zeros() const {
      Sum sum;
      clear_registers(sum.x);  // before the wait, while the other consumer computes
      return sum;
    }
    template <class Body>
    GEMM_DEVICE void pipeline(int k_tiles, Sum& sum, Body&& body) {
      const int tid = threadIdx.x;
      if (wg == 1) state.skip(k_tiles);  // the other consumer's tile
      if (k_tiles > 0) mbarrier_wait(&shared.order[wg], order_phase);
      order_phase ^= 1;
      uint64_t* const other = order_of_other(shared.order, wg);
      const auto multiply = [&](int stage, int k) {
        Multiply step{shared, stage, sum};
        body(step, k);
        // The other consumer's wgmma may queue up behind these.
        if (k == k_tiles - 1 && tid % 32 == 0) mbarrier_arrive(other);
      };
      const int last = multiply_k_tiles<1>(shared.full, shared.empty, state, k_tiles, multiply);
      finish_k_tiles<1>(shared.empty, k_tiles, last);
      if (wg == 0) state.skip(k_tiles);
      fence_operand(sum.x);
    }
    // Through shared memory and TMA, a panel of 64 x 64 at a time.
    template <class E>
    GEMM_DEVICE void store(const ViewC& c, int i, int j, const E& e) const {
      for_each_part<Layout, 32>([&](const auto& part) {
        constexpr int FIRST = std::remove_cvref_t<decltype(part)>::FIRST;
        float x[32];
        e.get(part, x);
        store_panel<EPILOGUE_STAGES - 1>(
            c.args(), c.has_vectors(), c.map, i * BM + FIRST / Layout::BLOCK * 64,
            j * BN + FIRST % Layout::BLOCK * 2, shared.C[wg][FIRST / 32 % EPILOGUE_STAGES], x);
      });
    }
  };

  // Runs a program in every role: once as the producer, once as each consumer.
  template <class Program>
  static GEMM_DEVICE void run(Program&& program) {
    grid_launch_dependents();
    auto& shared = *static_cast<Shared*>(dynamic_shared());
    const int tid = threadIdx.x, wg = warpgroup();
    if (tid == 0) {
      init_ordered_barrier(shared.order);
      init_pipeline<STAGES>(shared.full, shared.empty, 1);
    }
    __syncthreads();
    if (wg == 2) {
      setmaxnreg_dec<PRODUCER_REGS>();
      if (tid / 32 % 4 != 0 || !elect_one()) return;
      Producer cta{shared, {}};
      program(cta);
    } else {
      setmaxnreg_inc<CONSUMER_REGS>();
      grid_dependency_wait();
      Consumer cta{shared, {}, wg, uint32_t(wg ^ 1)};
      program(cta);
      if (tid % 32 == 0) tma_store_wait_read<0>();
    }
  }
};

// Whether the current GPU has wgmma: Hopper alone does. (Code for sm_90a must be in the program.)
inline bool has_wgmma() {
#if GEMM_ON_GPU
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, current_device());
  return major == 9;
#else
  return true;
#endif
}

// Tile sizes of the loop above, and its launch.
template <int BM, int BN, int STAGES, int EPILOGUE_STAGES = 2>
struct Wgmma {
  // kernel_for has the kernel for a loop; it is passed the views and `more`. `ctas`: persistent
  // ones. Operands that TMA cannot address are copied first.
  template <class Known = AnyCall, class T, class KernelOf, class... More>
  static void launch(const GemmArgs<T>& p, int group_m, int ctas, Stream stream,
                     KernelOf&& kernel_of, const More&... more) {
    const TmaOperands<T> in(p, stream);
    const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
    with_majors(p, [&](auto a, auto b) {
      using Loop = WgmmaLoop<T, a(), b(), BM, BN, STAGES, EPILOGUE_STAGES, Known>;
      const Call call{.M = p.M,
                      .N = p.N,
                      .K = p.K,
                      .c = {p.ldc, 1},
                      .c_vectors = has_aligned_c(p),
                      .k_tiles = cdiv(p.K, Loop::BK),
                      .group_m = group_m,
                      .epilogue = p.epilogue};
      const Gemm<Loop> views{
          {{Loop::TileA::map(in.A.data, p.M, p.K, in.A.ld)},
           {Loop::TileB::map(in.B.data, p.N, p.K, in.B.ld)},
           {{Known::template C<T>::of(p.C, p.M, p.N, call.c), call.c_vectors}, c_map(p, 16)}},
          Known::numbers(call)};
      gemm::launch(kernel_for<Loop>(kernel_of, call), std::min<int64_t>(tiles, ctas),
                   dim3(Loop::THREADS), {.smem = Loop::SMEM, .pdl = true}, stream, views, more...);
    });
  }
};

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
