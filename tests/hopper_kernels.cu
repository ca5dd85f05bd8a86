// One small kernel for each feature of sm_90 in src/device, with what it must compute, worked out
// here in plain loops that share nothing with src/device or the simulator.
#include <cstring>

#include "device/dynamic_shared.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma.h"
#include "device/wgmma_descriptor.cuh"
#include "hopper.h"
#include "rung.h"

namespace {
using namespace gemm;
using hopper::Bytes;
using hopper::Case;

// ---------------------------------------------------------------------------------- host helpers

template <class T>
Bytes bytes_of(const std::vector<T>& v) {
  Bytes b(v.size() * sizeof(T));
  memcpy(b.data(), v.data(), b.size());
  return b;
}

// Small integers, exact in every type, as are their sums here.
float number(int64_t i) { return static_cast<float>((i * 7 + i / 13 * 5) % 9 - 4); }

template <class T>
std::vector<T> numbers(int64_t count) {
  std::vector<T> v(count);
  for (int64_t i = 0; i < count; ++i) v[i] = T(number(i));
  return v;
}

constexpr int span_of(Swizzle s) { return static_cast<int>(s); }

// Where 16-byte chunk `chunk` of row `row` lies in a tile of rows of one span (a row of eight
// chunks for none): in the PTX ISA's pictures, the chunks of a row change places with the number
// of the 128-byte line.
int chunk_place(Swizzle s, int row, int chunk) {
  switch (s) {
    case Swizzle::b128:
      return row * 8 + (chunk ^ row % 8);
    case Swizzle::b64:
      return row * 4 + (chunk ^ row / 2 % 4);
    case Swizzle::b32:
      return row * 2 + (chunk ^ row / 4 % 2);
    default:
      return row + chunk;
  }
}

const char* name_of(Swizzle s) {
  return s == Swizzle::b128  ? "b128"
         : s == Swizzle::b64 ? "b64"
         : s == Swizzle::b32 ? "b32"
                             : "none";
}

constexpr Swizzle SWIZZLES[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

// --------------------------------------------------------------------------------- TMA: load,
// store

// The raw bytes that a load leaves in shared memory.
__global__ void tma_load_kernel(const __grid_constant__ TensorMap map, int row, int col, int bytes,
                                uint8_t* out) {
  auto* tile = static_cast<uint8_t*>(dynamic_shared());
  auto* full = reinterpret_cast<uint64_t*>(tile + bytes);
  if (threadIdx.x == 0) {
    prefetch_tensor_map(map);
    mbarrier_init(full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(full, bytes);
    tma_load(tile, map, row, col, full);
  }
  mbarrier_wait(full, 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = tile[i];
}

constexpr int ROWS = 20, COLS = 100, LD = 104;  // of the matrix that TMA sees
constexpr int BOX_ROWS = 16;

template <class T>
Case tma_load_case(const char* type, Swizzle s, int row, int col) {
  const int box_cols = (s == Swizzle::none ? 48 : span_of(s)) / int(sizeof(T));
  const std::vector<T> matrix = numbers<T>(ROWS * LD);
  std::vector<T> tile(BOX_ROWS * box_cols);
  const int per_chunk = 16 / sizeof(T), chunks = box_cols / per_chunk;
  for (int r = 0; r < BOX_ROWS; ++r)
    for (int c = 0; c < box_cols; ++c) {
      const int y = row + r, x = col + c;
      const bool inside = y >= 0 && y < ROWS && x >= 0 && x < COLS;
      const int place =
          s == Swizzle::none ? r * chunks + c / per_chunk : chunk_place(s, r, c / per_chunk);
      tile[place * per_chunk + c % per_chunk] = inside ? matrix[y * LD + x] : T(0.0f);
    }
  const int bytes = int(tile.size() * sizeof(T));
  const auto run = [=](const void* in, void* out) {
    const TensorMap map =
        tensor_map(static_cast<const T*>(in), ROWS, COLS, LD, BOX_ROWS, box_cols, s);
    gemm::launch(tma_load_kernel, 1, dim3(64), {.smem = size_t(bytes) + 8}, nullptr, map, row, col,
                 bytes, static_cast<uint8_t*>(out));
  };
  return {std::string("tma_load_") + type + "_" + name_of(s) + "_at_" + std::to_string(row) + "_" +
              std::to_string(col),
          bytes_of(matrix), bytes_of(tile), run};
}

// Stores a tile whose bytes in shared memory are those of `in`.
__global__ void tma_store_kernel(const __grid_constant__ TensorMap map, int row, int col, int bytes,
                                 const uint8_t* in) {
  auto* tile = static_cast<uint8_t*>(dynamic_shared());
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) tile[i] = in[i];
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(map, row, col, tile);
    tma_store_commit();
    tma_store_wait<0>();
  }
}

Case tma_store_case(Swizzle s, int row, int col) {
  const int box_cols = (s == Swizzle::none ? 48 : span_of(s)) / 2, chunks = box_cols / 8;
  const std::vector<half> tile = numbers<half>(BOX_ROWS * box_cols);
  Bytes expected(ROWS * LD * 2, hopper::UNWRITTEN);
  for (int r = 0; r < BOX_ROWS; ++r)
    for (int c = 0; c < box_cols; ++c) {
      const int y = row + r, x = col + c;
      const int place = s == Swizzle::none ? r * chunks + c / 8 : chunk_place(s, r, c / 8);
      // Whole chunks of 16 bytes are written, past the last column too.
      if (y >= 0 && y < ROWS && x >= 0 && x < (COLS + 7) / 8 * 8)
        memcpy(&expected[(y * LD + x) * 2], &tile[place * 8 + c % 8], 2);
    }
  const int bytes = int(tile.size() * 2);
  const auto run = [=](const void* in, void* out) {
    const TensorMap map =
        tensor_map(static_cast<const half*>(out), ROWS, COLS, LD, BOX_ROWS, box_cols, s);
    gemm::launch(tma_store_kernel, 1, dim3(64), {.smem = size_t(bytes)}, nullptr, map, row, col,
                 bytes, static_cast<const uint8_t*>(in));
  };
  return {std::string("tma_store_") + name_of(s) + "_at_" + std::to_string(row) + "_" +
              std::to_string(col),
          bytes_of(tile), expected, run};
}

// One matrix of a batch, through a map of rank 3: loads a box of it, and stores the box to the same
// place of a batch that lies like the first.
__global__ void tma_batch_kernel(const __grid_constant__ TensorMap from,
                                 const __grid_constant__ TensorMap to, int index, int row, int col,
                                 int bytes) {
  auto* tile = static_cast<uint8_t*>(dynamic_shared());
  auto* full = reinterpret_cast<uint64_t*>(tile + bytes);
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(full, bytes);
    tma_load(tile, MatrixOfBatch{from, index}, row, col, full);
  }
  __syncthreads();
  mbarrier_wait(full, 0);
  if (threadIdx.x == 0) {
    fence_proxy_async();
    tma_store(MatrixOfBatch{to, index}, row, col, tile);
    tma_store_commit();
    tma_store_wait<0>();
  }
}

// Matrices after each other with a gap, in each other's rows, and one for all. What a box has beyond
// its matrix is another matrix's, and is not written.
Case tma_batch_case(const char* name, int64_t ld, int64_t stride, int index, int row, int col) {
  constexpr int MATRICES = 3, BATCH_COLS = 96;  // whole chunks of 16 bytes
  const int elements = int(2 * std::max<int64_t>(stride, 0) + ROWS * ld);
  const std::vector<half> all = numbers<half>(elements);
  Bytes expected(elements * 2, hopper::UNWRITTEN);
  for (int y = std::max(row, 0); y < std::min(row + BOX_ROWS, ROWS); ++y)
    for (int x = col; x < std::min(col + 64, BATCH_COLS); ++x)
      memcpy(&expected[(index * stride + y * ld + x) * 2], &all[index * stride + y * ld + x], 2);
  const auto run = [=](const void* in, void* out) {
    const auto map = [&](const void* base) {
      return tensor_map(static_cast<const half*>(base), ROWS, BATCH_COLS, ld, BOX_ROWS, 64,
                        Swizzle::b128, 256, MatrixBatch{MATRICES, stride});
    };
    constexpr int BYTES = BOX_ROWS * 128;
    gemm::launch(tma_batch_kernel, 1, dim3(64), {.smem = BYTES + 8}, nullptr, map(in), map(out),
                 index, row, col, BYTES);
  };
  return {std::string("tma_batch_") + name + "_" + std::to_string(index) + "_at_" +
              std::to_string(row) + "_" + std::to_string(col),
          bytes_of(all), expected, run};
}

__global__ void bulk_load_kernel(const uint8_t* in, int bytes, uint8_t* out) {
  auto* s = static_cast<uint8_t*>(dynamic_shared());
  auto* full = reinterpret_cast<uint64_t*>(s + bytes);
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(full, bytes);
    bulk_load(s, in, bytes, full);
  }
  __syncthreads();
  mbarrier_wait(full, 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = s[i];
}

// STORED tiles of 8 rows of 64 halves, which 64 threads write to one buffer and thread 0 stores: a
// tile may be written when TMA has read the one before.
enum StoreBug {
  IN_ORDER,
  NO_BARRIER_AFTER_THE_WAIT,  // the others do not know that thread 0's wait has returned
  WAIT_AFTER_THE_WRITES,      // and a barrier before the wait orders the writes with it
  OWN_WRITE_BEFORE_THE_WAIT,  // by the thread that has issued the store
};
constexpr int STORED = 3, STORED_WORDS = 256;  // a tile

template <StoreBug BUG>
__global__ void stored_tiles_kernel(const __grid_constant__ TensorMap map, const uint32_t* in) {
  auto* tile = static_cast<uint32_t*>(dynamic_shared());
  const int t = threadIdx.x;
  for (int i = 0; i < STORED; ++i) {
    if (BUG == OWN_WRITE_BEFORE_THE_WAIT && t == 0) tile[t] = i;  // [own write]
    if (BUG != WAIT_AFTER_THE_WRITES && t == 0) tma_store_wait_read<0>();
    if (BUG != NO_BARRIER_AFTER_THE_WAIT) named_barrier_sync(1, 64);
    for (int w = t; w < STORED_WORDS; w += 64) tile[w] = in[i * STORED_WORDS + w];  // [writes]
    fence_proxy_async();
    named_barrier_sync(1, 64);
    if (t == 0) {
      if (BUG == WAIT_AFTER_THE_WRITES) tma_store_wait_read<0>();
      tma_store(map, i * 8, 0, tile);  // [store]
      tma_store_commit();
    }
  }
  if (t == 0) tma_store_wait_read<0>();
}

template <StoreBug BUG>
Case stored_tiles_case(const char* name) {
  const Bytes tiles = bytes_of(numbers<half>(STORED * STORED_WORDS * 2));
  return {name, tiles, tiles, [](const void* in, void* out) {
            const TensorMap map =
                tensor_map(static_cast<const half*>(out), STORED * 8, 64, 64, 8, 64, Swizzle::none);
            gemm::launch(stored_tiles_kernel<BUG>, 1, dim3(64), {.smem = STORED_WORDS * 4}, nullptr,
                         map, static_cast<const uint32_t*>(in));
          }};
}

Case bulk_load_case() {
  const Bytes in = bytes_of(numbers<float>(300));
  const int bytes = int(in.size());
  return {"bulk_load", in, in, [=](const void* from, void* out) {
            gemm::launch(bulk_load_kernel, 1, dim3(64), {.smem = size_t(bytes) + 8}, nullptr,
                         static_cast<const uint8_t*>(from), bytes, static_cast<uint8_t*>(out));
          }};
}

// ------------------------------------------------------------------------ mbarrier: a pipeline

constexpr int STAGES = 3, K_TILES = 8, K_TILE = 64;  // floats a k-tile

enum PipelineBug { NONE, MISSING_WAIT, EARLY_RELEASE };

// Warp 0 loads k-tile after k-tile; warps 1 and 2 add them up, element by element.
template <PipelineBug BUG>
__global__ void pipeline_kernel(const float* in, float* out) {
  auto* k_tiles = static_cast<float*>(dynamic_shared());
  auto* full = reinterpret_cast<uint64_t*>(k_tiles + STAGES * K_TILE);
  uint64_t* empty = full + STAGES;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], 2);  // one thread of each consumer warp
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    if (elect_one())
      for (int i = 0; i < K_TILES; ++i) {
        const int s = i % STAGES;
        mbarrier_wait(&empty[s], i / STAGES % 2 ^ 1);  // a fresh barrier lets the first round pass
        mbarrier_arrive_expect_tx(&full[s], K_TILE * sizeof(float));
        bulk_load(k_tiles + s * K_TILE, in + i * K_TILE, K_TILE * sizeof(float), &full[s]);
      }
    return;
  }
  const int t = threadIdx.x - 32;
  float sum = 0;
  for (int i = 0; i < K_TILES; ++i) {
    const int s = i % STAGES;
    if (BUG != MISSING_WAIT || i < STAGES) mbarrier_wait(&full[s], i / STAGES % 2);
    if (BUG == EARLY_RELEASE && t % 32 == 0) mbarrier_arrive(&empty[s]);
    sum += k_tiles[s * K_TILE + t];
    __syncwarp();
    if (BUG != EARLY_RELEASE && t % 32 == 0) mbarrier_arrive(&empty[s]);
  }
  out[t] = sum;
}

