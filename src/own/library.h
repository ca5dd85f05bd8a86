// Files of a user's own on a GPU: compiled by nvcc, loaded into processes that run one job each.
#pragma once

#include <string>
#include <vector>

#include "harness/cli.h"
#include "harness/device.h"

namespace gemm::own {

// Adds the files' rungs. A process for each finds out what it supports; here no code of theirs is
// loaded, and their rungs' jobs run apart (Rung::apart). Throws UsageError.
void add_libraries(const std::vector<std::string>& files, const Options& options, Device& device);

// Whether this process is one of those that run the files' code.
bool holds_libraries();
// In such a process: loads them and adds their rungs. True: the process was to find out what a file
// supports, has told it, and is done.
bool load_libraries();

}  // namespace gemm::own
