#include "quantise.h"

#include <stdexcept>

namespace gemm {
namespace {
void (*kernels[3])(const Quantisation&) = {};  // by Backend
}  // namespace

void detail::set_quantise(Backend backend, void (*quantise)(const Quantisation&)) {
  kernels[static_cast<int>(backend)] = quantise;
}

void quantise(Backend backend, const Quantisation& given) {
  Quantisation call = given;
  if (call.scale_of == ScaleOf::tensor && (call.rows == 0 || call.cols == 0)) {
    call.scale_of = ScaleOf::row;  // one scale of no elements
    call.rows = 1;
    call.cols = 0;
  }
  const auto launch = kernels[static_cast<int>(backend)];
  if (launch == nullptr) throw std::logic_error("no quantisation is linked into this program");
  if (call.rows > 0 && (call.cols > 0 || call.scale_of == ScaleOf::row)) launch(call);
}

}  // namespace gemm
