// Every rung, every type, at the shapes that break kernels. One suite, instantiated for the
// simulator and for the GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "extra/extra_rungs.h"
#include "gpu.h"
#include "harness/operand_buffers.h"
#include "harness/tuning.h"
#include "harness/verify.h"
#include "plan/engine.h"
#include "print.h"
#include "same_code.h"
#include "sim/simulator.h"

namespace gemm {

namespace {

class RungTest : public testing::TestWithParam<Rung> {
 protected:
  void SetUp() override {
    if (GetParam().backend == Backend::sim) {
      device_ = make_sim_device();
    } else {
      if (!why_no_gpu().empty()) GTEST_SKIP() << "no GPU: " << why_no_gpu();
      std::string why;
      device_ = make_gpu_device(why);
      ASSERT_NE(device_, nullptr) << why;
    }
    Rung rung = GetParam();
    rung.fits = {};  // each problem asks that
    if (const std::string why = unmet_need(rung, Problem(), *device_); !why.empty())
      GTEST_SKIP() << why;
  }

  // A variant, or a second type: the code of a rung that is tested in full, with other tiles or
  // another type.
  static bool related() { return GetParam().fits || is_second_type(GetParam().dtype); }

  // Whether all that a call may ask for is tried. Of most rungs a few cases are: vectors of an epilogue
  // are added by the epilogue pass and batches launched by the registration, which v1 and v23 share
  // with them. The others named have kernels of their own for these.
  static bool whole_call() {
    static const std::set<std::string> WHOLE = {"v1", "v23", "v27", "v28", "v30", "v31", "v32"};
    return !related() && (WHOLE.contains(GetParam().id) || GetParam().needs.batches);
  }

  // Verifies at M x N x K, with ld > columns and without: rows off and on 16 bytes. Related rungs by
  // turns: a problem with the one, the next with the other.
  void expect_right(Problem p, std::initializer_list<int> pads = {0, 1}) {
    p.dtype = GetParam().dtype;
    std::vector<int> tried(pads);
    if (related() && pads.size() > 1) tried = {*(pads.end() - 1 - ++turn_ % 2)};
    for (const int pad : tried) {
      p.ld_pad = pad;
      if (GetParam().fits && !unmet_need(GetParam(), p, *device_).empty()) continue;  // a variant
      Verifier verifier(*device_, p);
      EXPECT_EQ(verifier.verify(GetParam()), "")
          << GetParam().name << " " << to_string(p.dtype) << " " << shape_name(p) << " "
          << ops_name(p) << " " << info(p.activation).name << " alpha " << p.alpha << " beta "
          << p.beta << " ld_pad " << p.ld_pad << " misalign " << p.misalign;
    }
  }
  static Problem shape(int m, int n, int k) {
    Problem p;
    p.M = m, p.N = n, p.K = k;
    return p;
  }
  // Rows of a variant's tiles where K is split over small ones, "16x64 split 4"; else the most that a
  // tile has.
  static int tile_rows() {
    const Rung& rung = GetParam();
    if (!rung.fits || rung.id != "v13s") return 128;
    return std::stoi(rung.variants[0].name);
  }