template <PipelineBug BUG>
Case pipeline_case() {
  const std::vector<float> in = numbers<float>(K_TILES * K_TILE);
  std::vector<float> sums(K_TILE, 0.0f);
  for (int i = 0; i < K_TILES * K_TILE; ++i) sums[i % K_TILE] += in[i];
  return {"mbarrier_pipeline", bytes_of(in), bytes_of(sums), [](const void* from, void* out) {
            gemm::launch(pipeline_kernel<BUG>, 1, dim3(96),
                         {.smem = STAGES * K_TILE * sizeof(float) + 2 * STAGES * 8}, nullptr,
                         static_cast<const float*>(from), static_cast<float*>(out));
          }};
}

// ---------------------------------------------------------------------------------------- wgmma

// D (64 x N) = A (64 x K) * B, whose bytes in shared memory are those of `in`: A's, then B's.
template <class T, int N, Major A_MAJOR, Major B_MAJOR, Swizzle S>
__global__ void __launch_bounds__(128)
    wgmma_kernel(const uint8_t* in, int a_bytes, int a_panel, int b_bytes, int b_panel, int steps,
                 float* out) {
  auto* tiles = static_cast<uint8_t*>(dynamic_shared());
  for (int i = threadIdx.x; i < a_bytes + b_bytes; i += blockDim.x) tiles[i] = in[i];
  fence_proxy_async();
  __syncthreads();
  const uint64_t a = wgmma_descriptor<A_MAJOR, S>(tiles, a_panel);
  const uint64_t b = wgmma_descriptor<B_MAJOR, S>(tiles + a_bytes, b_panel);
  float acc[N / 2];
  for (float& x : acc) x = 1e30f;  // the first step must not add to it
  fence_operand(acc);
  wgmma_fence();
  for (int k = 0; k < steps; ++k)
    wgmma<T, N, A_MAJOR, B_MAJOR>(acc, a + (k * k_step_bytes<A_MAJOR, S>(a_panel) >> 4),
                                  b + (k * k_step_bytes<B_MAJOR, S>(b_panel) >> 4), k != 0);
  wgmma_commit();
  wgmma_wait<0>(acc);
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int i = 0; i < N / 2; ++i)
    out[(16 * warp + g + i / 2 % 2 * 8) * N + i / 4 * 8 + 2 * t + i % 2] = acc[i];
}

