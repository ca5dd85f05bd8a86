// What a compiler's -fsanitize=thread calls before every load and store that is not to a plain
// local variable. The traced kernels are compiled with that option and linked with these functions
// instead of its library. Host code that such a file holds calls them too, outside kernels: to no
// effect.
#include <atomic>
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

// By a type that the compiler takes for aligned.
inline __attribute__((always_inline)) void aligned_access(const void* p, int bytes, AccessKind kind,
                                                          const void* pc) {
  gemm::sim::Tracer* const tracer = gemm::sim::this_thread.tracer;
  if (tracer != nullptr && reinterpret_cast<uintptr_t>(p) % bytes != 0)
    tracer->misaligned(reinterpret_cast<uintptr_t>(p), bytes, kind,
                       reinterpret_cast<uintptr_t>(pc));
  access(p, bytes, kind, pc);
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

#define ACCESSES(BYTES)                                                                      \
  void __tsan_read##BYTES(void* p) { aligned_access(p, BYTES, AccessKind::read, CALLER); }   \
  void __tsan_write##BYTES(void* p) { aligned_access(p, BYTES, AccessKind::write, CALLER); } \
  void __tsan_volatile_read##BYTES(void* p) {                                                \
    aligned_access(p, BYTES, AccessKind::read, CALLER);                                      \
  }                                                                                          \
  void __tsan_volatile_write##BYTES(void* p) {                                               \
    aligned_access(p, BYTES, AccessKind::write, CALLER);                                     \
  }

#define UNALIGNED(BYTES)                                                                    \
  void __tsan_unaligned_read##BYTES(void* p) { range(p, BYTES, AccessKind::read, CALLER); } \
  void __tsan_unaligned_write##BYTES(void* p) { range(p, BYTES, AccessKind::write, CALLER); }

// Kernels use CUDA's atomics (runtime.h); std::atomic is for host code in the same files.
#define ATOMICS(BITS)                                                                           \
  uint##BITS##_t __tsan_atomic##BITS##_load(const volatile void* p, int) {                      \
    return __atomic_load_n(static_cast<const volatile uint##BITS##_t*>(p), __ATOMIC_SEQ_CST);   \
  }                                                                                             \
  void __tsan_atomic##BITS##_store(volatile void* p, uint##BITS##_t x, int) {                   \
    __atomic_store_n(static_cast<volatile uint##BITS##_t*>(p), x, __ATOMIC_SEQ_CST);            \
  }                                                                                             \
  uint##BITS##_t __tsan_atomic##BITS##_exchange(volatile void* p, uint##BITS##_t x, int) {      \
    return __atomic_exchange_n(static_cast<volatile uint##BITS##_t*>(p), x, __ATOMIC_SEQ_CST);  \
  }                                                                                             \
  int __tsan_atomic##BITS##_compare_exchange_strong(volatile void* p, void* expected,           \
                                                    uint##BITS##_t x, int, int) {               \
    return __atomic_compare_exchange_n(static_cast<volatile uint##BITS##_t*>(p),                \
                                       static_cast<uint##BITS##_t*>(expected), x, false,        \
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
  }                                                                                             \
  int __tsan_atomic##BITS##_compare_exchange_weak(volatile void* p, void* expected,             \
                                                  uint##BITS##_t x, int success, int failure) { \
    return __tsan_atomic##BITS##_compare_exchange_strong(p, expected, x, success, failure);     \
  }                                                                                             \
  FETCH(BITS, add)                                                                              \
  FETCH(BITS, sub)                                                                              \
  FETCH(BITS, and)                                                                              \
  FETCH(BITS, or)                                                                               \
  FETCH(BITS, xor)                                                                              \
  FETCH(BITS, nand)

#define FETCH(BITS, OP)                                                                        \
  uint##BITS##_t __tsan_atomic##BITS##_fetch_##OP(volatile void* p, uint##BITS##_t x, int) {   \
    return __atomic_fetch_##OP(static_cast<volatile uint##BITS##_t*>(p), x, __ATOMIC_SEQ_CST); \
  }

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

ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)
void __tsan_atomic_thread_fence(int) { std::atomic_thread_fence(std::memory_order_seq_cst); }
void __tsan_atomic_signal_fence(int) { std::atomic_signal_fence(std::memory_order_seq_cst); }

void __tsan_read_range(void* p, size_t bytes) { range(p, bytes, AccessKind::read, CALLER); }
void __tsan_write_range(void* p, size_t bytes) { range(p, bytes, AccessKind::write, CALLER); }

}  // extern "C"
