// Programs that hold files of a user's own, compiled when they are asked for and kept by content.
#pragma once

#include <string>
#include <vector>

namespace gemm::own {

// The program that calls the file's gemm (host.cpp), in the simulator. Throws UsageError where the file
// does not compile, after the compiler's own words on stderr; std::runtime_error where there is no
// compiler.
std::string build_host(const std::string& file);

// A gemm_bench that has the traced kernels of these files, for --inspect. Throws likewise.
std::string build_inspector(const std::vector<std::string>& files);

// A shared library with the file's gemm for a GPU of compute capability `sm`, 90 = 9.0, by nvcc. Throws
// likewise; UsageError too where the file calls cuBLAS, which is what it is compared with.
std::string build_library(const std::string& file, int sm);

}  // namespace gemm::own