  std::unique_ptr<Device> device_;
  int turn_ = 0;
};

TEST_P(RungTest, RaggedCubes) {
  for (const int n : {1, 3, 17, 31, 33, 63, 65, 127, 129}) expect_right(shape(n, n, n));
}

// Also rows that are longer than the columns by whole groups of 16 bytes.
constexpr std::initializer_list<int> ALL_PADS = {0, 1, 16};

TEST_P(RungTest, RaggedShapes) {
  expect_right(shape(250, 300, 130), ALL_PADS);
  expect_right(shape(401, 7, 33), ALL_PADS);    // tall
  expect_right(shape(5, 523, 40), ALL_PADS);    // wide
  expect_right(shape(16, 24, 531), ALL_PADS);   // deep
  expect_right(shape(128, 256, 64), ALL_PADS);  // whole tiles
}

// Row pitch, first element and distance between products of each operand: one at a time is off every
// alignment, and the others are on it. With batches, groups of heights around a tile's, and epilogues.
TEST_P(RungTest, OneLayoutIsOff) {
  Problem batch = shape(63, 72, 40), groups = shape(255, 72, 40), epilogue = shape(63, 72, 40);
  batch.dtype = groups.dtype = epilogue.dtype = GetParam().dtype;
  batch.batch = 2;
  groups.groups = {.count = 4, .ends = {63, 128, 191, 255}};
  epilogue.operands = {true, true, true, true, true}, epilogue.alpha = 2, epilogue.beta = -1;
  for (Problem p : {batch, groups, epilogue}) {
    if (!unmet_need(GetParam(), p, *device_).empty()) continue;
    for (const Operand operand : {Operand::A, Operand::B, Operand::C, Operand::residual,
                                  Operand::bias, Operand::row_bias, Operand::scale_columns})
      for (const auto what : {Problem::Apart::nothing, Problem::Apart::ld, Problem::Apart::first,
                              Problem::Apart::stride}) {
        if (!has(p, operand) || (what == Problem::Apart::nothing && operand != Operand::A))
          continue;
        p.apart = what, p.apart_of = operand;
        if (!unmet_need(GetParam(), p, *device_).empty()) continue;  // a variant
        EXPECT_EQ(Verifier(*device_, p).pass(GetParam(), Inputs::uniform, 0), "")
            << GetParam().name << " " << to_string(p.dtype) << " " << batch_name(p)
            << epilogue_name(p) << " operand " << static_cast<int>(operand) << ", what is apart "
            << static_cast<int>(what);
      }
  }
}

TEST_P(RungTest, EmptyAndThin) {
  expect_right(shape(70, 50, 1));
  expect_right(shape(70, 50, 0));
  expect_right(shape(0, 50, 20));
  expect_right(shape(70, 0, 20));
  expect_right(shape(0, 0, 0));
}

TEST_P(RungTest, AlphaBeta) {
  for (const auto& [alpha, beta] : {std::pair{1.0f, 1.0f},
                                    {0.0f, 0.0f},
                                    {0.0f, -0.5f},
                                    {-1.25f, 0.0f},
                                    {2.0f, 0.75f},
                                    {0.3f, -0.7f},
                                    {1.0f, 0.0f}}) {
    if (related() && alpha != 2.0f && beta != -0.5f) continue;
    for (Problem p : {shape(65, 33, 47), shape(64, 136, 48), shape(34, 70, 0)}) {
      p.alpha = alpha, p.beta = beta;
      expect_right(p, ALL_PADS);
    }
  }
}

// Whole tiles and edges, with C and without.
TEST_P(RungTest, Activations) {
  for (const Activation activation : ALL_ACTIVATIONS)
    for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {2.0f, -1.0f}})
      for (Problem p : {shape(65, 33, 47), shape(64, 136, 48)}) {
        p.alpha = alpha, p.beta = beta, p.activation = activation;
        if (!unmet_need(GetParam(), p, *device_).empty()) continue;
        if (!whole_call() && (beta == 0 || p.M == 64)) continue;
        expect_right(p, {0, 1});
      }
}

// Each operand of the epilogue alone, and all of them.
TEST_P(RungTest, EpilogueOperands) {
  std::vector<EpilogueOperands> all = {{true, true, true, true, true}};
  if (whole_call())
    for (const EpilogueOperands one : {EpilogueOperands{.residual = true},
                                       {.bias = true},
                                       {.row_bias = true},
                                       {.scale_rows = true},
                                       {.scale_columns = true}})
      all.push_back(one);
  for (const EpilogueOperands& operands : all)
    for (Problem p : {shape(65, 33, 47), shape(200, 136, 48), shape(64, 264, 0)}) {
      p.operands = operands;
      p.alpha = 2;
      p.beta = operands.residual ? -1 : 0;
      if (!unmet_need(GetParam(), p, *device_).empty()) continue;
      if (operands.bias) p.activation = Activation::relu;
      expect_right(p);
      if (operands.residual && whole_call()) {  // neither a pointer nor a row of whole groups
        p.misalign = 1;
        expect_right(p, {0});
      }
    }
}

// The engine's first configuration of equal tiles.
constexpr int EQUAL_TILES = engine::CONFIGURATION_COUNT - 3;

