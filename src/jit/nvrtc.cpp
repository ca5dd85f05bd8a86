#include "jit/nvrtc.h"

#include <dlfcn.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <vector>

#include "harness/errors.h"
#include "jit/sources.h"

namespace gemm {
namespace {

constexpr size_t LOG_SHOWN = 600;  // characters
// By soname, then where toolkits install it. nvrtc.h promises the functions below since CUDA 11.2.
constexpr const char* LIBRARIES[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                     "/usr/local/cuda/lib64/libnvrtc.so"};

std::string type_of(const KernelProgram& p) {
  return "gemm::tile::" + p.loop +
         ", gemm::tile::" + (p.call.empty() ? "AnyCall" : "OneCall<gemm::ThisCall>") + ">";
}

}  // namespace

bool has_kernel_source(const std::string& kernel) {
  for (int i = 0; i < EMBEDDED_SOURCE_COUNT; ++i)
    if (kernel == EMBEDDED_SOURCES[i].name) return true;
  return false;
}

std::string source_of(const KernelProgram& p) {
  std::string text =
      "#include \"tile/tile.cuh\"\nnamespace gemm {\n#include \"" + p.kernel + "\"\n";
  if (!p.call.empty())
    text += "struct ThisCall {\n  static constexpr tile::Call CALL = " + p.call + ";\n};\n";
  text += "}\n";
  if (p.parameter > 0)
    text += "static_assert(sizeof(gemm::tile::Gemm<" + type_of(p) +
            ">) == " + std::to_string(p.parameter) + ");\n";
  return text;
}

// nvrtcResult is an int; 0 is success. A nvrtcProgram is a pointer.
struct Nvrtc::Functions {
  void* library = nullptr;
  int (*version)(int*, int*);
  const char* (*error)(int);
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(void**);
  int (*add_name)(void*, const char*);
  int (*compile)(void*, int, const char* const*);
  int (*log_size)(void*, size_t*);
  int (*log)(void*, char*);
  int (*lowered_name)(void*, const char*, const char**);
  int (*cubin_size)(void*, size_t*);
  int (*cubin)(void*, char*);

  template <class F>
  bool find(const char* name, F& f) {
    f = reinterpret_cast<F>(dlsym(library, name));
    return f != nullptr;
  }
  bool find_all() {
    return find("nvrtcVersion", version) && find("nvrtcGetErrorString", error) &&
           find("nvrtcCreateProgram", create) && find("nvrtcDestroyProgram", destroy) &&
           find("nvrtcAddNameExpression", add_name) && find("nvrtcCompileProgram", compile) &&
           find("nvrtcGetProgramLogSize", log_size) && find("nvrtcGetProgramLog", log) &&
           find("nvrtcGetLoweredName", lowered_name) && find("nvrtcGetCUBINSize", cubin_size) &&
           find("nvrtcGetCUBIN", cubin);
  }
  // Not for compile, whose log says more.
  void check(int result, const char* call) const {
    if (result != 0) throw std::runtime_error(std::string(call) + ": " + error(result));
  }
};

Nvrtc::Nvrtc() : f_(std::make_unique<Functions>()) {
  for (const char* name : LIBRARIES)
    if (f_->library == nullptr) f_->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (f_->library == nullptr || !f_->find_all())
    throw UsageError(
        "no NVRTC to compile with: want libnvrtc.so.13 or libnvrtc.so.12 of a CUDA toolkit, its "
        "folder named in LD_LIBRARY_PATH");
}

Nvrtc::~Nvrtc() = default;  // the library stays: others may have opened it

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  f_->version(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

CompiledKernel Nvrtc::compile(const KernelProgram& p, const std::string& arch) const {
  const auto start = std::chrono::steady_clock::now();
  const std::string source = source_of(p), name = "gemm::" + p.kernel + "<" + type_of(p) + ">";
  std::vector<const char*> texts, names;
  for (int i = 0; i < EMBEDDED_SOURCE_COUNT; ++i) {
    names.push_back(EMBEDDED_SOURCES[i].name);
    texts.push_back(EMBEDDED_SOURCES[i].text);
  }
  void* program = nullptr;
  f_->check(f_->create(&program, source.c_str(), (p.kernel + ".cu").c_str(),
                       static_cast<int>(texts.size()), texts.data(), names.data()),
            "nvrtcCreateProgram");
  const std::unique_ptr<void*, std::function<void(void**)>> owner(&program, f_->destroy);
  f_->check(f_->add_name(program, name.c_str()), "nvrtcAddNameExpression");
  const std::string option = "--gpu-architecture=" + arch;
  // Host functions of the headers become the device's, which nobody calls.
  const char* const options[] = {"--std=c++20", "-default-device", "--generate-line-info",
                                 option.c_str()};
  const int result = f_->compile(program, std::size(options), options);
  size_t size = 0;
  if (result != 0) {
    f_->check(f_->log_size(program, &size), "nvrtcGetProgramLogSize");
    std::string log(size, '\0');
    f_->check(f_->log(program, log.data()), "nvrtcGetProgramLog");
    throw std::runtime_error("NVRTC " + version() + " refuses " + p.kernel + " for " + arch + ": " +
                             log.substr(0, LOG_SHOWN));
  }
  CompiledKernel compiled;
  const char* lowered = nullptr;
  f_->check(f_->lowered_name(program, name.c_str(), &lowered), "nvrtcGetLoweredName");
  compiled.name = lowered;
  f_->check(f_->cubin_size(program, &size), "nvrtcGetCUBINSize");
  compiled.cubin.resize(size);
  f_->check(f_->cubin(program, compiled.cubin.data()), "nvrtcGetCUBIN");
  compiled.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return compiled;
}

}  // namespace gemm
