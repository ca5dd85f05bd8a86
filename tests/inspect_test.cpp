// The microscope: counters that can be derived by hand from the kernels, bugs planted in kernels
// (planted/planted.cu) that must be found at the right lines, and nothing found in any rung.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "extra/extra_rungs.h"
#include "harness/host_matrix.h"
#include "harness/inspection_page.h"
#include "harness/inspection_report.h"
#include "harness/sharded_matrices.h"
#include "harness/verify.h"
#include "meeting.h"
#include "plan/engine.h"
#include "planted/planted.h"
#include "print.h"
#include "same_code.h"
#include "sharded/rank_group.h"
#include "sim/devices.h"
#include "sim/races.h"
#include "sim/warp_request.h"

namespace gemm {

// What GoogleTest prints for a test's parameter.
void PrintTo(const Rung* rung, std::ostream* out) { *out << rung->name; }
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.rung.name; }

namespace {

using sim::AccessKind;
using sim::Traffic;
using testing::HasSubstr;

Problem problem(DType dtype, int m, int n, int k) {
  Problem p;
  p.dtype = dtype;
  p.M = m, p.N = n, p.K = k;
  return p;
}

// Restores the default number of OS threads.
struct OsThreads {
  explicit OsThreads(int n) { sim::set_threads(n); }
  ~OsThreads() { sim::set_threads(0); }
};

std::string all_of(const std::vector<sim::Finding>& findings) {
  std::string text;
  for (const sim::Finding& f : findings) text += f.check + ": " + f.what + "\n";
  return text;
}

// ------------------------------------------------------------------- one request: sectors, banks

template <class Address>
sim::WarpRequest request(int bytes, uint32_t lanes, Address address) {
  sim::WarpRequest r{lanes, static_cast<uint8_t>(bytes), 0, {}};
  for (int lane = 0; lane < 32; ++lane) r.address[lane] = address(lane);
  return r;
}

TEST(WarpRequest, Sectors) {
  const auto words = [](int stride) {
    return request(4, ~0u, [=](int l) { return 64 + l * stride; });
  };
  EXPECT_EQ(sectors(words(0)), 1);  // broadcast
  EXPECT_EQ(sectors(words(4)), 4);
  EXPECT_EQ(sectors(words(8)), 8);
  EXPECT_EQ(sectors(words(1024)), 32);
  EXPECT_EQ(ideal_sectors(words(0)), 1);
  EXPECT_EQ(ideal_sectors(words(1024)), 4);
  EXPECT_EQ(sectors(request(4, ~0u, [](int l) { return 40 + l * 4; })), 5);  // not on a sector
  EXPECT_EQ(sectors(request(16, ~0u, [](int l) { return l * 16; })), 16);
  EXPECT_EQ(sectors(request(4, 0x80000001, [](int l) { return l * 4; })), 2);  // two lanes
  EXPECT_EQ(sectors(request(4, ~0u, [](int l) { return (31 - l) * 4; })), 4);  // any order
}

constexpr sim::SharedAccess LOAD = sim::SharedAccess::load, STORE = sim::SharedAccess::store;

TEST(WarpRequest, BanksOf4Bytes) {
  const auto conflicts = [](auto address) { return wavefronts(request(4, ~0u, address), LOAD); };
  EXPECT_EQ(conflicts([](int l) { return l * 4; }), 1);
  EXPECT_EQ(conflicts([](int) { return 20; }), 1);  // the same word
  EXPECT_EQ(conflicts([](int l) { return l * 8; }), 2);
  EXPECT_EQ(conflicts([](int l) { return l * 32; }), 8);
  EXPECT_EQ(conflicts([](int l) { return l * 128; }), 32);
  EXPECT_EQ(conflicts([](int l) { return l * 132; }), 1);  // padded rows
  EXPECT_EQ(conflicts([](int l) { return l % 2 * 128; }), 2);
  EXPECT_EQ(wavefronts(request(2, ~0u, [](int l) { return l * 2; }), LOAD), 1);  // two lanes a word
}

TEST(WarpRequest, BanksOf8And16BytesAreServedInPhases) {
  EXPECT_EQ(wavefronts(request(8, ~0u, [](int l) { return l * 8; }), LOAD), 2);
  EXPECT_EQ(wavefronts(request(16, ~0u, [](int l) { return l * 16; }), LOAD), 4);
  EXPECT_EQ(wavefronts(request(16, ~0u, [](int) { return 0; }), LOAD), 2);  // half a warp at a time
  EXPECT_EQ(wavefronts(request(16, ~0u, [](int) { return 0; }), STORE), 4);
  EXPECT_EQ(wavefronts(request(16, ~0u, [](int l) { return l % 16 * 16; }), LOAD), 4);
  EXPECT_EQ(wavefronts(request(8, ~0u, [](int l) { return l / 2 * 8; }), LOAD), 1);
  EXPECT_EQ(wavefronts(request(16, ~0u, [](int l) { return l * 32; }), LOAD), 8);
  EXPECT_EQ(wavefronts(request(16, 0xff, [](int l) { return l * 16; }), LOAD), 1);
  EXPECT_EQ(ideal_wavefronts(request(16, ~0u, [](int l) { return l * 128; }), LOAD), 4);
  EXPECT_EQ(wavefronts(request(16, ~0u, [](int l) { return l * 128; }), LOAD), 32);
  EXPECT_EQ(ideal_wavefronts(request(8, 0xf0000, [](int l) { return l * 8; }), LOAD), 1);
}

// The rule against what Nsight Compute counted (scripts/hardware_counters.py).
TEST(WarpRequest, WavefrontsAreThoseOfTheHardware) {
  std::ifstream file(SOURCE_FOLDER "/plots/results/h200/counters.json");
  ASSERT_TRUE(file);
  const nlohmann::json patterns = nlohmann::json::parse(file)["patterns"];
  ASSERT_GT(patterns.size(), 50u);
  for (const auto& p : patterns) {
    const int width = p["width"];
    const sim::WarpRequest r =
        request(width, ~0u, [&](int l) { return p["elements"][l].get<int>() * width; });
    EXPECT_EQ(wavefronts(r, LOAD), p["load_wavefronts"]) << p["pattern"] << " " << width;
    EXPECT_EQ(wavefronts(r, STORE), p["store_wavefronts"]) << p["pattern"] << " " << width;
  }
}

// ---------------------------------------------------------------------------- counters of rungs

constexpr int S = 128;                            // M = N = K
constexpr int64_t FMA = int64_t{S} * S * S / 32;  // warps' multiply-adds, one thread an element

Inspection inspect(const std::string& id, DType dtype, int size = S) {
  const Rung* rung = find_rung(Backend::sim_traced, id, dtype);
  EXPECT_NE(rung, nullptr);
  return Inspector(problem(dtype, size, size, size)).inspect(*rung, 0);
}

const std::string A = "A", B = "B", C = "C", SHARED = "shared memory";
Traffic sum(const Inspection& i, const std::string& memory, AccessKind kind) {
  Traffic t;
  for (const sim::LineTraffic& l : i.lines)
    if ((l.memory == memory || (memory == SHARED && !l.global)) && l.kind == kind) t += l.traffic;
  return t;
}
void expect(const Inspection& i, const std::string& memory, AccessKind kind, int64_t requests,
            int64_t passes_each) {
  const Traffic t = sum(i, memory, kind);
  SCOPED_TRACE(memory + (kind == AccessKind::read ? " load" : " store"));
  EXPECT_EQ(t.requests, requests);
  EXPECT_EQ(t.passes, requests * passes_each);
}
constexpr AccessKind READ = AccessKind::read, WRITE = AccessKind::write;

// Lanes side by side along a row of C: one element of A, 32 neighbours of B.
TEST(Counters, Naive) {
  for (const DType d : {DType::f32, DType::f16}) {
    const int across = d == DType::f32 ? 4 : 2;  // sectors of 32 elements
    const Inspection i = inspect("v1", d);
    expect(i, A, READ, FMA, 1);
    expect(i, B, READ, FMA, across);
    expect(i, C, WRITE, S * S / 32, across);
    expect(i, SHARED, READ, 0, 0);
    EXPECT_EQ(i.barriers, 0);
  }
}

// Lanes one below the other: 32 rows of A, one element of B.
TEST(Counters, Uncoalesced) {
  for (const DType d : {DType::f32, DType::f16}) {
    const Inspection i = inspect("v1u", d);
    expect(i, A, READ, FMA, 32);
    expect(i, B, READ, FMA, 1);
    expect(i, C, WRITE, S * S / 32, 32);
    EXPECT_EQ(sum(i, A, READ).ideal, FMA * (d == DType::f32 ? 4 : 2));
  }
}

// 32 x 32 tiles: global loads fall 32-fold; two shared loads a multiply-add, of one element of sA
// and of a row of sB.
TEST(Counters, BlockTile) {
  for (const DType d : {DType::f32, DType::f16}) {
    const int across = d == DType::f32 ? 4 : 2;
    const Inspection i = inspect("v2", d);
    expect(i, A, READ, FMA / 32, across);
    expect(i, B, READ, FMA / 32, across);
    expect(i, C, WRITE, S * S / 32, across);
    expect(i, SHARED, WRITE, 2 * FMA / 32, 1);
    expect(i, SHARED, READ, 2 * FMA, 1);
    EXPECT_EQ(i.barriers, 2 * S / 32);
  }
}

// 128 x 128 tiles, 8 x 8 elements a thread, k-tiles of 32 bytes.
constexpr int64_t BLOCKS = S / 128 * S / 128, WARPS = 8 * BLOCKS;
int64_t k_tiles(DType d) { return d == DType::f32 ? S / 8 : S / 16; }

// Each thread copies one vector of A and of B a k-tile; that of A is stored element by element: two
// lanes share a row, 4 floats (8 halves) of it each. The padding keeps their rows apart for floats;
// halves lie two to a bank word in rows that are not an odd number of 4-bank groups apart.
void expect_transposed_copies(const Inspection& i, DType d) {
  const int64_t copies = WARPS * k_tiles(d), vec = d == DType::f32 ? 4 : 8;
  expect(i, A, READ, copies, 16);
  expect(i, B, READ, copies, 16);
  const Traffic t = sum(i, SHARED, WRITE);
  EXPECT_EQ(t.requests, copies * vec + copies);
  EXPECT_EQ(t.ideal, copies * vec + copies * 4);
  EXPECT_EQ(t.passes, copies * vec * (d == DType::f32 ? 1 : 2) + copies * 4);
}

// A step of k: 8 values of A, 8 of B, each value for all lanes at once, without conflicts. Stores
// of C: 2 rows of 16 elements a request.
TEST(Counters, BankConflicts) {
  for (const DType d : {DType::f32, DType::f16}) {
    const Inspection i = inspect("v6", d);
    expect_transposed_copies(i, d);
    expect(i, SHARED, READ, WARPS * S * 16, 1);
    expect(i, C, WRITE, S * S / 32, d == DType::f32 ? 4 : 2);
    EXPECT_EQ(i.barriers, 2 * k_tiles(d));
  }
}

// v6's values by 16-byte loads. A warp reads 16 groups of sB in a row, in 4 wavefronts, and 2
// of sA, in 2: all neighbours want the same one. C by 16-byte stores.
TEST(Counters, OuterProduct) {
  for (const DType d : {DType::f32, DType::f16}) {
    const int vec = d == DType::f32 ? 4 : 8;
    const Inspection i = inspect("v7", d);
    expect_transposed_copies(i, d);
    expect(i, "sA", READ, WARPS * S * 8 / vec, 2);
    expect(i, "sB", READ, WARPS * S * 8 / vec, 4);
    EXPECT_EQ(sum(i, SHARED, READ).passes, sum(i, SHARED, READ).ideal);
    expect(i, C, WRITE, S * S / 32 / vec, 16);
  }
}

// k-tiles of 16 words; a step of 8 words is 4 x 4 words of A and 4 x 2 of B a lane.
TEST(Counters, TensorCores) {
  for (const DType d : {DType::tf32, DType::f16}) {
    const int64_t deep = d == DType::tf32 ? 16 : 32,
                  vectors = 128 * deep / 256 / (d == DType::tf32 ? 4 : 8);
    const Inspection i = inspect("v10", d);
    expect(i, A, READ, WARPS * (S / deep) * vectors, 16);
    expect(i, B, READ, WARPS * (S / deep) * vectors, 16);
    expect(i, SHARED, READ, WARPS * (S / deep) * 2 * (16 + 8), 1);
    expect(i, C, WRITE, S * S / 32, 8);  // 8 rows of 4 elements, every other one
    EXPECT_EQ(i.barriers, S / deep + 1);
  }
}

// v4's copies go along rows: each element is asked for once, by requests of whole sectors (4 rows
// of A of a sector each, or 32 neighbours of B), and lies in shared memory as it lay in the row.
TEST(Counters, CoalescedCopy) {
  for (const DType d : {DType::f32, DType::f16}) {
    const int across = d == DType::f32 ? 4 : 2;  // sectors of 32 elements
    const Inspection i = inspect("v4", d);
    expect(i, A, READ, S * S / 32, across);
    expect(i, B, READ, S * S / 32, across);
    expect(i, SHARED, WRITE, 2 * S * S / 32, 1);
    EXPECT_EQ(i.barriers, 2 * k_tiles(d));
  }
}

// 16 bytes a lane: 512 a request, 16 sectors, and 4 wavefronts where they are stored. A thread's 8
// elements of a row of C are 32 bytes in f32, stored in two halves of a sector each.
TEST(Counters, Float4) {
  for (const DType d : {DType::f32, DType::f16}) {
    const int64_t vectors = S * S / 32 / (d == DType::f32 ? 4 : 8);
    const Inspection i = inspect("v5", d);
    expect(i, A, READ, vectors, 16);
    expect(i, B, READ, vectors, 16);
    expect(i, SHARED, WRITE, 2 * vectors, 4);
    expect(i, C, WRITE, vectors, d == DType::f32 ? 32 : 16);
  }
}

// v7's traffic, and one barrier a k-tile: the buffer that is written is not the one that is read.
TEST(Counters, DoubleBuffer) {
  for (const DType d : {DType::f32, DType::f16}) {
    const int vec = d == DType::f32 ? 4 : 8;
    const Inspection i = inspect("v8", d);
    expect_transposed_copies(i, d);
    expect(i, "sA", READ, WARPS * S * 8 / vec, 2);
    expect(i, "sB", READ, WARPS * S * 8 / vec, 4);
    expect(i, C, WRITE, S * S / 32 / vec, 16);
    EXPECT_EQ(i.barriers, k_tiles(d) + 1);
  }
}

// v7's loads, of which 16 lanes share a wavefront, of A and of B: 2 and 2, not 2 and 4.
TEST(Counters, WarpTile) {
  for (const DType d : {DType::f32, DType::f16}) {
    const int vec = d == DType::f32 ? 4 : 8;
    const Inspection i = inspect("v11", d);
    expect_transposed_copies(i, d);
    expect(i, "sA", READ, WARPS * S * 8 / vec, 2);
    expect(i, "sB", READ, WARPS * S * 8 / vec, 2);
    EXPECT_EQ(i.barriers, k_tiles(d) + 1);
  }
}

// K-tiles twice as deep, a barrier each. B comes by cp.async, 16 bytes a thread; of three stages
// two are asked for ahead, so that two k-tiles past the end of K are asked for, and are zeros.
TEST(Counters, Multistage) {
  for (const DType d : {DType::f32, DType::f16}) {
    const int vec = d == DType::f32 ? 4 : 8;
    const int64_t deep = k_tiles(d) / 2;
    sim::clear_launches();
    const Inspection i = inspect("v12", d);
    expect(i, "dynamic", READ, 2 * WARPS * S * 8 / vec, 2);
    EXPECT_EQ(i.barriers, deep);
    EXPECT_EQ(sim::main_launch().copies, (deep + 2) * (S / deep) * S / vec);
    EXPECT_EQ(sim::main_launch().copy_bytes, S * S * 16 / vec);
  }
}

// A warp tile of 64 x 32, for 16 k: 4 ldmatrix of A, 2 of B, each 4 wavefronts of 8 rows of 16
// bytes that the swizzle keeps in different banks; as it does where vectors are stored.
TEST(Counters, Ldmatrix) {
  const Inspection i = inspect("v15", DType::f16);
  expect(i, "sA", READ, WARPS * S / 16 * 4, 4);
  expect(i, "sB", READ, WARPS * S / 16 * 2, 4);
  expect(i, SHARED, WRITE, 2 * S * S / 32 / 8, 4);
  EXPECT_EQ(i.barriers, S / 32 + 1);
}

// A warp tile of 64 x 64, for 16 k: 4 ldmatrix of A and 4 of B, and one such step past the end. A
// k-tile of 32 k is 128 x 32 and 32 x 256 halves, by cp.async of 16 bytes; of four stages three are
// asked for ahead.
TEST(Counters, MultistageMma) {
  sim::clear_launches();
  const Inspection i = inspect("v16", DType::f16);
  expect(i, "dynamic", READ, WARPS * (S / 16 + 1) * 8, 4);
  EXPECT_EQ(i.barriers, S / 32 + 1);
  EXPECT_EQ(sim::main_launch().copies, (S / 32 + 3) * (128 + 256) * 32 / 8);
  EXPECT_EQ(sim::main_launch().copy_bytes, 2 * S * S * 2);  // no column of B beyond the 128
  expect(i, "dynamic", WRITE, (S / 32 + 3) * (128 + 256) * 32 / 8 / 32, 4);
}

// Fragments of tf32 word by word, from rows whose padding keeps a warp's 32 words in 32 banks: for
// 8 k, 16 words of A and 8 of B a lane; four warps with 64 x 32 each, two blocks.
TEST(Counters, SplitTf32) {
  const Inspection i = inspect("v14", DType::f32);
  expect(i, "dynamic", READ, 2 * (S / 64) * 4 * (S / 8) * (16 + 8) / 2, 1);
  EXPECT_EQ(i.barriers, S / 32);
}

// v13s with four CTAs a tile has no bank conflicts: neither k-tiles nor sums. Larger tiles and fewer
// CTAs have some.
TEST(Counters, SplitKInFp32) {
  const Rung* const rung = find_rung(Backend::sim_traced, "v13s", DType::f32);
  ASSERT_NE(rung, nullptr);
  const auto split = std::ranges::find(rung->variants, "32x64 split 4", &RungVariant::name);
  ASSERT_NE(split, rung->variants.end());
  const Rung one = with_variant(*rung, int(split - rung->variants.begin()));
  const Inspection found = Inspector(problem(DType::f32, 128, 128, 256)).inspect(one, 0);
  EXPECT_EQ(found.blocks, 128 / 32 * 128 / 64 * 4);
  for (const AccessKind kind : {READ, WRITE}) {
    const Traffic t = sum(found, SHARED, kind);
    EXPECT_GT(t.requests, 0);
    EXPECT_EQ(t.passes, t.ideal);
  }
}

// What TMA asks of L2, and what comes to shared memory: in halves, at M = 512, N = 256.
struct TmaBytes {
  int64_t asked, delivered;
  bool operator==(const TmaBytes&) const = default;
};
void PrintTo(const TmaBytes& b, std::ostream* out) {
  *out << b.asked << " asked, " << b.delivered << " delivered";
}
TmaBytes tma_bytes(const char* id, int variant, int m, int n, int k) {
  const Rung* rung = find_rung(Backend::sim_traced, id, DType::f16);
  sim::clear_launches();
  Inspector(problem(DType::f16, m, n, k))
      .inspect(rung->variants.empty() ? *rung : with_variant(*rung, variant), 0);
  return {sim::main_launch().tma_asked, sim::main_launch().tma_delivered};
}

// Four tiles of 128 x 256, one above the other: each wants its rows of A and all of B. In clusters
// of two B is asked for half as often, and comes as often.
TEST(Counters, Multicast) {
  const int64_t a = 512 * 128 * 2, b = 256 * 128 * 2;
  EXPECT_EQ(tma_bytes("v21", 0, 512, 256, 128), (TmaBytes{a + 4 * b, a + 4 * b}));
  EXPECT_EQ(tma_bytes("v22", 0, 512, 256, 128), (TmaBytes{a + 2 * b, a + 4 * b}));
  EXPECT_EQ(tma_bytes("v23", 0, 512, 256, 128), (TmaBytes{a + 2 * b, a + 4 * b}));
  // Equal tiles of 128 x 128 want both columns of A's rows.
  EXPECT_EQ(tma_bytes("v27", engine::TO_FLOAT, 512, 256, 128),
            (TmaBytes{2 * a + 4 * b, 2 * a + 4 * b}));
}

// Four CTAs go down 9 columns of 4 tiles of 128 x 128, 9 each: two whole columns and one tile of a third,
// or parts of two others. Each loads B three times.
TEST(Counters, BStays) {
  const int64_t a = 512 * 256 * 2, b = 128 * 256 * 2;
  EXPECT_EQ(tma_bytes("v27", engine::TO_FLOAT, 512, 1152, 256),
            (TmaBytes{9 * a + 12 * b, 9 * a + 12 * b}));
}

// v27 with tiles of C^T, `bx` wide, in a cut of the test's own.
Rung engine_with(const engine::Rectangle& cut, int bx = 128) {
  const Rung* const rung = find_rung(Backend::sim_traced, "v27", DType::f16);
  engine::Choice choice{};
  choice.configuration = -1, choice.swapped = true;
  for (int i = 0; i < engine::CONFIGURATION_COUNT; ++i)
    if (const auto& c = engine::CONFIGURATIONS[i];
        choice.configuration < 0 && !c.ping_pong() && c.bx == bx)
      choice.configuration = i;
  choice.cut = cut;
  Plan plan{.rung = rung, .variant = choice.configuration};
  plan.keep(choice);
  return with_plan(*rung, plan);
}

// A launch of engine_with(cut) on halves.
sim::LaunchStats launch_of(const engine::Rectangle& cut, int m, int n, int k) {
  sim::clear_launches();
  Inspector(problem(DType::f16, m, n, k)).inspect(engine_with(cut), 0);
  return sim::main_launch();
}

// Clusters of two by two: each asks for its rows of A and its columns of B once.
TEST(Counters, MulticastOfBothOperands) {
  const int64_t a = 512 * 128 * 2, b = 256 * 128 * 2;
  const sim::LaunchStats launch = launch_of({{1, 1}, true, 128, 1, 2, 1, false}, 512, 256, 128);
  EXPECT_EQ((TmaBytes{launch.tma_asked, launch.tma_delivered}),
            (TmaBytes{a + 2 * b, 2 * a + 4 * b}));
}

// A cluster along y shares B, and one along x shares A. What each CTA has for itself comes without
// multicast where rows begin at sectors of 32 bytes: A's with K = 144, not 136, B's with N = 208, not 200.
TEST(Counters, MulticastOfOneOperand) {
  for (const int k : {144, 136}) {
    const int64_t a = 512 * 192 * 2, b = 128 * 192 * 2;
    const auto launch = launch_of({{0, 1}, true, 128, 1, 2, 1, false}, 512, 128, k);
    EXPECT_EQ((TmaBytes{launch.tma_asked, launch.tma_delivered}), (TmaBytes{a + 2 * b, a + 4 * b}));
    EXPECT_EQ(launch.tma_multicast, k == 144 ? 2 * b : a + 2 * b);
  }
  for (const int n : {208, 200}) {
    const int64_t a = 128 * 128 * 2, b = 256 * 128 * 2;
    const auto launch = launch_of({{1, 0}, true, 128, 1, 1, 1, false}, 128, n, 128);
    EXPECT_EQ((TmaBytes{launch.tma_asked, launch.tma_delivered}), (TmaBytes{a + b, 2 * a + b}));
    EXPECT_EQ(launch.tma_multicast, n == 208 ? a : a + b);
  }
}

// The tile layer's main loops move what the rungs move that they are taken from; where they use
// shared memory for several tiles, a barrier more.
TEST(Counters, TilesMoveWhatHandsMove) {
  EXPECT_EQ(tma_bytes("v29", 1, 512, 256, 128), tma_bytes("v27", engine::TO_FLOAT, 512, 256, 128));
  EXPECT_EQ(tma_bytes("v29", 0, 512, 384, 200),
            tma_bytes("v27", engine::TO_FLOAT - 1, 512, 384, 200));
  struct Moved {
    int64_t copies, copy_bytes, barriers;
    Traffic read, written, stored;
  };
  const auto moved = [](const char* id, DType dtype, int variant) {
    const Rung* rung = find_rung(Backend::sim_traced, id, dtype);
    sim::clear_launches();
    const Inspection i = Inspector(problem(dtype, 256, 512, 128))
                             .inspect(variant < 0 ? *rung : with_variant(*rung, variant), 0);
    Moved m{sim::main_launch().copies, sim::main_launch().copy_bytes, i.barriers, {}, {}, {}};
    for (const sim::LineTraffic& l : i.lines) {
      if (l.memory == "dynamic") (l.kind == READ ? m.read : m.written) += l.traffic;
      if (l.memory == "C" && l.kind == WRITE) m.stored += l.traffic;
    }
    return m;
  };
  const auto expect_same = [](const Moved& ours, const Moved& wanted) {
    EXPECT_GT(wanted.read.requests, 0);
    EXPECT_EQ(ours.copies, wanted.copies);
    EXPECT_EQ(ours.copy_bytes, wanted.copy_bytes);
    EXPECT_EQ(ours.barriers, wanted.barriers + 1);
    EXPECT_EQ(ours.read, wanted.read);
    EXPECT_EQ(ours.written, wanted.written);
    EXPECT_EQ(ours.stored, wanted.stored);
  };
  expect_same(moved("v29", DType::f16, 3), moved("v17", DType::f16, -1));
  expect_same(moved("v29", DType::f32, 0), moved("v12", DType::f32, -1));
}

// Repacks A and B (one launch for both), and the product is what counts as the rung's launch.
TEST(Counters, OfSeveralLaunches) {
  Rung repacks;
  for (const Rung& r : traced_extra_rungs())
    if (r.dtype == DType::f32) repacks = r;
  Problem p = problem(DType::f32, 400, 401, 403);
  const auto traffic = [&](const Inspection& i, const char* memory, AccessKind kind) {
    Traffic t;
    for (const sim::LineTraffic& l : i.lines)
      if (l.memory == memory && l.kind == kind) t += l.traffic;
    return t;
  };
  const Inspection all = Inspector(p).inspect(repacks, 0), some = Inspector(p).inspect(repacks, 9);
  EXPECT_EQ(all.blocks, 400 * 101 / 64 + 1);
  EXPECT_EQ(all.traced, all.blocks);
  EXPECT_EQ(traffic(all, "A", READ).bytes, 4 * 400 * 403);
  EXPECT_EQ(traffic(all, "B", READ).bytes, 4 * 403 * 401);
  EXPECT_EQ(traffic(all, "workspace", WRITE).bytes, 4 * (400 + 403) * 416);
  EXPECT_EQ(traffic(all, "C", WRITE).bytes, 4 * 400 * 401);
  // A few of the repacking's 202 blocks stand for all, whichever matrix they copy.
  EXPECT_EQ(some.blocks, all.blocks);
  EXPECT_LT(some.traced, 20);
  const auto near = [](int64_t x, int64_t y) { return std::abs(x - y) < y / 3; };
  EXPECT_TRUE(near(traffic(some, "A", READ).bytes + traffic(some, "B", READ).bytes,
                   traffic(all, "A", READ).bytes + traffic(all, "B", READ).bytes));
  EXPECT_TRUE(
      near(traffic(some, "workspace", WRITE).bytes, traffic(all, "workspace", WRITE).bytes));
}

TEST(Counters, LdmatrixReads8RowsOf16BytesAPhase) {
  const auto loads = [](void (*launch)()) {
    Traffic t;
    for (const sim::LineTraffic& l : sim::trace({}, launch).lines)
      if (l.kind == READ && l.traffic.bytes == 32 * 16) t += l.traffic;
    return t;
  };
  EXPECT_EQ(loads(launch_ldmatrix_64_bytes), (Traffic{1, 512, 16, 4, 0}));  // 4-way
  EXPECT_EQ(loads(launch_ldmatrix_80_bytes), (Traffic{1, 512, 4, 4, 0}));
}

// With a workspace, and with clusters: nothing is found in memory of several devices either.
TEST(SeveralDevices, RungsRaiseNoFalseAlarm) {
  const Problem p = problem(DType::f16, 200, 264, 520);
  const auto plain = [](const char* id) { return *find_rung(Backend::sim_traced, id, DType::f16); };
  for (const Rung& rung :
       {plain("v8"), plain("v24"), engine_with({{0, 0}, false, 128, 3, 2, 3, false}),
        engine_with({{0, 0}, false, 128, 3, 2, 3, true})}) {
    bool same = false;
    const sim::Trace trace = sim::trace({}, [&] {
      sim::Devices devices(2);
      std::vector<const void*> results;
      for (int d = 0; d < 2; ++d) {
        void* matrices[3];
        for (const Operand operand : {Operand::A, Operand::B, Operand::C}) {
          void*& m = matrices[static_cast<int>(operand)];
          m = devices.allocate(d, layout(p, operand).bytes, "matrix");
          fill_host(m, p, operand, Inputs::uniform, 1);
        }
        GemmCall call = make_call(p, matrices[0], matrices[1], matrices[2]);
        call.stream = devices.stream(d, "main");
        rung.launch(call);
        results.push_back(call.C);
      }
      devices.synchronize();
      same = memcmp(results[0], results[1], size_t(p.M) * 264 * 2) == 0;
    });
    EXPECT_EQ(all_of(trace.findings), "") << rung.name;
    EXPECT_TRUE(same) << rung.name;
    EXPECT_GE(trace.launches.size(), 2u);
  }
}

// `calls` calls of a sharded product, by ranks that one process has, all on one device.
template <class Make>
sim::Trace trace_ranks(Device& device, const ShardedProblem& p, int calls, const Make& make) {
  const std::unique_ptr<Fabric> fabric = make_sim_fabric(p.ranks);
  ShardedMatrices matrices(std::vector<Device*>(p.ranks, &device), *fabric, p, 16);
  matrices.fill(Inputs::uniform, 1);
  sim::TraceOptions options;
  options.matrices = matrices.matrices();
  return sim::trace(options, [&] {
    const std::unique_ptr<ShardedGemm> gemm = make(p, *fabric, 0);
    for (int call = 0; call < calls; ++call) gemm->enqueue(matrices.call());
    fabric->synchronize();
  });
}

// Nor in what ranks do with each other's memory, in two calls, whose flags and buffers are the same.
TEST(SeveralDevices, ShardedRungsRaiseNoFalseAlarm) {
  const std::unique_ptr<Device> device = make_sim_device();
  for (const ShardedRung* rung : sharded_rungs(Backend::sim_traced))
    for (const int ranks : {2, 4, 8}) {
      // The other type does the same; so do more ranks of what m1 launches.
      if (ranks > 2 && (rung->dtype != DType::f16 || rung->collectives)) continue;
      const ShardedProblem p =
          ranks == 2  // large enough for several k-tiles and tiles of a CTA
              ? ShardedProblem{rung->collective, rung->dtype, 2, 272, 136, 136}
              : ShardedProblem{rung->collective, rung->dtype, ranks, 144, 72, 72};
      const sim::Trace trace = trace_ranks(*device, p, 2, rung->make);
      EXPECT_EQ(all_of(trace.findings), "") << rung->name << " on " << ranks;
      EXPECT_GE(trace.launches.size(), 2u * ranks);
    }
}

// m4 with a flag that rises too early: of what is sent to a tile's owner, and of all_reduce's
// finished tiles, which their owner sends back.
TEST(SeveralDevices, AnEarlyFlagIsNamed) {
  const std::unique_ptr<Device> device = make_sim_device();
  for (const Collective collective : {Collective::reduce_scatter, Collective::all_reduce})
    for (const int ranks : {2, 4, 8}) {
      const ShardedProblem p{collective, DType::f16, ranks, 144, 72, 72};
      const sim::Trace trace = trace_ranks(*device, p, 1, early_flag(collective));
      std::set<std::string> reads;  // which matrix was read too early
      for (const sim::Finding& f : trace.findings) {
        EXPECT_EQ(f.check, "unfinished TMA store") << f.what;
        EXPECT_THAT(f.line.file, HasSubstr("m04_peer_stores.cu"));
        for (const char* matrix : {"received", "sums"})
          if (f.what.find(std::string(" of ") + matrix) != f.what.npos) reads.insert(matrix);
      }
      EXPECT_EQ(reads.contains("received"), true) << all_of(trace.findings);
      EXPECT_EQ(reads.contains("sums"), collective == Collective::all_reduce)
          << all_of(trace.findings);
    }
}

// No false alarm either where each rank has a fabric of its own, and they join by flags. Here the
// ranks are made by a thread each, as they meet, and queued by one.
TEST(SeveralDevices, RanksOfTheirOwnRaiseNoFalseAlarm) {
  constexpr int RANKS = 3;
  const std::unique_ptr<Device> device = make_sim_device();
  for (const ShardedRung* rung : sharded_rungs(Backend::sim_traced)) {
    if (!rung->apart) continue;
    const ShardedProblem p{rung->collective, rung->dtype, RANKS, 272, 136, 136};
    std::vector<std::unique_ptr<Fabric>> fabrics(RANKS);
    std::vector<std::unique_ptr<ShardedGemm>> gemms(RANKS);
    Meeting meeting(RANKS);
    std::vector<std::jthread> threads;
    const auto on_each = [&](const auto& work) {
      for (int rank = 0; rank < RANKS; ++rank) threads.emplace_back([&, rank] { work(rank); });
      threads.clear();
    };
    on_each([&](int rank) {
      const auto all_gather = [&, rank](const void* mine, void* all, size_t bytes) {
        return meeting.all_gather(rank, mine, all, bytes);
      };
      fabrics[rank] = make_sim_rank(
          std::make_shared<RankGroup>(rank, RANKS, all_gather, std::chrono::seconds(20)));
      gemms[rank] = rung->make(p, *fabrics[rank], 0);
    });
    ShardedMatrices matrices(std::vector<Device*>(RANKS, device.get()), *fabrics[0], p, 16);
    matrices.fill(Inputs::uniform, 1);
    sim::TraceOptions options;
    options.matrices = matrices.matrices();
    const sim::Trace trace = sim::trace(options, [&] {
      for (int call = 0; call < 2; ++call)
        for (const auto& gemm : gemms) gemm->enqueue(matrices.call());
      on_each([&](int rank) { fabrics[rank]->synchronize(); });
    });
    EXPECT_EQ(all_of(trace.findings), "") << rung->name;
    EXPECT_GE(trace.launches.size(), 2u * RANKS);
  }
}

// Every line is found, in the rung's own file, with the helper that it calls.
TEST(Counters, NameTheLine) {
  const Inspection i = inspect("v7", DType::f32, 128);
  bool through_helper = false;
  for (const sim::LineTraffic& l : i.lines) {
    EXPECT_THAT(l.line.file, HasSubstr("v07_outer_product.cu"));
    EXPECT_GT(l.line.line, 0);
    through_helper |= place(l.helper).starts_with("vec.cuh:");
  }
  EXPECT_TRUE(through_helper);
}

// The first requests of one warp, lane by lane: v5's thread tiles make lanes meet in a bank, those
// of v7 do not.
// An object that ccache kept has the path of the clone that compiled it.
TEST(Counters, NameTheLineOfAnyClone) {
  for (const std::string folder :
       {"", "../", "/gone/build/../", SOURCE_FOLDER "/build/../", SOURCE_FOLDER "/"}) {
    EXPECT_EQ(repository_path(folder + "kernels/v01_naive.cu"), "kernels/v01_naive.cu");
    EXPECT_FALSE(source_lines(folder + "kernels/v01_naive.cu").empty()) << folder;
  }
  EXPECT_EQ(repository_path("/own/mine.cu"), "/own/mine.cu");
  // A clone's path in an object would come back from ccache in another clone.
  const Rung* v6 = find_rung(Backend::sim_traced, "v6", DType::f32);
  for (const sim::LineTraffic& l :
       Inspector(problem(DType::f32, 128, 128, 32)).inspect(*v6, 0).lines) {
    EXPECT_FALSE(l.line.file.starts_with('/')) << l.line.file;
    EXPECT_FALSE(l.helper.file.starts_with('/')) << l.helper.file;
  }
}

TEST(Counters, ShowTheRequestsOfAWarp) {
  const auto requests = [](const char* id, sim::WarpId warp) {
    const Rung* rung = find_rung(Backend::sim_traced, id, DType::f32);
    return Inspector(problem(DType::f32, 256, 256, 32)).inspect(*rung, 0, warp).requests;
  };
  const auto find = [](const std::vector<sim::FirstRequest>& all, const std::string& memory,
                       AccessKind kind) {
    for (const sim::FirstRequest& r : all)
      if (r.memory == memory && r.kind == kind) return r;
    ADD_FAILURE() << memory;
    return sim::FirstRequest{};
  };
  const auto v5 = requests("v5", {0, 0}), v7 = requests("v7", {3, 1});
  const sim::FirstRequest b5 = find(v5, "sB", READ), b7 = find(v7, "sB", READ),
                          a7 = find(v7, "sA", READ), c7 = find(v7, "C", WRITE);
  EXPECT_EQ(b5.passes, 4);
  EXPECT_EQ(b7.passes, 4);  // 16 bytes a lane
  EXPECT_EQ(a7.passes, 2);
  constexpr int64_t ROW = (256 + 16) * 4;  // bytes of C's
  for (int lane = 0; lane < 32; ++lane) {
    const int tm = lane / 16, tn = lane % 16;
    EXPECT_EQ(b5.offset[lane], tn * 32);
    EXPECT_EQ(b5.wavefront[lane], tn / 4);
    EXPECT_EQ(b7.offset[lane], tn * 16);
    EXPECT_EQ(b7.wavefront[lane], lane / 8);
    EXPECT_EQ(a7.offset[lane], (2 + tm) * 16);  // the second warp's rows
    EXPECT_EQ(a7.wavefront[lane], tm);
    EXPECT_EQ(c7.offset[lane], (128 + (2 + tm) * 4) * ROW + 128 * 4 + tn * 16);
  }
  EXPECT_TRUE(requests("v5", {4, 0}).empty());  // no such block
  EXPECT_TRUE(requests("v5", {0, 8}).empty());  // no such warp
}

std::string json_of(const Rung& rung, const Problem& p, int64_t blocks) {
  return to_json(Inspector(p).inspect(rung, blocks)).dump();
}

// For each k-tile a warp loads the scales of its blocks of columns, and reads those of its 16 rows
// from the stage, in two requests. All else comes by TMA, and is stored by it.
TEST(Counters, BlockScales) {
  const Rung* const rung = find_rung(Backend::sim_traced, "v32", DType::e4m3_block);
  ASSERT_NE(rung, nullptr);
  const Rung wide = with_variant(*rung, 2);
  ASSERT_EQ(rung->variants[2].name, "128x128 s5");
  Problem p = problem(DType::e4m3_block, 256, 384, 640);
  p.op_b = Op::T;
  const Inspection found = Inspector(p).inspect(wide, 0);
  const int tiles = 2 * 3, warps = 8, k_tiles = 5;
  EXPECT_EQ(found.total(true, READ).requests, tiles * warps * k_tiles);
  EXPECT_EQ(found.total(true, READ).passes, found.total(true, READ).ideal) << "a sector each";
  EXPECT_EQ(found.total(false, READ).requests, tiles * warps * k_tiles * 2);
  EXPECT_EQ(found.total(false, READ).passes, found.total(false, READ).ideal) << "no bank conflicts";
  EXPECT_TRUE(found.findings.empty());
}

// A's scales where TMA cannot take them: 251 floats a row.
TEST(Counters, BlockScalesOfUnalignedRows) {
  const Rung* const rung = find_rung(Backend::sim_traced, "v32", DType::e4m3_block);
  ASSERT_NE(rung, nullptr);
  Problem p = problem(DType::e4m3_block, 251, 321, 643);
  p.op_b = Op::T;
  for (size_t variant = 0; variant < rung->variants.size(); ++variant) {
    const Inspection found = Inspector(p).inspect(with_variant(*rung, int(variant)), 0);
    EXPECT_TRUE(found.findings.empty()) << rung->variants[variant].name;
  }
}

// Rows that begin at any address are loaded element by element, in two requests for 64 elements;
// rows at multiples of 4 bytes in one. Of each row of 64 elements, 128 bytes lie in 4 sectors or 5: rows of
// 129 elements begin at all even bytes of a sector, where even elements alone are in 4 sectors twice in
// 16, as are odd ones; rows of 130 elements begin at all multiples of 4, once in 8 at a sector.
TEST(Counters, UnalignedRows) {
  const Rung* const rung = find_rung(Backend::sim_traced, "v17u", DType::f16);
  ASSERT_NE(rung, nullptr);
  const int64_t tiles = 4, k_tiles = S / 64, rows = tiles * k_tiles * 64;  // of k-tiles of A
  for (int groups = 0; groups < 3; ++groups)
    for (const Op a : {Op::N, Op::T})
      for (const Op b : {Op::N, Op::T}) {
        Problem p = problem(DType::f16, S, S, S);
        p.op_a = a, p.op_b = b;
        p.ld_pad = 1;
        const Rung one = with_variant(*rung, groups);
        SCOPED_TRACE(one.variants[0].name + " " + ops_name(p));
        const Inspection odd = Inspector(p).inspect(one, 0);
        p.ld_pad = 2;
        const Inspection even = Inspector(p).inspect(one, 0);
        for (const std::string& operand : {A, B}) {
          EXPECT_EQ(sum(odd, operand, READ).requests, 2 * rows);
          EXPECT_EQ(sum(odd, operand, READ).passes, 2 * rows / 16 * (14 * 5 + 2 * 4));
          EXPECT_EQ(sum(even, operand, READ).requests, rows);
          EXPECT_EQ(sum(even, operand, READ).passes, rows / 8 * (7 * 5 + 4));
        }
        for (const Inspection& i : {odd, even}) {
          // A warp of four, for 16 k: two ldmatrix of A, two of B. Of each group, all sums of a tile.
          // A group without a k-tile has one of zeros.
          const int64_t sums = tiles * (1 << groups) * 64 * 64 / 32;
          const int64_t stored =
              tiles * std::max<int64_t>(k_tiles, 1 << groups);  // both powers of two
          const Traffic read = sum(i, SHARED, READ), written = sum(i, SHARED, WRITE);
          EXPECT_EQ(read.requests, stored * 4 * (64 / 16) * 4 + sums);
          EXPECT_EQ(read.passes, read.ideal) << "no bank conflicts";
          EXPECT_EQ(written.requests, 2 * stored * 64 + sums);
          EXPECT_EQ(sum(i, "workspace", WRITE).requests, 0) << "no copy";
        }
      }
}

// v27: each part of K stores its sums once, in whole sectors, and all of them are read again. Four tiles
// have five parts of two k-tiles.
TEST(Counters, SumsOfAllPartsOfK) {
  const int size = 256, k_tiles = 10, parts = 5;
  const Inspection found = Inspector(problem(DType::f16, size, size, k_tiles * 64))
                               .inspect(engine_with({{0, 0}, false, 128, 2, 2, parts, false}), 0);
  const Traffic written = sum(found, "workspace", WRITE), read = sum(found, "workspace", READ);
  EXPECT_EQ(written.bytes, parts * 4 * size * size);
  EXPECT_EQ(written.passes, written.ideal);
  // Four groups read 4 parts at once, of which some are the last one again.
  EXPECT_EQ(read.bytes, 16 * 4 * size * size);
  EXPECT_EQ(sum(found, "C", WRITE).bytes, 2 * size * size);
  EXPECT_TRUE(found.findings.empty());
}

TEST(Counters, DoNotDependOnTheNumberOfOsThreadsOrTheRun) {
  for (const char* id : {"v2", "v5", "v8"}) {
    const Rung* rung = find_rung(Backend::sim_traced, id, DType::f32);
    Problem p = problem(DType::f32, 150, 137, 33);
    p.beta = 0.5f;
    std::vector<std::string> runs;
    for (const int n : {1, 2, 5, 2}) {
      OsThreads os_threads(n);
      runs.push_back(json_of(*rung, p, 0));
    }
    for (const std::string& run : runs) EXPECT_EQ(run, runs[0]);
  }
}

TEST(Counters, ASampleStandsForTheWholeGrid) {
  for (const Rung* rung : rungs(Backend::sim_traced)) {
    if (rung->needs.sm >= 90) continue;  // persistent blocks compute unequal numbers of tiles
    Inspector inspector(problem(rung->dtype, 384, 256, 32));
    const Inspection all = inspector.inspect(*rung, 0), some = inspector.inspect(*rung, 3);
    EXPECT_EQ(all.lines, some.lines) << rung->name;
    EXPECT_LE(some.traced, 4) << rung->name;
  }
  // Ragged: the blocks at each edge stand for their like.
  const Rung* rung = find_rung(Backend::sim_traced, "v2", DType::f32);
  Inspector inspector(problem(DType::f32, 200, 240, 40));
  const Inspection all = inspector.inspect(*rung, 0), some = inspector.inspect(*rung, 4);
  EXPECT_EQ(all.lines, some.lines);
  EXPECT_EQ(some.traced, 4);
}

// ---------------------------------------------------------------------------------- planted bugs

// "planted.cu:57" of every line that names `name`.
std::vector<std::string> marked_lines(const std::string& name) {
  std::ifstream in(PLANTED_SOURCE);
  std::vector<std::string> lines;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find("[" + name + "]") != line.npos)
      lines.push_back("planted.cu:" + std::to_string(number));
  }
  return lines;
}

