// A launch, planned: which kernel computes a GEMM, and how its CTAs share it out. Host only: to plan
// calls nothing of CUDA, allocates nothing and makes no text.
//
//   const Plan p = plan(*find_rung(Backend::gpu, "v28", DType::f16), call, arch);
//   puts(explain(p, call).c_str());
//   const LaunchStatus status = try_launch(call, p);
#pragma once

#include <cstddef>
#include <cstring>
#include <iosfwd>
#include <limits>
#include <type_traits>

#include "gemm_types.h"
#include "plan/arch.h"

namespace gemm {

struct LaunchStatus;
struct Rung;

constexpr int ANY_VARIANT = -1;
constexpr double NEVER = std::numeric_limits<double>::infinity();

// What plan() decided. A plain value: it may be copied and kept, and holds for every call of the
// same shape, transpositions and row pitches whose pointers are aligned alike (to 128 bytes), on the
// same architecture. alpha and beta may differ, but for alpha == 0.
struct Plan {
  const Rung* rung = nullptr;  // whose kernel runs; of a dispatcher's plan the rung that it chose
  int variant = ANY_VARIANT;   // of rung->variants; ANY_VARIANT where there are none
  int sms = 0;                 // that it was planned for
  int ctas = 0;                // persistent CTAs, likewise
  // Estimated time of the last SM to end, by which a dispatcher compares the rungs of one dtype; NEVER:
  // another rung is always faster; 0: not estimated. Its unit is the same within a dtype.
  double makespan = 0;

  // What its rung keeps in it beside: a trivial struct of at most 64 bytes.
  template <class T>
  void keep(const T& kept) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof this->details);
    std::memcpy(this->details, &kept, sizeof kept);
  }
  template <class T>
  T kept() const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof this->details);
    T kept;
    std::memcpy(&kept, details, sizeof kept);
    return kept;
  }
  alignas(8) std::byte details[64] = {};
};

// How `rung` computes this call on this architecture: by the best of its variants, or the one asked
// for. What the rung's kernel does not take is planned by the rung before it. Only the pointers'
// alignment is looked at. Throws std::logic_error if no rung takes it.
Plan plan(const Rung& rung, const GemmCall& call, const Arch& arch, int variant = ANY_VARIANT);

// A plan in words: "1024 tiles of 128 x 128 in 8 waves".
std::string explain(const Plan& plan, const GemmCall& call);

// Launches what was planned, on call.stream. launch() throws LaunchRefused, std::bad_alloc (no memory
// for a workspace) or std::runtime_error (a library); try_launch() returns the first two as a status.
void launch(const GemmCall& call, const Plan& plan);
[[nodiscard]] LaunchStatus try_launch(const GemmCall& call, const Plan& plan);

}  // namespace gemm