// The bytes of a rows x K operand in shared memory: panels of one span, rows along MN (K-major) or
// along K, one behind the other.
template <class T, class Value>
std::vector<T> operand_image(int rows, int k_count, Major major, Swizzle s, Value&& value) {
  const int span = span_of(s) / int(sizeof(T)), per_chunk = 16 / int(sizeof(T));
  const int along = major == Major::K ? k_count : rows, down = major == Major::K ? rows : k_count;
  const int panels = cdiv(along, span);
  std::vector<T> image(panels * down * span, T(0.0f));
  for (int r = 0; r < rows; ++r)
    for (int k = 0; k < k_count; ++k) {
      const int x = major == Major::K ? k : r, y = major == Major::K ? r : k;
      const int chunk = chunk_place(s, y, x % span / per_chunk);
      image[x / span * down * span + chunk * per_chunk + x % per_chunk] = value(r, k);
    }
  return image;
}

template <class T, int N, Major A_MAJOR, Major B_MAJOR, Swizzle S>
Case wgmma_case(const char* type, bool noise = false) {
  constexpr int STEP = 32 / sizeof(T);  // K of one instruction
  const int K = S == Swizzle::b128 ? 4 * STEP : 2 * STEP;
  // A K-major panel of b32 holds one step; the next lies in the next panel.
  const bool one_step = S == Swizzle::b32 && (A_MAJOR == Major::K || B_MAJOR == Major::K);
  const int steps = one_step ? 1 : K / STEP;
  const auto a = [](int m, int k) { return number(m * 37 + k * 5); };
  const auto b = [](int n, int k) { return number(n * 11 + k * 23 + 3); };
  std::vector<float> d(64 * N, 0.0f);
  for (int m = 0; m < 64; ++m)
    for (int n = 0; n < N; ++n)
      for (int k = 0; k < steps * STEP; ++k) d[m * N + n] += a(m, k) * b(n, k);
  const auto as_t = [&](const auto& f) {
    return [&](int r, int k) {
      float x = f(r, k);
      if (noise) {  // in the 13 bits that tf32 lacks
        uint32_t bits;
        memcpy(&bits, &x, 4);
        bits |= bits == 0 ? 0 : 0x1000u + (r * 64 + k) % 0x1000;
        memcpy(&x, &bits, 4);
      }
      return T(x);
    };
  };
  const std::vector<T> a_image = operand_image<T>(64, K, A_MAJOR, S, as_t(a)),
                       b_image = operand_image<T>(N, K, B_MAJOR, S, as_t(b));
  // A and B start at multiples of 1024 bytes.
  Bytes in = bytes_of(a_image);
  in.resize(cdiv(int(in.size()), 1024) * 1024);
  const int a_bytes = int(in.size()), b_bytes = int(b_image.size() * sizeof(T));
  const Bytes behind = bytes_of(b_image);
  in.insert(in.end(), behind.begin(), behind.end());
  const int a_panel = (A_MAJOR == Major::K ? 64 : K) * span_of(S);
  const int b_panel = (B_MAJOR == Major::K ? N : K) * span_of(S);
  const auto run = [=](const void* from, void* out) {
    gemm::launch(wgmma_kernel<T, N, A_MAJOR, B_MAJOR, S>, 1, dim3(128),
                 {.smem = size_t(a_bytes + b_bytes)}, nullptr, static_cast<const uint8_t*>(from),
                 a_bytes, a_panel, b_bytes, b_panel, steps, static_cast<float*>(out));
  };
  const char* majors[] = {"K", "MN"};
  return {std::string("wgmma_") + type + "_n" + std::to_string(N) + "_" +
              majors[A_MAJOR == Major::MN] + "_" + majors[B_MAJOR == Major::MN] + "_" + name_of(S) +
              (noise ? "_low_bits" : ""),
          in, bytes_of(d), run};
}

