#include "batch.h"

namespace gemm {
namespace {

// One product of a call: its matrices begin so many elements further on.
GemmCall moved(const GemmCall& call, DType dtype, int64_t a, int64_t b, int64_t c) {
  const DTypeInfo types = info(dtype);
  // In integers: pointers of a plan may be null.
  const auto at = [](const void* p, int64_t elements, Element element) {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) +
                                   static_cast<uintptr_t>(elements * info(element).bytes));
  };
  GemmCall one = call;
  one.A = at(call.A, a, types.in);
  one.B = at(call.B, b, types.in);
  one.C = at(call.C, c, types.out);
  one.batch = {};
  return one;
}

}  // namespace

GemmCall product_of(const GemmCall& call, DType dtype, int64_t index) {
  const Batch& b = call.batch;
  GemmCall one = moved(call, dtype, index * b.stride_a, index * b.stride_b, index * b.stride_c);
  one.scales = call.scales.of_product(index);
  return one;
}

GemmCall group_of(const GemmCall& call, DType dtype, int64_t index, int64_t first, int64_t end) {
  GemmCall one = moved(call, dtype, call.op_a == Op::N ? first * call.lda : first,
                       index * call.batch.stride_b, first * call.ldc);
  one.M = static_cast<int>(end - first);
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
