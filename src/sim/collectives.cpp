#include "sim/collectives.h"

#include <atomic>
#include <cstring>

#include "device/platform.h"
#include "sim/block.h"
#include "sim/diagnosis.h"
#include "sim/hopper.h"
#include "sim/tracer.h"
#include "sim/widen.h"

namespace gemm::sim {

namespace {

using Arrival = Collectives::Arrival;
using Arrivals = Arrival[WARP];

bool agree(const Arrival& a, const Arrival& b) {
  return a.op == b.op && a.mask == b.mask && same_place(a.where, b.where);
}

std::string describe(const Arrival& a) {
  return fmt::format("{} with mask {:#x} ({})", a.op->name, a.mask, place(a.where));
}

}  // namespace

// Throws when what the running thread brings is wrong in itself or does not fit what waits.
void Collectives::check(const Scheduler& scheduler, const Warp& warp) {
  const int self = scheduler.thread(), lane = scheduler.lane();
  const uint32_t lanes = scheduler.lanes_of(scheduler.warp());
  const Arrival& arrival = warp.arrivals[lane];
  if ((arrival.mask >> lane & 1) == 0)
    fail("{}: {} does not name its own lane", scheduler.name(self), describe(arrival));
  if ((arrival.mask & ~lanes) != 0)
    fail("{}: {} names lane {}, but the warp has only {} threads", scheduler.name(self),
         describe(arrival), std::countr_zero(arrival.mask & ~lanes), std::popcount(lanes));
  for (uint32_t rest = warp.pending; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const Arrival& other = warp.arrivals[l];
    if (((other.mask >> lane & 1) != 0 || (arrival.mask >> l & 1) != 0) && !agree(arrival, other))
      fail("the lanes of a warp disagree: {} calls {}, but {} waits at {}", scheduler.name(self),
           describe(arrival), scheduler.name(self - lane + l), describe(other));
  }
}

GEMM_SIM_INLINE void Collectives::join(Scheduler& scheduler, const Op& op, uint32_t mask,
                                       std::source_location where, void* operands) {
  const int lane = scheduler.lane();
  const uint32_t bit = 1u << lane, lanes = scheduler.lanes_of(scheduler.warp());
  Warp& warp = warps_[scheduler.warp()];
  Arrival& arrival = warp.arrivals[lane];
  arrival = {&op, mask, where, operands};

  // Waiting lanes with overlapping masks agree, so comparing with the lowest usually settles it.
  const uint32_t waiting = warp.pending;
  if ((mask & bit) == 0 || (mask & ~lanes) != 0 ||
      (waiting != 0 && !agree(arrival, warp.arrivals[std::countr_zero(waiting)])))
    check(scheduler, warp);

  warp.pending |= bit;
  if ((warp.pending & mask) != mask) return scheduler.suspend({op.name, where, mask});
  warp.pending &= ~mask;
  ++count;
  op.complete(warp.arrivals, mask);
  if (this_thread.tracer != nullptr) this_thread.tracer->collective(mask, op.orders_memory);
  scheduler.release(mask);
}

namespace {

GEMM_SIM_INLINE void join(const Collectives::Op& op, uint32_t mask, std::source_location where,
                          void* operands) {
  Block& block = current_block(op.name);
  block.collectives.join(block.scheduler, op, mask, where, operands);
}

template <class Operands>
Operands& operands(const Arrivals& lanes, int lane) {
  return *static_cast<Operands*>(lanes[lane].operands);
}

// "thread 5 (warp 0, lane 5): ldmatrix.x4 (v10.cu:7)"; for errors found by the last lane to arrive.
std::string name_of(const Arrivals& lanes, int lane) {
  const Scheduler& s = this_thread.block->scheduler;
  return fmt::format("{}: {} ({})", s.name(s.thread() - s.lane() + lane), lanes[lane].op->name,
                     place(lanes[lane].where));
}

// ---------------------------------------------------------------- __syncwarp, shuffles and votes

constexpr Collectives::Op SYNC_WARP{"__syncwarp", [](const Arrivals&, uint32_t) {}, true};

struct ShuffleOperands {
  Shuffle mode;
  uint32_t operand, segment;  // segment: the lane bits that the width keeps apart
  uint64_t value, result;
};

// PTX ISA, shfl.sync.
void complete_shuffle(const Arrivals& lanes, uint32_t mask) {
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    auto& self = operands<ShuffleOperands>(lanes, lane);
    const int b = self.operand & 31, segment = self.segment;
    const int first = lane & segment, last = first | (31 & ~segment);
    int source = 0;
    switch (self.mode) {
      case Shuffle::idx:
        source = first | (b & ~segment);
        break;
      case Shuffle::up:
        source = lane - b < first ? lane : lane - b;
        break;
      case Shuffle::down:
        source = lane + b > last ? lane : lane + b;
        break;
      case Shuffle::bfly:
        source = (lane ^ b) > last ? lane : lane ^ b;
        break;
    }
    if ((mask >> source & 1) == 0)
      fail("{} reads lane {}, which its mask {:#x} does not name", name_of(lanes, lane), source,
           mask);
    self.result = operands<ShuffleOperands>(lanes, source).value;
  }
}

constexpr Collectives::Op SHUFFLES[] = {{"__shfl_sync", complete_shuffle},
                                        {"__shfl_up_sync", complete_shuffle},
                                        {"__shfl_down_sync", complete_shuffle},
                                        {"__shfl_xor_sync", complete_shuffle}};

struct VoteOperands {
  bool predicate;
  uint32_t result;
};

constexpr Collectives::Op VOTE{
    "warp vote", [](const Arrivals& lanes, uint32_t mask) {
      uint32_t result = 0;
      for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const int lane = std::countr_zero(rest);
        result |= uint32_t{operands<VoteOperands>(lanes, lane).predicate} << lane;
      }
      for (uint32_t rest = mask; rest != 0; rest &= rest - 1)
        operands<VoteOperands>(lanes, std::countr_zero(rest)).result = result;
    }};

