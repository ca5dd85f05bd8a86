// The tile layer: its examples, any strides, the raster and arrangements. In the simulator and, by
// tile_test.cu, on a GPU.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <new>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tile_examples.cuh"

namespace gemm {
namespace {

using examples::arrange;

// Memory that kernels and the host share, and a wait for the kernels before the host reads it.
#if GEMM_ON_GPU
template <class T>
struct Shared {
  using value_type = T;
  T* allocate(size_t count) {
    void* p = nullptr;
    if (cudaMallocManaged(&p, count * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
    return static_cast<T*>(p);
  }
  void deallocate(T* p, size_t) { cudaFree(p); }
  bool operator==(const Shared&) const = default;
};
template <class T>
using Numbers = std::vector<T, Shared<T>>;
void finish() { ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess); }

struct NeedsGpu : testing::Environment {
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
  }
};
const auto* const needs_gpu = testing::AddGlobalTestEnvironment(new NeedsGpu);
#else
template <class T>
using Numbers = std::vector<T>;
void finish() {}
#endif

// Small integers: every sum is exact.
Numbers<float> integers(size_t count, int seed) {
  Numbers<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = float((int(i) * 7 + seed * 5 + int(i) / 11) % 5 - 2);
  return x;
}
template <class T>
Numbers<T> as(const Numbers<float>& x) {
  return {x.begin(), x.end()};
}

TEST(Tiles, AddVectors) {
  for (const int n : {1, 1023, 1024, 2500, 4096}) {
    const Numbers<float> x = integers(n, 1), y = integers(n, 2);
    Numbers<float> z(n, NAN), wanted(n);
    for (int i = 0; i < n; ++i) wanted[i] = x[i] + y[i];
    const auto view = [&](const Numbers<float>& v) {
      return tile::Matrix<float>{const_cast<float*>(v.data()), 1, n, 0}.tiles<1, 1024>();
    };
    launch(examples::add, cdiv(n, 1024), dim3(128), {}, {}, view(x), view(y), view(z));
    finish();
    EXPECT_EQ(z, wanted) << n;
  }
}

TEST(Tiles, SoftmaxOfRows) {
  constexpr int ROWS = 6, LD = 1024;
  for (const int cols : {1, 100, 1000, 1024}) {
    Numbers<float> x(ROWS * LD, NAN), y(ROWS * LD, 7);
    for (int r = 0; r < ROWS; ++r)
      for (int c = 0; c < cols; ++c) x[r * LD + c] = float((r * 31 + c * 17) % 23) / 3 + 80;
    const auto view = [&](Numbers<float>& v) {
      return tile::Matrix<float>{v.data(), ROWS, cols, LD}.tiles<4, 1024>();
    };
    launch(examples::softmax, cdiv(ROWS, 4), dim3(128), {}, {}, view(x), view(y));
    finish();
    for (int r = 0; r < ROWS; ++r) {
      double sum = 0;
      for (int c = 0; c < cols; ++c) sum += std::exp(double(x[r * LD + c]) - 88);
      for (int c = 0; c < cols; ++c)
        ASSERT_NEAR(y[r * LD + c], std::exp(double(x[r * LD + c]) - 88) / sum, 1e-6) << r << c;
      for (int c = cols; c < LD; ++c) ASSERT_EQ(y[r * LD + c], 7) << "outside of the matrix";
    }
  }
}

TEST(Tiles, MasksByIndices) {
  constexpr int N = 30;
  Numbers<float> x(N * N, 3), y(N * N, NAN);
  const auto view = [&](Numbers<float>& v) {
    return tile::Matrix<float>{v.data(), N, N, N}.tiles<4, 128>();
  };
  launch(examples::lower_triangle, cdiv(N, 4), dim3(128), {}, {}, view(x), view(y));
  finish();
  for (int r = 0; r < N; ++r)
    for (int c = 0; c < N; ++c) ASSERT_EQ(y[r * N + c], r >= c ? 3 : 0) << r << " " << c;
}

// A product by the main loop Tiles, op(A) and op(B) as stored or transposed.
template <class Tiles, class T>
void expect_bias(int M, int N, int K) {
  const Numbers<float> a = integers(M * K, 1), b = integers(K * N, 2), bias = integers(N, 3);
  const Numbers<T> A = as<T>(a), B = as<T>(b);
  Numbers<T> C(M * N, T(NAN));
  const GemmArgs<T> p{{}, M, N, K, A.data(), K, B.data(), N, C.data(), N, {2, 0}, Op::N, Op::N};
  const tile::Matrix<const float> row{bias.data(), M, N, 0};
  Tiles::launch(
      p, 8, 2, {}, [](auto loop) { return examples::gemm_bias<decltype(loop)>; }, row);
  finish();
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float x = bias[n];
      for (int k = 0; k < K; ++k) x += 2 * a[m * K + k] * b[k * N + n];
      ASSERT_EQ(float(C[m * N + n]), float(T(x < 0 ? 0.01f * x : x))) << m << " " << n;
    }
}

using SmallFfma = tile::Ffma<64, 64, 16, 3>;
using SmallMma = tile::MmaSync<64, 64, 32, 3, 32, 32>;
using WideMma = tile::MmaSync<32, 256, 32, 3, 32, 128>;  // copies two rows of B at a time

TEST(Tiles, BiasAndLeakyRelu) {
  if (tile::has_wgmma()) {
    expect_bias<tile::Wgmma<64, 128, 4>, half>(130, 264, 72);
    expect_bias<tile::Wgmma<64, 128, 4>, bf16>(70, 24, 200);
  }
  expect_bias<SmallMma, half>(130, 136, 72);
  expect_bias<SmallMma, half>(65, 33, 47);
  expect_bias<WideMma, half>(40, 264, 72);
  expect_bias<SmallFfma, float>(130, 136, 72);
  expect_bias<SmallFfma, float>(65, 33, 47);
}

template <class Loop>
__global__ void __launch_bounds__(Loop::THREADS) gemm(const __grid_constant__ tile::Gemm<Loop> p) {
  Loop::run([&](auto& cta) {
    for (const auto [m, n] : cta.tiles(p.C, p.group_m)) {
      auto acc = cta.zeros();
      cta.pipeline(p.k_tiles, acc,
                   [&](auto& sum, int k) { dot(load(p.A, m, k), load(p.B, k, n), sum); });
      cta.store(p.C, m, n, p.alpha * acc + p.beta * load(p.C, m, n, p.beta != 0));
    }
  });
}

// Element (r, c) of a matrix at r * row + c * col, with guards between and behind.
struct Strides {
  int64_t row, col;
};
size_t extent(int rows, int cols, Strides s) {
  return rows == 0 || cols == 0 ? 0 : size_t((rows - 1) * s.row + (cols - 1) * s.col + 1);
}
template <class Tiles, class T>
void expect_strides(int M, int N, int K, Strides sa, Strides sb, Strides sc) {
  const Numbers<T> A = as<T>(integers(extent(M, K, sa), 1));
  const Numbers<T> B = as<T>(integers(extent(K, N, sb), 2));
  Numbers<T> C = as<T>(integers(extent(M, N, sc), 3));
  Numbers<T> wanted = C;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float x = 0;
      for (int k = 0; k < K; ++k)
        x += float(A[m * sa.row + k * sa.col]) * float(B[k * sb.row + n * sb.col]);
      T& c = wanted[m * sc.row + n * sc.col];
      c = T(x + 2 * float(c));
    }
  Tiles::launch(tile::Problem<T>{{A.data(), M, K, sa.row, sa.col},
                                 {B.data(), K, N, sb.row, sb.col},
                                 {C.data(), M, N, sc.row, sc.col},
                                 {1, 2}},
                8, {}, [](auto loop) { return gemm<decltype(loop)>; });
  finish();
  for (size_t i = 0; i < C.size(); ++i) ASSERT_EQ(float(C[i]), float(wanted[i])) << i;
}
template <class Tiles, class T>
void expect_any_strides() {
  constexpr int M = 72, N = 136, K = 40;
  const Strides by_rows[] = {{K, 1}, {N, 1}, {N, 1}}, by_columns[] = {{1, M}, {1, K}, {1, M}};
  for (int which = 0; which < 8; ++which) {
    const auto of = [&](int i) { return which >> i & 1 ? by_columns[i] : by_rows[i]; };
    expect_strides<Tiles, T>(M, N, K, of(0), of(1), of(2));
  }
  expect_strides<Tiles, T>(M, N, K, {2 * K, 2}, {3, 3 * K + 1}, {2 * N + 1, 2});
  expect_strides<Tiles, T>(65, 33, 47, {47, 1}, {1, 50}, {1, 70});
}
TEST(Tiles, AnyStridesOfAllThree) {
  expect_any_strides<SmallMma, half>();
  expect_any_strides<SmallFfma, float>();
}

