#include "own/host_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "harness/errors.h"
#include "harness/text.h"
#include "sim/simulator.h"

namespace gemm::own {
namespace {

constexpr size_t ALIGNMENT = 4096;
constexpr double GIB = 1 << 30, SPARE_GIB = 2;  // beside the matrices
// The simulator does 100 MFLOP a second and core of a plain kernel, and more.
constexpr double SECONDS = 10, SLOWEST_FLOPS = 2e7;

}  // namespace

SharedMatrices::SharedMatrices() {
  // Far from where Linux puts anything by itself: a host has to have the same place free.
  void* const wanted = reinterpret_cast<void*>(uintptr_t{0x2000} << 32);
  file_ = memfd_create("matrices", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, BYTES) != 0)
    throw std::system_error(errno, std::generic_category(), "memory for the matrices");
  void* const p = mmap(wanted, BYTES, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file_, 0);
  if (p != wanted)
    throw std::system_error(errno, std::generic_category(), "addresses for the matrices");
  base_ = static_cast<char*>(p);
}

SharedMatrices::~SharedMatrices() {
  munmap(base_, BYTES);
  close(file_);
}

// First fit: there are few matrices at a time.
void* SharedMatrices::allocate(size_t bytes) {
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  size_t begin = 0;
  auto at = taken_.begin();
  for (; at != taken_.end() && at->first - begin < bytes; ++at) begin = at->second;
  const double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  if (begin + bytes > BYTES || static_cast<double>(used_ + bytes) > pages) throw std::bad_alloc();
  taken_.insert(at, {begin, begin + bytes});
  used_ += bytes;
  return base_ + begin;
}

void SharedMatrices::release(void* p) {
  if (p == nullptr) return;
  const size_t begin = static_cast<char*>(p) - base_;
  const auto at = std::ranges::find(taken_, begin, &std::pair<size_t, size_t>::first);
  if (at == taken_.end()) return;
  const size_t bytes = at->second - begin;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
            static_cast<off_t>(bytes));
  used_ -= bytes;
  taken_.erase(at);
}

// ------------------------------------------------------------------------------------------------

HostProcess::HostProcess(std::string program, SharedMatrices& memory)
    : program_(std::move(program)), memory_(memory) {
  try {
    start();
  } catch (const sim::Error& e) {
    throw UsageError(e.what());
  }
}

void HostProcess::start() try {
  attempt_ =
      std::make_unique<Attempt>(program_, Attempt::Limits{SECONDS, SPARE_GIB}, memory_.file());
  const nlohmann::json said =
      attempt_->ask({{"what", "forms"},
                     {"address", reinterpret_cast<uintptr_t>(memory_.address())},
                     {"bytes", SharedMatrices::BYTES}},
                    "before gemm was called");
  if (said.contains("error")) throw sim::Error(said.at("error").get<std::string>());
  threads_ = attempt_->threads();
  interfaces_.clear();
  for (const auto& f : said.at("forms"))
    interfaces_.push_back({static_cast<DType>(f.at(0).get<int>()), f.at(1), f.at(2), f.at(3)});
} catch (const Ended& e) {
  attempt_.reset();
  throw sim::Error(e.what());
}

void HostProcess::run(int interface, const GemmCall& c) {
  if (!hopeless_.empty()) throw sim::Error(hopeless_);
  if (attempt_ == nullptr) start();
  const double work = 2.0 * c.M * c.N * c.K;
  attempt_->limit(
      {SECONDS + work / SLOWEST_FLOPS, SPARE_GIB + static_cast<double>(memory_.used()) / GIB});
  nlohmann::json said;
  try {
    said = attempt_->ask({{"what", "run"},
                          {"form", interface},
                          {"M", c.M},
                          {"N", c.N},
                          {"K", c.K},
                          {"A", reinterpret_cast<uintptr_t>(c.A)},
                          {"lda", c.lda},
                          {"B", reinterpret_cast<uintptr_t>(c.B)},
                          {"ldb", c.ldb},
                          {"C", reinterpret_cast<uintptr_t>(c.C)},
                          {"ldc", c.ldc},
                          {"alpha", c.epilogue.alpha},
                          {"beta", c.epilogue.beta}},
                         fmt::format("at M = {}, N = {}, K = {}", c.M, c.N, c.K));
    if (said.contains("error"))
      throw sim::Error(printable(said.at("error").get<std::string>(), 400));
    if (const int status = said.at("status"); status != 0)
      throw sim::Error(fmt::format("gemm returned {}, not 0 (cudaSuccess)", status));
    if (said.at("launches") == 0 && c.M > 0 && c.N > 0)
      throw sim::Error("gemm launched no kernel: whatever C holds, no GPU has computed it");
    if (const int left = attempt_->threads() - threads_; left > 0) {
      attempt_.reset();
      throw sim::Error(
          fmt::format("gemm returned and left {} of its own running: what it does then is neither "
                      "waited for nor "
                      "timed",
                      left == 1 ? "a thread" : fmt::format("{} threads", left)));
    }
    const auto& s = said.at("stats");
    sim::LaunchStats stats;
    stats.blocks = s.at(0), stats.threads_per_block = s.at(1), stats.barriers = s.at(2);
    stats.collectives = s.at(3), stats.copies = s.at(4), stats.copy_bytes = s.at(5);
    sim::add_launch(stats);
    grid_ = {said.at("grid").at(0), said.at("grid").at(1), said.at("grid").at(2)};
  } catch (const Ended& e) {
    attempt_.reset();
    if (std::string(e.what()).find("was stopped") != std::string::npos) hopeless_ = e.what();
    throw sim::Error(e.what());
  } catch (const nlohmann::json::exception&) {
    attempt_.reset();
    throw sim::Error("what the program answered is no answer; it was not judged");
  }
}

}  // namespace gemm::own
