#include "own/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "harness/errors.h"
#include "harness/text.h"

namespace gemm::own {
namespace {

namespace fs = std::filesystem;

enum class Kind { space, word, text, mark };  // text: literals; a comment is space
struct Token {
  Kind kind;
  std::string text;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// All characters of the file, none left out.
std::vector<Token> tokens_of(const std::string& s) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < s.size();) {
    const size_t begin = i;
    Kind kind = Kind::mark;
    if (std::isspace(static_cast<unsigned char>(s[i])) != 0) {
      while (i < s.size() && std::isspace(static_cast<unsigned char>(s[i])) != 0) ++i;
      kind = Kind::space;
    } else if (s.compare(i, 2, "//") == 0) {
      while (i < s.size() && (s[i] != '\n' || s[i - 1] == '\\')) ++i;
      kind = Kind::space;
    } else if (s.compare(i, 2, "/*") == 0) {
      i = std::min(s.find("*/", i + 2), s.size() - 2) + 2;
      kind = Kind::space;
    } else if (s.compare(i, 2, "R\"") == 0) {
      const size_t open = std::min(s.find('(', i), s.size());
      const std::string end = ")" + s.substr(i + 2, open - i - 2) + "\"";
      i = std::min(s.find(end, open), s.size() - end.size()) + end.size();
      kind = Kind::text;
    } else if (s[i] == '"' || s[i] == '\'') {
      const char quote = s[i++];
      while (i < s.size() && s[i] != quote && s[i] != '\n') i += s[i] == '\\' ? 2 : 1;
      i = std::min(i + 1, s.size());
      kind = Kind::text;
    } else if (is_word(s[i])) {
      while (i < s.size() && is_word(s[i])) ++i;
      kind = Kind::word;
    } else {
      ++i;
    }
    tokens.push_back({kind, s.substr(begin, i - begin)});
  }
  return tokens;
}

constexpr size_t NONE = std::string::npos;

class Translator {
 public:
  Translator(const std::string& path, const std::string& text) : path_(path), t_(tokens_of(text)) {}

  // `included(path)`: the path to include in its place.
  template <class Included>
  std::string run(Included&& included) {
    for (size_t i = 0; i < t_.size(); ++i) {
      Token& t = t_[i];
      line_ += static_cast<int>(std::ranges::count(t.text, '\n'));
      if (t.kind == Kind::word) {
        word(i, included);
      } else if (t.kind == Kind::mark) {
        mark(i);
      }
    }
    std::string all = fmt::format("#line 1 \"{}\"\n", path_);
    for (const Token& t : t_) all += t.text;
    return all;
  }

 private:
  bool is(size_t i, const char* text) const { return i < t_.size() && t_[i].text == text; }
  size_t next(size_t i) const {
    for (++i; i < t_.size() && t_[i].kind == Kind::space;) ++i;
    return i;
  }
  size_t previous(size_t i) const {
    while (i > 0)
      if (t_[--i].kind != Kind::space) return i;
    return NONE;
  }
  bool is_triple(size_t i, const char* mark) const {
    return is(i, mark) && is(i + 1, mark) && is(i + 2, mark);
  }
  // The mark that closes what opens at i; NONE.
  size_t closing(size_t i, const char* open, const char* close) const {
    int depth = 0;
    for (; i < t_.size(); ++i) {
      depth += int{is(i, open)} - int{is(i, close)};
      if (depth == 0) return i;
    }
    return NONE;
  }
  size_t opening(size_t i, const char* open, const char* close) const {
    int depth = 0;
    for (; i != NONE; --i) {
      depth += int{is(i, close)} - int{is(i, open)};
      if (depth == 0) return i;
    }
    return NONE;
  }
  std::string newlines(size_t begin, size_t end) const {
    int64_t n = 0;
    for (size_t i = begin; i < end; ++i) n += std::ranges::count(t_[i].text, '\n');
    return std::string(static_cast<size_t>(n), '\n');
  }
  // Puts `text` in the place of tokens, with their line breaks.
  void replace(size_t begin, size_t end, const std::string& text) {
    const std::string lines = newlines(begin, end);
    for (size_t i = begin; i < end; ++i) t_[i] = {Kind::space, ""};
    t_[begin] = {Kind::text, text + lines};
  }