Inspection inspect_small(const Rung& rung) {
  return Inspector(problem(DType::f32, 21, 36, 20)).inspect(rung, 0);
}

class PlantedBug : public testing::TestWithParam<Planted> {};
TEST_P(PlantedBug, IsFoundAtItsLine) {
  const Planted& bug = GetParam();
  const std::vector<sim::Finding> findings = inspect_small(bug.rung).findings;
  const std::vector<std::string> lines = marked_lines(bug.rung.name);
  bool found = false;
  for (const sim::Finding& f : findings) {
    bool right = f.check == bug.check && f.what.find(bug.says) != f.what.npos;
    for (const std::string& line : lines) right &= f.what.find(line) != f.what.npos;
    found |= right;
    EXPECT_EQ(f.what.find('\n'), f.what.npos);
    EXPECT_FALSE(f.what.starts_with("a line")) << f.what;  // of a kernel in a header, too
  }
  EXPECT_TRUE(found) << "wanted " << bug.check << " at " << testing::PrintToString(lines)
                     << ", found:\n"
                     << all_of(findings);
  std::cout << all_of(findings);
}

class PlantedTwin : public testing::TestWithParam<Rung> {};
TEST_P(PlantedTwin, IsFine) { EXPECT_EQ(all_of(inspect_small(GetParam()).findings), ""); }

