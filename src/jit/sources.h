// Texts of the headers that NVRTC is given, and of the rungs' kernels. Written by
// scripts/embed_sources.cmake.
#pragma once

#include <string>

namespace gemm {

struct EmbeddedSource {
  const char* name;  // as it is included: "tile/tile.cuh", "type_traits"; of a kernel "gemm_v29"
  const char* text;
};
extern const EmbeddedSource EMBEDDED_SOURCES[];
extern const int EMBEDDED_SOURCE_COUNT;

// Whether a kernel can be compiled at run time: "gemm_v29".
bool has_kernel_source(const std::string& kernel);

}  // namespace gemm
