// The library as a program calls it: nothing but include/gemm. Compiled twice, with gemm::sim on host
// memory and (LIBRARY_ON_GPU) with gemm::gemm on a GPU's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <gemm/gemm.hpp>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>
#ifdef LIBRARY_ON_GPU
#include <cuda_runtime_api.h>
#else
// Allocations of this thread until one fails, in the library as well. Below 0: none fails.
thread_local int64_t allocations_left = -1;

[[gnu::noinline]] void* operator new(size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void* const p = std::malloc(std::max<size_t>(bytes, 1)); p != nullptr) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

namespace {

using testing::HasSubstr;

// Memory that the library computes on
// -------------------------------------------------------------------------------------------------

#ifdef LIBRARY_ON_GPU
void expect_cuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + cudaGetErrorString(error));
}
#define CUDA(call) expect_cuda((call), #call ": ")

int gpu_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  return count;
}

void* allocate(size_t bytes) {
  void* p = nullptr;
  CUDA(cudaMalloc(&p, bytes));
  return p;
}
void release(void* p) { cudaFree(p); }
void copy(void* to, const void* from, size_t bytes) {
  CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  // From pageable memory it may return before the bytes are there, and other streams do not wait.
  CUDA(cudaStreamSynchronize(nullptr));
}
void wait(void* stream = nullptr) {
  CUDA(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}
#else
void* allocate(size_t bytes) { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
void release(void* p) { std::free(p); }
void copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void wait(void* = nullptr) {}
#endif

class Library : public testing::Test {
 protected:
  void SetUp() override {
#ifdef LIBRARY_ON_GPU
    if (gpu_count() == 0) GTEST_SKIP() << "no GPU";
    CUDA(cudaSetDevice(0));
#endif
  }
};

// Numbers: small integers, which every type holds, and so do the sums of their products here.
// -------------------------------------------------------------------------------------------------

size_t bytes_of(int32_t type) { return type == GEMM_F32 ? 4 : type >= GEMM_E4M3 ? 1 : 2; }

// By OCP's definition: e4m3 has one NaN of each sign and no infinity, e5m2 is as IEEE 754.
float decode_fp8(int32_t type, int code) {
  const bool e4m3 = type == GEMM_E4M3;
  const int mantissa_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, magnitude = code & 0x7f;
  const float sign = code >> 7 == 0 ? 1.0f : -1.0f;
  if (e4m3 ? magnitude == 0x7f : magnitude > 0x7c) return NAN;
  if (!e4m3 && magnitude == 0x7c) return sign * INFINITY;
  const int exponent = magnitude >> mantissa_bits,
            mantissa = magnitude & ((1 << mantissa_bits) - 1);
  return sign * std::ldexp(float(exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits)),
                           std::max(exponent, 1) - bias - mantissa_bits);
}
// The code of a number that the type holds.
unsigned char encode_fp8(int32_t type, float x) {
  for (int code = 0; code < 256; ++code)
    if (const float y = decode_fp8(type, code); y == x || (std::isnan(y) && std::isnan(x)))
      return static_cast<unsigned char>(code);
  throw std::logic_error("no such number");
}

void encode(int32_t type, float x, unsigned char* to) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, 4);
  if (type == GEMM_F32) {
    std::memcpy(to, &bits, 4);
    return;
  }
  if (bytes_of(type) == 1) {
    *to = encode_fp8(type, x);
    return;
  }
  uint16_t half = static_cast<uint16_t>(bits >> 16);  // bfloat16
  if (type == GEMM_F16) {
    const uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xff;
    const uint32_t mantissa = bits >> 13 & 0x3ff;
    const float units = std::ldexp(std::abs(x), 24);  // of the least subnormal
    half = static_cast<uint16_t>(std::isnan(x)  ? 0x7e00
                                 : units < 1024 ? sign | static_cast<uint32_t>(units)
                                                : sign | (exponent - 112) << 10 | mantissa);
  }
  std::memcpy(to, &half, 2);
}

float decode(int32_t type, const unsigned char* from) {
  if (bytes_of(type) == 1) return decode_fp8(type, *from);
  uint32_t bits = 0;
  std::memcpy(&bits, from, bytes_of(type));
  if (type == GEMM_BF16) bits <<= 16;
  if (type == GEMM_F16) {
    const uint32_t exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
    if (exponent == 0) return std::ldexp(float(mantissa), -24) * (bits >> 15 == 0 ? 1 : -1);
    bits = (bits & 0x8000) << 16 | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13;
  }
  float x = 0;
  std::memcpy(&x, &bits, 4);
  return x;
}

// A stored matrix; `skew` elements past a multiple of 256 bytes, `pad` elements between its rows, and
// bytes around it that nobody may touch.
class Matrix {
 public:
  Matrix(int32_t type, int64_t rows, int64_t cols, int64_t pad, int64_t skew)
      : type_(type),
        rows_(rows),
        cols_(cols),
        ld_(cols + pad),
        first_((GUARD / bytes_of(type) + skew) * bytes_of(type)),
        bytes_(first_ + rows * ld_ * bytes_of(type) + GUARD),
        host_(bytes_, FILL),
        memory_(allocate(bytes_)) {}
  ~Matrix() { release(memory_); }
  Matrix(const Matrix&) = delete;

  int64_t ld() const { return ld_; }
  void* data() const { return static_cast<char*>(memory_) + first_; }
  float at(int64_t row, int64_t col) const { return decode(type_, &host_[place(row, col)]); }

  void fill(const std::function<float(int64_t, int64_t)>& f) {
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t col = 0; col < cols_; ++col) encode(type_, f(row, col), &host_[place(row, col)]);
    copy(memory_, host_.data(), bytes_);
  }
  void read() { copy(host_.data(), memory_, bytes_); }
  bool only_elements_written() const {
    std::vector<unsigned char> others = host_;
    for (int64_t row = 0; row < rows_; ++row)
      std::memset(&others[place(row, 0)], FILL, cols_ * bytes_of(type_));
    return others == std::vector<unsigned char>(bytes_, FILL);
  }

 private:
  static constexpr size_t GUARD = 256;
  static constexpr unsigned char FILL = 0x5a;

  size_t place(int64_t row, int64_t col) const {
    return first_ + (row * ld_ + col) * bytes_of(type_);
  }

  int32_t type_;
  int64_t rows_, cols_, ld_;
  size_t first_, bytes_;
  std::vector<unsigned char> host_;
  void* memory_;
};

struct Types {
  const char* name;
  int32_t in, out, compute;
};
constexpr Types TYPES[] = {{"f32", GEMM_F32, GEMM_F32, GEMM_COMPUTE_EXACT},
                           {"tf32", GEMM_F32, GEMM_F32, GEMM_COMPUTE_TF32},
                           {"f16", GEMM_F16, GEMM_F16, GEMM_COMPUTE_EXACT},
                           {"bf16", GEMM_BF16, GEMM_BF16, GEMM_COMPUTE_EXACT},
                           {"f16_f32", GEMM_F16, GEMM_F32, GEMM_COMPUTE_EXACT},
                           {"bf16_f32", GEMM_BF16, GEMM_F32, GEMM_COMPUTE_EXACT},
                           {"e4m3", GEMM_E4M3, GEMM_BF16, GEMM_COMPUTE_EXACT},
                           {"e4m3_fast", GEMM_E4M3, GEMM_BF16, GEMM_COMPUTE_FAST_SUMS},
                           {"e4m3_f32", GEMM_E4M3, GEMM_F32, GEMM_COMPUTE_EXACT},
                           {"e5m2", GEMM_E5M2, GEMM_BF16, GEMM_COMPUTE_EXACT}};

// What an activation's name says, in double precision.
double activated(const gemm_epilogue& e, double x) {
  switch (e.activation) {
    case GEMM_ACTIVATION_RELU:
      return std::max(x, 0.0);
    case GEMM_ACTIVATION_LEAKY_RELU:
      return x < 0 ? double{e.slope} * x : x;
    case GEMM_ACTIVATION_GELU:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case GEMM_ACTIVATION_SILU:
      return x / (1 + std::exp(-x));
    case GEMM_ACTIVATION_GELU_ERF:
      return 0.5 * x * std::erfc(-x / std::sqrt(2));
  }
  return x;
}

// A product with its matrices; which calls are made is the test's.
struct Product {
  gemm_problem problem = GEMM_PROBLEM_DEFAULT;
  gemm_epilogue epilogue = GEMM_EPILOGUE_DEFAULT;
  Matrix a, b, c;
  // The epilogue's operands, as far as with_operands() has added them.
  std::unique_ptr<Matrix> bias, row_bias, scale_columns, scale_rows, residual;
  std::unique_ptr<Matrix> scales_a, scales_b;  // of blocks

  Product(Types types, int m, int n, int k, int op_a = GEMM_N, int op_b = GEMM_N, int pad = 0,
          int skew = 0, bool gated = false)
      : a(types.in, op_a == GEMM_T ? k : m, op_a == GEMM_T ? m : k, pad, skew),
        b(types.in, op_b == GEMM_T ? n : k, op_b == GEMM_T ? k : n, pad, skew),
        c(types.out, m, gated ? n / 2 : n, pad, skew) {
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.type_a = problem.type_b = types.in;
    problem.type_c = types.out;
    problem.compute = types.compute;
    problem.op_a = op_a;
    problem.op_b = op_b;
    problem.gated = gated ? 1 : 0;
    problem.lda = pad == 0 ? 0 : a.ld();  // 0: without gaps
    problem.ldb = pad == 0 ? 0 : b.ld();
    problem.ldc = pad == 0 ? 0 : c.ld();
    if (skew != 0) {
      problem.align_a = problem.align_b = static_cast<int32_t>(bytes_of(types.in));
      problem.align_c = static_cast<int32_t>(bytes_of(types.out));
    }
    fill();
    if (types.compute == GEMM_COMPUTE_BLOCK_SCALES) with_block_scales(pad, skew);
  }

  // Powers of two. Rows `pad` longer than their scales; without, as the library takes them.
  void with_block_scales(int pad, int skew) {
    const int64_t blocks_k = (problem.k + 127) / 128, blocks_n = (problem.n + 127) / 128;
    const int64_t fours = (4 - blocks_k % 4) % 4;
    scales_a = std::make_unique<Matrix>(GEMM_F32, blocks_k, problem.m, pad, skew);
    scales_b = std::make_unique<Matrix>(GEMM_F32, blocks_n, blocks_k, fours + pad, skew);
    for (Matrix* x : {scales_a.get(), scales_b.get()})
      x->fill([](int64_t i, int64_t j) { return float(1 << (i + 2 * j) % 3); });
    epilogue.scales_a = static_cast<const float*>(scales_a->data());
    epilogue.scales_b = static_cast<const float*>(scales_b->data());
    epilogue.ld_scales_a = pad == 0 ? 0 : scales_a->ld();
    epilogue.ld_scales_b = pad == 0 ? 0 : scales_b->ld();
  }
  float block_scales(int64_t i, int64_t j, int64_t k) const {
    return scales_a == nullptr ? 1 : scales_a->at(k / 128, i) * scales_b->at(j / 128, k / 128);
  }

  void fill() {
    a.fill([&](int64_t i, int64_t j) {
      return epilogue.alpha == 0 ? NAN : float((i * 7 + j * 5) % 3 - 1);
    });
    b.fill([](int64_t i, int64_t j) { return float((i * 3 + j * 11) % 5 % 3 - 1); });
    c.fill([&](int64_t i, int64_t j) {
      return epilogue.beta == 0 || residual != nullptr ? NAN : was(i, j);
    });
  }
  // All operands that `which` has a bit for: bias, row_bias, scale_columns, scale_rows, residual.
  // They lie `skew` elements past a multiple of 256 bytes.
  void with_operands(int which, int skew) {
    const auto add = [&](int bit, std::unique_ptr<Matrix>& x, int32_t type, int64_t rows,
                         int64_t cols, int64_t pad, auto element) -> const void* {
      if ((which >> bit & 1) == 0) return nullptr;
      x = std::make_unique<Matrix>(type, rows, cols, pad, skew);
      x->fill(element);
      return x->data();
    };
    const auto small = [](int64_t i, int64_t j) { return float((3 * i + 5 * j + 1) % 7 - 3); };
    const auto power = [](int64_t, int64_t j) { return j % 3 == 0 ? 2.0f : 1.0f; };
    const int64_t m = problem.m, n = problem.n;
    epilogue.bias = add(0, bias, problem.type_c, 1, n, 0, small);
    epilogue.row_bias = add(1, row_bias, problem.type_c, 1, m, 0, small);
    epilogue.scale_columns =
        static_cast<const float*>(add(2, scale_columns, GEMM_F32, 1, n, 0, power));
    epilogue.scale_rows = static_cast<const float*>(add(3, scale_rows, GEMM_F32, 1, m, 0, power));
    epilogue.residual = add(4, residual, problem.type_c, m, n, 8, small);
    epilogue.ld_residual = residual == nullptr ? 0 : residual->ld();
    if (residual != nullptr) epilogue.beta = 2;
  }
  static float was(int64_t i, int64_t j) { return float((i + 2 * j) % 7 - 3); }

  double want(int64_t i, int64_t j) const {
    if (problem.gated == 0) return activated(epilogue, before_activation(i, j));
    return activated(epilogue, before_activation(i, 2 * j)) * before_activation(i, 2 * j + 1);
  }
  double before_activation(int64_t i, int64_t j) const {
    float sum = 0;
    for (int64_t k = 0; k < problem.k && epilogue.alpha != 0; ++k)
      sum += (problem.op_a == GEMM_T ? a.at(k, i) : a.at(i, k)) *
             (problem.op_b == GEMM_T ? b.at(j, k) : b.at(k, j)) * block_scales(i, j, k);
    const auto at = [](const std::unique_ptr<Matrix>& x, int64_t k, double none) {
      return x == nullptr ? none : double{x->at(0, k)};
    };
    const double old = residual == nullptr ? was(i, j) : residual->at(i, j);
    return at(scale_rows, i, 1) * at(scale_columns, j, 1) * epilogue.alpha * sum +
           (epilogue.beta == 0 ? 0 : epilogue.beta * old) + at(bias, j, 0) + at(row_bias, i, 0);
  }
  // Exact where it can be. Else it may be off by a rounding to C's type and the functor's own errors.
  bool is_close(float got, double want) const {
    if (epilogue.activation < GEMM_ACTIVATION_GELU && problem.gated == 0) return got == want;
    const int factors = problem.gated == 0 ? 1 : 2;
    const double unit = problem.type_c == GEMM_F32   ? 1e-5
                        : problem.type_c == GEMM_F16 ? 1.0 / 1024
                                                     : 1.0 / 128;
    return std::abs(got - want) <= factors * unit * std::abs(want) + 1e-6;
  }

