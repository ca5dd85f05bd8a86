#include "sim/inspect.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "sim/diagnosis.h"
#include "sim/source_lines.h"
#include "sim/tracer.h"

namespace gemm::sim {

namespace {

const char* name(Check check) {
  switch (check) {
    case Check::race:
      return "race";
    case Check::uninitialised:
      return "uninitialised read";
    case Check::pending_copy:
      return "missing cp.async wait";
    case Check::pending_load:
      return "missing mbarrier wait";
    case Check::out_of_bounds:
      return "out of bounds";
    case Check::misaligned:
      return "misaligned access";
    case Check::forbidden:
      return "forbidden access";
    case Check::unwritten:
      return "unwritten";
    case Check::written_twice:
      return "written twice";
    case Check::unfinished_store:
      return "unfinished TMA store";
    case Check::proxy_fence:
      return "missing proxy fence";
    case Check::failed:
      return "failed";
  }
  return "?";
}

std::vector<LineTraffic> by_line(const TraceSession& session) {
  // Functions that are compiled several times, and code that is, have several pcs for one line.
  std::map<std::tuple<SourceLine, SourceLine, AccessKind, bool, std::string, int>, Traffic> sums;
  for (const auto& [key, traffic] : session.traffic) {
    const Place p = place_of(key.pc);
    sums[{p.line, p.helper, key.kind, !is_shared(key.target), session.name(key.target),
          key.launch}] += traffic;
  }
  std::vector<LineTraffic> lines;
  for (const auto& [key, traffic] : sums) {
    const auto& [line, helper, kind, global, memory, launch] = key;
    lines.push_back({line, helper, kind, global, memory, launch, traffic});
  }
  return lines;
}

// The requests of a line: of several instructions, those of the one that the warp came to first.
std::vector<FirstRequest> requests_by_line(const TraceSession& session) {
  std::map<std::tuple<SourceLine, SourceLine, AccessKind, bool, std::string, int>,
           std::vector<FirstRequest>>
      firsts;
  for (const auto& [key, request] : session.requests) {
    const Place p = place_of(key.pc);
    FirstRequest named = request;
    named.line = p.line, named.helper = p.helper, named.kind = key.kind;
    named.global = !is_shared(key.target), named.memory = session.name(key.target);
    std::vector<FirstRequest>& some =
        firsts[{p.line, p.helper, named.kind, named.global, named.memory, named.warp}];
    if (static_cast<int64_t>(some.size()) >= session.options.first_requests) continue;
    named.repeats = static_cast<int64_t>(some.size());
    some.push_back(named);
  }
  std::vector<FirstRequest> requests;
  for (const auto& [key, some] : firsts) requests.insert(requests.end(), some.begin(), some.end());
  return requests;
}

// In the order of checks, then of lines: pcs differ from build to build.
std::vector<Finding> by_check(const Findings& raw) {
  struct Placed {
    RawFinding finding;
    SourceLine line, other;
  };
  std::map<std::tuple<Check, std::string, std::string>, Placed> sorted;
  for (const auto& [key, finding] : raw.all()) {
    const auto& [check, pc, other_pc] = key;
    const Place at = place_of(pc), other = place_of(other_pc);
    const auto [it, fresh] = sorted.try_emplace({check, to_string(at), to_string(other)},
                                                Placed{finding, at.line, other.line});
    if (!fresh) it->second.finding.merge(finding);
  }
  std::vector<Finding> findings;
  for (const auto& [key, placed] : sorted) {
    const auto& [check, line, other] = key;
    findings.push_back({name(check),
                        fmt::format(fmt::runtime(placed.finding.text), fmt::arg("line", line),
                                    fmt::arg("other", other)),
                        placed.finding.count, placed.line, placed.other,
                        check == Check::unwritten ? -1 : placed.finding.block});
  }
  return findings;
}

}  // namespace

Trace trace(const TraceOptions& options, const std::function<void()>& run) {
  if (options.timeline && options.blocks.size() != 1) fail("a timeline is of one block's cluster");
  TraceSession session(options);
  set_session(&session);
  std::string failure;
  try {
    run();
  } catch (const Error& e) {
    failure = e.what();
  }
  set_session(nullptr);

  Trace& result = session.result;
  result.written = session.written;
  if (options.owners)
    for (const auto& writers : session.writers)
      result.owners.push_back(writers == nullptr ? std::vector<int>() : writers->threads());
  if (failure.empty()) {
    for (size_t i = 0; i < options.matrices.size(); ++i)
      if (session.writers[i] != nullptr && !result.launches.empty())
        session.writers[i]->check(options.matrices[i], options.blocks.empty(), session.findings);
    result.lines = by_line(session);
    result.requests = requests_by_line(session);
    result.findings = by_check(session.findings);
  } else {
    // Which blocks above the failed one have run is chance, and so is all that was counted.
    result.findings =
        by_check(session.in_order ? session.findings : session.findings.up_to(result.failed_block));
    for (Finding& f : result.findings) f.count = 0;
    result.findings.push_back({name(Check::failed), failure, 0, {}, {}, result.failed_block});
  }
  if (const auto it = session.timelines.find(result.main); it != session.timelines.end()) {
    const int threads = result.threads_per_block;
    result.timeline = it->second.result(options.blocks[0], (threads + WARP - 1) / WARP);
  }
  return std::move(result);
}

}  // namespace gemm::sim
