#include <cublas_v2.h>

#include <algorithm>
#include <cstdlib>
#include <cub/block/block_reduce.cuh>
#include <limits>
#include <numeric>
#include <vector>

#include "device/current_device.h"
#include "device/workspace.h"
#include "harness/gpu/blas.h"
#include "harness/gpu/cuda_check.h"
#include "harness/gpu/gpu_device.h"
#include "harness/timing.h"

namespace gemm {
namespace {

// Bits that are not a matrix element: a NaN, or the canary. The upper parts of each are the
// narrower patterns.
constexpr uint32_t NAN_BITS = 0x7FFFFFFF;
constexpr uint32_t CANARY_BITS = CANARY * 0x10001u;

template <class T>
using Bits = std::conditional_t<sizeof(T) == 1, uint8_t,
                                std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>>;

template <class T>
GEMM_HOST_DEVICE Bits<T> pattern(uint32_t bits) {
  return static_cast<Bits<T>>(bits >> (32 - 8 * sizeof(T)));
}

// What this code was compiled for. Only the code itself knows its "a".
__global__ void code_kernel(CodeArch* code) {
#ifdef __CUDA_ARCH__
  code->sm = __CUDA_ARCH__ / 10;
#endif
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  code->exact = true;
#else
  code->exact = false;
#endif
}

// with_element, which is the host's.
template <class Visit>
GEMM_HOST_DEVICE auto visit_element(Element element, Visit&& visit) {
  switch (element) {
#define ROW(name, ...) \
  case Element::name:  \
    return visit(GpuTypes::name());
    GEMM_ELEMENTS(ROW)
#undef ROW
  }
  return visit(GpuTypes::f32());
}

// allocation[i]: a value, or bits that are none.
GEMM_HOST_DEVICE void store_element(void* allocation, Element type, int64_t i, float value,
                                    bool is_value, uint32_t bits) {
  visit_element(type, [&](auto t) {
    using T = decltype(t);
    if (is_value)
      static_cast<T*>(allocation)[i] = static_cast<T>(value);
    else
      static_cast<Bits<T>*>(allocation)[i] = pattern<T>(bits);
  });
}

// Whether allocation[i] is what store_element would write, bit for bit.
GEMM_HOST_DEVICE bool holds_element(const void* allocation, Element type, int64_t i, float value,
                                    bool is_value, uint32_t bits) {
  return visit_element(type, [&](auto t) {
    using B = Bits<decltype(t)>;
    alignas(4) B filled[1];
    store_element(filled, type, 0, value, is_value, bits);
    return static_cast<const B*>(allocation)[i] == filled[0];
  });
}

// One kernel for all types, as StoredC's: most of it is the generator.
__global__ void fill_kernel(void* allocation, Element type, MatrixLayout l, uint32_t outside,
                            bool all_nan, Operand operand, Generator generator) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < l.elements; i += stride) {
    const int64_t element = l.element(i);
    const bool is_value = element >= 0 && !all_nan;
    const float value =
        is_value ? generator.stored(operand, element / l.cols, element % l.cols) : 0;
    store_element(allocation, type, i, value, is_value, element < 0 ? outside : NAN_BITS);
  }
}

// Counts what does not hold what fill_kernel has written.
__global__ void changed_kernel(const void* allocation, Element type, MatrixLayout l,
                               Operand operand, Generator generator, unsigned* changed) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  unsigned count = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < l.elements; i += stride) {
    const int64_t element = l.element(i);
    const float value =
        element >= 0 ? generator.stored(operand, element / l.cols, element % l.cols) : 0;
    count += !holds_element(allocation, type, i, value, element >= 0, NAN_BITS);
  }
  if (count > 0) atomicAdd(changed, count);
}

template <class T>
__global__ void random_kernel(T* out, int64_t elements, uint64_t seed) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += stride)
    out[i] = static_cast<T>(random_value(seed, i));
}

// What was found wrong in some part of C; merging two is associative and commutative, so the result
// does not depend on the order.
struct Tally {
  static constexpr int64_t NOWHERE = std::numeric_limits<int64_t>::max();
  uint64_t wrong = 0, overwritten = 0;
  double max_error = 0, max_used = 0;  // as in CheckResult
  double worst = -1;                   // error over bound of the worst element, ties to the first
  int64_t worst_at = NOWHERE;          // its row * cols + col
  int64_t overwritten_at = NOWHERE;    // index in the allocation
};

