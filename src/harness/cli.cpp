#include "harness/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "harness/known_rungs.h"
#include "harness/output_file.h"
#include "harness/text.h"
#include "sharded/sharded.h"
#include "version.h"

namespace gemm {
namespace {

constexpr int LARGEST = LARGEST_EXTENT;
constexpr size_t MOST_SHAPES = 10'000;
constexpr int MOST_PRODUCTS = 65536;
constexpr size_t LARGEST_SHAPES_FILE = 1 << 20;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  if (text.empty() || text.back() == separator) parts.emplace_back();
  return parts;
}

std::optional<int> parse_extent(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0 ||
      value > LARGEST)
    return std::nullopt;
  return value;
}

UsageError too_many(const char* what, const std::string& text) {
  return UsageError(
      fmt::format("{} '{}' is too many: at most {} shapes", what, printable(text), MOST_SHAPES));
}

// "4096x4096x128"; each of the three may be a list, which stands for all combinations.
std::vector<Shape> parse_shape(const std::string& text) {
  const auto bad = [&] {
    return UsageError(
        fmt::format("bad shape '{}': want MxNxK with 0 <= M, N, K <= {}, as in 4096x4096x128; each "
                    "may be a list, as in 1,2,4x4096x4096",
                    printable(text), LARGEST));
  };
  const std::vector<std::string> parts = split(text, 'x');
  if (parts.size() != 3) throw bad();
  std::vector<int> extents[3];
  for (int i = 0; i < 3; ++i)
    for (const std::string& number : split(parts[i], ',')) {
      const auto value = parse_extent(number);
      if (!value) throw bad();
      extents[i].push_back(*value);
      if (extents[i].size() > MOST_SHAPES) throw too_many("shape", text);
    }
  if (1.0 * extents[0].size() * extents[1].size() * extents[2].size() > MOST_SHAPES)
    throw too_many("shape", text);
  std::vector<Shape> shapes;
  for (const int k : extents[2])
    for (const int n : extents[1])
      for (const int m : extents[0]) {
        Shape& s = shapes.emplace_back();
        s.M = m, s.N = n, s.K = k;
      }
  return shapes;
}

// "4096", "512,1024", "512:8192:256" (first:last:step).
std::vector<Shape> parse_sizes(const std::string& text) {
  const auto bad = [&] {
    return UsageError(
        fmt::format("bad size '{}': want N, N,N,... or FIRST:LAST:STEP with 0 <= N <= {} and STEP "
                    ">= 1, as in 512:8192:256",
                    printable(text), LARGEST));
  };
  std::vector<Shape> shapes;
  for (const std::string& part : split(text, ',')) {
    std::vector<int> numbers;
    for (const std::string& number : split(part, ':')) {
      const auto value = parse_extent(number);
      if (!value) throw bad();
      numbers.push_back(*value);
    }
    if (numbers.size() == 1) numbers = {numbers[0], numbers[0], 1};
    if (numbers.size() != 3 || numbers[2] < 1 || numbers[1] < numbers[0]) throw bad();
    if ((numbers[1] - numbers[0]) / numbers[2] >= static_cast<int>(MOST_SHAPES - shapes.size()))
      throw too_many("size", text);
    for (int64_t n = numbers[0]; n <= numbers[1]; n += numbers[2])
      shapes.push_back({static_cast<int>(n), static_cast<int>(n), static_cast<int>(n)});
  }
  return shapes;
}

