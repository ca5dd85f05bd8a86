#include "own/rungs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "harness/errors.h"
#include "harness/known_rungs.h"
#include "harness/text.h"
#include "registration.h"

namespace gemm::own {

namespace fs = std::filesystem;

std::string signature(const Interface& i) {
  const std::string ld[] = {i.ld ? ", lda" : "", i.ld ? ", ldb" : "", i.ld ? ", ldc" : ""};
  return fmt::format("gemm(M, N, K{}, A{}, B{}{}, C{}{})", i.scalars ? ", alpha" : "", ld[0], ld[1],
                     i.scalars ? ", beta" : "", ld[2], i.stream ? ", stream" : "");
}

std::string absolute_path(const std::string& file) { return fs::absolute(file).lexically_normal(); }

std::string no_form(const std::string& file) {
  return fmt::format(
      "{} has no function gemm that can be called: want void gemm(int M, int N, int K, float "
      "alpha, "
      "const float* A, int lda, const float* B, int ldb, float beta, float* C, int ldc, "
      "cudaStream_t "
      "stream), without alpha and beta, without lda, ldb and ldc, or without the stream; also of "
      "half "
      "and __nv_bfloat16",
      printable(file));
}

bool is_file(const std::string& part) {
  return part.ends_with(".cu") || part.ends_with(".cuh") || part.find('/') != part.npos;
}

std::string name_of(const std::string& file) {
  const std::string name = fs::path(file).filename().string();
  const std::string stem = name.substr(0, name.find('.'));
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (stem.empty() || !std::ranges::all_of(stem, allowed))
    throw UsageError(fmt::format(
        "'{}' cannot name a kernel: want letters, digits and _ before the first dot, as in mine.cu",
        printable(name)));
  for (const Backend backend : {Backend::gpu, Backend::sim, Backend::sim_traced}) {
    for (const Rung* r : rungs(backend))
      if ((r->name == stem || r->id == stem) && r->file != fs::absolute(file).lexically_normal())
        throw UsageError(fmt::format("'{}': {} is the name of another kernel; rename the file",
                                     printable(file), stem));
    if (find_not_built(backend, stem))
      throw UsageError(
          fmt::format("'{}': {} is a rung's name; rename the file", printable(file), stem));
  }
  return stem;
}

bool is_added(const std::string& file, Backend backend) {
  const std::string path = fs::absolute(file).lexically_normal();
  return std::ranges::any_of(rungs(backend), [&](const Rung* r) { return r->file == path; });
}

Rung& add_rung(const std::string& file, const Interface& i, Backend backend,
               std::function<void(const GemmCall&)> launch) {
  Calls calls = product_by_product({.dtype = i.dtype, .launch = std::move(launch)});
  Rung& rung =
      detail::add({.id = {},
                   .name = {},
                   .file = file,
                   .prev = "",
                   .idea = "a kernel of your own: " + signature(i),
                   .needs = {.no_activation = true, .dense = !i.ld, .product_only = !i.scalars},
                   .dtype = i.dtype,
                   .backend = backend,
                   .launch = std::move(calls.launch)});
  rung.file = file;
  return rung;
}

}  // namespace gemm::own