INSTANTIATE_TEST_SUITE_P(Planted, PlantedBug, testing::ValuesIn(planted_bugs()),
                         [](const auto& info) { return info.param.rung.name; });
INSTANTIATE_TEST_SUITE_P(Planted, PlantedTwin, testing::ValuesIn(planted_twins()),
                         [](const auto& info) { return info.param.name; });

TEST(PlantedBugs, FindingsDoNotDependOnTheNumberOfOsThreads) {
  for (const Planted& bug : planted_bugs()) {
    std::vector<std::string> runs;
    for (const int n : {1, 5}) {
      OsThreads os_threads(n);
      runs.push_back(all_of(inspect_small(bug.rung).findings));
    }
    EXPECT_EQ(runs[0], runs[1]);
  }
}

// ---------------------------------------------------------------------------------- no false alarm

class TracedRung : public testing::TestWithParam<const Rung*> {};

void expect_no_findings(const Rung& rung, const Problem& p) {
  EXPECT_EQ(all_of(Inspector(p).inspect(rung, 0).findings), "") << shape_name(p);
}
void expect_no_findings_of_variants(const Rung& rung, const Problem& p) {
  Inspector inspector(p);
  for (const Rung& variant : tried_variants(rung))
    EXPECT_EQ(all_of(inspector.inspect(variant, 0).findings), "")
        << shape_name(p) << " " << variant.variants[0].name;
}

