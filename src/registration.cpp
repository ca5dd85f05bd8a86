#include "registration.h"

#include <memory>
#include <utility>

#include "batch.h"
#include "dtypes.h"

namespace gemm {

Launcher::~Launcher() = default;
Variants::~Variants() = default;

namespace {

// Whether C is D's own memory.
bool reads_own_c(const GemmCall& call) {
  const FusedEpilogue& e = call.epilogue;
  return e.beta != 0 && (e.c == nullptr || (e.c == call.C && e.ldc == call.ldc));
}
// What of the epilogue the kernel before an epilogue pass computes.
FusedEpilogue before_pass(const GemmCall& call) {
  const FusedEpilogue& e = call.epilogue;
  return {.alpha = e.alpha, .beta = reads_own_c(call) && !e.has_scales() ? e.beta : 0};
}

// Moves a call's products to a workspace, with rows of whole 16 bytes; returns the bytes that they take.
size_t move_to_workspace(GemmCall& product, void* workspace, DType dtype) {
  product.C = workspace;
  product.ldc = (int64_t{product.N} + 7) / 8 * 8;
  product.batch.stride_c = product.M * product.ldc;
  return size_t(product.batch.count * product.batch.stride_c * info(info(dtype).out).bytes);
}

// Whether halves between kernel and pass would lose what scales bring back: sums above 65,504.
bool needs_float_sums(const GemmCall& c, DType dtype) {
  return c.epilogue.has_scales() && info(dtype).out == Element::f16;
}

// The entry of the rung `id` that computes a call's sums of halves in float. Null: it has none that
// takes the call's layout.
const Rung* float_entry(const std::string& id, const GemmCall& c, Backend backend, DType dtype) {
  for (const DType d : ALL_DTYPES)
    if (info(d).in == info(dtype).in && info(d).out == Element::f32)
      if (const Rung* const r = find_rung(backend, id, d))
        if (r->needs.transposed || (c.op_a == Op::N && c.op_b == Op::N)) return r;
  return nullptr;
}
// That of the rung, of the nearest one before it that has such an entry, or of any.
const Rung* in_float(const std::string& id, const GemmCall& c, Backend backend, DType dtype) {
  for (const Rung* r = find_rung(backend, id, dtype); r; r = find_rung(backend, r->prev, dtype))
    if (const Rung* const entry = float_entry(r->id, c, backend, dtype)) return entry;
  for (const Rung* const r : rungs(backend))
    if (const Rung* const entry = float_entry(r->id, c, backend, dtype)) return entry;
  return nullptr;
}

// launch(product), and an epilogue pass. Products of the call's type are computed in D's memory, but
// where the pass still has to read C there, or D has fewer columns.
template <class Launch>
void launch_with_pass(const GemmCall& call, DType dtype, DType of_products,
                      const BackendCalls& backend, Launch&& launch) {
  GemmCall product = call, pass = call;
  FusedEpilogue& e = pass.epilogue;
  product.epilogue = before_pass(call);
  const bool reads_d = reads_own_c(call);
  const bool apart = (reads_d && e.has_scales()) || e.gated || of_products != dtype;
  if (reads_d) e.c = nullptr;
  e.alpha = 1;
  if (reads_d && !apart) e.beta = 0;
  const size_t bytes = apart ? move_to_workspace(product, nullptr, of_products) : 0;
  const auto both = [&](void* products) {
    if (apart) move_to_workspace(product, products, of_products);
    launch(product);
    launch_epilogue_pass(
        backend.backend, dtype, pass,
        {product.C, product.ldc, product.batch.stride_c, info(of_products).out == Element::f32});
  };
  backend.with_workspace(
      bytes, call.stream,
      [](const void* context, void* memory) { (*static_cast<decltype(&both)>(context))(memory); },
      &both);
}

// Estimated time of the pass: it reads products, and C where they have not got it, and writes D.
double epilogue_pass_us(const GemmCall& c, DType dtype, const Arch& arch) {
  const EngineCosts& costs = arch.costs->engine;
  const double matrices =
      c.epilogue.gated ? 1.5 : 2 + (c.epilogue.reads_c() && before_pass(c).beta == 0);
  const double bytes = double(info(info(dtype).out).bytes) * c.M * c.N * c.batch.count * matrices;
  return costs.launch + 1e-6 * bytes / costs.memory;
}

}  // namespace

Calls with_epilogue_pass(Calls e, const BackendCalls& backend, const std::string& id) {
  const DType dtype = e.dtype;
  if (e.plan && !e.dispatches)
    e.plan = [dtype, backend = backend.backend, estimates = e.estimates, fuses = e.fuses,
              plan = std::move(e.plan)](const Rung& self, const GemmCall& c, const Arch& arch,
                                        int variant) {
      std::optional<Plan> planned = plan(self, c, arch, variant);
      if (!planned || c.epilogue.is_plain() || (fuses && fuses(c, *planned))) return planned;
      if (needs_float_sums(c, dtype) && !float_entry(self.id, c, backend, dtype))
        return std::optional<Plan>();
      if (!estimates) return planned;
      GemmCall product = c;
      product.epilogue = before_pass(c);
      if (c.epilogue.gated) move_to_workspace(product, nullptr, dtype);
      planned = plan(self, product, arch, variant);
      planned->makespan += epilogue_pass_us(c, dtype, arch);
      return planned;
    };
  // A product, by `own` unless float sums are needed, and the pass.
  const auto both = [dtype, backend, id](const GemmCall& c, const auto& own) {
    const Rung* const sums =
        needs_float_sums(c, dtype) ? in_float(id, c, backend.backend, dtype) : nullptr;
    if (sums == nullptr) return launch_with_pass(c, dtype, dtype, backend, own);
    launch_with_pass(c, dtype, sums->dtype, backend, sums->launch);
  };
  if (e.launch)
    e.launch = [both, plain = std::move(e.launch)](const GemmCall& c) {
      c.epilogue.is_plain() ? plain(c) : both(c, plain);
    };
  if (e.run)
    e.run = [both, fuses = e.fuses, run = std::move(e.run)](const GemmCall& c, const Plan& plan) {
      if (c.epilogue.is_plain() || (fuses && fuses(c, plan))) return run(c, plan);
      both(c, [&](const GemmCall& product) { run(product, plan); });
    };
  return e;
}

Calls product_by_product(Calls e) {
  const DType dtype = e.dtype;
  if (e.dispatches) return e;  // it only plans: its candidates' entries do this
  if (e.launch)
    e.launch = [dtype, one = std::move(e.launch)](const GemmCall& c) {
      for_each_product(c, dtype, one);
    };
  if (e.plan)
    e.plan = [dtype, one = std::move(e.plan)](const Rung& self, const GemmCall& c, const Arch& arch,
                                              int variant) {
      std::optional<Plan> plan = one(self, least_aligned_product(c, dtype), arch, variant);
      if (plan) plan->makespan *= c.batch.count;
      return plan;
    };
  if (e.explain)
    e.explain = [dtype, one = std::move(e.explain)](const GemmCall& c, const Plan& plan) {
      return one(least_aligned_product(c, dtype), plan) + launches_of(c);
    };
  if (e.run)
    e.run = [dtype, one = std::move(e.run)](const GemmCall& c, const Plan& plan) {
      for_each_product(c, dtype, [&](const GemmCall& product) { one(product, plan); });
    };
  for (RungVariant& v : e.variants)
    v.fits = [dtype, one = std::move(v.fits)](const GemmCall& c) {
      return one(least_aligned_product(c, dtype));
    };
  return e;
}

Calls without_groups(Calls e) {
  if (e.plan)
    e.plan = [plan = std::move(e.plan)](const Rung& self, const GemmCall& c, const Arch& arch,
                                        int variant) {
      return c.batch.ends == nullptr ? plan(self, c, arch, variant) : std::nullopt;
    };
  return e;
}

Calls without_invariance(Calls e) {
  if (e.plan)
    e.plan = [plan = std::move(e.plan)](const Rung& self, const GemmCall& c, const Arch& arch,
                                        int variant) {
      return c.invariant ? std::nullopt : plan(self, c, arch, variant);
    };
  return e;
}

Calls calls_of(const Entry& entry) {
  Calls calls{.dtype = entry.dtype};
  if (entry.launcher != nullptr)
    calls.launch = [launcher = std::shared_ptr<const Launcher>(entry.launcher)](const GemmCall& c) {
      launcher->launch(c);
    };
  if (entry.dispatch != nullptr) calls.plan = entry.dispatch, calls.dispatches = true;
  if (entry.variants == nullptr) return calls;
  const std::shared_ptr<const Variants> variants(entry.variants);
  calls.estimates = variants->estimates();
  calls.plan = [variants](const Rung&, const GemmCall& c, const Arch& arch, int variant) {
    return variants->plan(c, arch, variant);
  };
  calls.explain = [variants](const GemmCall& c, const Plan& p) {
    std::string text;
    variants->explain(c, p, text);
    return text;
  };
  calls.fuses = [variants](const GemmCall& c, const Plan& p) { return variants->fuses(c, p); };
  calls.run = [variants](const GemmCall& c, const Plan& p) { variants->run(c, p); };
  for (int i = 0; i < variants->count(); ++i)
    calls.variants.push_back(
        {variants->name(i), {}, [=](const GemmCall& c) { return variants->fits(i, c); }});
  return calls;
}

void register_entry(const About& about, const Entry& entry, const BackendCalls& backend,
                    const char* file) {
  Calls e = calls_of(entry);
  if (!about.needs.batches) e = product_by_product(std::move(e));
  if (!about.needs.groups) e = without_groups(std::move(e));
  if (!about.needs.invariant) e = without_invariance(std::move(e));
  e = with_epilogue_pass(std::move(e), backend, rung_id(rung_name(file)));
  Rung& rung = detail::add({.id = {},
                            .name = {},
                            .file = file,
                            .prev = about.prev,
                            .idea = about.idea,
                            .needs = about.needs,
                            .product_error = about.product_error,
                            .rounds_products = about.rounds_products,
                            .narrow_range = about.narrow_range,
                            .dtype = e.dtype,
                            .backend = backend.backend,
                            .launch = std::move(e.launch),
                            .variants = std::move(e.variants),
                            .plan = std::move(e.plan),
                            .explain = std::move(e.explain),
                            .run = std::move(e.run),
                            .estimates = e.estimates,
                            .dispatches = e.dispatches});
  if (!rung.plan) return;
  const auto launch = [&rung, on_gpu_of = backend.on_gpu_of](int variant) {
    return [&rung, on_gpu_of, variant](const GemmCall& c) {
      const auto planned = [&](const Arch& arch) { gemm::launch(c, plan(rung, c, arch, variant)); };
      on_gpu_of(
          c.stream,
          [](const void* context, const Arch& arch) {
            (*static_cast<decltype(&planned)>(context))(arch);
          },
          &planned);
    };
  };
  rung.launch = launch(ANY_VARIANT);
  for (size_t i = 0; i < rung.variants.size(); ++i) {
    RungVariant& v = rung.variants[i];
    v.launch = launch(int(i));
    // What the rung hands to the one before it, none of its variants computes.
    v.fits = [&rung, fits = std::move(v.fits)](const GemmCall& c) {
      return rung.plan(rung, c, simulated_arch(), ANY_VARIANT).has_value() && fits(c);
    };
  }
}

}  // namespace gemm