  gemm_status matmul(void* stream = nullptr, int device = GEMM_CURRENT_DEVICE) const {
    return gemm_matmul(&problem, &epilogue, a.data(), b.data(), c.data(), stream, device);
  }
  gemm_status run(const gemm_plan& plan, void* stream = nullptr) const {
    return gemm_run(&plan, &epilogue, a.data(), b.data(), c.data(), stream);
  }
  // Empty: C holds what it should, as exactly as can be, and nothing around it has changed.
  std::string wrong() {
    wait();
    c.read();
    for (int64_t i = 0; i < problem.m; ++i)
      for (int64_t j = 0; j < (problem.gated == 0 ? problem.n : problem.n / 2); ++j)
        if (!is_close(c.at(i, j), want(i, j)))
          return "C(" + std::to_string(i) + ", " + std::to_string(j) + ") is " +
                 std::to_string(c.at(i, j)) + ", not " + std::to_string(want(i, j));
    return c.only_elements_written() ? "" : "written outside of C";
  }
};

gemm_plan planned(const gemm_problem& problem, int device = GEMM_CURRENT_DEVICE) {
  gemm_plan plan;
  EXPECT_EQ(gemm_plan_create(&problem, device, &plan), GEMM_OK) << gemm_last_error();
  return plan;
}

std::string explained(const gemm_plan& plan) {
  char text[256] = {};
  EXPECT_EQ(gemm_plan_explain(&plan, text, sizeof text), GEMM_OK) << gemm_last_error();
  return text;
}

size_t workspace_of(const gemm_plan& plan) {
  size_t bytes = SIZE_MAX;
  EXPECT_EQ(gemm_plan_workspace_size(&plan, &bytes), GEMM_OK) << gemm_last_error();
  return bytes;
}

// Results
// -------------------------------------------------------------------------------------------------

TEST_F(Library, EveryTypeShapeAndLayout) {
  struct Shape {
    int m, n, k, pad, skew;
  };
  constexpr Shape SHAPES[] = {{1, 1, 1, 0, 0},     {64, 64, 64, 0, 0}, {65, 72, 40, 8, 0},
                              {130, 67, 70, 3, 1}, {5, 200, 33, 0, 1}, {40, 24, 0, 0, 0},
                              {0, 24, 8, 0, 0},    {24, 0, 8, 1, 0}};
  int computed = 0;
  for (const Types types : TYPES)
    for (const Shape s : SHAPES)
      for (const int op_a : {GEMM_N, GEMM_T})
        for (const int op_b : {GEMM_N, GEMM_T}) {
          SCOPED_TRACE(testing::Message()
                       << types.name << " " << s.m << "x" << s.n << "x" << s.k << " pad " << s.pad
                       << " skew " << s.skew << (op_a == GEMM_T ? " t" : " n")
                       << (op_b == GEMM_T ? "t" : "n"));
          Product p(types, s.m, s.n, s.k, op_a, op_b, s.pad, s.skew);
          const gemm_status status = p.matmul();
          if (status == GEMM_UNSUPPORTED) {  // of what some GPU has no kernel for
            EXPECT_THAT(gemm_last_error(), HasSubstr("no kernel of this type takes transposed"));
            EXPECT_TRUE(types.in == GEMM_F32 || types.out == GEMM_F32) << gemm_last_error();
            EXPECT_TRUE(op_a == GEMM_T || op_b == GEMM_T);
            continue;
          }
          ASSERT_EQ(status, GEMM_OK) << gemm_last_error();
          EXPECT_EQ(p.wrong(), "");
          ++computed;
        }
  EXPECT_GE(computed, int(std::size(SHAPES)) * 10);
}

// Block scales, with the leading dimensions that 0 stands for and with others.
TEST_F(Library, BlockScales) {
  const Types types{"e4m3_f32_block", GEMM_E4M3, GEMM_F32, GEMM_COMPUTE_BLOCK_SCALES};
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {64, 130, 300}, {130, 67, 640}, {5, 8, 0}})
    for (const int op_b : {GEMM_N, GEMM_T})
      for (const int pad : {0, 3}) {
        SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << " pad " << pad);
        Product p(types, m, n, k, GEMM_N, op_b, pad, pad == 0 ? 0 : 1);
        ASSERT_EQ(p.matmul(), GEMM_OK) << gemm_last_error();
        EXPECT_EQ(p.wrong(), "");
        gemm_problem problem = p.problem;
        problem.align_a = problem.align_b = 1;
        problem.align_c = 4;
        p.fill();
        ASSERT_EQ(p.run(planned(problem)), GEMM_OK) << gemm_last_error();
        EXPECT_EQ(p.wrong(), "");
      }
  Product p(types, 64, 130, 300);
  const auto expect = [&](gemm_status status, const char* text) {
    EXPECT_EQ(p.matmul(), status);
    EXPECT_THAT(gemm_last_error(), HasSubstr(text));
  };
  p.epilogue.ld_scales_a = 63;
  expect(GEMM_BAD_ARGUMENT, "ld_scales_a is 63: allowed are 64 or more");
  p.epilogue.ld_scales_a = 0;
  p.epilogue.scales_b = nullptr;
  expect(GEMM_BAD_ARGUMENT, "scales_b is a null pointer: GEMM_COMPUTE_BLOCK_SCALES needs it");
  p.problem.compute = GEMM_COMPUTE_EXACT;
  expect(GEMM_BAD_ARGUMENT, "go with GEMM_COMPUTE_BLOCK_SCALES alone");
  Product batch(types, 64, 64, 64);
  batch.problem.batch = 2;
  EXPECT_EQ(batch.matmul(), GEMM_UNSUPPORTED);
}

// A scale of no elements is 1.
TEST_F(Library, QuantisesNothing) {
  for (const int scale_of : {GEMM_SCALE_TENSOR, GEMM_SCALE_ROW})
    for (const auto& [rows, cols] : {std::pair{3, 0}, {0, 3}, {0, 0}}) {
      SCOPED_TRACE(testing::Message() << scale_of << " " << rows << "x" << cols);
      const int count = scale_of == GEMM_SCALE_TENSOR ? 1 : rows;
      Matrix scales(GEMM_F32, 1, 3, 0, 0);
      scales.fill([](int64_t, int64_t) { return 7.0f; });
      gemm_quantisation c{};
      c.size = sizeof c;
      c.scale_of = scale_of;
      c.rows = rows;
      c.cols = cols;
      ASSERT_EQ(gemm_quantise(&c, nullptr, nullptr, static_cast<float*>(scales.data()), nullptr,
                              GEMM_CURRENT_DEVICE),
                GEMM_OK)
          << gemm_last_error();
      wait();
      scales.read();
      for (int i = 0; i < 3; ++i) EXPECT_EQ(scales.at(0, i), i < count ? 1 : 7);
    }
}

// Each part holds the type's largest number times 1/4, so that each scale is 1/4; and every finite
// number of the type comes back. NaN stays NaN, infinities become the largest.
TEST_F(Library, QuantisesEveryNumber) {
  constexpr int ROWS = 130, COLS = 300;
  for (const int32_t type_q : {GEMM_E4M3, GEMM_E5M2})
    for (const int32_t type_x : {GEMM_F32, GEMM_F16, GEMM_BF16})
      for (const int scale_of :
           {GEMM_SCALE_TENSOR, GEMM_SCALE_ROW, GEMM_SCALE_BLOCK_ROW, GEMM_SCALE_BLOCK}) {
        SCOPED_TRACE(testing::Message() << type_q << " " << type_x << " " << scale_of);
        const float largest = type_q == GEMM_E4M3 ? 448 : 57344;
        const auto number = [&](int64_t i, int64_t j) {
          const float x = decode_fp8(type_q, int(i * 37 + j) % 256);
          return j % 128 == 0 || !std::isfinite(x) ? largest : x;
        };
        const bool with_others = type_x == GEMM_F32;
        const auto other = [&](int64_t i, int64_t j) {
          return with_others && i == 7 && j % 97 == 1;
        };
        constexpr float OTHERS[] = {NAN, INFINITY, -INFINITY};  // in columns 1, 98, 195
        const bool by_rows = scale_of == GEMM_SCALE_BLOCK_ROW;
        const int64_t scale_rows[] = {1, 1, 3, 2}, scale_cols[] = {1, ROWS, ROWS, 3};
        Matrix x(type_x, ROWS, COLS, 5, 1), q(type_q, ROWS, COLS, 3, 1);
        Matrix scales(GEMM_F32, scale_rows[scale_of], scale_cols[scale_of], by_rows ? 4 : 2, 1);
        x.fill([&](int64_t i, int64_t j) {
          return other(i, j) ? OTHERS[j / 97 % 3] : number(i, j) / 4;
        });
        q.fill([](int64_t, int64_t) { return 0.0f; });
        scales.fill([](int64_t, int64_t) { return 0.0f; });
        gemm_quantisation c{};
        c.size = sizeof c;
        c.scale_of = scale_of;
        c.rows = ROWS;
        c.cols = COLS;
        c.ldx = x.ld();
        c.ldq = q.ld();
        c.type_x = type_x;
        c.type_q = type_q;
        c.ld_scales = scale_of < GEMM_SCALE_BLOCK_ROW ? 0 : scales.ld();
        ASSERT_EQ(gemm_quantise(&c, x.data(), q.data(), static_cast<float*>(scales.data()), nullptr,
                                GEMM_CURRENT_DEVICE),
                  GEMM_OK)
            << gemm_last_error();
        wait();
        q.read();
        scales.read();
        for (int64_t i = 0; i < scale_rows[scale_of]; ++i)
          for (int64_t j = 0; j < scale_cols[scale_of]; ++j) ASSERT_EQ(scales.at(i, j), 0.25f);
        for (int64_t i = 0; i < ROWS; ++i)
          for (int64_t j = 0; j < COLS; ++j) {
            const float want = x.at(i, j) * 4;
            if (std::isnan(want)) {
              ASSERT_TRUE(std::isnan(q.at(i, j))) << i << " " << j;
            } else if (std::isfinite(want)) {
              ASSERT_EQ(q.at(i, j), want) << i << " " << j;
            } else {
              ASSERT_EQ(q.at(i, j), std::copysign(largest, want)) << i << " " << j;
            }
          }
        EXPECT_TRUE(q.only_elements_written() && scales.only_elements_written());
      }
}

TEST_F(Library, BadQuantisations) {
  Matrix x(GEMM_F32, 4, 5, 0, 0), q(GEMM_E4M3, 4, 5, 0, 0), scales(GEMM_F32, 1, 4, 0, 0);
  const auto expect = [&](auto spoil, const char* text) {
    gemm_quantisation c{};
    c.size = sizeof c;
    c.rows = 4;
    c.cols = 5;
    spoil(c);
    EXPECT_EQ(gemm_quantise(&c, x.data(), q.data(), static_cast<float*>(scales.data()), nullptr,
                            GEMM_CURRENT_DEVICE),
              GEMM_BAD_ARGUMENT)
        << text;
    EXPECT_THAT(gemm_last_error(), HasSubstr(text));
  };
  expect([](auto& c) { c.size = 0; }, "gemm_quantisation.size is 0");
  expect([](auto& c) { c.scale_of = 4; }, "scale_of is 4: allowed are GEMM_SCALE_TENSOR to ");
  expect([](auto& c) { c.type_x = GEMM_E4M3; }, "type_x is 3: allowed are GEMM_F32 to GEMM_BF16");
  expect([](auto& c) { c.type_q = GEMM_F16; }, "type_q is 1: allowed are GEMM_E4M3 and GEMM_E5M2");
  expect([](auto& c) { c.rows = -1; }, "rows is -1");
  expect([](auto& c) { c.ldq = 4; }, "ldq is 4: allowed are 5");
  expect([](auto& c) { c.scale_of = GEMM_SCALE_BLOCK_ROW, c.ld_scales = 3; },
         "ld_scales is 3: allowed are 4 or more");
}

TEST_F(Library, AlphaAndBeta) {
  for (const Types types : TYPES)
    for (const float alpha : {0.0f, 1.0f, -2.0f})
      for (const float beta : {0.0f, 1.0f, 3.0f}) {
        SCOPED_TRACE(testing::Message() << types.name << " alpha " << alpha << " beta " << beta);
        Product p(types, 33, 70, 40);
        const gemm_plan plan = planned(p.problem);
        p.epilogue.alpha = alpha;
        p.epilogue.beta = beta;
        for (const bool by_plan : {false, true}) {
          p.fill();
          ASSERT_EQ(by_plan ? p.run(plan) : p.matmul(), GEMM_OK) << gemm_last_error();
          EXPECT_EQ(p.wrong(), "");
        }
      }
}

TEST_F(Library, Activations) {
  for (const Types types : TYPES)
    for (int activation = GEMM_ACTIVATION_NONE; activation <= GEMM_ACTIVATION_GELU_ERF;
         ++activation)
      for (const float beta : {0.0f, 1.0f}) {
        SCOPED_TRACE(testing::Message()
                     << types.name << " activation " << activation << " beta " << beta);
        Product p(types, 33, 70, 40);
        const gemm_plan plan = planned(p.problem);
        p.epilogue.beta = beta;
        p.epilogue.activation = activation;
        p.epilogue.slope = 0.25f;
        for (const bool by_plan : {false, true}) {
          p.fill();
          ASSERT_EQ(by_plan ? p.run(plan) : p.matmul(), GEMM_OK) << gemm_last_error();
          EXPECT_EQ(p.wrong(), "");
        }
      }
}

// Each operand of the epilogue alone, and all of them; where groups of 16 bytes are whole, and where
// they are not.
TEST_F(Library, EpilogueOperands) {
  constexpr int ALL = 31;
  for (const Types types : TYPES)
    for (const int which : {1, 2, 4, 8, 16, ALL})
      for (const int skew : {0, 1}) {
        SCOPED_TRACE(testing::Message() << types.name << " operands " << which << " skew " << skew);
        Product p(types, 35, skew == 0 ? 72 : 71, 40);
        const gemm_plan plan = planned(p.problem);
        p.with_operands(which, skew);
        if (which == ALL) p.epilogue.activation = GEMM_ACTIVATION_RELU;
        for (const bool by_plan : {false, true}) {
          p.fill();
          ASSERT_EQ(by_plan ? p.run(plan) : p.matmul(), GEMM_OK) << gemm_last_error();
          EXPECT_EQ(p.wrong(), "");
        }
        if (p.residual != nullptr) {
          EXPECT_TRUE(p.residual->only_elements_written());
        }
      }
}

// C of a gate and a value for each of its columns, by the type's best kernel, the naive one and a plan.
TEST_F(Library, Gates) {
  for (const Types types : TYPES)
    for (const int n : {72, 70, 2, 0})
      for (const int pad : {0, 4})
        for (const int32_t activation : {GEMM_ACTIVATION_RELU, GEMM_ACTIVATION_SILU}) {
          SCOPED_TRACE(testing::Message() << types.name << " n " << n << " pad " << pad);
          Product p(types, 35, n, 40, GEMM_N, types.name[0] == 't' ? GEMM_N : GEMM_T, pad, 0, true);
          p.with_operands(15, 0);
          p.epilogue.activation = activation;
          const gemm_plan plan = planned(p.problem);
          for (const bool by_plan : {false, true}) {
            p.fill();
            ASSERT_EQ(by_plan ? p.run(plan) : p.matmul(), GEMM_OK) << gemm_last_error();
            EXPECT_EQ(p.wrong(), "");
          }
        }
  Product p(TYPES[0], 35, 70, 40, GEMM_N, GEMM_N, 0, 0, true);
  gemm_plan plan;
  ASSERT_EQ(gemm_plan_create_with(&p.problem, GEMM_CURRENT_DEVICE, "v6", &plan), GEMM_OK);
  EXPECT_GE(workspace_of(plan), size_t{35 * 70 * 4});  // the product, before its pass
  ASSERT_EQ(p.run(plan), GEMM_OK) << gemm_last_error();
  EXPECT_EQ(p.wrong(), "");
}

