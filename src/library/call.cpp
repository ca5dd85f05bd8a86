#include "library/call.h"

namespace gemm::library {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

std::string one_line(std::string told) {
  for (char& c : told)
    if (c < ' ' || c > '~') c = '?';
  return told;
}

Place place_of(int device) {
  return device == GEMM_SIMULATOR ? Place{SIMULATOR, 0} : Place{*GPUS, device};
}

int key_device(int device) {
  if (device == GEMM_SIMULATOR) return GEMM_SIMULATOR;
  if (GPUS != nullptr) return device == GEMM_CURRENT_DEVICE ? GPUS->current_device() : device;
  if (device != GEMM_CURRENT_DEVICE) SIMULATOR.device_info(device);  // throws
  return GEMM_SIMULATOR;
}

bool runs_on(const Needs& needs, const DeviceInfo& device) {
  return device.sm >= needs.sm && (device.sm == needs.sm || !needs.exact_arch) &&
         (device.exact_arch || !needs.exact_arch);
}

const std::vector<const Rung*>& rungs_of(const Computer& computer) {
  static const std::vector<const Rung*> simulated = rungs(Backend::sim), gpu = rungs(Backend::gpu);
  return computer.backend == Backend::gpu ? gpu : simulated;
}

void check_extent(const char* name, int64_t value, int64_t least) {
  if (value < least || value > LARGEST_EXTENT)
    fail(GEMM_BAD_ARGUMENT, name, " is ", value, ": allowed are ", least, " to ", LARGEST_EXTENT);
}

void check_op(const char* name, int32_t op) {
  if (op != GEMM_N && op != GEMM_T)
    fail(GEMM_BAD_ARGUMENT, name, " is ", op, ": allowed are GEMM_N and GEMM_T");
}

void check_rows(Matrix& x) {
  if (x.ld == 0) x.ld = x.cols;
  if (x.ld < x.cols || x.ld > INT64_MAX / 8 / std::max<int64_t>(x.rows, 1))
    fail(GEMM_BAD_ARGUMENT, "the rows of ", x.name, " lie ", x.ld, " elements apart: allowed are ",
         x.cols, ", a stored row's length, or more, within 2^63 bytes in all");
}

void check_pointer(const Matrix& x, const void* p) {
  if (x.rows == 0 || x.cols == 0) return;
  if (p == nullptr) fail(GEMM_BAD_ARGUMENT, x.name, " is a null pointer");
  if (reinterpret_cast<uintptr_t>(p) % x.bytes != 0)
    fail(GEMM_BAD_ARGUMENT, x.name, " is not aligned to its elements of ", x.bytes, " bytes");
}

void put_text(const std::string& told, char* text, size_t size) {
  if (text == nullptr || size == 0) fail(GEMM_BAD_ARGUMENT, "there is no place for the text");
  const size_t length = std::min(size - 1, told.size());
  std::memcpy(text, told.data(), length);
  text[length] = 0;
}

}  // namespace gemm::library
