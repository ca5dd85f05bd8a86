#include "grader/source.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <vector>

#include "own/attempt.h"

namespace gemm::grading {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A line that a backslash continues is one, as for the compiler.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') continue;
    const size_t after = text.find_first_not_of(" \t\r", i + 1);
    if (text[i] == '\\' && after != text.npos && text[after] == '\n')
      i = after;
    else if (text[i] == '\n')
      lines.emplace_back();
    else
      lines.back() += text[i];
  }
  return lines;
}

// Whoever copies a solution has more lines of it than a small mistake takes to mend.
bool is_copied(const std::string& work, const std::string& folder) {
  constexpr int MENDED = 2;
  if (work != text_of(folder + "/solution.cu")) return false;
  const std::vector<std::string> start = lines_of(text_of(folder + "/start.cu"));
  const std::multiset<std::string> given(start.begin(), start.end());
  int own = 0;
  for (const std::string& line : lines_of(work)) own += !given.contains(line);
  return own > MENDED;
}

}  // namespace

void refuse_source(const std::string& folder) {
  const std::string file = folder + "/work.cu", work = text_of(file);
  if (is_copied(work, folder)) throw own::Ended(file + " is a copy of solution.cu.");
  static const std::regex includes(R"(\b(include|include_next|import|incbin|embed)\b|_Pragma)"),
      allowed(
          R"re(\s*#\s*include\s*(<[a-z_0-9]+(\.h)?>|"(exercise\.h|bench\.h|rung\.h|(device|tile)/[a-z_0-9/]+\.(h|cuh))")\s*)re");
  for (std::string line : lines_of(work)) {
    const size_t comment = line.find("//");
    if (comment != line.npos && line.find("*/", comment) == line.npos) line.resize(comment);
    if (std::regex_search(line, includes) && !std::regex_match(line, allowed))
      throw own::Ended(fmt::format(
          "{} has `{}`: it may include the standard's headers, exercise.h or bench.h, and those of "
          "device/ and tile/.",
          file, line));
  }
}

}  // namespace gemm::grading
