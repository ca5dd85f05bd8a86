#include "harness/sharded_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "harness/verify.h"

namespace gemm {

Problem whole_problem(const ShardedProblem& s, int ld_pad) {
  const bool adds = s.collective != Collective::all_gather;
  Problem p{.dtype = s.dtype, .M = s.M, .N = s.N, .K = adds ? s.K * s.ranks : s.K};
  p.op_b = s.op_b;
  p.ld_pad = ld_pad;
  // Each rank's partial result is rounded to C's type before they are added, as NCCL's are.
  if (adds) p.product_error = s.ranks * info(info(s.dtype).out).roundoff();
  return p;
}

std::vector<Inputs> passes_of(const ShardedProblem& s) {
  if (s.collective != Collective::all_gather) return {Inputs::products, Inputs::uniform};
  return {Inputs::sums, Inputs::products, Inputs::uniform};
}

ShardedMatrices::ShardedMatrices(std::vector<Device*> devices, Fabric& fabric,
                                 const ShardedProblem& p, int ld_pad)
    : devices_(std::move(devices)),
      fabric_(fabric),
      sharded_(p),
      whole_(whole_problem(p, ld_pad)),
      of_(p.ranks) {
  try {
    for (int rank = 0; rank < p.ranks; ++rank) {
      of_[rank].a = devices_[rank]->allocate(layout(whole_, Operand::A).bytes);
      of_[rank].b = devices_[rank]->allocate(layout(whole_, Operand::B).bytes);
      of_[rank].c = devices_[rank]->allocate(layout(whole_, Operand::C).bytes);
    }
    collected_ = devices_[0]->allocate(layout(whole_, Operand::C).bytes);
  } catch (...) {
    release();
    throw;
  }
}

ShardedMatrices::~ShardedMatrices() { release(); }

void ShardedMatrices::release() {
  for (int rank = 0; rank < sharded_.ranks; ++rank)
    for (void* p : {of_[rank].a, of_[rank].b, of_[rank].c})
      if (p != nullptr) devices_[rank]->release(p);
  if (collected_ != nullptr) devices_[0]->release(collected_);
}

void ShardedMatrices::fill(Inputs kind, uint64_t seed) {
  const Shards shards = sharded_.shards();
  const MatrixLayout a = layout(whole_, Operand::A), c = layout(whole_, Operand::C);
  const auto size = static_cast<int64_t>(element_size(whole_, Operand::A));
  before_.assign(sharded_.ranks, {});
  for (int rank = 0; rank < sharded_.ranks; ++rank) {
    Device& device = *devices_[rank];
    device.fill(of_[rank].a, whole_, Operand::A, kind, seed);
    device.fill(of_[rank].b, whole_, Operand::B, kind, seed);
    device.fill(of_[rank].c, whole_, Operand::C, kind, seed);
    if (sharded_.collective != Collective::all_gather) {
      before_[rank].resize(c.bytes);
      device.download(before_[rank].data(), of_[rank].c, c.bytes);
      continue;
    }
    const auto poison = [&](int first, int end) {
      const std::vector<char> nan((end - first) * a.ld * size, '\xff');
      device.upload(static_cast<char*>(of_[rank].a) + a.index(first, 0) * size, nan.data(),
                    nan.size());
    };
    if (shards.first(rank) > 0) poison(0, shards.first(rank));
    if (shards.end(rank) < shards.M) poison(shards.end(rank), shards.M);
    char byte = 0;  // and wait: streams of the fabric do not know the device's own
    device.download(&byte, of_[rank].c, 1);
  }
}

ShardedCall ShardedMatrices::call() const {
  const bool adds = sharded_.collective != Collective::all_gather;
  const bool scatter = sharded_.collective == Collective::reduce_scatter;
  ShardedCall calls;
  for (int rank = 0; rank < sharded_.ranks; ++rank) {
    const GemmCall whole = make_call(whole_, of_[rank].a, of_[rank].b, of_[rank].c);
    const auto size = static_cast<int64_t>(element_size(whole_, Operand::A));
    const int64_t row = sharded_.shards().first(rank), k = int64_t{rank} * sharded_.K;
    const int64_t a = adds ? k : row * whole.lda;
    const int64_t b = !adds ? 0 : sharded_.op_b == Op::N ? k * whole.ldb : k;
    const int64_t c = scatter ? row * whole.ldc : 0;
    calls.push_back({static_cast<const char*>(whole.A) + a * size, whole.lda,
                     static_cast<const char*>(whole.B) + b * size, whole.ldb,
                     static_cast<char*>(whole.C) + c * size, whole.ldc});
  }
  return calls;
}

std::vector<sim::Matrix> ShardedMatrices::matrices() const {
  std::vector<sim::Matrix> all;
  for (int rank = 0; rank < sharded_.ranks; ++rank)
    for (const auto& [name, operand, p] : {std::tuple{"A", Operand::A, of_[rank].a},
                                           {"B", Operand::B, of_[rank].b},
                                           {"C", Operand::C, of_[rank].c}}) {
      const MatrixLayout l = layout(whole_, operand);
      const auto size = static_cast<int>(element_size(whole_, operand));
      all.push_back({.name = fmt::format("{} of rank {}", name, rank),
                     .allocation = p,
                     .allocation_bytes = l.bytes,
                     .first = static_cast<const char*>(p) + l.first * size,
                     .rows = l.rows,
                     .cols = l.cols,
                     .ld = l.ld,
                     .element = size,
                     .readable = operand != Operand::C,
                     .writable = operand == Operand::C});
    }
  return all;
}

std::string ShardedMatrices::check(Inputs kind, uint64_t seed) {
  Device& first = *devices_[0];
  const MatrixLayout c = layout(whole_, Operand::C);
  const auto bytes = static_cast<int64_t>(c.bytes);
  const auto size = static_cast<int64_t>(element_size(whole_, Operand::C));
  const auto collect = [&](int rank, int64_t begin, int64_t length) {
    fabric_.copy(fabric_.compute(0),
                 {static_cast<char*>(collected_) + begin, length,
                  static_cast<const char*>(of_[rank].c) + begin, length, length, 1});
  };
  if (kind == Inputs::uniform && (reference_ == nullptr || reference_seed_ != seed)) {
    reference_ = first.reference(whole_, seed);
    reference_seed_ = seed;
  }
  const auto judge = [&](const std::string& whose) -> std::string {
    fabric_.synchronize();
    const CheckResult result = first.check(collected_, whole_, kind, seed, reference_.get());
    return result.ok() ? std::string() : fmt::format("{}{}", whose, describe(result));
  };
  if (sharded_.collective != Collective::reduce_scatter) {
    std::vector<char> sum;  // of all_reduce: rank 0's, which all have, bit for bit
    for (int rank = 0; rank < sharded_.ranks; ++rank) {
      collect(rank, 0, bytes);
      if (std::string wrong = judge(fmt::format("rank {}: ", rank)); !wrong.empty()) return wrong;
      if (sharded_.collective == Collective::all_gather) continue;
      std::vector<char> now(c.bytes);
      first.download(now.data(), collected_, c.bytes);
      if (rank == 0) sum = now;
      if (now != sum) return fmt::format("rank {}: other bits than rank 0's", rank);
    }
    return {};
  }
  // The shards make one C; around them each rank's is as it was.
  const Shards shards = sharded_.shards();
  for (int rank = 0; rank < sharded_.ranks; ++rank) {
    const int64_t begin = c.index(shards.first(rank), 0) * size;
    const int64_t length = shards.rows(rank) * c.ld * size;
    if (rank == 0) collect(rank, 0, bytes);
    if (rank > 0 && length > 0) collect(rank, begin, length);
    std::vector<char> now(c.bytes);
    devices_[rank]->download(now.data(), of_[rank].c, c.bytes);
    const std::vector<char>& before = before_[rank];
    if (!std::equal(now.begin(), now.begin() + begin, before.begin()) ||
        !std::equal(now.begin() + begin + length, now.end(), before.begin() + begin + length))
      return fmt::format("rank {}: rows outside of its shard were overwritten", rank);
  }
  return judge("");
}

std::string verify_sharded(const ShardedRung& rung, int variant, const ShardedProblem& p,
                           Fabric& fabric, ShardedMatrices& matrices, int turns) {
  const std::unique_ptr<ShardedGemm> gemm = rung.make(p, fabric, variant);
  uint64_t seed = SEED;
  for (const Inputs kind : passes_of(p))
    for (int turn = 0; turn < turns; ++turn, ++seed) {
      matrices.fill(kind, seed);
      gemm->enqueue(matrices.call());
      fabric.synchronize();
      if (const std::string wrong = matrices.check(kind, seed); !wrong.empty())
        return fmt::format("{}, call {}: {}", name_of(kind), turn + 1, wrong);
    }
  return {};
}

}  // namespace gemm
