// The tile layer: kernels written on whole tiles. Explained in docs/tile_languages.md.
//
//   load(view, i, j)          tile (i, j) of a matrix, zeros outside of it
//   dot(a, b, sum)            sum += a * b, inside of cta.pipeline(k_tiles, sum, body)
//   + - * / < exp where ...   element by element; a View with a stride of 0 broadcasts
//   cta.store(view, i, j, e)  computes e and stores it, nothing outside of the matrix
#pragma once

#include "tile/ffma_loop.cuh"
#include "tile/mma_loop.cuh"
#include "tile/registers.cuh"
#include "tile/wgmma_loop.cuh"
