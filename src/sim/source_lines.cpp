#include "sim/source_lines.h"

#include <backtrace.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>

namespace gemm::sim {

namespace {

struct Frames {
  Place place;
  SourceLine outermost;
};

// Called for a program counter's functions, from the innermost inlined one outwards.
int add_frame(void* frames_, uintptr_t, const char* file, int line, const char*) {
  Frames& frames = *static_cast<Frames*>(frames_);
  Place& place = frames.place;
  if (file == nullptr || line == 0) return 0;
  const std::string_view path = file;
  if (path.starts_with("src/sim/") || path.find("/src/sim/") != path.npos) return 0;
  if (path.ends_with(".cu")) {
    place.line = {file, line};
    return 1;  // no further frames
  }
  if (place.helper.line == 0) place.helper = {file, line};
  frames.outermost = {file, line};
  return 0;
}

std::mutex host_lines_mutex;
std::set<SourceLine> host_lines;  // whose addresses are no program's

// libbacktrace keeps its state for ever. Errors mean that there is no debug information.
backtrace_state* debug_information() {
  static backtrace_state* const state = backtrace_create_state(
      nullptr, /*threaded=*/0, [](void*, const char*, int) {}, nullptr);
  return state;
}

}  // namespace

uintptr_t pc_of(const std::source_location& where) {
  const std::lock_guard lock(host_lines_mutex);
  return reinterpret_cast<uintptr_t>(
      &*host_lines.insert({where.file_name(), static_cast<int>(where.line())}).first);
}

Place place_of(uintptr_t pc) {
  {
    const std::lock_guard lock(host_lines_mutex);
    for (const SourceLine& line : host_lines)
      if (pc == reinterpret_cast<uintptr_t>(&line)) return {line, {}};
  }
  backtrace_state* const state = debug_information();
  Frames frames;
  if (state != nullptr && pc != 0)
    backtrace_pcinfo(
        state, pc - 1, add_frame, [](void*, const char*, int) {}, &frames);
  Place& place = frames.place;
  if (place.line.line == 0) {  // a kernel that stands in a header, such as engine/gemm.cuh
    place.line = frames.outermost;
    if (place.helper == place.line) place.helper = {};
  }
  return place;
}

std::string function_name(const void* function) {
  std::string symbol;
  if (backtrace_state* const state = debug_information())
    backtrace_syminfo(
        state, reinterpret_cast<uintptr_t>(function),
        [](void* to, uintptr_t, const char* name, uintptr_t, uintptr_t) {
          if (name != nullptr) *static_cast<std::string*>(to) = name;
        },
        [](void*, const char*, int) {}, &symbol);
  if (symbol.empty()) return "without a name";
  int status = 0;
  char* const demangled = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : symbol;
  std::free(demangled);
  // What lies in <> is kept; "void " and namespaces before it, and parameters after it are not.
  for (size_t at = 0; (at = name.find("(anonymous namespace)")) != name.npos;)
    name.erase(at, std::strlen("(anonymous namespace)"));
  size_t begin = 0, end = name.size();
  int depth = 0;
  for (size_t i = 0; i < end; ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth == 0 && (name[i] == ' ' || name[i] == ':')) begin = i + 1;
    if (depth == 0 && name[i] == '(') end = i;
  }
  return name.substr(begin, end - begin);
}

std::string place(const SourceLine& line) {
  if (line.file.empty()) return "a line without debug information";
  return fmt::format("{}:{}", line.file.substr(line.file.find_last_of('/') + 1), line.line);
}

std::string to_string(const Place& p) {
  return p.helper.line == 0 ? place(p.line)
                            : fmt::format("{} ({})", place(p.line), place(p.helper));
}

}  // namespace gemm::sim