TEST_F(Library, BadGates) {
  Product p(TYPES[2], 16, 24, 8);
  const auto expect = [&](auto spoil, gemm_status status, const char* text) {
    gemm_problem problem = p.problem;
    problem.gated = 1;
    gemm_epilogue e = GEMM_EPILOGUE_DEFAULT;
    spoil(problem, e);
    EXPECT_EQ(
        gemm_matmul(&problem, &e, p.a.data(), p.b.data(), p.c.data(), nullptr, GEMM_CURRENT_DEVICE),
        status)
        << text;
    EXPECT_THAT(gemm_last_error(), HasSubstr(text));
  };
  expect([](auto& q, auto&) { q.gated = 2; }, GEMM_BAD_ARGUMENT, "gated is 2: allowed are 0 and 1");
  expect([](auto& q, auto&) { q.invariant = 2; }, GEMM_BAD_ARGUMENT,
         "invariant is 2: allowed are 0 and 1");
  expect([](auto& q, auto&) { q.n = 23; }, GEMM_BAD_ARGUMENT,
         "n is 23: a gated product has an even number of columns");
  expect([](auto& q, auto&) { q.ldc = 11; }, GEMM_BAD_ARGUMENT,
         "the rows of C lie 11 elements apart: allowed are 12");
  expect([](auto&, auto& e) { e.beta = 1; }, GEMM_BAD_ARGUMENT,
         "a gated product is twice as wide as C: beta is 0 then");
  expect([&](auto&, auto& e) { e.residual = p.c.data(); }, GEMM_BAD_ARGUMENT, "without a residual");
  gemm_problem problem = p.problem;
  problem.gated = 1;
  EXPECT_EQ(gemm_grouped_matmul(&problem, nullptr, p.a.data(), p.b.data(), p.c.data(), nullptr,
                                nullptr, GEMM_CURRENT_DEVICE),
            GEMM_UNSUPPORTED);
  EXPECT_THAT(gemm_last_error(), HasSubstr("groups are not gated"));
}

// A structure as programs have it that were compiled before it had operands.
TEST_F(Library, AnEpilogueWithoutOperands) {
  Product p(TYPES[0], 16, 24, 8);
  p.with_operands(31, 0);
  p.epilogue.size = 20;
  p.epilogue.beta = 0;
  p.fill();
  ASSERT_EQ(p.matmul(), GEMM_OK) << gemm_last_error();
  for (auto* operand : {&p.bias, &p.row_bias, &p.scale_columns, &p.scale_rows, &p.residual})
    operand->reset();
  EXPECT_EQ(p.wrong(), "");
}

// The default is a hundredth; any other number is data too.
TEST_F(Library, TheSlopeOfLeakyRelu) {
  Product p(TYPES[0], 33, 70, 40);
  p.epilogue.activation = GEMM_ACTIVATION_LEAKY_RELU;
  EXPECT_EQ(p.epilogue.slope, 0.01f);
  for (const float slope : {0.0f, -2.0f, 0.5f}) {
    p.epilogue.slope = slope;
    p.fill();
    ASSERT_EQ(p.matmul(), GEMM_OK) << gemm_last_error();
    EXPECT_EQ(p.wrong(), "") << slope;
  }
}

TEST_F(Library, NoPointersWhereNothingIsRead) {
  Product p(TYPES[2], 16, 24, 8);
  p.epilogue.alpha = 0;
  p.epilogue.beta = 1;
  p.fill();
  EXPECT_EQ(gemm_matmul(&p.problem, &p.epilogue, nullptr, nullptr, p.c.data(), nullptr, 0), GEMM_OK)
      << gemm_last_error();
  EXPECT_EQ(p.wrong(), "");
  gemm_problem nothing = p.problem;
  nothing.m = 0;
  EXPECT_EQ(gemm_matmul(&nothing, nullptr, nullptr, nullptr, nullptr, nullptr, 0), GEMM_OK)
      << gemm_last_error();
}

// The product where k or alpha is 0: 0, whatever would multiply it.
TEST_F(Library, NoProductIsZeroTimesNaN) {
  constexpr int SCALES = 12;
  for (const Types types : TYPES)
    for (const int k : {0, 40})
      for (const float factor : {NAN, INFINITY}) {
        SCOPED_TRACE(testing::Message() << types.name << " k " << k << " factor " << factor);
        Product p(types, 33, 70, k);
        const gemm_plan plan = planned(p.problem);
        p.with_operands(SCALES, 0);
        p.scale_columns->fill([&](int64_t, int64_t) { return factor; });
        const auto factors = std::move(p.scale_columns);  // none in what is wanted
        p.epilogue.beta = 3;
        for (const bool by_plan : {false, true}) {
          p.epilogue.alpha = k == 0 ? factor : 0;
          p.fill();
          ASSERT_EQ(by_plan ? p.run(plan) : p.matmul(), GEMM_OK) << gemm_last_error();
          p.epilogue.alpha = 0;
          EXPECT_EQ(p.wrong(), "");
        }
      }
}

TEST_F(Library, TheCppFace) {
  Product p(TYPES[0], 33, 40, 20, GEMM_N, GEMM_N, 4);
  const auto data = [](const Matrix& x) { return static_cast<float*>(x.data()); };
  const gemm::Problem problem{
      .m = 33, .n = 40, .k = 20, .lda = p.a.ld(), .ldb = p.b.ld(), .ldc = p.c.ld()};
  gemm::matmul(problem, data(p.a), data(p.b), data(p.c));
  EXPECT_EQ(p.wrong(), "");
  const gemm::Plan<float> plan(problem);
  EXPECT_NE(plan.explain(), "");
  p.epilogue.alpha = 2;
  p.epilogue.beta = -1;
  p.fill();
  plan.run(data(p.a), data(p.b), data(p.c), {.alpha = 2, .beta = -1});
  EXPECT_EQ(p.wrong(), "");
  p.epilogue.activation = GEMM_ACTIVATION_LEAKY_RELU;
  p.epilogue.slope = 0.5f;
  p.fill();
  const gemm::Plan<float> naive(problem, GEMM_CURRENT_DEVICE, "v1");
  EXPECT_EQ(naive.explain(), "v01_naive");
  naive.run(data(p.a), data(p.b), data(p.c),
            {.alpha = 2, .beta = -1, .activation = GEMM_ACTIVATION_LEAKY_RELU, .slope = 0.5f});
  EXPECT_EQ(p.wrong(), "");
  try {
    gemm::matmul({.m = -1}, data(p.a), data(p.b), data(p.c));
    ADD_FAILURE() << "no error";
  } catch (const gemm::Error& e) {
    EXPECT_EQ(e.status, GEMM_BAD_ARGUMENT);
    EXPECT_STREQ(e.what(), "m is -1: allowed are 0 to 2147482623");
  }
}

// Batches
// -------------------------------------------------------------------------------------------------

// A batch as one product of its own size would be called, again and again.
struct Strides {
  int64_t a, b, c, ldc;
};
void expect_batch(Types types, int64_t m, int64_t n, int64_t k, int64_t count, Strides s,
                  float beta = 0, const char* rung = nullptr) {
  SCOPED_TRACE(testing::Message() << types.name << " " << m << "x" << n << "x" << k << " strides "
                                  << s.a << " " << s.b << " " << s.c);
  gemm_problem problem = GEMM_PROBLEM_DEFAULT;
  problem.m = m, problem.n = n, problem.k = k, problem.ldc = s.ldc;
  problem.type_a = problem.type_b = types.in, problem.type_c = types.out;
  problem.compute = types.compute;
  problem.batch = count;
  problem.stride_a = s.a, problem.stride_b = s.b, problem.stride_c = s.c;
  const int64_t ldc = s.ldc == 0 ? n : s.ldc;
  // Matrices of all products, as one row each; C also with what follows it.
  Matrix a(types.in, 1, (count - 1) * s.a + m * k, 0, 0);
  Matrix b(types.in, 1, (count - 1) * s.b + k * n, 0, 0);
  Matrix c(types.out, 1, (count - 1) * s.c + m * ldc + 9, 0, 0);
  a.fill([](int64_t, int64_t i) { return float(i * 7 % 13 % 3 - 1); });
  b.fill([](int64_t, int64_t i) { return float(i * 3 % 11 % 3 - 1); });
  const auto was = [](int64_t i) { return float(i % 7 - 3); };
  c.fill([&](int64_t, int64_t i) { return was(i); });
  gemm_epilogue epilogue = GEMM_EPILOGUE_DEFAULT;
  epilogue.beta = beta;
  if (rung != nullptr) {
    gemm_plan plan;
    ASSERT_EQ(gemm_plan_create_with(&problem, GEMM_CURRENT_DEVICE, rung, &plan), GEMM_OK)
        << gemm_last_error();
    ASSERT_EQ(gemm_run(&plan, &epilogue, a.data(), b.data(), c.data(), nullptr), GEMM_OK)
        << gemm_last_error();
  } else {
    ASSERT_EQ(gemm_matmul(&problem, &epilogue, a.data(), b.data(), c.data(), nullptr,
                          GEMM_CURRENT_DEVICE),
              GEMM_OK)
        << gemm_last_error();
  }
  wait();
  c.read();
  std::vector<float> want((count - 1) * s.c + m * ldc + 9);
  for (size_t i = 0; i < want.size(); ++i) want[i] = was(int64_t(i));
  for (int64_t p = 0; p < count; ++p)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += a.at(0, p * s.a + i * k + l) * b.at(0, p * s.b + l * n + j);
        float& to = want[p * s.c + i * ldc + j];
        to = sum + (beta == 0 ? 0 : beta * to);
      }
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(c.at(0, int64_t(i)), want[i]) << "element " << i << " of C's memory";
}

TEST_F(Library, Batches) {
  for (const Types types : TYPES) {
    const int64_t m = 70, n = 40, k = 24;
    expect_batch(types, m, n, k, 3, {m * k, k * n, m * n, 0});
    expect_batch(types, m, n, k, 3, {m * k + 8, k * n + 16, m * n + 24, 0}, 2);
    expect_batch(types, m, n, k, 5, {0, k * n, m * n, 0});              // one A
    expect_batch(types, m, n, k, 5, {m * k, 0, m * n, 0}, -1);          // one B
    expect_batch(types, m, n, k, 3, {m * k + 1, k * n, m * n + 3, 0});  // no whole 16 bytes
    expect_batch(types, m, n, k, 4, {m * k, k * n, n, 4 * n});          // beside each other in C
    expect_batch(types, m, 33, k, 2, {m * k, k * 33, m * 33 + 2, 0}, 1);
    expect_batch(types, m, n, 0, 2, {0, 0, m * n, 0}, 2);
    expect_batch(types, 17, 9, 5, 70, {17 * 5 + 1, 5 * 9 + 3, 17 * 9, 0});
    expect_batch(types, m, n, k, 1, {0, 0, 0, 0});
  }
  for (const char* rung : {"v6", "v13"})
    expect_batch(TYPES[0], 70, 40, 24, 3, {70 * 24 + 1, 24 * 40, 70 * 40, 0}, 1, rung);
}

// Products of one shape at any addresses; `skew` elements past 256 bytes, more for each, where they do
// not lie at equal distances.
void expect_pointers(Types types, int64_t count, int skew, bool gated = false, float beta = 0) {
  SCOPED_TRACE(testing::Message() << types.name << " " << count << " products, skew " << skew);
  std::vector<std::unique_ptr<Product>> all;
  std::vector<const void*> a, b;
  std::vector<void*> c;
  for (int64_t i = 0; i < count; ++i) {
    all.push_back(
        std::make_unique<Product>(types, 35, 40, 24, GEMM_N, GEMM_N, 0, int(i) * skew, gated));
    Product& p = *all.back();
    p.epilogue.beta = beta;
    p.fill();
    p.a.fill([&](int64_t r, int64_t s) { return float((r * 7 + s * 5 + i) % 3 - 1); });
    a.push_back(p.a.data());
    b.push_back(p.b.data());
    c.push_back(p.c.data());
  }
  gemm_problem problem = all[0]->problem;
  problem.batch = count;
  problem.stride_a = -1;  // no stride counts
  ASSERT_EQ(gemm_batched_matmul(&problem, &all[0]->epilogue, a.data(), b.data(), c.data(), nullptr,
                                GEMM_CURRENT_DEVICE),
            GEMM_OK)
      << gemm_last_error();
  for (const auto& p : all) EXPECT_EQ(p->wrong(), "");
}

TEST_F(Library, BatchesOfPointers) {
  for (const Types types : TYPES) {
    expect_pointers(types, 1, 0);
    expect_pointers(types, 5, 0);
    expect_pointers(types, 4, 1);
    expect_pointers(types, 3, 1, false, 2);
    expect_pointers(types, 3, 0, true);
  }
}

// Equal distances are a batch of one launch, and shared operands are none of several.
TEST_F(Library, EquallySpacedPointersAreABatch) {
  const int64_t m = 70, n = 40, k = 24, count = 3;
  for (const Types types : TYPES) {
    const auto bytes = [](int32_t type, int64_t elements) {
      return elements * static_cast<int64_t>(bytes_of(type));
    };
    Matrix a(types.in, count, m * k, 0, 0), b(types.in, 1, k * n, 0, 0);
    Matrix c(types.out, count, m * n, 0, 0);
    a.fill([](int64_t i, int64_t j) { return float((i + j * 7) % 13 % 3 - 1); });
    b.fill([](int64_t, int64_t i) { return float(i * 3 % 11 % 3 - 1); });
    c.fill([](int64_t, int64_t) { return NAN; });
    std::vector<const void*> pa, pb(count, b.data());
    std::vector<void*> pc;
    for (int64_t i = 0; i < count; ++i) {
      pa.push_back(static_cast<const char*>(a.data()) + bytes(types.in, i * m * k));
      pc.push_back(static_cast<char*>(c.data()) + bytes(types.out, i * m * n));
    }
    gemm_problem problem = Product(types, m, n, k).problem;
    problem.batch = count;
    const auto multiply = [&] {
      return gemm_batched_matmul(&problem, nullptr, pa.data(), pb.data(), pc.data(), nullptr,
                                 GEMM_CURRENT_DEVICE);
    };
    ASSERT_EQ(multiply(), GEMM_OK) << gemm_last_error();
    std::swap(pa[0], pa[2]), std::swap(pc[0], pc[2]);  // falling: a launch each, the same results
    ASSERT_EQ(multiply(), GEMM_OK) << gemm_last_error();
    std::swap(pa[0], pa[1]), std::swap(pc[0], pc[1]);
    ASSERT_EQ(multiply(), GEMM_OK) << gemm_last_error();
    wait();
    c.read();
    for (int64_t p = 0; p < count; ++p)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (int64_t l = 0; l < k; ++l) sum += a.at(p, i * k + l) * b.at(0, l * n + j);
          ASSERT_EQ(c.at(p, i * n + j), sum) << types.name << " product " << p;
        }
  }
}