TEST_P(TracedRung, HasNoFindings) {
  const Rung& rung = *GetParam();
  for (Problem p : {problem(rung.dtype, 129, 70, 43), problem(rung.dtype, 128, 256, 64),
                    problem(rung.dtype, 136, 72, 40)}) {  // ragged, but rows are wide
    for (const float beta : {0.0f, 0.5f}) {
      p.beta = beta;
      expect_no_findings(rung, p);
    }
    p.beta = p.M == 128 ? 0.0f : 0.5f;  // the epilogue that reads C is the same in all variants
    expect_no_findings_of_variants(rung, p);
  }
}

// More k-tiles than a pipeline has stages (9 of 64 and a rest, where the deepest has 8), so that
// every stage is used again: several tiles a block, by both schedules of asynchronous copies. One
// k-tile never shows who frees a stage too early.
class TracedPipeline : public TracedRung {};
TEST_P(TracedPipeline, ReusesItsStages) {
  const Rung& rung = *GetParam();
  const Problem small = problem(rung.dtype, 72, 136, 584), tall = problem(rung.dtype, 513, 16, 584),
                whole = problem(rung.dtype, 128, 256, 584);
  const Problem& first = rung.needs.sm < 90 ? small : tall;
  expect_no_findings(rung, first);
  expect_no_findings_of_variants(rung, first);
  if (rung.needs.sm < 90) return;
  sim::set_async_schedule(sim::AsyncSchedule::eager_copies);
  for (const Problem& p : {tall, whole})
    EXPECT_EQ(all_of(Inspector(p).inspect(rung, 0).findings), "") << shape_name(p);
  sim::set_async_schedule(sim::AsyncSchedule::lazy_copies);
}

