#include "sim/wgmma.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "device/platform.h"
#include "sim/cluster.h"
#include "sim/tensor_sum.h"
#include "sim/tracer.h"
#include "sim/widen.h"

namespace gemm::sim {

namespace {

constexpr size_t CHUNK = 16;
constexpr int K_BYTES = 32;                       // of every operand: 16 halves, 8 floats, 32 FP8
constexpr uint32_t IN_FLIGHT = 0x7fc0f117;        // a NaN
constexpr int WARPS = 4, ROWS = 16, MAX_N = 256;  // of a warpgroup; of a warp's part

int k_of(WgmmaType type) { return type == WgmmaType::tf32 ? 8 : 16; }

}  // namespace

// CuTe's canonical layouts, mma_traits_sm90_gmma.hpp; see device/wgmma_descriptor.cuh.
WgmmaOperand::WgmmaOperand(const Caller& caller, const char* shared, size_t shared_bytes,
                           uint64_t descriptor, bool mn_major, int first_row, int rows)
    : mn_major(mn_major) {
  const auto field = [&](int bit) { return (descriptor >> bit & 0x3fff) << 4; };
  const size_t start = field(0), leading = field(16), stride = field(32);
  const size_t span = std::array{16, 128, 64, 32}[descriptor >> 62];
  if ((descriptor >> 49 & 7) != 0) caller.fail("a descriptor with a base offset; allowed: 0");
  const auto add = [&](size_t offset) {
    offset ^= offset >> 3 & (span - 16);
    if (offset + CHUNK > shared_bytes)
      caller.fail(
          "reads dynamic shared memory up to byte {}, of which there are {} bytes; its descriptor: "
          "start {}, leading {}, stride {}, {}",
          offset + CHUNK - 1, shared_bytes, start, leading, stride,
          span == CHUNK ? "not swizzled" : fmt::format("swizzled within {} bytes", span));
    chunks.push_back(shared + offset);
  };
  if (!mn_major) {
    chunks.reserve(rows * 2);
    for (int r = first_row; r < first_row + rows; ++r)
      for (size_t c = 0; c < K_BYTES / CHUNK; ++c)
        add(start + r % 8 * span + r / 8 * stride + c * (span == 16 ? leading : CHUNK));
  } else {
    chunks.reserve(rows * 2);
    const size_t across = span / CHUNK;  // chunks of a panel's row
    for (size_t k = 0; k < 16; ++k)
      for (size_t j = first_row / 8; j < size_t(first_row + rows) / 8; ++j)
        add(span == 16 ? start + j * stride + k % 8 * span + k / 8 * leading
                       : start + j % across * CHUNK + j / across * leading + k % 8 * span +
                             k / 8 * stride);
  }
  const auto [least, greatest] = std::minmax_element(chunks.begin(), chunks.end());
  begin = *least;
  end = *greatest + CHUNK;
}

// The fragment's layout is in device/ptx/wgmma.cuh: value e of lane (g, t) lies here.
namespace {
size_t index_of(int lane, int e, int n) {
  return (lane / 4 + e / 2 % 2 * 8) * n + e / 4 * 8 + lane % 4 * 2 + e % 2;
}
}  // namespace

void Wgmma::Accumulators::save() {
  value.resize(ROWS * n);
  for (int lane = 0; lane < WARP; ++lane)
    for (int e = 0; e < n / 2; ++e) value[index_of(lane, e, n)] = d[lane][e];
}

void Wgmma::Accumulators::restore() const {
  for (int lane = 0; lane < WARP; ++lane)
    for (int e = 0; e < n / 2; ++e) d[lane][e] = value[index_of(lane, e, n)];
}

void Wgmma::Accumulators::hide() const {
  for (float* registers : d) std::fill_n(registers, n / 2, std::bit_cast<float>(IN_FLIGHT));
}

bool Wgmma::Accumulators::hidden() const {
  static constexpr auto HIDDEN = [] {
    std::array<uint32_t, MAX_N / 2> all{};
    all.fill(IN_FLIGHT);
    return all;
  }();
  return std::all_of(d, d + WARP, [&](const float* registers) {
    return std::memcmp(registers, HIDDEN.data(), n / 2 * sizeof(float)) == 0;
  });
}

void Wgmma::issue(const Caller& caller, const WgmmaCall& call, float* const (&d)[WARP],
                  bool at_once, uintptr_t pc) {
  Block& block = *this_thread.block;
  const int w = caller.thread / WARP;
  if ((w / WARPS + 1) * WARPS * WARP > block.scheduler.threads())
    caller.fail("warpgroup {} has fewer than {} threads", w / WARPS, WARPS * WARP);
  Warp& warp = warps_[w];
  const char* shared = static_cast<const char*>(block.shared.dynamic());
  const size_t shared_bytes = block.shared.dynamic_size();
  Job job{
      caller,
      call,
      WgmmaOperand(caller, shared, shared_bytes, call.a, call.a_mn_major, w % WARPS * ROWS, ROWS),
      WgmmaOperand(caller, shared, shared_bytes, call.b, call.b_mn_major, 0, call.n),
      nullptr,
      false};
  for (const WgmmaOperand* o : {&job.a, &job.b}) {
    const BulkLoads& loads = block.cluster->loads();
    if (loads.writes(block, o->begin, o->end - o->begin))  // else not a chunk of it either
      for (const char* chunk : o->chunks) loads.check_landed(caller, block, chunk, CHUNK);
    block.proxy.check_chunks(caller, block.shared, o->chunks);
    if (this_thread.tracer != nullptr)
      for (const char* chunk : o->chunks) this_thread.tracer->bulk_read(chunk, CHUNK, pc);
  }

  if (Tracer* const tracer = this_thread.tracer; tracer != nullptr && tracer->timeline() != nullptr)
    tracer->timeline()->collective(tracer->me(), EventKind::wgmma, caller.where);

  auto& into = warp.owned[d[0]];
  if (into == nullptr) {
    const auto last = warp.retired.find(d[0]);
    if (warp.fences == 0 || (last != warp.retired.end() && last->second == warp.fences))
      caller.fail("wgmma.fence is missing: none since {}",
                  warp.fences == 0 ? "the kernel began"
                                   : "the wait that ended the last wgmma into these accumulators");
    into = std::make_shared<Accumulators>();
    std::copy_n(d, WARP, into->d);
    into->n = call.n;
    into->save();
    into->hide();
  } else if (into->n != call.n) {
    caller.fail("its accumulators are those of a wgmma of another shape in flight");
  } else if (!into->hidden()) {
    caller.fail("its accumulators were written while an earlier wgmma was in flight");
  }
  ++into->in_flight;
  job.into = into;
  if (at_once) {
    multiply(job);
    job.done = true;
  }
  warp.jobs.push_back(std::move(job));
  ++warp.open;
  ++warp.issued;
}

void Wgmma::commit(int warp) {
  Warp& w = warps_[warp];
  w.groups.push_back(w.open);
  w.open = 0;
}

std::string Wgmma::missing(const void* gathering) {
  const auto& g = *static_cast<const Gathering*>(gathering);
  return fmt::format("for warpgroup {}, of which {} of {} threads have come", g.warpgroup,
                     g.arrived, WARPS * WARP);
}

void Wgmma::wait(const Caller& caller, int pending) {
  const int warpgroup = caller.thread / (WARPS * WARP);
  Gathering& g = gatherings_[warpgroup];
  if (g.arrived == 0) g = {warpgroup, 0, pending, caller.where};
  if (g.pending != pending || !same_place(g.where, caller.where))
    caller.fail("the threads of warpgroup {} disagree: others wait at {}", warpgroup,
                place(g.where));
  Scheduler& scheduler = this_thread.block->scheduler;
  if (++g.arrived < WARPS * WARP)
    return scheduler.suspend({caller.what, caller.where, 0, missing, &g});
  g.arrived = 0;
  if (this_thread.tracer != nullptr) this_thread.tracer->sync_complete(&g);
  const int first = warpgroup * WARPS * WARP;
  for (int w = first / WARP; w < first / WARP + WARPS; ++w) {
    Warp& warp = warps_[w];
    for (; warp.groups.size() > static_cast<size_t>(pending); warp.groups.pop_front())
      for (size_t i = 0; i < warp.groups.front(); ++i) retire(caller, warp);
  }
  for (int t = first; t < first + WARPS * WARP; ++t)
    if (t != caller.thread) scheduler.wake(t);
  scheduler.yield_to(first);
}

void Wgmma::retire(const Caller& caller, Warp& warp) {
  Job job = std::move(warp.jobs.front());
  warp.jobs.pop_front();
  if (!job.done) multiply(job);
  Accumulators& into = *job.into;
  if (--into.in_flight != 0) return;
  if (!into.hidden())
    caller.fail("the accumulators of {} were written before this wait", job.caller.line());
  into.restore();
  warp.retired[into.d[0]] = warp.fences;
  warp.owned.erase(into.d[0]);
}

void Wgmma::check_read(const Caller& caller, const void* p, size_t bytes) const {
  const char *first = static_cast<const char*>(p), *last = first + bytes;
  for (const auto& [index, warp] : warps_)
    for (const Job& job : warp.jobs)
      for (const WgmmaOperand* o : {&job.a, &job.b}) {
        if (o->begin >= last || first >= o->end) continue;
        if (std::none_of(o->chunks.begin(), o->chunks.end(),
                         [&](const char* c) { return c < last && first < c + CHUNK; }))
          continue;
        caller.fail(
            "overwrites {}, which {} of warp {} may still be reading: its wait has not "
            "returned",
            caller.block->place_of(p), job.caller.line(), index);
      }
}

void Wgmma::check_end(int warp) const {
  const auto it = warps_.find(warp);
  if (it != warps_.end() && !it->second.jobs.empty())
    it->second.jobs.front().caller.fail("the thread ends before a wait for this wgmma");
}

void Wgmma::check_warpgroups(int warps) const {
  const auto issued = [&](int warp) {
    const auto it = warps_.find(warp);
    return it == warps_.end() ? 0 : it->second.issued;
  };
  for (int w = 0; w < warps; ++w)
    if (issued(w) != issued(w / WARPS * WARPS))
      fail("a warpgroup disagrees: warp {} has issued {} wgmma, but warp {} {}", w, issued(w),
           w / WARPS * WARPS, issued(w / WARPS * WARPS));
}

// ------------------------------------------------------------------------------------ arithmetic

namespace {

typedef float Row __attribute__((vector_size(32)));  // 8 columns

// A chunk's values as floats: 8, or 4 of tf32. wgmma does not look at the bits that tf32 lacks.
void widen(float* to, const char* chunk, WgmmaType type) {
  if (type == WgmmaType::tf32) {
    uint32_t bits[4];
    std::memcpy(bits, chunk, sizeof bits);
    for (int e = 0; e < 4; ++e) to[e] = std::bit_cast<float>(bits[e] & ~0x1fffu);
    return;
  }
  uint16_t bits[8];
  std::memcpy(bits, chunk, sizeof bits);
  type == WgmmaType::bf16 ? widen_bf16(to, bits) : widen_halves(to, bits);
}

// An operand's chunks, one after the other, to [k][row], `width` rows apart.
void decode(float* to, int width, const char* bytes, size_t chunks, bool mn_major, WgmmaType type) {
  const int per_chunk = type == WgmmaType::tf32 ? 4 : 8;
  float values[8];
  for (size_t i = 0; i < chunks; ++i) {
    widen(values, bytes + i * CHUNK, type);
    if (mn_major) {
      const size_t across = chunks / 16;
      std::memcpy(to + i / across * width + i % across * 8, values, sizeof values);
    } else {
      for (int e = 0; e < per_chunk; ++e) to[(i % 2 * per_chunk + e) * width + i / 2] = values[e];
    }
  }
}

void gather(char* to, const WgmmaOperand& o) {
  for (size_t i = 0; i < o.chunks.size(); ++i) std::memcpy(to + i * CHUNK, o.chunks[i], CHUNK);
}

}  // namespace

// Keeps the bytes of an operand B; whether they are others than before. Four warps read the same B,
// mostly one after the other: it is decoded once.
bool Wgmma::DecodedB::replace(const WgmmaOperand& b, WgmmaType of, std::span<const char> now) {
  if (type == of && mn_major == b.mn_major && bytes.size() == now.size() &&
      std::memcmp(bytes.data(), now.data(), now.size()) == 0)
    return false;
  type = of;
  mn_major = b.mn_major;
  bytes.assign(now.begin(), now.end());
  return true;
}

const float* Wgmma::decoded(const WgmmaOperand& b, WgmmaType type) {
  char bytes[2 * MAX_N * CHUNK];
  gather(bytes, b);
  if (decoded_.replace(b, type, {bytes, b.chunks.size() * CHUNK})) {
    decoded_.values.resize(16 * MAX_N);
    decode(decoded_.values.data(), MAX_N, bytes, b.chunks.size(), b.mn_major, type);
  }
  return decoded_.values.data();
}

// ------------------------------------------------------------------------------- arithmetic of FP8

namespace {

constexpr int FP8_K = 32, LANES = 8;
constexpr int NO_EXPONENT = -10000;  // of what does not take part in the largest exponent
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

Ints greater(Ints a, Ints b) { return a > b ? a : b; }
Ints lesser(Ints a, Ints b) { return a < b ? a : b; }

// A code's value, 0 where it is special, and its exponent: that of a significand below 2.
struct Code {
  float value;
  int32_t exponent;
  bool special;  // infinity, NaN
};
template <class T>
constexpr Code decode_fp8(uint8_t bits) {
  const int magnitude = bits & 0x7f, field = magnitude >> T::MANTISSA;
  const int fraction = magnitude & ((1 << T::MANTISSA) - 1);
  const int significand = field == 0 ? fraction : fraction + (1 << T::MANTISSA);
  const int exponent = std::max(field, 1) - T::BIAS;
  const bool special = magnitude > T::LARGEST;
  float value = special ? 0 : static_cast<float>(significand);
  for (int e = exponent - T::MANTISSA; e < 0; ++e) value /= 2;
  for (int e = exponent - T::MANTISSA; e > 0; --e) value *= 2;
  return {bits & 0x80 ? -value : value,
          significand == 0 && !FP8_SUM.zeros_align ? NO_EXPONENT : exponent, special};
}

template <class T>
constexpr std::array<Code, 256> FP8_CODES = [] {
  std::array<Code, 256> codes{};
  for (int bits = 0; bits < 256; ++bits) codes[bits] = decode_fp8<T>(static_cast<uint8_t>(bits));
  return codes;
}();

// An operand's codes by k, COUNT rows or columns. Too much for a thread's stack.
template <int COUNT>
struct Codes {
  // Rows a power of two apart would share a few sets of the cache.
  static constexpr int PITCH = COUNT + 16;
  alignas(32) float value[FP8_K][PITCH];
  alignas(32) int32_t exponent[FP8_K][PITCH];
  uint8_t bits[FP8_K][PITCH];
  bool special[COUNT];  // any of its k

