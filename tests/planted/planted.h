// Kernels with one planted bug each (planted.cu), compiled as traced kernels are, and the same
// kernels without it.
#pragma once

#include <string>
#include <vector>

#include "registry.h"
#include "sharded/sharded.h"

namespace gemm {

// A bug that inspection must find. The lines that it must name are those of planted.cu that end in
// "// [name of the rung]", among others.
struct Planted {
  Rung rung;
  std::string check;  // sim::Finding::check
  std::string says;   // part of sim::Finding::what
};
std::vector<Planted> planted_bugs();
std::vector<Rung> planted_twins();

// m4 in f16, whose flags rise before the tile is there: early_flag.cu.
decltype(ShardedRung::make) early_flag(Collective collective);

// ldmatrix.x4 by one warp, from rows of so many bytes.
void launch_ldmatrix_64_bytes();
void launch_ldmatrix_80_bytes();

}  // namespace gemm