TEST_P(TracedPipeline, TakesTransposedOperands) {
  if (!GetParam()->needs.transposed) return;
  Problem p = problem(GetParam()->dtype, 136, 264, 72);
  p.op_a = p.op_b = Op::T;
  EXPECT_EQ(all_of(Inspector(p).inspect(*GetParam(), 0).findings), "");
}

// Rows at any address, of which all but the last few elements are repacked by whole groups.
TEST_P(TracedPipeline, RepacksOddRows) {
  Problem p = problem(GetParam()->dtype, 9, 8, 481);
  p.ld_pad = 1;
  EXPECT_EQ(all_of(Inspector(p).inspect(*GetParam(), 0).findings), "");
}

// Rows of tiles in more than one group of the rasterisation: of 8 or 16 tiles, or cluster tiles of two.
TEST_P(TracedPipeline, RastersSeveralGroups) {
  const Rung& rung = *GetParam();
  const Problem p =
      rung.needs.sm < 90 ? problem(rung.dtype, 1100, 264, 40) : problem(rung.dtype, 2100, 264, 8);
  EXPECT_EQ(all_of(Inspector(p).inspect(rung, 0).findings), "");
}
TEST_P(TracedRung, ComputesTheSame) {
  const std::unique_ptr<Device> device = make_sim_device();
  Problem p = problem(GetParam()->dtype, 65, 33, 47);
  p.beta = 0.5f, p.ld_pad = 1;
  EXPECT_EQ(Verifier(*device, p).verify(*GetParam()), "");
}
INSTANTIATE_TEST_SUITE_P(Sim, TracedRung, testing::ValuesIn(rungs(Backend::sim_traced)),
                         [](const auto& info) {
                           return info.param->name + "_" + to_string(info.param->dtype);
                         });

