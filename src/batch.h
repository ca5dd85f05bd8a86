// Batches by rungs whose kernels compute one product: a launch each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dtypes.h"
#include "gemm_types.h"
#include "launch_mode.h"

namespace gemm {

// The call of product `index` of a batch.
GemmCall product_of(const GemmCall& batch, DType dtype, int64_t index);

// The call of one group of a batch (Batch::ends), whose rows are `first` to before `end`.
GemmCall group_of(const GemmCall& batch, DType dtype, int64_t index, int64_t first, int64_t end);

// A call of one product, each operand being that of the batch whose address has the fewest zeros at
// its end. A plan for it holds for every product: it looks at addresses for their alignment alone.
GemmCall least_aligned_product(const GemmCall& batch, DType dtype);

// " in each of 64 launches", or nothing of a single product.
std::string launches_of(const GemmCall& call);

// How many of a batch's products are launched: all; while launches are prepared (LaunchMode), one of
// each alignment. Addresses are aligned to 128 bytes alike again after 128 products.
inline int products_to_launch(const Batch& batch) {
  constexpr int ALIGNMENT_PERIOD = 128;
  return launch_mode().prepare ? std::min(batch.count, ALIGNMENT_PERIOD) : batch.count;
}

// Calls launch(product) for each product of a batch, in their order.
template <class Launch>
void for_each_product(const GemmCall& call, DType dtype, Launch&& launch) {
  if (call.batch.count == 1) return launch(call);
  for (int i = 0; i < products_to_launch(call.batch); ++i) launch(product_of(call, dtype, i));
}

// Calls f(group, first, end) for each group that has rows, [first, end) of M. `ends`: the host's.
template <class F>
void for_each_group(const std::vector<int32_t>& ends, int M, F&& f) {
  int first = 0;
  for (size_t group = 0; group < ends.size(); ++group) {
    const int end = end_of_group(ends[group], first, M);
    if (end > first) f(static_cast<int>(group), first, end);
    first = end;
  }
}

}  // namespace gemm
