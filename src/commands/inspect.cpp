#include "commands/inspect.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "commands/jobs.h"
#include "commands/signals.h"
#include "harness/errors.h"
#include "harness/inspection_page.h"
#include "harness/inspection_report.h"
#include "harness/output_file.h"
#include "harness/verify.h"
#include "version.h"

namespace gemm {
namespace {

constexpr size_t FEW = 4;  // inspections whose lines are shown
constexpr size_t MOST_ON_A_PAGE = 8;
constexpr int PAGE_PAD = 64;  // multiples of 128 bytes between rows, as a GEMM's usually are
constexpr int EACH = 3;       // requests of an instruction that a page shows

nlohmann::ordered_json context(const Options& o) {
  return {{"command_line", command_line(o)},
          {"git_revision", GIT_REVISION},
          {"backend", "simulator, traced"},
          {"build", BUILD_DESCRIPTION}};
}

// The job under the microscope: its rung, as one of its variants where it has several.
Inspection inspect(const Options& o, const Job& job, Inspector& inspector, const Device& device) {
  Rung rung = rung_of(job);
  std::string variant;
  if (!rung.variants.empty() && unmet_need(rung, job.problem, device).empty()) {
    const ExplainedPlan planned = choose(job, {}, device);
    variant = planned.name;
    rung = as_planned(*job.rung, planned);
  }
  Inspection i = inspector.inspect(
      rung, o.traced_blocks.value_or(default_traced_blocks(job.problem)), o.watched);
  i.variant = variant;
  return i;
}

Inspection out_of_memory(const Job& job) {
  Inspection i;
  i.rung = *job.rung, i.problem = job.problem, i.skipped = "out of memory";
  return i;
}

// `kept`: where the results of the jobs before it are; empty: there are none.
void refuse_missing_warp(const Inspection& i, const Job& job, const std::string& kept) {
  const int warps = (i.threads_per_block + 31) / 32;
  if (i.skipped.empty() && i.watched && (i.watched->block >= i.blocks || i.watched->warp >= warps))
    throw UsageError(fmt::format("no warp {} of block {} in {}: it has {} {} of {} {}{}",
                                 i.watched->warp, i.watched->block, job.name(), i.blocks,
                                 i.blocks == 1 ? "block" : "blocks", warps,
                                 warps == 1 ? "warp" : "warps", kept.empty() ? "" : "; " + kept));
}

// The block that a page looks into: the one asked for, or where a mistake was made.
int64_t block_of_interest(const Inspection& i, const Options& o) {
  if (o.watched) return o.watched->block;
  for (const sim::Finding& f : i.findings)
    if (f.block >= 0) return f.block;
  return 0;
}

}  // namespace

ExitStatus inspect(const Options& o) {
  for (const DType dtype : o.dtypes)
    if (is_second_type(dtype))
      throw UsageError(fmt::format(
          "--inspect has no {0}: its kernels are f16's or e4m3's code and move as many bytes; want "
          "--dtype f16 or e4m3",
          to_string(dtype)));
  const std::unique_ptr<Device> device = make_sim_device();
  const std::vector<Job> jobs = plan(o, Backend::sim_traced);
  std::optional<OutputFile> json, html;
  if (!o.json.empty()) json.emplace("--json", o.json);
  if (!o.html.empty()) {
    if (jobs.size() > MOST_ON_A_PAGE)
      throw UsageError(
          fmt::format("{} inspections are too many for a page: at most {} (--kernel and --dtype "
                      "choose)",
                      jobs.size(), MOST_ON_A_PAGE));
    html.emplace("--html", o.html);
  }
  InspectionPage page(context(o));
  nlohmann::ordered_json file{{"context", context(o)}, {"benchmarks", nlohmann::json::array()}};
  const auto text = [&] { return file.dump(2) + "\n"; };
  std::unique_ptr<Inspector> inspector;
  InspectionTable table;
  std::vector<Inspection> few;
  Problem problem;
  int pad = 0;                // the inspector's, between rows
  std::string skipped, kept;  // why; and where the results until then are
  bool wrong = false, seen = false, too_large = false;
  for (const Job& job : jobs) {
    now_running(job.name());
    Inspection i;
    try {
      const int its_pad = job.rung->needs.dense ? 0 : html ? PAGE_PAD : 16;
      if (inspector == nullptr || problem != job.problem || pad != its_pad) {
        inspector.reset();  // before the next one is allocated
        inspector = std::make_unique<Inspector>(problem = job.problem, pad = its_pad);
      }
      i = inspect(o, job, *inspector, *device);
    } catch (const std::bad_alloc&) {
      i = out_of_memory(job);
      too_large = true;
    }
    refuse_missing_warp(i, job, kept);
    if (html && i.skipped.empty()) {
      inspector->look_closer(i, block_of_interest(i, o), EACH);
      page.add(i);
    }
    table.add(i);
    wrong |= !i.findings.empty();
    seen |= i.skipped.empty();
    if (!i.skipped.empty()) skipped = i.skipped;
    file["benchmarks"].push_back(to_json(i));
    if (json) {
      json->save(text());
      kept = fmt::format("the results until then are in {}", json->kept_in());
      now_kept(kept);
    }
    if (jobs.size() <= FEW) few.push_back(std::move(i));
  }
  now_running("");
  for (const Inspection& i : few) {
    print_lines(i);
    print_requests(i);
  }
  if (json) json->finish(text());
  if (html && seen) html->finish(page.text());
  if (wrong) return EXIT_WRONG;
  if (too_large) {
    fmt::print(stderr, "gemm_bench: not enough memory: choose a smaller --size or --shape\n");
    return EXIT_FAILED;
  }
  if (!seen) throw UsageError(fmt::format("nothing was inspected: {}", skipped));
  return EXIT_VERIFIED;
}

}  // namespace gemm
