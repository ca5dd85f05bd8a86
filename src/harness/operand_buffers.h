// A problem's operands beside A, B and C, in the memory of a device.
#pragma once

#include <string>

#include "harness/device.h"

namespace gemm {

// Biases, scales and a residual, as far as a problem has them: GEMM_OTHER_OPERANDS. Each is a guarded
// allocation: NaN around it poisons the result of a kernel that reads beside it. And where its groups
// end.
class OperandBuffers {
 public:
  // For problems no larger than this one. Throws std::bad_alloc.
  OperandBuffers(Device& device, const Problem& largest);
  ~OperandBuffers();
  OperandBuffers(const OperandBuffers&) = delete;

  void fill(const Problem& p, Inputs kind, uint64_t seed);
  // The name of one that does not hold what fill() has written; empty: none.
  std::string changed(const Problem& p, Inputs kind, uint64_t seed) const;
  // Adds them to a call of the problem.
  void attach(const Problem& p, GemmCall& call) const;
  // Calls visit(operand, name, allocation) for each.
  template <class Visit>
  void for_each(Visit&& visit) const {
#define ROW(name) \
  if (name##_ != nullptr) visit(Operand::name, #name, name##_);
    GEMM_OTHER_OPERANDS(ROW)
#undef ROW
  }

 private:
  void release();

  Device& device_;
  void* ends_ = nullptr;
#define ROW(name) void* name##_ = nullptr;
  GEMM_OTHER_OPERANDS(ROW)
#undef ROW
};

// Adds one operand to a call of the problem: a guarded allocation of it.
void attach(const Problem& p, Operand operand, const void* allocation, GemmCall& call);

// A call of the problem to plan by: its pointers have no more than their alignment, and those of
// operands that it has are not null.
GemmCall call_to_plan(const Problem& p);

}  // namespace gemm