// The rungs with fused kernels have the whole epilogue in one kernel, whatever of it is missing and
// however B lies; of 16-bit elements only where A lies by rows. Else an epilogue pass follows.
TEST(FusedEpilogue, IsOneKernel) {
  const std::unique_ptr<Device> device = make_sim_device();
  constexpr EpilogueOperands ALL = {true, true, true, true, true};
  constexpr EpilogueOperands BIAS = {.bias = true};
  constexpr std::pair<const char*, DType> FUSED[] = {{"v27", DType::f16},  // equal tiles
                                                     {"v27", DType::bf16},
                                                     {"v30", DType::e4m3_fast},
                                                     {"v31", DType::e4m3},
                                                     {"v32", DType::e4m3_block}};
  for (const auto& [id, dtype] : FUSED)
    for (const auto& [operands, activation] : {std::pair{ALL, Activation::gelu},
                                               {BIAS, Activation::gelu_erf},
                                               {BIAS, Activation::silu},
                                               {EpilogueOperands{}, Activation::gelu},
                                               {ALL, Activation::leaky_relu}})
      for (const int transposed : {0, 1, 2, 3}) {
        if (transposed != 0 && activation != Activation::gelu && activation != Activation::silu)
          continue;
        if (is_second_type(dtype) && activation != Activation::gelu) continue;
        const Rung* const rung = find_rung(Backend::sim, id, dtype);
        ASSERT_NE(rung, nullptr);
        Problem p;
        p.dtype = dtype;
        p.M = 200, p.N = transposed == 3 ? 261 : 264;
        p.K = info(info(dtype).in).bytes == 1 ? 264 : 72;  // blocks of 128 with scales, and a rest
        p.alpha = 0.5f, p.beta = operands.residual ? -1 : 0;
        p.op_a = transposed & 1 ? Op::T : Op::N;
        p.op_b = transposed & 2 ? Op::T : Op::N;
        p.operands = operands;
        p.activation = activation;
        const uint64_t before = epilogue_passes();
        const Rung one_rung = rung->id == "v27" ? with_variant(*rung, EQUAL_TILES) : *rung;
        EXPECT_EQ(Verifier(*device, p).verify(one_rung), "")
            << id << " " << epilogue_name(p) << " " << ops_name(p);
        // A plain kernel has what is activation and scalars alone.
        const bool one = p.op_a == Op::N || info(info(dtype).in).bytes == 1 || !operands.bias;
        EXPECT_EQ(epilogue_passes() == before, one)
            << id << " " << epilogue_name(p) << " " << ops_name(p);
      }
}
TEST(FusedEpilogue, OtherRungsHaveAPass) {
  const std::unique_ptr<Device> device = make_sim_device();
  Problem p;
  p.M = 70, p.N = 72, p.K = 40;
  p.operands.bias = true;
  const Rung& rung = *find_rung(Backend::sim, "v23", p.dtype = DType::f16);
  const uint64_t before = epilogue_passes();
  EXPECT_EQ(Verifier(*device, p).verify(rung), "");
  EXPECT_GT(epilogue_passes(), before);
}
// beta * C with C in D's memory, and scales of the product alone: it waits in a workspace.
TEST(FusedEpilogue, AScaledProductBesideItsOwnC) {
  const std::unique_ptr<Device> device = make_sim_device();
  for (const char* id : {"v1", "v23", "v24"})
    for (const int n : {72, 71}) {
      Problem p;
      p.dtype = DType::f16;
      p.M = 70, p.N = n, p.K = 40;
      p.beta = -0.5f;
      p.operands = {.row_bias = true, .scale_rows = true, .scale_columns = true};
      EXPECT_EQ(Verifier(*device, p).verify(*find_rung(Backend::sim, id, p.dtype)), "") << id;
    }
}

// A column of D for each gate and its value, with all operands but C: where rows of D are whole groups of
// 16 bytes, where they are not, and of several products.
TEST_P(RungTest, Gated) {
  for (Problem p : {shape(65, 34, 47), shape(200, 144, 48), shape(64, 272, 0), shape(70, 2, 24)}) {
    if (!whole_call() && p.M != 65 && p.M != 200) continue;
    p.gated = true;
    p.alpha = 2;
    p.operands = {false, true, true, true, true};
    p.activation = p.M == 200 ? Activation::silu : Activation::relu;
    if (!unmet_need(GetParam(), p, *device_).empty()) continue;
    expect_right(p, {0, 1});
    p.batch = 3, p.batch_pad = 8;
    if (whole_call() && p.M == 65) expect_right(p, {0, 1});
  }
}
// Gates are fused where tiles are equal: threads hold neighbouring columns. Other variants have a pass.
TEST(FusedEpilogue, GatesAreInOneKernel) {
  const std::unique_ptr<Device> device = make_sim_device();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Rung& rung = *find_rung(Backend::sim, "v27", dtype);
    for (int variant = 0; variant < int(rung.variants.size()); ++variant)
      for (const Activation activation : ALL_ACTIVATIONS)
        for (const int n : {272, 262, 518}) {
          const bool fused = variant >= EQUAL_TILES;
          if (variant != EQUAL_TILES && activation != Activation::silu) continue;  // all with one
          if (!fused && n != 272) continue;
          Problem p;
          p.dtype = dtype;
          p.M = 200, p.N = n, p.K = 72;
          p.op_b = n == 518 ? Op::T : Op::N;
          p.gated = true;
          p.activation = activation;
          p.operands = {.bias = n == 272, .scale_columns = n == 518};
          const Rung one = with_variant(rung, variant);
          const uint64_t before = epilogue_passes();
          EXPECT_EQ(Verifier(*device, p).verify(one), "")
              << one.variants[0].name << " " << epilogue_name(p) << " N " << n;
          EXPECT_EQ(epilogue_passes() == before, fused) << one.variants[0].name << " N " << n;
        }
  }
}

// On uniform inputs, where another order of additions shows; on one OS thread of the simulator as on
// several.
TEST_P(RungTest, TwoRunsHaveTheSameBits) {
  for (Problem p : {shape(130, 72, 328), shape(65, 33, 47)}) {
    p.dtype = GetParam().dtype, p.alpha = 1.25f, p.beta = 0.5f;
    if (!unmet_need(GetParam(), p, *device_).empty()) p.op_b = Op::T;
    if (!unmet_need(GetParam(), p, *device_).empty()) continue;
    std::vector<std::vector<char>> results;
    for (const int threads : {1, 3}) {
      if (device_->backend() == Backend::sim) sim::set_threads(threads);
      void* matrices[3];
      for (const Operand o : {Operand::A, Operand::B, Operand::C}) {
        matrices[int(o)] = device_->allocate(layout(p, o).bytes);
        device_->fill(matrices[int(o)], p, o, Inputs::uniform, SEED);
      }
      GemmCall call = make_call(p, matrices[0], matrices[1], matrices[2]);
      OperandBuffers operands(*device_, p);
      operands.fill(p, Inputs::uniform, SEED);
      operands.attach(p, call);
      device_->run(GetParam(), call);
      results.emplace_back(layout(p, Operand::C).bytes);
      device_->download(results.back().data(), matrices[2], results.back().size());
      for (void* const m : matrices) device_->release(m);
    }
    if (device_->backend() == Backend::sim) sim::set_threads(0);
    EXPECT_TRUE(results[0] == results[1])
        << GetParam().name << " " << to_string(p.dtype) << " " << shape_name(p);
  }
}