  // kernel<<<grid, block, smem, stream>>>(a, b), whose first < is token i.
  void launch(size_t i) {
    size_t first = previous(i);  // of the kernel's name
    if (first != NONE && is(first, ">")) first = previous(opening(first, "<", ">"));
    if (first != NONE && is(first, ")")) first = opening(first, "(", ")");
    for (size_t p;
         first != NONE && (p = previous(first)) != NONE && is(p, ":") && is(previous(p), ":");) {
      const size_t name = previous(previous(p));
      first = name != NONE && t_[name].kind == Kind::word ? name : previous(p);
      if (first != name) break;
    }
    size_t end = i + 3;
    for (int depth = 0; end < t_.size(); ++end) {
      depth += int{is(end, "(")} - int{is(end, ")")};
      if (depth == 0 && is_triple(end, ">")) break;
    }
    const size_t open = next(end + 2);
    if (first == NONE || end >= t_.size() || !is(open, "(")) return;  // the compiler will say it
    const size_t close = closing(open, "(", ")");
    if (close == NONE) return;
    std::string kernel;
    for (size_t k = first; k < i; ++k)
      for (const char c : t_[k].kind == Kind::space ? " " : t_[k].text) kernel += c;
    const std::string lines = newlines(first, i);
    for (size_t k = first; k < i; ++k) t_[k] = {Kind::space, ""};
    t_[first] = {Kind::mark, "::gemm::own::Launch(" + lines};
    for (const size_t k : {i, i + 1, i + 2}) t_[k] = {Kind::space, ""};
    t_[end] = {Kind::mark,
               fmt::format(").call([&](auto... own_arguments) {{ {}(own_arguments...); }}{}",
                           kernel, next(open) == close ? "" : ", ")};
    for (const size_t k : {end + 1, end + 2, open}) t_[k] = {Kind::space, ""};
  }

  // extern __shared__ T name[]; the words may come in any order.
  void dynamic_shared(size_t i) {
    size_t end = i;
    bool shared = false;
    for (; end < t_.size() && !is(end, ";") && !is(end, "{"); ++end)
      shared |= is(end, "__shared__");
    if (!shared || !is(end, ";")) return;
    std::string type, dimensions;
    size_t name = NONE;
    for (size_t k = next(i); k < end; k = next(k)) {
      if (is(k, "__shared__")) continue;
      if (is(k, "__align__") || is(k, "alignas") || is(k, "__attribute__")) {
        k = closing(next(k), "(", ")");
        if (k == NONE) return;
      } else if (is(k, "[") && name != NONE) {
        for (size_t d = next(closing(k, "[", "]")); d < end; d = next(d)) dimensions += t_[d].text;
        break;
      } else {
        if (is(next(k), "[")) name = k;
        if (k != name) type += (type.empty() ? "" : " ") + t_[k].text;
      }
    }
    if (name == NONE || type.empty()) return;
    const std::string its = t_[name].text;
    if (in_function())
      replace(i, end,
              dimensions.empty()
                  ? fmt::format(
                        "{0}* const {1} = reinterpret_cast<{0}*>(::gemm::own::dynamic_shared())",
                        type, its)
                  : fmt::format("{0} (*const {1}){2} = reinterpret_cast<{0} (*){2}>(::gemm::own::"
                                "dynamic_shared())",
                                type, its, dimensions));
    else
      replace(i, end, fmt::format("static const ::gemm::own::DynamicShared<{}> {}{{}}", type, its));
  }

  // Inline PTX: mma.sync becomes a call, anything else an error when it is reached.
  void inline_ptx(size_t i) {
    size_t open = next(i);
    while (open < t_.size() && t_[open].kind == Kind::word) open = next(open);  // volatile
    if (!is(open, "(")) return;
    const size_t close = closing(open, "(", ")");
    if (close == NONE) return;
    if (mma_sync(i, open, close)) return;
    replace(i, close + 1,
            fmt::format("::gemm::own::inline_ptx(\"{}:{}\")", fs::path(path_).filename().string(),
                        line_ + 1));
  }