struct Merge {
  GEMM_HOST_DEVICE Tally operator()(Tally a, const Tally& b) const {
    if (b.worst > a.worst || (b.worst == a.worst && b.worst_at < a.worst_at)) {
      a.worst = b.worst;
      a.worst_at = b.worst_at;
    }
    if (b.overwritten_at < a.overwritten_at) a.overwritten_at = b.overwritten_at;
    a.max_error = fmax(a.max_error, b.max_error);
    a.max_used = fmax(a.max_used, b.max_used);
    a.wrong += b.wrong;
    a.overwritten += b.overwritten;
    return a;
  }
};

// C's allocation, whatever its elements' type: ptxas takes half a minute for each kernel that judges.
struct StoredC {
  const void* c;
  Element element;

  template <class Visit>
  GEMM_HOST_DEVICE auto visit(Visit&& visit) const {
    return visit_element(element, visit);
  }
  GEMM_HOST_DEVICE bool is_canary(int64_t i) const {
    return visit([&](auto t) {
      using T = decltype(t);
      return static_cast<const Bits<T>*>(c)[i] == pattern<T>(CANARY_BITS);
    });
  }
  GEMM_HOST_DEVICE float at(int64_t i) const {
    return visit([&](auto t) { return static_cast<float>(static_cast<const decltype(t)*>(c)[i]); });
  }
  // To float first, as a kernel that sums in float does.
  GEMM_HOST_DEVICE float rounded(double x) const {
    return visit([&](auto t) {
      return static_cast<float>(static_cast<decltype(t)>(static_cast<float>(x)));
    });
  }
};

// Judges what lies at one index of C's allocation by the rule of check.h.
struct Judge {
  StoredC c;
  MatrixLayout layout;
  Problem p;
  Inputs kind;
  Generator generator;
  const double* reference;  // of uniform inputs

  // What an element should be, by its row of all. `wanted_row`: that of the reference.
  GEMM_HOST_DEVICE Expected expect(int64_t row, int64_t col, const double* wanted_row) const {
    return expected_at(p, kind, row, col, Before{*this, wanted_row});
  }
  struct Before {
    const Judge& judge;
    const double* wanted_row;
    // One copy of it for gates and values: inlined, ptxas takes minutes.
    GEMM_HOST_DEVICE __noinline__ BeforeActivation operator()(int64_t m, int64_t n) const {
      const bool uniform = judge.kind == Inputs::uniform;
      return {uniform ? wanted_row[n] : judge.generator.result(judge.p, m, n),
              judge.generator.scale(m, n)};
    }
  };

  __device__ Tally operator()(int64_t i) const {
    Tally t;
    const int64_t element = layout.element(i);
    if (element < 0) {
      if (!c.is_canary(i)) {
        t.overwritten = 1;
        t.overwritten_at = i;
      }
      return t;
    }
    const int64_t row = element / layout.cols;
    const auto [want, bound] = expect(row, element % layout.cols, reference + row * p.N);
    const double got = c.at(i);
    const double rounded = c.rounded(want);
    const bool right = is_right(p, kind, {want, bound}, got, rounded);
    const double error = right && (bound == 0 || got == rounded) ? 0 : fabs(got - want);
    t.max_error = isnan(error) ? INFINITY : error;
    if (bound > 0) t.max_used = t.max_error / bound;
    if (!right) {
      t.wrong = 1;
      t.worst = isnan(error / bound) ? INFINITY : error / bound;
      t.worst_at = element;
    }
    return t;
  }
};

constexpr int THREADS = 256;  // of a block that fills or judges

// What each block found. One kernel: thrust::transform_reduce has four with the judge in each.
__global__ void __launch_bounds__(THREADS)
    judge_kernel(Judge judge, int64_t elements, Tally* tallies) {
  using Block = cub::BlockReduce<Tally, THREADS>;
  __shared__ typename Block::TempStorage storage;
  const int64_t stride = int64_t{gridDim.x} * THREADS;
  Tally t;
  for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < elements; i += stride)
    t = Merge{}(t, judge(i));
  t = Block(storage).Reduce(t, Merge{});
  if (threadIdx.x == 0) tallies[blockIdx.x] = t;
}

Tally judged(GpuDevice& device, const Judge& judge, int64_t elements) {
  const int64_t full = int64_t{device.properties().multiProcessorCount} * 8;
  std::vector<Tally> found(std::min((elements + THREADS - 1) / THREADS, full));
  if (found.empty()) return {};
  const size_t bytes = found.size() * sizeof found[0];
  const Workspace tallies(bytes, device.stream());
  judge_kernel<<<unsigned(found.size()), THREADS, 0, device.stream()>>>(judge, elements,
                                                                        tallies.as<Tally>());
  check_cuda(cudaGetLastError(), "judge_kernel");
  device.download(found.data(), tallies.as<Tally>(), bytes);
  return std::accumulate(found.begin(), found.end(), Tally{}, Merge{});
}