TEST_F(Library, BadBatchesOfPointers) {
  Product p(TYPES[2], 16, 24, 8);
  const void* a[2] = {p.a.data(), p.a.data()};
  const void* b[2] = {p.b.data(), p.b.data()};
  void* c[2] = {p.c.data(), p.c.data()};
  const auto call = [&](int64_t batch, const gemm_epilogue& e, const void* const* as) {
    gemm_problem problem = p.problem;
    problem.batch = batch;
    return gemm_batched_matmul(&problem, &e, as, b, c, nullptr, GEMM_CURRENT_DEVICE);
  };
  gemm_epilogue e = GEMM_EPILOGUE_DEFAULT;
  EXPECT_EQ(call(0, e, nullptr), GEMM_OK) << gemm_last_error();  // no products
  EXPECT_EQ(call(-1, e, a), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("batch is -1: allowed are 0 to "));
  EXPECT_EQ(call(2, e, nullptr), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("an array of pointers is a null pointer"));
  a[1] = nullptr;
  EXPECT_EQ(call(2, e, a), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("product 1: A is a null pointer"));
  a[1] = static_cast<const char*>(p.a.data()) + 1;
  EXPECT_EQ(call(2, e, a), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("product 1: A is not aligned to its elements"));
  a[1] = a[0];
  e.residual = p.c.data();
  EXPECT_EQ(call(2, e, a), GEMM_UNSUPPORTED);
  EXPECT_THAT(gemm_last_error(), HasSubstr("a batch takes no residual"));
}

// Groups
// -------------------------------------------------------------------------------------------------

// Numbers in the memory that the library computes on.
class Ends {
 public:
  explicit Ends(const std::vector<int32_t>& ends)
      : memory_(allocate(ends.size() * sizeof(int32_t) + 1)) {
    copy(memory_, ends.data(), ends.size() * sizeof(int32_t));
  }
  ~Ends() { release(memory_); }
  Ends(const Ends&) = delete;
  const int32_t* data() const { return static_cast<const int32_t*>(memory_); }

 private:
  void* memory_;
};

// `ends` as the library should read them: those that fall or lie beyond m are no other group's rows.
void expect_groups(Types types, const std::vector<int32_t>& ends, int64_t m, int64_t n, int64_t k,
                   gemm_op op_b, float beta = 0, int64_t skew = 0) {
  SCOPED_TRACE(testing::Message() << types.name << " " << m << "x" << n << "x" << k << " op_b "
                                  << op_b << " beta " << beta << " skew " << skew);
  gemm_problem problem = GEMM_PROBLEM_DEFAULT;
  problem.m = m, problem.n = n, problem.k = k, problem.op_b = op_b;
  problem.type_a = problem.type_b = types.in, problem.type_c = types.out;
  problem.compute = types.compute;
  problem.batch = int64_t(ends.size()), problem.stride_b = n * k;
  Matrix a(types.in, m, k, 0, skew), b(types.in, problem.batch, n * k, 0, skew);
  Matrix c(types.out, m, n, 0, skew);
  a.fill([](int64_t row, int64_t col) { return float((row * 7 + col) % 13 % 3 - 1); });
  b.fill([](int64_t row, int64_t col) { return float((row * 5 + col * 3) % 11 % 3 - 1); });
  const auto was = [](int64_t row, int64_t col) { return float((row + col) % 7 - 3); };
  c.fill(was);
  gemm_epilogue epilogue = GEMM_EPILOGUE_DEFAULT;
  epilogue.beta = beta;
  const Ends on_device(ends);
  ASSERT_EQ(gemm_grouped_matmul(&problem, &epilogue, a.data(), b.data(), c.data(), on_device.data(),
                                nullptr, GEMM_CURRENT_DEVICE),
            GEMM_OK)
      << gemm_last_error();
  wait();
  c.read();
  EXPECT_TRUE(c.only_elements_written());
  int64_t first = 0;
  for (size_t group = 0; group <= ends.size(); ++group) {
    const bool is_group = group < ends.size();  // else the rows that belong to none
    const int64_t end = is_group ? std::clamp<int64_t>(ends[group], first, m) : m;
    for (int64_t i = first; i < end; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float want = was(i, j);
        if (is_group) {
          want = beta == 0 ? 0 : beta * want;
          for (int64_t l = 0; l < k; ++l)
            want += a.at(i, l) * b.at(int64_t(group), op_b == GEMM_N ? l * n + j : j * k + l);
        }
        ASSERT_EQ(c.at(i, j), want) << "C[" << i << "][" << j << "] of group " << group;
      }
    first = end;
  }
}

TEST_F(Library, Groups) {
  for (const Types types : TYPES)
    for (const gemm_op op : {GEMM_N, GEMM_T}) {
      if (op == GEMM_T && types.compute == GEMM_COMPUTE_TF32) continue;  // no kernel takes it
      expect_groups(types, {0, 70, 70, 73, 150, 150}, 150, 40, 24, op);
      expect_groups(types, {0, 70, 70, 73, 150, 150}, 150, 40, 24, op, -1, 1);  // no 16 bytes
      expect_groups(types, {20}, 90, 40, 24, op);         // the rows behind it stay
      expect_groups(types, {0, 0}, 30, 40, 24, op, 2);    // as all do here
      expect_groups(types, {30, 65}, 65, 33, 21, op, 1);  // rows off 16 bytes
      expect_groups(types, {30, 65}, 65, 40, 0, op, 1);
      expect_groups(types, {-5, 50, 20, 1000}, 65, 40, 24, op);  // a caller's mistake
    }
}

TEST_F(Library, GroupsOfNothing) {
  gemm_problem p = GEMM_PROBLEM_DEFAULT;
  p.batch = 2, p.n = 8, p.k = 8, p.stride_b = 64;
  const Ends ends({0, 0});
  char any[256];
  EXPECT_EQ(
      gemm_grouped_matmul(&p, nullptr, any, any, any, ends.data(), nullptr, GEMM_CURRENT_DEVICE),
      GEMM_OK)
      << gemm_last_error();
}

TEST_F(Library, BadGroups) {
  const Ends ends({16});
  const auto refused = [&](const std::function<void(gemm_problem&, gemm_epilogue&)>& spoil,
                           gemm_status status, const char* text, const int32_t* at) {
    Product p(TYPES[2], 16, 8, 8);
    p.problem.batch = 1;
    gemm_epilogue e = GEMM_EPILOGUE_DEFAULT;
    spoil(p.problem, e);
    EXPECT_EQ(gemm_grouped_matmul(&p.problem, &e, p.a.data(), p.b.data(), p.c.data(), at, nullptr,
                                  GEMM_CURRENT_DEVICE),
              status);
    EXPECT_THAT(gemm_last_error(), HasSubstr(text));
  };
  const auto nothing = [](gemm_problem&, gemm_epilogue&) {};
  refused(nothing, GEMM_BAD_ARGUMENT, "ends is a null pointer", nullptr);
  refused(nothing, GEMM_BAD_ARGUMENT, "ends is not aligned to its elements of 4 bytes",
          reinterpret_cast<const int32_t*>(reinterpret_cast<uintptr_t>(ends.data()) + 1));
  refused([](auto& p, auto&) { p.batch = -1; }, GEMM_BAD_ARGUMENT, "batch is -1", ends.data());
  refused([](auto& p, auto&) { p.batch = 2, p.stride_b = -8; }, GEMM_BAD_ARGUMENT,
          "the products' B lie -8 elements apart", ends.data());
  refused([&](auto&, auto& e) { e.scale_rows = reinterpret_cast<const float*>(ends.data()); },
          GEMM_UNSUPPORTED, "groups take alpha, beta and an activation", ends.data());
  refused([](auto&, auto& e) { e.activation = GEMM_ACTIVATION_GELU_ERF; }, GEMM_UNSUPPORTED,
          "groups take alpha, beta and an activation", ends.data());
}

TEST_F(Library, ABatchIsPlannedAsAWhole) {
  gemm_problem p = Product(TYPES[2], 256, 256, 256).problem;
  p.batch = 128;
  p.stride_a = p.stride_b = p.stride_c = 256 * 256;
#ifndef LIBRARY_ON_GPU
  EXPECT_THAT(explained(planned(p)), HasSubstr(", of 128 products"));
#endif
  EXPECT_EQ(workspace_of(planned(p)), 0u);
  EXPECT_THAT(explained(planned(Product(TYPES[2], 256, 256, 256).problem)),
              testing::Not(HasSubstr("products")));
  // Rows that TMA cannot address are copied, one product after the other in the same memory.
  p.stride_a += 1;
  const size_t one = workspace_of(planned(p));
  p.batch = 2;
  EXPECT_EQ(workspace_of(planned(p)), one);
}

// The products of a batch share the epilogue's vectors; a residual is of one product.
TEST_F(Library, BatchesWithOperands) {
  for (const Types types : TYPES)
    for (const int64_t n : {40, 33}) {
      const int64_t m = 70, k = 24, count = 3, gap = n == 40 ? 8 : 1;
      SCOPED_TRACE(testing::Message() << types.name << " n " << n);
      Product vectors(types, int(m), int(n), int(k));
      vectors.with_operands(15, 1);
      gemm_problem problem = vectors.problem;
      problem.ldc = 0;
      problem.batch = count;
      problem.stride_a = m * k, problem.stride_b = k * n, problem.stride_c = m * n + gap;
      Matrix a(types.in, 1, count * m * k, 0, 0), b(types.in, 1, count * k * n, 0, 0);
      Matrix c(types.out, 1, count * problem.stride_c, 0, 0);
      a.fill([](int64_t, int64_t i) { return float(i * 7 % 13 % 3 - 1); });
      b.fill([](int64_t, int64_t i) { return float(i * 3 % 11 % 3 - 1); });
      c.fill([](int64_t, int64_t) { return 77.0f; });
      gemm_epilogue& e = vectors.epilogue;
      const auto multiply = [&] {
        return gemm_matmul(&problem, &e, a.data(), b.data(), c.data(), nullptr,
                           GEMM_CURRENT_DEVICE);
      };
      ASSERT_EQ(multiply(), GEMM_OK) << gemm_last_error();
      wait();
      c.read();
      for (int64_t p = 0; p < count; ++p)
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (int64_t l = 0; l < k; ++l)
              sum += a.at(0, p * m * k + i * k + l) * b.at(0, p * k * n + l * n + j);
            const float want =
                vectors.scale_rows->at(0, i) * vectors.scale_columns->at(0, j) * sum +
                vectors.bias->at(0, j) + vectors.row_bias->at(0, i);
            ASSERT_EQ(c.at(0, p * problem.stride_c + i * n + j), want)
                << "product " << p << " C[" << i << "][" << j << "]";
          }
      EXPECT_EQ(c.at(0, m * n), 77.0f) << "between products";
      e.residual = c.data();
      EXPECT_EQ(multiply(), GEMM_UNSUPPORTED);
      EXPECT_THAT(gemm_last_error(), HasSubstr("a batch takes no residual"));
    }
}

TEST_F(Library, BadBatches) {
  Product good(TYPES[2], 16, 24, 8);
  const auto expect = [&](auto spoil, const char* text) {
    gemm_problem p = good.problem;
    p.batch = 3, p.stride_a = 128, p.stride_b = 192, p.stride_c = 384;
    spoil(p);
    gemm_plan plan;
    EXPECT_EQ(gemm_plan_create(&p, GEMM_CURRENT_DEVICE, &plan), GEMM_BAD_ARGUMENT) << text;
    EXPECT_THAT(gemm_last_error(), HasSubstr(text));
  };
  expect([](auto& p) { p.batch = -1; }, "batch is -1: allowed are 0 to 2147483647");
  expect([](auto& p) { p.batch = int64_t{1} << 31; }, "batch is 2147483648");
  expect([](auto& p) { p.stride_a = -1; }, "the products' A lie -1 elements apart");
  expect([](auto& p) { p.stride_b = INT64_MAX / 8; }, "the products' B lie ");
  expect([](auto& p) { p.stride_c = 383; }, "stride_c is 383: the products of C overlap");
  expect([](auto& p) { p.stride_c = 0; }, "stride_c is 0: ");
  expect([](auto& p) { p.stride_c = 24, p.ldc = 71; }, "stride_c is 24: ");
  good.problem.batch = 1;
  good.problem.stride_c = -1;  // of one product no stride counts
  EXPECT_EQ(good.matmul(), GEMM_OK) << gemm_last_error();
  EXPECT_EQ(good.wrong(), "");
}

// A program that was compiled before there were batches.
TEST_F(Library, AProblemWithoutABatch) {
  Product p(TYPES[2], 16, 24, 8);
  p.problem.batch = 1000000;  // what follows the structure that the program knows
  p.problem.size = 88;
  EXPECT_EQ(p.matmul(), GEMM_OK) << gemm_last_error();
  EXPECT_EQ(p.wrong(), "");
}

// Plans
// -------------------------------------------------------------------------------------------------

TEST_F(Library, APlanServesOtherPointers) {
  Product first(TYPES[2], 65, 72, 40), second(TYPES[2], 65, 72, 40);
  const gemm_plan plan = planned(first.problem), same = plan;  // a value
  ASSERT_EQ(first.run(plan), GEMM_OK) << gemm_last_error();
  ASSERT_EQ(second.run(same), GEMM_OK) << gemm_last_error();
  EXPECT_EQ(first.wrong(), "");
  EXPECT_EQ(second.wrong(), "");
}

TEST_F(Library, APlanHoldsForPointersAlignedAsPlanned) {
  Product aligned(TYPES[2], 65, 72, 40), skewed(TYPES[2], 65, 72, 40, GEMM_N, GEMM_N, 0, 1);
  const gemm_plan strict = planned(aligned.problem), loose = planned(skewed.problem);
  EXPECT_EQ(skewed.run(strict), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("A is aligned to 2 bytes, and the plan is for 128"));
  ASSERT_EQ(skewed.run(loose), GEMM_OK) << gemm_last_error();
  EXPECT_EQ(skewed.wrong(), "");
  ASSERT_EQ(aligned.run(loose), GEMM_OK) << gemm_last_error();  // better than planned
  EXPECT_EQ(aligned.wrong(), "");
}