  // Makes mma<function, order>(where, (x), ..., (y), ...) of asm("mma.sync..." : "+f"(x) : "r"(y)).
  // Operands stay where they are; `order` has their numbers as the text names them.
  bool mma_sync(size_t i, size_t open, size_t close) {
    static const std::regex instruction(
        R"(\s*mma\.sync\.aligned\.(m16n8k\d+)\.row\.col\.f32\.(\w+)\.\2\.f32\s*([^;]*);\s*(\\n)?)");
    static const std::map<std::string, const char*> functions = {
        {"m16n8k16.f16", "f16"}, {"m16n8k16.bf16", "bf16"}, {"m16n8k8.tf32", "tf32"}};
    std::string text;
    std::vector<size_t> dropped, colons;  // literals; what comes between the operands
    int operands = 0;
    for (size_t k = next(open); k < close; k = next(k)) {
      if (t_[k].kind == Kind::text) {
        dropped.push_back(k);
        if (colons.empty())
          text += t_[k].text.substr(1, t_[k].text.size() - 2);
        else
          ++operands;
      } else if (is(k, ":")) {
        colons.push_back(k);
      } else if (is(k, "(")) {
        k = closing(k, "(", ")");
      }
    }
    std::smatch found;
    if (colons.size() != 2 || !std::regex_match(text, found, instruction)) return false;
    const auto function = functions.find(found.str(1) + "." + found.str(2));
    std::string order;
    int places = 0;
    const std::string named = found.str(3);
    static const std::regex operand(R"(%(\d+))");
    for (std::sregex_iterator o(named.begin(), named.end(), operand), end; o != end;
         ++o, ++places) {
      if (o->length(1) > 2 || std::stoi(o->str(1)) >= operands) return false;
      order += ", " + o->str(1);
    }
    if (function == functions.end() || places != 4 + 4 + 2 + 4) return false;
    replace(i, open,
            fmt::format("::gemm::own::mma<::gemm::sim::mma_{}{}>", function->second, order));
    for (const size_t k : dropped) t_[k] = {Kind::space, ""};
    t_[dropped.front()] = {Kind::text, "std::source_location::current()"};
    for (const size_t k : colons) t_[k].text = ",";
    return true;
  }

  // threadIdx and its like, unless the file has a variable of that name: dim3 gridDim(...).
  void index(size_t i) {
    const std::string name = t_[i].text;
    const size_t before = previous(i);
    static const std::set<std::string> no_types = {"return", "else", "case", "throw", "in"};
    const bool in_macro =
        before != NONE && is(previous(before), "define");  // #define TX threadIdx.x
    const bool typed = before != NONE && t_[before].kind == Kind::word && !in_macro &&
                       !no_types.contains(t_[before].text);
    const size_t after = next(i);  // nobody calls or sets CUDA's
    const bool made = is(after, "(") || is(after, "{") || (is(after, "=") && !is(after + 1, "="));
    if (typed || made) {
      own_names_[name] = static_cast<int>(braces_.size()) + (parens_ > 0 ? 1 : 0);
      return;
    }
    if (own_names_.contains(name)) return;
    if (before != NONE && (is(before, ".") || is(before, ":"))) return;
    static const std::map<std::string, const char*> words = {
        {"threadIdx", "(::gemm::sim::this_thread.thread_idx)"},
        {"blockDim", "(::gemm::sim::this_thread.block_dim)"},
        {"blockIdx", "(::gemm::own::block_idx())"},
        {"gridDim", "(::gemm::own::grid_dim())"}};
    t_[i].text = words.at(name);
  }

  template <class Included>
  void word(size_t i, Included&& included) {
    Token& t = t_[i];
    const size_t before = previous(i);
    if (t.text == "include" && before != NONE && is(before, "#")) {
      const size_t file = next(i);
      if (file < t_.size() && t_[file].text.size() > 2 && t_[file].text.front() == '"')
        t_[file].text =
            fmt::format("\"{}\"", included(t_[file].text.substr(1, t_[file].text.size() - 2)));
    } else if (t.text == "gemm") {
      const bool qualified =
          before != NONE && (is(before, ":") || is(before, ".") || is(before, "namespace"));
      if (!qualified && !is(next(i), ":")) t.text = RENAMED;
    } else if (t.text == "extern") {
      dynamic_shared(i);
    } else if (t.text == "asm" || t.text == "__asm__" || t.text == "__asm") {
      inline_ptx(i);
    } else if (t.text == "__noinline__") {
      t.text.clear();  // the standard library's headers have the word for themselves
    } else if (t.text == "threadIdx" || t.text == "blockIdx" || t.text == "blockDim" ||
               t.text == "gridDim") {
      index(i);
    }
  }