// -------------------------------------------------------------------------------------- stmatrix

template <int COUNT, bool TRANSPOSED>
__global__ void stmatrix_kernel(const uint32_t* in, uint32_t* out) {
  auto* s = static_cast<uint8_t*>(dynamic_shared());
  uint32_t r[COUNT];
  for (int i = 0; i < COUNT; ++i) r[i] = in[threadIdx.x * COUNT + i];
  // Row l of all matrices 32 bytes behind row l - 1.
  void* row = s + threadIdx.x % (8 * COUNT) * 32;
  if constexpr (TRANSPOSED)
    stmatrix_trans(row, r);
  else
    stmatrix(row, r);
  __syncwarp();
  for (int i = threadIdx.x; i < 8 * COUNT * 4; i += 32)
    out[i] = reinterpret_cast<const uint32_t*>(s)[i / 4 * 8 + i % 4];
}

template <int COUNT, bool TRANSPOSED>
Case stmatrix_case() {
  std::vector<uint16_t> in(32 * COUNT * 2), rows(8 * COUNT * 8);
  for (size_t i = 0; i < in.size(); ++i) in[i] = uint16_t(i * 257 + 1);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < COUNT; ++i)
      for (int e = 0; e < 2; ++e) {
        int r = lane / 4, c = lane % 4 * 2 + e;
        if (TRANSPOSED) std::swap(r, c);
        rows[(8 * i + r) * 8 + c] = in[(lane * COUNT + i) * 2 + e];
      }
  return {std::string("stmatrix_x") + std::to_string(COUNT) + (TRANSPOSED ? "_trans" : ""),
          bytes_of(in), bytes_of(rows), [](const void* from, void* out) {
            gemm::launch(stmatrix_kernel<COUNT, TRANSPOSED>, 1, dim3(32), {.smem = 8 * COUNT * 32},
                         nullptr, static_cast<const uint32_t*>(from), static_cast<uint32_t*>(out));
          }};
}

