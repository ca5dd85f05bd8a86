// Clusters: blocks on neighbouring SMs that reach each other's shared memory (PTX ISA, "Cluster of
// cooperative thread arrays").
#pragma once

#include "device/ptx/asm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// %cluster_ctarank and %cluster_nctarank
GEMM_DEVICE uint32_t cluster_rank() {
#if GEMM_ON_GPU
  uint32_t rank = 0;
  GEMM_SM90_ASM("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return sim::runtime::cluster_rank();
#endif
}
GEMM_DEVICE uint32_t cluster_size() {
#if GEMM_ON_GPU
  uint32_t size = 0;
  GEMM_SM90_ASM("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
#else
  return sim::runtime::cluster_size();
#endif
}

// barrier.cluster.arrive and .wait, by all threads of the cluster: what any did before its arrive
// comes before what all do after their wait. No block may end while others still reach into its
// shared memory.
GEMM_DEVICE void cluster_arrive(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
  sim::runtime::cluster_arrive(where);
#endif
}
GEMM_DEVICE void cluster_wait(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  sim::runtime::cluster_wait(where);
#endif
}
// A barrier of all threads of the cluster, or of the block where it is alone.
template <int CLUSTER>
GEMM_DEVICE void sync_cluster(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  if constexpr (CLUSTER == 1) return __syncthreads();
  cluster_arrive();
  cluster_wait();
#else
  if constexpr (CLUSTER == 1) return __syncthreads(where);
  cluster_arrive(where);
  cluster_wait(where);
#endif
}

// mapa: the same place in the shared memory of block `rank` of the cluster, for ordinary loads and
// stores.
template <class T>
GEMM_DEVICE T* map_shared(T* p, uint32_t rank GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  T* remote = nullptr;
  GEMM_SM90_ASM("mapa.u64 %0, %1, %2;" : "=l"(remote) : "l"(p), "r"(rank));
  return remote;
#else
  return static_cast<T*>(sim::runtime::map_shared(p, rank GEMM_CALLER_PASS));
#endif
}

GEMM_BUILD_NAMESPACE_END
