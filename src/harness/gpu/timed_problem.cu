#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>

#include "device/current_device.h"
#include "harness/errors.h"
#include "harness/gpu/blas.h"
#include "harness/gpu/cuda_check.h"
#include "harness/gpu/gpu_device.h"
#include "harness/gpu/stream_timer.h"
#include "harness/nvtx.h"
#include "harness/operand_buffers.h"
#include "harness/timing.h"
#include "harness/verify.h"

namespace gemm {
namespace {

constexpr int MAX_SETS = 4096;         // enough for 60 MB of L2 down to 32 KB a set
constexpr double MIN_SAMPLE = 200e-6;  // seconds; an event's own cost, about 1 us, is lost in that
constexpr int MAX_LAUNCHES = 128;      // a sample: two of them fill a quarter of a stream's queue
constexpr double SHORT = 1e-3;         // seconds; a longer launch hides the queueing of the next

// Launches that fill `sample` seconds.
int launches_for(double sample, double seconds) {
  return static_cast<int>(std::clamp<double>(std::ceil(sample / seconds), 1, MAX_LAUNCHES));
}

// The problem with operands that all calls share: vectors, which stay in L2 in any case.
Problem without_residual(Problem p) {
  p.operands.residual = false;
  return p;
}

// Copies of the problem's matrices to rotate over: A, B and a residual shared by the two that are
// compared, one C for each. One allocation, so that thousands of small sets cost one call.
class BufferSets {
 public:
  BufferSets(GpuDevice& device, const Problem& p, bool l2_cold)
      : offsets_(aligned_offsets(p)),
        count_(count(device, p, l2_cold)),
        slab_(device, static_cast<size_t>(count_) * offsets_[5]) {
    // All sets at once, of which there may be thousands; the first, which is compared, once more.
    device.fill_random(slab_.as<void>(), static_cast<size_t>(count_) * offsets_[5],
                       info(p.dtype).in, SEED + 1);
    device.fill(a(0), p, Operand::A, Inputs::uniform, SEED);
    device.fill(b(0), p, Operand::B, Inputs::uniform, SEED);
    for (int side : {0, 1}) device.fill(c(0, side), p, Operand::C, Inputs::uniform, SEED);
    if (p.operands.residual) device.fill(residual(0), p, Operand::residual, Inputs::uniform, SEED);
  }

  int count() const { return count_; }
  void* a(int set) const { return at(set, 0); }
  void* b(int set) const { return at(set, 1); }
  void* c(int set, int side) const { return at(set, 2 + side); }
  void* residual(int set) const { return at(set, 4); }

 private:
  // Where A, B, C, C and the residual start in a set, and the size of a set.
  static std::array<size_t, 6> aligned_offsets(const Problem& p) {
    std::array<size_t, 6> offsets{};
    const Operand order[] = {Operand::A, Operand::B, Operand::C, Operand::C, Operand::residual};
    for (int i = 0; i < 5; ++i) {
      const bool is_there = order[i] != Operand::residual || p.operands.residual;
      const size_t bytes = is_there ? layout(p, order[i]).bytes : 0;
      offsets[i + 1] = (offsets[i] + bytes + 255) / 256 * 256;
    }
    return offsets;
  }

  int count(GpuDevice& device, const Problem& p, bool l2_cold) const {
    if (!l2_cold) return 1;
    const auto bytes = [&](Operand o) { return static_cast<double>(element_size(p, o)); };
    const double a = bytes(Operand::A) * p.M * p.K, b = bytes(Operand::B) * p.K * p.N;
    const double touched = a * (p.shared_a ? 1 : p.batch) + b * (p.shared_b ? 1 : products(p)) +
                           bytes(Operand::C) * p.M * layout(p, Operand::C).cols *
                               (p.operands.residual ? 2 : 1) * p.batch;
    const double needed = std::floor(2.0 * device.properties().l2CacheSize / touched) + 1;
    // Odd, so that two sides taking turns each see all sets and not every other one.
    const int wanted = static_cast<int>(std::clamp<double>(needed, 2, MAX_SETS)) | 1;
    size_t free = 0, total = 0;
    GEMM_CUDA(cudaMemGetInfo(&free, &total));
    const size_t margin = size_t{512} << 20;  // what libraries and the check allocate later
    const size_t fitting = (free > margin ? free - margin : 0) / offsets_[5];
    return std::max(1, static_cast<int>(std::min<size_t>(wanted, fitting)));
  }

