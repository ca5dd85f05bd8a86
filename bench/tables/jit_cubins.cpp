// Writes to a folder what NVRTC makes of a rung's kernel, for any call and for one: for
// scripts/jit_instructions.py. Prints a line for each: file, arch, type, main loop, shape, ms.
#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <fstream>

#include "jit/nvrtc.h"
#include "tile/words.h"

namespace gemm {
namespace {

struct Shape {
  int M, N, K;
};
constexpr Shape SHAPES[] = {
    {512, 512, 512}, {4096, 4096, 4096}, {1000, 1000, 1000}, {513, 513, 513}};

// The call of a main loop at a shape, rows without gaps. WGMMA: strides of A and B stand in maps.
template <class Loop>
tile::Call call_at(const Shape& s, int bk, bool vectors, bool strides) {
  tile::Call call{.M = s.M, .N = s.N, .K = s.K};
  if (strides) call.a = {s.K, 1}, call.b = {1, s.N};
  call.c = {s.N, 1};
  call.c_vectors = vectors;
  call.k_tiles = cdiv(s.K, bk);
  call.group_m = 16;
  return call;
}

class Cubins {
 public:
  explicit Cubins(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void write(KernelProgram program, const char* arch, const char* dtype, const char* loop,
             const std::string& shape) {
    const CompiledKernel compiled = nvrtc_.compile(program, arch);
    const std::string file = fmt::format("{}.cubin", count_++);
    std::ofstream(folder_ / file, std::ios::binary) << compiled.cubin;
    fmt::print("{}\t{}\t{}\t{}\t{}\t{:.0f}\n", file, arch, dtype, loop, shape, compiled.ms);
  }
  // AnyLoop: for operands that lie anyhow.
  template <class Loop, class AnyLoop>
  void write_all(const char* arch, const char* dtype, const char* name, int vec, bool strides) {
    KernelProgram program{"gemm_v29", tile::words_of(Loop()), "", 0};
    write(program, arch, dtype, name, "any");
    for (const Shape& s : SHAPES) {
      const bool vectors = s.N % vec == 0 && s.K % vec == 0;
      if (!vectors) program.loop = tile::words_of(AnyLoop());
      program.call = tile::words_of(call_at<Loop>(s, Loop::BK, vectors, strides));
      write(program, arch, dtype, name, fmt::format("{}x{}x{}", s.M, s.N, s.K));
    }
  }

 private:
  Nvrtc nvrtc_;
  std::filesystem::path folder_;
  int count_ = 0;
};

void write_all(const std::filesystem::path& folder) {
  using tile::Access;
  using Hopper = tile::WgmmaLoop<half, Major::K, Major::MN, 128, 128, 6, 2>;
  using Mma = tile::MmaSync<128, 256, 32, 4>;
  using Ffma = tile::Ffma<128, 128, 16, 3>;
  Cubins cubins(folder);
  cubins.write_all<Hopper, Hopper>("sm_90a", "f16", "wgmma 128x128", 8, false);
  cubins.write_all<Mma::Make<half, Access::k_major, Access::mn_major>::Loop, Mma::Any<half>>(
      "sm_80", "f16", "mma.sync 128x256", 8, true);
  cubins.write_all<Ffma::Make<float, Access::k_major, Access::mn_major>::Loop, Ffma::Any<float>>(
      "sm_80", "f32", "ffma 128x128", 4, true);
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
    fmt::print(stderr, "jit_cubins: want a folder to write to\n");
    return 2;
  }
  try {
    gemm::write_all(argv[1]);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "jit_cubins: {}\n", e.what());
    return 2;
  }
}