  template <class T>
  void decode(const char* chunks, size_t count) {
    std::fill_n(special, COUNT, false);
    for (size_t i = 0; i < count; ++i)
      for (size_t e = 0; e < CHUNK; ++e) {
        const size_t k = i % 2 * CHUNK + e, at = i / 2;
        bits[k][at] = static_cast<uint8_t>(chunks[i * CHUNK + e]);
        const Code& c = FP8_CODES<T>[bits[k][at]];
        value[k][at] = c.value;
        exponent[k][at] = c.exponent;
        special[at] |= c.special;
      }
  }
};

Ints load(const int32_t* from) {
  Ints v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
Row load(const float* from) {
  Row v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// 2^exponent, of the exponents that a float has.
Row power_of_two(Ints exponent) {
  const Ints bits = (greater(lesser(exponent, Ints{} + 127), Ints{} - 126) + 127) << 23;
  return std::bit_cast<Row>(bits);
}

// v >> by, towards zero; by 31 or more there is nothing left.
Ints cut(Ints v, Ints by) {
  const Ints negative = v >> 31, magnitude = (v ^ negative) - negative;
  return ((magnitude >> lesser(by, Ints{} + 31)) ^ negative) - negative;
}

// sum * 2^exponent as floats, cut towards zero to the fraction that the unit keeps. Sums are below
// 2^24; exponents are those of a float.
Row rounded_sums(Ints sum, Ints exponent) {
  constexpr int DROPPED = (1 << (23 - FP8_SUM.result_bits)) - 1;
  const Ints bits = std::bit_cast<Ints>(__builtin_convertvector(sum, Row)) & ~DROPPED;
  return std::bit_cast<Row>(bits) * power_of_two(exponent);
}

bool none(Ints v) {
  static constexpr Ints NONE{};
  return std::memcmp(&v, &NONE, sizeof v) == 0;
}

// Where infinity or NaN takes part; plain sums tell which of them it is.
float special_sum(float value, const float* a, const float* b) {
  float sum = value;
  for (int k = 0; k < FP8_K; ++k) sum += a[k] * b[k];
  return std::isnan(sum) ? std::bit_cast<float>(0x7fffffff) : sum;
}

// value[row][column] += the products, as TensorSum says, for 16 rows and n columns. The product of two
// values is exact in a float, and so is what a power of two makes of it, but for what is cut anyway.
template <class T>
void multiply_fp8(float* value, int n, const Codes<ROWS>& a, const Codes<MAX_N>& b) {
  static_assert(FP8_SUM.fraction_bits >= 2 * T::MANTISSA && FP8_SUM.fraction_bits <= 16);
  constexpr int AT_ONCE = 4;  // rows, for each of B's values that is loaded
  for (int first = 0; first < ROWS; first += AT_ONCE)
    for (int column = 0; column < n; column += LANES) {
      Ints field[AT_ONCE], largest[AT_ONCE], sum[AT_ONCE];
      Row units[AT_ONCE];
      for (int r = 0; r < AT_ONCE; ++r) {
        const Ints bits = load(reinterpret_cast<const int32_t*>(value + (first + r) * n + column));
        field[r] = bits >> 23 & 0xff;
        const Ints fraction = bits & 0x7fffff;
        const Ints magnitude = field[r] == 0 ? fraction : fraction | 0x800000;
        sum[r] = bits < 0 ? -magnitude : magnitude;
        largest[r] = magnitude == 0 ? Ints{} + NO_EXPONENT : greater(field[r], Ints{} + 1) - 127;
      }
      for (int k = 0; k < FP8_K; ++k) {
        const Ints exponent = load(&b.exponent[k][column]);
        for (int r = 0; r < AT_ONCE; ++r)
          largest[r] = greater(largest[r], exponent + a.exponent[k][first + r]);
      }
      for (int r = 0; r < AT_ONCE; ++r) {
        const Ints sum_exponent = greater(field[r], Ints{} + 1) - 127;
        sum[r] = cut(sum[r], largest[r] - sum_exponent + (23 - FP8_SUM.fraction_bits));
        units[r] = power_of_two(FP8_SUM.fraction_bits - largest[r]);  // in a 1
      }
      for (int k = 0; k < FP8_K; ++k) {
        const Row factor = load(&b.value[k][column]);
        for (int r = 0; r < AT_ONCE; ++r)
          sum[r] += __builtin_convertvector(factor * a.value[k][first + r] * units[r], Ints);
      }
      uint64_t special_columns = 0;
      std::memcpy(&special_columns, &b.special[column], LANES);
      for (int r = 0; r < AT_ONCE; ++r) {
        const int row = first + r;
        float* const to = value + row * n + column;
        const Ints exponent = largest[r] - FP8_SUM.fraction_bits;
        const Ints rare = (field[r] == 0xff) | ((exponent < -126) & (sum[r] != 0));
        if (special_columns == 0 && !a.special[row] && none(rare)) {
          const Row result = rounded_sums(sum[r], exponent);
          std::memcpy(to, &result, sizeof result);
          continue;
        }
        for (int lane = 0; lane < LANES; ++lane) {
          if (a.special[row] || b.special[column + lane] || field[r][lane] == 0xff) {
            float factors[2][FP8_K];
            for (int k = 0; k < FP8_K; ++k) {
              factors[0][k] = static_cast<float>(std::bit_cast<T>(a.bits[k][row]));
              factors[1][k] = static_cast<float>(std::bit_cast<T>(b.bits[k][column + lane]));
            }
            to[lane] = special_sum(to[lane], factors[0], factors[1]);
          } else {
            to[lane] = std::ldexp(rounded_sums(sum[r], Ints{})[lane], exponent[lane]);
          }
        }
      }
    }
}

}  // namespace

template <class T>
void Wgmma::multiply_codes(const Job& job) {
  float* const sums = job.into->value.data();
  if (!job.call.accumulate) std::fill_n(sums, ROWS * job.call.n, 0.0f);
  char bytes[2 * MAX_N * CHUNK];
  gather(bytes, job.a);
  const auto a = std::make_unique_for_overwrite<Codes<ROWS>>();
  a->template decode<T>(bytes, job.a.chunks.size());
  gather(bytes, job.b);
  const bool is_new = decoded_.replace(job.b, job.call.type, {bytes, job.b.chunks.size() * CHUNK});
  if (decoded_.codes == nullptr) decoded_.codes = std::make_shared<Codes<MAX_N>>();
  auto& b = *static_cast<Codes<MAX_N>*>(decoded_.codes.get());
  if (is_new) b.template decode<T>(bytes, job.b.chunks.size());
  multiply_fp8<T>(sums, job.call.n, *a, b);
}

// In the order of k. Products of f16, bf16 and tf32 values are exact in float.
void Wgmma::multiply(const Job& job) {
  if (job.call.type == WgmmaType::e4m3) return multiply_codes<f8e4m3>(job);
  if (job.call.type == WgmmaType::e5m2) return multiply_codes<f8e5m2>(job);
  const int n = job.call.n, k_count = k_of(job.call.type);
  alignas(32) float a[16][ROWS];  // by k
  char bytes[2 * ROWS * CHUNK];
  gather(bytes, job.a);
  decode(a[0], ROWS, bytes, job.a.chunks.size(), job.a.mn_major, job.call.type);
  const float* const b = decoded(job.b, job.call.type);
  float* const value = job.into->value.data();
  if (!job.call.accumulate) std::fill_n(value, ROWS * n, 0.0f);
  for (int column = 0; column < n; column += 8)
    for (int first = 0; first < ROWS; first += 8) {  // 8 rows fit in the registers
      Row sum[8];
      for (int r = 0; r < 8; ++r)
        std::memcpy(&sum[r], value + (first + r) * n + column, sizeof(Row));
      for (int k = 0; k < k_count; ++k) {
        Row row;
        std::memcpy(&row, b + k * MAX_N + column, sizeof(Row));
        for (int r = 0; r < 8; ++r) sum[r] += a[k][first + r] * row;
      }
      for (int r = 0; r < 8; ++r)
        std::memcpy(value + (first + r) * n + column, &sum[r], sizeof(Row));
    }
}

// ------------------------------------------------------------------------------------------------

namespace {

struct WgmmaOperands {
  const WgmmaCall* call;
  float* d;
  uintptr_t pc;
};

constexpr uint32_t FULL_WARP = 0xffffffff;

const Collectives::Op WGMMA{
    "wgmma.mma_async", [](const Collectives::Arrival (&lanes)[WARP], uint32_t) {
      float* d[WARP];
      const auto& call = *static_cast<WgmmaOperands*>(lanes[0].operands)->call;
      for (int l = 0; l < WARP; ++l) {
        const auto& o = *static_cast<WgmmaOperands*>(lanes[l].operands);
        d[l] = o.d;
        if (o.call->a != call.a || o.call->b != call.b || o.call->accumulate != call.accumulate)
          caller("wgmma.mma_async", lanes[l].where).fail("the lanes of a warp disagree");
      }
      Block& block = *this_thread.block;
      block.wgmma.issue(caller("wgmma.mma_async", lanes[0].where), call, d,
                        block.cluster->schedule() != AsyncSchedule::eager_copies,
                        static_cast<WgmmaOperands*>(lanes[0].operands)->pc);
    }};

}  // namespace

uint32_t runtime::tile_address(const void* p, Where where) {
  const Caller c = caller("a wgmma descriptor", where);
  const SharedMemory& shared = c.block->shared;
  if (!shared.in_dynamic(p, CHUNK)) c.fail("{} is not in dynamic shared memory", p);
  if (reinterpret_cast<uintptr_t>(p) % CHUNK != 0) c.fail("{} is not 16-byte aligned", p);
  return static_cast<uint32_t>(shared.dynamic_offset(p));
}

// Fence and commit are the warp's: its first lane's count.
void runtime::wgmma_fence(Where) {
  Block& block = current_block("wgmma.fence");
  if (block.scheduler.lane() == 0) block.wgmma.fence(block.scheduler.warp());
}

void runtime::wgmma_commit(Where where) {
  Block& block = current_block("wgmma.commit_group");
  if (block.scheduler.lane() == 0) block.wgmma.commit(block.scheduler.warp());
  Tracer* const tracer = this_thread.tracer;
  if (tracer != nullptr && tracer->timeline() != nullptr)
    tracer->timeline()->commit(tracer->me(), EventKind::wgmma_commit, where);
}

void runtime::wgmma(const WgmmaCall& call, float* d, Where where) {
  WgmmaOperands o{&call, d, GEMM_SIM_CALLER};
  join_collective(WGMMA, FULL_WARP, where, &o);
}

void runtime::wgmma_wait(int pending, Where where) {
  const Caller c = caller("wgmma.wait_group", where);
  Wgmma& wgmma = this_thread.block->wgmma;
  if (this_thread.tracer != nullptr) this_thread.tracer->sync_release(wgmma.object(c.thread));
  wgmma.wait(c, pending);
  Tracer* const tracer = this_thread.tracer;
  if (tracer == nullptr) return;
  tracer->sync_acquire(wgmma.object(c.thread));
  if (tracer->timeline() != nullptr)
    tracer->timeline()->wait_group(tracer->me(), EventKind::wgmma_wait, where, pending);
}

}  // namespace gemm::sim
