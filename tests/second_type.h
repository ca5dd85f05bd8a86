// Types whose code is another's, with elements of the same size.
#pragma once

#include "dtypes.h"

namespace gemm {

// bf16 runs f16's code, and e5m2 runs e4m3's: tests of tiles and variants take the first of the two.
inline bool is_second_type(DType dtype) {
  const Element in = info(dtype).in;
  return in == Element::bf16 || in == Element::f8e5m2;
}

}  // namespace gemm