  void mark(size_t i) {
    if (is(i, "(")) ++parens_;
    if (is(i, ")")) --parens_;
    if (is(i, "{")) braces_.push_back(opens_namespace(i));
    if (is(i, "}") && !braces_.empty()) braces_.pop_back();
    if (is(i, "}") || (is(i, ";") && parens_ == 0))
      std::erase_if(own_names_,
                    [&](const auto& n) { return n.second > static_cast<int>(braces_.size()); });
    if (is_triple(i, "<")) launch(i);
  }
  bool in_function() const { return std::ranges::count(braces_, false) > 0; }
  // Whether a brace is that of `namespace x {` or `extern "C" {`.
  bool opens_namespace(size_t i) const {
    for (size_t p = previous(i);
         p != NONE && !is(p, ";") && !is(p, "{") && !is(p, "}") && !is(p, ")"); p = previous(p))
      if (is(p, "namespace") || is(p, "extern")) return true;
    return false;
  }

  std::string path_;
  std::vector<Token> t_;
  int line_ = 0, parens_ = 0;
  std::vector<bool> braces_;              // open ones: whether of a namespace
  std::map<std::string, int> own_names_;  // declared by the file, and within how many braces
};

std::string read(const fs::path& path) {
  std::ifstream in(path);
  if (!in || fs::is_directory(path))
    throw UsageError(fmt::format("cannot read '{}': want a file of CUDA C++, such as mine.cu",
                                 printable(path.string(), 200)));
  return {std::istreambuf_iterator<char>(in), {}};
}

// What `#include "name"` means in a folder: there, or in one of those that CPATH lists, as compilers
// look for it. Empty: neither.
fs::path find_included(const fs::path& folder, const std::string& name) {
  std::vector<fs::path> folders = {folder};
  if (const char* const more = std::getenv("CPATH")) {
    std::string one;
    for (std::istringstream in(more); std::getline(in, one, ':');)
      if (!one.empty()) folders.emplace_back(fs::absolute(one));
  }
  for (const fs::path& f : folders)
    if (fs::is_regular_file(f / name)) return (f / name).lexically_normal();
  return {};
}

// All files, those that others include first; `seen`: their places among them.
void translate(const fs::path& path, const std::string& folder, std::vector<Translated>& all,
               std::map<std::string, std::string>& seen) {
  const std::string text = Translator(path.string(), read(path)).run([&](const std::string& name) {
    const fs::path file = find_included(path.parent_path(), name);
    if (file.empty() && name == "rung.h")
      throw UsageError(fmt::format(
          "{} is a copy of a rung, for it includes rung.h: scripts/new_rung.py starts a "
          "rung; a file of your own has a function gemm (docs/own_kernels.md)",
          printable(path.string(), 200)));
    if (file.empty()) return name;  // the compiler knows it, or will say that nobody does
    std::string& its = seen[file.string()];
    if (its.empty()) {
      its = fmt::format("{}/{}.cuh", folder, seen.size());
      translate(file, folder, all, seen);
    }
    return its;
  });
  all.push_back({path.string(), text});
}

}  // namespace

std::vector<Translated> translate(const std::string& path, const std::string& folder) {
  std::vector<Translated> all;
  std::map<std::string, std::string> seen;
  translate(fs::path(path), folder, all, seen);
  for (size_t i = 0; i + 1 < all.size(); ++i) all[i].path = seen.at(all[i].path);
  return all;
}

std::string with_includes(const std::string& path) {
  std::string all;
  for (const Translated& t : translate(path, "")) all += t.path + "\n" + t.text;
  return all;
}

}  // namespace gemm::own