  char* at(int set, int matrix) const {
    return slab_.as<char>() + static_cast<size_t>(set) * offsets_[5] + offsets_[matrix];
  }

  std::array<size_t, 6> offsets_;
  int count_;
  DeviceMemory slab_;
};

class GpuTimedProblem final : public TimedProblem {
 public:
  GpuTimedProblem(GpuDevice& device, const Problem& p, const TimingOptions& options,
                  std::shared_ptr<const Reference> reference)
      : device_(device),
        p_(p),
        options_(options),
        blas_(device.blas(options.workspace)),
        lt_(blas_, p, p.groups.count > 0 ? 0 : options.lt_heuristics),
        timer_(device.stream()),
        reference_(reference != nullptr ? std::move(reference) : device.reference(p, SEED)),
        operands_(device, without_residual(p)),
        sets_(device, p, options.l2_cold) {
    operands_.fill(p, Inputs::uniform, SEED);
    for (int set = 0; set < sets_.count(); ++set)
      for (int side : {RUNG, BASELINE}) {
        GemmCall call = make_call(p, sets_.a(set), sets_.b(set), sets_.c(set, side));
        operands_.attach(p, call);
        if (p.operands.residual) attach(p, Operand::residual, sets_.residual(set), call);
        calls_[side].push_back(call);
      }
    choose_baseline();
  }

  const Baseline& baseline() const override { return baseline_; }

  Timing time(const Rung& rung) override {
    const DeviceScope scope(device_.ordinal());
    try {
      return timed(rung);
    } catch (const LaunchError&) {
      throw;
    } catch (const BaselineError&) {
      throw;
    } catch (const DeviceFault& e) {  // most often the rung's own
      throw DeviceFault(rung.name + " " + to_string(p_.dtype) + ", while timed: " + e.what());
    } catch (const std::runtime_error& e) {  // most often the rung's own fault
      throw LaunchError(rung.name + " " + to_string(p_.dtype) + ", while timed: " + e.what());
    }
  }

  std::vector<double> compare(const std::vector<Rung>& rungs) override {
    constexpr double BEHIND = 1.15;  // times the fastest's median
    constexpr int FIRST_ROUNDS = 3;  // of all
    struct Entrant {
      size_t index;
      std::function<void()> launch;
      int launches = 1;
      std::vector<double> samples = {};
      double seconds() const { return quantile(samples, 0.5); }
    };
    const NvtxRange range("compare " + std::to_string(rungs.size()) + " variants");
    const DeviceScope scope(device_.ordinal());
    std::vector<Entrant> entrants;
    for (size_t i = 0; i < rungs.size(); ++i)
      entrants.push_back({i, [this, &rung = rungs[i]] { device_.enqueue(rung, next_call(RUNG)); }});
    try {
      double slowest = 0, fastest = INFINITY;
      for (Entrant& e : entrants) {
        const double seconds = warm_up(rungs[e.index], e.launch, options_.warm_up_ms / 4);
        e.launches = std::min(launches_for(1e-3, seconds),
                              std::max(1, 4 * MAX_LAUNCHES / static_cast<int>(rungs.size())));
        slowest = std::max(slowest, seconds), fastest = std::min(fastest, seconds);
      }
      const bool hold = holds(fastest);
      const int enough = slowest > 0.2 ? 5 : options_.min_samples;
      std::vector<double> medians(rungs.size());
      double spent = 0;
      for (int round = 0; round < enough || spent < options_.min_ms / 1e3; ++round) {
        std::vector<Sample> samples;
        for (const Entrant& e : entrants) samples.push_back({&e.launch, e.launches});
        const std::vector<double> seconds = timer_.run(samples, hold);
        for (size_t i = 0; i < entrants.size(); ++i) {
          entrants[i].samples.push_back(seconds[i]);
          spent += seconds[i] * entrants[i].launches;
        }
        double best = INFINITY;
        for (const Entrant& e : entrants) {
          medians[e.index] = flops(p_) / e.seconds() / 1e12;
          best = std::min(best, e.seconds());
        }
        if (round + 1 >= FIRST_ROUNDS)
          std::erase_if(entrants, [&](const Entrant& e) { return e.seconds() > BEHIND * best; });
        // Another one begins, and none always follows the same one's heat.
        std::rotate(entrants.begin(), entrants.begin() + 1, entrants.end());
      }
      for (const Rung& rung : rungs) {
        device_.fill(sets_.c(0, RUNG), p_, Operand::C, Inputs::uniform, SEED);
        const double error = run_once(rung);
        if (const CheckResult result = check_set_0(RUNG, error); !result.ok())
          throw WrongResult(rung.name + ", after timing: " + describe(result));
      }
      return medians;
    } catch (const LaunchError&) {
      throw;
    } catch (const WrongResult&) {
      throw;
    } catch (const DeviceFault& e) {
      throw DeviceFault(rungs[0].name + " " + to_string(p_.dtype) + ", while tuned: " + e.what());
    } catch (const std::runtime_error& e) {
      throw LaunchError(rungs[0].name + " " + to_string(p_.dtype) + ", while tuned: " + e.what());
    }
  }

