#include "grader/benchmark.h"

#include <algorithm>
#include <limits>
#include <random>
#include <stdexcept>

namespace gemm::lab {
namespace {

constexpr int64_t L2_BYTES = 64 << 10;
constexpr double BYTES_PER_MICROSECOND = 5000;
constexpr double FLOP_PER_MICROSECOND = 50000;
constexpr double LOAD_CODE = 50;          // microseconds
constexpr double OF_ZEROS = 0.75;         // time of arithmetic on zeros, over that on numbers
constexpr double WARMER = 0.004;          // slower by a launch
constexpr size_t MOST_MATRICES = 100000;  // a driver that allocates for ever is told so

}  // namespace

// ------------------------------------------------------------------------------------------------

nlohmann::json to_json(const Task& task) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const KernelModel& k : task.kernels)
    kernels.push_back({k.name, int(k.type), k.slowness, int(k.fault)});
  return {{"kernels", kernels}, {"sizes", {task.sizes.M, task.sizes.N, task.sizes.K}}};
}

Task task_of(const nlohmann::json& j) {
  const nlohmann::json& s = j.at("sizes");
  Task task{{}, {s.at(0), s.at(1), s.at(2)}};
  for (const nlohmann::json& k : j.at("kernels"))
    task.kernels.push_back({k.at(0), k.at(1), k.at(2), k.at(3)});
  return task;
}

std::vector<Kernel> Machine::Model::add_kernels(const std::vector<KernelModel>& kernels) {
  std::vector<Kernel> added;
  for (const KernelModel& k : kernels) {
    added.push_back({static_cast<int>(kernels_.size()), k.name, k.type});
    kernels_.push_back(k);
  }
  return added;
}

double Machine::Model::arithmetic(int kernel, Sizes s) const {
  return kernels_[kernel].slowness * 2 * double(s.M) * double(s.N) * double(s.K) /
         FLOP_PER_MICROSECOND;
}

double Machine::Model::cold_time(const Kernel& kernel, Sizes s) const {
  const int64_t elements = s.M * s.K + s.K * s.N + s.M * s.N;
  return arithmetic(kernel.id, s) + double(elements * sizeof(float)) / BYTES_PER_MICROSECOND;
}

void Machine::Model::touch(int matrix) {
  std::erase(l2_, matrix);
  l2_.push_back(matrix);
  const auto bytes = [this] {
    size_t sum = 0;
    for (const int id : l2_) sum += memory_[id].size() * sizeof(float);
    return sum;
  };
  while (l2_.size() > 1 && bytes() > L2_BYTES) l2_.pop_front();
}

// ------------------------------------------------------------------------------------------------

int64_t Machine::l2_bytes() const { return L2_BYTES; }

Matrix Machine::allocate(int64_t rows, int64_t cols) {
  if (rows < 0 || cols < 0) throw std::runtime_error("allocate() was asked for less than nothing");
  if (model_.memory_.size() >= MOST_MATRICES) throw std::runtime_error("out of memory");
  const auto elements = static_cast<size_t>(rows * cols);
  const auto left = model_.left_.find(elements);
  model_.memory_.push_back(left == model_.left_.end() ? std::vector<float>(elements)
                                                      : left->second);
  return {static_cast<int>(model_.memory_.size()) - 1, rows, cols};
}

void Machine::fill(const Matrix& matrix, float value) {
  std::ranges::fill(model_.memory_.at(matrix.id), value);
  model_.touch(matrix.id);
}

void Machine::fill_random(const Matrix& matrix, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& x : model_.memory_.at(matrix.id)) x = uniform(random);
  model_.touch(matrix.id);
}

std::vector<float> Machine::read(const Matrix& matrix) const {
  return model_.memory_.at(matrix.id);
}

void Machine::run(const Kernel& kernel, const Matrix& A, const Matrix& B, const Matrix& C) {
  if (A.cols != B.rows || C.rows != A.rows || C.cols != B.cols)
    throw std::runtime_error("run() was given matrices that do not fit each other");
  const Fault fault = model_.kernels_.at(kernel.id).fault;
  const std::vector<float>&a = model_.memory_.at(A.id), &b = model_.memory_.at(B.id);
  std::vector<float>& c = model_.memory_.at(C.id);
  const auto zeros = [](const std::vector<float>& all) {
    return std::ranges::all_of(all, [](float x) { return x == 0; });
  };

  double bytes = 0, held = 0;
  for (const Matrix& m : {A, B, C}) {
    bytes += double(Machine::bytes(m));
    if (std::ranges::count(model_.l2_, m.id)) held += double(Machine::bytes(m));
  }
  const Launch launch{kernel.id, bytes == 0 ? 0 : held / bytes, zeros(a) || zeros(b),
                      model_.loaded_.insert(kernel.id).second, model_.timing_};
  double time = model_.arithmetic(kernel.id, {A.rows, B.cols, A.cols});
  if (launch.zeros) time *= OF_ZEROS;
  time += (bytes - held) / BYTES_PER_MICROSECOND;
  time *= 1 + WARMER * double(std::min<size_t>(model_.launches_.size(), 100));
  if (launch.first) time += LOAD_CODE;
  if (model_.timing_) model_.time_ += time;
  model_.launches_.push_back(launch);
  for (const Matrix& m : {A, B, C}) model_.touch(m.id);

  const int64_t rows = fault == Fault::writes_nothing ? 0
                       : fault == Fault::no_last_row  ? C.rows - 1
                                                      : C.rows;
  const int64_t depth = fault == Fault::half_of_k ? A.cols / 2 : A.cols;
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < C.cols; ++n) {
      float& out = c[m * C.cols + n];
      float sum = fault == Fault::adds_to_c ? out : 0;
      for (int64_t k = 0; k < depth; ++k) sum += a[m * A.cols + k] * b[k * B.cols + n];
      if (fault == Fault::writes_zeros) sum = 0;
      if (fault == Fault::writes_nan) sum = std::numeric_limits<float>::quiet_NaN();
      out = sum;
    }
  model_.left_[c.size()] = c;
}

void Machine::start() {
  model_.timing_ = true;
  model_.time_ = 0;
}

double Machine::stop() {
  if (!model_.timing_) throw std::runtime_error("stop() without start()");
  model_.timing_ = false;
  return model_.time_;
}

}  // namespace gemm::lab