TEST_P(RungTest, MisalignedPointers) {
  for (const int misalign : {1, 2, 4}) {
    Problem p = shape(72, 136, 40);
    p.misalign = misalign;
    expect_right(p);
  }
}

// Rows that are longer than a block's share, and end anywhere in it.
TEST_P(RungTest, LongRows) {
  Problem deep = shape(3, 20, 2085);
  for (const Problem& p : {deep, shape(2, 2085, 9)})
    related() ? expect_right(p, {1}) : expect_right(p);
  if (related() || GetParam().id != "v13s") return;
  // With K in more parts than a cluster has CTAs, a second kernel adds them up and has the epilogue.
  const auto& variants = GetParam().variants;
  const auto split = std::ranges::find(variants, "16x64 split 16", &RungVariant::name);
  ASSERT_NE(split, variants.end());
  deep.operands = {true, true, true, true, true}, deep.alpha = 2, deep.beta = -1;
  const Rung one = with_variant(GetParam(), int(split - variants.begin()));
  EXPECT_EQ(Verifier(*device_, deep).verify(one), "");
}

// A launch each, or one for all: M, N and K end within tiles, so that what a tile has too much lies in
// the next product. pad 1: rows, pad and products that are not in whole 16 bytes.
TEST_P(RungTest, Batches) {
  if (related() && !GetParam().needs.batches) return;
  Problem p = shape(65, 33, 47);
  p.batch = 3, p.beta = 0.5f;
  expect_right(p, {1});
  if (!related() && !whole_call()) return;
  p.batch_pad = 8;  // rows of 48 and 40 elements, products in whole 16 bytes
  p.M = 70, p.N = 40, p.K = 48, p.beta = 0;
  expect_right(p, {0});
  p.shared_a = true;
  if (!related()) expect_right(p, {0});
  p.shared_a = false, p.shared_b = true, p.batch = 7;
  expect_right(p, {0, 8});
  Problem q = p;  // the epilogue's vectors are the same for all products
  q.operands = {false, true, true, true, true};
  q.activation = Activation::relu;
  if (unmet_need(GetParam(), q, *device_).empty()) expect_right(q, {0, 1});
  p.M = 0;
  expect_right(p, {0});
  p.M = 70, p.K = 0;
  expect_right(p, {0});
}

// Tests of rungs that take products of different heights: groups without rows first, last and
// between, groups that end within a tile and at its end, and several of them in one tile's rows.
class GroupsTest : public RungTest {
 protected:
  static Problem groups(std::initializer_list<int> rows, int n, int k) {
    Problem p = shape(0, n, k);
    for (const int m : rows) p.groups.ends[p.groups.count++] = p.M += m;
    return p;
  }
  void expect_groups_right() {
    for (const Op a : {Op::N, Op::T})
      for (const Op b : {Op::N, Op::T}) {
        if (related() && a == Op::T && b == Op::T) continue;
        Problem p = groups({0, 70, 0, 3, 129, 64, 0}, 200, 96);
        p.op_a = a, p.op_b = b;
        if (!related()) expect_right(p, {0});
        p.batch_pad = 24, p.beta = 0.5f;  // a gap between the matrices B
        expect_right(p, {0, 1, 16});
      }
    expect_right(groups({150}, 136, 72), {0});
    expect_right(groups({0, 150}, 136, 72), {0});
    expect_right(groups({150, 0}, 136, 72), {0});
    expect_right(groups({0, 0}, 136, 72), {0});
    expect_right(groups({40, 5}, 0, 72), {0});
    expect_right(groups({40, 5}, 64, 0), {0});
    Problem p = groups({33, 128, 1}, 72, 64);
    p.activation = Activation::relu, p.alpha = 2, p.beta = -1;
    expect_right(p, {0, 1});
  }
  // Several tiles a CTA, and more k-tiles than stages.
  void expect_many_right() {
    related() ? expect_right(groups({1, 150, 0, 257, 40}, 136, 584), {0})
              : expect_right(groups({1, 300, 17, 0, 5, 513, 128, 40}, 264, 584), {0});
  }
};
TEST_P(GroupsTest, Ragged) { expect_groups_right(); }
TEST_P(GroupsTest, SeveralTilesACta) { expect_many_right(); }

