// A main loop and a call in C++'s own words, for a program that is compiled at run time.
#pragma once

#include <cstdio>
#include <string>

#include "kernel_compiler.h"
#include "tile/tile.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

// "1, 0x1.8p+1f": numbers and enumerators. Floats keep all their bits.
template <class... Numbers>
std::string listed(Numbers... numbers) {
  std::string list;
  const auto add = [&](auto x) {
    char text[40];
    if constexpr (std::is_same_v<decltype(x), float>)
      snprintf(text, sizeof text, "%af", double{x});
    else
      snprintf(text, sizeof text, "%lld", static_cast<long long>(x));
    list += (list.empty() ? "" : ", ") + std::string(text);
  };
  (add(numbers), ...);
  return list;
}

// The initializer of a Call.
inline std::string words_of(const Call& c) {
  const Epilogue& e = c.epilogue;
  return "{" + listed(c.M, c.N, c.K) + ", {" + listed(c.a.row, c.a.col) + "}, {" +
         listed(c.b.row, c.b.col) + "}, {" + listed(c.c.row, c.c.col) + "}, " +
         (c.c_vectors ? "true" : "false") + ", " + listed(c.k_tiles, c.group_m) + ", {" +
         listed(e.alpha, e.beta) + ", gemm::Activation(" + listed(e.activation) + "), " +
         listed(e.slope) + "}}";
}

// A loop's type, but for what it knows of a call: "WgmmaLoop<gemm::half, gemm::Major(0), ...".
template <class T>
std::string element() {
  return std::is_same_v<T, half> ? "gemm::half" : std::is_same_v<T, bf16> ? "gemm::bf16" : "float";
}
template <class T, Major A, Major B, int BM, int BN, int STAGES, int EPILOGUE_STAGES, class Known>
std::string words_of(WgmmaLoop<T, A, B, BM, BN, STAGES, EPILOGUE_STAGES, Known>) {
  return "WgmmaLoop<" + element<T>() + ", gemm::Major(" + listed(A) + "), gemm::Major(" +
         listed(B) + "), " + listed(BM, BN, STAGES, EPILOGUE_STAGES);
}
inline std::string accesses(Access a, Access b) {
  return "gemm::tile::Access(" + listed(a) + "), gemm::tile::Access(" + listed(b) + "), ";
}
template <class T, Access A, Access B, int BM, int BN, int BK, int STAGES, int WM, int WN,
          class Known>
std::string words_of(MmaLoop<T, A, B, BM, BN, BK, STAGES, WM, WN, Known>) {
  return "MmaLoop<" + element<T>() + ", " + accesses(A, B) + listed(BM, BN, BK, STAGES, WM, WN);
}
template <class T, Access A, Access B, int BM, int BN, int BK, int STAGES, int WM, int WN,
          class Known>
std::string words_of(FfmaLoop<T, A, B, BM, BN, BK, STAGES, WM, WN, Known>) {
  return "FfmaLoop<" + element<T>() + ", " + accesses(A, B) + listed(BM, BN, BK, STAGES, WM, WN);
}

// The program of a loop's kernel for one call.
template <class Loop>
KernelProgram program_of(const char* kernel, const Call& call) {
  return {kernel, words_of(Loop()), words_of(call), sizeof(Gemm<Loop>)};
}

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