 private:
  static constexpr int RUNG = 0, BASELINE = 1;

  // One way to compute the problem with NVIDIA's libraries.
  struct Candidate {
    int index;  // of cuBLASLt's heuristics; -1: cuBLAS's own choice
    std::function<void()> launch;
    double seconds = 0;
    std::vector<double> samples = {};
  };

  // Every launch, of either side, takes the next set.
  const GemmCall& next_call(int side) {
    const int set = next_set_;
    next_set_ = (next_set_ + 1) % sets_.count();
    return calls_[side][set];
  }

  std::vector<Candidate> candidates() {
    std::vector<Candidate> all;
    if (p_.groups.count > 0) return loops();
    if (info(p_.dtype).unit != Unit::tensor_8)  // FP8 is cuBLASLt's alone
      all.push_back({-1, [this] {
                       const GemmCall& call = next_call(BASELINE);
                       cublas_gemm(blas_, p_.dtype, library_part_of(blas_, p_.dtype, call));
                       apply_epilogue(blas_, p_.dtype, rest_of(call));
                     }});
    for (int i = 0; i < lt_.candidates(); ++i)
      all.push_back({i, [this, i] { lt_.run(i, next_call(BASELINE)); }});
    return all;
  }

  // The baselines of groups, which the libraries compute one by one.
  std::vector<Candidate> loops() {
    loop_ = std::make_unique<LoopOfGroups>(
        blas_, p_, options_.lt_heuristics, calls_[BASELINE][0],
        [this](const std::function<void()>& launch) {
          timer_.run({{&launch, 1}}, false);  // loads its code
          return quantile(timer_.run(std::vector<Sample>(5, {&launch, 4}), false), 0.5);
        });
    std::vector<Candidate> all;
    all.push_back({-1, [this] { loop_->run_cublas(next_call(BASELINE)); }});
    if (loop_->complete()) all.push_back({0, [this] { loop_->run_lt(next_call(BASELINE)); }});
    return all;
  }

  // Whether the GPU is kept waiting until all samples are queued, where a launch takes so long. A
  // loop over groups would fill the stream's queue.
  bool holds(double seconds) const { return p_.groups.count == 0 && seconds < SHORT; }

  // Launches on the first set. The result is what the check allows the rung's products: with an
  // epilogue pass they are rounded to C's type before it.
  double run_once(const Rung& rung) {
    const uint64_t passes = epilogue_passes();
    device_.run(rung, calls_[RUNG][0]);
    const bool rounds = (epilogue_passes() != passes && !epilogue_name(p_).empty()) ||
                        (rung.rounds_products && p_.beta != 0);
    return rung.product_error + (rounds ? info(info(p_.dtype).out).roundoff() : 0);
  }

