#include "harness/inspection_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "version.h"

namespace gemm {

std::string repository_path(const std::string& file) {
  // Rungs name files relative to the repository or to a build folder. A user's own program names
  // them by their whole paths.
  if (const size_t up = file.rfind("../"); up != file.npos) return file.substr(up + 3);
  const std::string root = SOURCE_FOLDER "/";
  return file.starts_with(root) ? file.substr(root.size()) : file;
}

const std::vector<std::string>& source_lines(const std::string& file) {
  static std::map<std::string, std::vector<std::string>> files;
  const std::string path = repository_path(file);
  const auto [it, fresh] = files.try_emplace(path);
  if (fresh) {
    std::ifstream in(path.starts_with('/') ? path : SOURCE_FOLDER "/" + path);
    for (std::string line; std::getline(in, line);) it->second.push_back(line);
  }
  return it->second;
}

const char* verb(sim::AccessKind kind) {
  switch (kind) {
    case sim::AccessKind::read:
      return "load";
    case sim::AccessKind::write:
      return "store";
    case sim::AccessKind::atomic:
      return "atomic";
  }
  return "?";
}

namespace {

using sim::AccessKind;
using sim::LineTraffic;
using sim::Traffic;

constexpr int SECTOR = 32;     // bytes
constexpr size_t HOTTEST = 8;  // lines of a table
constexpr size_t FINDINGS = 10;

double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

// Passes of one request, and what they should be: "32.00 (4.00)".
std::string a_request(const Traffic& t) {
  if (t.requests == 0) return "-";
  return fmt::format("{:.2f} ({:.2f})", ratio(t.passes, t.requests), ratio(t.ideal, t.requests));
}

// Times what it should be: "x2.00".
std::string degree(const Traffic& t) {
  return t.requests == 0 ? "-" : fmt::format("x{:.2f}", ratio(t.passes, t.ideal));
}

struct Totals {
  Traffic global_loads, global_stores, shared_loads, shared_stores;
  double flops, global_bytes, shared_bytes;

  explicit Totals(const Inspection& i)
      : global_loads(i.total(true, AccessKind::read)),
        global_stores(i.total(true, AccessKind::write)),
        shared_loads(i.total(false, AccessKind::read)),
        shared_stores(i.total(false, AccessKind::write)),
        flops(gemm::flops(i.problem)) {
    const Traffic global_atomics = i.total(true, AccessKind::atomic),
                  shared_atomics = i.total(false, AccessKind::atomic);
    global_stores += global_atomics;
    shared_stores += shared_atomics;
    global_bytes = static_cast<double>(global_loads.passes + global_stores.passes) * SECTOR;
    shared_bytes = static_cast<double>(shared_loads.bytes + shared_stores.bytes);
  }
};

// A line of a file, trimmed; empty if it cannot be read.
std::string source_text(const sim::SourceLine& at) {
  const std::vector<std::string>& lines = source_lines(at.file);
  if (at.line < 1 || at.line > static_cast<int>(lines.size())) return "";
  const std::string& text = lines[at.line - 1];
  const size_t begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin);
}

void print_lines(const Inspection& i, bool global) {
  std::vector<LineTraffic> lines;
  int64_t all = 0;
  for (const LineTraffic& l : i.lines)
    if (l.global == global) {
      lines.push_back(l);
      all += l.traffic.passes;
    }
  if (lines.empty()) return;
  std::stable_sort(lines.begin(), lines.end(), [](const LineTraffic& a, const LineTraffic& b) {
    return a.traffic.passes > b.traffic.passes;
  });
  const char* const passes = global ? "sectors" : "wavefronts";
  fmt::print("\n  {:<12} {:>11} {:>12}  {:<15} {:>6} {:>6}  {:<27} {}\n",
             global ? "global" : "shared", "requests", passes, "each (ideal)", "degree", "share",
             "line", "source");
  for (size_t n = 0; n < std::min(lines.size(), HOTTEST); ++n) {
    const LineTraffic& l = lines[n];
    const Traffic& t = l.traffic;
    fmt::print("  {:<12} {:>11} {:>12}  {:<15} {:>6} {:>5.1f}%  {:<27} {}\n",
               fmt::format("{} {}", verb(l.kind), l.memory), t.requests, t.passes, a_request(t),
               degree(t), 100 * ratio(t.passes, all), place(l.line), source_text(l.line));
    if (l.helper.line != 0)
      fmt::print("{:71} in {:<24} {}\n", "", place(l.helper), source_text(l.helper));
  }
  if (lines.size() > HOTTEST) fmt::print("  ... and {} more lines\n", lines.size() - HOTTEST);
}

}  // namespace