#if !GEMM_ON_GPU  // for a GPU NVRTC compiles them: nvcc leaves static members to the host
// All numbers of a call in the kernel's type: sizes of rows without gaps. BK: of the main loop, whose
// operands' strides are known if STRIDES.
template <int M, int N, int K, int BK, bool STRIDES, int VEC, int BETA>
struct Known {
  static constexpr bool VECTORS = N % VEC == 0 && (!STRIDES || K % VEC == 0);
  static constexpr tile::Strides NONE = {};
  static constexpr tile::Call CALL = {.M = M,
                                      .N = N,
                                      .K = K,
                                      .a = STRIDES ? tile::Strides{K, 1} : NONE,
                                      .b = STRIDES ? tile::Strides{1, N} : NONE,
                                      .c = {N, 1},
                                      .c_vectors = VECTORS,
                                      .k_tiles = cdiv(K, BK),
                                      .group_m = 2,
                                      .epilogue = {BETA == 0 ? 1.0f : 3.0f, BETA}};
};
template <class Tiles, class T, class Known>
void expect_one_call() {
  constexpr tile::Call CALL = Known::CALL;
  constexpr int M = CALL.M, N = CALL.N, K = CALL.K;
  const Epilogue e = CALL.epilogue;
  const Numbers<float> a = integers(M * K, 1), b = integers(K * N, 2), c = integers(M * N, 3);
  const Numbers<T> A = as<T>(a), B = as<T>(b);
  Numbers<T> C = e.reads_c() ? as<T>(c) : Numbers<T>(M * N, T(NAN));
  C.resize(M * N + 64, T(5));
  const GemmArgs<T> p{{}, M, N, K, A.data(), K, B.data(), N, C.data(), N, e, Op::N, Op::N};
  Tiles::template launch<tile::OneCall<Known>>(
      p, CALL.group_m, 2, {}, [&](auto loop, const tile::Call& call) {
        EXPECT_TRUE(call == CALL) << "what a kernel would be compiled for";
        return gemm<decltype(loop)>;
      });
  finish();
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float x = 0;
      for (int k = 0; k < K; ++k) x += a[m * K + k] * b[k * N + n];
      x = e.alpha * x + (e.reads_c() ? e.beta * c[m * N + n] : 0);
      ASSERT_EQ(float(C[m * N + n]), float(T(x))) << m << " " << n << " of " << M << " x " << N;
    }
  for (int i = 0; i < 64; ++i) ASSERT_EQ(float(C[M * N + i]), 5) << "behind the matrix";
}
TEST(Tiles, AllNumbersOfTheCallAreConstants) {
  if (tile::has_wgmma()) {
    using Hopper = tile::Wgmma<64, 128, 4>;
    expect_one_call<Hopper, half, Known<192, 256, 128, 64, false, 8, 0>>();  // whole tiles
    expect_one_call<Hopper, half, Known<130, 264, 72, 64, false, 8, 2>>();
    expect_one_call<Hopper, bf16, Known<65, 33, 47, 64, false, 8, 0>>();
  }
  expect_one_call<SmallMma, half, Known<128, 192, 64, 32, true, 8, 0>>();
  expect_one_call<SmallMma, half, Known<130, 136, 72, 32, true, 8, 2>>();
  expect_one_call<SmallMma, half, Known<65, 33, 47, 32, true, 8, 0>>();
  expect_one_call<SmallFfma, float, Known<128, 192, 48, 16, true, 4, 0>>();
  expect_one_call<SmallFfma, float, Known<130, 136, 72, 16, true, 4, 2>>();
  expect_one_call<SmallFfma, float, Known<65, 33, 47, 16, true, 4, 0>>();
}
#endif