// Rungs with a pipeline of asynchronous copies, in their first types; not those that launch others'.
std::vector<const Rung*> pipelines() {
  std::vector<const Rung*> some = rungs(Backend::sim_traced);
  std::erase_if(some, [](const Rung* r) {
    return r->needs.sm < 80 || r->dispatches || is_second_type(r->dtype);
  });
  return some;
}
INSTANTIATE_TEST_SUITE_P(Sim, TracedPipeline, testing::ValuesIn(pipelines()), [](const auto& info) {
  return info.param->name + "_" + to_string(info.param->dtype);
});

// Unaligned rows where they lie, in all layouts: with no k-tile, with one, and with two for some groups of
// four warps and one for others. The last ends in the middle of an instruction's k.
class TracedUnaligned : public TracedRung {};
TEST_P(TracedUnaligned, AllLayouts) {
  const Rung& rung = *GetParam();
  for (const int k : {0, 43, 345})
    for (const int layout : {0, 1, 2, 3}) {
      Problem p = problem(rung.dtype, 70, 67, k);
      p.op_a = (layout & 1) != 0 ? Op::T : Op::N;
      p.op_b = (layout & 2) != 0 ? Op::T : Op::N;
      p.ld_pad = layout % 3;
      p.beta = k == 345 ? 0.5f : 0.0f;
      expect_no_findings(rung, p);
      expect_no_findings_of_variants(rung, p);
    }
}
// Rows at even bytes although their pitch is a multiple of 4: a load of a whole word would be misaligned.
TEST_P(TracedUnaligned, MisalignedBases) {
  for (const int layout : {0, 1, 2, 3}) {
    Problem p = problem(GetParam()->dtype, 66, 68, 70);
    p.op_a = (layout & 1) != 0 ? Op::T : Op::N;
    p.op_b = (layout & 2) != 0 ? Op::T : Op::N;
    p.ld_pad = 2, p.misalign = 1;
    expect_no_findings(*GetParam(), p);
  }
}
std::vector<const Rung*> of_unaligned_rows() {
  std::vector<const Rung*> some = rungs(Backend::sim_traced);
  std::erase_if(some, [](const Rung* r) { return r->id != "v17u"; });
  return some;
}
INSTANTIATE_TEST_SUITE_P(Sim, TracedUnaligned, testing::ValuesIn(of_unaligned_rows()),
                         [](const auto& info) {
                           return info.param->name + "_" + to_string(info.param->dtype);
                         });

