// What the simulator's branches of device/ptx/ call, for sm_90's instructions: see there for what
// each does. As in runtime.h, functions take the source line that diagnoses name, and throw Error for whatever a kernel does wrong.
#pragma once

#include <cstdint>
#include <source_location>

#include "sim/tensor_map.h"

namespace gemm::sim {

enum class WgmmaType { f16, bf16, tf32, e4m3, e5m2 };

// One wgmma.mma_async: m64nNk16, k8 for tf32, k32 for e4m3 and e5m2.
struct WgmmaCall {
  WgmmaType type;
  int n;
  bool a_mn_major, b_mn_major;
  uint64_t a, b;  // matrix descriptors, of tile_address
  bool accumulate;
};

namespace runtime {

using Where = std::source_location;

int lane();  // of the calling thread in its warp
void stmatrix(const uint32_t* r, int count, void* row, bool transposed, Where where);

void mbarrier_init(uint64_t* barrier, uint32_t count, Where where);
void fence_mbarrier_init();
// Arrives once, having announced `bytes`.
void mbarrier_arrive(uint64_t* barrier, uint32_t bytes, Where where);
void mbarrier_arrive_remote(uint64_t* barrier, uint32_t rank, Where where);
// Returns when the phase of this parity has completed.
void mbarrier_wait(uint64_t* barrier, uint32_t parity, Where where);

// Throws where all warps of the block have called it, and want more than a launch can give.
void setmaxnreg(int registers, Where where);

void fence_proxy_async(Where where);
void fence_proxy_async_global();
// `blocks`: a bit for each block of the cluster; 0: the calling block alone.
void tma_load(void* shared, const TensorMap& map, int row, int col, uint64_t* barrier,
              uint16_t blocks, Where where);
void bulk_load(void* shared, const void* global, uint32_t bytes, uint64_t* barrier, Where where);
void tma_store(const TensorMap& map, int row, int col, const void* shared, Where where);
void bulk_commit();
// `complete`: what the stores wrote is there; else only their shared memory has been read.
void bulk_wait(int pending, bool complete);

// Flags in global memory (device/ptx/system.cuh). A wait for one that is not set works only on a
// stream of Devices (devices.h).
void signal_add(uint32_t* flag, uint32_t value, Where where);
void signal_set(uint32_t* flag, uint32_t value, Where where);
void signal_wait(const uint32_t* flag, uint32_t at_least, Where where);

void named_barrier(int id, int threads, bool waits, Where where);

uint32_t cluster_rank();
uint32_t cluster_size();
void cluster_arrive(Where where);
void cluster_wait(Where where);
void* map_shared(const void* p, uint32_t rank, Where where);

// Where p lies in dynamic shared memory, from its start: an address for matrix descriptors.
uint32_t tile_address(const void* p, Where where);
void wgmma_fence(Where where);
void wgmma(const WgmmaCall& call, float* d, Where where);
void wgmma_commit(Where where);
void wgmma_wait(int pending, Where where);

}  // namespace runtime
}  // namespace gemm::sim