// What was measured takes the estimate's place, for exactly that problem.
TEST_F(Library, MeasuredVariantsArePlanned) {
  const std::string file = testing::TempDir() + "gemm_tuning.json";
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  const auto entry = [](const char* gpu, const char* rung, const char* variants) {
    return R"({"gpu": ")" + std::string(gpu) + R"(", "rung": ")" + rung +
           R"(", "dtype": "f16", "ops": "nn", "shape": [512, 256, 128], "ld_pad": 0, "revision": "",
            "variants": [)" +
           variants + "]}";
  };
  // The fastest is gone from the rung, and what another card has measured does not count.
  write(R"({"format": 1, "measured": [)" +
        entry("NVIDIA H200", "v27_engine", R"({"name": "no such", "tflops": 99},
              {"name": "128x256", "tflops": 30}, {"name": "64x128", "tflops": 20})") +
        "," + entry("NVIDIA H200", "v28_dispatch", R"({"name": "v27", "tflops": 25})") + "," +
        entry("NVIDIA H100", "v27_engine", R"({"name": "192x192", "tflops": 50})") + "]}");
  Product p(TYPES[2], 512, 256, 128);
  const auto plans = [&] { return explained(planned(p.problem, GEMM_SIMULATOR)); };
  const std::string estimated = plans(), measured = "v27_engine 128x256: ";
  ASSERT_THAT(estimated, Not(HasSubstr(measured)));

  EXPECT_EQ(gemm_use_tuning(file.c_str()), GEMM_OK) << gemm_last_error();
  EXPECT_THAT(plans(), HasSubstr(measured));
  EXPECT_EQ(p.matmul(), GEMM_OK) << gemm_last_error();
  EXPECT_EQ(p.wrong(), "");
  const auto estimates = [&](const char* what, auto change) {
    gemm_problem other = p.problem;
    change(other);
    EXPECT_THAT(explained(planned(other, GEMM_SIMULATOR)), Not(HasSubstr(measured))) << what;
  };
  estimates("another size", [](gemm_problem& q) { q.m = 504; });
  estimates("another layout", [](gemm_problem& q) { q.op_b = GEMM_T; });
  estimates("rows off 16 bytes", [](gemm_problem& q) { q.ldb = 257; });
  p.problem.ldc = 264;
  EXPECT_THAT(plans(), HasSubstr(measured)) << "longer rows, on them too";
  p.problem.ldc = 0;
  estimates("a pointer off 16 bytes", [](gemm_problem& q) { q.align_a = 2; });
  estimates("a batch", [](gemm_problem& q) {
    q.batch = 2, q.stride_a = 1 << 16, q.stride_b = 1 << 15, q.stride_c = 1 << 17;
  });
  estimates("invariant", [](gemm_problem& q) { q.invariant = 1; });
  gemm_plan with_c;
  gemm_epilogue e = GEMM_EPILOGUE_DEFAULT;
  e.beta = 1;
  EXPECT_EQ(gemm_plan_create_for(&p.problem, &e, GEMM_SIMULATOR, &with_c), GEMM_OK);
  EXPECT_THAT(explained(with_c), Not(HasSubstr(measured)));

  EXPECT_EQ(gemm_use_tuning("/nowhere/tuning.json"), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("there is no file \"/nowhere/tuning.json\""));
  EXPECT_THAT(plans(), HasSubstr(measured)) << "what was read before stays";
  write("[1]");
  EXPECT_EQ(gemm_use_tuning(file.c_str()), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("is not a tuning cache"));
  EXPECT_EQ(gemm_use_tuning(""), GEMM_OK);
  EXPECT_EQ(plans(), estimated);
}
// A thread's own plans, too, are made anew: another kernel adds up in another order.
TEST_F(Library, KeptPlansAreMadeAnewForATuning) {
  const std::string file = testing::TempDir() + "gemm_tuning_of_f32.json";
  std::ofstream(file)
      << R"({"format": 1, "measured": [{"gpu": "NVIDIA H200", "rung": "v28_dispatch",
      "dtype": "f32", "ops": "nn", "shape": [64, 64, 512], "ld_pad": 0, "revision": "",
      "variants": [{"name": "v13", "tflops": 1}]}]})";
  Product p(TYPES[0], 64, 64, 512);
  p.a.fill([](int64_t i, int64_t j) { return 1 / float(i + j + 3); });
  const auto results = [&] {
    EXPECT_EQ(p.matmul(), GEMM_OK) << gemm_last_error();
    wait();
    p.c.read();
    std::vector<float> all;
    for (int64_t i = 0; i < 64 * 64; ++i) all.push_back(p.c.at(i / 64, i % 64));
    return all;
  };
  const std::string estimated = explained(planned(p.problem));
  const std::vector<float> before = results();
  EXPECT_EQ(gemm_use_tuning(file.c_str()), GEMM_OK) << gemm_last_error();
  if (explained(planned(p.problem)) != estimated) {  // not another card, nor v13 anyhow
    EXPECT_NE(results(), before);
  }
  EXPECT_EQ(gemm_use_tuning(""), GEMM_OK);
  EXPECT_EQ(results(), before);
}

TEST_F(Library, APlanTellsOfItsKernelAndItsWorkspace) {
  Product aligned(TYPES[2], 1024, 1024, 512),
      skewed(TYPES[2], 1024, 1024, 512, GEMM_N, GEMM_N, 0, 1);
  const gemm_plan plan = planned(aligned.problem);
  const std::string all = explained(plan);
  EXPECT_THAT(all, testing::MatchesRegex("v[0-9]+[a-z]*_.+"));
  char few[8];
  ASSERT_EQ(gemm_plan_explain(&plan, few, sizeof few), GEMM_OK);
  EXPECT_EQ(few, all.substr(0, 7));
  // Unaligned operands are copied.
  EXPECT_GE(workspace_of(planned(skewed.problem)), workspace_of(plan) + 2 * 1024 * 512 * 2);
}

// What an epilogue takes differs from kernel to kernel, so it may be planned for.
TEST_F(Library, APlanForAnEpilogue) {
  gemm_problem p = GEMM_PROBLEM_DEFAULT;
  p.m = 512, p.n = 4096, p.k = 512;
  p.type_a = p.type_b = p.type_c = GEMM_BF16;
  p.op_b = GEMM_T;
  const auto explained_for = [&](const gemm_epilogue& e) {
    gemm_plan plan;
    EXPECT_EQ(gemm_plan_create_for(&p, &e, GEMM_SIMULATOR, &plan), GEMM_OK) << gemm_last_error();
    return explained(plan);
  };
  gemm_epilogue e = GEMM_EPILOGUE_DEFAULT;
  const std::string plain = explained_for(e);
  EXPECT_EQ(explained(planned(p, GEMM_SIMULATOR)), plain);
  e.bias = &p;
  e.activation = GEMM_ACTIVATION_GELU;
  EXPECT_NE(explained_for(e), plain);
  e = GEMM_EPILOGUE_DEFAULT;
  e.residual = &p;
  EXPECT_EQ(explained_for(e), plain);  // beta is 0: nobody reads it
  e.beta = 1;
  EXPECT_NE(explained_for(e), plain);
  e.activation = -1;
  gemm_plan plan;
  EXPECT_EQ(gemm_plan_create_for(&p, &e, GEMM_SIMULATOR, &plan), GEMM_BAD_ARGUMENT);
}

// Scales beside the call's own C: f32 has an epilogue pass, which still has to read C, so the product
// lies in a workspace.
TEST_F(Library, APlanForScalesCountsTheProduct) {
  gemm_problem p = GEMM_PROBLEM_DEFAULT;
  p.m = p.n = p.k = 256;
  p.type_a = p.type_b = p.type_c = GEMM_F32;
  gemm_epilogue e = GEMM_EPILOGUE_DEFAULT;
  const float somewhere = 0;
  e.scale_columns = &somewhere;
  gemm_plan plan;
  ASSERT_EQ(gemm_plan_create_for(&p, &e, GEMM_SIMULATOR, &plan), GEMM_OK) << gemm_last_error();
  const size_t without = workspace_of(plan);
  e.beta = 1;
  ASSERT_EQ(gemm_plan_create_for(&p, &e, GEMM_SIMULATOR, &plan), GEMM_OK) << gemm_last_error();
  EXPECT_GE(workspace_of(plan), without + 256 * 256 * sizeof(float));
}

TEST_F(Library, ManyShapesGoThroughThePlansThatAThreadKeeps) {
  for (int round = 0; round < 2; ++round)
    for (int n = 1; n <= 300; ++n) {
      Product p(TYPES[0], 2, n, 3);
      ASSERT_EQ(p.matmul(), GEMM_OK) << gemm_last_error();
      ASSERT_EQ(p.wrong(), "") << n;
    }
}

// Threads
// -------------------------------------------------------------------------------------------------

TEST_F(Library, ThreadsCallAtOnce) {
  Product shared(TYPES[2], 96, 80, 64);
  const gemm_plan plan = planned(shared.problem);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&plan, t] {
      for (int i = 0; i < 5; ++i) {
        Product own(TYPES[t], 40 + 8 * t + i, 70, 33), of_plan(TYPES[2], 96, 80, 64);
        EXPECT_EQ(own.matmul(), GEMM_OK) << gemm_last_error();
        EXPECT_EQ(of_plan.run(plan), GEMM_OK) << gemm_last_error();
        EXPECT_EQ(own.wrong(), "");
        EXPECT_EQ(of_plan.wrong(), "");
        gemm_problem bad = own.problem;  // its error is this thread's
        bad.m = -1 - t;
        EXPECT_EQ(gemm_matmul(&bad, nullptr, nullptr, nullptr, nullptr, nullptr, 0),
                  GEMM_BAD_ARGUMENT);
        EXPECT_THAT(gemm_last_error(), HasSubstr("m is -" + std::to_string(1 + t) + ":"));
      }
    });
}

// Bad arguments: a status and one clear line
// -------------------------------------------------------------------------------------------------

TEST_F(Library, BadProblems) {
  struct Case {
    std::function<void(gemm_problem&)> spoil;
    gemm_status status;
    const char* text;
  };
  const Case cases[] = {
      {[](auto& p) { p.m = -1; }, GEMM_BAD_ARGUMENT, "m is -1: allowed are 0 to 2147482623"},
      {[](auto& p) { p.n = int64_t{1} << 31; }, GEMM_BAD_ARGUMENT, "n is 2147483648: "},
      {[](auto& p) { p.k = INT64_MIN; }, GEMM_BAD_ARGUMENT, "k is -9223372036854775808: "},
      {[](auto& p) { p.lda = 7; }, GEMM_BAD_ARGUMENT,
       "the rows of A lie 7 elements apart: allowed are 8"},
      {[](auto& p) { p.ldb = -24; }, GEMM_BAD_ARGUMENT, "the rows of B lie -24 elements apart"},
      {[](auto& p) { p.ldc = INT64_MAX; }, GEMM_BAD_ARGUMENT, "the rows of C lie 92233720368547"},
      {[](auto& p) { p.op_a = GEMM_T, p.lda = 15; }, GEMM_BAD_ARGUMENT, "allowed are 16"},
      {[](auto& p) { p.op_b = 'T'; }, GEMM_BAD_ARGUMENT, "op_b is 84: allowed are GEMM_N and"},
      {[](auto& p) { p.type_a = 9; }, GEMM_BAD_ARGUMENT, "type_a is 9: allowed are GEMM_F32 to "},
      {[](auto& p) { p.compute = -1; }, GEMM_BAD_ARGUMENT, "compute is -1"},
      {[](auto& p) { p.size = 0; }, GEMM_BAD_ARGUMENT,
       "gemm_problem.size is 0: start from GEMM_PROBLEM_DEFAULT"},
      {[](auto& p) { p.size = ~0u; }, GEMM_BAD_ARGUMENT, "gemm_problem.size is 4294967295: "},
      {[](auto& p) { p.type_b = GEMM_F32; }, GEMM_UNSUPPORTED,
       "no kernel takes A, B and C of the types GEMM_F16, GEMM_F32 and GEMM_F16"},
      {[](auto& p) { p.type_c = GEMM_BF16; }, GEMM_UNSUPPORTED, "GEMM_F16, GEMM_F16 and GEMM_BF16"},
      {[](auto& p) { p.compute = GEMM_COMPUTE_TF32; }, GEMM_UNSUPPORTED, "with GEMM_COMPUTE_TF32"},
  };
  const Product good(TYPES[2], 16, 24, 8);
  for (const Case& c : cases) {
    gemm_problem problem = good.problem;
    c.spoil(problem);
    gemm_plan plan;
    EXPECT_EQ(gemm_plan_create(&problem, 0, &plan), c.status) << c.text;
    EXPECT_THAT(gemm_last_error(), HasSubstr(c.text));
    EXPECT_EQ(
        gemm_matmul(&problem, nullptr, good.a.data(), good.b.data(), good.c.data(), nullptr, 0),
        c.status)
        << c.text;
    EXPECT_THAT(gemm_last_error(), HasSubstr(c.text));
    EXPECT_EQ(std::string(gemm_last_error()).find('\n'), std::string::npos);
    // A plan that was not made runs nothing.
    EXPECT_EQ(good.run(plan), GEMM_BAD_ARGUMENT);
    EXPECT_THAT(gemm_last_error(), HasSubstr("plan was not made by gemm_plan_create"));
  }
}

TEST_F(Library, BadEpilogues) {
  const Product good(TYPES[0], 16, 24, 8);
  const auto expect = [&](gemm_epilogue e, gemm_status status, const char* text) {
    EXPECT_EQ(
        gemm_matmul(&good.problem, &e, good.a.data(), good.b.data(), good.c.data(), nullptr, 0),
        status);
    EXPECT_THAT(gemm_last_error(), HasSubstr(text));
  };
  gemm_epilogue e = GEMM_EPILOGUE_DEFAULT;
  e.activation = 77;
  expect(e, GEMM_BAD_ARGUMENT, "activation is 77: allowed are GEMM_ACTIVATION_NONE to ");
  e = {};
  expect(e, GEMM_BAD_ARGUMENT, "gemm_epilogue.size is 0: start from GEMM_EPILOGUE_DEFAULT");
  e = GEMM_EPILOGUE_DEFAULT;
  e.reserved = 1;
  expect(e, GEMM_BAD_ARGUMENT, "gemm_epilogue.reserved is not 0");
  e = GEMM_EPILOGUE_DEFAULT;
  e.bias = static_cast<const char*>(good.a.data()) + 2;
  expect(e, GEMM_BAD_ARGUMENT, "bias is not aligned to its elements of 4 bytes");
  e = GEMM_EPILOGUE_DEFAULT;
  e.residual = good.a.data();
  e.ld_residual = 23;
  expect(e, GEMM_BAD_ARGUMENT, "the rows of the residual lie 23 elements apart: allowed are 24");
}

// A program whose header is newer than the library: what the library does not know must be 0.
TEST_F(Library, FieldsOfALaterVersion) {
  struct Later {
    gemm_epilogue epilogue = GEMM_EPILOGUE_DEFAULT;
    int64_t field = 0;
  } later;
  struct LaterProblem {
    gemm_problem problem;
    int64_t field = 0;
  };
  Product p(TYPES[0], 16, 24, 8);
  LaterProblem problem{p.problem};
  problem.problem.size = sizeof problem;
  p.epilogue.beta = later.epilogue.beta = 2;
  later.epilogue.size = sizeof later;
  const auto call = [&] {
    p.fill();
    return gemm_matmul(&problem.problem, &later.epilogue, p.a.data(), p.b.data(), p.c.data(),
                       nullptr, GEMM_CURRENT_DEVICE);
  };
  ASSERT_EQ(call(), GEMM_OK) << gemm_last_error();
  EXPECT_EQ(p.wrong(), "");
  later.field = 1;
  EXPECT_EQ(call(), GEMM_UNSUPPORTED);
  EXPECT_THAT(gemm_last_error(), HasSubstr("gemm_epilogue has fields that version "));
  later.field = 0;
  problem.field = 1;
  EXPECT_EQ(call(), GEMM_UNSUPPORTED);
  EXPECT_THAT(gemm_last_error(), HasSubstr("gemm_problem has fields that version "));
}

