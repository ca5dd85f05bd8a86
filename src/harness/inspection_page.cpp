#include "harness/inspection_page.h"

#include <fmt/format.h>

#include "harness/inspection_report.h"
#include "page/page_template.h"
#include "version.h"

namespace gemm {
namespace {

using nlohmann::ordered_json;

// In the order of sim::EventKind.
constexpr const char* EVENT_KINDS[] = {"global_load",    "global_store",    "shared_load",
                                       "shared_store",   "atomic",          "mma",
                                       "barrier",        "cp_async",        "cp_async_commit",
                                       "cp_async_wait",  "mbarrier_arrive", "mbarrier_wait",
                                       "tma_load",       "tma_store",       "tma_commit",
                                       "tma_wait",       "wgmma",           "wgmma_commit",
                                       "wgmma_wait",     "named_arrive",    "named_sync",
                                       "cluster_arrive", "cluster_wait",    "mistake"};
static_assert(std::size(EVENT_KINDS) == static_cast<size_t>(sim::EventKind::mistake) + 1);
constexpr const char* BARRIER_KINDS[] = {"block", "mbarrier", "named", "cluster"};

// Puts `with` in the place of the one `mark` in `text`.
void fill(std::string& text, const std::string& mark, const std::string& with) {
  text.replace(text.find(mark), mark.size(), with);
}

ordered_json to_json(const sim::Traffic& t) {
  return {{"requests", t.requests},
          {"bytes", t.bytes},
          {"passes", t.passes},
          {"ideal", t.ideal},
          {"repeated", t.repeated}};
}

ordered_json totals(const Inspection& i) {
  ordered_json all;
  for (const bool global : {true, false}) {
    sim::Traffic stores = i.total(global, sim::AccessKind::write);
    stores += i.total(global, sim::AccessKind::atomic);
    const std::string space = global ? "global" : "shared";
    all[space + "_loads"] = to_json(i.total(global, sim::AccessKind::read));
    all[space + "_stores"] = to_json(stores);
  }
  return all;
}

}  // namespace

InspectionPage::InspectionPage(ordered_json context)
    : data_{{"version", GEMM_VERSION},
            {"context", std::move(context)},
            {"files", ordered_json::array()},
            {"inspections", ordered_json::array()}} {}

int InspectionPage::file(const sim::SourceLine& line) {
  if (line.file.empty()) return -1;
  const std::string path = repository_path(line.file);
  ordered_json& files = data_["files"];
  for (size_t i = 0; i < files.size(); ++i)
    if (files[i]["path"] == path) return static_cast<int>(i);
  const std::vector<std::string>& lines = source_lines(line.file);
  if (lines.empty()) return -1;
  files.push_back({{"path", path}, {"lines", lines}});
  return static_cast<int>(files.size()) - 1;
}

// [file, line]; null: unknown.
ordered_json InspectionPage::place(const sim::SourceLine& line) {
  const int index = line.line == 0 ? -1 : file(line);
  return index < 0 ? ordered_json(nullptr) : ordered_json::array({index, line.line});
}

ordered_json InspectionPage::timeline(const sim::Timeline& t) {
  ordered_json j{{"block", t.block},
                 {"ctas", t.ctas},
                 {"warps", t.warps},
                 {"cut", t.cut},
                 {"kinds", EVENT_KINDS},
                 {"barriers", ordered_json::array()},
                 {"events", ordered_json::array()}};
  for (const sim::TimelineBarrier& b : t.barriers)
    j["barriers"].push_back({{"kind", BARRIER_KINDS[static_cast<size_t>(b.kind)]},
                             {"cta", b.cta},
                             {"place", b.place},
                             {"count", b.count},
                             {"takes_bytes", b.takes_bytes},
                             {"completed", b.completed}});
  // Rows of numbers: names in each of thousands would be most of the page.
  j["columns"] = {"kind",  "cta",    "warp",  "line",  "helper", "begin", "end", "done",
                  "count", "object", "phase", "bytes", "memory", "row",   "col"};
  for (const sim::TimelineEvent& e : t.events)
    j["events"].push_back({static_cast<int>(e.kind), e.cta, e.warp, place(e.line), place(e.helper),
                           e.begin, e.end, e.done, e.count, e.object, e.phase, e.bytes, e.memory,
                           e.row, e.col});
  return j;
}

void InspectionPage::add(const Inspection& i) {
  const Problem& p = i.problem;
  ordered_json j{{"id", i.rung.id},        {"name", i.rung.name},
                 {"idea", i.rung.idea},    {"dtype", to_string(p.dtype)},
                 {"op", ops_name(p)},      {"shape", shape_name(p)},
                 {"flops", flops(p)},      {"blocks", i.blocks},
                 {"traced", i.traced},     {"threads", i.threads_per_block},
                 {"barriers", i.barriers}, {"totals", totals(i)}};
  if (!i.variant.empty()) j["variant"] = i.variant;
  j["file"] = file({SOURCE_FOLDER "/" + i.rung.file, 1});
  for (const char* list : {"matrices", "lines", "requests", "findings"})
    j[list] = ordered_json::array();
  for (const sim::Matrix& m : i.matrices)
    j["matrices"].push_back({{"name", m.name},
                             {"rows", m.rows},
                             {"cols", m.cols},
                             {"ld", m.ld},
                             {"element", m.element}});
  for (const sim::LineTraffic& l : i.lines) {
    ordered_json line{{"at", place(l.line)},
                      {"helper", place(l.helper)},
                      {"access", verb(l.kind)},
                      {"memory", l.memory},
                      {"space", l.global ? "global" : "shared"}};
    line.update(to_json(l.traffic));
    j["lines"].push_back(line);
  }
  for (const sim::FirstRequest& r : i.requests) {
    ordered_json request{{"at", place(r.line)},
                         {"helper", place(r.helper)},
                         {"access", verb(r.kind)},
                         {"memory", r.memory},
                         {"space", r.global ? "global" : "shared"},
                         {"warp", r.warp},
                         {"nth", r.repeats},
                         {"width", r.bytes},
                         {"lanes", r.lanes},
                         {"passes", r.passes},
                         {"ideal", r.ideal},
                         {"offsets", r.offset}};
    if (!r.global) {
      request["first_bank"] = r.first_bank;
      request["wavefronts"] = r.wavefront;
    }
    j["requests"].push_back(request);
  }
  for (const sim::Finding& f : i.findings)
    j["findings"].push_back({{"check", f.check},
                             {"what", f.what},
                             {"count", f.count},
                             {"block", f.block},
                             {"line", place(f.line)},
                             {"other", place(f.other)}});
  j["timeline"] = timeline(i.timeline);
  data_["inspections"].push_back(std::move(j));
}

std::string InspectionPage::text() const {
  std::string data = data_.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  // In a script element nothing may look like its end.
  for (size_t at = 0; (at = data.find('<', at)) != data.npos;) data.replace(at, 1, "\\u003c");
  std::string title;
  for (const ordered_json& i : data_["inspections"])
    if (const std::string id = i["id"]; title.find(id + " ") == title.npos) title += id + " ";
  std::string page = PAGE_HTML;
  fill(page, "{{title}}", title + "under the microscope");
  fill(page, "{{style}}", PAGE_CSS);
  fill(page, "{{script}}", PAGE_JS);
  fill(page, "{{data}}", data);
  return page;
}

}  // namespace gemm
