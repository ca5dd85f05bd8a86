#include "sim/warp_request.h"

#include <algorithm>
#include <bit>

namespace gemm::sim {

namespace {

constexpr int WARP_LANES = 32, BANKS = 32, WORD = 4, SECTOR = 32;

// Different values among the lanes' addresses, each divided by `unit`.
int distinct(const WarpRequest& r, uint32_t unit) {
  uint32_t values[WARP_LANES];
  int n = 0;
  bool sorted = true;
  for (uint32_t rest = r.lanes; rest != 0; rest &= rest - 1) {
    values[n] = r.address[std::countr_zero(rest)] / unit;
    sorted &= n == 0 || values[n - 1] <= values[n];
    ++n;
  }
  if (!sorted) std::sort(values, values + n);
  return static_cast<int>(std::unique(values, values + n) - values);
}

// Whether every lane wants the same as lane ^ `distance`, as far as both take part.
bool shared_by_partners(const WarpRequest& r, int distance) {
  for (uint32_t rest = r.lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest), partner = lane ^ distance;
    if ((r.lanes >> partner & 1) != 0 && r.address[lane] != r.address[partner]) return false;
  }
  return true;
}

int lanes_a_phase(const WarpRequest& r, SharedAccess access) {
  if (r.bytes <= WORD) return WARP_LANES;
  const bool merges =
      access == SharedAccess::load && (shared_by_partners(r, 1) || shared_by_partners(r, 2));
  return WARP_LANES * WORD / r.bytes * (merges ? 2 : 1);
}

}  // namespace

// Accesses are aligned to their size, so none spans two sectors.
int sectors(const WarpRequest& r) { return distinct(r, SECTOR); }

int ideal_sectors(const WarpRequest& r) {
  return (distinct(r, r.bytes) * r.bytes + SECTOR - 1) / SECTOR;
}

int wavefronts(const WarpRequest& r, SharedAccess access, uint8_t* of_lane) {
  const int phase = lanes_a_phase(r, access), words = std::max(r.bytes / WORD, 1);
  int total = 0;
  for (int first = 0; first < WARP_LANES; first += phase) {
    uint32_t wanted[BANKS][WARP_LANES];  // the different words of each bank
    int count[BANKS] = {}, busiest = 0;
    for (int lane = first; lane < first + phase; ++lane) {
      if ((r.lanes >> lane & 1) == 0) continue;
      for (int i = 0; i < words; ++i) {
        const uint32_t word = r.address[lane] / WORD + i;
        uint32_t* const begin = wanted[word % BANKS];
        int& n = count[word % BANKS];
        const int pass = static_cast<int>(std::find(begin, begin + n, word) - begin);
        // Accesses are aligned to their size, so that all words of a lane fall into one pass.
        if (of_lane != nullptr) of_lane[lane] = static_cast<uint8_t>(total + pass);
        if (pass < n) continue;
        begin[n++] = word;
        busiest = std::max(busiest, n);
      }
    }
    total += busiest;
  }
  return total;
}

int ideal_wavefronts(const WarpRequest& r, SharedAccess access) {
  const int phase = lanes_a_phase(r, access);
  int total = 0;
  for (int first = 0; first < WARP_LANES; first += phase)
    total += (r.lanes >> first & (phase == 32 ? ~0u : (1u << phase) - 1)) != 0;
  return total;
}

}  // namespace gemm::sim
