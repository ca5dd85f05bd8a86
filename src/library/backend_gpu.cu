#include <vector>

#include "device/current_device.h"
#include "library/backend.h"
#include "library/gpu_refusal.h"
#include "sharded/gpu/cuda_check.h"

namespace gemm::library {
namespace {

// Whether this library has code for "90a" and the like; GEMM_CUDA_ARCHITECTURES is CMake's list of
// them, "90a-real,120a".
bool built_for(const std::string& architecture) {
  const std::string all = std::string(",") + GEMM_CUDA_ARCHITECTURES + ",";
  return all.find("," + architecture + ",") != std::string::npos ||
         all.find("," + architecture + "-real,") != std::string::npos;
}

// A GPU, and why this library cannot compute on it; empty: it can.
struct Gpu {
  DeviceInfo info;
  std::string refusal;
};

std::vector<Gpu> all_gpus() {
  std::vector<Gpu> all;
  for (const Arch& arch : gpu_archs()) {
    int major = 0, minor = 0;
    const int device = static_cast<int>(all.size());
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    const int sm = major * 10 + minor;
    const DeviceInfo info{
        .arch = arch, .sm = sm, .exact_arch = built_for(std::to_string(sm) + "a")};
    all.push_back({info, has_code(GEMM_CUDA_ARCHITECTURES, sm)
                             ? ""
                             : why_no_code(arch.name, GEMM_CUDA_ARCHITECTURES, sm)});
  }
  return all;
}

const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> all = all_gpus();
  return all;
}

[[noreturn]] void throw_no_gpu() {
  int driver = 0, count = 0;
  cudaDriverGetVersion(&driver);
  std::string why = why_not_driver(driver, CUDART_VERSION);
  if (const cudaError_t error = cudaGetDeviceCount(&count); why.empty() && error != cudaSuccess)
    why = describe(error);
  cudaGetLastError();
  throw Failure(GEMM_NO_DEVICE, "there is no GPU" + (why.empty() ? "" : ": " + why) +
                                    "; GEMM_SIMULATOR computes without one");
}

int gpu_count() {
  for (const Gpu& gpu : gpus())
    if (gpu.refusal.empty()) return static_cast<int>(gpus().size());
  return 0;
}

int asked_for_current_device() {
  if (gpus().empty()) throw_no_gpu();
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) {
    cudaGetLastError();
    throw Failure(GEMM_NO_DEVICE, "cudaGetDevice: " + describe(error));
  }
  return device;
}

const DeviceInfo& device_info(int device) {
  const std::vector<Gpu>& all = gpus();
  const int count = static_cast<int>(all.size());
  if (count == 0) throw_no_gpu();
  if (device < 0 || device >= count)
    throw Failure(GEMM_NO_DEVICE,
                  "there is no GPU " + std::to_string(device) + ": choose " +
                      (count == 1 ? "0, the only one" : "from 0 to " + std::to_string(count - 1)));
  if (!all[device].refusal.empty()) throw Failure(GEMM_UNSUPPORTED, all[device].refusal);
  return all[device].info;
}

void on_device(int device, const std::function<void()>& f) {
  // What is done here belongs to no stream. CUDA allows that in a capture only when told so.
  struct Relaxed {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode); }
    ~Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode); }
  } const relaxed;
  const DeviceScope scope(device);
  f();
}

bool is_broken(int device) {
  int before = 0;
  cudaGetDevice(&before);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  const cudaError_t error = cudaSetDevice(device);
  const bool broken =
      error == cudaSuccess ? context_is_broken() : error != cudaErrorMemoryAllocation;
  cudaGetLastError();
  cudaSetDevice(before);
  cudaThreadExchangeStreamCaptureMode(&mode);
  return broken;
}

void read(int device, void* stream, void* host, const void* p, size_t bytes) {
  const DeviceScope scope(device);
  const auto s = static_cast<cudaStream_t>(stream);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaError_t error = cudaStreamIsCapturing(s, &capture);
  if (error == cudaSuccess && capture != cudaStreamCaptureStatusNone)
    throw Failure(
        GEMM_UNSUPPORTED,
        "the stream is captured, and these groups are launches of their own, for which the "
        "host has to read their ends");
  if (error == cudaSuccess) error = cudaMemcpyAsync(host, p, bytes, cudaMemcpyDeviceToHost, s);
  if (error == cudaSuccess) error = cudaStreamSynchronize(s);
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw Failure(is_broken(device) ? GEMM_DEVICE_FAULT : GEMM_LAUNCH_REFUSED,
                "the ends of the groups cannot be read: " + describe(error));
}

// The GPU's UUID: processes may number GPUs differently.
std::string identity(int device) {
  cudaDeviceProp properties{};
  GEMM_CUDA(cudaGetDeviceProperties(&properties, device));
  return {properties.uuid.bytes, sizeof properties.uuid.bytes};
}

void check_stream(int device, void* stream) {
  const DeviceScope scope(device);
  const auto s = static_cast<cudaStream_t>(stream);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(s, &capture);
  cudaGetLastError();
  // The default stream may not be asked while another one is captured: nor may it take work.
  if (error == cudaErrorStreamCaptureImplicit || capture != cudaStreamCaptureStatusNone)
    throw Failure(GEMM_UNSUPPORTED,
                  "the stream is captured: a sharded product counts its calls, and cannot be "
                  "repeated by a graph");
  if (error != cudaSuccess)
    throw Failure(is_broken(device) ? GEMM_DEVICE_FAULT : GEMM_BAD_ARGUMENT,
                  "the stream cannot be used: " + describe(error));
#if CUDART_VERSION >= 12080
  int owner = device;
  if (s != nullptr && cudaStreamGetDevice(s, &owner) == cudaSuccess && owner != device)
    throw Failure(GEMM_BAD_ARGUMENT, "the stream is of GPU " + std::to_string(owner) +
                                         ", and the rank's is GPU " + std::to_string(device));
  cudaGetLastError();
#endif
}

const Computer CUDA{.backend = Backend::gpu,
                    .name = "cuda",
                    .current_device = asked_for_current_device,
                    .device_info = device_info,
                    .on_device = on_device,
                    .is_broken = is_broken,
                    .gpu_count = gpu_count,
                    .read = read,
                    .make_fabric = make_gpu_fabric,
                    .make_rank = make_gpu_rank,
                    .identity = identity,
                    .check_stream = check_stream};

}  // namespace

const Computer* const GPUS = &CUDA;

}  // namespace gemm::library
