// How this card's tensor cores add, for the simulator: what wgmma of each type makes of fragments
// that wgmma_fragments.cuh invents. Prints JSON, of results alone, a line a tile:
//   build/fp8_bits > plots/results/<gpu>/fp8_bits.json
// scripts/fit_tensor_sums.py says which model of the sum gives these bits, and a test holds the
// simulator to them.
#include <cuda_runtime.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "wgmma_fragments.cuh"

namespace {
using namespace gemm;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "fp8_bits: %s\n", cudaGetErrorString(error));
  std::exit(3);
}

template <class T>
T* upload(const std::vector<T>& from) {
  T* to = nullptr;
  check(cudaMalloc(&to, from.size() * sizeof(T)));
  check(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  return to;
}

// What the card makes of all tiles of a format: (tile, INSTRUCTIONS, ROWS, COLS).
std::vector<float> measure(int format) {
  const fragments::Format& f = fragments::FORMATS[format];
  const int tiles = fragments::tiles_of(f);
  std::vector<uint8_t> a, b;
  std::vector<float> sums;
  for (int i = 0; i < tiles; ++i) {
    const fragments::Tile tile = fragments::tile_of(f, i);
    a.insert(a.end(), tile.a.begin(), tile.a.end());
    b.insert(b.end(), tile.b.begin(), tile.b.end());
    sums.insert(sums.end(), tile.sums.begin(), tile.sums.end());
  }
  std::vector<float> results(sums.size() * fragments::INSTRUCTIONS);
  uint8_t *const device_a = upload(a), *const device_b = upload(b);
  float *const device_sums = upload(sums), *const out = upload(results);
  with_format(format, [&](auto t) {
    multiply_fragments<decltype(t)>
        <<<tiles, FRAGMENT_THREADS, FRAGMENT_SMEM>>>(device_a, device_b, device_sums, out);
  });
  check(cudaGetLastError());
  check(cudaMemcpy(results.data(), out, results.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (void* p : {static_cast<void*>(device_a), static_cast<void*>(device_b),
                  static_cast<void*>(device_sums), static_cast<void*>(out)})
    check(cudaFree(p));
  return results;
}

}  // namespace

int main() {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  if (device.major != 9) {
    std::fprintf(stderr, "fp8_bits: %s has no wgmma\n", device.name);
    return 3;
  }
  std::printf("{\n  \"gpu\": \"%s\",\n  \"instructions\": %d,\n  \"results\": {", device.name,
              fragments::INSTRUCTIONS);
  for (int format = 0; format < int(std::size(fragments::FORMATS)); ++format) {
    const fragments::Format& f = fragments::FORMATS[format];
    const std::vector<float> results = measure(format);
    std::printf("%s\n    \"%s\": [", format == 0 ? "" : ",", f.name);
    for (int tile = 0; tile < fragments::tiles_of(f); ++tile) {
      std::printf("%s\n      \"", tile == 0 ? "" : ",");
      constexpr int EACH = fragments::INSTRUCTIONS * fragments::RESULTS;
      for (int i = 0; i < EACH; ++i)
        std::printf("%08x", std::bit_cast<uint32_t>(results[size_t(tile) * EACH + i]));
      std::printf("\"");
    }
    std::printf("\n    ]");
  }
  std::printf("\n  }\n}\n");
}