// ------------------------------------------------------------------------------------- ldmatrix

struct LdmatrixOperands {
  uint32_t* r;
  const char* row;
};

template <int COUNT, bool TRANSPOSED>
void complete_ldmatrix(const Arrivals& lanes, uint32_t) {
  const char* rows[8 * COUNT];
  for (int l = 0; l < 8 * COUNT; ++l) {
    rows[l] = operands<LdmatrixOperands>(lanes, l).row;
    if (reinterpret_cast<uintptr_t>(rows[l]) % 16 != 0)
      fail("{}: row address {} is not 16-byte aligned", name_of(lanes, l),
           static_cast<const void*>(rows[l]));
    if (!this_thread.block->shared.contains(rows[l], 16))
      fail("{}: the row is not in shared memory", name_of(lanes, l));
  }
  for (int l = 0; l < WARP; ++l) {
    uint32_t* r = operands<LdmatrixOperands>(lanes, l).r;
    for (int i = 0; i < COUNT; ++i) {
      if constexpr (TRANSPOSED) {
        uint16_t pair[2];
        for (int e = 0; e < 2; ++e)
          std::memcpy(&pair[e], rows[8 * i + l % 4 * 2 + e] + l / 4 * 2, 2);
        std::memcpy(&r[i], pair, 4);
      } else {
        std::memcpy(&r[i], rows[8 * i + l / 4] + l % 4 * 4, 4);
      }
    }
  }
}

constexpr Collectives::Op LDMATRIX[3][2] = {{{"ldmatrix.x1", complete_ldmatrix<1, false>},
                                             {"ldmatrix.x1.trans", complete_ldmatrix<1, true>}},
                                            {{"ldmatrix.x2", complete_ldmatrix<2, false>},
                                             {"ldmatrix.x2.trans", complete_ldmatrix<2, true>}},
                                            {{"ldmatrix.x4", complete_ldmatrix<4, false>},
                                             {"ldmatrix.x4.trans", complete_ldmatrix<4, true>}}};

// ------------------------------------------------------------------------------------- stmatrix

struct StmatrixOperands {
  const uint32_t* r;
  char* row;
};

template <int COUNT, bool TRANSPOSED>
void complete_stmatrix(const Arrivals& lanes, uint32_t) {
  for (int l = 0; l < 8 * COUNT; ++l) {
    const char* row = operands<StmatrixOperands>(lanes, l).row;
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0)
      fail("{}: row address {} is not 16-byte aligned", name_of(lanes, l),
           static_cast<const void*>(row));
    if (!this_thread.block->shared.contains(row, 16))
      fail("{}: the row is not in shared memory", name_of(lanes, l));
  }
  for (int l = 0; l < WARP; ++l)
    for (int i = 0; i < COUNT; ++i) {
      const uint32_t word = operands<StmatrixOperands>(lanes, l).r[i];
      const auto row = [&](int n) { return operands<StmatrixOperands>(lanes, 8 * i + n).row; };
      if constexpr (TRANSPOSED) {
        for (int e = 0; e < 2; ++e) {
          const auto element = static_cast<uint16_t>(word >> e * 16);
          std::memcpy(row(l % 4 * 2 + e) + l / 4 * 2, &element, 2);
        }
      } else {
        std::memcpy(row(l / 4) + l % 4 * 4, &word, 4);
      }
    }
}

