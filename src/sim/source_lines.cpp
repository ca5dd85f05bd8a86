#include "sim/source_lines.h"

#include <backtrace.h>
#include <fmt/format.h>

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
  if (path.find("/src/sim/") != path.npos) return 0;
  if (path.ends_with(".cu")) {
    place.line = {file, line};
    return 1;  // no further frames
  }
  if (place.helper.line == 0) place.helper = {file, line};
  frames.outermost = {file, line};
  return 0;
}

}  // namespace

Place place_of(uintptr_t pc) {
  // libbacktrace keeps its state for ever. Errors mean that there is no debug information.
  static backtrace_state* const state = backtrace_create_state(
      nullptr, /*threaded=*/0, [](void*, const char*, int) {}, nullptr);
  Frames frames;
  if (state != nullptr && pc != 0)
    backtrace_pcinfo(
        state, pc - 1, add_frame, [](void*, const char*, int) {}, &frames);
  Place& place = frames.place;
  if (place.line.line == 0) {  // a kernel that stands in a header, such as device/repack.cuh
    place.line = frames.outermost;
    if (place.helper == place.line) place.helper = {};
  }
  return place;
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
