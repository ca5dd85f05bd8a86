// Types and variants whose code is another's: tests take a part of them.
#pragma once

#include <string>
#include <vector>

#include "dtypes.h"
#include "registry.h"

namespace gemm {

// Variants of a rung that tests try, each as a rung: none in a second type (what the rung chooses is
// tried there), none that only launches another rung, and of many a part. fuzz.py tries the others.
inline std::vector<Rung> tried_variants(const Rung& rung) {
  std::vector<Rung> tried;
  if (is_second_type(rung.dtype)) return tried;
  constexpr size_t MANY = 12;
  const size_t step = rung.variants.size() / MANY + (rung.variants.size() % MANY != 0);
  for (size_t i = 0; i < rung.variants.size(); i += step) {
    // v13s has a kernel a tile, for every split of K. Small tiles, which come first, have the most CTAs:
    // they are tried in fewer than eight parts. In more than eight LongRows has them.
    const std::string& name = rung.variants[i].name;
    const size_t split = name.find(" split ");
    const bool many = rung.id == "v13s" && i < rung.variants.size() / 2 &&
                      split != std::string::npos && std::stoi(name.substr(split + 7)) >= 8;
    const RungVariant& variant = rung.variants[many ? i - 5 : i];
    if (find_rung(rung.backend, variant.name, rung.dtype) == nullptr)
      tried.push_back(with_variant(rung, static_cast<int>(&variant - rung.variants.data())));
  }
  return tried;
}

}  // namespace gemm
