#include "batch.h"

namespace gemm {

GemmCall product_of(const GemmCall& batch, DType dtype, int64_t index) {
  const DTypeInfo types = info(dtype);
  const auto offset = [index](int64_t stride, Element element) {
    return index * stride * int64_t{info(element).bytes};
  };
  // In integers: pointers of a plan may be null.
  const auto moved = [](const void* p, int64_t bytes) {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(bytes));
  };
  GemmCall one = batch;
  one.A = moved(batch.A, offset(batch.batch.stride_a, types.in));
  one.B = moved(batch.B, offset(batch.batch.stride_b, types.in));
  one.C = moved(batch.C, offset(batch.batch.stride_c, types.out));
  one.scales = batch.scales.of_product(index);
  one.batch = {};
  return one;
}

GemmCall least_aligned_product(const GemmCall& batch, DType dtype) {
  if (batch.batch.count <= 1) {
    GemmCall one = batch;
    one.batch = {};
    return one;
  }
  // Product 0's address p, or p + stride: of all p + i stride, one of these two ends in the fewest
  // zeros.
  const auto lower = [](const void* p, const void* q) {
    const auto lowest_bit = [](const void* x) {
      const auto address = reinterpret_cast<uintptr_t>(x);
      return address == 0 ? UINTPTR_MAX : address & (0 - address);
    };
    return lowest_bit(q) < lowest_bit(p);
  };
  const GemmCall second = product_of(batch, dtype, 1);
  GemmCall one = product_of(batch, dtype, 0);
  if (lower(one.A, second.A)) one.A = second.A;
  if (lower(one.B, second.B)) one.B = second.B;
  if (lower(one.C, second.C)) one.C = second.C;
  return one;
}

std::string launches_of(const GemmCall& call) {
  if (call.batch.count == 1) return "";
  return " in each of " + std::to_string(call.batch.count) + " launches";
}

}  // namespace gemm