// Three parts of K meet in a cluster. Sums of small tiles have a place beside k-tiles.
TEST(TracedRungs, SumsMeetInAClusterWithoutFindings) {
  for (const int side : {64, 192}) {
    const Problem p = problem(DType::f16, side + 8, side + 40, 520);
    const Rung rung = engine_with({{0, 0}, false, side, 2, 2, 3, true}, side);
    EXPECT_EQ(all_of(Inspector(p).inspect(rung, 0).findings), "") << side;
  }
}

TEST(TracedRungs, ExtraOnesHaveNoFindings) {
  for (const Rung& rung : traced_extra_rungs())
    for (const Problem& p : {problem(rung.dtype, 19, 31, 2085), problem(rung.dtype, 40, 64, 32)})
      EXPECT_EQ(all_of(Inspector(p).inspect(rung, 0).findings), "") << rung.name << shape_name(p);
}

TEST(TracedRungs, AreThePlainOnes) {
  for (const Rung* r : rungs(Backend::sim))
    EXPECT_EQ(find_rung(Backend::sim_traced, r->name, r->dtype) == nullptr,
              is_second_type(r->dtype))
        << r->name << " " << to_string(r->dtype);
}

// --------------------------------------------------------------------- happens-before, by objects

using Report = sim::Races::Report;

struct RacesTest : testing::Test {
  sim::Races races;
  int full, empty;  // objects to synchronise on
  RacesTest() { races.begin_block(64, 1024); }
};

TEST_F(RacesTest, ABarrierOrdersEverything) {
  EXPECT_EQ(races.write(0, 16, 4, 1).kind, Report::none);
  const Report r = races.read(1, 16, 4, 2);
  EXPECT_EQ(r.kind, Report::race);
  EXPECT_EQ(r.other, 1);
  races.barrier();
  EXPECT_EQ(races.read(1, 16, 4, 2).kind, Report::none);
  EXPECT_EQ(races.read(63, 16, 4, 2).kind, Report::none);
  EXPECT_EQ(races.write(63, 16, 4, 3).kind, Report::race);  // thread 1 has read it
  EXPECT_EQ(races.read(0, 20, 4, 2).kind, Report::uninitialised);
}

TEST_F(RacesTest, NeighbouringBytesDoNotRace) {
  for (int t = 0; t < 4; ++t) EXPECT_EQ(races.write(t, t, 1, 1).kind, Report::none);
  EXPECT_EQ(races.write(5, 8, 2, 1).kind, Report::none);
  EXPECT_EQ(races.write(6, 10, 2, 1).kind, Report::none);
}