// Two pipelines of a program share one piece of memory: C = A * B + A * B.
template <class Loop>
__global__ void __launch_bounds__(Loop::THREADS)
    gemm_twice(const __grid_constant__ tile::Gemm<Loop> p) {
  Loop::run([&](auto& cta) {
    for (const auto [m, n] : cta.tiles(p.C, p.group_m)) {
      auto acc = cta.zeros();
      for (int i = 0; i < 2; ++i)
        cta.pipeline(p.k_tiles, acc,
                     [&](auto& sum, int k) { dot(load(p.A, m, k), load(p.B, k, n), sum); });
      cta.store(p.C, m, n, acc);
    }
  });
}
template <class Tiles, class T>
void expect_twice(int M, int N, int K) {
  const Numbers<float> a = integers(M * K, 1), b = integers(K * N, 2);
  const Numbers<T> A = as<T>(a), B = as<T>(b);
  Numbers<T> C(M * N, T(NAN));
  Tiles::launch(tile::Problem<T>{{A.data(), M, K, K}, {B.data(), K, N, N}, {C.data(), M, N, N}, {}},
                8, {}, [](auto loop) { return gemm_twice<decltype(loop)>; });
  finish();
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float x = 0;
      for (int k = 0; k < K; ++k) x += 2 * a[m * K + k] * b[k * N + n];
      ASSERT_EQ(float(C[m * N + n]), x) << m << " " << n << " of K = " << K;
    }
}
TEST(Tiles, TwoPipelinesOneAfterTheOther) {
  for (const int K : {16, 32, 64, 96, 128}) {  // the last k-tile lies in each of the stages
    expect_twice<SmallMma, half>(130, 136, K);
    expect_twice<SmallFfma, float>(130, 136, K);
  }
}

