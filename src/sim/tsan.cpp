// What a compiler's -fsanitize=thread calls before every load and store that is not to a plain
// local variable. The traced kernels are compiled with that option and linked with these functions
// instead of its library. Host code that such a file holds calls them too, outside kernels: to no
// effect.
#include <cstddef>
#include <cstdint>

#include "sim/tracer.h"

namespace {

using gemm::sim::AccessKind;

inline __attribute__((always_inline)) void access(const void* p, int bytes, AccessKind kind,
                                                  const void* pc) {
  if (gemm::sim::Tracer* const tracer = gemm::sim::this_thread.tracer)
    tracer->access(reinterpret_cast<uintptr_t>(p), bytes, kind, reinterpret_cast<uintptr_t>(pc));
}

// A copy or a fill of a whole object, as accesses of at most 16 bytes.
inline __attribute__((always_inline)) void range(const void* p, size_t bytes, AccessKind kind,
                                                 const void* pc) {
  for (size_t done = 0; done < bytes;) {
    size_t size = 16;
    while (size > bytes - done || (reinterpret_cast<uintptr_t>(p) + done) % size != 0) size /= 2;
    access(static_cast<const char*>(p) + done, static_cast<int>(size), kind, pc);
    done += size;
  }
}

}  // namespace

#define CALLER __builtin_return_address(0)

#define ACCESSES(BYTES)                                                                     \
  void __tsan_read##BYTES(void* p) { access(p, BYTES, AccessKind::read, CALLER); }          \
  void __tsan_write##BYTES(void* p) { access(p, BYTES, AccessKind::write, CALLER); }        \
  void __tsan_volatile_read##BYTES(void* p) { access(p, BYTES, AccessKind::read, CALLER); } \
  void __tsan_volatile_write##BYTES(void* p) { access(p, BYTES, AccessKind::write, CALLER); }

#define UNALIGNED(BYTES)                                                                    \
  void __tsan_unaligned_read##BYTES(void* p) { range(p, BYTES, AccessKind::read, CALLER); } \
  void __tsan_unaligned_write##BYTES(void* p) { range(p, BYTES, AccessKind::write, CALLER); }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

void __tsan_read_range(void* p, size_t bytes) { range(p, bytes, AccessKind::read, CALLER); }
void __tsan_write_range(void* p, size_t bytes) { range(p, bytes, AccessKind::write, CALLER); }

}  // extern "C"
