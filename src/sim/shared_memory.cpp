#include "sim/shared_memory.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "sim/block.h"
#include "sim/shared_variables.h"

namespace gemm::sim {

__thread ThisThread this_thread;

namespace {

struct Range {
  const char* own = nullptr;  // lies in the block that is looked for
  char *begin = nullptr, *end = nullptr;
  size_t tls_offset = 0;  // of begin in the TLS block
};

// The zero-initialised part (.tbss) of the calling thread's TLS block of the program, or of the
// shared library that the rungs are linked into. __shared__ variables have no initialiser, so all are
// in it.
int find_tbss(dl_phdr_info* module, size_t, void* result) {
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module->dlpi_phdr[i];
    if (segment.p_type != PT_TLS || module->dlpi_tls_data == nullptr) continue;
    char* tls = static_cast<char*>(module->dlpi_tls_data);
    Range& range = *static_cast<Range*>(result);
    if (range.own < tls || range.own >= tls + segment.p_memsz) continue;
    range = {range.own, tls + segment.p_filesz, tls + segment.p_memsz, segment.p_filesz};
    return 1;  // no further modules
  }
  return 0;
}

constexpr std::align_val_t ALIGNMENT{1024};  // as the TMA swizzles want it

}  // namespace

SharedMemory::SharedMemory() : dynamic_(static_cast<char*>(operator new(MAX_SHARED, ALIGNMENT))) {
  // Named before the modules are asked: that makes this thread's block where there is none yet.
  Range range{.own = reinterpret_cast<char*>(&this_thread)};
  dl_iterate_phdr(find_tbss, &range);
  static_begin_ = range.begin;
  static_end_ = range.end;
  tls_offset_ = range.tls_offset;
}

SharedMemory::~SharedMemory() { operator delete(dynamic_, ALIGNMENT); }

void SharedMemory::poison(size_t dynamic_bytes) {
  dynamic_bytes_ = dynamic_bytes;
  std::memset(dynamic_, 0xff, dynamic_bytes);
}

void SharedMemory::poison_statics() {
  // this_thread lies in the range, and stays.
  char* keep = reinterpret_cast<char*>(&this_thread);
  char* keep_begin = std::clamp(keep, static_begin_, static_end_);
  char* keep_end = std::clamp(keep + sizeof(ThisThread), static_begin_, static_end_);
  std::memset(static_begin_, 0xff, keep_begin - static_begin_);
  std::memset(keep_end, 0xff, static_end_ - keep_end);
}

namespace {

bool within(const void* p, size_t bytes, const char* begin, const char* end) {
  const char* first = static_cast<const char*>(p);
  return first >= begin && first + bytes <= end;
}

}  // namespace

bool SharedMemory::contains(const void* p, size_t bytes) const {
  return within(p, bytes, static_begin_, static_end_) || in_dynamic(p, bytes);
}

bool SharedMemory::in_dynamic(const void* p, size_t bytes) const {
  return within(p, bytes, dynamic_, dynamic_ + dynamic_bytes_);
}

// By memcmp: a cluster asks when a block ends, for all kernels' variables, a megabyte.
bool SharedMemory::statics_untouched() const {
  const auto untouched = [](const char* begin, const char* end) {
    return begin >= end ||
           (*begin == '\xff' && std::memcmp(begin, begin + 1, end - begin - 1) == 0);
  };
  const uintptr_t own = reinterpret_cast<uintptr_t>(&this_thread);
  const size_t place = own - reinterpret_cast<uintptr_t>(static_begin_);
  if (place >= static_size()) return untouched(static_begin_, static_end_);
  return untouched(static_begin_, static_begin_ + place) &&
         untouched(static_begin_ + place + sizeof(ThisThread), static_end_);
}

void SharedMemory::check_statics() const {
  size_t bytes = 0;
  std::string names;
  for (const SharedVariable& v : shared_variables()) {
    if (v.begin < tls_offset_ || v.end > tls_offset_ + static_size()) continue;
    const char* const p = static_begin_ + (v.begin - tls_offset_);
    const size_t size = v.end - v.begin;
    if (p == reinterpret_cast<char*>(&this_thread)) continue;
    if (*p == '\xff' && std::memcmp(p, p + 1, size - 1) == 0) continue;  // as it was filled
    bytes += size;
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", v.name, size);
  }
  if (bytes > MAX_STATIC_SHARED)
    fail("{} bytes of __shared__ variables ({}); allowed: up to {}, more as dynamic_shared()",
         bytes, names, MAX_STATIC_SHARED);
  if (bytes + dynamic_bytes_ > MAX_SHARED)
    fail(
        "{} bytes of __shared__ variables ({}) and {} of dynamic shared memory; allowed: up to {} "
        "in all",
        bytes, names, dynamic_bytes_, MAX_SHARED);
}

// ------------------------------------------------------------------------------------------------

void* runtime::dynamic_shared() { return current_block("dynamic_shared").shared.dynamic(); }

}  // namespace gemm::sim
