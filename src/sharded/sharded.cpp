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
  rung.id = rung_id(rung.name);
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

void Fabric::join_ranks(Where where) {
  std::vector<Event> now;
  for (int rank = 0; rank < ranks(); ++rank) now.push_back(record(compute(rank), where));
  for (int rank = 0; rank < ranks(); ++rank)
    for (int other = 0; other < ranks(); ++other)
      if (other != rank) wait(compute(rank), now[other], where);
}

void Fabric::exchange_flags(void* stream, const std::vector<uint32_t*>& to,
                            const std::vector<uint32_t*>& from, uint32_t value, Where where) {
  for (uint32_t* const flag : to) write_flag(stream, flag, value, where);
  for (uint32_t* const flag : from) wait_flag(stream, flag, value, where);
}

void join_by_flags(Fabric& fabric, void* stream, const std::vector<void*>& joined, uint32_t number,
                   Fabric::Where where) {
  const int rank = fabric.here()[0];
  const auto flag = [&](int of, int from) { return static_cast<uint32_t*>(joined[of]) + from; };
  std::vector<uint32_t*> to, from;
  for (int other = 0; other < fabric.ranks(); ++other)
    if (other != rank) to.push_back(flag(other, rank)), from.push_back(flag(rank, other));
  fabric.exchange_flags(stream, to, from, number, where);
}

std::vector<void*> Fabric::allocate_symmetric(size_t bytes, const std::string& name,
                                              Contents contents) {
  std::vector<void*> all;
  try {
    for (int rank = 0; rank < ranks(); ++rank) all.push_back(allocate(rank, bytes, name, contents));
  } catch (...) {
    release_symmetric(all);
    throw;
  }
  return all;
}

void Fabric::release_symmetric(const std::vector<void*>& all) noexcept {
  for (size_t rank = 0; rank < all.size(); ++rank) release(static_cast<int>(rank), all[rank]);
}

}  // namespace gemm
