// What planning knows of a GPU: how much of everything it has, and what things cost there.
#pragma once

#include <cstddef>

namespace gemm {

inline constexpr int MAX_CLUSTER = 8;  // CTAs, what every GPU with clusters allows

// What the FP32 kernels' choices cost, in microseconds.
struct FfmaCosts {
  double ffma;      // TFLOPS of an SM, if every issue slot is an FFMA
  double memory;    // TB/s from memory
  double sm_fetch;  // TB/s into one SM, of stream-K parts
  double repack;    // us to repack operands, beside their bytes
  double begin;     // us of a whole tile before its first and after its last multiply-add

  // Costs of split-K tiles, fitted to what --tune measured: scripts/fit_ffma.py.
  struct Split {
    double multiply;         // time of a tile's FFMA, with two CTAs on an SM: 1 is the limit
    double alone;            // speed of one CTA on an SM, of that of two
    double copy_4, copy_16;  // ps a float copied by cp.async of 4 bytes, of 16
    double launch;           // us of a kernel with one k-tile
    double wave;             // us to begin and end another wave of CTAs
    double cluster;          // us in which the CTAs of a cluster wait for each other
    double second;           // us of a kernel that begins when the one before ends
    double l2, fetch;        // TB/s into all SMs, into one
    double store, send;      // ps a result stored, a sum sent to another CTA
    // [n]: part of the SMs that clusters of n CTAs fill, two CTAs on an SM; counted, not fitted
    double clusters[MAX_CLUSTER + 1];
  } split;
};

// What takes time in the engine's kernels (plan/engine.cpp). Fitted by scripts/fit_engine.py.
struct EngineCosts {
  double launch;             // us of a kernel with one k-tile
  double cooperative;        // us by which cooperative kernels begin later than others
  double k_tile;             // us of a k-tile at least, of one consumer that does not take turns
  double tensor;             // TFLOPS of an SM's tensor cores in a tile
  double ping_pong;          // tensor where two consumers take turns, as a part of it
  double memory, l2, fetch;  // TB/s from memory; from L2 into all SMs, into one
  double sectors;            // requests for a row across lines, of whole sectors
  double edge;               // L2 slows by this power of the part of all tiles that lies in C
  double alone;              // a main loop's time without clusters, rows in whole lines
  double store;              // ps a result stored
  double staged;             // a store's time while the other consumer multiplies, in stores
  double moved;              // ps a sum that another CTA adds up; a result not in whole 16 bytes
  double copies;             // TB/s of a kernel that copies operands first
  double copy_launch;        // us of that kernel besides its bytes
};

// What kernels' choices cost on one architecture. Measured, see plots/NOTES.md.
struct Costs {
  FfmaCosts fp32;
  EngineCosts engine;
  double clusters[MAX_CLUSTER +
                  1];  // [n]: part of the SMs that clusters of n CTAs fill; counted, not fitted
  // Costs of tiles of 64 x 64 whose operands are read where they lie, in microseconds.
  struct Unaligned {
    double launch;       // of a kernel with one k-tile
    double k_tile;       // that a group of warps waits for
    double group;        // added to that wait by each group on the SM
    double by_elements;  // added by each group and each operand that it reads two bytes at a time
    double results;      // a million results
    double cluster;      // to add up a tile's sums in a cluster
  } unaligned;
};

struct Arch {
  const char* name = "NVIDIA H200";
  int sms = 0;               // streaming multiprocessors
  int ctas = 0;              // persistent CTAs that run at once: one an SM, fewer in the simulator
  bool clusters = false;     // thread block clusters: Hopper and later
  size_t shared_memory = 0;  // of a CTA that asks for more than 48 KiB; bytes
  const Costs* costs = nullptr;
};

// The costs of the GPU with this name; those of an H200 for all that were not measured.
const Costs& costs_of(const char* gpu);

// Clusters of so many CTAs that run at a time: within a GPC some SMs are left over.
int clusters_at_a_time(const Arch& arch, int size);

// The GPU that the simulator stands for: an H200. Few persistent CTAs, so that in small problems
// too each computes several tiles.
const Arch& simulated_arch();

}  // namespace gemm