class GroupsOnGpu : public GroupsTest {};
TEST_P(GroupsOnGpu, Ragged) { expect_groups_right(); }
TEST_P(GroupsOnGpu, SeveralTilesACta) {
  expect_many_right();
  Problem p = groups({900, 0, 4000, 129, 31, 2048, 7, 1500}, 2048, 1024);
  p.op_b = Op::T;
  expect_right(p, {0});
}

// Rows have the same bits in calls with fewer rows. The default plan has K in parts for a few of these
// rows, and not for all.
class InvariantTest : public RungTest {
 protected:
  // One row and all rows have different splits of K in their plans.
  static Problem planned_in_two_ways() {
    Problem p = GetParam().dtype == DType::f32 ? shape(640, 64, 1100) : shape(640, 256, 1024);
    p.dtype = GetParam().dtype, p.invariant = true;
    return p;
  }
};
TEST_P(InvariantTest, RowsKeepTheirBits) {
  const auto expect_equal = [&](const Problem& p) {
    EXPECT_EQ(Verifier(*device_, p).compare_fewer_rows(GetParam()), "")
        << shape_name(p) << " " << ops_name(p) << " " << epilogue_name(p);
  };
  Problem p = planned_in_two_ways();
  expect_equal(p);
  p.M = 200, p.N = 136, p.K = 200;
  for (const Op op : {Op::N, Op::T}) {
    p.op_a = op, p.op_b = op == Op::N ? Op::T : Op::N;
    p.beta = 1, p.operands = {}, p.activation = Activation::none, p.gated = false;
    expect_equal(p);
    p.alpha = -1.25f, p.beta = 0.7f, p.operands = {true, true, true, true, true};
    p.activation = Activation::gelu;
    expect_equal(p);
    p.operands = {}, p.N = 133, p.ld_pad = 1;
    expect_equal(p);
    p.N = 136, p.ld_pad = 0, p.alpha = 1;
    p.beta = 0, p.operands = {}, p.activation = Activation::silu, p.gated = true;
    expect_equal(p);
  }
}
// A rung that forgets it is seen.
TEST_P(InvariantTest, OtherBitsAreSeen) {
  if (GetParam().id != "v28") GTEST_SKIP() << "v28 plans over the others";
  Rung forgets = GetParam();
  forgets.launch = [](const GemmCall& call) {
    GemmCall other = call;
    other.invariant = false;
    GetParam().launch(other);
  };
  EXPECT_THAT(Verifier(*device_, planned_in_two_ways()).compare_fewer_rows(forgets),
              testing::HasSubstr("has other bits in a call"));
}

class TransposedTest : public RungTest {};  // of the rungs that take transposed operands
TEST_P(TransposedTest, AllFour) {
  for (const Op a : {Op::N, Op::T})
    for (const Op b : {Op::N, Op::T}) {
      Problem p = shape(65, 33, 47);
      p.op_a = a, p.op_b = b, p.beta = 0.5f;
      expect_right(p);
      // All parts of a tile that the blocks of a cluster load; of small tiles more than one each way.
      p.M = p.N = tile_rows() < 128 && GetParam().id == "v13s" ? 136 : 264, p.K = 72;
      expect_right(p, {0});
      if (!GetParam().needs.batches) continue;  // the kernel sees one product
      p.M = 136, p.N = 72, p.batch = 3, p.batch_pad = 24;
      expect_right(p, {0});
    }
}

// Tests of rungs with a pipeline of copies: more k-tiles than it has buffers, and five tiles of 128
// rows, one more than the simulator has persistent blocks.
// In the simulator by all schedules of asynchronous copies.
class PipelineTest : public RungTest {};
TEST_P(PipelineTest, ManyKTilesOfSeveralTiles) {
  related() ? expect_right(shape(513, 16, 584), {0}) : expect_right(shape(513, 16, 584));
  // Seven tiles of 128 rows a CTA: an ordered barrier that fails once in three tiles is noticed.
  static const std::set<std::string> ORDERED = {"v24", "v27", "v30", "v31", "v32"};
  if (!related() && ORDERED.contains(GetParam().id)) expect_right(shape(3700, 16, 584), {0});
  if (GetParam().backend != Backend::sim || related()) return;
  for (const auto s : {sim::AsyncSchedule::eager_copies, sim::AsyncSchedule::newest_first}) {
    sim::set_async_schedule(s);
    expect_right(shape(513, 16, 584), {0});
  }
  sim::set_async_schedule(sim::AsyncSchedule::lazy_copies);
}

// More than one raster group: of 8 or 16 rows of tiles, of cluster tiles of two, and of columns.
class RasterTest : public RungTest {};
TEST_P(RasterTest, SeveralGroups) {
  if (related()) return expect_right(shape(17 * tile_rows() + 24, 136, 8), {0});
  expect_right(shape(1100, 264, 40), {0});
  if (GetParam().needs.sm < 90) return;
  expect_right(shape(4200, 264, 8), {0});
  expect_right(shape(264, 2100, 8), {0});
  // The engine has larger groups where K is longer.
  if (GetParam().id == "v27") expect_right(shape(2200, 136, 136), {0});
}

