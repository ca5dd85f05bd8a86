// Kernels that exchange data between devices. `// [name]` marks the lines that must be named when
// the bug of that name is found.
#include <memory>

#include "device/dynamic_shared.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/system.cuh"
#include "device/ptx/tma.cuh"
#include "device/tma.h"
#include "devices_kernels.h"
#include "rung.h"
#include "sim/devices.h"

namespace {
using namespace gemm;
using devices::Scenario;

constexpr int CTAS = 4, THREADS = 64, SHARD = 1024;  // floats of one device

enum Bug {
  NONE,
  NO_WAIT,          // reads a shard before its flag is raised
  FLAG_FIRST,       // the flag is queued before the copy that it announces
  REUSED_EARLY,     // a copy overwrites what the round before still reads
  SIGNAL_FIRST,     // the flag is raised before the stores that it announces
  RELAXED_FLAG,     // the flag is raised by an ordinary store
  NEVER_WRITTEN,    // reads what nobody has written
  NO_STORE_WAIT,    // the flag is raised before TMA's stores are complete
  NO_PROXY_FENCE,   // TMA loads what was acquired by an ordinary load
  OVERWRITES_PEER,  // stores to the peer's memory before the peer has read it
};

// What device `device` holds in a round.
float value(int device, int round, int i) { return float(1000 * round + 100 * device + i % 100); }

// ----------------------------------------------------------------------------- gather, by copies

// out = all + 1, shard by shard, each when its flag has come to `round`, the device's own first.
template <int BUG>
__global__ void gather_and_add(const float* all, float* out, const uint32_t* flags, int devices,
                               int own, uint32_t round) {
  for (int k = 0; k < devices; ++k) {
    const int shard = (own + k) % devices;
    if (threadIdx.x == 0 && shard != own && BUG != NO_WAIT)
      signal_wait(&flags[shard], round);  // [deadlock]
    __syncthreads();
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < SHARD; i += CTAS * THREADS)
      out[shard * SHARD + i] =
          all[shard * SHARD + i]  // [no_wait] [flag_first] [reused_early] [never_written]
          + 1;
    __syncthreads();
  }
}

// The devices' memory, and what they should hold.
struct Memory {
  Memory(sim::Devices& d) : devices(d) {
    for (int i = 0; i < d.count(); ++i) {
      const auto floats = [&](const char* name, int shards) {
        return static_cast<float*>(d.allocate(i, shards * SHARD * sizeof(float), name));
      };
      shard.push_back(floats("shard", 1));
      all.push_back(floats("all", d.count()));
      out.push_back(floats("out", d.count()));
      flags.push_back(
          static_cast<uint32_t*>(d.allocate(i, (d.count() + 1) * sizeof(uint32_t), "flags")));
      d.set_bytes(flags.back(), 0, (d.count() + 1) * sizeof(uint32_t));
      main.push_back(d.stream(i, "main"));
      copies.push_back(d.stream(i, "copies"));
    }
  }
  void fill(int round) {
    for (int d = 0; d < devices.count(); ++d)
      for (int i = 0; i < SHARD; ++i) shard[d][i] = value(d, round, i);
  }
  std::string check(int round, float added) const {
    for (int d = 0; d < devices.count(); ++d)
      for (int i = 0; i < devices.count() * SHARD; ++i) {
        const float expected = value(i / SHARD, round, i % SHARD) + added;
        if (out[d][i] != expected)
          return "device " + std::to_string(d) + " has " + std::to_string(out[d][i]) + " at " +
                 std::to_string(i) + ", not " + std::to_string(expected);
      }
    return "";
  }
  sim::Copy whole_shard(int from, int to) const {
    const int64_t bytes = SHARD * sizeof(float), pitch = bytes / 8;  // 8 rows
    return {all[to] + from * SHARD, pitch, shard[from], pitch, pitch, 8};
  }