void InspectionTable::add(const Inspection& i) {
  const Problem& p = i.problem;
  const std::string group = fmt::format("{} {} {}", to_string(p.dtype), ops_name(p), shape_name(p));
  if (group != group_) {
    group_ = group;
    fmt::print("\n{}  alpha {:g} beta {:g}  {:.4g} MFLOP\n", group, p.alpha, p.beta,
               flops(p) * 1e-6);
    fmt::print("{:5} {:>12} {:>8} |{:-^53}|{:-^59}|\n", "", "", "",
               " global: sectors a request (ideal) ", " shared: bank-conflict degree ");
    fmt::print(
        "{:<5} {:>12} {:>8} |{:>11} {:>14} {:>15} {:>10} |{:>11} {:>7} {:>10} {:>7} {:>9} {:>10} | "
        "{}\n",
        "rung", "blocks", "barriers", "loads", "each", "stores each", "FLOP/byte", "loads",
        "degree", "stores", "degree", "MB", "FLOP/byte", "checks");
  }
  fmt::print("{:<5} ", i.rung.id);
  if (!i.skipped.empty()) {
    fmt::print("nothing to trace: {}\n", i.skipped);
    return;
  }
  const Totals t(i);
  fmt::print(
      "{:>12} {:>8} |{:>11} {:>14} {:>15} {:>10.2f} |{:>11} {:>7} {:>10} {:>7} {:>9.4g} {:>10} | "
      "{}\n",
      i.traced == i.blocks ? fmt::format("all {}", i.blocks)
                           : fmt::format("{} of {}", i.traced, i.blocks),
      i.barriers, t.global_loads.requests, a_request(t.global_loads), a_request(t.global_stores),
      ratio(t.flops, t.global_bytes), t.shared_loads.requests, degree(t.shared_loads),
      t.shared_stores.requests, degree(t.shared_stores), t.shared_bytes * 1e-6,
      t.shared_bytes == 0 ? "-" : fmt::format("{:.2f}", t.flops / t.shared_bytes),
      (i.findings.empty() ? "ok" : fmt::format("{} WRONG", i.findings.size())) +
          (i.variant.empty() ? "" : "  " + i.variant));
  for (size_t n = 0; n < std::min(i.findings.size(), FINDINGS); ++n) {
    const sim::Finding& f = i.findings[n];
    fmt::print("      {}{}: {}\n", f.check, f.count > 1 ? fmt::format(" ({} times)", f.count) : "",
               f.what);
  }
  if (i.findings.size() > FINDINGS)
    fmt::print("      ... and {} more\n", i.findings.size() - FINDINGS);
  std::fflush(stdout);
}

void print_lines(const Inspection& i) {
  if (i.lines.empty()) return;
  const Problem& p = i.problem;
  fmt::print("\n{} {} {} {}: the lines that move the most\n", i.rung.name, to_string(p.dtype),
             ops_name(p), shape_name(p));
  print_lines(i, true);
  print_lines(i, false);
}

namespace {

// Lanes that take no part are null.
nlohmann::ordered_json to_json(const sim::FirstRequest& r) {
  nlohmann::ordered_json j{{"line", place(r.line)}};
  if (r.helper.line != 0) j["helper"] = place(r.helper);
  j["access"] = verb(r.kind);
  j["memory"] = r.memory;
  j["space"] = r.global ? "global" : "shared";
  j["width"] = r.bytes;
  j[r.global ? "sectors" : "wavefronts"] = r.passes;
  j[r.global ? "ideal_sectors" : "ideal_wavefronts"] = r.ideal;
  for (size_t lane = 0; lane < r.offset.size(); ++lane) {
    const bool takes_part = (r.lanes >> lane & 1) != 0;
    j["offsets"].push_back(takes_part ? nlohmann::ordered_json(r.offset[lane]) : nullptr);
    if (!r.global)
      j["wavefront_of_lane"].push_back(takes_part ? nlohmann::ordered_json(r.wavefront[lane])
                                                  : nullptr);
  }
  return j;
}

}  // namespace

