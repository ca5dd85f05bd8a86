#include "quantise.h"

#include <stdexcept>

namespace gemm {
namespace {
void (*kernels[3])(const Quantisation&) = {};  // by Backend
}  // namespace

void detail::set_quantise(Backend backend, void (*quantise)(const Quantisation&)) {
  kernels[static_cast<int>(backend)] = quantise;
}

void quantise(Backend backend, const Quantisation& call) {
  const auto launch = kernels[static_cast<int>(backend)];
  if (launch == nullptr) throw std::logic_error("no quantisation is linked into this program");
  if (call.rows > 0 && call.cols > 0) launch(call);
}

}  // namespace gemm