// Each lane's pair of an 8 x 8 matrix and of its transpose.
__global__ void movmatrix_kernel(const uint32_t* in, uint32_t* out) {
  out[threadIdx.x] = movmatrix_trans(in[threadIdx.x]);
}

Case movmatrix_case() {
  std::vector<uint16_t> in(64), turned(64);
  for (int i = 0; i < 64; ++i) {
    in[i] = uint16_t(i * 1021 + 1);
    turned[i % 8 * 8 + i / 8] = in[i];
  }
  return {"movmatrix_trans", bytes_of(in), bytes_of(turned), [](const void* from, void* out) {
            gemm::launch(movmatrix_kernel, 1, dim3(32), {}, nullptr,
                         static_cast<const uint32_t*>(from), static_cast<uint32_t*>(out));
          }};
}

// ------------------------------------------------------------------------- named barriers,
// registers

// Warps 0 and 1 write, twice, and go on; warps 2 and 3 wait for them and sum up, and tell when the
// numbers may be overwritten.
__global__ void named_barrier_kernel(int* out) {
  auto* s = static_cast<int*>(dynamic_shared());
  const int t = threadIdx.x;
  for (int round = 1; round <= 2; ++round) {
    if (t < 64) {
      if (round == 2) named_barrier_sync(2, 128);
      s[t] = round * 1000 + t;
      named_barrier_arrive(1, 128);
    } else {
      named_barrier_sync(1, 128);
      int sum = 0;
      for (int i = 0; i < 64; ++i) sum += s[(i + t) % 64] * (i + 1);
      out[(round - 1) * 64 + t - 64] = sum;
      if (round == 1) named_barrier_arrive(2, 128);
    }
  }
}

