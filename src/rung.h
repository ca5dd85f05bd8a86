// What every rung includes: its arguments, the launch, and the registration. It has neither strings nor
// containers, since every rung compiles it.
#pragma once

#include <initializer_list>
#include <source_location>

#include "device/current_device.h"
#include "device/launch.h"
#include "device/with_constant.h"
#include "device/workspace.h"
#include "entry.h"

GEMM_BUILD_NAMESPACE_BEGIN

template <class TA, class TB = TA, class TC = TA>
using LaunchFn = void (*)(const GemmArgs<TA, TB, TC>&, Stream);
template <class T, class TC = T>
using PlannedLaunchFn = void (*)(const GemmArgs<T, T, TC>&, const Plan&, Stream);

template <class T, class TC = T>
using FusedLaunchFn = void (*)(const FusedArgs<T, T, TC>&, const Plan&, Stream);
template <class T, class TC = T>
using GatedLaunchFn = void (*)(const GatedArgs<T, T, TC>&, const Plan&, Stream);

// One of several template configurations of a rung, instantiated once in its file.
template <class T, class TC = T>
struct Variant {
  const char* name;  // "128x128x16 8x8 s4": how --variant and --explain call it
  PlannedLaunchFn<T, TC> launch;
  bool (*fits)(const GemmArgs<T, T, TC>&) =
      nullptr;  // whether it takes this problem; null: every one
  // Launches with the whole epilogue, one product. Null: an epilogue pass follows `launch`.
  FusedLaunchFn<T, TC> fused = nullptr;
  GatedLaunchFn<T, TC> gated = nullptr;                // likewise where D is gated
  bool (*fuses)(const GemmArgs<T, T, TC>&) = nullptr;  // what these two take; null: every problem
};
// How a rung with variants plans. Of the problem's pointers only the alignment matters, and which of
// the epilogue's there are.
template <class T, class TC = T>
struct Planner {
  // The plan by the best variant, or the one asked for.
  Plan (*plan)(const FusedArgs<T, T, TC>&, const Arch&, int variant);
  std::string (*explain)(const GemmArgs<T, T, TC>&, const Plan&);
  bool estimates = true;  // its plans have a makespan
};

template <class TA, class TB, class TC>
class TypedLauncher final : public Launcher {
 public:
  explicit TypedLauncher(LaunchFn<TA, TB, TC> fn) : fn_(fn) {}
  void launch(const GemmCall& c) const override {
    const Stream stream = static_cast<Stream>(c.stream);
    const DeviceScope on_its_gpu(device_of(stream));
    fn_(typed<TA, TB, TC>(c), stream);
  }

 private:
  const LaunchFn<TA, TB, TC> fn_;
};

template <class T, class TC>
class TypedVariants final : public Variants {
 public:
  TypedVariants(const Variant<T, TC>* all, int count, Planner<T, TC> planner)
      : all_(all), count_(count), planner_(planner) {}

  int count() const override { return count_; }
  const char* name(int variant) const override { return all_[variant].name; }
  bool fits(int variant, const GemmCall& c) const override {
    const Variant<T, TC>& v = all_[variant];
    return v.fits == nullptr || v.fits(typed<T, T, TC>(c));
  }
  Plan plan(const GemmCall& c, const Arch& arch, int variant) const override {
    return planner_.plan(fused<T, T, TC>(c), arch, variant);
  }
  bool estimates() const override { return planner_.estimates; }
  void explain(const GemmCall& c, const Plan& plan, std::string& text) const override {
    text = planner_.explain(typed<T, T, TC>(c), plan);
  }
  // Rows keep their bits only if no variant fuses what others leave to the pass, which rounds between.
  bool fuses(const GemmCall& c, const Plan& plan) const override {
    const Variant<T, TC>& v = all_[plan.variant];
    return !c.invariant && c.batch.is_single() &&
           (c.epilogue.gated ? v.gated != nullptr : v.fused != nullptr) &&
           (v.fuses == nullptr || v.fuses(typed<T, T, TC>(c)));
  }
  void run(const GemmCall& c, const Plan& plan) const override {
    const Stream stream = static_cast<Stream>(c.stream);
    const DeviceScope on_its_gpu(device_of(stream));
    const Variant<T, TC>& v = all_[plan.variant];
    if (c.epilogue.gated)
      v.gated(gated<T, T, TC>(c), plan, stream);
    else if (wants_fused(c.epilogue) && fuses(c, plan))
      v.fused(fused<T, T, TC>(c), plan, stream);
    else
      v.launch(typed<T, T, TC>(c), plan, stream);
  }

