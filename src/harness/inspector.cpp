#include "harness/inspector.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "harness/verify.h"

namespace gemm {
namespace {

constexpr Operand OPERANDS[] = {Operand::A, Operand::B, Operand::C};
constexpr const char* NAMES[] = {"A", "B", "C"};
constexpr int C = 2;  // its index
// Between the matrices: what strays from one does not come to lie in another.
constexpr size_t APART = 1 << 20, ALIGNMENT = 256;

// Blocks whose tiles have one shape: they do the same work at other places.
struct Kind {
  int64_t blocks;
  std::vector<int64_t> traced;
  int64_t elements;  // of C that each must write for this to be true; -1: unknown
};

// n of 0 .. count - 1, evenly spaced, with the first and, if n > 1, the last.
std::vector<int64_t> spread(int64_t count, int64_t n) {
  n = std::clamp<int64_t>(n, 1, count);
  std::vector<int64_t> some;
  for (int64_t i = 0; i < n; ++i) some.push_back(n == 1 ? 0 : i * (count - 1) / (n - 1));
  return some;
}

std::vector<Kind> unknown_kinds(int64_t grid, int64_t wanted) {
  return {{grid, spread(grid, wanted), -1}};
}

// The kinds of blocks in a grid whose first block wrote `first`. If its tiles cover C row by row:
// whole tiles, and those that the right edge, the lower edge or both cut. Else one kind of blocks,
// about which nothing is known.
std::vector<Kind> kinds(const Problem& p, const sim::Written& first, int64_t grid, int64_t wanted) {
  const int64_t bm = first.row_end, bn = first.col_end;
  if (first.elements != bm * bn || first.elements == 0) return unknown_kinds(grid, wanted);
  const int64_t tiles_m = (p.M + bm - 1) / bm, tiles_n = (p.N + bn - 1) / bn;
  if (tiles_m * tiles_n != grid) return unknown_kinds(grid, wanted);
  const int64_t whole_m = p.M / bm, whole_n = p.N / bn, rest_m = p.M % bm, rest_n = p.N % bn;
  std::vector<Kind> kinds;
  if (rest_n != 0) kinds.push_back({whole_m, {whole_n}, bm * rest_n});
  if (rest_m != 0) kinds.push_back({whole_n, {whole_m * tiles_n}, rest_m * bn});
  if (rest_m != 0 && rest_n != 0) kinds.push_back({1, {grid - 1}, rest_m * rest_n});
  Kind whole{whole_m * whole_n, {}, bm * bn};
  for (const int64_t i : spread(whole.blocks, wanted - static_cast<int64_t>(kinds.size())))
    whole.traced.push_back(i / whole_n * tiles_n + i % whole_n);
  kinds.push_back(whole);
  return kinds;
}

// What traces of several kinds of blocks come to.
class Sums {
 public:
  // Adds the trace of `traced` blocks of the main launch as that of `blocks` blocks. Those of
  // smaller launches stand for all that the launch has, over all traces.
  void add(const sim::Trace& trace, int64_t blocks, int64_t traced) {
    for (const sim::LineTraffic& l : trace.lines) {
      const Line line{l.line, l.helper, l.kind, l.global, l.memory};
      if (l.launch == trace.main)
        lines_[line] += scaled(l.traffic, blocks, traced);
      else
        others_[l.launch].lines[line] += l.traffic;
    }
    for (size_t i = 0; i < trace.launches.size(); ++i)
      if (static_cast<int>(i) != trace.main) {
        others_[static_cast<int>(i)].grid = trace.launches[i].stats.blocks;
        others_[static_cast<int>(i)].traced += trace.launches[i].traced;
      }
    for (const sim::Finding& f : trace.findings)
      if (std::find(findings_.begin(), findings_.end(), f) == findings_.end())
        findings_.push_back(f);
    traced_ += trace.traced;
    barriers_ = std::max(barriers_, trace.barriers);
  }
  void move_to(Inspection& result) {
    for (const auto& [launch, other] : others_)
      for (const auto& [line, traffic] : other.lines)
        lines_[line] += scaled(traffic, other.grid, other.traced);
    for (const auto& [key, traffic] : lines_) {
      const auto& [line, helper, kind, global, memory] = key;
      result.lines.push_back({line, helper, kind, global, memory, 0, traffic});
    }
    result.findings = std::move(findings_);
    result.traced = traced_;
    result.barriers = barriers_;
  }

 private:
  using Line = std::tuple<sim::SourceLine, sim::SourceLine, sim::AccessKind, bool, std::string>;
  struct Other {
    int64_t grid = 0, traced = 0;
    std::map<Line, sim::Traffic> lines;
  };

  static sim::Traffic scaled(const sim::Traffic& t, int64_t blocks, int64_t traced) {
    const auto scale = [&](int64_t x) { return (x * blocks + traced / 2) / traced; };
    return {scale(t.requests), scale(t.bytes), scale(t.passes), scale(t.ideal), scale(t.repeated)};
  }