CheckResult check_matrix(GpuDevice& device, const void* c, const Problem& p, Inputs kind,
                         uint64_t seed, const double* reference) {
  const MatrixLayout l = layout(p, Operand::C);
  const StoredC stored{c, info(p.dtype).out};
  const Judge judge{stored, l, p, kind, Generator(p, kind, seed), reference};
  const Tally t = judged(device, judge, l.elements);
  CheckResult result;
  result.elements = static_cast<uint64_t>(l.all_rows()) * l.cols;
  result.wrong = t.wrong;
  result.max_error = t.max_error;
  result.max_error_roundings = roundings(p, t.max_error);
  result.max_used = t.max_used;
  result.overwritten = t.overwritten;
  if (t.overwritten > 0) result.overwritten_at = t.overwritten_at;
  if (t.wrong > 0) {
    const int64_t row = t.worst_at / l.cols, col = t.worst_at % l.cols;
    set_place(result, p, row, col);
    const int64_t bytes = info(stored.element).bytes;
    alignas(8) char got[8];
    device.download(got, static_cast<const char*>(c) + l.index(row, col) * bytes, bytes);
    std::vector<double> wanted_row(kind == Inputs::uniform ? p.N : 0);
    if (!wanted_row.empty())
      device.download(wanted_row.data(), reference + row * p.N, sizeof(double) * p.N);
    const Expected known = judge.expect(row, col, wanted_row.data());
    result.got = StoredC{got, stored.element}.at(0);
    result.want = known.want;
    result.bound = known.bound;
    if (result.bound == 0) result.want = stored.rounded(result.want);
  }
  return result;
}

// The CPU's share: what it multiplies in some milliseconds, inputs included.
bool small(const Problem& p) {
  const double M = p.M, N = p.N, K = p.K;
  return p.batch * M * N * K <= 256.0 * 256 * 256 &&
         std::max({p.batch * M * N, p.batch * M * K, products(p) * N * K}) <= 1 << 18;
}

cudaDeviceProp select_device(int ordinal) {
  GEMM_CUDA(cudaSetDevice(ordinal));
  cudaDeviceProp properties;
  GEMM_CUDA(cudaGetDeviceProperties(&properties, ordinal));
  return properties;
}

std::string pci_bus_id(int ordinal) {
  char id[32];
  GEMM_CUDA(cudaDeviceGetPCIBusId(id, sizeof id, ordinal));
  return id;
}

std::string version(int v) {  // 13000 -> "13.0"
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

// What the user has hidden, for a message: " (CUDA_VISIBLE_DEVICES=0,2)", or nothing.
std::string visible_devices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "" : " (CUDA_VISIBLE_DEVICES=" + std::string(visible) + ")";
}

}  // namespace

std::unique_ptr<Device> make_gpu_device(std::string& why, int ordinal) {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    cudaGetLastError();
    why = "no NVIDIA driver";
    return nullptr;
  }
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    cudaGetLastError();
    why = describe(error) + visible_devices();
    return nullptr;
  }
  if (count == 0) {
    why = "no CUDA device" + visible_devices();
    return nullptr;
  }
  if (ordinal < 0 || ordinal >= count)
    throw std::out_of_range(
        "there is no GPU " + std::to_string(ordinal) + visible_devices() + ": choose " +
        (count == 1 ? "0, the only one" : "from 0 to " + std::to_string(count - 1)));
  if (ONLY_A_SAMPLE != nullptr) {
    why = ONLY_A_SAMPLE;
    return nullptr;
  }
  try {
    auto device = std::make_unique<GpuDevice>(ordinal);
    cudaFuncAttributes attributes;
    const cudaError_t usable = cudaFuncGetAttributes(&attributes, code_kernel);
    if (usable == cudaSuccess) {
      device->find_code();
      return device;
    }
    cudaGetLastError();
    why = device->name() + " (sm_" + std::to_string(device->sm()) + "): " + describe(usable) +
          ", this program was built for others; " + build_option(device->sm()) + " builds for it";
  } catch (const std::bad_alloc&) {
    why = "the GPU has no free memory";
  } catch (const std::exception& e) {
    why = e.what();
  }
  return nullptr;
}