 private:
  const Variant<T, TC>* const all_;
  const int count_;
  const Planner<T, TC> planner_;
};

template <class TA, class TB, class TC>
Entry entry(DType dtype, LaunchFn<TA, TB, TC> fn) {
  return {.dtype = dtype, .launcher = new TypedLauncher<TA, TB, TC>(fn)};
}
// `variants` must live as long as the program.
template <class T, class TC, size_t N>
Entry entry(DType dtype, const Variant<T, TC> (&variants)[N], Planner<T, TC> planner) {
  return {.dtype = dtype, .variants = new TypedVariants<T, TC>(variants, int{N}, planner)};
}

// Entries: f32(launch<float>), or of a rung with variants f32(VARIANTS, {plan, explain}), with
//   const Variant<float> VARIANTS[] = {{"128x128 s4", launch<128, 128, 4>}, ...};
//   void launch<...>(const GemmArgs<float>& p, const Plan& plan, Stream stream);
//   Plan plan(const FusedArgs<float>& p, const Arch& arch, int variant);
//   std::string explain(const GemmArgs<float>& p, const Plan& plan);
inline Entry f32(LaunchFn<float> fn) { return entry(DType::f32, fn); }
template <size_t N>
Entry f32(const Variant<float> (&variants)[N], Planner<float> planner) {
  return entry(DType::f32, variants, planner);
}
inline Entry f16(LaunchFn<half> fn) { return entry(DType::f16, fn); }
template <size_t N>
Entry f16(const Variant<half> (&variants)[N], Planner<half> planner) {
  return entry(DType::f16, variants, planner);
}
inline Entry tf32(LaunchFn<float> fn) { return entry(DType::tf32, fn); }
template <size_t N>
Entry tf32(const Variant<float> (&variants)[N], Planner<float> planner) {
  return entry(DType::tf32, variants, planner);
}
inline Entry bfloat16(LaunchFn<bf16> fn) { return entry(DType::bf16, fn); }  // bf16 is the type
template <size_t N>
Entry bfloat16(const Variant<bf16> (&variants)[N], Planner<bf16> planner) {
  return entry(DType::bf16, variants, planner);
}
// The entry of a type whose kernels are another type's code: twin(DType::e5m2, VARIANTS<f8e5m2>, ...).
template <class... Args>
Entry twin(DType dtype, const Args&... args) {
  return entry(dtype, args...);
}
// Macros, as a function's arguments would be compiled.
inline constexpr bool HAS_SECOND_TYPES = GEMM_SECOND_TYPES;
#if !GEMM_SECOND_TYPES
inline Entry left_out(DType dtype) { return {.dtype = dtype}; }
#define twin(dtype, ...) left_out(dtype)
#define bfloat16(...) left_out(DType::bf16)
#endif
// The entry of a dispatcher: a rung without a kernel of its own.
inline Entry dispatcher(DType dtype, Plan (*plan)(const Rung& self, const GemmCall&, const Arch&,
                                                  int candidate)) {
  return {.dtype = dtype, .dispatch = plan};
}

inline constexpr BackendCalls BACKEND_CALLS = {
    BACKEND,
    [](void* stream, void (*f)(const void*, const Arch&), const void* context) {
      const DeviceScope on_its_gpu(device_of(static_cast<Stream>(stream)));
      f(context, current_arch());
    },
    [](size_t bytes, void* stream, void (*f)(const void*, void*), const void* context) {
      const Workspace memory(bytes, static_cast<Stream>(stream));
      f(context, memory.as<void>());
    }};

// `const Registration rung({...}, {f32(launch<float>), f16(launch<half>)});` registers a rung under
// its file's name.
struct Registration {
  Registration(const About& about, std::initializer_list<Entry> entries,
               std::source_location where = std::source_location::current()) {
    for (const Entry& e : entries)
      if (HAS_SECOND_TYPES || !is_second_type(e.dtype))
        register_entry(about, e, BACKEND_CALLS, where.file_name());
  }
};

GEMM_BUILD_NAMESPACE_END