DType parse_dtype(const std::string& text) {
  try {
    return dtype_of(printable(text));  // so much of it as its error may repeat
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
}

Ops parse_op(const std::string& text) {
  if (text.size() != 2 || text.find_first_not_of("nt") != std::string::npos)
    throw UsageError(fmt::format("bad --op '{}': choose from nn, nt, tn, tt", printable(text)));
  return {text[0] == 'n' ? Op::N : Op::T, text[1] == 'n' ? Op::N : Op::T};
}

// All parts of a list such as "nn,nt"; empty when `parse` takes one of them for none of its words.
template <class Parse>
auto parse_list(const std::string& text, Parse parse) {
  std::vector<decltype(parse(text))> all;
  try {
    for (const std::string& part : split(text, ',')) all.push_back(parse(part));
  } catch (const UsageError&) {
    all.clear();
  }
  return all;
}

int parse_batch(const char* option, const std::string& text) {
  const int batch = parse_extent(text).value_or(0);
  if (batch < 1 || batch > MOST_PRODUCTS)
    throw UsageError(
        fmt::format("bad {} '{}': want 1 .. {}", option, printable(text), MOST_PRODUCTS));
  return batch;
}

// What stands after the shape in a line: op, dtype, batch:N and rungs, each at most once, in any
// order.
// False: the word is one too many.
bool take_word(Shape& s, const std::string& word) {
  constexpr char BATCH[] = "batch:";
  if (word.starts_with(BATCH)) {
    if (s.batch != 0) return false;
    s.batch = parse_batch(BATCH, word.substr(std::size(BATCH) - 1));
  } else if (const std::vector<Ops> ops = parse_list(word, parse_op); !ops.empty()) {
    if (!s.ops.empty()) return false;
    s.ops = ops;
  } else if (const std::vector<DType> dtypes = parse_list(word, parse_dtype); !dtypes.empty()) {
    if (!s.dtypes.empty()) return false;
    s.dtypes = dtypes;
  } else {
    if (s.rungs != "all") return false;
    s.rungs = word;
  }
  return true;
}

std::string activation_names() {
  std::vector<std::string> names;
  for (const Activation a : ALL_ACTIVATIONS) names.emplace_back(info(a).name);
  return fmt::format("{}", fmt::join(names, ", "));
}

constexpr char GATED[] = "gated";

std::string operand_names() {
  std::vector<std::string> names;
#define ROW(name) names.emplace_back(#name);
  GEMM_EPILOGUE_OPERANDS(ROW)
#undef ROW
  names.emplace_back(GATED);
  return fmt::format("{}", fmt::join(names, ", "));
}

// One activation and any operands, each at most once: "bias,gelu".
void parse_epilogue(const std::string& text, Options& o) {
  bool has_activation = false;
  const auto take = [&](const std::string& word) {
    for (const Activation a : ALL_ACTIVATIONS)
      if (word == info(a).name && !has_activation) {
        o.activation = a;
        return has_activation = true;
      }
#define ROW(name) \
  if (word == #name && !o.operands.name) return o.operands.name = true;
    GEMM_EPILOGUE_OPERANDS(ROW)
#undef ROW
    if (word == GATED && !o.gated) return o.gated = true;
    return false;
  };
  for (const std::string& word : split(text, ','))
    if (!take(word))
      throw UsageError(
          fmt::format("bad --epilogue '{}': want a list, each once, of {}, and one of {}",
                      printable(text), operand_names(), activation_names()));
}

// A line: "MxNxK [op] [dtype] [batch:N] [rungs]", lists allowed for M, N and K, or sizes as after --size in place of the shape; # starts a
// comment.
std::vector<Shape> read_shapes(const std::string& file) {
  std::istringstream in(read_file("shapes file", file, LARGEST_SHAPES_FILE));
  std::vector<Shape> shapes;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string shape;
    if (!(words >> shape)) continue;
    const std::string place = fmt::format("{}:{}", printable(file), number);
    std::vector<Shape> more;
    try {
      more = shape.find('x') == std::string::npos ? parse_sizes(shape) : parse_shape(shape);
    } catch (const UsageError& e) {
      throw UsageError(fmt::format("{}: {}", place, e.what()));
    }
    Shape narrowed;
    for (std::string word; words >> word;) {
      bool taken = false;
      try {
        taken = take_word(narrowed, word);
      } catch (const UsageError& e) {
        throw UsageError(fmt::format("{}: {}", place, e.what()));
      }
      if (!taken)
        throw UsageError(
            fmt::format("{}: '{}' is too much: want MxNxK, or sizes, then at most one word each as "
                        "after --op, --dtype and --kernel, and batch:N",
                        place, printable(word)));
    }
    for (Shape& s : more) {
      s.rungs = narrowed.rungs, s.ops = narrowed.ops, s.dtypes = narrowed.dtypes;
      s.batch = narrowed.batch;
      s.place = place;
      shapes.push_back(s);
    }
  }
  if (shapes.empty())
    throw UsageError(
        fmt::format("shapes file '{}' names no shape (one MxNxK a line)", printable(file)));
  return shapes;
}

// A mixture of experts: one group a line, "M N K", of one N and one K; # starts a comment.
Shape read_groups(const std::string& file) {
  std::istringstream in(read_file("groups file", file, LARGEST_SHAPES_FILE));
  Shape s;
  s.place = printable(file);
  int64_t rows = 0;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    const std::vector<std::string> parts{std::istream_iterator<std::string>(words), {}};
    if (parts.empty()) continue;
    const auto fail = [&](const std::string& why) {
      return UsageError(fmt::format("{}:{}: {}", printable(file), number, why));
    };
    std::vector<int> sizes;
    for (const std::string& part : parts)
      if (const auto size = parse_extent(part)) sizes.push_back(*size);
    if (sizes.size() != 3 || parts.size() != 3)
      throw fail(fmt::format("bad group '{}': want M N K, each 0 .. {}",
                             printable(fmt::format("{}", fmt::join(parts, " "))), LARGEST));
    if (s.groups.count == 0) s.N = sizes[1], s.K = sizes[2];
    if (sizes[1] != s.N || sizes[2] != s.K)
      throw fail(fmt::format("N and K are {} and {}: want {} and {}, as in the groups before",
                             sizes[1], sizes[2], s.N, s.K));
    if (s.groups.count == Groups::MOST)
      throw fail(fmt::format("too many groups: at most {}", Groups::MOST));
    rows += sizes[0];
    if (rows > LARGEST) throw fail(fmt::format("too many rows in all: at most {}", LARGEST));
    s.groups.ends[s.groups.count++] = static_cast<int>(rows);
  }
  if (s.groups.count == 0)
    throw UsageError(
        fmt::format("groups file '{}' names no group (one M N K a line)", printable(file)));
  s.M = static_cast<int>(rows);
  return s;
}

