// v26 dispatch: for every shape the kernel that ends first.
//
// before: v24 and v25 both pass cuBLAS where they are at home; elsewhere v25 is ten times slower
//         than v24, and v24 a fifth slower than v25
// idea:   what a library adds to its kernels is a rule. This one has two lines: v25 for results
//         that are flat, or so few that small tiles make no more blocks than there are SMs; v24 for
//         all others. Each of them then chooses its tile
// watch:  the rule is read off measurements on one GPU; --explain says what it decides, --tune
//         measures both and keeps what won, for this GPU
// needs:  sm_90a, as both
#include "rung.h"

namespace {
using namespace gemm;

template <class T>
const Variant<T> VARIANTS[] = {
    {"v24", [](const GemmArgs<T>& p, Stream stream) { launch_rung("v24", p, stream); }},
    {"v25", [](const GemmArgs<T>& p, Stream stream) { launch_rung("v25", p, stream); }}};

// [region idea]
template <class T>
Choice choose(const GemmArgs<T>& p, int sms) {
  const int longer = std::max(p.M, p.N), shorter = std::min(p.M, p.N);
  const int64_t small = int64_t{cdiv(longer, 64)} * cdiv(shorter, 16) * 2;  // v25's blocks
  if (shorter <= 64) return {1, "v25: " + std::to_string(shorter) + " rows or columns are flat"};
  if (small <= sms) return {1, "v25: " + std::to_string(small) + " small blocks in one round"};
  return {0, "v24: tiles enough"};
}
// [/region idea]

const Registration rung({.prev = "v24",
                         .idea = "dispatch: for every shape the kernel that ends first",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, choose), bfloat16(VARIANTS<bf16>, choose)});

}  // namespace