// v27 with choices of the test's own: what a plan may choose, and a plan seldom does.
class EngineTest : public RungTest {
 protected:
  static engine::Choice choice_of(int configuration, bool swapped) {
    engine::Choice choice{};
    choice.configuration = configuration, choice.swapped = swapped;
    return choice;
  }
  // X x Y results of K products each: x along C's rows or, swapped, along its columns. Operands lie
  // as the configuration takes them, either way by turns, and so do rows of C.
  Problem problem(const engine::Choice& choice, int X, int Y, int K) {
    const auto either = [](bool transposed) { return transposed ? Op::T : Op::N; };
    const bool swapped = choice.swapped, odd = nth_ % 2 != 0;
    const bool y_k_major = choice.config().ping_pong() || nth_ % 4 < 2;
    const bool x_k_major = y_k_major && nth_ % 8 < 4;
    Problem p = shape(swapped ? Y : X, swapped ? X : Y, K);
    p.dtype = GetParam().dtype;
    p.op_a = either(!(swapped ? y_k_major : x_k_major));
    p.op_b = either(swapped ? x_k_major : y_k_major);
    p.ld_pad = odd ? 16 : 0;
    if (nth_ % 3 == 0) p.alpha = 2, p.beta = -0.5f;
    return p;
  }
  void expect_right(const Problem& p, const engine::Choice& choice) {
    Plan plan{.rung = &GetParam(), .variant = choice.configuration};
    plan.sms = simulated_arch().sms, plan.ctas = simulated_arch().ctas;
    plan.keep(choice);
    EXPECT_EQ(Verifier(*device_, p).verify(with_plan(GetParam(), plan)), "")
        << engine::explain(choice, plan.sms) << " in " << GetParam().variants[plan.variant].name
        << " at " << shape_name(p) << " " << ops_name(p) << " ld_pad " << p.ld_pad;
    ++nth_;
  }
  // Row panels of `height` and, where that is not the shortest, of 8 rows less: one of each in
  // `columns` columns of tiles.
  static RowPanels panels_of(const engine::Configuration& config, int height, int columns) {
    const bool alike = height == config.shortest;
    const int rows_8 = height / 8 - !alike;
    return {{columns, 0}, 2, {rows_8, rows_8}, {!alike, 0}, {int16_t(columns), 1}};
  }

  int nth_ = 0;
};

// All heights of all configurations, in clusters of all shapes, which multicast or not, and in one to
// three parts of K, which differ by a k-tile. The last tile along x and along y is cut off by C's
// edge, as are CTAs of clusters.
TEST_P(EngineTest, AllHeightsClustersAndParts) {
  constexpr engine::ClusterShape CLUSTERS[] = {{0, 0}, {1, 0}, {0, 1}, {1, 1},
                                               {2, 0}, {0, 2}, {2, 1}, {1, 2}};
  for (int i = 0; i < engine::CONFIGURATION_COUNT; ++i) {
    const engine::Configuration& config = engine::CONFIGURATIONS[i];
    if (config.schedule != engine::Schedule::rectangle) continue;
    for (int height = config.shortest; height <= config.by; height += 8) {
      const engine::ClusterShape cluster = CLUSTERS[(nth_ + i) % std::size(CLUSTERS)];
      engine::Choice choice = choice_of(i, nth_ / 2 % 2 != 0);
      const bool multicast = cluster.size() > 1 && height % 16 == 0, wide = height / 16 % 2 != 0;
      const int x = wide ? 2 : 1, y = wide ? 1 : 2;  // clusters
      choice.cut = {cluster, multicast, height, x, y, 1 + nth_ % 3, false};
      const int X = config.bx * (wide ? 2 * cluster.x() - 1 : cluster.x()) - 8,
                Y = height * (wide ? cluster.y() : 2 * cluster.y() - 1) - 8;
      const int K = height % 48 == 16 ? 15 * 64 : 200;  // more k-tiles than stages, or fewer
      expect_right(problem(choice, X, Y, K), choice);
    }
  }
}

// The second kernel's four, two or one groups of threads, by the size of C; with fewer than four, more
// parts than they load at once.
TEST_P(EngineTest, GroupsOfTheSecondKernel) {
  constexpr int CONFIGURATION = 1;
  const engine::Configuration& config = engine::CONFIGURATIONS[CONFIGURATION];
  for (const auto& [tiles, parts] : {std::pair{1, 16}, {9, 9}, {17, 5}}) {
    engine::Choice choice = choice_of(CONFIGURATION, parts == 9);
    choice.cut = {{0, 0}, false, config.by, tiles, 1, parts, false};
    expect_right(problem(choice, tiles * config.bx - 8, config.by - 8, parts * 64), choice);
  }
}

