// What a compiled file of a user's own offers: its gemm, in each choice of types that it has.
#pragma once

#include <string>
#include <vector>

#include "gemm_types.h"

namespace gemm::own {

struct Form {
  DType dtype;
  bool ld, scalars, stream;      // which arguments it has
  int (*call)(const GemmCall&);  // returns its cudaError_t, 0 where it returns nothing
};

// The file adds itself, by a static object in the text behind it.
struct Registration {
  Registration(const char* file, std::vector<Form> forms);
};

}  // namespace gemm::own
