// What an exercise about benchmarks includes: a machine with a clock, of which every step is known.
//
//   const Benchmark exercise(verified);
#pragma once

#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <vector>

namespace gemm::lab {

enum class Type { f32, f16 };

// A row-major matrix in the machine's memory.
struct Matrix {
  int id;
  int64_t rows, cols;
};

// Something that should compute C = A * B.
struct Kernel {
  int id;
  std::string name;
  Type type;  // of its inputs
};

struct Sizes {
  int64_t M, N, K;
};

// Stands for a GPU, its allocator and its events. Its clock is a model:
//
// - A launch takes time for its arithmetic, and for those bytes of A, B and C that L2 does not hold.
//   L2 keeps what was used last.
// - The first launch of a kernel also loads its code.
// - Zeros cost less energy than other numbers, so that the clock stays higher.
// - Each launch warms the chip, and a warm chip is slower.
class Machine {
 public:
  class Model;  // and what the grader writes down
  explicit Machine(Model& model) : model_(model) {}

  int64_t l2_bytes() const;
  static int64_t bytes(const Matrix& m) { return m.rows * m.cols * int64_t{sizeof(float)}; }

  // New memory holds what its last owner left there, often the last result.
  Matrix allocate(int64_t rows, int64_t cols);
  void fill(const Matrix& matrix, float value);
  void fill_random(const Matrix& matrix, uint64_t seed);  // uniform in [-1, 1)
  std::vector<float> read(const Matrix& matrix) const;

  void run(const Kernel& kernel, const Matrix& A, const Matrix& B, const Matrix& C);

  // Microseconds of all launches between start() and stop().
  void start();
  double stop();

 private:
  Model& model_;
};

// Whether the kernel's result is right, by that of the library.
using Verify = std::function<bool(Machine&, const Kernel&, const Kernel& library, Sizes)>;
// Time of the fastest library of the kernel's type over that of the kernel.
using Compare =
    std::function<double(Machine&, const Kernel&, const std::vector<Kernel>& libraries, Sizes)>;

struct Driver {
  std::string file;
  Verify verify;
  Compare compare;
};
void add(Driver driver);

}  // namespace gemm::lab

// In the place of an Exercise: it hands a driver to the grader, not a kernel.
struct Benchmark {
  using Here = std::source_location;
  using Machine = gemm::lab::Machine;
  using Kernel = gemm::lab::Kernel;
  using Sizes = gemm::lab::Sizes;

  explicit Benchmark(bool (*fn)(Machine&, const Kernel&, const Kernel&, Sizes),
                     Here here = Here::current()) {
    gemm::lab::add({here.file_name(), fn, {}});
  }
  explicit Benchmark(double (*fn)(Machine&, const Kernel&, const std::vector<Kernel>&, Sizes),
                     Here here = Here::current()) {
    gemm::lab::add({here.file_name(), {}, fn});
  }
};