TEST_F(Library, BadPointersAndDevices) {
  const Product good(TYPES[0], 16, 24, 8);
  const auto expect = [&](const void* a, const void* b, void* c, int device, gemm_status status,
                          const char* text) {
    EXPECT_EQ(gemm_matmul(&good.problem, nullptr, a, b, c, nullptr, device), status) << text;
    EXPECT_THAT(gemm_last_error(), HasSubstr(text));
  };
  void *const a = good.a.data(), *const b = good.b.data(), *const c = good.c.data();
  expect(nullptr, b, c, 0, GEMM_BAD_ARGUMENT, "A is a null pointer");
  expect(a, nullptr, c, 0, GEMM_BAD_ARGUMENT, "B is a null pointer");
  expect(a, b, nullptr, 0, GEMM_BAD_ARGUMENT, "C is a null pointer");
  expect(a, static_cast<char*>(b) + 2, c, 0, GEMM_BAD_ARGUMENT,
         "B is not aligned to its elements of 4 bytes");
  expect(a, b, c, 99, GEMM_NO_DEVICE, " 99: ");
  expect(a, b, c, -3, GEMM_NO_DEVICE, " -3: ");
  gemm_problem problem = good.problem;
  gemm_plan plan;
  for (const int align : {-16, 2, 48, 256}) {
    problem.align_b = align;
    EXPECT_EQ(gemm_plan_create(&problem, 0, &plan), GEMM_BAD_ARGUMENT);
    EXPECT_THAT(gemm_last_error(), HasSubstr("align_b is " + std::to_string(align) +
                                             ": allowed are powers of two from 4 to 128"));
  }
  EXPECT_EQ(gemm_matmul(nullptr, nullptr, a, b, c, nullptr, 0), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_plan_create(nullptr, 0, &plan), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_plan_create(&good.problem, 0, nullptr), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_run(nullptr, nullptr, a, b, c, nullptr), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_plan_workspace_size(nullptr, nullptr), GEMM_BAD_ARGUMENT);
  plan = planned(good.problem);
  char nothing = 0;
  EXPECT_EQ(gemm_plan_explain(&plan, &nothing, 0), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_plan_workspace_size(&plan, nullptr), GEMM_BAD_ARGUMENT);
}

// Rungs
// -------------------------------------------------------------------------------------------------

std::vector<gemm_rung> all_rungs(int device) {
  int count = -1;
  EXPECT_EQ(gemm_rung_count(device, &count), GEMM_OK) << gemm_last_error();
  std::vector<gemm_rung> all;
  for (int i = 0; i < count; ++i) {
    gemm_rung rung = {};
    rung.size = sizeof rung;
    EXPECT_EQ(gemm_rung_get(device, i, &rung), GEMM_OK) << gemm_last_error();
    all.push_back(rung);
  }
  return all;
}

TEST(LibraryItself, ListsTheRungsOfTheSimulator) {
  const std::vector<gemm_rung> all = all_rungs(GEMM_SIMULATOR);
  ASSERT_GT(all.size(), 40u);
  EXPECT_STREQ(all[0].id, "v1");
  EXPECT_STREQ(all[0].name, "v01_naive");
  EXPECT_STREQ(all[0].idea, "one thread, one element of C");
  const auto number = [](const gemm_rung& r) { return std::atoi(r.id + 1); };
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [&](const gemm_rung& a, const gemm_rung& b) {
    return number(a) < number(b);
  }));
  for (const Types types : TYPES)
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const gemm_rung& r) {
      return r.type_a == types.in && r.type_b == types.in && r.type_c == types.out &&
             r.compute == types.compute && r.runs == 1 && r.approximate == 0;
    })) << types.name;
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](auto& r) { return r.approximate == 1; }));
  gemm_rung rung = {};
  EXPECT_EQ(gemm_rung_get(GEMM_SIMULATOR, 0, &rung), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("gemm_rung.size is 0"));
  rung.size = sizeof rung;
  EXPECT_EQ(gemm_rung_get(GEMM_SIMULATOR, int(all.size()), &rung), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_rung_get(GEMM_SIMULATOR, -1, &rung), GEMM_BAD_ARGUMENT);
}

// Every rung by its name, on shapes that its kernel may leave to the rung before it.
TEST_F(Library, EveryRungThatRuns) {
  int ran = 0;
  for (const gemm_rung& rung : all_rungs(GEMM_CURRENT_DEVICE)) {
    if (rung.runs == 0) continue;
    SCOPED_TRACE(testing::Message() << rung.name << " " << rung.type_a << " " << rung.type_c);
    Product p({rung.name, rung.type_a, rung.type_c, rung.compute}, 65, 72, 40);
    p.epilogue.activation = GEMM_ACTIVATION_RELU;
    gemm_plan plan;
    ASSERT_EQ(gemm_plan_create_with(&p.problem, GEMM_CURRENT_DEVICE, rung.id, &plan), GEMM_OK)
        << gemm_last_error();
    EXPECT_THAT(explained(plan), testing::StartsWith("v"));
    ASSERT_EQ(p.run(plan), GEMM_OK) << gemm_last_error();
    EXPECT_EQ(p.wrong(), "");
    ++ran;
  }
  EXPECT_GT(ran, 10);
}

TEST_F(Library, RungsThatCannot) {
  const auto expect = [](Product& p, const char* rung, gemm_status status, const char* text) {
    gemm_plan plan;
    EXPECT_EQ(gemm_plan_create_with(&p.problem, GEMM_CURRENT_DEVICE, rung, &plan), status);
    EXPECT_THAT(gemm_last_error(), HasSubstr(text));
  };
  Product f32(TYPES[0], 16, 24, 8), bf16(TYPES[3], 16, 24, 8),
      nt(TYPES[0], 16, 24, 8, GEMM_N, GEMM_T);
  expect(f32, "v999", GEMM_BAD_ARGUMENT, "there is no rung \"v999\": gemm_rung_get lists them");
  expect(f32, nullptr, GEMM_BAD_ARGUMENT, "there is no rung \"\"");
  expect(f32, "v6\n\033[31m\xff", GEMM_BAD_ARGUMENT, "there is no rung \"v6??[31m?\"");
  expect(bf16, "v1", GEMM_UNSUPPORTED, "v1 has no kernel of this type");
  expect(nt, "v1", GEMM_UNSUPPORTED, "v01_naive takes no transposed operands");
}

// The simulator is a device like others, with or without a GPU.
TEST(LibraryItself, ComputesInTheSimulator) {
  const float a[2][3] = {{1, 2, 3}, {4, 5, 6}}, b[3] = {1, 0, 2};
  float c[2] = {};
  gemm_problem problem = GEMM_PROBLEM_DEFAULT;
  problem.m = 2;
  problem.n = 1;
  problem.k = 3;
  ASSERT_EQ(gemm_matmul(&problem, nullptr, a, b, c, nullptr, GEMM_SIMULATOR), GEMM_OK)
      << gemm_last_error();
  EXPECT_THAT(c, testing::ElementsAre(7, 16));
  EXPECT_THAT(explained(planned(problem, GEMM_SIMULATOR)), testing::StartsWith("v"));
}

TEST(LibraryItself, TellsWhatItIs) {
  EXPECT_THAT(gemm_version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  for (int status = GEMM_OK; status <= GEMM_RANK_FAILED; ++status)
    EXPECT_STRNE(gemm_status_string(gemm_status(status)), "unknown status");
  EXPECT_STREQ(gemm_status_string(gemm_status(99)), "unknown status");
#ifdef LIBRARY_ON_GPU
  EXPECT_STREQ(gemm_backend(), "cuda");
  const int gpus = gpu_count();
#else
  EXPECT_STREQ(gemm_backend(), "simulator");
  const int gpus = 0;
#endif
  int count = -1;
  EXPECT_EQ(gemm_gpu_count(&count), GEMM_OK);
  EXPECT_EQ(count, gpus);
  EXPECT_EQ(gemm_gpu_count(nullptr), GEMM_BAD_ARGUMENT);
}

// Several devices
// -------------------------------------------------------------------------------------------------

#ifdef LIBRARY_ON_GPU
void use_rank(int rank) { CUDA(cudaSetDevice(rank)); }
int most_ranks() { return std::min<int>(gpu_count(), GEMM_MOST_RANKS); }
#else
void use_rank(int) {}
int most_ranks() { return GEMM_MOST_RANKS; }
#endif

class LibraryRanks : public Library {
 protected:
  void SetUp() override {
    Library::SetUp();
    if (!IsSkipped() && most_ranks() < 2) GTEST_SKIP() << "a second GPU is needed";
  }
#ifdef LIBRARY_ON_GPU
  void TearDown() override { cudaSetDevice(0); }
#endif
};

// A sharded product with the matrices of all ranks. Elements are -1, 0 and 1, by chance: all sums are
// exact, and another row, column or rank is another number.
struct Sharded {
  gemm_sharded_problem problem = GEMM_SHARDED_PROBLEM_DEFAULT;
  std::vector<std::unique_ptr<Matrix>> a, b, c;  // by rank
  std::vector<gemm_sharded_operands> operands;

  Sharded(int collective, int type, int ranks, int m, int n, int k, int op_b = GEMM_N, int pad = 0,
          int skew = 0) {
    problem.collective = collective;
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.type = type;
    problem.op_b = op_b;
    problem.ranks = ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      use_rank(rank);
      const int64_t own = shard(rank)[1];
      const auto add = [&](auto& to, int64_t rows, int64_t cols) {
        to.push_back(std::make_unique<Matrix>(type, rows, cols, pad, skew));
      };
      add(a, gathers() ? own : m, k);
      add(b, op_b == GEMM_T ? n : k, op_b == GEMM_T ? k : n);
      add(c, scatters() ? own : m, n);
      gemm_sharded_operands of = GEMM_SHARDED_OPERANDS_DEFAULT;
      // A shard without rows needs no pointer, and rows without gaps no pitch.
      of.a = gathers() && own == 0 ? nullptr : a[rank]->data();
      of.b = b[rank]->data();
      of.c = scatters() && own == 0 ? nullptr : c[rank]->data();
      of.lda = pad == 0 ? 0 : a[rank]->ld();
      of.ldb = pad == 0 ? 0 : b[rank]->ld();
      of.ldc = pad == 0 ? 0 : c[rank]->ld();
      operands.push_back(of);
    }
    fill(1);
  }

  bool gathers() const { return problem.collective == GEMM_ALL_GATHER; }
  bool scatters() const { return problem.collective == GEMM_REDUCE_SCATTER; }
  // First row, and how many.
  std::array<int64_t, 2> shard(int rank) const {
    std::array<int64_t, 2> found{-1, -1};
    EXPECT_EQ(gemm_shard_rows(&problem, rank, &found[0], &found[1]), GEMM_OK) << gemm_last_error();
    return found;
  }

  void fill(uint64_t seed) {
    for (int rank = 0; rank < problem.ranks; ++rank) {
      use_rank(rank);
      uint64_t state = seed * 1000 + rank;
      const auto next = [&](int64_t, int64_t) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return float((state >> 33) % 3) - 1;
      };
      a[rank]->fill(next);
      b[rank]->fill(next);
      c[rank]->fill([](int64_t, int64_t) { return NAN; });
    }
  }

  gemm_status run(gemm_sharded* handle) const { return gemm_sharded_run(handle, operands.data()); }

  // In double precision: of the rank's C.
  std::vector<double> want(int rank) const {
    const auto [first, own] = shard(rank);
    const int64_t n = problem.n, k = problem.k;
    std::vector<double> sums;
    const auto add = [&](double* sum, const Matrix& rows, int64_t row, const Matrix& columns) {
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j)
          sum[j] += double{rows.at(row, l)} *
                    (problem.op_b == GEMM_T ? columns.at(j, l) : columns.at(l, j));
    };
    if (gathers()) {
      sums.resize(problem.m * n);
      for (int owner = 0; owner < problem.ranks; ++owner) {
        const auto [begin, count] = shard(owner);
        for (int64_t i = 0; i < count; ++i) add(&sums[(begin + i) * n], *a[owner], i, *b[rank]);
      }
    } else {
      const int64_t begin = scatters() ? first : 0, count = scatters() ? own : problem.m;
      sums.resize(count * n);
      for (int from = 0; from < problem.ranks; ++from)
        for (int64_t i = 0; i < count; ++i) add(&sums[i * n], *a[from], begin + i, *b[from]);
    }
    return sums;
  }
  // Empty: every rank's C holds what it should, and nothing around it has changed.
  std::string wrong() {
    for (int rank = 0; rank < problem.ranks; ++rank) {
      use_rank(rank);
      wait(operands[rank].stream);
      c[rank]->read();
      const std::vector<double> sums = want(rank);
      for (size_t i = 0; i < sums.size(); ++i) {
        const int64_t row = i / problem.n, col = i % problem.n;
        if (c[rank]->at(row, col) != sums[i])
          return "C(" + std::to_string(row) + ", " + std::to_string(col) + ") of rank " +
                 std::to_string(rank) + " is " + std::to_string(c[rank]->at(row, col)) + ", not " +
                 std::to_string(sums[i]);
      }
      if (!c[rank]->only_elements_written())
        return "written outside of C of rank " + std::to_string(rank);
    }
    return "";
  }
};

struct Destroy {
  void operator()(gemm_sharded* handle) const {
    EXPECT_EQ(gemm_sharded_destroy(handle), GEMM_OK) << gemm_last_error();
  }
};
using Handle = std::unique_ptr<gemm_sharded, Destroy>;

Handle created(const gemm_sharded_problem& problem, const char* rung = nullptr) {
  gemm_sharded* handle = nullptr;
  EXPECT_EQ(gemm_sharded_create(&problem, nullptr, rung, &handle), GEMM_OK) << gemm_last_error();
  return Handle(handle);
}
std::string explained(const Handle& handle) {
  char text[256] = {};
  EXPECT_EQ(gemm_sharded_explain(handle.get(), text, sizeof text), GEMM_OK) << gemm_last_error();
  return text;
}

constexpr int COLLECTIVES[] = {GEMM_ALL_GATHER, GEMM_REDUCE_SCATTER, GEMM_ALL_REDUCE};

