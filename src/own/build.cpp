#include "own/build.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "harness/errors.h"
#include "harness/text.h"
#include "harness/tuning.h"
#include "own/source.h"
#include "own/toolchain.h"

namespace gemm::own {
namespace {

namespace fs = std::filesystem;

constexpr size_t SHOWN = 12000;  // bytes of what a compiler says

enum class Build { plain, traced };

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all;
  std::string word;
  for (std::istringstream in(text); in >> word;) all.push_back(word);
  return all;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs a command with what it says in `log`; its exit status.
int run(const std::vector<std::string>& command, const fs::path& log) {
  setenv("LC_ALL", "C", 1);  // quotes that every terminal has
  std::vector<char*> argv;
  for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw std::runtime_error(
        fmt::format("cannot start {}: {}; a kernel of your own needs the compiler of this build",
                    command[0], std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// Two halves of 64 bits each.
std::string digest(const std::string& text) {
  const std::hash<std::string> h;
  return fmt::format("{:016x}{:016x}", h(text), h("second half\n" + text));
}

// What the user's files are compiled with: any change of it makes other programs.
std::string state_of_sources() {
  std::string state = std::string(BUILD_FOLDER) + COMPILE_OPTIONS;
  const auto add = [&](const fs::path& file) {
    state +=
        fmt::format("{} {}\n", file.string(), fs::last_write_time(file).time_since_epoch().count());
  };
  for (const char* folder : {"src/own", "src/sim", "src/device"})
    for (const auto& e : fs::recursive_directory_iterator(fs::path(SOURCES) / folder))
      if (e.is_regular_file()) add(e.path());
  for (const char* file : {"own/host.link", "own/inspector.link", "src/sim/libgemm_sim.a",
                           "own/precompiled.h.gch/PLAIN.gch", "own/precompiled.h.gch/TRACED.gch"})
    add(fs::path(BUILD_FOLDER) / file);
  return state;
}

fs::path cache_folder() {
  const std::string tuning = default_tuning_cache();
  const fs::path parent =
      tuning.empty() ? fs::temp_directory_path() / "gemm_ladder" : fs::path(tuning).parent_path();
  return parent / "own";
}

// The compiler's words with the user's: paths as he gave them, and his function's name.
std::string in_users_words(std::string said, const std::string& file = "") {
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = said.find(from, at)) != said.npos; at += to.size())
      said.replace(at, from.size(), to);
  };
  replace(RENAMED, "gemm");
  replace("requested alignment '-1' is not a positive power of 2",
          "__launch_bounds__ names more threads than the 1024 that a block can have");
  if (!file.empty()) replace(fs::absolute(file).lexically_normal(), file);
  std::string shown;
  for (const char c : said.substr(0, SHOWN))
    shown += c == '\n' ? "\n" : c == '\t' ? "    " : printable(std::string_view(&c, 1));
  return shown;
}

// The first error, "mine.cu:7: expected ';'".
std::string first_error(const std::string& said) {
  std::smatch found;
  static const std::regex error(
      R"(([^\n:(]+)[:(](\d+)(?::\d+)?[:)]+ (?:fatal )?error: ([^\n]*))");  // g++'s, nvcc's
  if (!std::regex_search(said, found, error)) return "the compiler's words are above";
  // One of our headers says what the simulator lacks: the line is that which includes it.
  std::smatch from;
  static const std::regex includer(R"(In file included from ([^\n:]+):(\d+))");
  if (found.str(1).starts_with(SOURCES) && std::regex_search(said, from, includer))
    return fmt::format("{}:{}: {}", from.str(1), from.str(2), found.str(3));
  return fmt::format("{}:{}: {}", found.str(1), found.str(2), found.str(3));
}

[[noreturn]] void refuse(const std::string& said, const std::string& file, const fs::path& folder) {
  fmt::print(stderr, "{}", said);
  fs::remove_all(folder);
  throw UsageError(fmt::format("{} does not compile: {}", printable(file), first_error(said)));
}

// Compiles a file into folder/<name>.o.
fs::path compile(const std::string& file, const fs::path& folder, const std::string& name,
                 Build build) {
  const std::string path = fs::absolute(file).lexically_normal();
  const fs::path parts = folder / (name + ".include");
  fs::create_directories(parts);
  std::vector<Translated> all = translate(path, parts);
  for (size_t i = 0; i + 1 < all.size(); ++i) std::ofstream(all[i].path) << all[i].text;
  const fs::path unit = folder / (name + ".cpp"), object = folder / (name + ".o");
  std::ofstream(unit) << "#include \"" << BUILD_FOLDER << "/own/precompiled.h\"\n"
                      << "namespace gemm::own { struct Nothing; }\n"
                      << "void " << RENAMED << "(gemm::own::Nothing*);\n"
                      << all.back().text << "\n#line 1 \"the lines behind " << path << "\"\n"
                      << "#include \"own/form.h\"\n"
                      << "static const ::gemm::own::Registration gemm_ladder_own_file(\"" << path
                      << "\", ::gemm::own::forms_of([](auto... a) -> decltype(::" << RENAMED
                      << "(a...)) { return ::" << RENAMED << "(a...); }));\n";
  std::vector<std::string> command = {CXX_COMPILER};
  for (const std::string& option : words(COMPILE_OPTIONS)) command.push_back(option);
  for (const std::string& option : words(build == Build::plain ? PLAIN_OPTIONS : TRACED_OPTIONS))
    command.push_back(option);
  const std::string sources = SOURCES;
  for (const std::string& option : {"-I" + sources + "/src/own/include", "-I" + sources + "/src",
                                    "-I" + fs::path(path).parent_path().string(), std::string("-c"),
                                    unit.string(), std::string("-o"), object.string()})
    command.push_back(option);
  const fs::path log = folder / (name + ".log");
  if (run(command, log) != 0) {
    refuse(in_users_words(text_of(log), file), file, folder);
  }
  return object;
}

// "nvcc 13.0 ...": what a library was compiled by, for its key.
std::string nvcc_version(const std::string& nvcc) {
  const fs::path log = fs::temp_directory_path() / fmt::format("gemm_own_nvcc.{}", getpid());
  const int status = run({nvcc, "--version"}, log);
  const std::string said = text_of(log);
  fs::remove(log);
  if (status != 0) throw std::runtime_error(nvcc + " --version failed: " + said);
  return said;
}

void link(const std::vector<std::string>& objects, const char* how, const fs::path& program) {
  std::vector<std::string> command = {CXX_COMPILER};
  command.insert(command.end(), objects.begin(), objects.end());
  command.push_back(fmt::format("@{}/own/{}", BUILD_FOLDER, how));
  command.insert(command.end(), {"-o", program.string()});
  const fs::path log = program.string() + ".log";
  if (run(command, log) == 0) return;
  const std::string said = text_of(log);
  fmt::print(stderr, "{}\n", in_users_words(said));
  fs::remove_all(program.parent_path());
  throw UsageError("the file does not link: it calls what it does not define (above)");
}

// Makes a folder of the cache, unless it is there: by `make(folder)`, under another name until then.
template <class Make>
fs::path kept(const std::string& content, Make&& make) {
  const fs::path folder = cache_folder() / digest(content + state_of_sources());
  if (fs::exists(folder)) return folder;
  const fs::path unfinished = fmt::format("{}.{}", folder.string(), getpid());
  fs::create_directories(unfinished);
  make(unfinished);
  std::error_code taken;  // by another process, which has made the same
  fs::rename(unfinished, folder, taken);
  if (taken) fs::remove_all(unfinished);
  return folder;
}

}  // namespace

std::string build_host(const std::string& file) {
  const std::string content = "host\n" + with_includes(fs::absolute(file).lexically_normal());
  return kept(content,
              [&](const fs::path& folder) {
                link({compile(file, folder, "file", Build::plain)}, "host.link", folder / "host");
              }) /
         "host";
}

std::string build_inspector(const std::vector<std::string>& files) {
  std::string content = "inspector\n";
  for (const std::string& file : files)
    content += with_includes(fs::absolute(file).lexically_normal());
  return kept(content,
              [&](const fs::path& folder) {
                std::vector<std::string> objects;
                for (const std::string& file : files) {
                  const fs::path object =
                      compile(file, folder, fmt::format("file{}", objects.size()), Build::traced);
                  // Functions of two files may have one name.
                  if (run({"objcopy", "--wildcard", "--keep-global-symbol=DW.ref.*",
                           object.string()},
                          folder / "objcopy.log") != 0)
                    throw std::runtime_error("objcopy failed: " + text_of(folder / "objcopy.log"));
                  objects.push_back(object.string());
                }
                link(objects, "inspector.link", folder / "gemm_bench");
              }) /
         "gemm_bench";
}

std::string build_library(const std::string& file, int sm) {
  const std::string nvcc = *CUDA_COMPILER != 0 ? CUDA_COMPILER : "nvcc";
  const std::string path = fs::absolute(file).lexically_normal();
  // Dense targets of Hopper and later carry wgmma.
  const std::string arch = fmt::format("-arch=sm_{}{}", sm, sm >= 90 ? "a" : "");
  const std::string content = fmt::format("library\n{}\n{}\n", arch, nvcc_version(nvcc));
  return kept(content + with_includes(path),
              [&](const fs::path& folder) {
                const fs::path unit = folder / "file.cu", library = folder / "file.so";
                std::ofstream(unit) << "#include \"own/form.h\"\n#define gemm " << RENAMED
                                    << "\n#include \"" << path << "\"\n#undef gemm\n"
                                    << "GEMM_OWN_LIBRARY(" << RENAMED << ")\n";
                std::vector<std::string> command = {nvcc};
                for (const std::string& option : words(NVCC_OPTIONS)) command.push_back(option);
                command.insert(command.end(), {arch, std::string("-I") + SOURCES + "/src",
                                               "-I" + fs::path(path).parent_path().string(),
                                               unit.string(), "-o", library.string()});
                const fs::path log = folder / "file.log";
                if (run(command, log) != 0)
                  refuse(in_users_words(text_of(log), file), file, folder);
                const fs::path symbols = folder / "symbols";
                run({"nm", "--dynamic", "--undefined-only", library.string()}, symbols);
                const std::string missing = text_of(symbols);
                std::smatch found;
                if (std::regex_search(missing, found, std::regex(R"(\b(cublas\w+))"))) {
                  fs::remove_all(folder);
                  throw UsageError(
                      fmt::format("{} calls {}: cuBLAS is what a kernel is compared with; want a "
                                  "kernel of your own",
                                  printable(file), found.str(1)));
                }
              }) /
         "file.so";
}

}  // namespace gemm::own
