// Why a GPU cannot be used, in one line. Without CUDA in it, so that tests need no GPU.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

namespace gemm::library {

// Whether code for these architectures runs on sm_<sm>. They are CMake's, by commas: "80,90a-real".
// Code for "80" runs on 8.x from 8.0 on, and its PTX on all that came later; for "90a" on 9.0 alone.
inline bool has_code(std::string_view architectures, int sm) {
  while (!architectures.empty()) {
    const std::string_view one = architectures.substr(0, architectures.find(','));
    architectures.remove_prefix(one.size() < architectures.size() ? one.size() + 1 : one.size());
    int built = 0;
    const auto [rest, error] = std::from_chars(one.data(), one.data() + one.size(), built);
    if (error != std::errc()) return true;  // a word such as "native": a launch will tell
    const std::string_view kind = one.substr(size_t(rest - one.data()));
    if (kind.starts_with("a")
            ? sm == built
            : sm >= built && (sm / 10 == built / 10 || kind.empty() || kind == "-virtual"))
      return true;
  }
  return false;
}

inline std::string why_no_code(const std::string& gpu, std::string_view architectures, int sm) {
  const std::string number = std::to_string(sm);
  return gpu + " (sm_" + number + "): this library's kernels were built for " +
         std::string(architectures) + " alone; -DCMAKE_CUDA_ARCHITECTURES=" + number +
         (sm >= 90 ? "a" : "") + "-real builds it for this GPU, and GEMM_SIMULATOR needs none";
}

// Of the driver and of CUDA's runtime in this library, as CUDA numbers them: 13020 is 13.2. Empty: the
// driver serves, as every one of the runtime's major version does.
inline std::string why_not_driver(int driver, int runtime) {
  const auto version = [](int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  };
  if (driver == 0) return "no NVIDIA driver";
  if (driver / 1000 >= runtime / 1000) return "";
  return "NVIDIA's driver is too old: it has CUDA " + version(driver) +
         ", and this library needs " + version(runtime / 1000 * 1000) + " or newer";
}

}  // namespace gemm::library