GpuDevice& as_gpu(Device& device) {
  if (auto* gpu = dynamic_cast<GpuDevice*>(&device)) return *gpu;
  throw std::invalid_argument("timing needs a GPU, not the " + device.name());
}

GpuDevice::GpuDevice(int ordinal)
    : ordinal_(ordinal), properties_(select_device(ordinal)), nvml_(pci_bus_id(ordinal)) {
  GEMM_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

const Arch& GpuDevice::arch() const {
  const DeviceScope here(ordinal_);
  return current_arch();
}

GpuDevice::~GpuDevice() {
  blas_.reset();  // before its stream
  cudaStreamDestroy(stream_);
}

const Blas& GpuDevice::blas(size_t workspace_bytes) {
  const DeviceScope scope(ordinal_);
  if (blas_ == nullptr || blas_->workspace_bytes() != workspace_bytes)
    blas_ = std::make_unique<Blas>(stream_, workspace_bytes);
  return *blas_;
}

void* GpuDevice::allocate(size_t bytes) {
  const DeviceScope scope(ordinal_);
  void* p = nullptr;
  cudaError_t error = cudaMalloc(&p, bytes);
  if (error == cudaErrorMemoryAllocation) {  // what rungs' workspaces have left in the pool
    cudaGetLastError();
    synchronize();
    cudaMemPoolTrimTo(workspace_pool(ordinal_), 0);
    cudaGetLastError();
    error = cudaMalloc(&p, bytes);
  }
  check_cuda(error, "cudaMalloc");
  return p;
}

// Not checked: cudaFree can only repeat an earlier kernel's failure, and destructors call this.
void GpuDevice::release(void* p) {
  cudaFree(p);
  cudaGetLastError();
}

void GpuDevice::download(void* host, const void* device, size_t bytes) {
  const DeviceScope scope(ordinal_);
  GEMM_CUDA(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_));
  synchronize();
}

void GpuDevice::upload(void* device, const void* host, size_t bytes) {
  const DeviceScope scope(ordinal_);
  GEMM_CUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_));
  synchronize();
}

void GpuDevice::synchronize() {
  const DeviceScope scope(ordinal_);
  GEMM_CUDA(cudaStreamSynchronize(stream_));
}

void GpuDevice::find_code() {
  const DeviceMemory code(*this, sizeof code_);
  code_kernel<<<1, 1, 0, stream_>>>(code.as<CodeArch>());
  check_cuda(cudaGetLastError(), "code_kernel");
  download(&code_, code.as<CodeArch>(), sizeof code_);
}

void GpuDevice::fill(void* allocation, const Problem& p, Operand operand, Inputs kind,
                     uint64_t seed) {
  const DeviceScope scope(ordinal_);
  const MatrixLayout l = layout(p, operand);
  const bool is_c = operand == Operand::C;
  const uint32_t outside = is_c ? CANARY_BITS : NAN_BITS;
  const bool all_nan = is_c && !reads_d(p);
  fill_kernel<<<blocks_for(l.elements), THREADS, 0, stream_>>>(
      allocation, info(p.dtype).element(operand), l, outside, all_nan, operand,
      Generator(p, kind, seed));
  check_cuda(cudaGetLastError(), "fill_kernel");
}

bool GpuDevice::is_unchanged(const void* allocation, const Problem& p, Operand operand, Inputs kind,
                             uint64_t seed) {
  const DeviceScope scope(ordinal_);
  const MatrixLayout l = layout(p, operand);
  const Workspace counter(sizeof(unsigned), stream_);
  GEMM_CUDA(cudaMemsetAsync(counter.as<unsigned>(), 0, sizeof(unsigned), stream_));
  changed_kernel<<<blocks_for(l.elements), THREADS, 0, stream_>>>(
      allocation, info(p.dtype).element(operand), l, operand, Generator(p, kind, seed),
      counter.as<unsigned>());
  check_cuda(cudaGetLastError(), "changed_kernel");
  unsigned changed = 0;
  download(&changed, counter.as<unsigned>(), sizeof changed);
  return changed == 0;
}

void GpuDevice::fill_random(void* allocation, size_t bytes, Element element, uint64_t seed) {
  const DeviceScope scope(ordinal_);
  const auto elements = static_cast<int64_t>(bytes / info(element).bytes);
  if (elements == 0) return;
  with_element<GpuTypes>(element, [&](auto t) {
    random_kernel<<<blocks_for(elements), THREADS, 0, stream_>>>(
        static_cast<decltype(t)*>(allocation), elements, seed);
  });
  check_cuda(cudaGetLastError(), "random_kernel");
}