// Finite, in float's range. 1e-50 is none: it would be taken for 0, which is another problem.
float parse_scalar(const char* option, const std::string& text,
                   const char* wanted = "a finite single-precision number, as in -0.5") {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(value))
    throw UsageError(fmt::format("bad {} '{}': want {}", option, printable(text), wanted));
  return value;
}

// Google Benchmark's flags. It takes a bad value for none, or ends the program in its own way.
struct BenchmarkFlag {
  const char* name;
  const char* wants;  // a regular expression that the value matches
  const char* words;  // the same for people
  bool optional = false;
};
constexpr char BOOLEAN[] = "true|false|yes|no|on|off|1|0";
constexpr char SECONDS[] = "[0-9]{1,6}(\\.[0-9]{0,9})?";
const BenchmarkFlag BENCHMARK_FLAGS[] = {
    {"filter", "[ -~]*", "a regular expression"},
    {"repetitions", "[1-9][0-9]{0,3}", "1 .. 9999"},
    {"min_time", SECONDS, "seconds, as in 0.5"},
    {"min_warmup_time", SECONDS, "seconds, as in 0.5"},
    {"out", "[^]*", "a file, as --json"},
    {"out_format", "json", "json"},
    {"format", "console|json|csv", "console, json or csv"},
    {"color", "auto|true|false|yes|no|on|off|1|0", "auto, true or false"},
    {"context", "[ -~]+=[ -~]*", "KEY=VALUE in ASCII"},
    {"perf_counters", "[ -~]*", "names"},
    {"time_unit", "ns|us|ms|s", "ns, us, ms or s"},
    {"list_tests", BOOLEAN, "true or false", true},
    {"counters_tabular", BOOLEAN, "true or false", true},
    {"report_aggregates_only", BOOLEAN, "true or false", true},
    {"display_aggregates_only", BOOLEAN, "true or false", true},
    {"enable_random_interleaving", BOOLEAN, "true or false", true}};

// `spelled` as the user did: "--benchmark_x" or "BENCHMARK_X".
void take_benchmark_flag(Options& o, const std::string& spelled, const BenchmarkFlag& flag,
                         const std::optional<std::string>& value) {
  const std::string name = flag.name;
  if (!value && !flag.optional)
    throw UsageError(fmt::format("{} has no value: want {}={}", spelled, spelled, flag.words));
  if (value && value->size() > 4000)  // std::regex recurses a frame a character
    throw UsageError(
        fmt::format("bad {} '{}': at most 4000 characters", spelled, printable(*value)));
  if (value && !std::regex_match(*value, std::regex(flag.wants)))
    throw UsageError(fmt::format("bad {} '{}': want {}", spelled, printable(*value), flag.words));
  if (name == "out") o.json = *value;
  if (name == "out" || name == "out_format") return;
  if (name == "list_tests")
    o.list_benchmarks =
        !value || std::set<char>{'t', 'y', '1'}.count((*value)[0]) > 0 || *value == "on";
  if (name == "repetitions") o.repeated = *value != "1";
  o.benchmark_flags.push_back("--benchmark_" + name + (value ? "=" + *value : ""));
}

// What Google Benchmark would read from the environment: BENCHMARK_FILTER and the like.
void take_benchmark_environment(Options& o) {
  for (const BenchmarkFlag& flag : BENCHMARK_FLAGS) {
    std::string name = "BENCHMARK_";
    for (const char* c = flag.name; *c != 0; ++c) name += static_cast<char>(std::toupper(*c));
    if (const char* value = std::getenv(name.c_str()))
      take_benchmark_flag(o, name, flag, std::string(value));
  }
  o.benchmark_flags.clear();  // it reads them itself
}