  CheckResult check_set_0(int side, double product_error = 0) {
    const NvtxRange range("verify timed buffers");
    Problem checked = p_;
    checked.product_error = product_error;
    // The libraries' products are rounded to C's type before an epilogue that is not their own, and
    // some before beta * C.
    if (side == BASELINE && (p_.beta != 0 || !epilogue_name(p_).empty()))
      checked.product_error = info(info(p_.dtype).out).roundoff();
    return device_.check(sets_.c(0, side), checked, Inputs::uniform, SEED, reference_.get());
  }

  // Fills C of the first set anew, launches on it, and compares.
  CheckResult run_and_check(const Candidate& candidate) {
    device_.fill(sets_.c(0, BASELINE), p_, Operand::C, Inputs::uniform, SEED);
    next_set_ = 0;
    candidate.launch();
    return check_set_0(BASELINE);
  }

  // A cheap pass over all candidates, then the best few against each other until their medians
  // settle. At 16384 f32, 0.17 s a launch, this takes about 8 s.
  void choose_baseline() {
    const NvtxRange range("choose baseline");
    std::vector<Candidate> finalists = quick_pass(candidates());
    if (finalists.empty())
      throw BaselineError(
          "cuBLASLt has no kernel for it: of FP8 it takes --op nt alone, rows of A and B at "
          "multiples of 16 bytes, and not e5m2 for both; block scales without --ld-pad");
    std::string wrong;
    std::erase_if(finalists, [&](const Candidate& candidate) {
      const CheckResult result = run_and_check(candidate);
      if (!result.ok()) wrong = name(candidate) + ": " + describe(result);
      return !result.ok();
    });
    if (finalists.empty()) throw BaselineError("no baseline is right: " + wrong);

    const double sample = std::min(1e-3, options_.candidate_ms / 1e3);
    const double enough = options_.finalists_ms / 1e3, most = 5 * enough;
    std::vector<Sample> round;
    for (const Candidate& c : finalists)
      round.push_back({&c.launch, std::min(launches_for(sample, c.seconds), 64)});
    const bool hold = holds(finalists.front().seconds);
    double spent = 0;
    for (int rounds = 0; !(spent > enough && rounds >= 7) && !(spent > most && rounds >= 2);
         ++rounds) {
      const std::vector<double> seconds = timer_.run(round, hold);
      for (size_t i = 0; i < finalists.size(); ++i) {
        finalists[i].samples.push_back(seconds[i]);
        spent += seconds[i] * round[i].launches;
      }
    }
    for (Candidate& c : finalists) c.seconds = quantile(c.samples, 0.5);
    std::sort(finalists.begin(), finalists.end(), faster);

    baseline_.name = name(finalists.front());
    baseline_seconds_ = finalists.front().seconds;
    for (const Candidate& c : finalists) {
      const double tflops = flops(p_) / c.seconds / 1e12;
      if (c.index < 0) {
        baseline_.cublas_tflops = tflops;
      } else if (baseline_.cublaslt_index < 0) {  // the first is the fastest
        baseline_.cublaslt_tflops = tflops;
        baseline_.cublaslt_index = c.index;
      }
    }
    baseline_launch_ = finalists.front().launch;
    finalists_ = finalists;
    const CheckResult result = run_and_check(finalists.front());
    baseline_.max_error = result.max_error;
    baseline_.max_error_roundings = result.max_error_roundings;
  }