Case named_barrier_case() {
  std::vector<int> sums(128, 0);
  for (int round = 1; round <= 2; ++round)
    for (int t = 64; t < 128; ++t)
      for (int i = 0; i < 64; ++i)
        sums[(round - 1) * 64 + t - 64] += (round * 1000 + (i + t) % 64) * (i + 1);
  return {"named_barriers", Bytes(16), bytes_of(sums), [](const void*, void* out) {
            gemm::launch(named_barrier_kernel, 1, dim3(128), {.smem = 256}, nullptr,
                         static_cast<int*>(out));
          }};
}

// One lane a warp is elected; registers move from one warpgroup to two others. ptxas gives a block
// of 384 threads 168 each; 40 + 2 * 232 is the same sum.
constexpr int GROUPS_THREADS = 384;

__global__ void __launch_bounds__(GROUPS_THREADS, 1) elect_kernel(int* out) {
  if (threadIdx.x < 128)
    setmaxnreg_dec<40>();
  else
    setmaxnreg_inc<232>();
  if (elect_one()) out[threadIdx.x / 32] = 100 + threadIdx.x / 32;
}

Case elect_case() {
  std::vector<int> warps(GROUPS_THREADS / 32);
  for (size_t i = 0; i < warps.size(); ++i) warps[i] = 100 + int(i);
  return {"elect_setmaxnreg", Bytes(16), bytes_of(warps), [](const void*, void* out) {
            gemm::launch(elect_kernel, 1, dim3(GROUPS_THREADS), {}, nullptr,
                         static_cast<int*>(out));
          }};
}

// -------------------------------------------------------------------------------------- clusters

constexpr int PART_ROWS = 8, PART_COLS = 64;  // of a load: 1 KiB of halves, b128

// Every block of a cluster loads its part of a tile into all blocks named by masks[rank]; each
// dumps what has come.
__global__ void multicast_kernel(const __grid_constant__ TensorMap map, uint32_t masks,
                                 uint8_t* out) {
  constexpr int PART = PART_ROWS * PART_COLS * 2;
  const int rank = cluster_rank(), size = cluster_size();
  auto* tile = static_cast<uint8_t*>(dynamic_shared());
  auto* full = reinterpret_cast<uint64_t*>(tile + size * PART);
  int parts = 0;  // that come to this block
  for (int r = 0; r < size; ++r) parts += masks >> (4 * r + rank) & 1;
  for (int i = threadIdx.x; i < size * PART; i += blockDim.x) tile[i] = 0;
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
  }
  fence_proxy_async();  // the zeros come before what TMA writes
  cluster_arrive();
  cluster_wait();  // all barriers are there before the first load
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(full, parts * PART);
    tma_load_multicast(tile + rank * PART, map, blockIdx.x * PART_ROWS, 0, full,
                       uint16_t(masks >> 4 * rank & 15));
  }
  mbarrier_wait(full, 0);
  for (int i = threadIdx.x; i < size * PART; i += blockDim.x)
    out[int64_t(blockIdx.x) * size * PART + i] = tile[i];
  cluster_arrive();
  cluster_wait();
}