void take_benchmark_argument(Options& o, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> known;
  for (const BenchmarkFlag& flag : BENCHMARK_FLAGS) {
    known.push_back(std::string("--benchmark_") + flag.name);
    if (name != known.back()) continue;
    const bool valued = name.size() < argument.size();
    return take_benchmark_flag(
        o, name, flag, valued ? std::optional(argument.substr(name.size() + 1)) : std::nullopt);
  }
  throw UsageError(fmt::format("unknown argument '{}': of Google Benchmark's allowed are {}",
                               printable(argument), fmt::join(known, ", ")));
}

constexpr char FOOTER[] =
    "Google Benchmark's flags (--benchmark_filter=REGEX, --benchmark_repetitions=N, ...) are "
    "passed\n"
    "on; --benchmark_out=FILE is --json FILE.\n"
    "\n"
    "Exit status; the first that applies:\n"
    "  1  a result was wrong\n"
    "  3  the machine or the program failed: a launch, a fault, memory, a baseline, the disk, "
    "stdout;\n"
    "     what was measured until then is kept, and a line on stderr says where\n"
    "  2  bad input, or nothing was verified (no such rung here, all skipped)\n"
    "  0  all that ran is right, and something ran\n"
    "\n"
    "Results grow in FILE.partial, whole JSON at every moment; a run that reaches its end gives "
    "it\n"
    "its name. A signal ends the run as usual, with a line that says where they are.";

}  // namespace