  // cuBLAS's own choice and the three fastest of cuBLASLt's candidates, by one short measurement
  // each.
  std::vector<Candidate> quick_pass(std::vector<Candidate> all) {
    constexpr size_t FINALISTS = 4;
    std::vector<Candidate> ran;
    double spent = 0;
    for (Candidate& candidate : all) {
      if (spent > options_.candidates_ms / 1e3 && ran.size() > 1) break;
      try {
        const double first = timer_.run({{&candidate.launch, 1}}, false)[0];  // loads its code
        candidate.seconds = timer_.run({{&candidate.launch, 1}}, false)[0];
        spent += first + candidate.seconds;
        if (candidate.seconds < SHORT) {
          const int launches = launches_for(options_.candidate_ms / 1e3, candidate.seconds);
          candidate.seconds = timer_.run({{&candidate.launch, launches}}, holds(0))[0];
        }
        if (candidate.index >= 0) baseline_.cublaslt_tried += loop_ ? loop_->tried() : 1;
        ran.push_back(std::move(candidate));
      } catch (const std::runtime_error&) {
        // A candidate that does not take this call is none. A fault of the GPU is not so mild, and
        // it will not let the next one run either.
        if (candidate.index < 0) throw;
        device_.synchronize();
      }
    }
    const bool cublas = !ran.empty() && ran.front().index < 0;  // takes part in any case
    std::sort(ran.begin() + cublas, ran.end(), faster);
    if (ran.size() > FINALISTS) ran.erase(ran.begin() + FINALISTS, ran.end());
    return ran;
  }

  static bool faster(const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; }
  std::string name(const Candidate& c) const {
    const bool whole = epilogue_name(p_).empty() || (c.index >= 0 && lt_.has_epilogue());
    const std::string kernel = whole ? "" : " + kernel";
    if (loop_) return (c.index < 0 ? "cuBLAS" : "cuBLASLt's best") + kernel + ", a loop";
    return (c.index < 0 ? "cuBLAS" : "cuBLASLt#" + std::to_string(c.index)) + kernel;
  }

  // Seconds a launch takes once everything is loaded and hot.
  double warm_up(const Rung& rung, const std::function<void()>& launch, double ms) {
    const NvtxRange range("warm-up of " + rung.name);
    device_.run(rung, calls_[RUNG][0]);  // loads its code
    double seconds = timer_.run({{&launch, 1}}, false)[0];
    for (double spent = seconds; spent < ms / 1e3;) {
      const int launches = launches_for(std::min(20e-3, ms / 2e3), seconds);
      seconds = timer_.run({{&launch, launches}}, holds(seconds))[0];
      spent += seconds * launches;
    }
    return seconds;
  }

  Timing timed(const Rung& rung) {
    const std::function<void()> launch = [&] { device_.enqueue(rung, next_call(RUNG)); };
    const double seconds = warm_up(rung, launch, options_.warm_up_ms);

    const Sample rung_sample{&launch, launches_for(MIN_SAMPLE, seconds)};
    const Sample baseline_sample{&baseline_launch_, launches_for(MIN_SAMPLE, baseline_seconds_)};
    const double pair =
        seconds * rung_sample.launches + baseline_seconds_ * baseline_sample.launches;
    // As many pairs as a queue takes, and no more work than this; where few may be enough, less.
    const double longest = options_.precision > 0 ? 0.01 : 0.1;
    const int pairs =
        std::clamp(2 * MAX_LAUNCHES / (rung_sample.launches + baseline_sample.launches), 1,
                   std::max(1, static_cast<int>(longest / pair)));
    std::vector<Sample> burst;
    for (int i = 0; i < pairs; ++i) {
      burst.push_back(rung_sample);
      burst.push_back(baseline_sample);
    }
    const bool hold = holds(std::min(seconds, baseline_seconds_));
    const bool adaptive = options_.precision > 0;
    const double slow = adaptive ? options_.most_ms / 1e3 / options_.min_samples : 0.5;
    const int enough = pair > slow ? std::min(options_.min_samples, 5) : options_.min_samples;

    const double error = run_once(rung);
    // The first timed launch takes the first set, so what is compared below was written in time.
    device_.fill(sets_.c(0, RUNG), p_, Operand::C, Inputs::uniform, SEED);
    next_set_ = 0;
    Timing t;
    std::vector<double> tflops, baseline_tflops, ratios;
    {
      const NvtxRange range("timed launches of " + rung.name);
      ConditionsSampler conditions(device_.nvml());
      double spent = 0;
      const auto known = [&] {
        if (static_cast<int>(t.seconds.size()) < enough) return false;
        if (!adaptive) return spent >= options_.min_ms / 1e3 || pair > slow;
        return spent >= options_.most_ms / 1e3 || median_uncertainty(ratios) <= options_.precision;
      };
      while (!known()) {
        const std::vector<double> times = timer_.run(burst, hold);
        for (size_t i = 0; i < times.size(); i += 2) {
          t.seconds.push_back(times[i]);
          tflops.push_back(flops(p_) / times[i] / 1e12);
          baseline_tflops.push_back(flops(p_) / times[i + 1] / 1e12);
          ratios.push_back(times[i + 1] / times[i]);
          spent += times[i] * rung_sample.launches + times[i + 1] * baseline_sample.launches;
        }
      }
      t.conditions = conditions.stop();
    }
    t.tflops = spread(tflops);
    t.baseline_tflops = spread(baseline_tflops);
    t.ratio = spread(ratios);
    t.ratio_uncertainty = median_uncertainty(ratios);
    t.launches_per_sample = rung_sample.launches;
    t.held = hold && timer_.can_hold();
    if (options_.alone_ms > 0) {
      t.alone_baseline = alone_baseline();
      t.alone = alone(rung.name, launch, seconds);
    }
    if (reads_d(p_)) {  // C was its own input many times over: once more, from the start
      device_.fill(sets_.c(0, RUNG), p_, Operand::C, Inputs::uniform, SEED);
      device_.run(rung, calls_[RUNG][0]);
    }
    t.after = check_set_0(RUNG, error);
    t.wrong = inputs_changed();
    if (t.after.ok() && t.wrong.empty()) t.wrong = work_elsewhere(rung, launch);
    if (t.after.ok() && t.wrong.empty()) t.wrong = kept_result(rung);
    return t;
  }

