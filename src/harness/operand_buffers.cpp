#include "harness/operand_buffers.h"

#include <algorithm>
#include <vector>

namespace gemm {

OperandBuffers::OperandBuffers(Device& device, const Problem& largest) : device_(device) {
  try {
    if (largest.groups.count > 0) ends_ = device.allocate(largest.groups.count * sizeof(int32_t));
#define ROW(name) \
  if (has(largest, Operand::name)) name##_ = device.allocate(layout(largest, Operand::name).bytes);
    GEMM_OTHER_OPERANDS(ROW)
#undef ROW
  } catch (...) {
    release();
    throw;
  }
}

OperandBuffers::~OperandBuffers() { release(); }

void OperandBuffers::release() {
  device_.release(ends_);
#define ROW(name) device_.release(name##_);
  GEMM_OTHER_OPERANDS(ROW)
#undef ROW
}

void OperandBuffers::fill(const Problem& p, Inputs kind, uint64_t seed) {
  if (ends_ != nullptr) device_.upload(ends_, p.groups.ends, p.groups.count * sizeof(int32_t));
  for_each([&](Operand operand, const char*, void* allocation) {
    device_.fill(allocation, p, operand, kind, seed);
  });
}

std::string OperandBuffers::changed(const Problem& p, Inputs kind, uint64_t seed) const {
  std::string which;
  if (ends_ != nullptr) {
    std::vector<int32_t> ends(p.groups.count);
    device_.download(ends.data(), ends_, ends.size() * sizeof(int32_t));
    if (!std::equal(ends.begin(), ends.end(), p.groups.ends)) which = "the groups' ends";
  }
  for_each([&](Operand operand, const char* name, const void* allocation) {
    if (which.empty() && !device_.is_unchanged(allocation, p, operand, kind, seed)) which = name;
  });
  return which;
}

void OperandBuffers::attach(const Problem& p, GemmCall& call) const {
  if (ends_ != nullptr) call.batch.ends = static_cast<const int32_t*>(ends_);
  for_each([&](Operand operand, const char*, const void* allocation) {
    gemm::attach(p, operand, allocation, call);
  });
}

void attach(const Problem& p, Operand operand, const void* allocation, GemmCall& call) {
  const MatrixLayout l = layout(p, operand);
  const void* const first =
      static_cast<const char*>(allocation) + l.first * element_size(p, operand);
  FusedEpilogue& e = call.epilogue;
  switch (operand) {
    case Operand::residual:
      e.c = first;
      e.ldc = l.ld;
      return;
    case Operand::bias:
      e.bias = first;
      return;
    case Operand::row_bias:
      e.row_bias = first;
      return;
    case Operand::scale_rows:
      e.scale_rows = static_cast<const float*>(first);
      return;
    case Operand::scale_columns:
      e.scale_columns = static_cast<const float*>(first);
      return;
    case Operand::scales_a:
      call.scales.a = static_cast<const float*>(first);
      call.scales.lda = l.ld;
      call.scales.stride_a = l.products > 1 ? l.stride : 0;
      return;
    case Operand::scales_b:
      call.scales.b = static_cast<const float*>(first);
      call.scales.ldb = l.ld;
      call.scales.stride_b = l.products > 1 ? l.stride : 0;
      return;
    case Operand::A:
    case Operand::B:
    case Operand::C:
      return;
  }
}

GemmCall call_to_plan(const Problem& p) {
  GemmCall call = make_call(p, nullptr, nullptr, nullptr);
  const void* const somewhere = reinterpret_cast<const void*>(uintptr_t{4096});
#define ROW(name) \
  if (p.operands.name) attach(p, Operand::name, somewhere, call);
  GEMM_EPILOGUE_OPERANDS(ROW)
#undef ROW
  return call;
}

}  // namespace gemm
