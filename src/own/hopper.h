// The simulator's half of labs/hopper.h: functions of src/device for a user's own file.
#pragma once

#include "own/cuda.h"

// These headers' own words, which own/cuda.h has left to the file.
#define threadIdx gemm::sim::this_thread.thread_idx
#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma.h"
#undef threadIdx

using gemm::fence_mbarrier_init;
using gemm::fence_operand;
using gemm::ldmatrix_x4;
using gemm::ldmatrix_x4_trans;
using gemm::mbarrier_arrive;
using gemm::mbarrier_arrive_expect_tx;
using gemm::mbarrier_init;
using gemm::mbarrier_wait;
using gemm::TensorMap;
using gemm::tile_address;
using gemm::tma_load;
using gemm::wgmma_commit;
using gemm::wgmma_fence;
using gemm::wgmma_wait;

template <int REGISTERS>
GEMM_DEVICE void setmaxnreg_inc(GEMM_ONLY_CALLER_ARG) {
  gemm::setmaxnreg_inc<REGISTERS>();
  gemm::sim::runtime::setmaxnreg(REGISTERS, where);
}
template <int REGISTERS>
GEMM_DEVICE void setmaxnreg_dec(GEMM_ONLY_CALLER_ARG) {
  gemm::setmaxnreg_dec<REGISTERS>();
  gemm::sim::runtime::setmaxnreg(REGISTERS, where);
}

GEMM_DEVICE void wgmma(float (&d)[64], uint64_t a, uint64_t b GEMM_CALLER_ARG) {
  gemm::wgmma<gemm::half, 128, gemm::Major::K, gemm::Major::MN>(d, a, b, true GEMM_CALLER_PASS);
}
