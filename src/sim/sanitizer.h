// AddressSanitizer is told of every change of stacks; in other builds all this is nothing.
#pragma once

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace gemm::sim {

#ifdef __SANITIZE_ADDRESS__
constexpr bool ADDRESS_SANITIZER = true;
#else
constexpr bool ADDRESS_SANITIZER = false;
#endif

struct StackBounds {
  const void* bottom = nullptr;  // the lowest address
  size_t size = 0;
};

// Before a fiber lets another one run, whose stack is `next`. `kept`: what it gets back afterwards.
inline void before_switch([[maybe_unused]] void** kept, [[maybe_unused]] const StackBounds& next) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(kept, next.bottom, next.size);
#endif
}
// When a fiber runs (again); `kept` is null for its first time. `previous`: the stack it comes from.
inline void after_switch([[maybe_unused]] void* kept, [[maybe_unused]] StackBounds& previous) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(kept, &previous.bottom, &previous.size);
#endif
}
// Before memory that was a stack is given back: frames on it are no longer.
inline void forget_stack([[maybe_unused]] void* p, [[maybe_unused]] size_t size) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(p, size);
#endif
}

}  // namespace gemm::sim