constexpr Collectives::Op STMATRIX[3][2] = {{{"stmatrix.x1", complete_stmatrix<1, false>},
                                             {"stmatrix.x1.trans", complete_stmatrix<1, true>}},
                                            {{"stmatrix.x2", complete_stmatrix<2, false>},
                                             {"stmatrix.x2.trans", complete_stmatrix<2, true>}},
                                            {{"stmatrix.x4", complete_stmatrix<4, false>},
                                             {"stmatrix.x4.trans", complete_stmatrix<4, true>}}};

// ------------------------------------------------------------------------------------------ mma

struct MmaOperands {
  float* d;
  const uint32_t *a, *b;
};

typedef float Row __attribute__((vector_size(32)));  // 8 columns of B or D

// D += A * B for 16 x K times K x 8, in the order of k. Products of f16, bf16 and tf32 values are
// exact in float, so that contraction to fused multiply-adds changes nothing.
template <int K>
void multiply(Row (&d)[16], const float (&a)[16][K], const Row (&b)[K]) {
  for (int m0 = 0; m0 < 16; m0 += 8) {  // 8 rows of D fit in the registers
    Row sum[8];
    for (int m = 0; m < 8; ++m) sum[m] = d[m0 + m];
    for (int k = 0; k < K; ++k)
      for (int m = 0; m < 8; ++m) sum[m] += a[m0 + m][k] * b[k];
    for (int m = 0; m < 8; ++m) d[m0 + m] = sum[m];
  }
}

// The accumulators' layout is the same for all types (device/ptx/mma.cuh).
template <int K>
void multiply(const Arrivals& lanes, const float (&a)[16][K], const Row (&b)[K]) {
  Row d[16];
  for (int l = 0; l < WARP; ++l) {
    const float* from = operands<MmaOperands>(lanes, l).d;
    for (int i = 0; i < 4; ++i) d[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2] = from[i];
  }
  multiply(d, a, b);
  for (int l = 0; l < WARP; ++l) {
    float* to = operands<MmaOperands>(lanes, l).d;
    for (int i = 0; i < 4; ++i) to[i] = d[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
  }
}

// m16n8k16 of 16-bit elements, which `widen` makes floats.
template <void (*widen)(float*, const uint16_t*)>
void complete_mma16(const Arrivals& lanes, uint32_t) {
  uint32_t a_words[16][8];
  uint16_t b_elements[16][8];
  for (int l = 0; l < WARP; ++l) {
    const auto& o = operands<MmaOperands>(lanes, l);
    const int g = l / 4, t = l % 4;
    for (int i = 0; i < 4; ++i) a_words[g + i % 2 * 8][t + i / 2 * 4] = o.a[i];
    for (int i = 0; i < 4; ++i)
      b_elements[i / 2 * 8 + 2 * t + i % 2][g] = static_cast<uint16_t>(o.b[i / 2] >> i % 2 * 16);
  }
  alignas(32) float a[16][16];
  Row b[16];
  for (int m = 0; m < 16; ++m)
    for (int half = 0; half < 2; ++half) {
      uint16_t elements[8];
      std::memcpy(elements, &a_words[m][half * 4], 16);
      widen(&a[m][half * 8], elements);
    }
  for (int k = 0; k < 16; ++k) {
    float row[8];
    widen(row, b_elements[k]);
    std::memcpy(&b[k], row, sizeof row);
  }
  multiply(lanes, a, b);
}

constexpr Collectives::Op MMA_F16{"mma.m16n8k16.f16", complete_mma16<widen_halves>};
constexpr Collectives::Op MMA_BF16{"mma.m16n8k16.bf16", complete_mma16<widen_bf16>};

constexpr Collectives::Op MMA_TF32{"mma.m16n8k8.tf32", [](const Arrivals& lanes, uint32_t) {
                                     // The tensor core does not look at the 13 bits that tf32
                                     // lacks.
                                     const auto tf32 = [](uint32_t bits) {
                                       return std::bit_cast<float>(bits & ~0x1fffu);
                                     };
                                     float a[16][8];
                                     Row b[8];
                                     for (int l = 0; l < WARP; ++l) {
                                       const auto& o = operands<MmaOperands>(lanes, l);
                                       const int g = l / 4, t = l % 4;
                                       for (int i = 0; i < 4; ++i)
                                         a[g + i % 2 * 8][t + i / 2 * 4] = tf32(o.a[i]);
                                       for (int i = 0; i < 2; ++i) b[t + i * 4][g] = tf32(o.b[i]);
                                     }
                                     multiply(lanes, a, b);
                                   }};

constexpr uint32_t FULL_WARP = 0xffffffff;

}  // namespace

