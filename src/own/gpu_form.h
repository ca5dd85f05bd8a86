// What stands before a user's own file when nvcc compiles it, and, as GEMM_OWN_LIBRARY, behind it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "own/form.h"

// The one symbol of the library: writes the file's forms. `f` is its gemm.
#define GEMM_OWN_LIBRARY(f)                                                                   \
  extern "C" __attribute__((visibility("default"))) void gemm_ladder_own_forms(               \
      std::vector<gemm::own::Form>* forms) {                                                  \
    *forms = gemm::own::forms_of([](auto... a) -> decltype(::f(a...)) { return ::f(a...); }); \
  }