  sim::Devices& devices;
  std::vector<float*> shard, all, out;
  std::vector<uint32_t*> flags;  // by the device that raises them, and one that nobody raises
  std::vector<void*> main, copies;
};

// Each device pushes its shard to all, by its copy engine, and raises their flags. Two rounds; the
// host's call in between makes the next shards.
template <int BUG>
std::string gather_into(float* all_of_0, int count) {
  sim::Devices devices(count);
  Memory m(devices);
  if (all_of_0 != nullptr) m.all[0] = all_of_0;
  m.fill(1);
  std::vector<sim::Event> read(count);
  for (uint32_t round = 1; round <= 2; ++round) {
    if (round == 2) {
      if (BUG != REUSED_EARLY)
        for (int d = 0; d < count; ++d)
          for (int to = 0; to < count; ++to) devices.wait(m.copies[d], read[to]);
      for (int d = 0; d < count; ++d)
        devices.call(m.copies[d], [&m, d] {
          for (int i = 0; i < SHARD; ++i) m.shard[d][i] = value(d, 2, i);
        });
    }
    for (int d = 0; d < count; ++d)
      for (int k = 0; k < count; ++k) {
        const int to = (d + k) % count;
        if (BUG == NEVER_WRITTEN && to == 1 && d == 0) {
          devices.write_value(m.copies[d], &m.flags[to][d], round);
          continue;
        }
        if (BUG == FLAG_FIRST && to != d) devices.write_value(m.copies[d], &m.flags[to][d], round);
        devices.copy(m.copies[d], m.whole_shard(d, to));  // [no_wait] [flag_first] [reused_early]
        if (BUG != FLAG_FIRST && to != d) devices.write_value(m.copies[d], &m.flags[to][d], round);
        if (to == d) devices.wait(m.main[d], devices.record(m.copies[d]));
      }
    for (int d = 0; d < count; ++d) {
      launch(gather_and_add<BUG>, CTAS, THREADS, {}, m.main[d], static_cast<const float*>(m.all[d]),
             m.out[d], static_cast<const uint32_t*>(m.flags[d]), count, d, round);
      read[d] = devices.record(m.main[d]);
    }
  }
  devices.synchronize();
  return m.check(2, 1);
}

template <int BUG>
std::string gather(int count) {
  return gather_into<BUG>(nullptr, count);
}

// ------------------------------------------------------------------------- exchange, by kernels

// Every device writes its shard into the memory of all, raises their flags, waits for its own and
// adds 1: each of the CTAs with its part. Then they tell each other that they have read.
template <int BUG>
__global__ void exchange(const float* shard, float* const* all, float* out, uint32_t* const* flags,
                         int devices, int own, uint32_t round) {
  const int begin = blockIdx.x * (SHARD / CTAS), end = begin + SHARD / CTAS;
  for (int k = 0; k < devices; ++k) {
    const int to = (own + k) % devices;
    if (threadIdx.x == 0 && round > 1 && BUG != OVERWRITES_PEER)  // all CTAs of the round before
      signal_wait(&flags[own][devices], (round - 1) * CTAS * devices);
    if (BUG == SIGNAL_FIRST && threadIdx.x == 0) signal_add(&flags[to][own], 1);
    __syncthreads();
    for (int i = begin + threadIdx.x; i < end; i += THREADS) {
      const float mine = shard[i] + float(1000 * round);
      all[to][own * SHARD + i] = mine;  // [overwrites_peer] [signal_first] [relaxed_flag]
    }
    __syncthreads();
    if (threadIdx.x == 0 && BUG == RELAXED_FLAG) {
      flags[to][own] = round * CTAS;  // [relaxed_flag]
    } else if (threadIdx.x == 0 && BUG != SIGNAL_FIRST) {
      signal_add(&flags[to][own], 1);
    }
  }
  for (int k = 0; k < devices; ++k) {
    const int from = (own + k) % devices;
    if (threadIdx.x == 0) signal_wait(&flags[own][from], round * CTAS);  // [relaxed_flag]
    __syncthreads();
    for (int i = begin + threadIdx.x; i < end; i += THREADS)
      out[from * SHARD + i] =
          all[own][from * SHARD + i] + 1;  // [overwrites_peer] [signal_first] [relaxed_flag]
    __syncthreads();
  }
  if (threadIdx.x == 0)
    for (int to = 0; to < devices; ++to) signal_add(&flags[to][devices], 1);
}