unsigned GpuDevice::blocks_for(int64_t elements) const {
  return static_cast<unsigned>(
      std::min<int64_t>((elements + THREADS - 1) / THREADS, properties_.multiProcessorCount * 32));
}

void GpuDevice::enqueue(const Rung& rung, const GemmCall& call) {
  const DeviceScope scope(ordinal_);
  GemmCall on_stream = call;
  LaunchMode mode = launch_mode();
  on_stream.stream = mode.stream = stream_;
  const LaunchModeScope own_stream(mode);
  cudaGetLastError();  // what a library left behind is not this rung's
  const auto fail = [&](const std::string& reason) {
    throw_cuda<LaunchError>(rung.name + " " + to_string(rung.dtype) + ", launch: " + reason);
  };
  try {
    rung.launch(on_stream);
  } catch (const std::bad_alloc&) {  // no memory for its workspace: nothing that the rung did wrong
    throw;
  } catch (const std::exception& e) {  // host code of a rung, such as cuBLAS's set-up
    fail(e.what());
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) fail(describe(error));
}

void GpuDevice::run(const Rung& rung, const GemmCall& call) {
  const DeviceScope scope(ordinal_);
  enqueue(rung, call);
  if (const cudaError_t error = cudaStreamSynchronize(stream_); error != cudaSuccess)
    throw_cuda<LaunchError>(rung.name + " " + to_string(rung.dtype) +
                            ", while running: " + describe(error));
}

GpuReference::GpuReference(Device& device, const Problem& p)
    : want(device, sizeof(double) * p.batch * p.M * p.N) {}

std::unique_ptr<Reference> GpuDevice::reference(const Problem& p, uint64_t seed) {
  const DeviceScope scope(ordinal_);
  if (!small(p)) return gpu_reference(*this, p, seed);
  const HostReference host = cpu_reference(p, Inputs::uniform, seed);
  auto on_gpu = std::make_unique<GpuReference>(*this, p);
  if (!host.want.empty())
    GEMM_CUDA(cudaMemcpyAsync(on_gpu->want.as<double>(), host.want.data(),
                              sizeof(double) * host.want.size(), cudaMemcpyHostToDevice, stream_));
  synchronize();  // before `host` goes
  return on_gpu;
}

CheckResult GpuDevice::check(const void* c, const Problem& p, Inputs kind, uint64_t seed,
                             const Reference* reference) {
  const DeviceScope scope(ordinal_);
  const double* want = nullptr;
  if (kind == Inputs::uniform)
    want = dynamic_cast<const GpuReference&>(*reference).want.as<double>();
  return check_matrix(*this, c, p, kind, seed, want);
}

std::map<std::string, std::string> describe_gpu(Device& device) {
  GpuDevice& gpu = as_gpu(device);
  const cudaDeviceProp& properties = gpu.properties();
  int runtime = 0, driver_api = 0, major = 0, minor = 0, patch = 0;
  GEMM_CUDA(cudaRuntimeGetVersion(&runtime));
  GEMM_CUDA(cudaDriverGetVersion(&driver_api));
  GEMM_CUBLAS(cublasGetProperty(MAJOR_VERSION, &major));
  GEMM_CUBLAS(cublasGetProperty(MINOR_VERSION, &minor));
  GEMM_CUBLAS(cublasGetProperty(PATCH_LEVEL, &patch));
  const auto known = [](std::optional<double> value) {
    return value ? std::to_string(std::llround(*value)) : "unknown";
  };
  const std::string driver = gpu.nvml().driver_version();
  return {
      {"gpu", gpu.name()},
      {"device", std::to_string(gpu.ordinal())},
      {"compute_capability", version(properties.major * 1000 + properties.minor * 10)},
      {"sm_count", std::to_string(properties.multiProcessorCount)},
      {"l2_bytes", std::to_string(properties.l2CacheSize)},
      {"memory_bytes", std::to_string(properties.totalGlobalMem)},
      {"driver", driver.empty() ? "unknown" : driver},
      {"cuda_runtime", version(runtime)},
      {"cuda_driver_api", version(driver_api)},
      {"cublas", std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch)},
      {"power_limit_w", known(gpu.nvml().power_limit_w())},
      {"max_sm_clock_mhz", known(gpu.nvml().max_sm_clock_mhz())}};
}

}  // namespace gemm