// Sums of one to eight parts of K within a cluster, at all heights; C's rows in whole 16 bytes, or not.
TEST_P(EngineTest, SumsInClusters) {
  for (int i = 0; i < engine::CONFIGURATION_COUNT; ++i) {
    const engine::Configuration& config = engine::CONFIGURATIONS[i];
    if (config.schedule != engine::Schedule::rectangle) continue;
    for (int height = config.shortest; height <= config.by; height += 8) {
      engine::Choice choice = choice_of(i, nth_ / 2 % 2 != 0);
      choice.cut = {{0, 0}, false, height, 1, 2, 1 + nth_ % 8, true};
      const int off = nth_ / 3 % 2 != 0 ? 3 : 0;
      Problem p = problem(choice, config.bx - 8 + off, 2 * height - 8 - off, 500);
      if (off != 0) p.ld_pad = 1;
      expect_right(p, choice);
    }
  }
}

// All heights of ping-pong, one or two of them in a problem. Ten tiles for the simulator's four CTAs:
// a CTA's last tile is stored in another way than the others.
TEST_P(EngineTest, AllHeightsByTurns) {
  for (int i = 0; i < engine::CONFIGURATION_COUNT; ++i) {
    const engine::Configuration& config = engine::CONFIGURATIONS[i];
    if (config.schedule != engine::Schedule::row_panels) continue;
    for (int height = config.shortest; height <= config.by; height += 8) {
      engine::Choice choice = choice_of(i, nth_ / 2 % 2 != 0);
      choice.panels = panels_of(config, height, 5);
      const int Y = 2 * height - (height > config.shortest ? 16 : 8);
      expect_right(problem(choice, 5 * config.bx - 8, Y, 150), choice);
    }
  }
}

// Two columns of tiles with three row panels and one with four, in which all are lower. Both ways round.
TEST_P(EngineTest, LongerColumns) {
  int tried = 0;
  for (int i = 0; i < engine::CONFIGURATION_COUNT; ++i) {
    const engine::Configuration& config = engine::CONFIGURATIONS[i];
    const int rows_8 = config.by / 8 * 3 - 2;
    if (config.schedule != engine::Schedule::row_panels || rows_8 / 4 * 8 < config.shortest)
      continue;
    for (const bool swapped : {false, true}) {
      engine::Choice choice = choice_of(i, swapped);
      choice.panels = {{2, 1}, 3, {rows_8 / 3, rows_8 / 4}, {rows_8 % 3, rows_8 % 4}, {2, 1}};
      expect_right(problem(choice, 3 * config.bx - 8, 8 * rows_8, 72), choice);
      ++tried;
    }
  }
  EXPECT_GT(tried, 0);
}

// B's columns stay while a CTA goes down a column of five tiles. The simulator's four CTAs have four of
// fifteen tiles, one CTA three: some ranges wrap around, and some reach into a second column.
TEST_P(EngineTest, BStays) {
  for (int i = 0; i < engine::CONFIGURATION_COUNT; ++i) {
    const engine::Configuration& config = engine::CONFIGURATIONS[i];
    if (config.schedule != engine::Schedule::tiles) continue;
    for (int k_tiles = 1; k_tiles <= config.stages; ++k_tiles) {
      engine::Choice choice = choice_of(i, false);
      choice.tiling = {.bm = config.bx, .bn = config.by, .b_stays = true};
      const Problem p = problem(choice, 5 * config.bx - 8, 3 * config.by - 8, k_tiles * 64 - 24);
      expect_right(p, choice);
    }
    // Two tiles a column: every tile of a consumer is in another one.
    engine::Choice choice = choice_of(i, false);
    choice.tiling = {.bm = config.bx, .bn = config.by, .b_stays = true};
    expect_right(problem(choice, 2 * config.bx - 8, 9 * config.by - 8, 72), choice);
  }
}

// The whole epilogue in one kernel, by turns alone. Tiles that end in the middle of a panel read no
// more of the biases and scales.
TEST_P(EngineTest, WholeEpilogue) {
  const uint64_t before = epilogue_passes();
  for (int i = 0; i < engine::CONFIGURATION_COUNT; ++i) {
    const engine::Configuration& config = engine::CONFIGURATIONS[i];
    if (config.schedule != engine::Schedule::row_panels) continue;
    for (const bool swapped : {false, true})
      for (const bool residual : {false, true}) {
        engine::Choice choice = choice_of(i, swapped);
        choice.panels = panels_of(config, config.by, 1);
        Problem p = problem(choice, config.bx - 8, 2 * config.by - 16, 72);
        p.op_a = Op::N, p.op_b = Op::T;
        p.alpha = 2, p.beta = residual ? -1 : 0;
        p.operands = {residual, true, true, true, true};
        p.activation = residual ? Activation::gelu_erf : Activation::silu;
        expect_right(p, choice);
      }
  }
  EXPECT_EQ(epilogue_passes(), before);
}

// Equal tiles in pairs: more tiles than half of the SMs, up to three waves, and rows of whole lines.
// 11 x 7 tiles of 64 x 128 and 9 x 9 of 128 x 128 side by side, with an odd column, and 9 x 11 one
// above the other, with an odd row.
class PairsTest : public RungTest {};
TEST_P(PairsTest, NeighboursOnATpc) {
  for (const Problem& p : {shape(700, 832, 64), shape(570, 1408, 192), shape(1030, 1152, 192)})
    expect_right(p, {0});
}