Options parse_command_line(int argc, const char* const* argv) {
  Options o;
  CLI::App app(
      "Verifies and benchmarks the GEMM ladder: C = f(alpha * op(A) * op(B) + beta * C), "
      "row-major.");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("--version", "gemm_bench " GEMM_VERSION);
  std::string dtypes, ops = "nn", backend, l2 = "cold", blocks, warp, tune, jit;
  std::string alpha = "1", beta = "0", ld_pad = "0", sample, seed = "1", time_limit;
  std::string epilogue = "none", batch = "1", batch_pad = "0", shared, gpus;
  std::vector<std::string> sizes, shapes, files, groups;
  app.add_option("--kernel", o.kernels,
                 "Rungs: v8 | v8,v10 | v1-v8 | v4- | a name | sgemm | hgemm | all; or "
                 "files of your own: path/to/mine.cu")
      ->capture_default_str();
  app.add_option("--dtype", dtypes, dtype_names() + " or a list; default: all that a rung has");
  app.add_option("--size", sizes, "M = N = K: 4096 | 512,1024 | 512:8192:256")
      ->allow_extra_args(false);
  app.add_option("--shape", shapes,
                 "MxNxK, repeatable; each of the three may be a list: 1,2,4x4096x4096")
      ->allow_extra_args(false);
  app.add_option(
         "--shapes", files,
         "File with one MxNxK or FIRST:LAST:STEP a line, optionally followed by op, dtype, "
         "batch:N and the rungs to run; --op, --dtype and --kernel then choose among the lines")
      ->allow_extra_args(false);
  app.add_option(
         "--groups", groups,
         "File with one M N K a line, the groups of a mixture of experts, of one N and one K: "
         "A and C are their rows one below the other, B one matrix for each")
      ->allow_extra_args(false);
  app.add_option("--sample", sample, "Run only N of these problems, drawn at random");
  app.add_option("--seed", seed, "With --sample: the draw's number; the same one draws the same")
      ->capture_default_str();
  app.add_option("--alpha", alpha, "Scalar alpha")->capture_default_str()->type_name("NUMBER");
  app.add_option("--beta", beta, "Scalar beta; 0 never reads C")->capture_default_str();
  app.add_option("--epilogue", epilogue,
                 "What the epilogue has besides alpha and beta, a list: " + operand_names() +
                     "; and an activation: " + activation_names())
      ->capture_default_str();
  app.add_option("--ld-pad", ld_pad, "Elements between the rows of every matrix")
      ->capture_default_str()
      ->type_name("NUMBER");
  app.add_option("--batch", batch,
                 "Products of each shape, in one call; their matrices follow each other")
      ->capture_default_str()
      ->type_name("NUMBER");
  app.add_option("--batch-pad", batch_pad, "With --batch: elements between the products' matrices")
      ->capture_default_str()
      ->type_name("NUMBER");
  app.add_option("--batch-shared", shared, "With --batch: what all products share: A | B | AB");
  app.add_option("--op", ops, "nn | nt | tn | tt or a list: which of A, B is stored transposed")
      ->capture_default_str();
  app.add_flag("--invariant", o.invariant,
               "A row's bits depend neither on M nor on the other rows: only rungs that keep to "
               "that run, and "
               "their rows are compared with those of calls with fewer rows");
  app.add_option("--backend", backend, "gpu | sim; default: the GPU if there is one");
  app.add_option("--device", o.device,
                 "Which GPU, from 0, of those that CUDA_VISIBLE_DEVICES leaves")
      ->capture_default_str();
  app.add_option(
      "--gpus", gpus,
      "Rungs m1, m2, ...: how many GPUs share a product, 2 .. 8; in the simulator as many "
      "devices");
  app.add_option("--l2", l2, "cold: rotate over buffers larger than twice the L2 | warm: one set")
      ->capture_default_str();
  app.add_option("--json", o.json, "Write Google Benchmark's JSON to this file");
  app.add_flag("--list", o.list, "List the rungs and exit");
  app.add_flag("--verify-only", o.verify_only, "Verify, do not time");
  app.add_flag("--accuracy", o.accuracy,
               "Also show each result's largest error against double precision, and cuBLAS's");
  app.add_flag("--keep-going", o.keep_going,
               "Run each rung and problem in a process of its own: after a fault the others go on");
  app.add_option("--only", o.only, "")->group("");  // hidden: how --keep-going starts a process
  app.add_flag("--alone", o.alone,
               "Also time each rung, and the libraries' fastest, by itself for a second: at the "
               "power limit energy decides there, in pairs cycles");
  app.add_flag("--quick", o.quick,
               "For hundreds of shapes: of each as many samples as its ratio to the baseline needs "
               "to be known to 0.5 %, a tenth of the time; all of it is verified as ever. With "
               "--tune: short warm-ups, and 11 samples of each variant");
  app.add_option("--time-limit", time_limit,
                 "Begin no rung and problem later than N seconds after the start; those that are "
                 "left are listed as not measured, exit status 3");
  app.add_flag("--explain", o.explain,
               "Print which variant of a rung would run at each shape, and why; run nothing");
  app.add_option("--tune", tune,
                 "Measure all variants of the rungs that have several, and keep the results for "
                 "later runs; first: run the rungs, and do so where a shape is met first")
      ->expected(0, 1)
      ->type_name("[first]");
  app.add_option("--jit", jit,
                 "Compile each kernel at run time (NVRTC) for the one shape that it computes, for "
                 "rungs that can; both: and run the others beside it")
      ->expected(0, 1)
      ->type_name("[both]");
  app.add_option("--variant", o.variant, "Run this variant of the rungs that have it; all: each");
  app.add_option("--tune-cache", o.tune_cache,
                 "The file of --tune's results; default: gemm_ladder/tuning.json in "
                 "$XDG_CACHE_HOME or ~/.cache");
  app.add_flag("--no-tune-cache", o.no_tune_cache, "Leave --tune's results out of account");
  app.add_flag("--inspect", o.inspect,
               "Trace every access to memory in the simulator: counters, races, wrong accesses");
  app.add_option("--blocks", blocks,
                 "With --inspect, how many blocks to trace: N | all; default: all of a small "
                 "problem, a few of each kind of a large one");
  app.add_option(
      "--warp", warp,
      "With --inspect, also show what one warp asks for: the first request of each source "
      "line, lane by lane. W | BLOCK:W; the block is 0 by default");
  app.add_option("--html", o.html,
                 "With --inspect, write a page to this file: source, lanes, banks and a timeline");
  for (CLI::Option* option :
       app.get_options())  // the last of several wins, except where they add up
    if (option->get_items_expected_max() == 1) option->take_last();
  app.footer(FOOTER);

  o.arguments.assign(argv + 1, argv + argc);
  take_benchmark_environment(o);
  std::vector<std::string> arguments;
  for (const std::string& argument : o.arguments)
    if (argument.rfind("--benchmark_", 0) == 0)
      take_benchmark_argument(o, argument);
    else
      arguments.push_back(argument);
  std::reverse(arguments.begin(), arguments.end());  // CLI11's convention for vectors
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    o.help = true;
    o.help_text = app.help();
    return o;
  } catch (const CLI::CallForVersion& version) {
    o.help = true;
    o.help_text = version.what() + std::string("\n");
    return o;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> extras = app.remaining();
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options())
      if (!option->get_group().empty()) known.push_back(option->get_name());
    throw UsageError(fmt::format("unknown argument '{}': allowed are {}, --benchmark_*",
                                 extras.empty() ? "" : printable(extras.front()),
                                 fmt::join(known, ", ")));
  } catch (const CLI::ParseError& e) {
    throw UsageError(printable(e.what(), 1000) + " (--help lists what is allowed)");
  }

  for (const char* name :
       {"--json", "--tune-cache", "--variant", "--backend", "--dtype", "--blocks", "--warp",
        "--html", "--only", "--shapes", "--groups", "--sample", "--time-limit", "--gpus"})
    for (const std::string& value : app.get_option(name)->results())
      if (value.empty()) throw UsageError(fmt::format("{} has an empty value", name));
  if (!dtypes.empty())
    for (const std::string& d : split(dtypes, ',')) o.dtypes.push_back(parse_dtype(d));
  for (const std::string& s : sizes)
    for (const Shape& shape : parse_sizes(s)) o.shapes.push_back(shape);
  for (const std::string& s : shapes)
    for (const Shape& shape : parse_shape(s)) o.shapes.push_back(shape);
  for (const std::string& f : files)
    for (const Shape& shape : read_shapes(f)) o.shapes.push_back(shape);
  for (const std::string& f : groups) o.shapes.push_back(read_groups(f));
  if (o.shapes.size() > MOST_SHAPES)
    throw UsageError(
        fmt::format("{} shapes are too many: at most {} in one run", o.shapes.size(), MOST_SHAPES));
  std::vector<NamedFile> given{
      {"--json", o.json, true}, {"--html", o.html, true}, {"--tune-cache", o.tune_cache, true}};
  for (const std::string& f : files) given.push_back({"--shapes", f, false});
  for (const std::string& f : groups) given.push_back({"--groups", f, false});
  refuse_one_file_for_two(given);
  o.alpha = parse_scalar("--alpha", alpha);
  o.beta = parse_scalar("--beta", beta);
  parse_epilogue(epilogue, o);
  if (o.operands.residual && app.count("--beta") == 0) o.beta = 1;
  if (o.operands.residual && o.beta == 0)
    throw UsageError("--epilogue residual is read times --beta, which is 0");
  if (o.gated && o.beta != 0)
    throw UsageError(
        "--epilogue gated does not go with --beta or residual: D has half of the columns of C");
  o.ld_pad = parse_extent(ld_pad).value_or(-1);
  if (o.ld_pad < 0 || o.ld_pad > (1 << 20))
    throw UsageError(fmt::format("bad --ld-pad '{}': want 0 .. {}", printable(ld_pad), 1 << 20));
  o.batch = parse_batch("--batch", batch);
  o.batch_pad = parse_extent(batch_pad).value_or(-1);
  if (o.batch_pad < 0 || o.batch_pad > (1 << 20))
    throw UsageError(
        fmt::format("bad --batch-pad '{}': want 0 .. {}", printable(batch_pad), 1 << 20));
  if (!shared.empty() && shared != "A" && shared != "B" && shared != "AB")
    throw UsageError(
        fmt::format("bad --batch-shared '{}': choose from A, B, AB", printable(shared)));
  o.shared_a = shared.find('A') != std::string::npos;
  o.shared_b = shared.find('B') != std::string::npos;
  for (const char* other : {"--batch", "--tune", "--inspect"})
    if (!groups.empty() && app.count(other) > 0)
      throw UsageError(fmt::format("--groups does not go with {}", other));
  if (o.inspect && o.batch_pad > 0) throw UsageError("--batch-pad does not go with --inspect");
  if (o.batch == 1 && (o.batch_pad > 0 || !shared.empty()))
    throw UsageError("--batch-pad and --batch-shared belong to --batch of 2 or more");
  o.ops.clear();
  for (const std::string& op : split(ops, ',')) o.ops.push_back(parse_op(op));
  o.ops_given = app.count("--op") > 0;
  o.sample = parse_extent(sample).value_or(0);
  if (!sample.empty() && o.sample == 0)
    throw UsageError(fmt::format("bad --sample '{}': want 1 or more", printable(sample)));
  if (const auto number = parse_extent(seed))
    o.sample_seed = static_cast<uint64_t>(*number);
  else
    throw UsageError(fmt::format("bad --seed '{}': want 0 .. {}", printable(seed), LARGEST_EXTENT));
  if (app.count("--seed") > 0 && o.sample == 0) throw UsageError("--seed belongs to --sample");
  if (!time_limit.empty()) {
    constexpr char SECONDS[] = "seconds above 0, as in 600";
    o.time_limit_s = parse_scalar("--time-limit", time_limit, SECONDS);
    if (o.time_limit_s <= 0)
      throw UsageError(
          fmt::format("bad --time-limit '{}': want {}", printable(time_limit), SECONDS));
  }
  if (backend == "gpu")
    o.backend = Backend::gpu;
  else if (backend == "sim")
    o.backend = Backend::sim;
  else if (!backend.empty())
    throw UsageError(fmt::format("unknown backend '{}': choose from gpu, sim", printable(backend)));
  if (o.inspect && backend == "gpu")
    throw UsageError("--inspect runs in the simulator: leave out --backend gpu");
  if (o.device < 0) throw UsageError(fmt::format("bad --device {}: want 0 or more", o.device));
  if (o.device > 0 && (o.inspect || backend == "sim"))
    throw UsageError(fmt::format("--device {}: the simulator is one device, 0", o.device));
  if (o.inspect && !o.benchmark_flags.empty())
    throw UsageError(fmt::format("{} does not go with --inspect, which measures no time",
                                 o.benchmark_flags.front()));
  if (app.count("--tune") > 0) {
    if (!tune.empty() && tune != "first")
      throw UsageError(
          fmt::format("bad --tune '{}': leave the value out, or choose first", printable(tune)));
    (tune.empty() ? o.tune : o.tune_first) = true;
    if (o.operands.any() || o.gated || o.activation != Activation::none)
      throw UsageError("--epilogue does not go with --tune, which measures plain products");
  }
  if (app.count("--jit") > 0) {
    if (!jit.empty() && jit != "both")
      throw UsageError(
          fmt::format("bad --jit '{}': leave the value out, or choose both", printable(jit)));
    o.jit = true;
    o.jit_beside = !jit.empty();
    if (o.inspect || o.backend == Backend::sim) throw UsageError(JIT_WANTS_A_GPU);
    if (o.tune || o.tune_first || o.explain || o.list)
      throw UsageError(
          "--jit is a way of running rungs: it does not go with --tune, --explain or --list");
  }
  if (o.tune_first) {
    const auto refuse = [](const char* flag) {
      throw UsageError(fmt::format(
          "{} does not go with --tune first, which times the variants of a rung and keeps them",
          flag));
    };
    if (o.inspect) refuse("--inspect");
    if (o.explain) refuse("--explain");
    if (o.list) refuse("--list");
    if (!o.variant.empty()) refuse("--variant");
    if (o.verify_only) refuse("--verify-only");
    if (o.no_tune_cache) refuse("--no-tune-cache");
  }
  if (o.invariant && (o.tune || o.tune_first))
    throw UsageError("--invariant does not go with --tune, which takes what is fastest at each M");
  if (o.alone && (o.inspect || o.verify_only || o.tune || o.explain || o.list))
    throw UsageError(
        "--alone is a way of timing: it does not go with --inspect, --verify-only, --tune, "
        "--explain or --list");
  if (o.quick && (o.inspect || o.verify_only || o.explain || o.list))
    throw UsageError(
        "--quick is a way of timing: it does not go with --inspect, --verify-only, --explain or "
        "--list");
  if (o.time_limit_s > 0 && (o.inspect || o.tune || o.explain || o.list))
    throw UsageError(
        "--time-limit ends a run that verifies and times: it does not go with --inspect, --tune, "
        "--explain or --list");
  if (o.keep_going && (o.inspect || o.tune || o.explain || o.list))
    throw UsageError(
        "--keep-going is a way of running rungs: it does not go with --inspect, --tune, --explain "
        "or --list");
  if (o.tune) {
    const auto refuse = [](const char* flag) {
      throw UsageError(
          fmt::format("{} does not go with --tune, which measures every variant and "
                      "writes its own file (--tune-cache)",
                      flag));
    };
    if (o.inspect) refuse("--inspect");
    if (o.explain) refuse("--explain");
    if (!o.json.empty()) refuse("--json");
    if (!o.variant.empty()) refuse("--variant");
    if (o.verify_only) refuse("--verify-only");
    if (o.no_tune_cache) refuse("--no-tune-cache");
    if (!o.benchmark_flags.empty()) refuse(o.benchmark_flags.front().c_str());
  }
  if (!blocks.empty()) {
    if (!o.inspect) throw UsageError("--blocks belongs to --inspect");
    o.traced_blocks = blocks == "all" ? 0 : parse_extent(blocks).value_or(0);
    if (o.traced_blocks == 0 && blocks != "all")
      throw UsageError(
          fmt::format("bad --blocks '{}': want a number from 1, or all", printable(blocks)));
  }
  if (!o.html.empty()) {
    if (!o.inspect) throw UsageError("--html belongs to --inspect");
    // Large enough that pipelines wrap and that persistent blocks have several tiles.
    if (o.shapes.empty()) o.shapes.push_back({512, 512, 512});
  }
  if (!warp.empty()) {
    if (!o.inspect) throw UsageError("--warp belongs to --inspect");
    const std::vector<std::string> parts = split(warp, ':');
    const auto block = parse_extent(parts.size() == 2 ? parts[0] : "0"),
               index = parse_extent(parts.back());
    if (parts.size() > 2 || !block || !index)
      throw UsageError(fmt::format("bad --warp '{}': want W or BLOCK:W, both from 0, as in 0:3",
                                   printable(warp)));
    o.watched = {*block, *index};
  }
  if (!gpus.empty()) {
    o.gpus = parse_extent(gpus).value_or(0);
    if (o.gpus < 2 || o.gpus > MOST_RANKS)
      throw UsageError(fmt::format("bad --gpus '{}': want 2 .. {}", printable(gpus), MOST_RANKS));
    const std::set<std::string> taken = {"--kernel", "--dtype", "--size",        "--shape",
                                         "--shapes", "--op",    "--ld-pad",      "--backend",
                                         "--json",   "--list",  "--verify-only", "--variant",
                                         "--quick",  "--gpus",  "--inspect"};
    for (const CLI::Option* option : app.get_options())
      if (option->count() > 0 && !taken.contains(option->get_name()))
        throw UsageError(fmt::format("{} does not go with --gpus, which takes {}",
                                     option->get_name(), fmt::join(taken, ", ")));
  } else if (std::regex_search(o.kernels, std::regex("(^|,)m[0-9]"))) {
    throw UsageError(
        fmt::format("--kernel {}: rungs m1, m2, ... share a product: say among how many "
                    "GPUs, as in --gpus 2",
                    printable(o.kernels)));
  }
  if (l2 != "cold" && l2 != "warm")
    throw UsageError(fmt::format("bad --l2 '{}': choose from cold, warm", printable(l2)));
  o.l2_cold = l2 == "cold";
  return o;
}

