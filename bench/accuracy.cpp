// Grades the accuracy of rungs against double precision: inputs of several classes, K from 1 to
// 65536. Prints a table of grades and writes every measure as JSON:
//   build/accuracy --json plots/results/<gpu>/accuracy.json
// What the grades mean stands in harness/accuracy.h, and in kernels/v14x_bf16x6.md.
#include "harness/accuracy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/cli.h"
#include "harness/device.h"
#include "harness/timing.h"
#include "harness/verify.h"
#include "version.h"

namespace gemm {
namespace {

using Json = nlohmann::ordered_json;
constexpr int EXIT_USAGE = 2, EXIT_FAILED = 3;

struct Arguments {
  std::string kernels = "v8-v10,v13,v14,v14w,v14x,v16,v24,v28", backend = "auto", json;
  std::vector<std::string> dtypes, classes;
  std::vector<int> ks;
  int size = 128;
  uint64_t seed = 1;
};

// Throws CLI::ParseError.
Arguments parse(int argc, const char* const* argv) {
  Arguments o;
  CLI::App app("Grades the accuracy of rungs against double precision, by class of inputs and K.",
               "accuracy");
  app.add_option("--kernel", o.kernels, "Rungs, as gemm_bench takes them")->capture_default_str();
  app.add_option("--dtype", o.dtypes, "Types; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "tf32", "f16", "bf16"}));
  std::vector<std::string> names;
  for (const InputClass& c : input_classes()) names.emplace_back(c.name);
  app.add_option("--inputs", o.classes, "Classes of inputs; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--k", o.ks, "Values of K; default: 1 to 65536, in the simulator to 1024")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--size", o.size, "M and N")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--backend", o.backend, "gpu, sim, or auto: the GPU if there is one")
      ->check(CLI::IsMember({"auto", "gpu", "sim"}))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Of the random numbers")->capture_default_str();
  app.add_option("--json", o.json, "Write every measure to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}\nClasses of inputs:\n", app.help());
    for (const InputClass& c : input_classes()) fmt::print("  {:14}{}\n", c.name, c.what);
    throw;
  }
  if (o.classes.empty()) o.classes = names;
  return o;
}

// Device memory that frees itself.
class Matrix {
 public:
  Matrix(Device& device, const std::vector<std::byte>& bytes)
      : device_(device), bytes_(bytes.size()), p_(device.allocate(std::max<size_t>(bytes_, 1))) {
    device_.upload(p_, bytes.data(), bytes_);
  }
  ~Matrix() { device_.release(p_); }
  Matrix(const Matrix&) = delete;
  void* get() const { return p_; }
  std::vector<std::byte> download() const {
    std::vector<std::byte> bytes(bytes_);
    device_.download(bytes.data(), p_, bytes_);
    return bytes;
  }

 private:
  Device& device_;
  const size_t bytes_;
  void* p_;
};

// The rung's product of these inputs. C holds NaN before, which an element that is not written keeps.
std::vector<double> multiply(Device& device, const Rung& rung, const GradedInputs& in,
                             const Matrix& a, const Matrix& b) {
  const std::vector<float> nan(int64_t{in.M} * in.N, std::numeric_limits<float>::quiet_NaN());
  const Matrix c(device, to_storage(in.dtype, nan));
  GemmCall call;
  call.M = in.M, call.N = in.N, call.K = in.K;
  call.A = a.get(), call.lda = in.K;
  call.B = b.get(), call.ldb = in.N;
  call.C = c.get(), call.ldc = in.N;
  device.run(rung, call);
  return from_storage(in.dtype, c.download());
}

// The table: of every rung and class the worst over K.
class Grades {
 public:
  void add(const Rung& rung, const std::string& input_class, const Errors& e) {
    Cell& cell = cells_[key(rung)][input_class];
    cell.A = std::max(cell.A, e.A);
    cell.grade = std::max(cell.grade, e.grade() == '-' ? 'D' : e.grade());
  }
  void print(const std::vector<const Rung*>& rungs, const std::vector<std::string>& classes) const {
    fmt::print("{:24}", "");
    for (const std::string& c : classes) fmt::print(" {:>13}", c);
    fmt::print("\n");
    for (const Rung* r : rungs) {
      const auto row = cells_.find(key(*r));
      if (row == cells_.end()) continue;
      fmt::print("{:24}", key(*r));
      for (const std::string& c : classes) {
        const auto cell = row->second.find(c);
        fmt::print(" {:>13}", cell == row->second.end() ? "" : text(cell->second));
      }
      fmt::print("\n");
    }
    fmt::print(
        "A, B, C: the strictest bound that the errors keep at every K, - none; beside it the "
        "largest "
        "error as a share of A's bound.\n");
  }

