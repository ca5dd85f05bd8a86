// The reference at large sizes: the same doubles as on the CPU, multiplied by cublasDgemm.
#include <cmath>
#include <mutex>

#include "device/blas.h"
#include "harness/gpu/cuda_check.h"
#include "harness/gpu/gpu_device.h"
#include "harness/host_matrix.h"
#include "harness/nvtx.h"

namespace gemm {
namespace {

// out[i] = element i of the stored A or B, rounded to its storage type, times the scale of its block.
template <class T>
__global__ void doubles_kernel(double* out, MatrixLayout l, Operand operand, Generator generator) {
  const int64_t elements = l.all_rows() * l.cols, stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += stride) {
    const int64_t row = i / l.cols, col = i % l.cols;
    out[i] = double{static_cast<float>(static_cast<T>(generator.stored(operand, row, col)))} *
             generator.block_scale(operand, row, col);
  }
}

void fill(GpuDevice& device, double* out, const Problem& p, Operand operand, uint64_t seed) {
  const auto blocks = static_cast<unsigned>(device.properties().multiProcessorCount * 32);
  const auto kernel = with_element<GpuTypes>(info(p.dtype).element(operand),
                                             [](auto t) { return &doubles_kernel<decltype(t)>; });
  kernel<<<blocks, 256, 0, device.stream()>>>(out, layout(p, operand), operand,
                                              Generator(p, Inputs::uniform, seed));
  check_cuda(cudaGetLastError(), "doubles_kernel");
}

// The scales and biases of the epilogue, on the finished sums. They are rounded to T, as in memory.
template <class T>
__global__ void finish_kernel(double* want, Problem p, Generator generator) {
  const int64_t elements = int64_t{p.batch} * p.M * p.N;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  const auto rounded = [&](Operand operand, int64_t i) {
    return double{static_cast<float>(static_cast<T>(generator.stored(operand, 0, i)))};
  };
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += stride) {
    const int64_t m = i / p.N, n = i % p.N;  // a row of all products
    const double c =
        p.beta == 0
            ? 0
            : p.beta *
                  double{static_cast<float>(static_cast<T>(generator.stored(Operand::C, m, n)))};
    want[i] = generator.scale(m, n) * want[i] + c +
              (p.operands.bias ? rounded(Operand::bias, n) : 0) +
              (p.operands.row_bias ? rounded(Operand::row_bias, m % p.M) : 0);
  }
}

void finish(GpuDevice& device, double* want, const Problem& p, uint64_t seed) {
  const auto blocks = static_cast<unsigned>(device.properties().multiProcessorCount * 32);
  const auto kernel =
      with_element<GpuTypes>(info(p.dtype).out, [](auto t) { return &finish_kernel<decltype(t)>; });
  kernel<<<blocks, 256, 0, device.stream()>>>(want, p, Generator(p, Inputs::uniform, seed));
  check_cuda(cudaGetLastError(), "finish_kernel");
}

std::unique_ptr<GpuReference> multiply(GpuDevice& device, const Problem& p, uint64_t seed) {
  auto result = std::make_unique<GpuReference>(device, p);
  double* const want = result->want.as<double>();
  GEMM_CUDA(cudaMemsetAsync(want, 0, sizeof(double) * p.batch * p.M * p.N, device.stream()));
  if (p.alpha != 0 && p.M > 0 && p.N > 0 && p.K > 0) {
    const int64_t size_a = int64_t{p.M} * p.K, size_b = int64_t{p.K} * p.N;
    const DeviceMemory a(device, sizeof(double) * layout(p, Operand::A).products * size_a);
    const DeviceMemory b(device, sizeof(double) * layout(p, Operand::B).products * size_b);
    fill(device, a.as<double>(), p, Operand::A, seed);
    fill(device, b.as<double>(), p, Operand::B, seed);
    // Row-major and dense (blas.cu says why A and B are swapped).
    const auto operation = [](Op op) { return op == Op::N ? CUBLAS_OP_N : CUBLAS_OP_T; };
    const double alpha = p.alpha, one = 1;
    for (int i = 0; i < products(p); ++i) {
      const DenseProduct product = dense_product(p, i);
      if (product.rows == 0) continue;
      GEMM_CUBLAS(cublasDgemm_64(blas_handle(device.stream()), operation(p.op_b), operation(p.op_a),
                                 p.N, product.rows, p.K, &alpha, b.as<double>() + product.b,
                                 layout(p, Operand::B).cols, a.as<double>() + product.a,
                                 layout(p, Operand::A).cols, &one, want + product.c, p.N));
    }
    device.synchronize();  // before the inputs go
  }
  finish(device, want, p, seed);
  return result;
}