std::vector<const Rung*> select_rungs(const std::string& spec, const std::vector<DType>& dtypes,
                                      Backend backend) {
  const std::vector<const Rung*> all = rungs(backend);
  const auto known = [&](const std::string& id) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Rung* r) { return r->id == id || r->name == id; });
  };
  const auto unknown = [&](const std::string& what) {
    if (find_not_built(backend, what))
      return UsageError(fmt::format("{} is not built yet: {} builds and runs it", what,
                                    command_that_builds(backend, what)));
    std::vector<std::string> ids;
    for (const Rung* r : all)
      if (ids.empty() || ids.back() != r->id) ids.push_back(r->id);
    return UsageError(
        fmt::format("unknown kernel '{}': choose from {}, a range such as v1-v8, sgemm, hgemm, all",
                    printable(what), fmt::join(ids, ", ")));
  };
  const auto bytes = [](const Rung& r) {  // of all three matrices' elements, or 0
    const DTypeInfo types = info(r.dtype);
    return types.in == types.out ? info(types.in).bytes : 0;
  };
  const auto id_of = [&](const std::string& name) {
    for (const Rung* r : all)
      if (r->id == name || r->name == name) return r->id;
    if (const auto missing = find_not_built(backend, name)) return rung_id(missing->name);
    throw unknown(name);
  };
  std::set<const Rung*> chosen;
  for (const std::string& part : split(spec, ',')) {
    const size_t dash = part.find('-');
    const auto take = [&](auto&& wanted) {
      for (const Rung* r : all)
        if (wanted(*r)) chosen.insert(r);
    };
    if (part == "all") {
      take([](const Rung&) { return true; });
    } else if (part == "sgemm") {
      take([&](const Rung& r) { return bytes(r) == 4; });
    } else if (part == "hgemm") {
      take([&](const Rung& r) { return bytes(r) == 2; });
    } else if (known(part)) {
      take([&](const Rung& r) { return r.id == part || r.name == part; });
    } else if (dash != std::string::npos) {  // its ends need not be built
      const std::string from = part.substr(0, dash), to = part.substr(dash + 1);
      const auto first = ladder_position(id_of(from));
      const auto last = to.empty() ? ladder_position(all.back()->id) : ladder_position(id_of(to));
      if (last < first)
        throw UsageError(
            fmt::format("empty range '{}': the first rung comes after the last; a range is "
                        "FIRST-LAST, as in v1-v8",
                        printable(part)));
      take([&](const Rung& r) {
        return first <= ladder_position(r.id) && ladder_position(r.id) <= last;
      });
    } else {
      throw unknown(part);
    }
  }
  std::vector<const Rung*> result;
  for (const Rung* r : all)
    if (chosen.count(r) > 0 &&
        (dtypes.empty() || std::count(dtypes.begin(), dtypes.end(), r->dtype) > 0))
      result.push_back(r);
  if (result.empty()) {
    std::vector<std::string> names;
    for (const DType d : dtypes) names.push_back(to_string(d));
    throw UsageError(fmt::format("kernel '{}' has no {} variant: --list shows what there is",
                                 printable(spec), fmt::join(names, " or ")));
  }
  return result;
}

}  // namespace gemm
