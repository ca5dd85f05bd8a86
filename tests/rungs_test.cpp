// Every rung, every type, at the shapes that break kernels. One suite, instantiated for the
// simulator and for the GPU.
#include <gtest/gtest.h>

#include "extra/extra_rungs.h"
#include "gpu.h"
#include "harness/operand_buffers.h"
#include "harness/tuning.h"
#include "harness/verify.h"
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
    if (!rung.fits || (rung.id != "v13s" && rung.id != "v25")) return 128;
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
        if (related() && (beta == 0 || p.M == 64)) continue;
        expect_right(p, {0, 1});
      }
}

// Each operand of the epilogue alone, and all of them.
TEST_P(RungTest, EpilogueOperands) {
  std::vector<EpilogueOperands> all = {{true, true, true, true, true}};
  if (!related())
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
      if (operands.residual && !related()) {  // neither a pointer nor a row of whole groups
        p.misalign = 1;
        expect_right(p, {0});
      }
    }
}

// The rungs with fused kernels have the whole epilogue in one kernel, whatever of it is missing and
// however B lies; of 16-bit elements only where A lies by rows. Else an epilogue pass follows.
TEST(FusedEpilogue, IsOneKernel) {
  const std::unique_ptr<Device> device = make_sim_device();
  constexpr EpilogueOperands ALL = {true, true, true, true, true};
  constexpr EpilogueOperands BIAS = {.bias = true};
  constexpr std::pair<const char*, DType> FUSED[] = {
      {"v24", DType::f16},  {"v24", DType::bf16},      {"v26", DType::f16},
      {"v26", DType::bf16}, {"v27", DType::f16},       {"v27", DType::bf16},
      {"v27c", DType::f16}, {"v27c", DType::bf16},     {"v30", DType::e4m3_fast},
      {"v31", DType::e4m3}, {"v32", DType::e4m3_block}};
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
        EXPECT_EQ(Verifier(*device, p).verify(*rung), "")
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
    if (related() && p.M != 65 && p.M != 200) continue;
    p.gated = true;
    p.alpha = 2;
    p.operands = {false, true, true, true, true};
    p.activation = p.M == 200 ? Activation::silu : Activation::relu;
    if (!unmet_need(GetParam(), p, *device_).empty()) continue;
    expect_right(p, {0, 1});
    p.batch = 3, p.batch_pad = 8;
    if (!related() && p.M == 65) expect_right(p, {0, 1});
  }
}
// Gates are fused in every variant of v24, whose threads hold neighbouring columns. Others have a pass.
TEST(FusedEpilogue, GatesAreInOneKernel) {
  const std::unique_ptr<Device> device = make_sim_device();
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const char* id : {"v24", "v26", "v27"}) {
      const Rung& rung = *find_rung(Backend::sim, id, dtype);
      for (size_t variant = 0; variant < rung.variants.size(); ++variant)
        for (const Activation activation : ALL_ACTIVATIONS)
          for (const int n : {272, 262, 518}) {
            const bool one_tile = rung.id == "v24" && variant == 0;  // with all activations
            if (!one_tile && activation != Activation::silu) continue;
            if (rung.id != "v24" && n != 272) continue;
            Problem p;
            p.dtype = dtype;
            p.M = 200, p.N = n, p.K = 72;
            p.op_b = n == 518 ? Op::T : Op::N;
            p.gated = true;
            p.activation = activation;
            p.operands = {.bias = n == 272, .scale_columns = n == 518};
            const Rung one = with_variant(rung, int(variant));
            const uint64_t before = epilogue_passes();
            EXPECT_EQ(Verifier(*device, p).verify(one), "")
                << id << " " << one.variants[0].name << " " << epilogue_name(p) << " N " << n;
            EXPECT_EQ(epilogue_passes() == before, rung.id == "v24") << id << " N " << n;
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
  for (const Problem& p : {shape(3, 20, 2085), shape(2, 2085, 9)})
    related() ? expect_right(p, {1}) : expect_right(p);
}

// A launch each, or one for all: M, N and K end within tiles, so that what a tile has too much lies in
// the next product. pad 1: rows, pad and products that are not in whole 16 bytes.
TEST_P(RungTest, Batches) {
  // A launch for each product is the registration's code, not the kernel's.
  if (related() && !GetParam().needs.batches) return;
  Problem p = shape(65, 33, 47);
  p.batch = 3, p.beta = 0.5f;
  expect_right(p, {1});
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

// Of the rungs that take products of different heights: groups without rows first, last and between,
// groups that end within a tile and at its end, and several of them in one tile's rows.
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

// Of the rungs with a pipeline of copies: more k-tiles than it has buffers, and five tiles of 128
// rows, one more than the simulator has persistent blocks.
// In the simulator by both schedules of asynchronous copies.
class PipelineTest : public RungTest {};
TEST_P(PipelineTest, ManyKTilesOfSeveralTiles) {
  related() ? expect_right(shape(513, 16, 584), {0}) : expect_right(shape(513, 16, 584));
  // Seven tiles of 128 rows a CTA: an ordered barrier that fails once in three tiles is noticed.
  if (!related()) expect_right(shape(3700, 16, 584), {0});
  if (GetParam().backend != Backend::sim || related()) return;
  sim::set_async_schedule(sim::AsyncSchedule::eager_copies);
  expect_right(shape(513, 16, 584), {0});
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
  // v24 has larger groups where K is longer.
  if (GetParam().id == "v24") expect_right(shape(2200, 136, 136), {0});
}

// Rows of C in whole 16 bytes: with others v27, v27w, v27c and v24r launch v24.
constexpr std::initializer_list<int> ALIGNED = {0, 16};

// v27 and v27w with row panels of every height: 8 panels are two waves of the simulator's 4 CTAs
// (for v27w, with tiles of all four parts and of one, 4 waves). A CTA's last tile is stored in
// another way than the others, and tall panels come first, so all panels of a problem have the same
// height. Variants have a quarter of the heights: the rung itself chooses each variant where it fits.
class HeightsTest : public RungTest {};
TEST_P(HeightsTest, EightRowPanels) {
  const bool wide = GetParam().id == "v27w";
  const int step = (wide ? 8 : 4) * (related() ? 4 : 1);
  for (int height = wide ? 152 : 104; height <= 192; height += step)
    expect_right(shape(8 * height - 3, wide ? 280 : 24, 150), {height / step % 2 == 0 ? 0 : 16});
}

// Columns of tiles of which some have one row panel more, or one cluster tile, where they fill the GPU that
// is simulated: 4 columns of seven panels and 13 of eight, of 120, 112 and 104 rows (v27); 3 of four and 24
// of five (v27w), 4 of eight and 10 of ten (v27w in clusters).
TEST_P(HeightsTest, LongerColumns) {
  if (GetParam().id == "v27") return expect_right(shape(840, 2176, 8), ALIGNED);
  for (const Problem& p : {shape(768, 6912, 8), shape(1536, 3584, 8)}) expect_right(p, {0});
}

// v27c, which takes B transposed alone: panels of every width, two of them and three pairs of tiles one
// above the other for the simulator's two clusters; edges, K of one k-tile and of none, and C read.
class ColumnsTest : public RungTest {
 protected:
  static Problem shape(int m, int n, int k) {
    Problem p = RungTest::shape(m, n, k);
    p.op_b = Op::T;
    return p;
  }
};
TEST_P(ColumnsTest, PanelsOfEveryWidth) {
  for (int width = 40; width <= 192; width += related() ? 24 : 8)
    expect_right(shape(700, 2 * width - 8, 150), {width % 16 == 0 ? 0 : 16});
}
TEST_P(ColumnsTest, Edges) {
  for (const Problem& p : {shape(250, 304, 130), shape(401, 8, 33), shape(5, 528, 40),
                           shape(16, 24, 531), shape(129, 1000, 64), shape(70, 56, 0)})
    expect_right(p, ALIGNED);
}
TEST_P(ColumnsTest, ReadsC) {
  for (Problem p : {shape(65, 40, 47), shape(300, 264, 72)}) {
    p.alpha = 2, p.beta = -0.5f, p.activation = Activation::relu;
    expect_right(p, ALIGNED);
  }
}

// Panels that end in the middle of a tile's columns read no more of the biases and scales.
TEST_P(ColumnsTest, WholeEpilogue) {
  const uint64_t before = epilogue_passes();
  for (const int width : {40, 96, 136, 160, 192})
    for (const bool residual : {false, true}) {
      if (related() && residual != (width % 96 == 0)) continue;
      Problem p = shape(130, 2 * width - 8, 72);
      p.alpha = 2, p.beta = residual ? -1 : 0;
      p.operands = {residual, true, true, true, true};
      p.activation = residual ? Activation::gelu_erf : Activation::silu;
      expect_right(p, ALIGNED);
    }
  EXPECT_EQ(epilogue_passes(), before);
}

// A call to plan: of the problem only the alignment is looked at.
GemmCall with_transposed_b(int m, int n, int k) {
  void* const aligned = reinterpret_cast<void*>(uintptr_t{4096});
  GemmCall call{.M = m, .N = n, .K = k, .A = aligned, .lda = k, .B = aligned};
  call.ldb = k, call.ldc = n;
  call.C = aligned;
  call.op_b = Op::T;
  return call;
}

// A problem for which no dispatcher takes v27c still runs in its best variant: many rows in tiles of
// 128. Of the problem only the alignment is looked at.
TEST(ColumnsPlan, IsTheBestVariantAlsoWhereNobodyDispatchesIt) {
  const Rung* const rung = find_rung(Backend::sim, "v27c", DType::f16);
  ASSERT_NE(rung, nullptr);
  for (const int size : {1536, 2048, 4096}) {
    const GemmCall call = with_transposed_b(size, size, size);
    const Plan planned = plan(*rung, call, simulated_arch());
    EXPECT_EQ(planned.makespan, NEVER) << size;
    EXPECT_EQ(rung->variants[planned.variant].name.substr(0, 4), "128x") << size;
  }
}

// v27s, whose panels all have one width: from each tile's narrowest to its widest, in clusters of eight, of
// which 15 rows of tiles fill the GPU in one panel; parts of K of no k-tile, of one and of several.
TEST(SplitColumns, PanelsOfManyWidths) {
  const std::unique_ptr<Device> device = make_sim_device();
  const Rung* const rung = find_rung(Backend::sim, "v27s", DType::f16);
  ASSERT_NE(rung, nullptr);
  for (const int width : {72, 88, 112, 128, 136, 152, 176, 192, 200, 216, 240, 256}) {
    const int variant = (width >= 200 ? 0 : width >= 136 ? 4 : 8) + 3;
    const Rung one = with_variant(*rung, variant);
    ASSERT_NE(one.variants[0].name.find("split 4"), std::string::npos) << one.variants[0].name;
    Problem p;
    p.dtype = DType::f16;
    p.M = 15 * 256 - 100, p.N = width, p.K = 64 * (width / 8 % 6) + 8;
    p.op_b = Op::T;
    const GemmCall call = with_transposed_b(p.M, p.N, p.K);
    const std::string why = explain(plan(*rung, call, device->arch(), variant), call);
    EXPECT_NE(why.find(" of " + std::to_string(width) + ","), std::string::npos) << why;
    EXPECT_EQ(Verifier(*device, p).verify(one), "") << width;
  }
}

// K of so many k-tiles that each part goes through its stages several times.
class SplitColumnsTest : public ColumnsTest {};
TEST_P(SplitColumnsTest, ReusesItsStages) { expect_right(shape(200, 136, 64 * 33), ALIGNED); }

// One wave, rows for both CTAs of a pair, and K in parts where v27c takes the problem as well.
TEST(SplitColumns, IsDispatchedWhereNothingStandsBetweenTwoWaves) {
  const Rung* const rung = find_rung(Backend::sim, "v27s", DType::f16);
  ASSERT_NE(rung, nullptr);
  const auto dispatched = [&](int m, int n, int k) {
    return plan(*rung, with_transposed_b(m, n, k), simulated_arch()).makespan < NEVER;
  };
  EXPECT_TRUE(dispatched(512, 1280, 8192));
  EXPECT_TRUE(dispatched(256, 4544, 18176));
  EXPECT_FALSE(dispatched(128, 1280, 8192));
  EXPECT_FALSE(dispatched(512, 8192, 8192));
  EXPECT_FALSE(dispatched(4096, 8192, 8192));
}

// v27m in every tile and every shape of cluster, in all four layouts by turns: some CTAs' tiles lie outside of C, and
// the simulator's few CTAs compute several tiles each. C is read.
class MulticastTest : public RungTest {};
TEST_P(MulticastTest, EveryTileAndCluster) {
  if (related()) return;  // one of them runs all variants
  const std::unique_ptr<Device> device = make_sim_device();
  const Rung* const rung = find_rung(Backend::sim, "v27m", DType::f16);
  ASSERT_NE(rung, nullptr);
  for (size_t variant = 0; variant < rung->variants.size(); ++variant) {
    Problem p;
    p.dtype = DType::f16;
    p.M = 456, p.N = 400, p.K = 64 * (variant % 3) + 40;
    p.op_a = variant & 1 ? Op::T : Op::N, p.op_b = variant / 2 & 1 ? Op::T : Op::N;
    p.alpha = 2, p.beta = -0.5f;
    EXPECT_EQ(Verifier(*device, p).verify(with_variant(*rung, variant)), "")
        << rung->variants[variant].name;
  }
}

// v27m's tiles of many heights, the shortest and the tallest of each tile among them: 16 clusters of four tiles are
// more than half of those that the GPU holds, so that one wave has one tile along y.
TEST(Multicast, TilesOfManyHeights) {
  const std::unique_ptr<Device> device = make_sim_device();
  const Rung* const rung = find_rung(Backend::sim, "v27m", DType::f16);
  ASSERT_NE(rung, nullptr);
  for (const int height : {32, 40, 80, 120, 128, 136, 176, 192, 200, 216, 256}) {
    const int variant = (height >= 200 ? 0 : height >= 136 ? 8 : 16) + 4;  // in clusters of 4 x 1
    Problem p;
    p.dtype = DType::f16;
    p.M = 64 * 128 - 8, p.N = height, p.K = 72;
    p.op_a = p.op_b = Op::T;
    GemmCall call = with_transposed_b(p.M, p.N, p.K);
    call.op_a = Op::T, call.lda = p.M;
    const std::string why = explain(plan(*rung, call, device->arch(), variant), call);
    EXPECT_NE(why.find(" x " + std::to_string(height) + ","), std::string::npos) << why;
    EXPECT_EQ(Verifier(*device, p).verify(with_variant(*rung, variant)), "") << why;
  }
}

// v24 in pairs: more tiles than half of the SMs, up to three waves, and rows of whole lines. 11 x 7 tiles of 64 x
// 128 and 9 x 9 of 128 x 128 side by side, with an odd column, and 9 x 11 one above the other, with an odd row.
class PairsTest : public RungTest {};
TEST_P(PairsTest, NeighboursOnATpc) {
  for (const Problem& p : {shape(700, 832, 64), shape(570, 1408, 192), shape(1030, 1152, 192)})
    expect_right(p, {0});
}

// v25r where parts of K differ by a k-tile: 52 of them in 6 parts, in clusters of 4 tiles of 64 x 64, and 151 in
// 14 parts of one tile. 50 in 5 parts are alike.
class ReducedSplitTest : public RungTest {};
TEST_P(ReducedSplitTest, PartsOfTwoLengths) {
  for (Problem p : {shape(250, 120, 3190), shape(250, 120, 3310), shape(60, 40, 9610)})
    for (const Op a : {Op::N, Op::T}) {
      p.op_a = a, p.op_b = a;
      p.beta = 0.5f;
      expect_right(p, {0, 16});
    }
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

// v24r with all passes through its pipeline, work ranges that go on in the next column panel of B,
// tiles cut in half, and k-tiles of zeros: six column panels of 2.5 tiles for the simulator's 4
// CTAs.
class BStationaryTest : public RungTest {};
TEST_P(BStationaryTest, RangesAcrossColumnPanels) {
  for (const int k : {200, 384, 450}) expect_right(shape(300, 648, k), ALIGNED);
  expect_right(shape(1300, 88, 72), ALIGNED);  // work ranges that lie within one column panel
  expect_right(shape(90, 1304, 72), ALIGNED);  // a column panel a tile
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
bool with_groups(const Rung& r) { return r.needs.groups; }
bool with_pipeline(const Rung& r) {
  return (r.needs.sm >= 90 && !is_second_type(r.dtype)) || (r.id == "v29" && r.dtype == DType::f16);
}
bool with_raster(const Rung& r) { return r.needs.sm >= 80 && !is_second_type(r.dtype); }
bool of_all_heights(const Rung& r) {
  return (r.id == "v27" || r.id == "v27w") && r.dtype != DType::bf16;
}
bool of_columns(const Rung& r) { return r.id == "v27c"; }
bool of_split_columns(const Rung& r) { return r.id == "v27s" && r.dtype != DType::bf16; }
bool with_multicast(const Rung& r) { return r.id == "v27m" && r.dtype == DType::f16; }
bool in_pairs(const Rung& r) { return r.id == "v24" && r.dtype == DType::f16; }
bool of_reduced_split(const Rung& r) { return r.id == "v25r" && r.dtype != DType::bf16; }
bool of_unaligned_rows(const Rung& r) { return r.id == "v17u"; }
bool b_stationary(const Rung& r) { return r.id == "v24r" && r.dtype != DType::bf16; }
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
INSTANTIATE_TEST_SUITE_P(Sim, HeightsTest, testing::ValuesIn(those(Backend::sim, of_all_heights)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, HeightsTest, testing::ValuesIn(those(Backend::gpu, of_all_heights)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, ColumnsTest, testing::ValuesIn(those(Backend::sim, of_columns)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, ColumnsTest, testing::ValuesIn(those(Backend::gpu, of_columns)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, SplitColumnsTest,
                         testing::ValuesIn(those(Backend::sim, of_split_columns)), test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, SplitColumnsTest,
                         testing::ValuesIn(those(Backend::gpu, of_split_columns)), test_name);
INSTANTIATE_TEST_SUITE_P(Sim, MulticastTest, testing::ValuesIn(those(Backend::sim, with_multicast)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, PairsTest, testing::ValuesIn(those(Backend::sim, in_pairs)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, PairsTest, testing::ValuesIn(those(Backend::gpu, in_pairs)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Sim, ReducedSplitTest,
                         testing::ValuesIn(those(Backend::sim, of_reduced_split)), test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, ReducedSplitTest,
                         testing::ValuesIn(those(Backend::gpu, of_reduced_split)), test_name);
INSTANTIATE_TEST_SUITE_P(Sim, UnalignedTest,
                         testing::ValuesIn(those(Backend::sim, of_unaligned_rows)), test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, UnalignedTest,
                         testing::ValuesIn(those(Backend::gpu, of_unaligned_rows)), test_name);
INSTANTIATE_TEST_SUITE_P(Sim, BStationaryTest, testing::ValuesIn(those(Backend::sim, b_stationary)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, BStationaryTest, testing::ValuesIn(those(Backend::gpu, b_stationary)),
                         test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BStationaryTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ColumnsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GroupsOnGpu);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GroupsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HeightsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PipelineTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RasterTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MulticastTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PairsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReducedSplitTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SplitColumnsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransposedTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(UnalignedTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RungTest);

}  // namespace
}  // namespace gemm