Case multicast_case(int size, uint32_t masks) {
  constexpr int PART = PART_ROWS * PART_COLS;
  constexpr int CLUSTERS = 2;
  const std::vector<half> in = numbers<half>(CLUSTERS * size * PART);
  std::vector<half> tiles(CLUSTERS * size * size * PART, half(0.0f));
  for (int block = 0; block < CLUSTERS * size; ++block)
    for (int from = 0; from < size; ++from) {
      if ((masks >> (4 * from + block % size) & 1) == 0) continue;
      const int source = block / size * size + from;
      for (int r = 0; r < PART_ROWS; ++r)
        for (int c = 0; c < PART_COLS; ++c)
          tiles[(block * size + from) * PART + chunk_place(Swizzle::b128, r, c / 8) * 8 + c % 8] =
              in[(source * PART_ROWS + r) * PART_COLS + c];
    }
  return {"multicast_cluster" + std::to_string(size), bytes_of(in), bytes_of(tiles),
          [=](const void* from, void* out) {
            const TensorMap map =
                tensor_map(static_cast<const half*>(from), CLUSTERS * size * PART_ROWS, PART_COLS,
                           PART_COLS, PART_ROWS, PART_COLS, Swizzle::b128);
            gemm::launch(multicast_kernel, CLUSTERS * size, dim3(64),
                         {.smem = size_t(size) * PART * 2 + 8, .cluster = size}, nullptr, map,
                         masks, static_cast<uint8_t*>(out));
          }};
}