  std::map<Line, sim::Traffic> lines_;
  std::map<int, Other> others_;  // by launch
  std::vector<sim::Finding> findings_;
  int64_t traced_ = 0, barriers_ = 0;
};

using Blocks = std::vector<int64_t>;

}  // namespace

sim::Traffic Inspection::total(bool global, sim::AccessKind kind) const {
  sim::Traffic sum;
  for (const sim::LineTraffic& l : lines)
    if (l.global == global && l.kind == kind) sum += l.traffic;
  return sum;
}

int64_t default_traced_blocks(const Problem& p) {
  return int64_t{p.M} * p.N * p.K * p.batch <= int64_t{320} * 320 * 320 ? 0 : 5;
}

Inspector::Inspector(const Problem& problem, int pad)
    : device_(make_sim_device()),
      problem_(problem),
      padded_([&] {
        Problem padded = problem;
        padded.ld_pad += pad;
        return padded;
      }()),
      operands_(*device_, padded_) {
  size_t bytes = 0;
  for (int i = 0; i < 3; ++i) {
    offset_[i] = bytes;
    bytes += (layout(padded_, OPERANDS[i]).bytes + APART) / ALIGNMENT * ALIGNMENT;
  }
  memory_ = static_cast<char*>(device_->allocate(bytes));
  std::memset(memory_, 0, bytes);  // no kernel's control flow looks at values
  operands_.fill(padded_, Inputs::uniform, SEED);
}

Inspector::~Inspector() { device_->release(memory_); }

GemmCall Inspector::call() const {
  GemmCall call =
      make_call(padded_, memory_ + offset_[0], memory_ + offset_[1], memory_ + offset_[2]);
  operands_.attach(padded_, call);
  return call;
}

std::vector<sim::Matrix> Inspector::matrices() const {
  const GemmCall call = this->call();
  const void* const first[] = {call.A, call.B, call.C};
  // An epilogue pass, which a rung may have, reads the products in C and writes C again.
  const bool has_pass = !call.epilogue.is_plain();
  std::vector<sim::Matrix> all;
  const auto add = [&](Operand operand, const char* name, const void* allocation, const void* at) {
    const MatrixLayout l = layout(padded_, operand);
    const bool is_c = operand == Operand::C;
    all.push_back({.name = name,
                   .allocation = allocation,
                   .allocation_bytes = l.bytes,
                   .first = at,
                   .rows = l.all_rows(),
                   .cols = l.cols,
                   .ld = l.ld,
                   .element = static_cast<int>(element_size(padded_, operand)),
                   .readable = !is_c || reads_d(padded_) || has_pass,
                   .writable = is_c,
                   .written_once = is_c && !has_pass});
  };
  for (int i = 0; i < 3; ++i) add(OPERANDS[i], NAMES[i], memory_ + offset_[i], first[i]);
  operands_.for_each([&](Operand operand, const char* name, const void* allocation) {
    add(operand, name, allocation,
        static_cast<const char*>(allocation) +
            layout(padded_, operand).first * element_size(padded_, operand));
  });
  all.insert(all.end(), inputs_.begin(), inputs_.end());
  return all;
}

sim::Trace Inspector::trace(const Rung& rung, sim::TraceOptions options) {
  options.matrices = matrices();
  return sim::trace(options, [&] { rung.launch(call()); });
}

sim::Trace Inspector::trace(const Rung& rung, std::vector<int64_t> blocks) {
  sim::TraceOptions options;
  options.blocks = std::move(blocks);
  return trace(rung, std::move(options));
}

sim::Written Inspector::written(const Rung& rung, int64_t block) {
  return trace(rung, {block}).written[C];
}

std::vector<int> Inspector::owners(const Rung& rung, int64_t block) {
  sim::TraceOptions options;
  options.blocks = {block};
  options.owners = true;
  return std::move(trace(rung, std::move(options)).owners[C]);
}

Inspection Inspector::inspect(const Rung& rung, int64_t wanted,
                              std::optional<sim::WarpId> watched) {
  Inspection result;
  result.rung = rung;
  result.problem = problem_;
  result.skipped = unmet_need(rung, problem_, *device_);
  if (result.skipped.empty()) count(result, wanted);
  if (result.skipped.empty() && watched) {
    result.watched = watched;
    sim::TraceOptions options;
    options.blocks = {watched->block};
    options.watched = watched;
    result.requests = trace(rung, std::move(options)).requests;
  }
  return result;
}

void Inspector::look_closer(Inspection& inspection, int64_t block, int each) {
  sim::TraceOptions options;
  options.blocks = {block};
  options.watched = {block, sim::WarpId::ALL};
  options.first_requests = each;
  options.timeline = true;
  sim::Trace trace = this->trace(inspection.rung, std::move(options));
  inspection.requests = std::move(trace.requests);
  inspection.timeline = std::move(trace.timeline);
  inspection.matrices = matrices();
}

// Fills in all but the requests.
void Inspector::count(Inspection& result, int64_t wanted) {
  const Rung& rung = result.rung;
  // Some blocks: first one alone, to learn what its tile is.
  const sim::Trace first = trace(rung, wanted == 0 ? Blocks() : Blocks{0});
  result.blocks = first.grid;
  result.threads_per_block = first.threads_per_block;
  if (first.launches.empty()) {
    result.skipped = problem_.M == 0 || problem_.N == 0
                         ? "nothing to compute"
                         : "no kernel of its own: the library that it calls is not traced";
    return;
  }
  if (wanted == 0 || first.failed_block >= 0) {
    Sums all;
    all.add(first, 1, 1);
    all.move_to(result);
    return;
  }
  const auto sample = [&](const std::vector<Kind>& kinds) -> std::optional<Sums> {
    Sums sums;
    for (const Kind& k : kinds) {
      const sim::Trace t = trace(rung, k.traced);
      const bool as_thought = k.elements < 0 || t.written[C].elements == k.elements * t.traced;
      if (!as_thought && t.findings.empty()) return std::nullopt;
      sums.add(t, k.blocks, static_cast<int64_t>(k.traced.size()));
    }
    return sums;
  };
  std::optional<Sums> sums = sample(kinds(problem_, first.written[C], first.grid, wanted));
  if (!sums) sums = sample(unknown_kinds(first.grid, wanted));
  sums->move_to(result);
}

}  // namespace gemm