void print_requests(const Inspection& i) {
  if (!i.watched) return;
  const Problem& p = i.problem;
  fmt::print("\n{} {} {} {}: the first request of each line by warp {} of block {}\n", i.rung.name,
             to_string(p.dtype), ops_name(p), shape_name(p), i.watched->warp, i.watched->block);
  for (const sim::FirstRequest& r : i.requests) {
    fmt::print("\n  {:<12} {} bytes a lane, {} {} ({})  {}  {}\n",
               fmt::format("{} {}", verb(r.kind), r.memory), r.bytes, r.passes,
               r.global ? "sectors" : "wavefronts", r.ideal, place(r.line), source_text(r.line));
    constexpr size_t ROW = 16;  // lanes
    for (size_t lane = 0; lane < r.offset.size(); ++lane) {
      if (lane % ROW == 0) fmt::print("  lanes {:>2}-{:<2} at", lane, lane + ROW - 1);
      fmt::print(" {:>6}", (r.lanes >> lane & 1) != 0 ? std::to_string(r.offset[lane]) : "-");
      if (lane % ROW == ROW - 1) fmt::print("\n");
    }
  }
}

nlohmann::ordered_json to_json(const Inspection& i) {
  const Problem& p = i.problem;
  nlohmann::ordered_json j;
  j["name"] =
      fmt::format("{}/{}/{}/{}", i.rung.name, to_string(p.dtype), ops_name(p), shape_name(p));
  j["run_type"] = "iteration";
  j["m"] = p.M, j["n"] = p.N, j["k"] = p.K;
  if (!i.skipped.empty()) {
    j["error_occurred"] = true;
    j["error_message"] = "skipped: " + i.skipped;
    return j;
  }
  if (!i.variant.empty()) j["label"] = "variant " + i.variant;
  const Totals t(i);
  j["blocks"] = i.blocks;
  j["traced_blocks"] = i.traced;
  j["threads_per_block"] = i.threads_per_block;
  j["barriers"] = i.barriers;
  const auto traffic = [](const Traffic& t, const char* passes) {
    return nlohmann::ordered_json{{"requests", t.requests},
                                  {"bytes", t.bytes},
                                  {passes, t.passes},
                                  {std::string("ideal_") + passes, t.ideal},
                                  {"repeated_requests", t.repeated}};
  };
  j["flops"] = t.flops;
  j["global_loads"] = traffic(t.global_loads, "sectors");
  j["global_stores"] = traffic(t.global_stores, "sectors");
  j["shared_loads"] = traffic(t.shared_loads, "wavefronts");
  j["shared_stores"] = traffic(t.shared_stores, "wavefronts");
  j["global_bytes"] = t.global_bytes;
  j["shared_bytes"] = t.shared_bytes;
  j["flop_per_global_byte"] = ratio(t.flops, t.global_bytes);
  j["flop_per_shared_byte"] = ratio(t.flops, t.shared_bytes);
  j["lines"] = nlohmann::ordered_json::array();
  for (const LineTraffic& l : i.lines) {
    nlohmann::ordered_json line{{"line", place(l.line)}};
    if (l.helper.line != 0) line["helper"] = place(l.helper);
    line["access"] = verb(l.kind);
    line["memory"] = l.memory;
    line["space"] = l.global ? "global" : "shared";
    line.update(traffic(l.traffic, l.global ? "sectors" : "wavefronts"));
    line["source"] = source_text(l.line);
    j["lines"].push_back(line);
  }
  if (i.watched) {
    j["warp"] = {{"block", i.watched->block}, {"warp", i.watched->warp}};
    j["warp"]["requests"] = nlohmann::ordered_json::array();
    for (const sim::FirstRequest& r : i.requests) j["warp"]["requests"].push_back(to_json(r));
  }
  j["findings"] = nlohmann::ordered_json::array();
  for (const sim::Finding& f : i.findings)
    j["findings"].push_back({{"check", f.check}, {"what", f.what}, {"count", f.count}});
  return j;
}

}  // namespace gemm