TEST_F(LibraryRanks, EveryShapeTypeAndLayout) {
  struct Case {
    int ranks, m, n, k, op_b, pad, skew;
  };
  const Case cases[] = {
      {2, 300, 200, 136, GEMM_N, 0, 0}, {2, 33, 77, 65, GEMM_T, 3, 1},
      {4, 150, 130, 72, GEMM_N, 8, 0},  {4, 100, 40, 96, GEMM_T, 0, 0},
      {8, 260, 72, 64, GEMM_T, 5, 1},   {8, 40, 9, 33, GEMM_N, 0, 0},  // five ranks have no rows
      {3, 1, 1, 1, GEMM_N, 0, 0}};
  for (const Case& x : cases)
    for (const int collective : COLLECTIVES)
      for (const int type : {GEMM_F16, GEMM_BF16}) {
        if (x.ranks > most_ranks()) continue;
        SCOPED_TRACE(testing::Message()
                     << "collective " << collective << " type " << type << " ranks " << x.ranks
                     << " " << x.m << "x" << x.n << "x" << x.k << " op_b " << x.op_b);
        Sharded p(collective, type, x.ranks, x.m, x.n, x.k, x.op_b, x.pad, x.skew);
        const Handle handle = created(p.problem);
        ASSERT_NE(handle, nullptr);
        ASSERT_EQ(p.run(handle.get()), GEMM_OK) << gemm_last_error();
        ASSERT_EQ(p.wrong(), "");
      }
}

TEST_F(LibraryRanks, EveryRungOfACollective) {
  const auto compute = [](int collective, const char* rung) {
    Sharded p(collective, GEMM_BF16, 2, 150, 72, 80, GEMM_T, 4);
    gemm_sharded* made = nullptr;
    const gemm_status status = gemm_sharded_create(&p.problem, nullptr, rung, &made);
    if (status == GEMM_UNSUPPORTED) return std::string(gemm_last_error());  // no NCCL
    EXPECT_EQ(status, GEMM_OK) << gemm_last_error();
    const Handle handle(made);
    EXPECT_EQ(p.run(handle.get()), GEMM_OK) << gemm_last_error();
    EXPECT_EQ(p.wrong(), "") << rung;
    const std::string told = explained(handle);
    return told.substr(0, told.find(' '));
  };
  EXPECT_THAT(compute(GEMM_ALL_GATHER, "m1"), testing::AnyOf("m01_collective", HasSubstr("nccl")));
  EXPECT_THAT(compute(GEMM_REDUCE_SCATTER, "m1"),
              testing::AnyOf("m01_collective", HasSubstr("nccl")));
  EXPECT_EQ(compute(GEMM_ALL_GATHER, "m2"), "m02_chunks");
  EXPECT_EQ(compute(GEMM_ALL_GATHER, "m03_peer_copies"), "m03_peer_copies");
  EXPECT_EQ(compute(GEMM_REDUCE_SCATTER, "m4"), "m04_peer_stores");
  EXPECT_EQ(compute(GEMM_ALL_GATHER, nullptr), "m03_peer_copies");
  EXPECT_EQ(compute(GEMM_REDUCE_SCATTER, nullptr), "m04_peer_stores");
  EXPECT_THAT(compute(GEMM_ALL_REDUCE, "m1"), testing::AnyOf("m01_collective", HasSubstr("nccl")));
  EXPECT_EQ(compute(GEMM_ALL_REDUCE, "m4"), "m04_peer_stores");
  EXPECT_EQ(compute(GEMM_ALL_REDUCE, nullptr), "m05_peer_loads");
}

TEST_F(LibraryRanks, AHandleTakesOtherOperands) {
  for (const int collective : COLLECTIVES) {
    Sharded p(collective, GEMM_BF16, 2, 150, 72, 80),
        q(collective, GEMM_BF16, 2, 150, 72, 80, GEMM_N, 16);
    const Handle handle = created(p.problem);
    for (int seed = 2; seed < 5; ++seed) {
      p.fill(seed);
      q.fill(seed + 10);
      ASSERT_EQ(p.run(handle.get()), GEMM_OK) << gemm_last_error();
      ASSERT_EQ(q.run(handle.get()), GEMM_OK) << gemm_last_error();
      ASSERT_EQ(p.wrong(), "") << seed;
      ASSERT_EQ(q.wrong(), "") << seed;
    }
  }
}

TEST_F(LibraryRanks, BadOperandsLeaveTheHandleAsItIs) {
  for (const int collective : COLLECTIVES) {
    Sharded p(collective, GEMM_F16, 2, 100, 24, 40);
    const Handle handle = created(p.problem);
    const auto expect = [&](const char* text, const auto& change) {
      const std::vector<gemm_sharded_operands> good = p.operands;
      change(p.operands[1]);
      EXPECT_EQ(p.run(handle.get()), GEMM_BAD_ARGUMENT);
      EXPECT_THAT(gemm_last_error(), HasSubstr(text));
      p.operands = good;
      p.fill(7);
      EXPECT_EQ(p.run(handle.get()), GEMM_OK) << gemm_last_error();
      EXPECT_EQ(p.wrong(), "") << text;
    };
    using Operands = gemm_sharded_operands;
    const auto odd = [](const void* x) { return (void*)((const char*)x + 1); };
    expect("rank 1: A is a null pointer", [](Operands& x) { x.a = nullptr; });
    expect("rank 1: B is a null pointer", [](Operands& x) { x.b = nullptr; });
    expect("rank 1: C is a null pointer", [](Operands& x) { x.c = nullptr; });
    expect("rank 1: A is not aligned to its elements of 2 bytes",
           [&](Operands& x) { x.a = odd(x.a); });
    expect("rank 1: C is not aligned", [&](Operands& x) { x.c = odd(x.c); });
    expect("rank 1: the rows of A lie 39 elements apart: allowed are 40",
           [](Operands& x) { x.lda = 39; });
    expect("rank 1: the rows of B lie 23 elements apart: allowed are 24",
           [](Operands& x) { x.ldb = 23; });
    expect("rank 1: the rows of C lie -1 elements apart", [](Operands& x) { x.ldc = -1; });
    expect("rank 1: gemm_sharded_operands.reserved is not 0", [](Operands& x) { x.reserved = 1; });
    expect("rank 1: gemm_sharded_operands.size is 0, and rank 0 has ",
           [](Operands& x) { x.size = 0; });
  }
}

#ifndef LIBRARY_ON_GPU
// A run finds no memory when it has queued work of the first ranks. That work is never done: the
// operands may be gone by then.
TEST_F(LibraryRanks, NothingOfAFailedRunIsComputedLater) {
  int refused = 0;
  for (const char* rung : {"m1", "m2", "m3"})
    for (int64_t allowed = 0;; ++allowed) {
      SCOPED_TRACE(testing::Message() << rung << ", " << allowed << " allocations");
      Sharded p(GEMM_ALL_GATHER, GEMM_F16, 2, 64, 24, 40);
      Handle handle = created(p.problem, rung);
      allocations_left = allowed;
      const gemm_status status = p.run(handle.get());
      allocations_left = -1;
      if (status == GEMM_OK) break;
      ASSERT_EQ(status, GEMM_OUT_OF_MEMORY) << gemm_last_error();
      if (p.run(handle.get()) != GEMM_OK) {  // else nothing had been queued
        EXPECT_EQ(p.run(handle.get()), GEMM_OUT_OF_MEMORY);
        EXPECT_THAT(gemm_last_error(), HasSubstr("an earlier run of this handle failed"));
        p.fill(2);
        ++refused;
        handle.reset();
        for (const auto& c : p.c) {
          c->read();
          ASSERT_TRUE(std::isnan(c->at(0, 0)) && std::isnan(c->at(63, 23)));
        }
      }
    }
  EXPECT_GT(refused, 20);
}
#endif

TEST_F(LibraryRanks, BadShardedProblems) {
  const auto expect = [](gemm_sharded_problem p, gemm_status status, const char* text,
                         const int* devices = nullptr, const char* rung = nullptr) {
    gemm_sharded* handle = reinterpret_cast<gemm_sharded*>(1);
    EXPECT_EQ(gemm_sharded_create(&p, devices, rung, &handle), status) << text;
    EXPECT_THAT(gemm_last_error(), HasSubstr(text));
    EXPECT_EQ(handle, nullptr);
  };
  const auto expect_bad = [&](const char* text, const auto& change) {
    gemm_sharded_problem p = GEMM_SHARDED_PROBLEM_DEFAULT;
    p.m = p.n = p.k = 64;
    change(p);
    expect(p, GEMM_BAD_ARGUMENT, text);
    int64_t first = 0, rows = 0;
    EXPECT_EQ(gemm_shard_rows(&p, 0, &first, &rows), GEMM_BAD_ARGUMENT);
    EXPECT_THAT(gemm_last_error(), HasSubstr(text));
  };
  using Problem = gemm_sharded_problem;
  expect_bad("collective is 3: allowed are ", [](Problem& p) { p.collective = 3; });
  expect_bad("m is 0: allowed are 1 to ", [](Problem& p) { p.m = 0; });
  expect_bad("n is -1: allowed are 1 to ", [](Problem& p) { p.n = -1; });
  expect_bad("k is 2147483647: allowed are 1 to ", [](Problem& p) { p.k = INT32_MAX; });
  expect_bad("type is 0: allowed are GEMM_F16 and GEMM_BF16", [](Problem& p) { p.type = 0; });
  expect_bad("op_b is 2: allowed are GEMM_N and GEMM_T", [](Problem& p) { p.op_b = 2; });
  expect_bad("ranks is 1: allowed are 2 to 8", [](Problem& p) { p.ranks = 1; });
  expect_bad("ranks is 9: allowed are 2 to 8", [](Problem& p) { p.ranks = 9; });
  expect_bad("gemm_sharded_problem.reserved is not 0", [](Problem& p) { p.reserved = 1; });
  expect_bad("gemm_sharded_problem.size is 8: start from ", [](Problem& p) { p.size = 8; });
  expect_bad("m * k is 1099513724928: allowed are 1 to 1099511627776",
             [](Problem& p) { p.m = 1 << 20, p.k = (1 << 20) + 2; });
  expect_bad("m * n is ", [](Problem& p) {
    p.collective = GEMM_REDUCE_SCATTER, p.m = 1 << 20, p.n = (1 << 20) + 2;
  });

  gemm_sharded_problem good = GEMM_SHARDED_PROBLEM_DEFAULT;
  good.m = good.n = good.k = 64;
  expect(good, GEMM_BAD_ARGUMENT, "there is no rung \"m4\" of all_gather: choose from m1, m2, m3",
         nullptr, "m4");
  const int beyond[] = {GEMM_CURRENT_DEVICE, 1000}, mixed[] = {0, GEMM_SIMULATOR}, twice[] = {1, 1};
  expect(good, GEMM_NO_DEVICE, "there is no ", beyond);
#ifdef LIBRARY_ON_GPU
  expect(good, GEMM_BAD_ARGUMENT, "rank 1: the ranks are GPUs, or all of them are GEMM_SIMULATOR",
         mixed);
  expect(good, GEMM_BAD_ARGUMENT, "GPU 1 is rank 0 and rank 1: each rank has a GPU of its own",
         twice);
#else  // every device is the simulator, which is device 0
  static_cast<void>(mixed);
  expect(good, GEMM_NO_DEVICE, "there is no device 1: the simulator is device 0", twice);
#endif

  gemm_sharded* handle = nullptr;
  EXPECT_EQ(gemm_sharded_create(nullptr, nullptr, nullptr, &handle), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_sharded_create(&good, nullptr, nullptr, nullptr), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("sharded is a null pointer"));
  EXPECT_EQ(gemm_sharded_run(nullptr, nullptr), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_sharded_explain(nullptr, nullptr, 0), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_sharded_destroy(nullptr), GEMM_OK);
  const Handle made = created(good);
  EXPECT_EQ(gemm_sharded_run(made.get(), nullptr), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("operands is a null pointer"));
  EXPECT_EQ(gemm_sharded_explain(made.get(), nullptr, 10), GEMM_BAD_ARGUMENT);
  char text[4];
  EXPECT_EQ(gemm_sharded_explain(made.get(), text, sizeof text), GEMM_OK);
  EXPECT_STREQ(text, "m03");
}

TEST(LibraryItself, ShardsAreRowsInOrder) {
  gemm_sharded_problem p = GEMM_SHARDED_PROBLEM_DEFAULT;
  p.n = p.k = 1;
  for (p.ranks = 2; p.ranks <= GEMM_MOST_RANKS; ++p.ranks)
    for (p.m = 1; p.m < 300; p.m += 7) {
      int64_t end = 0;
      for (int rank = 0; rank < p.ranks; ++rank) {
        int64_t first = -1, rows = -1;
        ASSERT_EQ(gemm_shard_rows(&p, rank, &first, &rows), GEMM_OK) << gemm_last_error();
        EXPECT_EQ(first, end);
        EXPECT_TRUE(rows % 16 == 0 || first + rows == p.m);
        end = first + rows;
      }
      EXPECT_EQ(end, p.m);
    }
  int64_t first = 0, rows = 0;
  p.ranks = 2;
  EXPECT_EQ(gemm_shard_rows(&p, 2, &first, &rows), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("rank is 2: allowed are 0 to 1"));
  EXPECT_EQ(gemm_shard_rows(&p, -1, &first, &rows), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_shard_rows(&p, 0, nullptr, &rows), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_shard_rows(&p, 0, &first, nullptr), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_shard_rows(nullptr, 0, &first, &rows), GEMM_BAD_ARGUMENT);
}

TEST_F(LibraryRanks, FieldsOfALaterVersion) {
  struct LaterProblem {
    gemm_sharded_problem problem;
    int64_t field = 0;
  };
  struct LaterOperands {
    gemm_sharded_operands operands;
    int64_t field = 0;
  };
  Sharded p(GEMM_REDUCE_SCATTER, GEMM_F16, 2, 100, 24, 40);
  LaterProblem problem{p.problem};
  problem.problem.size = sizeof problem;
  LaterOperands operands[2] = {{p.operands[0]}, {p.operands[1]}};
  for (LaterOperands& x : operands) x.operands.size = sizeof x;
  const Handle handle = created(problem.problem);
  ASSERT_EQ(gemm_sharded_run(handle.get(), &operands[0].operands), GEMM_OK) << gemm_last_error();
  EXPECT_EQ(p.wrong(), "");
  operands[1].field = 1;
  EXPECT_EQ(gemm_sharded_run(handle.get(), &operands[0].operands), GEMM_UNSUPPORTED);
  EXPECT_THAT(gemm_last_error(),
              HasSubstr("rank 1: gemm_sharded_operands has fields that version"));
  problem.field = 1;
  gemm_sharded* none = nullptr;
  EXPECT_EQ(gemm_sharded_create(&problem.problem, nullptr, nullptr, &none), GEMM_UNSUPPORTED);
  EXPECT_THAT(gemm_last_error(), HasSubstr("gemm_sharded_problem has fields that version "));
}

