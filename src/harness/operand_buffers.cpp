#include "harness/operand_buffers.h"

namespace gemm {

OperandBuffers::OperandBuffers(Device& device, const Problem& largest) : device_(device) {
  try {
#define ROW(name) \
  if (largest.operands.name) name##_ = device.allocate(layout(largest, Operand::name).bytes);
    GEMM_EPILOGUE_OPERANDS(ROW)
#undef ROW
  } catch (...) {
    release();
    throw;
  }
}

OperandBuffers::~OperandBuffers() { release(); }

void OperandBuffers::release() {
#define ROW(name) device_.release(name##_);
  GEMM_EPILOGUE_OPERANDS(ROW)
#undef ROW
}

void OperandBuffers::fill(const Problem& p, Inputs kind, uint64_t seed) {
  for_each([&](Operand operand, const char*, void* allocation) {
    device_.fill(allocation, p, operand, kind, seed);
  });
}

void OperandBuffers::attach(const Problem& p, GemmCall& call) const {
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