TEST(Tiles, TheSameGemmArranged) {
  constexpr int M = 130, N = 100, K = 50;
  const Numbers<float> A = integers(M * K, 1), B = integers(K * N, 2);
  Numbers<float> C(M * N, NAN);
  const GemmArgs<float> p{{}, M, N, K, A.data(), K, B.data(), N, C.data(), N, {3, 0}, Op::N, Op::N};
  SmallFfma::launch(
      p, 1, 0, {}, [](auto loop) { return examples::gemm_arranged<decltype(loop)>; },
      arrange(M, N, K, 64, 64, 16));
  finish();
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float x = 0;
      for (int k = 0; k < K; ++k) x += A[m * K + k] * B[k * N + n];
      ASSERT_EQ(C[m * N + n], 3 * x) << m << " " << n;
    }
}

// The whole range of int8, and sums of more bits than a float has.
using SmallInt8 = tile::MmaSync<64, 64, 64, 3, 32, 32>;

void expect_int8(int M, int N, int K, Strides sa, Strides sb, Strides sc, bool extreme = false) {
  Numbers<int8_t> A(extent(M, K, sa)), B(extent(K, N, sb));
  for (size_t i = 0; i < A.size(); ++i) A[i] = extreme ? 127 : int8_t(i * 37 + i / 9);
  for (size_t i = 0; i < B.size(); ++i) B[i] = int8_t(extreme ? 127 - i % 2 : i * 53 + 11);
  Numbers<int> C(extent(M, N, sc), 12345), wanted = C;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      int& c = wanted[m * sc.row + n * sc.col];
      c = 0;
      for (int k = 0; k < K; ++k) c += A[m * sa.row + k * sa.col] * B[k * sb.row + n * sb.col];
    }
  SmallInt8::launch(tile::Problem<int8_t>{{A.data(), M, K, sa.row, sa.col},
                                          {B.data(), K, N, sb.row, sb.col},
                                          {C.data(), M, N, sc.row, sc.col},
                                          {}},
                    8, {}, [](auto loop) { return examples::gemm_int8<decltype(loop)>; });
  finish();
  EXPECT_EQ(C, wanted) << M << " " << N << " " << K;
}
TEST(Tiles, Int8AtAnyShape) {
  for (const auto [M, N, K] :
       {std::array{66, 136, 80}, {65, 33, 47}, {1, 1, 1}, {3, 70, 65}, {5, 7, 0}}) {
    expect_int8(M, N, K, {K, 1}, {1, K}, {N, 1});  // rows along k: by cp.async where aligned
    expect_int8(M, N, K, {K, 1}, {N, 1}, {N, 1});
  }
  expect_int8(70, 40, 48, {48, 1}, {1, 48}, {1, 72});    // C by columns
  expect_int8(65, 33, 47, {100, 2}, {3, 150}, {70, 2});  // gaps
  expect_int8(72, 36, 48, {64, 1}, {1, 80}, {40, 1});    // longer rows
  expect_int8(9, 12, 1072, {1072, 1}, {1, 1072}, {12, 1}, true);
}

// Arrangements
// -------------------------------------------------------------------------------------------------

