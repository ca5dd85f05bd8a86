// The reference at large sizes: the same doubles as on the CPU, multiplied by cublasDgemm.
#include <cmath>
#include <mutex>

#include "device/blas.h"
#include "harness/gpu/cuda_check.h"
#include "harness/gpu/gpu_device.h"

namespace gemm {
namespace {

// out[i] = scale * (element i of the stored matrix, rounded to its storage type), or its size.
template <class T>
__global__ void doubles_kernel(double* out, int64_t elements, double scale, bool absolute,
                               Inputs kind, uint64_t seed) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += stride) {
    const double x = scale * static_cast<float>(static_cast<T>(random_value(seed, i, kind)));
    out[i] = absolute ? fabs(x) : x;
  }
}

class Generator {
 public:
  Generator(GpuDevice& device, const Problem& p, Inputs kind, uint64_t seed)
      : device_(device), p_(p), kind_(kind), seed_(seed) {}

  void fill(double* out, Operand operand, double scale, bool absolute) const {
    const MatrixLayout l = layout(p_, operand);
    const uint64_t matrix = matrix_seed(seed_, static_cast<int>(operand));
    const auto blocks = static_cast<unsigned>(device_.properties().multiProcessorCount * 32);
    const auto kernel = with_element(p_.dtype, [](auto t) { return &doubles_kernel<decltype(t)>; });
    kernel<<<blocks, 256, 0, device_.stream()>>>(out, l.rows * l.cols, scale, absolute, kind_,
                                                 matrix);
    check_cuda(cudaGetLastError(), "doubles_kernel");
  }

 private:
  GpuDevice& device_;
  const Problem& p_;
  Inputs kind_;
  uint64_t seed_;
};

// c += alpha * op(A) * op(B), row-major and dense (blas.cu says why A and B are swapped).
void dgemm(GpuDevice& device, const Problem& p, double alpha, const double* a, const double* b,
           double* c) {
  const auto operation = [](Op op) { return op == Op::N ? CUBLAS_OP_N : CUBLAS_OP_T; };
  const double one = 1;
  GEMM_CUBLAS(cublasDgemm(blas_handle(device.stream()), operation(p.op_b), operation(p.op_a), p.N,
                          p.M, p.K, &alpha, b, static_cast<int>(layout(p, Operand::B).cols), a,
                          static_cast<int>(layout(p, Operand::A).cols), &one, c, p.N));
}

std::unique_ptr<GpuReference> multiply(GpuDevice& device, const Problem& p, Inputs kind,
                                       uint64_t seed) {
  const Generator generate(device, p, kind, seed);
  auto result = std::make_unique<GpuReference>(device, p);
  double* const want = result->want.as<double>();
  double* const magnitude = result->magnitude.as<double>();
  generate.fill(want, Operand::C, p.beta, false);
  generate.fill(magnitude, Operand::C, p.beta, true);
  if (p.alpha != 0 && p.K > 0) {
    const DeviceMemory a(device, sizeof(double) * p.M * p.K);
    const DeviceMemory b(device, sizeof(double) * p.K * p.N);
    for (const bool absolute : {false, true}) {
      generate.fill(a.as<double>(), Operand::A, 1, absolute);
      generate.fill(b.as<double>(), Operand::B, 1, absolute);
      dgemm(device, p, absolute ? std::fabs(p.alpha) : p.alpha, a.as<double>(), b.as<double>(),
            absolute ? magnitude : want);
    }
    device.synchronize();  // before the inputs go
  }
  return result;
}

// Both do the same sums in double precision, in different orders: they may differ by what rounding
// K + 2 terms can do and by nothing more.
void check_against_cpu(GpuDevice& device) {
  const Problem problems[] = {
      {.dtype = DType::f32, .M = 640, .N = 512, .K = 768, .alpha = 1.5f, .beta = -0.5f},
      {.dtype = DType::f16, .M = 640, .N = 512, .K = 768, .op_a = Op::T, .op_b = Op::T},
      {.dtype = DType::bf16, .M = 640, .N = 512, .K = 768, .op_a = Op::T}};
  for (const Problem& p : problems) {
    const HostReference cpu = cpu_reference(p, Inputs::uniform, 1);
    const auto gpu = multiply(device, p, Inputs::uniform, 1);
    const auto compare = [&](const char* what, const std::vector<double>& right,
                             const DeviceMemory& on_gpu) {
      std::vector<double> got(right.size());
      device.download(got.data(), on_gpu.as<double>(), sizeof(double) * got.size());
      for (size_t i = 0; i < got.size(); ++i)
        if (!(std::fabs(got[i] - right[i]) <= (p.K + 2) * 0x1p-52 * cpu.magnitude[i]))
          throw std::runtime_error(
              "cublasDgemm's reference and the CPU's differ beyond rounding: " + std::string(what) +
              " of " + to_string(p.dtype) + " " + ops_name(p) + " " + shape_name(p) + ", element " +
              std::to_string(i));
    };
    compare("result", cpu.want, gpu->want);
    compare("magnitude", cpu.magnitude, gpu->magnitude);
  }
}

}  // namespace

std::unique_ptr<GpuReference> gpu_reference(GpuDevice& device, const Problem& p, Inputs kind,
                                            uint64_t seed) {
  static std::once_flag checked;  // an exception leaves it unset
  std::call_once(checked, check_against_cpu, std::ref(device));
  return multiply(device, p, kind, seed);
}

}  // namespace gemm
