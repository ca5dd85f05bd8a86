#include "own/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands/apart.h"
#include "commands/jobs.h"
#include "harness/errors.h"
#include "harness/text.h"
#include "own/build.h"
#include "own/forms.h"
#include "own/limits.h"
#include "own/rungs.h"

namespace gemm::own {
namespace {

using nlohmann::json;

// For the processes that run files' code: what to load, [{file, library, rungs: [...]}]; and in one
// that finds out what a file supports, the shapes that ended such a process before.
constexpr char LIBRARIES[] = "GEMM_OWN_LIBRARIES", ENDED_AT[] = "GEMM_OWN_ENDED_AT";
constexpr int MOST_ENDS = 40;

json packed(const Rung& r, const Interface& i) {
  const Needs& n = r.needs;
  return {{"dtype", static_cast<int>(i.dtype)},
          {"ld", i.ld},
          {"scalars", i.scalars},
          {"stream", i.stream},
          {"equal", n.equal},
          {"multiple_of", {n.multiple_of[0], n.multiple_of[1], n.multiple_of[2]}},
          {"most_k", n.most_k}};
}
Interface interface_of(const json& j) {
  return {static_cast<DType>(j.at("dtype").get<int>()), j.at("ld"), j.at("scalars"),
          j.at("stream")};
}
void take_limits(const json& j, Needs& n) {
  n.equal = j.at("equal");
  for (int i = 0; i < 3; ++i) n.multiple_of[i] = j.at("multiple_of").at(i);
  n.most_k = j.at("most_k");
}

void send(const json& line) {
  const std::string text = line.dump() + "\n";
  if (write(OUTCOME_FD, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw OutputError("nobody waits for what the file supports");
}

// What a process says that looks at one file; empty: it ended, and `at` is where.
json look(const std::string& file, const std::string& library, const Options& o, const json& ended,
          std::string& at, std::string& how) {
  setenv(LIBRARIES, json::array({{{"file", file}, {"library", library}}}).dump().c_str(), 1);
  setenv(ENDED_AT, ended.dump().c_str(), 1);
  std::vector<std::string> arguments = {"gemm_bench"};
  arguments.insert(arguments.end(), o.arguments.begin(), o.arguments.end());
  const auto [sent, status] = run_process(arguments);
  unsetenv(ENDED_AT), unsetenv(LIBRARIES);
  how = how_it_ended(status);
  at.clear();
  size_t begin = 0;
  for (size_t end; (end = sent.find('\n', begin)) != sent.npos; begin = end + 1) {
    const json line = json::parse(sent.substr(begin, end - begin), nullptr, false);
    if (line.is_object() && line.contains("rungs")) return line.at("rungs");
    if (line.is_object() && line.contains("at")) at = line.at("at");
  }
  return {};
}

// The forms of a library that this process loads.
std::vector<Form> forms_in(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw UsageError(fmt::format("cannot load the file: {}", dlerror()));
  const auto forms =
      reinterpret_cast<void (*)(std::vector<Form>*)>(dlsym(handle, "gemm_ladder_own_forms"));
  std::vector<Form> all;
  if (forms != nullptr) forms(&all);
  return all;
}

}  // namespace

void add_libraries(const std::vector<std::string>& files, const Options& o, Device& device) {
  json libraries = json::array();
  for (const std::string& file : files) {
    const std::string path = absolute_path(file), library = build_library(file, device.sm());
    json ended = json::object(), found;
    std::string at, how;
    while (found = look(path, library, o, ended, at, how), found.is_null()) {
      if (at.empty() || ended.contains(at) || ended.size() > MOST_ENDS)
        throw UsageError(fmt::format("{}: {} before gemm was called", printable(file), how));
      ended[at] = how;
    }
    if (found.empty()) throw UsageError(no_form(file));
    for (const json& f : found) {
      const Interface i = interface_of(f);
      Rung& rung = add_rung(path, i, Backend::gpu, [](const GemmCall&) {
        throw std::logic_error("a user's own file runs in a process of its own");
      });
      rung.apart = true;
      take_limits(f, rung.needs);
      fmt::print("{}: {} {}, {}\n", printable(file), to_string(i.dtype), signature(i),
                 printable(f.at("says").get<std::string>(), 600));
    }
    libraries.push_back({{"file", path}, {"library", library}, {"rungs", found}});
  }
  setenv(LIBRARIES, libraries.dump().c_str(), 1);
}

bool holds_libraries() { return std::getenv(LIBRARIES) != nullptr; }

bool load_libraries() {
  const json libraries = json::parse(std::getenv(LIBRARIES));
  const char* const looks = std::getenv(ENDED_AT);
  const json ended = looks != nullptr ? json::parse(looks) : json::object();
  json found = json::array();
  for (const json& l : libraries) {
    const std::vector<Form> forms = forms_in(l.at("library"));
    for (size_t i = 0; i < forms.size(); ++i) {
      const Form& form = forms[i];
      const Interface interface = {form.dtype, form.ld, form.scalars, form.stream};
      Rung& rung =
          add_rung(l.at("file"), interface, Backend::gpu, [call = form.call](const GemmCall& c) {
            if (const int status = call(c); status != 0)
              throw std::runtime_error(fmt::format(
                  "gemm, or a launch of it, returned the CUDA error {}, not 0 (cudaSuccess)",
                  status));
          });
      std::string why;
      if (looks == nullptr) {
        rung.diagnose = [&rung](int M, int N, int K, const std::string& wrong) {
          std::string no_gpu;
          const std::unique_ptr<Device> device = make_gpu_device(no_gpu);
          return device == nullptr ? "" : diagnose(rung, *device, M, N, K, wrong, {});
        };
        if (i < l.at("rungs").size()) take_limits(l.at("rungs").at(i), rung.needs);
        continue;
      }
      const std::unique_ptr<Device> device = make_gpu_device(why);
      if (device == nullptr) throw std::runtime_error("no GPU: " + why);
      const auto before = [&](const std::string& name) -> std::string {
        const std::string at = fmt::format("{} {}", to_string(form.dtype), name);
        if (ended.contains(at)) return ended.at(at);
        send({{"at", at}});
        return "";
      };
      const std::string says = find_limits(rung, *device, before);
      json packed_rung = packed(rung, interface);
      packed_rung["says"] = says;
      found.push_back(packed_rung);
    }
  }
  if (looks != nullptr) send({{"rungs", found}});
  return looks != nullptr;
}

}  // namespace gemm::own
