#include "registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "launch_refused.h"

namespace gemm {
namespace {

std::deque<Rung>& all() {
  static std::deque<Rung> list;  // built on first use: registrations run before main, in any order
  return list;
}

auto ladder_order(const Rung& r) { return std::make_pair(ladder_position(r.id), r.dtype); }

// Of each dispatcher the rungs that it chooses among: those that estimate, of its backend and type.
void find_candidates() {
  for (Rung& d : all()) {
    if (!d.dispatches) continue;
    d.candidates.clear();
    d.variants.clear();
    for (const Rung& r : all())
      if (r.backend == d.backend && r.dtype == d.dtype && r.estimates) d.candidates.push_back(&r);
    std::sort(d.candidates.begin(), d.candidates.end(),
              [](const Rung* a, const Rung* b) { return ladder_order(*a) < ladder_order(*b); });
    // It takes groups in the types in which one of them does.
    d.needs.groups = d.needs.groups && std::any_of(d.candidates.begin(), d.candidates.end(),
                                                   [](const Rung* r) { return r->needs.groups; });
    for (const Rung* r : d.candidates)
      d.variants.push_back({r->id, r->launch, [r](const GemmCall& c) {
                              return r->plan(*r, c, simulated_arch(), ANY_VARIANT).has_value();
                            }});
  }
}

// Registered since dispatchers last looked: all rungs are by the time that main runs.
std::atomic<bool> changed = false;

std::deque<Rung>& complete() {
  static std::mutex mutex;
  if (changed.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex);
    if (changed.load(std::memory_order_relaxed)) {
      find_candidates();
      changed.store(false, std::memory_order_release);
    }
  }
  return all();
}

}  // namespace

namespace {
// Whether a name is one of the ladder's, "v05_float4" or "v5": others are files of a user's own.
bool is_numbered(const std::string& name) {
  return name.size() > 1 && (name[0] == 'v' || name[0] == 'm') && name[1] >= '0' && name[1] <= '9';
}
}  // namespace

std::string rung_name(const std::string& file) {
  const std::string base = file.substr(file.find_last_of('/') + 1);
  return base.substr(0, base.find('.'));
}

std::string rung_id(const std::string& name) {
  if (!is_numbered(name)) return name;
  const std::string number = name.substr(1, name.find('_') - 1);
  return name[0] + number.substr(std::min(number.find_first_not_of('0'), number.size() - 1));
}

std::pair<int, std::string> ladder_position(const std::string& id) {
  if (!is_numbered(id)) return {std::numeric_limits<int>::max(), id};  // behind the ladder
  size_t digits = 0;
  const int number = std::stoi(id.substr(1), &digits);
  return {number, id.substr(1 + digits)};
}

Rung& detail::add(Rung rung) {
  // "…/kernels/v05_float4.cu" -> file, name "v05_float4", id "v5".
  const size_t slash = rung.file.find_last_of('/');
  const size_t parent = slash == std::string::npos ? slash : rung.file.find_last_of('/', slash - 1);
  rung.file = parent == std::string::npos ? rung.file : rung.file.substr(parent + 1);
  rung.name = rung_name(rung.file);
  rung.id = rung_id(rung.name);
  all().push_back(std::move(rung));
  Rung& added = all().back();
  if (!added.run)
    added.run = [&added](const GemmCall& call, const Plan& plan) {
      plan.variant == ANY_VARIANT ? added.launch(call) : added.variants[plan.variant].launch(call);
    };
  changed = true;
  return added;
}

namespace {
detail::EpiloguePass passes[3] = {};  // by Backend
std::atomic<uint64_t> launched_passes = 0;
}  // namespace

void detail::set_epilogue_pass(Backend backend, EpiloguePass pass) {
  passes[static_cast<int>(backend)] = pass;
}
void launch_epilogue_pass(Backend backend, DType dtype, const GemmCall& call,
                          const ProductsInMemory& products) {
  const detail::EpiloguePass pass = passes[static_cast<int>(backend)];
  if (pass == nullptr) throw std::logic_error("no epilogue pass is linked into this program");
  ++launched_passes;
  pass(dtype, call, products);
}
uint64_t epilogue_passes() { return launched_passes; }

void throw_refused(const LaunchStatus& status, int64_t grid, int threads, size_t smem) {
  constexpr int OUT_OF_MEMORY = 2;  // cudaErrorMemoryAllocation: a module is loaded when first used
  if (status.code == OUT_OF_MEMORY) throw std::bad_alloc();
  throw LaunchRefused(
      status, fmt::format("{}: {} ({}), for {} blocks of {} threads with {} bytes of shared memory",
                          status.call, status.text, status.name, grid, threads, smem));
}

void throw_failed(const char* what, const char* why) {
  throw std::runtime_error(fmt::format("{}: {}", what, why));
}

Rung with_variant(const Rung& rung, int variant) {
  Rung one = rung;
  one.launch = rung.variants[variant].launch;
  one.fits = rung.variants[variant].fits;
  one.variants = {rung.variants[variant]};
  one.plan = nullptr;
  return one;
}

Rung with_plan(const Rung& rung, const Plan& plan) {
  Rung one = rung;
  one.launch = [plan](const GemmCall& call) { gemm::launch(call, plan); };
  return one;
}

std::vector<const Rung*> rungs(Backend backend) {
  std::vector<const Rung*> found;
  for (const Rung& r : complete())
    if (r.backend == backend) found.push_back(&r);
  std::sort(found.begin(), found.end(),
            [](const Rung* a, const Rung* b) { return ladder_order(*a) < ladder_order(*b); });
  return found;
}

const Rung* find_rung(Backend backend, const std::string& id_or_name, DType dtype) {
  for (const Rung& r : complete())
    if (r.backend == backend && r.dtype == dtype && (r.id == id_or_name || r.name == id_or_name))
      return &r;
  return nullptr;
}

}  // namespace gemm