 private:
  struct Cell {
    double A = 0;
    char grade = 'A';
  };
  static std::string key(const Rung& r) { return r.name + "/" + to_string(r.dtype); }
  static std::string text(const Cell& c) {
    return fmt::format("{} {:.2g}", c.grade == 'D' ? '-' : c.grade, c.A);
  }
  std::map<std::string, std::map<std::string, Cell>> cells_;
};

// Four significant digits: more would be noise, and the file is committed. Infinity becomes null.
Json rounded(double x) {
  return std::isfinite(x) ? Json(std::stod(fmt::format("{:.4g}", x))) : Json();
}

Json entry(const Rung& rung, const std::string& input_class, const GradedInputs& in,
           const ExactProduct& exact, const Errors& e) {
  return {{"name", fmt::format("{}/{}/{}/{}x{}x{}", rung.name, to_string(rung.dtype), input_class,
                               in.M, in.N, in.K)},
          {"inputs", input_class},
          {"m", in.M},
          {"n", in.N},
          {"k", in.K},
          {"condition", rounded(exact.condition)},
          {"reference_error", rounded(exact.reference_error)},
          {"error_max", rounded(e.max)},
          {"error_rms", rounded(e.rms)},
          {"sum_error_max", rounded(e.sum_max)},
          {"error_normwise", rounded(e.normwise)},
          {"error_of_result", rounded(e.of_result)},
          {"drift", rounded(e.drift)},
          {"shrink", rounded(e.shrink)},
          {"non_finite", e.non_finite},
          {"share_of_A", rounded(e.A)},
          {"share_of_B", rounded(e.B)},
          {"share_of_C", rounded(e.C)},
          {"grade", std::string(1, e.grade())}};
}

Json context(Device& device, const Arguments& o, const std::string& command_line) {
  const bool on_gpu = device.backend() == Backend::gpu;
  Json c{{"command_line", command_line},
         {"git_revision", GIT_REVISION},
         {"backend", on_gpu ? "gpu" : "simulator"},
         {"build", BUILD_DESCRIPTION},
         {"seed", o.seed}};
  if (on_gpu)
    for (const auto& [key, value] : describe_gpu(device)) c[key] = value;
  else
    c["note"] =
        "The simulator's tensor cores round every addition to nearest; a GPU's cut off. Errors of "
        "products are a GPU's, errors of sums are not.";
  c["error_max"] = "largest |error| / (|A||B|), in roundings of the result's type";
  c["sum_error_max"] = "the same beyond the result's own rounding, in 2^-24";
  c["drift"] = "mean of error / (|A||B|), as error_max: below 0 where results are too low";
  c["shrink"] = "mean of (|result| - |A B|) / (|A||B|), likewise: below 0 where too near to zero";
  c["share_of_A"] = "largest error as a share of grade A's bound, which 1 keeps";
  for (const InputClass& i : input_classes()) c["inputs"][i.name] = i.what;
  return c;
}

// One line an entry.
std::string text(const Json& json) {
  std::string all = "{\n\"context\": " + json["context"].dump(1) + ",\n\"entries\": [";
  for (const Json& e : json["entries"])
    all += (&e == &json["entries"].front() ? "\n" : ",\n") + e.dump();
  return all + "\n]}\n";
}

// Replaces a regular file only when all of it has been written. Throws std::runtime_error.
void write(const std::string& path, const Json& json) {
  const bool in_place = std::filesystem::exists(path) && !std::filesystem::is_regular_file(path);
  const std::string written = in_place ? path : path + ".partial";
  std::ofstream out(written);
  out << text(json);
  out.close();
  if (!out) throw std::runtime_error("cannot write '" + written + "'");
  if (!in_place) std::filesystem::rename(written, path);
}

std::unique_ptr<Device> make_device(const std::string& backend) {
  std::string why;
  if (backend != "sim")
    if (auto gpu = make_gpu_device(why)) return gpu;
  if (backend == "gpu") throw UsageError("no GPU: " + why + "; --backend sim needs none");
  return make_sim_device();
}

// One heading a storage type; every product of a type's inputs is made once, for all rungs.
void grade(Device& device, const Arguments& o, const std::vector<const Rung*>& rungs, Json& entries,
           Grades& grades) {
  std::vector<int> ks = o.ks;
  if (ks.empty()) {
    ks = {1, 16, 64, 256, 1024};
    if (device.backend() == Backend::gpu) ks.insert(ks.end(), {4096, 16384, 65536});
  }
  for (const DType stored : {DType::f32, DType::f16, DType::bf16}) {
    std::vector<const Rung*> of_type;
    for (const Rung* r : rungs)
      if (r->dtype == stored || (stored == DType::f32 && r->dtype == DType::tf32))
        of_type.push_back(r);
    if (of_type.empty()) continue;
    for (const std::string& c : o.classes)
      for (const int k : ks) {
        if (c.starts_with("cancelling") && k == 1) continue;  // there is no pair
        const GradedInputs in = make_inputs(c, stored, o.size, o.size, k, o.seed);
        const ExactProduct exact = exact_product(in);
        const Matrix a(device, to_storage(stored, in.a)), b(device, to_storage(stored, in.b));
        for (const Rung* r : of_type) {
          Problem p;
          p.dtype = r->dtype, p.M = in.M, p.N = in.N, p.K = k;
          if (!unmet_need(*r, p, device).empty()) continue;
          const Errors e = errors_of(multiply(device, *r, in, a, b), in, exact);
          grades.add(*r, c, e);
          entries.push_back(entry(*r, c, in, exact, e));
        }
      }
    grades.print(of_type, o.classes);
    fmt::print("\n");
  }
}

int run(int argc, const char* const* argv) {
  const Arguments o = parse(argc, argv);
  std::vector<DType> dtypes;
  for (const std::string& d : o.dtypes) dtypes.push_back(dtype_of(d));
  const std::unique_ptr<Device> device = make_device(o.backend);
  const std::vector<const Rung*> rungs = select_rungs(o.kernels, dtypes, device->backend());
  std::string command = "build/accuracy";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  Json json{{"context", context(*device, o, command)}, {"entries", Json::array()}};
  if (!o.json.empty() && !std::ofstream(o.json, std::ios::app))
    throw UsageError(
        fmt::format("cannot write '{}': --json wants a file in a writable folder", o.json));
  fmt::print("{}, {} x {} x K, errors against double precision\n\n", device->name(), o.size,
             o.size);
  Grades grades;
  try {
    grade(*device, o, rungs, json["entries"], grades);
  } catch (const std::exception& e) {
    const std::string kept = o.json.empty() ? "" : o.json + ".partial";
    if (!kept.empty()) std::ofstream(kept) << text(json);
    throw std::runtime_error(
        kept.empty() ? e.what() : fmt::format("{}; results until then: {}", e.what(), kept));
  }
  if (!o.json.empty()) write(o.json, json);
  fmt::print("{} results\n", json["entries"].size());
  return 0;
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  const auto fail = [](const std::exception& e, int status) {
    fmt::print(stderr, "accuracy: {}\n", e.what());
    return status;
  };
  try {
    return gemm::run(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return 0;
  } catch (const CLI::ParseError& e) {
    return fail(e, gemm::EXIT_USAGE);
  } catch (const gemm::UsageError& e) {
    return fail(e, gemm::EXIT_USAGE);
  } catch (const std::exception& e) {
    return fail(e, gemm::EXIT_FAILED);
  }
}