// The devices' pointers in the memory of each.
template <class T>
std::vector<T**> tables(sim::Devices& devices, const std::vector<T*>& pointers) {
  std::vector<T**> tables;
  for (int d = 0; d < devices.count(); ++d) {
    tables.push_back(
        static_cast<T**>(devices.allocate(d, pointers.size() * sizeof(T*), "pointers")));
    std::copy(pointers.begin(), pointers.end(), tables.back());
  }
  return tables;
}

template <int BUG>
std::string exchanges(int count) {
  sim::Devices devices(count);
  Memory m(devices);
  m.fill(0);
  const auto all = tables(devices, m.all);
  const auto flags = tables(devices, m.flags);
  for (uint32_t round = 1; round <= 3; ++round)
    for (int d = 0; d < count; ++d)
      launch(exchange<BUG>, CTAS, THREADS, {}, m.main[d], static_cast<const float*>(m.shard[d]),
             static_cast<float* const*>(all[d]), m.out[d], static_cast<uint32_t* const*>(flags[d]),
             count, d, round);
  devices.synchronize();
  return m.check(3, 1);
}

// --------------------------------------------------------------------------------- tiles, by TMA

constexpr int ROWS = 8, COLS = 32;  // of a tile

// CTA i sends tile i of the shard to the next device and adds 1 to the one that it gets, which TMA
// brings: both by thread 0.
template <int BUG>
__global__ void send_tiles(const __grid_constant__ TensorMap shard,
                           const __grid_constant__ TensorMap to,
                           const __grid_constant__ TensorMap got, float* out, uint32_t* raised,
                           const uint32_t* awaited) {
  auto* const tile = static_cast<float*>(dynamic_shared());
  auto* const bar = reinterpret_cast<uint64_t*>(tile + ROWS * COLS);
  const int row = blockIdx.x * ROWS, tid = threadIdx.x;
  if (tid == 0) {
    mbarrier_init(bar, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(bar, ROWS * COLS * sizeof(float));
    tma_load(tile, shard, row, 0, bar);
    mbarrier_wait(bar, 0);
    tma_store(to, row, 0, tile);  // [no_store_wait] [no_proxy_fence]
    tma_store_commit();
    if (BUG == NO_STORE_WAIT)
      tma_store_wait_read<0>();
    else
      tma_store_wait<0>();
    signal_add(&raised[blockIdx.x], 1);
    signal_wait(&awaited[blockIdx.x], 1);
    if (BUG != NO_PROXY_FENCE) fence_proxy_async_global();
    mbarrier_arrive_expect_tx(bar, ROWS * COLS * sizeof(float));
    tma_load(tile, got, row, 0, bar);  // [no_store_wait] [no_proxy_fence]
  }
  __syncthreads();
  mbarrier_wait(bar, 1);
  for (int i = tid; i < ROWS * COLS; i += THREADS) out[row * COLS + i] = tile[i] + 1;
}

template <int BUG>
std::string ring(int count) {
  sim::Devices devices(count);
  Memory m(devices);
  m.fill(1);
  const int tiles = SHARD / (ROWS * COLS);
  std::vector<uint32_t*> arrived;
  for (int d = 0; d < count; ++d) {
    arrived.push_back(
        static_cast<uint32_t*>(devices.allocate(d, tiles * sizeof(uint32_t), "arrived")));
    devices.set_bytes(arrived[d], 0, tiles * sizeof(uint32_t));
  }
  const auto map = [&](float* p) {
    return tensor_map(p, tiles * ROWS, COLS, COLS, ROWS, COLS, Swizzle::none);
  };
  for (int d = 0; d < count; ++d) {
    const int next = (d + 1) % count;
    launch(send_tiles<BUG>, tiles, THREADS, {.smem = ROWS * COLS * sizeof(float) + 8}, m.main[d],
           map(m.shard[d]), map(m.all[next]), map(m.all[d]), m.out[d], arrived[next],
           static_cast<const uint32_t*>(arrived[d]));
  }
  devices.synchronize();
  for (int d = 0; d < count; ++d)
    for (int i = 0; i < SHARD; ++i)
      if (m.out[d][i] != value((d + count - 1) % count, 1, i) + 1)
        return "device " + std::to_string(d) + " has " + std::to_string(m.out[d][i]) + " at " +
               std::to_string(i);
  return "";
}

// ------------------------------------------------------------------------------------- deadlocks

// Waits for one flag, raises another.
__global__ void wait_then_raise(const uint32_t* awaited, uint32_t* raised) {
  if (threadIdx.x == 0) signal_wait(awaited, 1);  // [deadlock_wait]
  __syncthreads();
  if (threadIdx.x == 0) signal_set(raised, 1);
}

// A kernel waits for a flag that the copy's stream raises behind it.
std::string copy_behind_grid(int count) {
  sim::Devices devices(count);
  Memory m(devices);
  m.fill(1);
  launch(wait_then_raise, 1, 32, {}, m.main[0], static_cast<const uint32_t*>(m.flags[0]),
         m.flags[0] + 1);
  devices.copy(m.main[0], m.whole_shard(0, 1));  // [copy_behind]
  devices.write_value(m.main[0], m.flags[0], 1);
  devices.synchronize();
  return "no deadlock";
}

// A copy stream waits for an event that stands behind the kernel that waits for the copy.
std::string event_behind_grid(int count) {
  sim::Devices devices(count);
  Memory m(devices);
  m.fill(1);
  launch(wait_then_raise, 1, 32, {}, m.main[0], static_cast<const uint32_t*>(m.flags[0]),
         m.flags[0] + 1);
  devices.wait(m.copies[1], devices.record(m.main[0]));  // [event_behind]
  devices.copy(m.copies[1], m.whole_shard(1, 0));
  devices.write_value(m.copies[1], m.flags[0], 1);
  devices.synchronize();
  return "no deadlock";
}

// Two kernels wait for each other, on two devices.
std::string two_grids(int count) {
  sim::Devices devices(count);
  Memory m(devices);
  for (int d = 0; d < 2; ++d)
    launch(wait_then_raise, 1, 32, {}, m.main[d], static_cast<const uint32_t*>(m.flags[d]),
           m.flags[1 - d]);
  devices.synchronize();
  return "no deadlock";
}

// A kernel that takes all SMs waits for one of another stream of its device, which finds no room.
std::string no_room(int count) {
  sim::Devices devices(count);
  Memory m(devices);
  const LaunchOptions all_shared{.smem = 200 * 1024};
  launch(wait_then_raise, CTAS, 32, all_shared, m.main[0], static_cast<const uint32_t*>(m.flags[0]),
         m.flags[0] + 1);
  launch(wait_then_raise, 1, 32, all_shared, m.copies[0],
         static_cast<const uint32_t*>(m.flags[0] + 1), m.flags[0]);
  devices.synchronize();
  return "no deadlock";
}

[[maybe_unused]] std::vector<Scenario> all_right() {
  return {{"gather", gather<NONE>}, {"exchanges", exchanges<NONE>}, {"ring", ring<NONE>}};
}

[[maybe_unused]] std::vector<Scenario> all_deadlocks() {
  return {
      {"copy_behind_grid",
       copy_behind_grid,
       "failed",
       {"deadlock: device 0, kernel wait_then_raise, block 0: thread 0 (warp 0, lane 0) waits at "
        "signal_wait (devices_kernels.cu:",
        "for flags[0] of device 0 to be at least 1, which is 0",
        "copy 1 of stream 'main' of device 0 (devices_kernels.cu:",
        "waits behind kernel wait_then_raise, and 1 more behind it"},
       "deadlock_wait"},
      {"event_behind_grid",
       event_behind_grid,
       "failed",
       {"block 0: thread 0 (warp 0, lane 0) waits at signal_wait",
        "wait 1 of stream 'copies' of device 1 (devices_kernels.cu:",
        "waits for the event recorded in stream 'main' of device 0",
        "record 1 of stream 'main' of device 0", "waits behind kernel wait_then_raise"},
       "event_behind"},
      {"two_grids",
       two_grids,
       "failed",
       {"device 0, kernel wait_then_raise, block 0: thread 0 (warp 0, lane 0) waits",
        "for flags[0] of device 0 to be at least 1, which is 0",
        "device 1, kernel wait_then_raise, block 0: thread 0 (warp 0, lane 0) waits",
        "for flags[0] of device 1 to be at least 1, which is 0"},
       "deadlock_wait"},
      {"no_room",
       no_room,
       "failed",
       {"device 0, kernel wait_then_raise, blocks 0, 1, 2, 3: thread 0 (warp 0, lane 0) waits",
        "kernel wait_then_raise of stream 'copies' of device 0 finds no room on the 4 SMs of "
        "device 0"},
       "deadlock_wait"},
  };
}

[[maybe_unused]] std::vector<Scenario> all_planted() {
  const std::string unordered = "and nothing orders the two", race = "race";
  return {
      {"no_wait",
       gather<NO_WAIT>,
       race,
       {"thread ", " of all of device ", "which copy ", " of stream 'copies' of device ",
        " writes at", unordered},
       "no_wait"},
      {"flag_first",
       gather<FLAG_FIRST>,
       race,
       {" reads byte ", "which copy ", unordered},
       "flag_first"},
      {"reused_early",
       gather<REUSED_EARLY>,
       race,
       {"copy ", " of all of device ", unordered},
       "reused_early"},
      {"never_written",
       gather<NEVER_WRITTEN>,
       "uninitialised read",
       {" of device 1 reads byte 0 of all of device 1, which nobody has written"},
       "never_written"},
      {"signal_first",
       exchanges<SIGNAL_FIRST>,
       race,
       {" of all of device ", unordered},
       "signal_first"},
      {"relaxed_flag",
       exchanges<RELAXED_FLAG>,
       race,
       {"waits for the flag at byte ", "of flags of device ", "without a release"},
       "relaxed_flag"},
      {"overwrites_peer",
       exchanges<OVERWRITES_PEER>,
       race,
       {" of all of device ", unordered},
       "overwrites_peer"},
      {"no_store_wait",
       ring<NO_STORE_WAIT>,
       "unfinished TMA store",
       {"thread 0 (warp 0, lane 0) of block ", "reads byte ", "which thread 0 of block ",
        " writes at ", "no tma_store_wait came before what orders the two"},
       "no_store_wait"},
      {"no_proxy_fence",
       ring<NO_PROXY_FENCE>,
       "missing proxy fence",
       {" of all of device ", "no fence_proxy_async_global follows the wait"},
       "no_proxy_fence"},
  };
}

}  // namespace

#ifdef GEMM_SIM_TRACED
std::vector<Scenario> gemm::devices::right_traced() { return all_right(); }
std::vector<Scenario> gemm::devices::planted() { return all_planted(); }
std::string gemm::devices::read_before_it_comes(float* all) { return gather_into<NO_WAIT>(all, 2); }
std::vector<Scenario> gemm::devices::deadlocks_traced() { return all_deadlocks(); }
#else
std::vector<Scenario> gemm::devices::right() { return all_right(); }
std::vector<Scenario> gemm::devices::deadlocks() { return all_deadlocks(); }
#endif