  // Whether the launches have left the first set's inputs as they were.
  std::string inputs_changed() {
    std::string which = operands_.changed(p_, Inputs::uniform, SEED);
    const auto look = [&](const char* name, Operand operand, const void* allocation) {
      if (!device_.is_unchanged(allocation, p_, operand, Inputs::uniform, SEED)) which = name;
    };
    look("A", Operand::A, sets_.a(0));
    look("B", Operand::B, sets_.b(0));
    if (p_.operands.residual) look("residual", Operand::residual, sets_.residual(0));
    if (which.empty()) return "";
    fill_inputs(p_, Inputs::uniform);
    return which + " is an input, and was overwritten";
  }

  // Whether a launch does anything that its stream does not wait for: C changes while that is held,
  // or the GPU is still busy when it has ended.
  std::string work_elsewhere(const Rung& rung, const std::function<void()>& launch) {
    constexpr size_t MOST = size_t{16} << 20;  // bytes of C that are looked at
    std::vector<char> before(std::min(layout(p_, Operand::C).bytes, MOST)), now(before.size());
    device_.fill(sets_.c(0, RUNG), p_, Operand::C, Inputs::uniform, SEED);
    device_.download(before.data(), sets_.c(0, RUNG), before.size());
    next_set_ = 0;
    bool changed = false;
    if (holds(baseline_seconds_)) {
      cudaStream_t other = nullptr;
      GEMM_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
      const bool held = timer_.look_while_held(launch, 2e-3 + 4 * baseline_seconds_, [&] {
        cudaMemcpyAsync(now.data(), sets_.c(0, RUNG), now.size(), cudaMemcpyDeviceToHost, other);
        cudaStreamSynchronize(other);  // an error comes back from the next call that is checked
      });
      cudaStreamDestroy(other);
      changed = held && now != before;
    }
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point t) {
      return std::chrono::duration<double>(Clock::now() - t).count();
    };
    const Clock::time_point start = Clock::now();
    device_.run(rung, calls_[RUNG][0]);
    const double ran = since(start);
    const Clock::time_point ended = Clock::now();
    GEMM_CUDA(cudaDeviceSynchronize());
    const bool busy = since(ended) > 100e-6 + 0.2 * ran;
    return changed || busy ? "it works on another stream than the call's, and that was not timed"
                           : "";
  }

