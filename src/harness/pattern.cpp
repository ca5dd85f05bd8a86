#include "harness/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "harness/host_matrix.h"
#include "sim/bf16.h"
#include "sim/half.h"

namespace gemm {
namespace {

double element(const void* matrix, Element type, int64_t i) {
  switch (type) {
    case Element::f16:
      return float(static_cast<const sim::half*>(matrix)[i]);
    case Element::bf16:
      return float(static_cast<const sim::bf16*>(matrix)[i]);
    default:
      return static_cast<const float*>(matrix)[i];
  }
}

struct Wrong {
  int64_t row, col;
  double got, want;
};

// How many of the first columns of A and rows of B give what C holds; -1: no number does.
int64_t summed_to(const Problem& p, Inputs inputs, std::vector<Wrong> wrong) {
  wrong.resize(std::min<size_t>(wrong.size(), 64));
  std::vector<double> sums(wrong.size());
  const Generator generator(p, inputs, SEED);
  for (int k = 0; k < p.K; ++k) {
    bool all = true;
    for (size_t i = 0; i < wrong.size(); ++i) all = all && sums[i] == wrong[i].got;
    if (all) return k;
    for (size_t i = 0; i < wrong.size(); ++i)
      sums[i] += double{generator.stored(Operand::A, wrong[i].row, k)} *
                 generator.stored(Operand::B, k, wrong[i].col);
  }
  return -1;
}

// Lines of C, rows or columns, that hold wrong elements.
struct Lines {
  const char* what;
  std::vector<bool> wrong;

  // "columns 64 to 127 of every 128"; empty: they are not in one half of every so many lines.
  std::string repeated() const {
    const int64_t extent = static_cast<int64_t>(wrong.size());
    for (int64_t period = 4; period * 2 <= extent; period *= 2) {
      int64_t least = period, most = 0, first = extent, last = 0;
      for (int64_t i = 0; i < extent; ++i)
        if (wrong[i]) {
          least = std::min(least, i % period), most = std::max(most, i % period);
          first = std::min(first, i / period), last = i / period;
        }
      if (most - least < period / 2 && first < last)
        return fmt::format("{} {} to {} of every {}", what, least, most, period);
    }
    return "";
  }
  // Whether they are the last ones, all of them, of an extent that is not whole tiles.
  bool at_edge() const {
    const auto first = std::find(wrong.begin(), wrong.end(), true);
    return first != wrong.begin() && std::find(first, wrong.end(), false) == wrong.end() &&
           wrong.size() % 32 != 0;
  }
};

// The reason that comes to mind where wrong elements lie so.
std::string reason(const Problem& p, const std::vector<Wrong>& wrong, int64_t nan,
                   const Lines& rows, const Lines& cols, const HostReference& reference) {
  const auto all = [&](auto&& holds) { return std::ranges::all_of(wrong, holds); };
  const bool everywhere = static_cast<int64_t>(wrong.size()) == int64_t{p.M} * p.N;
  if (nan == static_cast<int64_t>(wrong.size()) && !reads_d(p))
    return everywhere ? NOT_WRITTEN
                      : "these elements are not written, or what lies outside of A and B is read";
  if (p.M == p.N &&
      all([&](const Wrong& w) { return w.got == reference.want[w.col * p.N + w.row]; }))
    return "the result is transposed: rows and columns are exchanged";
  if (all([](const Wrong& w) { return w.got == 0; })) return "they are 0: nothing was added up";
  if (everywhere && all([](const Wrong& w) { return w.want != 0 && w.got == 2 * w.want; }))
    return "each is twice what it should be: something is added up a second time";
  const auto step = [&](auto&& index) {
    return wrong.size() > 1 && all([&](const Wrong& w) { return index(w) % 2 == 1; });
  };
  if (step([](const Wrong& w) { return w.row; })) return "every second row: a row stride is off";
  if (step([](const Wrong& w) { return w.col; }))
    return "every second column: a vector is half used";
  if (rows.at_edge() && cols.wrong[0])
    return "the last rows: a tile at the lower edge is not whole";
  if (cols.at_edge() && rows.wrong[0])
    return "the last columns: a tile at the right edge is not whole";
  return "";
}

}  // namespace

Pattern pattern(const Problem& p, const void* c, Inputs inputs, const HostReference& reference) {
  const bool exact = allowed_error(p, inputs, 0) == 0;
  const MatrixLayout l = layout(p, Operand::C);
  std::vector<Wrong> wrong;
  int64_t nan = 0, rows[2] = {p.M, -1}, cols[2] = {p.N, -1};
  Lines of_rows{"rows", std::vector<bool>(p.M)}, of_cols{"columns", std::vector<bool>(p.N)};
  for (int64_t row = 0; row < p.M; ++row)
    for (int64_t col = 0; col < p.N; ++col) {
      const double got = element(c, info(p.dtype).out, l.first + row * l.ld + col);
      const double want = exact ? round_to(p.dtype, reference.want[row * p.N + col])
                                : reference.want[row * p.N + col];
      const double bound = allowed_error(p, inputs, want);
      if (std::abs(got - want) <= bound || got == want) continue;
      wrong.push_back({row, col, got, want});
      nan += std::isnan(got);
      of_rows.wrong[row] = of_cols.wrong[col] = true;
      rows[0] = std::min(rows[0], row), rows[1] = std::max(rows[1], row);
      cols[0] = std::min(cols[0], col), cols[1] = std::max(cols[1], col);
    }
  Pattern found;
  if (wrong.empty()) return found;
  found.wrong = static_cast<int64_t>(wrong.size());
  found.row = wrong.front().row, found.col = wrong.front().col;
  if (rows[0] > 0 || rows[1] < p.M - 1 || cols[0] > 0 || cols[1] < p.N - 1)
    found.clauses.push_back(fmt::format("all of them are in rows {} to {} and columns {} to {}",
                                        rows[0], rows[1], cols[0], cols[1]));
  for (const Lines& lines : {of_rows, of_cols})
    if (const std::string which = lines.repeated(); !which.empty())
      found.clauses.push_back("they are in " + which);
  if (nan > 0)
    found.clauses.push_back(fmt::format(
        "{} of them are NaN, which C, shared memory and everything around A and B hold before the "
        "kernel starts",
        nan == found.wrong ? "all" : std::to_string(nan)));
  found.reason = reason(p, wrong, nan, of_rows, of_cols, reference);
  if (!exact || p.alpha != 1 || p.beta != 0 || p.op_a == Op::T || p.op_b == Op::T) return found;
  const int64_t k = summed_to(p, inputs, wrong);
  if (k < 0) return found;
  found.clauses.push_back(fmt::format(
      "they are what the first {} of the {} columns of A (and rows of B) give: the rest "
      "of K is left out",
      k, p.K));
  if (k > 0) found.reason = "the last k-tile is left out, as it is not whole";
  return found;
}

std::string sentences(const Pattern& pattern) {
  std::string text;
  for (std::string clause : pattern.clauses) {
    clause[0] = static_cast<char>(std::toupper(clause[0]));
    text += " " + clause + ".";
  }
  return text;
}

}  // namespace gemm