// Each block writes into its neighbour's shared memory, tells it through its mbarrier, and reads
// another one's.
__global__ void distributed_kernel(int* out) {
  auto* s = static_cast<int*>(dynamic_shared());
  auto* told = reinterpret_cast<uint64_t*>(s + 64);
  const int rank = cluster_rank(), size = cluster_size(), t = threadIdx.x;
  if (t == 0) {
    mbarrier_init(told, 64);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  map_shared(s, (rank + 1) % size)[t] = blockIdx.x * 100 + t;
  mbarrier_arrive_remote(told, (rank + 2) % size);
  cluster_arrive();
  cluster_wait();
  mbarrier_wait(told, 0);
  out[blockIdx.x * 128 + t] = s[t];
  out[blockIdx.x * 128 + 64 + t] = map_shared(s, (rank + size - 1) % size)[63 - t];
  cluster_arrive();
  cluster_wait();  // no block ends while others read its memory
}

Case distributed_case(int size) {
  std::vector<int> out(2 * size * 128);
  const auto written_to = [&](int block) {  // by its predecessor in the cluster
    return block / size * size + (block % size + size - 1) % size;
  };
  for (int block = 0; block < 2 * size; ++block)
    for (int t = 0; t < 64; ++t) {
      out[block * 128 + t] = written_to(block) * 100 + t;
      out[block * 128 + 64 + t] = written_to(written_to(block)) * 100 + 63 - t;
    }
  return {"distributed_shared_cluster" + std::to_string(size), Bytes(16), bytes_of(out),
          [=](const void*, void* to) {
            gemm::launch(distributed_kernel, 2 * size, dim3(64),
                         {.smem = 64 * 4 + 8, .cluster = size}, nullptr, static_cast<int*>(to));
          }};
}

// ------------------------------------------------------------------------------------------------

template <class T, int N, Major A_MAJOR, Major B_MAJOR>
void add_swizzles(std::vector<Case>& cases, const char* type) {
  cases.push_back(wgmma_case<T, N, A_MAJOR, B_MAJOR, Swizzle::none>(type));
  cases.push_back(wgmma_case<T, N, A_MAJOR, B_MAJOR, Swizzle::b32>(type));
  cases.push_back(wgmma_case<T, N, A_MAJOR, B_MAJOR, Swizzle::b64>(type));
  cases.push_back(wgmma_case<T, N, A_MAJOR, B_MAJOR, Swizzle::b128>(type));
}

std::vector<Case> all() {
  std::vector<Case> cases;
  for (const Swizzle s : SWIZZLES) {
    cases.push_back(tma_load_case<half>("f16", s, 0, 0));
    cases.push_back(tma_load_case<half>("f16", s, 3, 16));
    cases.push_back(tma_load_case<half>("f16", s, -5, -8));
    cases.push_back(tma_load_case<half>("f16", s, 12, 88));
    cases.push_back(tma_load_case<half>("f16", s, 20, 200));
    cases.push_back(tma_load_case<bf16>("bf16", s, 7, 80));
    cases.push_back(tma_load_case<float>("f32", s, 9, 92));
    if (s == Swizzle::b128)
      for (const int index : {0, 1, 2})
        for (const auto& [row, col] : {std::pair{0, 0}, {10, 64}, {4, 0}}) {
          cases.push_back(tma_batch_case("with_gaps", LD, ROWS * LD + 24, index, row, col));
          cases.push_back(tma_batch_case("in_rows", 3 * LD, LD, index, row, col));
          if (index == 0) cases.push_back(tma_batch_case("shared", LD, 0, index, row, col));
        }
    for (const int col : {0, 8, 88}) cases.push_back(tma_store_case(s, col / 10, col));
  }
  cases.push_back(stored_tiles_case<IN_ORDER>("stored_tiles"));
  cases.push_back(bulk_load_case());
  cases.push_back(pipeline_case<NONE>());

  constexpr Major K = Major::K, MN = Major::MN;
  constexpr Swizzle B128 = Swizzle::b128;
  add_swizzles<half, 64, K, K>(cases, "f16");
  add_swizzles<half, 128, K, MN>(cases, "f16");
  add_swizzles<half, 64, MN, K>(cases, "f16");
  add_swizzles<bf16, 96, MN, MN>(cases, "bf16");
  add_swizzles<float, 64, K, K>(cases, "tf32");
  cases.push_back(wgmma_case<half, 8, K, K, B128>("f16"));
  cases.push_back(wgmma_case<half, 24, K, MN, B128>("f16"));
  cases.push_back(wgmma_case<half, 112, K, MN, B128>("f16"));
  cases.push_back(wgmma_case<bf16, 160, K, K, B128>("bf16"));
  cases.push_back(wgmma_case<half, 192, K, MN, B128>("f16"));
  cases.push_back(wgmma_case<half, 224, K, K, B128>("f16"));
  cases.push_back(wgmma_case<half, 256, K, MN, B128>("f16"));
  cases.push_back(wgmma_case<bf16, 256, K, K, B128>("bf16"));
  cases.push_back(wgmma_case<float, 256, K, K, B128>("tf32"));
  cases.push_back(wgmma_case<float, 96, K, K, B128>("tf32", /*noise=*/true));

  cases.push_back(stmatrix_case<1, false>());
  cases.push_back(stmatrix_case<2, false>());
  cases.push_back(stmatrix_case<4, false>());
  cases.push_back(stmatrix_case<1, true>());
  cases.push_back(stmatrix_case<2, true>());
  cases.push_back(stmatrix_case<4, true>());
  cases.push_back(movmatrix_case());
  cases.push_back(named_barrier_case());
  cases.push_back(elect_case());
  cases.push_back(multicast_case(2, 0x33));    // each to both
  cases.push_back(multicast_case(4, 0xa5a5));  // each to the two of its parity
  cases.push_back(distributed_case(2));
  cases.push_back(distributed_case(4));
  return cases;
}

}  // namespace

#if GEMM_ON_GPU
std::vector<gemm::hopper::Case> gemm::hopper::gpu_cases() { return all(); }
#elif defined(GEMM_SIM_TRACED)
std::vector<gemm::hopper::Case> gemm::hopper::traced_cases() { return all(); }
gemm::hopper::Case gemm::hopper::pipeline_without_a_wait() { return pipeline_case<MISSING_WAIT>(); }
gemm::hopper::Case gemm::hopper::pipeline_released_early() {
  return pipeline_case<EARLY_RELEASE>();
}
std::vector<gemm::hopper::OverwrittenStore> gemm::hopper::overwritten_stores() {
  constexpr const char *READING = "may still be reading", *UNORDERED = "nothing orders the two";
  return {{stored_tiles_case<NO_BARRIER_AFTER_THE_WAIT>("no_barrier"), "[writes]", UNORDERED},
          {stored_tiles_case<WAIT_AFTER_THE_WRITES>("late_wait"), "[writes]", READING},
          {stored_tiles_case<OWN_WRITE_BEFORE_THE_WAIT>("own_write"), "[own write]", READING}};
}
#else
std::vector<gemm::hopper::Case> gemm::hopper::sim_cases() { return all(); }
#endif
