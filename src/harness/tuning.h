// Which of a rung's variants runs: the fastest that --tune measured on this GPU, else the rung's
// own choice. The measurements are kept in a JSON file, the tuning cache.
#pragma once

#include <string>
#include <vector>

#include "harness/problem.h"
#include "registry.h"

namespace gemm {

struct TimedVariant {
  std::string name;
  double tflops = 0;  // median
};

// What was measured at one problem on one GPU.
struct TunedProblem {
  std::string gpu, rung;               // "NVIDIA H200", "v13_ffma"
  Problem problem;                     // alpha, beta and ld_pad are not part of the key
  std::vector<TimedVariant> variants;  // fastest first
  std::string revision;                // git, when it was measured
};

// The shapes that one measurement stands for: those of which M, N and K, rounded to the nearest
// power of two (so 4096 is 2897 to 5792), are the same, and whose rows of A, B and C are whole
// aligned 16-byte groups like its own, or like its own are not. A shape that was itself measured
// overrides its bucket; of several in a bucket the nearest counts. How full the last wave is
// changes within a bucket, so what matters is worth a measurement of its own.
std::string bucket(const Problem& p);  // "4096x4096x128", "4096x4096x4096 unaligned"

class TuningCache {
 public:
  // Empty when there is no such file. Throws UsageError with one line that names the file when it is
  // not a tuning cache, and what to do then.
  static TuningCache read(const std::string& file,
                          const char* remedy =
                              "delete it, name another with --tune-cache, or pass "
                              "--no-tune-cache");
  // Reads a file that nobody named. One that is no tuning cache counts as none, and `note` says so
  // in a line.
  static TuningCache read_unnamed(const std::string& file, std::string& note);
  // Adds to what the file holds by now, in one step: a reader sees the old file or the new one, and
  // of several writers none loses what another has added (FILE.lock). Makes the folder. Throws OutputError with one line that names the file.
  void write(const std::string& file) const;

  void put(const TunedProblem& tuned);  // in place of an earlier measurement of the same problem
  // What was measured of p, or else of the nearest of its bucket; null when there is none.
  const TunedProblem* find(const std::string& gpu, const std::string& rung, const Problem& p) const;
  // Whether this problem itself was measured.
  bool holds(const std::string& gpu, const std::string& rung, const Problem& p) const;
  size_t size() const { return all_.size(); }
  const std::vector<TunedProblem>& all() const { return all_; }

 private:
  std::vector<TunedProblem> all_;
};

// $XDG_CACHE_HOME/gemm_ladder/tuning.json, or that in ~/.cache; empty when neither is set.
std::string default_tuning_cache();

// A plan, and why it is this one, in a line.
struct ExplainedPlan {
  Plan plan;
  int variant = 0;   // of the rung that was asked; of a dispatcher, the candidate that it takes;
                     // ANY_VARIANT: another rung computes it
  std::string name;  // the variant's, or which other rung computes it and how
  std::string why;
};

// The plan of `rung`, which has variants, for this problem: by the variant that was measured to be the
// fastest, or by the rung's own choice. `cache` may be null.
ExplainedPlan choose_plan(const Rung& rung, const Problem& p, const TuningCache* cache,
                          const std::string& gpu, const Arch& arch);
// The plan by one of its variants, which fits this problem.
ExplainedPlan plan_variant(const Rung& rung, const Problem& p, const Arch& arch, int variant,
                           const std::string& why);

// The rung with the planned variant as its only way to compute; as it is where another rung computes.
Rung as_planned(const Rung& rung, const ExplainedPlan& planned);

}  // namespace gemm