// v17u where rows begin at even bytes, and at multiples of 4: all numbers of groups in all layouts, K that
// ends in the k-tile of each group of four, and edges of tiles of 64.
class UnalignedTest : public RungTest {};
TEST_P(UnalignedTest, AllLayouts) {
  for (const Op a : {Op::N, Op::T})
    for (const Op b : {Op::N, Op::T})
      for (Problem p : {shape(65, 63, 62), shape(63, 65, 127), shape(1, 129, 191),
                        shape(129, 2, 257), shape(67, 70, 580)})
        for (const float beta : {0.0f, -0.5f}) {
          p.op_a = a, p.op_b = b, p.beta = beta;
          expect_right(p, {0, 1, 2});
        }
}
// Bases at even bytes, of rows whose pitch is a multiple of 4: no word may be loaded whole.
TEST_P(UnalignedTest, MisalignedBases) {
  for (const Op a : {Op::N, Op::T})
    for (const Op b : {Op::N, Op::T}) {
      Problem p = shape(66, 68, 70);
      p.op_a = a, p.op_b = b, p.misalign = 1;
      expect_right(p, {2});
    }
}

std::string test_name(const testing::TestParamInfo<Rung>& info) {
  const Rung& r = info.param;
  std::string name = r.name + "_" + to_string(r.dtype) + (r.fits ? "_" + r.variants[0].name : "");
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}
// Copies of a backend's rungs and of their variants, which GoogleTest can name.
std::vector<Rung> all(Backend backend) {
  std::vector<Rung> copies;
  for (const Rung* r : rungs(backend)) {
    copies.push_back(*r);
    for (Rung& variant : tried_variants(*r)) copies.push_back(std::move(variant));
  }
  return copies;
}
std::vector<Rung> those(Backend backend, bool wanted(const Rung&)) {
  std::vector<Rung> found = all(backend);
  std::erase_if(found, [&](const Rung& r) { return !wanted(r); });
  return found;
}
bool transposing(const Rung& r) { return r.needs.transposed; }
bool keeping_bits(const Rung& r) { return r.needs.invariant && !r.fits; }
bool with_groups(const Rung& r) { return r.needs.groups; }
bool with_pipeline(const Rung& r) {
  return (r.needs.sm >= 90 && !is_second_type(r.dtype)) || (r.id == "v29" && r.dtype == DType::f16);
}
bool with_raster(const Rung& r) { return r.needs.sm >= 80 && !is_second_type(r.dtype); }
bool of_engine(const Rung& r) { return r.id == "v27" && r.dtype == DType::f16 && !r.fits; }
bool in_pairs(const Rung& r) {
  return r.id == "v27" && r.dtype == DType::f16 && r.fits &&
         std::string(r.variants[0].name).ends_with(" tiles");
}
bool of_unaligned_rows(const Rung& r) { return r.id == "v17u"; }
INSTANTIATE_TEST_SUITE_P(Sim, RungTest, testing::ValuesIn(all(Backend::sim)), test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, RungTest, testing::ValuesIn(all(Backend::gpu)), test_name);
INSTANTIATE_TEST_SUITE_P(SimExtra, RungTest, testing::ValuesIn(sim_extra_rungs()), test_name);
#ifdef EXTRA_ON_GPU
INSTANTIATE_TEST_SUITE_P(GpuExtra, RungTest, testing::ValuesIn(gpu_extra_rungs()), test_name);
#endif
INSTANTIATE_TEST_SUITE_P(Sim, TransposedTest, testing::ValuesIn(those(Backend::sim, transposing)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, TransposedTest, testing::ValuesIn(those(Backend::gpu, transposing)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, InvariantTest, testing::ValuesIn(those(Backend::sim, keeping_bits)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, InvariantTest, testing::ValuesIn(those(Backend::gpu, keeping_bits)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, GroupsTest, testing::ValuesIn(those(Backend::sim, with_groups)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, GroupsOnGpu, testing::ValuesIn(those(Backend::gpu, with_groups)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, PipelineTest, testing::ValuesIn(those(Backend::sim, with_pipeline)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, PipelineTest, testing::ValuesIn(those(Backend::gpu, with_pipeline)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, RasterTest, testing::ValuesIn(those(Backend::sim, with_raster)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, RasterTest, testing::ValuesIn(those(Backend::gpu, with_raster)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, EngineTest, testing::ValuesIn(those(Backend::sim, of_engine)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EngineTest, testing::ValuesIn(those(Backend::gpu, of_engine)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, PairsTest, testing::ValuesIn(those(Backend::sim, in_pairs)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, PairsTest, testing::ValuesIn(those(Backend::gpu, in_pairs)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, UnalignedTest,
                         testing::ValuesIn(those(Backend::sim, of_unaligned_rows)), test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, UnalignedTest,
                         testing::ValuesIn(those(Backend::gpu, of_unaligned_rows)), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EngineTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GroupsOnGpu);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GroupsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(InvariantTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PipelineTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RasterTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PairsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransposedTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(UnalignedTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RungTest);

}  // namespace
}  // namespace gemm