// ------------------------------------------------------------------------------------------------

void join_collective(const Collectives::Op& op, uint32_t mask, std::source_location where,
                     void* operands) {
  join(op, mask, where, operands);
}

void runtime::sync_warp(uint32_t mask, std::source_location where) {
  join(SYNC_WARP, mask, where, nullptr);
}

uint64_t runtime::shuffle(Shuffle mode, uint32_t mask, uint64_t value, uint32_t operand, int width,
                          std::source_location where) {
  const Collectives::Op& op = SHUFFLES[static_cast<int>(mode)];
  if (width < 1 || width > WARP || !std::has_single_bit(static_cast<unsigned>(width)))
    fail("{} ({}): width {} is not a power of two up to 32", op.name, place(where), width);
  ShuffleOperands o{mode, operand, static_cast<uint32_t>(WARP - width), value, 0};
  join(op, mask, where, &o);
  return o.result;
}

uint32_t runtime::ballot(uint32_t mask, bool predicate, std::source_location where) {
  VoteOperands o{predicate, 0};
  join(VOTE, mask, where, &o);
  return o.result;
}

void runtime::ldmatrix(uint32_t* r, int count, const void* row, bool transposed,
                       std::source_location where) {
  LdmatrixOperands o{r, static_cast<const char*>(row)};
  // Only so many lanes' addresses count; each is that of 16 bytes.
  const int lane = current_block("ldmatrix").scheduler.lane();
  if (this_thread.tracer != nullptr && lane < 8 * count)
    this_thread.tracer->access(reinterpret_cast<uintptr_t>(row), 16, AccessKind::read,
                               GEMM_SIM_CALLER);
  join(LDMATRIX[count / 2][transposed], FULL_WARP, where, &o);
}

void runtime::stmatrix(const uint32_t* r, int count, void* row, bool transposed,
                       std::source_location where) {
  StmatrixOperands o{r, static_cast<char*>(row)};
  const int lane = current_block("stmatrix").scheduler.lane();
  if (this_thread.tracer != nullptr && lane < 8 * count)
    this_thread.tracer->access(reinterpret_cast<uintptr_t>(row), 16, AccessKind::write,
                               GEMM_SIM_CALLER);
  join(STMATRIX[count / 2][transposed], FULL_WARP, where, &o);
}

namespace {

// Once a warp, by its first lane.
void record_mma(std::source_location where) {
  Tracer* const tracer = this_thread.tracer;
  if (tracer != nullptr && tracer->timeline() != nullptr && tracer->me().lane == 0)
    tracer->timeline()->collective(tracer->me(), EventKind::mma, where);
}

}  // namespace

void runtime::mma_f16(float* d, const uint32_t* a, const uint32_t* b, std::source_location where) {
  MmaOperands o{d, a, b};
  join(MMA_F16, FULL_WARP, where, &o);
  record_mma(where);
}

void runtime::mma_bf16(float* d, const uint32_t* a, const uint32_t* b, std::source_location where) {
  MmaOperands o{d, a, b};
  join(MMA_BF16, FULL_WARP, where, &o);
  record_mma(where);
}

void runtime::mma_tf32(float* d, const uint32_t* a, const uint32_t* b, std::source_location where) {
  MmaOperands o{d, a, b};
  join(MMA_TF32, FULL_WARP, where, &o);
  record_mma(where);
}

namespace {

template <class T>
GEMM_SIM_INLINE void trace_atomic(const T* address, uintptr_t pc) {
  if (this_thread.tracer != nullptr)
    this_thread.tracer->access(reinterpret_cast<uintptr_t>(address), sizeof(T), AccessKind::atomic,
                               pc);
}

}  // namespace

float runtime::atomic_add(float* address, float value) {
  trace_atomic(address, GEMM_SIM_CALLER);
  return std::atomic_ref(*address).fetch_add(value, std::memory_order_relaxed);
}

int runtime::atomic_add(int* address, int value) {
  trace_atomic(address, GEMM_SIM_CALLER);
  return std::atomic_ref(*address).fetch_add(value, std::memory_order_relaxed);
}

}  // namespace gemm::sim