using tile::Place;
constexpr examples::Arranged ARRANGED = arrange(100, 70, 50, 32, 16, 8);
static_assert(ARRANGED.c.depth() == 2 && ARRANGED.c.level(0).size() == 4 * 5);
static_assert(ARRANGED.a.depth() == 3 && ARRANGED.a.level(0).size() == 4 * 5);
static_assert(ARRANGED.a.level(0).sides() == 1 && ARRANGED.a.level(1).sides() == 1);
static_assert(ARRANGED.a.level(1).size() == 7 && ARRANGED.a.level(2).size() == 32 * 8);
static_assert(ARRANGED.b.level(1).size() == 7 && ARRANGED.b.level(2).size() == 8 * 16);
// Program 11 has row 2 and column 1 of tiles.
static_assert(ARRANGED.c.at(11) == Place{64, 16});
static_assert(ARRANGED.a.at(11, 3) == Place{64, 24} && ARRANGED.b.at(11, 3) == Place{24, 16});
static_assert(ARRANGED.a.at(11, 3, 9) == Place{65, 25});
static_assert(tile::matrix(6, 8).at(13) == Place{1, 5});
static_assert(tile::matrix(6, 8).tile(-1, 3).level(0).size() == 3);
static_assert(tile::matrix(6, 8).tile(-1, 3).level(1).size() == 18);

TEST(Arrangement, CoversTheMatrixOnce) {
  std::multiset<std::pair<int, int>> seen;
  const tile::Arrangement& c = ARRANGED.c;
  for (int program = 0; program < c.level(0).size(); ++program)
    for (int e = 0; e < c.level(1).size(); ++e) {
      const Place place = c.at(program, e);
      if (place.row < 100 && place.col < 70) seen.insert({place.row, place.col});
    }
  EXPECT_EQ(seen.size(), 100u * 70u);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 100u * 70u);
}

// The picture of a program's tiles: each tile by the step at which it is read, '#' the tile of C.
std::string picture(int program) {
  const examples::Arranged at = arrange(16, 12, 12, 4, 4, 4);
  const auto draw = [&](const tile::Arrangement& arranged, int rows, int cols, bool steps) {
    std::vector<std::string> lines(rows / 4, std::string(cols / 4, '.'));
    for (int k = 0; k < (steps ? arranged.level(1).size() : 1); ++k) {
      const Place place = arranged.at(program, steps ? k : 0);
      lines[place.row / 4][place.col / 4] = steps ? char('0' + k) : '#';
    }
    return lines;
  };
  const auto a = draw(at.a, 16, 12, true), b = draw(at.b, 12, 12, true);
  const auto c = draw(at.c, 16, 12, false);
  std::string text;
  for (const std::string& line : b) text += "         " + line + "\n";
  text += "\n";
  for (size_t i = 0; i < a.size(); ++i) text += "   " + a[i] + "   " + c[i] + "\n";
  return text;
}
TEST(Arrangement, ThePageShowsWhatTheFunctionsCompute) {
  std::ifstream page(TILE_PAGE);
  std::stringstream text;
  text << page.rdbuf();
  EXPECT_NE(text.str().find("```text\n" + picture(7) + "```"), std::string::npos)
      << "the page should show\n"
      << picture(7);
}

// Raster
// -------------------------------------------------------------------------------------------------

// Tiles of A and B that the first `count` programs read, each counted once.
constexpr int tile_loads(int count, int tiles_m, int tiles_n, int tiles_k, int group_m) {
  bool rows[64] = {}, cols[64] = {};
  for (int i = 0; i < count; ++i) {
    const TileIndex at = grouped_tile(i, tiles_m, tiles_n, group_m);
    rows[at.m] = cols[at.n] = true;
  }
  int loads = 0;
  for (const bool row : rows) loads += row ? tiles_k : 0;
  for (const bool col : cols) loads += col ? tiles_k : 0;
  return loads;
}
// Four tiles of C, of 4 x 4, each with four k-tiles: one row of them, or two by two.
static_assert(tile_loads(4, 4, 4, 4, 1) == 4 + 16);
static_assert(tile_loads(4, 4, 4, 4, 2) == 8 + 8);

#if !GEMM_ON_GPU  // code of the device
TEST(Raster, EveryTileOnceWhateverTheGroup) {
  for (const int group_m : {1, 2, 3, 4, 8, 16, 32})
    for (const int tiles_m : {1, 3, 4, 9, 16, 17}) {
      constexpr int TILES_N = 5;
      struct Ready {
        static GEMM_INLINE_ANYWHERE void at(int, int) {}
      };
      std::set<std::pair<int, int>> seen;
      int count = 0;
      for (int first = 0; first < 3; ++first)
        for (const auto [m, n] : tile::TileRange<Ready>(first, 3, tiles_m, TILES_N, group_m)) {
          ASSERT_TRUE(m >= 0 && m < tiles_m && n >= 0 && n < TILES_N);
          seen.insert({m, n});
          ++count;
        }
      EXPECT_EQ(count, tiles_m * TILES_N);
      EXPECT_EQ(int(seen.size()), count) << group_m << " " << tiles_m;
    }
}
#endif

}  // namespace
}  // namespace gemm
