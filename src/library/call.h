// What all calls of the C interface have in common: a device, a status, structures that grow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "device_errors.h"
#include "library/backend.h"
#include "registry.h"
#include "version.h"

namespace gemm::library {

constexpr int64_t LARGEST_EXTENT = INT32_MAX - 1024;  // a tile's end must fit in an int

// Why the calling thread's last call that failed did.
std::string& last_error();
// One line of text: other bytes, such as a name's that the caller gave, become "?".
std::string one_line(std::string told);

template <class... Parts>
[[noreturn]] void fail(gemm_status status, const Parts&... parts) {
  std::string what;
  const auto append = [&](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>)
      what += std::to_string(part);
    else
      what += part;
  };
  (append(parts), ...);
  throw Failure(status, what);
}

// Devices
// -------------------------------------------------------------------------------------------------

// Where a call computes: one of a computer's devices.
struct Place {
  const Computer& computer;
  int device;
  const DeviceInfo& info() const { return computer.device_info(device); }
};

// `device` as in a PlanKey: GEMM_SIMULATOR, or a GPU's number.
Place place_of(int device);

// A caller's device as in a PlanKey. Where there are no GPUs, every device is to be the simulator's.
int key_device(int device);

// Whether what a rung needs is there.
bool runs_on(const Needs& needs, const DeviceInfo& device);

// The library's rungs for a computer.
const std::vector<const Rung*>& rungs_of(const Computer& computer);

// Arguments
// -------------------------------------------------------------------------------------------------

// A matrix among a call's arguments.
struct Matrix {
  const char* name;
  int64_t rows, cols, ld;  // as stored
  int bytes;               // of an element
};

void check_extent(const char* name, int64_t value, int64_t least);
void check_op(const char* name, int32_t op);
// Sets a pitch of 0 to a row's length, and checks the others.
void check_rows(Matrix& x);
// Null is a pointer to a matrix without elements.
void check_pointer(const Matrix& x, const void* p);
// At most `size` bytes with the terminating 0.
void put_text(const std::string& told, char* text, size_t size);

// The structure as this library knows it. Fields that the program's header lacked are 0; fields that
// this library lacks must be. `first`: its bytes in the first version that had it.
template <class T>
T sized(const T& given, uint32_t first, const char* name, const char* initialiser) {
  constexpr uint32_t LARGEST = 4096;  // no version will be larger
  const uint32_t size = given.size;
  if (size == sizeof(T)) return given;
  if (size < first || size > LARGEST)
    fail(GEMM_BAD_ARGUMENT, name, ".size is ", size, ": start from ", initialiser);
  const char* const bytes = reinterpret_cast<const char*>(&given);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](char byte) { return byte != 0; }))
    fail(GEMM_UNSUPPORTED, name, " has fields that version ", GEMM_VERSION, " does not know");
  T known{};
  std::memcpy(&known, &given, std::min<size_t>(size, sizeof known));
  known.size = sizeof known;
  return known;
}

// What became of a call
// -------------------------------------------------------------------------------------------------

// Calls f and returns what became of it. `device`: where it was to run, as in a PlanKey.
template <class F>
gemm_status guarded(int& device, F&& f) noexcept {
  constexpr char NO_MEMORY[] = "out of memory";
  try {
    try {
      f();
      return GEMM_OK;
    } catch (const Failure& e) {
      last_error() = one_line(e.what());
      return e.status;
    } catch (const std::bad_alloc&) {
      last_error() = NO_MEMORY;
      return GEMM_OUT_OF_MEMORY;
    } catch (const std::logic_error& e) {
      last_error() = one_line(e.what());
      return GEMM_INTERNAL_ERROR;
    } catch (const RankFailure& e) {
      last_error() = one_line(e.what());
      return GEMM_RANK_FAILED;
    } catch (const DeviceFault& e) {
      last_error() = one_line(e.what());
      return GEMM_DEVICE_FAULT;
    } catch (const std::exception& e) {
      last_error() = one_line(e.what());
      return device >= 0 && GPUS->is_broken(device) ? GEMM_DEVICE_FAULT : GEMM_LAUNCH_REFUSED;
    }
  } catch (...) {  // no memory for the text
    return GEMM_OUT_OF_MEMORY;
  }
}

template <class F>
gemm_status guarded(F&& f) noexcept {
  int device = -1;
  return guarded(device, f);
}

}  // namespace gemm::library