// Threads share a handle, and have others beside it, and products of one device. Nothing is allocated
// meanwhile: on GPUs that would wait for kernels of other threads.
TEST_F(LibraryRanks, ThreadsRunAtOnce) {
  constexpr int THREADS = 4;
  struct Work {
    Sharded own, p;
    Product single;
    Handle handle;
    explicit Work(int collective)
        : own(collective, GEMM_F16, 2, 64, 40, 48),
          p(GEMM_REDUCE_SCATTER, GEMM_BF16, 2, 64, 40, 48),
          single((use_rank(0), TYPES[2]), 136, 264, 72),
          handle(created(own.problem)) {}
  };
  std::vector<std::unique_ptr<Work>> works;
  for (int thread = 0; thread < THREADS; ++thread)
    works.push_back(std::make_unique<Work>(COLLECTIVES[thread % std::size(COLLECTIVES)]));
  const Handle shared = created(works[0]->p.problem);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < THREADS; ++thread)
    threads.emplace_back([&, thread] {
      Work& w = *works[thread];
      for (int i = 0; i < 3; ++i) {
        w.own.fill(thread + 10 * i);
        w.p.fill(thread + 10 * i + 5);
        use_rank(0);
        w.single.fill();
        EXPECT_EQ(w.own.run(w.handle.get()), GEMM_OK) << gemm_last_error();
        EXPECT_EQ(w.single.matmul(), GEMM_OK) << gemm_last_error();
        EXPECT_EQ(w.p.run(shared.get()), GEMM_OK) << gemm_last_error();
        EXPECT_EQ(w.own.wrong(), "");
        EXPECT_EQ(w.p.wrong(), "");
        use_rank(0);
        EXPECT_EQ(w.single.wrong(), "");
      }
    });
  threads.clear();  // joined
}

TEST_F(LibraryRanks, TheCppFace) {
  const auto operands_of = [](const Sharded& p) {
    std::vector<gemm::ShardedOperands<__half>> operands;
    for (const gemm_sharded_operands& x : p.operands)
      operands.push_back({.a = static_cast<const __half*>(x.a),
                          .b = static_cast<const __half*>(x.b),
                          .c = static_cast<__half*>(x.c),
                          .lda = x.lda,
                          .ldb = x.ldb,
                          .ldc = x.ldc});
    return operands;
  };
  const gemm::ShardedProblem problem{.m = 100, .n = 24, .k = 40, .op_b = GEMM_T, .ranks = 2};
  Sharded p(GEMM_ALL_GATHER, GEMM_F16, 2, 100, 24, 40, GEMM_T, 8);
  gemm::AllGatherGemm<__half> gather(problem);
  EXPECT_EQ(gather.explain().substr(0, 15), "m03_peer_copies");
  EXPECT_EQ(gather.shard(1).first, 64);
  EXPECT_EQ(gather.shard(1).rows, 36);
  gather.run(operands_of(p));
  EXPECT_EQ(p.wrong(), "");
  gemm::AllGatherGemm<__half> moved = std::move(gather);
  p.fill(9);
  moved.run(operands_of(p));
  EXPECT_EQ(p.wrong(), "");
  static_assert(!std::is_copy_constructible_v<gemm::AllGatherGemm<__half>>);

  Sharded q(GEMM_REDUCE_SCATTER, GEMM_F16, 2, 100, 24, 40, GEMM_T);
  const gemm::GemmReduceScatter<__half> scatter(problem, {}, "m4");
  scatter.run(operands_of(q));
  EXPECT_EQ(q.wrong(), "");

  Sharded r(GEMM_ALL_REDUCE, GEMM_F16, 2, 100, 24, 40, GEMM_T);
  gemm::GemmAllReduce<__half>(problem).run(operands_of(r));
  EXPECT_EQ(r.wrong(), "");

  const auto expect = [](const char* text, const auto& call) {
    try {
      call();
      ADD_FAILURE() << "no error: " << text;
    } catch (const gemm::Error& e) {
      EXPECT_EQ(e.status, GEMM_BAD_ARGUMENT);
      EXPECT_THAT(e.what(), HasSubstr(text));
    }
  };
  expect("there are operands of 1 ranks: this process has 2", [&] { scatter.run({{}}); });
  expect("rank 0: A is a null pointer", [&] { scatter.run({{}, {}}); });
  expect("there are 3 devices: problem.ranks is 2", [&] {
    gemm::AllGatherGemm<__half> bad(problem, {0, 1, 2});
  });
  expect("there is no rung \"m3\" of reduce_scatter",
         [&] { gemm::GemmReduceScatter<__nv_bfloat16> bad(problem, {}, "m3"); });
}

// On host memory, with or without GPUs: each rank's B is its number times the unit matrix.
TEST(LibraryItself, ComputesOnSimulatedRanks) {
  constexpr int M = 40, N = 4;
  const auto bf16 = [](int x) {
    unsigned char bytes[2];
    encode(GEMM_BF16, float(x), bytes);
    return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
  };
  std::vector<uint16_t> a[2], b[2], c[2];
  gemm_sharded_operands operands[2];
  gemm_sharded_problem problem = GEMM_SHARDED_PROBLEM_DEFAULT;
  problem.collective = GEMM_REDUCE_SCATTER;
  problem.type = GEMM_BF16;
  problem.m = M;
  problem.n = problem.k = N;
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < M * N; ++i) a[rank].push_back(bf16(i % 16 + rank));
    for (int i = 0; i < N * N; ++i) b[rank].push_back(bf16(i % (N + 1) == 0 ? rank + 1 : 0));
    c[rank].resize(M * N);
    operands[rank] = GEMM_SHARDED_OPERANDS_DEFAULT;
    operands[rank].a = a[rank].data();
    operands[rank].b = b[rank].data();
    operands[rank].c = c[rank].data();
  }
  const int devices[] = {GEMM_SIMULATOR, GEMM_SIMULATOR};
  gemm_sharded* made = nullptr;
  ASSERT_EQ(gemm_sharded_create(&problem, devices, nullptr, &made), GEMM_OK) << gemm_last_error();
  const Handle handle(made);
  EXPECT_EQ(explained(handle), "m04_peer_stores on 2 simulated devices");
  ASSERT_EQ(gemm_sharded_run(made, operands), GEMM_OK) << gemm_last_error();
  for (int i = 0; i < M * N; ++i) {
    const int want = i % 16 + 2 * (i % 16 + 1);
    EXPECT_EQ(i < 32 * N ? c[0][i] : c[1][i - 32 * N], bf16(want)) << i;
  }
}

// GPUs
// -------------------------------------------------------------------------------------------------

#ifdef LIBRARY_ON_GPU

struct Stream {
  cudaStream_t stream = nullptr;
  Stream() { CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream); }
  operator cudaStream_t() const { return stream; }
};

TEST(LibraryItself, WithoutAGpuSaysSo) {
  if (gpu_count() > 0) GTEST_SKIP() << "there is a GPU";
  gemm_problem problem = GEMM_PROBLEM_DEFAULT;
  problem.m = problem.n = problem.k = 1;
  gemm_plan plan;
  for (const int device : {0, int{GEMM_CURRENT_DEVICE}}) {
    EXPECT_EQ(gemm_plan_create(&problem, device, &plan), GEMM_NO_DEVICE);
    EXPECT_NE(std::string(gemm_last_error()), "");
  }
  gemm_sharded_problem sharded = GEMM_SHARDED_PROBLEM_DEFAULT;
  sharded.m = sharded.n = sharded.k = 16;
  gemm_sharded* handle = nullptr;
  EXPECT_EQ(gemm_sharded_create(&sharded, nullptr, nullptr, &handle), GEMM_NO_DEVICE);
  EXPECT_EQ(handle, nullptr);
  EXPECT_EQ(gemm_plan_create(&problem, 0, &plan), GEMM_NO_DEVICE);
  EXPECT_THAT(gemm_last_error(), HasSubstr("there is no GPU"));
  EXPECT_THAT(gemm_last_error(), HasSubstr("GEMM_SIMULATOR computes without one"));
}

// Work goes to the stream that is given, and the call returns: the stream waits for this thread.
TEST_F(Library, RunsOnTheStreamGiven) {
  const Stream stream, other;
  for (const Types types : TYPES) {
    Product p(types, 520, 136, 96);
    const gemm_plan plan = planned(p.problem);
    std::atomic<bool> may_go = false;
    CUDA(cudaLaunchHostFunc(
        stream,
        [](void* flag) {
          while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
        },
        &may_go));
    const gemm_status status = p.run(plan, stream);
    uint16_t first = 0;
    CUDA(cudaMemcpyAsync(&first, p.c.data(), sizeof first, cudaMemcpyDefault, other));
    wait(other);
    may_go = true;
    wait(stream);
    ASSERT_EQ(status, GEMM_OK) << gemm_last_error();
    unsigned char nan[4];
    encode(types.out, NAN, nan);
    EXPECT_EQ(std::memcmp(&first, nan, sizeof first), 0) << "C was written before its turn";
    EXPECT_EQ(p.wrong(), "");
  }
}

// Into a graph go calls that are planned, calls of shapes never seen before, and such as need a
// workspace; in every mode of capture.
TEST_F(Library, IsCapturedInAGraph) {
  const Stream stream;
  int n = 264;
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
        cudaStreamCaptureModeRelaxed})
    for (const Types types : TYPES)
      for (const int skew : {0, 1})
        for (const bool by_plan : {true, false}) {
          SCOPED_TRACE(testing::Message() << types.name << " mode " << mode << " skew " << skew
                                          << (by_plan ? " planned" : ""));
          Product p(types, 136, n += 8, 72, GEMM_N, GEMM_N, 0, skew);
          const gemm_plan plan = by_plan ? planned(p.problem) : gemm_plan{};
          cudaGraph_t graph = nullptr;
          cudaGraphExec_t launchable = nullptr;
          CUDA(cudaStreamBeginCapture(stream, mode));
          EXPECT_EQ(by_plan ? p.run(plan, stream) : p.matmul(stream), GEMM_OK) << gemm_last_error();
          CUDA(cudaStreamEndCapture(stream, &graph));
          CUDA(cudaGraphInstantiate(&launchable, graph, 0));
          for (int launch = 0; launch < 3; ++launch) {
            p.fill();
            CUDA(cudaGraphLaunch(launchable, stream));
            wait(stream);
            EXPECT_EQ(p.wrong(), "") << launch;
          }
          CUDA(cudaGraphExecDestroy(launchable));
          CUDA(cudaGraphDestroy(graph));
        }
}

class LibraryPair : public Library {
 protected:
  void SetUp() override {
    Library::SetUp();
    if (!IsSkipped() && gpu_count() < 2) GTEST_SKIP() << "a second GPU is needed";
  }
};

// The device is an argument: the current one stays, and need not be the plan's.
TEST_F(LibraryPair, TwoDevicesInOneThread) {
  for (const Types types : TYPES) {
    Product on_first(types, 136, 264, 72);
    CUDA(cudaSetDevice(1));
    Product on_second(types, 136, 264, 72);
    const Stream stream;
    CUDA(cudaSetDevice(0));
    const gemm_plan first = planned(on_first.problem, 0), second = planned(on_second.problem, 1);
    EXPECT_EQ(on_first.run(first), GEMM_OK) << gemm_last_error();
    EXPECT_EQ(on_second.run(second, stream), GEMM_OK) << gemm_last_error();
    EXPECT_EQ(on_second.matmul(stream, 1), GEMM_OK) << gemm_last_error();
    int current = -1;
    CUDA(cudaGetDevice(&current));
    EXPECT_EQ(current, 0);
    wait(stream);
    EXPECT_EQ(on_first.wrong(), "");
    EXPECT_EQ(on_second.wrong(), "");
    // A stream of another device is refused, and the device goes on.
    EXPECT_EQ(on_first.run(first, stream), GEMM_LAUNCH_REFUSED);
    EXPECT_STRNE(gemm_last_error(), "");
    EXPECT_EQ(on_first.run(first), GEMM_OK) << gemm_last_error();
    EXPECT_EQ(on_first.wrong(), "");
  }
}

TEST_F(LibraryPair, AThreadForEach) {
  std::vector<std::jthread> threads;
  for (int device = 0; device < 2; ++device)
    threads.emplace_back([device] {
      CUDA(cudaSetDevice(device));
      for (int i = 0; i < 20; ++i) {
        Product p(TYPES[i % 4], 136, 264 + i, 72);
        EXPECT_EQ(p.matmul(nullptr, device), GEMM_OK) << gemm_last_error();
        EXPECT_EQ(p.wrong(), "");
      }
    });
}

// A product begins after what is in every rank's stream, and what comes later finds its result and may
// overwrite its operands.
TEST_F(LibraryRanks, IsOrderedWithTheStreams) {
  for (const int collective : COLLECTIVES) {
    Sharded p(collective, GEMM_BF16, 2, 512, 256, 256);
    std::vector<std::unique_ptr<Stream>> streams;
    for (int rank = 0; rank < 2; ++rank) {
      use_rank(rank);
      streams.push_back(std::make_unique<Stream>());
      p.operands[rank].stream = static_cast<cudaStream_t>(*streams[rank]);
    }
    const Handle handle = created(p.problem);
    for (int turn = 0; turn < 3; ++turn) {
      p.fill(turn + 20);
      std::atomic<bool> may_go = false;
      use_rank(1);
      CUDA(cudaLaunchHostFunc(
          *streams[1],
          [](void* flag) {
            while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
          },
          &may_go));
      use_rank(0);
      const Stream other;
      const gemm_status status = p.run(handle.get());
      int current = -1;
      CUDA(cudaGetDevice(&current));
      EXPECT_EQ(current, 0);
      uint16_t first = 0;
      CUDA(cudaMemcpyAsync(&first, p.c[0]->data(), sizeof first, cudaMemcpyDefault, other));
      wait(other);
      for (int rank = 0; rank < 2; ++rank) {
        use_rank(rank);
        const int64_t rows = p.gathers() ? p.shard(rank)[1] : p.problem.m;
        CUDA(cudaMemsetAsync(p.a[rank]->data(), 0xff, rows * p.problem.k * 2, *streams[rank]));
      }
      may_go = true;
      ASSERT_EQ(status, GEMM_OK) << gemm_last_error();
      EXPECT_TRUE(std::isnan(decode(GEMM_BF16, reinterpret_cast<const unsigned char*>(&first))))
          << "C was written before its turn";
      EXPECT_EQ(p.wrong(), "") << turn;
    }
  }
}

TEST_F(LibraryRanks, StreamsThatCannotBeUsed) {
  Sharded p(GEMM_ALL_GATHER, GEMM_BF16, 2, 64, 64, 64);
  const Handle handle = created(p.problem);
  use_rank(0);
  const Stream of_first;
  p.operands[0].stream = static_cast<cudaStream_t>(of_first);
  cudaGraph_t graph = nullptr;
  CUDA(cudaStreamBeginCapture(of_first, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(p.run(handle.get()), GEMM_UNSUPPORTED);
  EXPECT_THAT(gemm_last_error(), HasSubstr("rank 0: the stream is captured"));
  CUDA(cudaStreamEndCapture(of_first, &graph));
  CUDA(cudaGraphDestroy(graph));
#if CUDART_VERSION >= 12080
  p.operands[1].stream = static_cast<cudaStream_t>(of_first);
  EXPECT_EQ(p.run(handle.get()), GEMM_BAD_ARGUMENT);
  EXPECT_THAT(gemm_last_error(), HasSubstr("rank 1: the stream is of GPU 0"));
#endif
  p.operands[1].stream = nullptr;
  EXPECT_EQ(p.run(handle.get()), GEMM_OK) << gemm_last_error();
  EXPECT_EQ(p.wrong(), "");
}

#endif

}  // namespace