// An element of C in double precision, without a library. `row`: of all.
double exact_element(const Problem& p, uint64_t seed, int64_t row, int64_t n) {
  const Generator generator(p, Inputs::uniform, seed);
  const int64_t product = product_of_row(p, row), m = row % p.M;
  const auto at = [&](Operand operand, int64_t r, int64_t col) {
    const MatrixLayout l = layout(p, operand);
    const int64_t before = l.products > 1 ? product * l.rows : 0;
    const bool scaled = operand == Operand::A || operand == Operand::B;
    return round_to(p.dtype, generator.stored(operand, before + r, col), operand) *
           (scaled ? generator.block_scale(operand, before + r, col) : 1);
  };
  double sum = 0;
  if (p.alpha != 0)
    for (int64_t k = 0; k < p.K; ++k)
      sum += (p.op_a == Op::N ? at(Operand::A, m, k) : at(Operand::A, k, m)) *
             (p.op_b == Op::N ? at(Operand::B, k, n) : at(Operand::B, n, k));
  return p.alpha * generator.scale(m, n) * sum + (p.beta == 0 ? 0 : p.beta * at(Operand::C, m, n)) +
         (p.operands.bias ? at(Operand::bias, 0, n) : 0) +
         (p.operands.row_bias ? at(Operand::row_bias, 0, m) : 0);
}

// Whether two results are those of the same sum in double precision, added in different orders.
bool agree(const Problem& p, double x, double y) {
  return std::fabs(x - y) <= (p.K + 2) * 0x1p-52 * typical_magnitude(p);
}

[[noreturn]] void disagree(const Problem& p, int64_t element) {
  throw std::runtime_error(
      "cublasDgemm's reference and the CPU's differ beyond rounding: " + to_string(p.dtype) + " " +
      ops_name(p) + " " + shape_name(p) + ", element " + std::to_string(element));
}

// A few elements of each reference, the last one among them, and others all over C: whatever kernel
// cublasDgemm takes for a shape, it is not trusted unseen.
void check_elements(GpuDevice& device, const Problem& p, uint64_t seed, const double* want) {
  constexpr int ELEMENTS = 12;  // 3 ms on the CPU at K = 16384
  const int64_t all = int64_t{p.batch} * p.M * p.N;
  for (int i = 0; i < ELEMENTS && all > 0; ++i) {
    const auto element = static_cast<int64_t>(
        i == 0 ? all - 1 : mix(seed, static_cast<uint64_t>(i)) % static_cast<uint64_t>(all));
    double got = 0;
    device.download(&got, want + element, sizeof got);
    if (!agree(p, got, exact_element(p, seed, element / p.N, element % p.N))) disagree(p, element);
  }
}

// Both do the same sums in double precision, in different orders: they may differ by what rounding
// K + 2 terms can do and by nothing more.
void check_against_cpu(GpuDevice& device) {
  const Problem problems[] = {
      {.dtype = DType::f32, .M = 640, .N = 512, .K = 768, .alpha = 1.5f, .beta = -0.5f},
      {.dtype = DType::f16, .M = 640, .N = 512, .K = 768, .op_a = Op::T, .op_b = Op::T},
      {.dtype = DType::bf16, .M = 640, .N = 512, .K = 768, .op_a = Op::T},
      {.dtype = DType::f16,
       .M = 640,
       .N = 512,
       .K = 768,
       .beta = 1,
       .operands = {true, true, true, true, true}},
      {.dtype = DType::bf16,
       .M = 160,
       .N = 96,
       .K = 128,
       .beta = 1,
       .operands = {false, true, true, true, true},
       .batch = 3},
      {.dtype = DType::bf16,
       .M = 160,
       .N = 96,
       .K = 128,
       .op_b = Op::T,
       .groups = {.count = 4, .ends = {50, 50, 57, 160}}},
      {.dtype = DType::e4m3_f32_block, .M = 160, .N = 200, .K = 300, .op_b = Op::T, .batch = 2}};
  for (const Problem& p : problems) {
    const HostReference cpu = cpu_reference(p, Inputs::uniform, 1);
    const auto gpu = multiply(device, p, 1);
    std::vector<double> got(cpu.want.size());
    device.download(got.data(), gpu->want.as<double>(), sizeof(double) * got.size());
    for (size_t i = 0; i < got.size(); ++i)
      if (!agree(p, got[i], cpu.want[i])) disagree(p, static_cast<int64_t>(i));
  }
}

}  // namespace

std::unique_ptr<GpuReference> gpu_reference(GpuDevice& device, const Problem& p, uint64_t seed) {
  const NvtxRange range("reference on the GPU");
  static std::once_flag checked;  // an exception leaves it unset
  std::call_once(checked, check_against_cpu, std::ref(device));
  std::unique_ptr<GpuReference> reference = multiply(device, p, seed);
  check_elements(device, p, seed, reference->want.as<double>());
  return reference;
}

}  // namespace gemm
