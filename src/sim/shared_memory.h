// A block's shared memory. Static: kernels declare `static thread_local` variables (the __shared__
// macro), so it lies in the calling OS thread's TLS block of the main program, among whatever else
// that program keeps there. Dynamic: a buffer of the OS thread that runs the block.
//
// All of it is filled with 0xFF before each block: NaN as float and as half. That is why OS threads
// that run blocks run nothing else, why the simulator keeps its one thread_local variable (which is
// left out) small, and why kernels must be linked into the main program, not into a shared library.
#pragma once

#include <cstddef>

namespace gemm::sim {

constexpr size_t MAX_SHARED = 227 * 1024;        // bytes a block, on Hopper
constexpr size_t MAX_STATIC_SHARED = 48 * 1024;  // of these, in __shared__ variables, on any GPU

class SharedMemory {
 public:
  // Belongs to the calling OS thread.
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Sets the size of the dynamic part and fills it.
  void poison(size_t dynamic_bytes);
  // Fills the static part, which all blocks of an OS thread share.
  void poison_statics();
  // Whether all of these bytes are shared memory; the block's dynamic part of it.
  bool contains(const void* p, size_t bytes) const;
  bool in_dynamic(const void* p, size_t bytes) const;
  size_t dynamic_offset(const void* p) const { return static_cast<const char*>(p) - dynamic_; }
  // Whether nobody has written a __shared__ variable since they were filled.
  bool statics_untouched() const;
  // Throws when the __shared__ variables that have been written since then, at whatever byte, are
  // more than a GPU allows, alone or together with the dynamic part. nvcc refuses the former.
  void check_statics() const;
  const void* statics() const { return static_begin_; }
  size_t static_size() const { return static_end_ - static_begin_; }
  size_t tls_offset() const { return tls_offset_; }  // of statics() in the OS thread's TLS block
  void* dynamic() const { return dynamic_; }
  size_t dynamic_size() const { return dynamic_bytes_; }

 private:
  char *static_begin_ = nullptr, *static_end_ = nullptr;
  size_t tls_offset_ = 0;
  char* dynamic_;
  size_t dynamic_bytes_ = 0;
};

}  // namespace gemm::sim
