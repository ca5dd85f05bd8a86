#include "sharded/sharded.h"

#include <algorithm>
#include <deque>
#include <tuple>

namespace gemm {
namespace {

std::deque<ShardedRung>& all() {
  static std::deque<ShardedRung> list;  // built on first use, as rungs register before main
  return list;
}

}  // namespace

void detail::add(ShardedRung rung) {
  // ".../kernels/m03_peer_copies.cu" -> file, name "m03_peer_copies", id "m3".
  const std::string& path = rung.file;
  const size_t base = path.rfind('/') + 1, folder = base < 2 ? base : path.rfind('/', base - 2) + 1;
  rung.name = path.substr(base, path.find('.', base) - base);
  rung.file = path.substr(folder);
  rung.id = "m" + std::to_string(std::stoi(rung.name.substr(1)));
  all().push_back(std::move(rung));
}

std::vector<const ShardedRung*> sharded_rungs(Backend backend) {
  std::vector<const ShardedRung*> found;
  for (const ShardedRung& r : all())
    if (r.backend == backend) found.push_back(&r);
  const auto order = [](const ShardedRung& r) {
    return std::make_tuple(std::stoi(r.id.substr(1)), r.collective, r.dtype);
  };
  std::sort(found.begin(), found.end(),
            [&](const ShardedRung* a, const ShardedRung* b) { return order(*a) < order(*b); });
  return found;
}

void join_ranks(Fabric& fabric) {
  std::vector<Fabric::Event> here;
  for (int rank = 0; rank < fabric.ranks(); ++rank)
    here.push_back(fabric.record(fabric.compute(rank)));
  for (int rank = 0; rank < fabric.ranks(); ++rank)
    for (int other = 0; other < fabric.ranks(); ++other)
      if (other != rank) fabric.wait(fabric.compute(rank), here[other]);
}

}  // namespace gemm
