// Whether there is a GPU, asked once: after a kernel's fault a new device cannot be had either, and
// that is a failure of the tests that follow, no reason to skip them.
#pragma once

#include <memory>
#include <string>

#include "harness/device.h"

namespace gemm {

// Why there is none; empty when there is one.
inline const std::string& why_no_gpu() {
  static const std::string why = [] {
    std::string reason;
    return make_gpu_device(reason) == nullptr ? reason : "";
  }();
  return why;
}

}  // namespace gemm
