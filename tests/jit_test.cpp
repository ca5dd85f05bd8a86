// NVRTC and the tile layer: kernels compiled for one call, and the instructions that this saves. No
// GPU is needed. Skipped where there is no NVRTC.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "harness/errors.h"
#include "jit/nvrtc.h"
#include "jit/sources.h"
#include "tile/words.h"

namespace gemm {
namespace {

using tile::Access;
constexpr size_t INSTRUCTION = 16;  // bytes, since sm_70

// Instructions of a CUBIN's one kernel, those included that fill its last line up.
size_t instructions(const CompiledKernel& kernel) {
  const std::string& elf = kernel.cubin;
  Elf64_Ehdr header;
  memcpy(&header, elf.data(), sizeof header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  memcpy(sections.data(), elf.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& s : sections)
    if (elf.data() + sections[header.e_shstrndx].sh_offset + s.sh_name == ".text." + kernel.name)
      return s.sh_size / INSTRUCTION;
  return 0;
}

class Jit : public testing::Test {
 protected:
  void SetUp() override {
    try {
      nvrtc_.emplace();
    } catch (const UsageError& e) {
      GTEST_SKIP() << e.what();
    }
  }
  size_t count(const KernelProgram& p, const char* arch) {
    const CompiledKernel kernel = nvrtc_->compile(p, arch);
    EXPECT_EQ(kernel.cubin.substr(1, 3), "ELF");
    EXPECT_NE(kernel.name.find("gemm_v29"), std::string::npos) << kernel.name;
    EXPECT_GT(kernel.ms, 0);
    return instructions(kernel);
  }
  // A kernel for any call has more instructions than one for M = N = K = 4096, and that no more than
  // one for a ragged shape. `least`: times the first is as long.
  template <class Loop>
  void expect_shorter(const char* arch, bool strides, double least) {
    const auto program = [&](int n) {
      tile::Call call{.M = n, .N = n, .K = n};
      if (strides) call.a = {n, 1}, call.b = {1, n};
      call.c = {n, 1};
      call.c_vectors = true;
      call.k_tiles = cdiv(n, Loop::BK);
      call.group_m = 8;
      return KernelProgram{"gemm_v29", tile::words_of(Loop()), tile::words_of(call), 0};
    };
    KernelProgram any = program(4096);
    any.call = "";
    const size_t for_any = count(any, arch), whole = count(program(4096), arch);
    const size_t ragged = count(program(1000), arch);
    EXPECT_GT(whole, 100) << "a kernel";
    EXPECT_GE(ragged, whole) << "edges are tested";
    EXPECT_GT(double(for_any), least * double(ragged)) << "one epilogue instead of all";
  }

  std::optional<Nvrtc> nvrtc_;
};

TEST_F(Jit, WgmmaForOneCallIsShorter) {
  expect_shorter<tile::WgmmaLoop<half, Major::K, Major::MN, 128, 128, 6, 2>>("sm_90a", false, 5);
}
TEST_F(Jit, MmaSyncForOneCallIsShorter) {
  using Tiles = tile::MmaSync<128, 256, 32, 4>;
  expect_shorter<Tiles::Make<half, Access::k_major, Access::mn_major>::Loop>("sm_80", true, 4);
}
TEST_F(Jit, FfmaForOneCallIsShorter) {
  using Tiles = tile::Ffma<128, 128, 16, 3>;
  expect_shorter<Tiles::Make<float, Access::k_major, Access::mn_major>::Loop>("sm_80", true, 1.5);
}

// Every layout, types, and an epilogue that takes everything: they compile.
TEST_F(Jit, OtherLayoutsTypesAndEpilogues) {
  tile::Call call{.M = 513, .N = 257, .K = 100};
  call.a = {1, 520}, call.b = {104, 1}, call.c = {260, 1};
  call.k_tiles = 4;
  call.epilogue = {-0.5f, 0.1f, Activation::leaky_relu, 0.2f};
  const std::string words = tile::words_of(call);
  using Mma = tile::MmaSync<128, 256, 32, 4>;
  EXPECT_GT(count({"gemm_v29", tile::words_of(Mma::Any<bf16>()), words}, "sm_80"), 100);
  using Loop = tile::WgmmaLoop<bf16, Major::MN, Major::K, 64, 128, 8, 2>;
  EXPECT_GT(count({"gemm_v29", tile::words_of(Loop()), words}, "sm_90a"), 100);
}

TEST_F(Jit, WrongProgramsAreRefusedWithTheLog) {
  const auto refused = [&](const KernelProgram& p, const char* arch) -> std::string {
    try {
      nvrtc_->compile(p, arch);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "";
  };
  const std::string loop =
      tile::words_of(tile::WgmmaLoop<half, Major::K, Major::MN, 128, 128, 6, 2>());
  EXPECT_NE(refused({"gemm_v29", loop, "{1, 2, }}"}, "sm_90a").find("error"), std::string::npos);
  EXPECT_NE(refused({"gemm_v29", loop, "{}", 4}, "sm_90a").find("static assertion"),
            std::string::npos)
      << "a parameter of another size than the host's";
  EXPECT_NE(refused({"gemm_v1", loop, "{}"}, "sm_90a").find("gemm_v1"), std::string::npos);
  EXPECT_NE(refused({"gemm_v29", loop, "{}"}, "sm_1").find("sm_1"), std::string::npos);
}

TEST(JitSources, HaveTheLayerAndTheKernel) {
  const auto text = [](const std::string& name) -> std::string {
    for (int i = 0; i < EMBEDDED_SOURCE_COUNT; ++i)
      if (EMBEDDED_SOURCES[i].name == name) return EMBEDDED_SOURCES[i].text;
    return "";
  };
  EXPECT_NE(text("tile/view.cuh").find("struct FixedMatrix"), std::string::npos);
  EXPECT_NE(text("gemm_v29").find("__global__"), std::string::npos);
  EXPECT_EQ(text("gemm_v29").find("#include"), std::string::npos) << "the kernel alone";
  EXPECT_NE(text("device/launch.h").find("NVRTC"), std::string::npos) << "the stand-in";
}

// Floats go to the compiler with all their bits.
TEST(JitWords, KeepFloats) {
  tile::Call call;
  call.epilogue = {0.1f, -0.0f, Activation::gelu, 1e-40f};
  const std::string words = tile::words_of(call);
  EXPECT_NE(words.find("{0x1.99999ap-4f, -0x0p+0f, gemm::Activation(3), 0x1.16c2p-133f}"),
            std::string::npos)
      << words;
}

}  // namespace
}  // namespace gemm
