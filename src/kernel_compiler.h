// Kernels that are compiled at run time for one call (--jit), as the code that launches them sees it.
#pragma once

#include <cstddef>
#include <string>

namespace gemm {

// A kernel of the tile layer, in words.
struct KernelProgram {
  std::string kernel;  // "gemm_v29"
  std::string loop;    // its main loop's type, but for what is known of the call: "WgmmaLoop<half"
  std::string call;    // the initializer of a tile::Call. Empty: for any call
  // Bytes of the parameter that the host passes, which the compiled code asserts. 0: not known.
  size_t parameter = 0;
};

class KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;
  // The kernel for the current GPU, as cudaLaunchKernelExC takes it. Throws std::runtime_error with
  // what the compiler has to say.
  virtual void* kernel(const KernelProgram& program) = 0;
};

// The calling thread's, for its launches of programs of tiles. Null, as a rule: the kernels run that
// were compiled with the program.
KernelCompiler* kernel_compiler();

// Sets it while this object lives.
class KernelCompilerScope {
 public:
  explicit KernelCompilerScope(KernelCompiler* compiler);
  ~KernelCompilerScope();
  KernelCompilerScope(const KernelCompilerScope&) = delete;
  KernelCompilerScope& operator=(const KernelCompilerScope&) = delete;

 private:
  KernelCompiler* const before_;
};

}  // namespace gemm