// A producer fills a buffer that many consumers read, as with mbarriers.
TEST_F(RacesTest, AcquireComesAfterRelease) {
  for (int round = 0; round < 3; ++round) {
    if (round > 0) races.acquire(0, &empty);
    EXPECT_EQ(races.write(0, 0, 16, 1).kind, Report::none);
    races.release(0, &full), races.complete(&full);
    for (int t = 32; t < 64; ++t) {
      races.acquire(t, &full);
      EXPECT_EQ(races.read(t, 0, 16, 2).kind, Report::none);
      races.release(t, &empty);
    }
    races.complete(&empty);
  }
}

TEST_F(RacesTest, AMissingWaitIsARace) {
  races.write(0, 0, 16, 1);
  races.release(0, &full), races.complete(&full);
  races.acquire(32, &full);
  EXPECT_EQ(races.read(32, 0, 16, 2).kind, Report::none);
  EXPECT_EQ(races.read(33, 0, 16, 3).kind, Report::race);  // 33 has not waited
}

TEST_F(RacesTest, AnEarlyReleaseIsARace) {
  races.write(0, 0, 16, 1);
  races.release(0, &full), races.complete(&full);
  for (int t = 32; t < 64; ++t) {
    races.acquire(t, &full);
    if (t == 47) races.release(t, &empty);
    EXPECT_EQ(races.read(t, 0, 16, 2).kind, Report::none);
    if (t != 47) races.release(t, &empty);
  }
  races.complete(&empty);
  races.acquire(0, &empty);
  const Report r = races.write(0, 0, 16, 1);
  EXPECT_EQ(r.kind, Report::race);
  EXPECT_EQ(r.other_thread, 47);
}

// What a thread that runs ahead releases in the next phase comes after nothing of this one's.
TEST_F(RacesTest, TheNextPhaseIsNotAcquired) {
  races.release(0, &full), races.release(1, &full), races.complete(&full);
  races.acquire(1, &full);
  races.write(1, 0, 4, 1);
  races.release(1, &full);
  races.acquire(0, &full);
  EXPECT_EQ(races.read(0, 0, 4, 2).kind, Report::race);
  races.release(0, &full), races.complete(&full);
  races.acquire(0, &full);
  EXPECT_EQ(races.read(0, 0, 4, 2).kind, Report::none);
}

// A wait for parity 1 of a fresh mbarrier succeeds although no phase is complete.
TEST_F(RacesTest, AFreshBarrierHasNothingToAcquire) {
  races.write(0, 0, 4, 1);
  races.release(0, &full);
  races.acquire(1, &full);
  EXPECT_EQ(races.read(1, 0, 4, 2).kind, Report::race);
  EXPECT_EQ(races.read(0, 0, 4, 2).kind, Report::none);
}

// One elected lane releases for its warp: only after __syncwarp is that right.
TEST_F(RacesTest, AnElectedLaneNeedsSyncwarp) {
  for (const bool sync : {true, false}) {
    races.begin_block(64, 1024);
    races.write(0, 0, 4, 1);
    races.release(0, &full), races.complete(&full);
    for (int t = 32; t < 64; ++t) {
      races.acquire(t, &full);
      races.read(t, 0, 4, 2);
    }
    if (sync) races.sync_warp(32, ~0u);
    races.release(32, &empty), races.complete(&empty);
    races.acquire(0, &empty);
    EXPECT_EQ(races.write(0, 0, 4, 1).kind, sync ? Report::none : Report::race);
  }
}

// ------------------------------------------------------------------------------ timeline and page

Inspection closely(const std::string& rung, DType dtype, const Problem& p) {
  Inspector inspector(p, 64);
  Inspection i = inspector.inspect(*find_rung(Backend::sim_traced, rung, dtype), 5);
  inspector.look_closer(i, 0, 2);
  return i;
}

std::vector<sim::TimelineEvent> events_of(const Inspection& i, sim::EventKind kind) {
  std::vector<sim::TimelineEvent> some;
  for (const sim::TimelineEvent& e : i.timeline.events)
    if (e.kind == kind) some.push_back(e);
  return some;
}

TEST(Timeline, ABlockBarrierEndsForAllWarpsAtOnce) {
  const Inspection i = closely("v6", DType::f32, problem(DType::f32, S, S, S));
  const std::vector<sim::TimelineEvent> barriers = events_of(i, sim::EventKind::barrier);
  ASSERT_EQ(barriers.size(), size_t(i.barriers) * i.threads_per_block / 32);
  for (const sim::TimelineEvent& e : barriers) {
    EXPECT_LT(e.begin, e.end);
    EXPECT_EQ(e.end, i.timeline.barriers[e.object].completed[e.phase]);
  }
  EXPECT_EQ(barriers.front().line.file.substr(barriers.front().line.file.rfind('/') + 1),
            "v06_bank_conflicts.cu");
}

// v24: what a pipeline promises, by steps.
TEST(Timeline, APipelineFillsBeforeItIsRead) {
  const Inspection i = closely("v24", DType::f16, problem(DType::f16, 512, 512, 384));
  const sim::Timeline& t = i.timeline;
  const std::vector<sim::TimelineEvent> loads = events_of(i, sim::EventKind::tma_load),
                                        products = events_of(i, sim::EventKind::wgmma);
  ASSERT_FALSE(loads.empty());
  ASSERT_FALSE(products.empty());
  EXPECT_FALSE(t.cut);
  for (const sim::TimelineEvent& e : loads) EXPECT_GT(e.done, e.begin);
  int64_t full = 0, waited = 0;
  for (const sim::TimelineBarrier& b : t.barriers) full += b.takes_bytes;
  EXPECT_GT(full, 1);
  for (const sim::TimelineEvent& e : events_of(i, sim::EventKind::mbarrier_wait)) {
    ASSERT_GE(e.end, e.begin);
    if (e.phase < 0) continue;
    EXPECT_GE(e.end, t.barriers[e.object].completed.at(e.phase));
    ++waited;
  }
  EXPECT_GT(waited, 100);
  // Consumer 1 issues its first product when consumer 0 has issued the last of its first tile.
  const auto first = [&](int warp) {
    for (const sim::TimelineEvent& e : products)
      if (e.warp == warp) return e.begin;
    return int64_t{-1};
  };
  EXPECT_LT(first(0), first(4));
  int before = 0;
  for (const sim::TimelineEvent& e : products) before += e.warp == 0 && e.begin < first(4);
  EXPECT_EQ(before, 6);  // 384 / 64 k-tiles
}

TEST(Timeline, IsTheSameOnAnyNumberOfThreads) {
  const auto page = [](int threads) {
    const OsThreads n(threads);
    InspectionPage p(nlohmann::ordered_json::object());
    p.add(closely("v18", DType::f16, problem(DType::f16, 256, 256, 256)));
    return p.text();
  };
  EXPECT_EQ(page(1), page(3));
}

TEST(Timeline, ShowsAMistakeWithBothParties) {
  for (const Planted& bug : planted_bugs()) {
    if (bug.rung.name != "missing_first_barrier") continue;
    Inspector inspector(problem(DType::f32, 64, 64, 64));
    Inspection i = inspector.inspect(bug.rung, 0);
    ASSERT_FALSE(i.findings.empty());
    EXPECT_GT(i.findings[0].line.line, 0);
    EXPECT_GT(i.findings[0].other.line, 0);
    EXPECT_EQ(i.findings[0].block, 0);
    inspector.look_closer(i, 0, 1);
    EXPECT_FALSE(events_of(i, sim::EventKind::mistake).empty());
    return;
  }
  FAIL() << "there is no such bug";
}

TEST(Page, HoldsItsDataAndNoOtherScript) {
  const nlohmann::ordered_json context{{"command_line", "</script><b>"}};
  InspectionPage page(context);
  page.add(closely("v24", DType::f16, problem(DType::f16, 256, 256, 128)));
  const std::string text = page.text();
  EXPECT_LT(text.size(), 5u << 20);
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = text.find(open) + open.size(), end = text.find("</script>", begin);
  const nlohmann::json data = nlohmann::json::parse(text.substr(begin, end - begin));
  EXPECT_EQ(data["context"]["command_line"], "</script><b>");
  EXPECT_EQ(data["inspections"].size(), 1u);
  EXPECT_GT(data["inspections"][0]["timeline"]["events"].size(), 100u);
  for (const char* outside : {"src=", "@import", "fetch(", "url("})
    EXPECT_EQ((text.substr(0, begin) + text.substr(end)).find(outside), text.npos) << outside;
}

}  // namespace
}  // namespace gemm