  // Whether a launch right after a change of the timed inputs gives the result of what was there
  // before: one row of A and one column of B change, and nothing else.
  std::string kept_result(const Rung& rung) {
    Problem p = p_;
    p.product_error = run_once(rung);
    p = with_exact_products(p, rung);
    GemmCall call = calls_[RUNG][0];
    call.epilogue.alpha = p.alpha, call.epilogue.beta = p.beta;
    for (const bool turned : {false, true}) {
      p.turned = turned;
      fill_inputs(p, Inputs::products);
      device_.fill(sets_.c(0, RUNG), p, Operand::C, Inputs::products, SEED);
      device_.run(rung, call);
    }
    const CheckResult result = device_.check(sets_.c(0, RUNG), p, Inputs::products, SEED, nullptr);
    fill_inputs(p_, Inputs::uniform);
    if (result.ok()) return "";
    return "once more after one row of A and one column of B have changed: " + describe(result);
  }

  // Fills the first set.
  void fill_inputs(const Problem& p, Inputs kind) {
    operands_.fill(p, kind, SEED);
    device_.fill(sets_.a(0), p, Operand::A, kind, SEED);
    device_.fill(sets_.b(0), p, Operand::B, kind, SEED);
    if (p.operands.residual) device_.fill(sets_.residual(0), p, Operand::residual, kind, SEED);
  }

  // `seconds`: what a launch takes.
  Alone alone(const std::string& name, const std::function<void()>& launch, double seconds) {
    const NvtxRange range("alone: " + name);
    const int launches = launches_for(2e-3, seconds);
    const double sample = launches * seconds;
    // A queue full, and no more than 0.1 s.
    const std::vector<Sample> burst(
        std::clamp(2 * MAX_LAUNCHES / launches, 1, std::max(1, static_cast<int>(0.1 / sample))),
        {&launch, launches});
    const auto run_for = [&](double ms) {
      std::vector<double> tflops;
      for (double spent = 0; spent < ms / 1e3;)
        for (const double s : timer_.run(burst, holds(seconds))) {
          tflops.push_back(flops(p_) / s / 1e12);
          spent += s * launches;
        }
      return spread(tflops);
    };
    run_for(options_.alone_ms / 2);
    ConditionsSampler conditions(device_.nvml());
    const Spread tflops = run_for(options_.alone_ms);
    return {name, tflops, conditions.stop()};
  }

  // The fastest candidate of those that took part in the choice of the baseline. The card warms up:
  // the second time, and later, only the fastest is measured again.
  Alone alone_baseline() {
    std::vector<Alone> all;
    for (const Candidate& c : finalists_) all.push_back(alone(name(c), c.launch, c.seconds));
    const auto fastest = std::max_element(
        all.begin(), all.end(),
        [](const Alone& a, const Alone& b) { return a.tflops.median < b.tflops.median; });
    finalists_ = {finalists_[fastest - all.begin()]};
    return *fastest;
  }

  GpuDevice& device_;
  const Problem p_;
  const TimingOptions options_;
  const Blas& blas_;
  LtGemm lt_;
  StreamTimer timer_;
  std::unique_ptr<LoopOfGroups> loop_;  // of groups: the baseline
  // What the first set must give: its seed is SEED. Before sets_, which take what is left.
  std::shared_ptr<const Reference> reference_;
  OperandBuffers operands_;
  BufferSets sets_;
  std::vector<GemmCall> calls_[2];  // a side's call on each set
  int next_set_ = 0;
  Baseline baseline_;
  std::function<void()> baseline_launch_;
  std::vector<Candidate> finalists_;  // the fastest candidates of both libraries
  double baseline_seconds_ = 0;
};

}  // namespace

std::unique_ptr<TimedProblem> make_timed_problem(Device& device, const Problem& p,
                                                 const TimingOptions& options,
                                                 std::shared_ptr<const Reference> reference) {
  GpuDevice& gpu = as_gpu(device);
  const DeviceScope scope(gpu.ordinal());
  return std::make_unique<GpuTimedProblem>(gpu, p, options, std::move(reference));
}

}  // namespace gemm
