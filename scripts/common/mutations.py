"""The mutants of scripts/mutate.py: one change each, and what it breaks.

`find` occurs once in the file; it is text, not a line number, since code moves. A mutation of what
several rungs share names those that are tried with it. `expected` says what becomes of it, and unless it is
CAUGHT, `reason` why nothing can, or need, notice.
"""

from __future__ import annotations

from dataclasses import dataclass

CAUGHT = "caught"
EQUIVALENT = "equivalent"  # the results and the traffic are the same
ALLOWED = "allowed"  # the bound of src/harness/check.h allows it
BEYOND = "beyond the simulator"  # by its documented limits (src/sim/README.md, "Limits")


@dataclass(frozen=True)
class Mutation:
    file: str
    breaks: str
    find: str
    replace: str
    rungs: tuple[str, ...] = ()
    expected: str = CAUGHT
    reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}: {self.breaks}"


def of_rung(
    stem: str, breaks: str, find: str, replace: str, expected: str = CAUGHT, reason: str = ""
) -> Mutation:
    return Mutation(f"kernels/{stem}.cu", breaks, find, replace, (), expected, reason)


def of_header(
    name: str,
    rungs: str,
    breaks: str,
    find: str,
    replace: str,
    expected: str = CAUGHT,
    reason: str = "",
) -> Mutation:
    tags = tuple(rungs.split())
    file = name if "/" in name else f"src/device/{name}"
    return Mutation(file, breaks, find, replace, tags, expected, reason)


def of_engine(
    breaks: str, find: str, replace: str, expected: str = CAUGHT, reason: str = ""
) -> Mutation:
    return of_header("src/engine/gemm.cuh", "v27", breaks, find, replace, expected, reason)


def of_tiles(header: str, breaks: str, find: str, replace: str) -> Mutation:
    return Mutation(f"src/tile/{header}", breaks, find, replace, ("v29",))


BOTH = (
    "    __syncthreads();  // after it the next k-tile is there, and nobody reads this one "
    "any more\n"
)
BOTH_HERE = (
    "    __syncthreads();  // after it this k-tile is there, and nobody reads the one before "
    "any more\n"
)

CUDA_CORES = (
    # v1
    of_rung("v01_naive", "the last product is left out", "k < p.K; ++k", "k + 1 < p.K; ++k"),
    of_rung("v01_naive", "no right edge", "m >= p.M || n >= p.N", "m >= p.M"),
    of_rung(
        "v01_naive",
        "C is read where beta is 0",
        "p.epilogue.reads_c() ? float(*c) : 0.0f",
        "float(*c)",
    ),
    of_rung(
        "v01_naive",
        "a warp walks down a column: uncoalesced",
        "bm * BM + threadIdx.y;\n  const int n = bn * BN + threadIdx.x;",
        "bm * BM + threadIdx.x;\n  const int n = bn * BN + threadIdx.y;",
    ),
    of_rung(
        "v01u_uncoalesced",
        "a warp walks along a row: coalesced",
        "bm * BM + threadIdx.x;\n  const int n = bn * BN + threadIdx.y;",
        "bm * BM + threadIdx.y;\n  const int n = bn * BN + threadIdx.x;",
    ),
    # v2
    of_rung(
        "v02_block_tile",
        "no barrier before the tile is read",
        "    __syncthreads();  // nobody reads a tile before all of it is there\n",
        "",
    ),
    of_rung(
        "v02_block_tile",
        "no barrier before the tile is overwritten",
        "    __syncthreads();  // nobody overwrites a tile that another still reads\n",
        "",
    ),
    of_rung("v02_block_tile", "reads a column too many", "col < cols ? g", "col <= cols ? g"),
    of_rung(
        "v02_block_tile", "the last product of a k-tile", "k < BK; ++k) acc", "k < BK - 1; ++k) acc"
    ),
    # v3
    of_rung(
        "v03_thread_tile",
        "a row of A's thread tile is not copied",
        "i < TM; ++i)\n      if (tn",
        "i < TM - 1; ++i)\n      if (tn",
    ),
    of_rung("v03_thread_tile", "copies past a row of sA", "if (tn < BK<T>)", "if (tn <= BK<T>)"),
    of_rung(
        "v03_thread_tile",
        "reads A past its last column",
        "tn, p.M - bm * BM, p.K - k0)",
        "tn, p.M - bm * BM, p.K)",
    ),
    of_rung(
        "v03_thread_tile",
        "thread tiles overlap",
        "sB[k][tn * TN + j])",
        "sB[k][tn * TM + j + j / 3])",
    ),
    # v4
    of_rung(
        "v04_coalesced_copy",
        "copies go down columns: 20 sectors a load, stores 8-way",
        "row = c / COLS, col = c % COLS;",
        "row = c % ROWS, col = c / ROWS;",
    ),
    of_rung(
        "v04_coalesced_copy",
        "no lower edge for A",
        "p.M - bm * BM, p.K - k0, tid",
        "p.M, p.K - k0, tid",
    ),
    of_rung(
        "v04_coalesced_copy",
        "k-tiles overlap",
        "k0 < p.K; k0 += BK<T>",
        "k0 < p.K; k0 += BK<T> - 1",
    ),
    # v5
    of_rung(
        "v05_float4",
        "always the narrow kernel",
        "all_aligned(p) ? gemm_v05<T, true> : gemm_v05<T, false>",
        "gemm_v05<T, false>",
    ),
    of_rung(
        "v05_float4",
        "no right edge of 128-bit loads",
        "if (row < rows && col < cols) v",
        "if (row < rows) v",
    ),
    of_rung(
        "v05_float4", "every group stored is the first", "+ j, &acc[i][j])", "+ j, &acc[i][0])"
    ),
    of_rung(
        "v05_float4",
        "the wide kernel whatever the alignment",
        "all_aligned(p) ? gemm_v05<T, true> : gemm_v05<T, false>",
        "gemm_v05<T, true>",
    ),
    # v6
    of_rung(
        "v06_bank_conflicts",
        "thread tiles are not interleaved: conflicts",
        "return i * (BM / TM) + t;",
        "return t * TM + i;",
    ),
    of_rung("v06_bank_conflicts", "no padding: stores conflict", "[BM + Vec<T>::SIZE]", "[BM]"),
    of_rung(
        "v06_bank_conflicts", "one element of a group four times", "[row] = v[e]", "[row] = v[0]"
    ),
    # v7
    of_rung("v07_outer_product", "no padding: stores conflict", "[BM + VEC]", "[BM]"),
    of_rung(
        "v07_outer_product",
        "fragments of neighbouring groups: conflicts",
        "&sB[k][tn * VEC], BN / TN * VEC)",
        "&sB[k][tn * TN], VEC)",
    ),
    of_rung(
        "v07_outer_product",
        "rows of the fragment exchanged",
        "rA[i] * rB[j]",
        "rA[TM - 1 - i] * rB[j]",
    ),
    # v8
    of_rung("v08_double_buffer", "no padding: stores conflict", "[BM + VEC]", "[BM]"),
    of_rung(
        "v08_double_buffer",
        "commits to the buffer that is read",
        "commit(stage ^ 1)",
        "commit(stage)",
    ),
    of_rung("v08_double_buffer", "no barrier between k-tiles", BOTH, ""),
    of_rung(
        "v08_double_buffer",
        "no barrier after the first k-tile",
        "commit(0);\n  __syncthreads();",
        "commit(0);",
    ),
    of_rung(
        "v08_double_buffer",
        "a barrier too many",
        "if (more) commit(stage ^ 1);",
        "__syncthreads();\n    if (more) commit(stage ^ 1);",
    ),
    of_rung(
        "v08_double_buffer",
        "fetches past the end of K",
        "if (more) fetch(",
        "fetch(",
        EQUIVALENT,
        "zeros, for which nothing is read, and which are not committed",
    ),
    # v11
    of_rung(
        "v11_warp_tile",
        "lanes in rows of eight: B's wavefronts double",
        "{ return lane >> 1 & 3; }\nGEMM_DEVICE int lane_n(int lane) { return (lane & 1) | lane >> 3 << 1; }",
        "{ return lane / 8; }\nGEMM_DEVICE int lane_n(int lane) { return lane % 8; }",
    ),
    of_rung("v11_warp_tile", "no barrier between k-tiles", BOTH, ""),
    of_rung(
        "v11_warp_tile", "warps overlap", "% (BN / WN) * WN + lane", "% (BN / WN) * (WN - 8) + lane"
    ),
    # v12
    of_rung(
        "v12_multistage",
        "two stages instead of three",
        "BN = 128, STAGES = 3",
        "BN = 128, STAGES = 2",
    ),
    of_rung(
        "v12_multistage",
        "waits for too few copies",
        "cp_async_wait<STAGES - 2>",
        "cp_async_wait<STAGES - 1>",
    ),
    of_rung(
        "v12_multistage",
        "lanes in rows of eight: B's wavefronts double",
        "{ return lane >> 1 & 3; }\nGEMM_DEVICE int lane_n(int lane) { return (lane & 1) | lane >> 3 << 1; }",
        "{ return lane / 8; }\nGEMM_DEVICE int lane_n(int lane) { return lane % 8; }",
    ),
    of_rung("v12_multistage", "no barrier between k-tiles", BOTH_HERE, ""),
    of_rung(
        "v12_multistage",
        "cp.async past the right edge",
        "row + r < rows && col < cols ? 16 : 0",
        "row + r < rows ? 16 : 0",
    ),
    of_rung(
        "v12_multistage",
        "writes one stage for ever",
        "write = (write + 1) % STAGES",
        "write = write % STAGES",
    ),
    # v13
    of_rung(
        "v13_ffma",
        "the edge's rows are stored at the top",
        "row.C += (p.M - m) * p.ldc",
        "row.C += 0",
    ),
    of_rung(
        "v13_ffma",
        "the edge's columns of B are the first",
        "  column.B += p.N - n;\n",
        "",
    ),
    of_rung(
        "v13_ffma",
        "the edge of a transposed A is found by rows",
        "(A_K_MAJOR ? p.lda : 1)",
        "p.lda",
    ),
    of_rung(
        "v13_ffma",
        "the second block of a cluster goes past the end of K",
        "p.K - begin > k_span ? begin + k_span : p.K, sums",
        "begin + k_span, sums",
    ),
    of_rung(
        "v13_ffma",
        "an early kernel does not wait for the one before",
        "  grid_dependency_wait();  // so as to end after the kernel before\n",
        "",
    ),
    # v13s
    of_rung(
        "v13s_split_k",
        "the last CTA's k-tiles end too soon",
        "k_tiles * (nth + 1) / splits",
        "(k_tiles - 1) * (nth + 1) / splits",
    ),
    of_rung(
        "v13s_split_k",
        "the short k-tile is taken for a whole one",
        "fetch<false>(s, first)",
        "fetch<true>(s, first)",
    ),
    of_rung(
        "v13s_split_k",
        "rows or columns past the edge are read",
        "x < left_x_ && (WHOLE",
        "(WHOLE",
    ),
    of_rung(
        "v13s_split_k",
        "sends before the others have begun",
        "  if (ctas > 1) cluster_wait();  // the others",
        "  if (ctas > 99) cluster_wait();  // the others",
    ),
    of_rung(
        "v13s_split_k",
        "all rows are sent to the first CTA's neighbour",
        "ROW<Tile> + n, m / rows)",
        "ROW<Tile> + n, 1)",
    ),
    of_rung(
        "v13s_split_k",
        "the sums of one CTA are left out",
        "for (int from = 0; from < ctas; ++from)",
        "for (int from = 0; from < (ctas > 1 ? ctas - 1 : 1); ++from)",
    ),
    of_rung(
        "v13s_split_k",
        "the last k-tile's first fragments come from what was never written",
        "if (left > 1) read = read",
        "read = read",
    ),
    of_rung(
        "v13s_split_k",
        "waits for too few copies",
        "  cp_async_wait<STAGES - 2>();\n  __syncthreads();\n  load_fragment",
        "  cp_async_wait<STAGES - 1>();\n  __syncthreads();\n  load_fragment",
    ),
    of_rung(
        "v13s_split_k",
        "sums over k-tiles that others still read",
        "  __syncthreads();  // all have read their k-tiles\n",
        "",
    ),
    of_rung(
        "v13s_split_k",
        "alpha is applied to each part and to their sum",
        "p.epilogue = {};",
        "p.epilogue = {p.epilogue.alpha};",
    ),
    of_rung("v13s_split_k", "a part is left out", "i < parts; ++i)", "i < parts - 1; ++i)"),
    of_rung(
        "v13s_split_k",
        "the sums do not wait for the parts",
        "  grid_dependency_wait();\n  if (m >= p.M) return;\n",
        "  if (m >= p.M) return;\n",
    ),
    of_rung(
        "v13s_split_k",
        "rows in shared memory without padding: conflicts",
        "Tile::BN + 4;",
        "Tile::BN;",
    ),
)

TENSOR_CORES = (
    # v10
    of_rung("v10_mma", "rows of sA without padding: conflicts", "SA = WORDS + 4", "SA = WORDS"),
    of_rung("v10_mma", "rows of sB without padding: conflicts", "SB = BN + 8", "SB = BN"),
    of_rung("v10_mma", "A's lower half is its upper", "+ g + r % 2 * 8][k", "+ g][k"),
    of_rung("v10_mma", "no barrier between k-tiles", BOTH, ""),
    of_rung(
        "v10_mma",
        "TF32 inputs cut off, not rounded",
        "return cvt_rna_tf32(x);",
        "return __builtin_bit_cast(uint32_t, x) & ~0x1fffu;",
        ALLOWED,
        "an input of TF32 may be off by 2^-10 of it: tensor cores themselves cut off",
    ),
    # v14
    of_rung("v14_3xtf32", "two of three products", "  mma<float>(d, a.small, b.big);\n", ""),
    of_rung(
        "v14_3xtf32", "no small part", "const float rest = x - cut;", "const float rest = 0 * cut;"
    ),
    of_rung(
        "v14_3xtf32", "only the last k-tile's sum", "acc[i][j][r] += sum", "acc[i][j][r] = sum"
    ),
    of_rung("v14_3xtf32", "rows of sA without padding: conflicts", "SA = BK + 4", "SA = BK"),
    of_rung("v14_3xtf32", "rows of sB without padding: conflicts", "SB = BN + 8", "SB = BN"),
    of_rung(
        "v14_3xtf32",
        "waits for too few copies",
        "cp_async_wait<STAGES - 2>",
        "cp_async_wait<STAGES - 1>",
    ),
    of_rung("v14_3xtf32", "no barrier between k-tiles", BOTH_HERE, ""),
    # v15
    of_rung(
        "v15_ldmatrix",
        "no swizzle: conflicts",
        "swizzled_column(MODE, row, col % WIDTH * sizeof(T)) / sizeof(T)",
        "col % WIDTH",
    ),
    of_rung(
        "v15_ldmatrix", "B is not transposed on the way", "ldmatrix_x4_trans(r,", "ldmatrix_x4(r,"
    ),
    of_rung("v15_ldmatrix", "no barrier between k-tiles", BOTH, ""),
    # v16
    of_rung(
        "v16_multistage_mma",
        "no barrier between k-tiles",
        "    " + BOTH,
        "",
    ),
    of_rung(
        "v16_multistage_mma",
        "the old k-tile's first fragments",
        "load(k_tile + 1, 0);",
        "load(k_tile, 0);",
    ),
    of_rung(
        "v16_multistage_mma",
        "copies one step too late",
        "if (k == 0) copy_next",
        "if (k > 0) copy_next",
    ),
    of_rung(
        "v16_multistage_mma",
        "three stages instead of four",
        "BK = 32, STAGES = 4",
        "BK = 32, STAGES = 3",
    ),
    of_rung(
        "v16_multistage_mma",
        "a k-tile of B is not counted on",
        "    gB += BK * p.ldb;",
        "    gB += p.ldb;",
    ),
    # v17
    of_rung(
        "v17_raster",
        "groups overlap from the second on",
        "group * GROUP_M + within % rows",
        "group * (GROUP_M - 1) + within % rows",
    ),
    of_rung(
        "v17_raster", "the last group has all rows", "left < GROUP_M ? left : GROUP_M", "GROUP_M"
    ),
    of_rung(
        "v17_raster",
        "no barrier between k-tiles",
        "    " + BOTH,
        "",
    ),
    # v17u
    of_rung(
        "v17u_unaligned",
        "a row's last word is loaded whole, past its end",
        "whole_words && col + 1 < cols",
        "whole_words && col < cols",
    ),
    of_rung(
        "v17u_unaligned",
        "an odd row's last pair is loaded, past its end",
        "left_1 = col + 1 < cols ? left : 0;",
        "left_1 = col < cols ? left : 0;",
    ),
    of_rung(
        "v17u_unaligned",
        "the base is taken to lie at a multiple of 4 bytes",
        "(reinterpret_cast<uintptr_t>(at) | static_cast<uint64_t>(ld) * sizeof(T)) % 4 == 0;",
        "static_cast<uint64_t>(ld) * sizeof(T) % 4 == 0;",
    ),
    of_rung(
        "v17u_unaligned",
        "stores a k-tile over one that is read",
        "    __syncthreads();  // the k-tiles before have been read\n",
        "",
    ),
    of_rung(
        "v17u_unaligned",
        "multiplies a k-tile that is not there",
        "    __syncthreads();  // these are there\n",
        "",
    ),
    of_rung(
        "v17u_unaligned",
        "stores sums over a k-tile that is read",
        "  __syncthreads();  // the last k-tiles have been read\n",
        "",
    ),
    of_rung(
        "v17u_unaligned",
        "adds up sums that are not there",
        "= acc[i][j][r];\n  __syncthreads();\n",
        "= acc[i][j][r];\n",
    ),
    of_rung(
        "v17u_unaligned",
        "a group without a k-tile keeps the one before",
        "if (k0 + step < p.K) load(",
        "if (k0 + step + (cta * GROUPS + group) * BK < p.K) load(",
    ),
    of_rung(
        "v17u_unaligned",
        "half of the groups are left out of the sums",
        "SUMMANDS = CLUSTER ? 1 : GROUPS",
        "SUMMANDS = CLUSTER ? 1 : (GROUPS + 1) / 2",
    ),
    of_rung(
        "v17u_unaligned",
        "half of the CTAs are left out of the sums",
        "i < 1 << log_ctas; ++i)",
        "i < 1 << (log_ctas - 1); ++i)",
    ),
    of_rung(
        "v17u_unaligned",
        "reads sums of CTAs that have none yet",
        "    cluster_arrive();\n    cluster_wait();\n",
        "",
    ),
    of_rung(
        "v17u_unaligned",
        "a CTA ends while its sums are read",
        "    __syncwarp();\n    cluster_wait();",
        "    __syncwarp();",
    ),
    of_rung(
        "v17u_unaligned",
        "a transposed A has its matrices in B's order",
        "k + lane / 16 * 8 + lane % 8, m + lane / 8 % 2 * 8",
        "k + lane % 16, m + lane / 16 * 8",
    ),
    of_rung(
        "v17u_unaligned",
        "a transposed B has its matrices in A's order",
        "n + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8",
        "n + lane % 16, k + lane / 16 * 8",
    ),
    of_rung(
        "v17u_unaligned",
        "loads the next group's k-tile",
        "load(k0 + step + (cta * GROUPS + group) * BK);",
        "load(k0 + step + (cta * GROUPS + group + 1) * BK);",
    ),
)

HOPPER = (
    # v14w
    of_rung(
        "v14w_split_wgmma",
        "one consumer frees the stage for both",
        "if (tid % 128 == 0) mbarrier_arrive(&empty[state.stage]);",
        "if (tid == 0) mbarrier_arrive(&empty[state.stage]), mbarrier_arrive(&empty[state.stage]);",
    ),
    of_rung(
        "v14w_split_wgmma",
        "two of three products",
        "    multiply(rest, s.A_hi, s.B_lo, false);\n",
        "",
    ),
    of_rung(
        "v14w_split_wgmma",
        "the rest is not scaled back",
        "rest[i] / (1 << TwoHalves::LO_SHIFT)",
        "rest[i]",
    ),
    of_rung(
        "v14w_split_wgmma",
        "sums are read before they are there",
        "wgmma_wait<0>(sum)",
        "wgmma_wait<1>(sum)",
    ),
    of_rung(
        "v14w_split_wgmma",
        "columns keep their power of two",
        "-a_exponents[m] - b_exponents[n]",
        "-a_exponents[m]",
    ),
    # v14x
    of_rung(
        "v14x_bf16x6",
        "five of six products",
        "    multiply(rest, 1, 1, false);\n",
        "",
    ),
    of_rung(
        "v14x_bf16x6",
        "one consumer frees the stage for both",
        "if (tid % 128 == 0) mbarrier_arrive(&empty[state.stage]);",
        "if (tid == 0) mbarrier_arrive(&empty[state.stage]), mbarrier_arrive(&empty[state.stage]);",
    ),
    # v17t
    of_rung("v17t_tma", "rows and columns exchanged in the map", "{cols, rows}", "{rows, cols}"),
    of_rung("v17t_tma", "the second panel is the first", "map, mn + i * PANEL, k", "map, mn, k"),
    of_rung("v17t_tma", "announces A alone", "sizeof s.A + sizeof s.B", "sizeof s.A"),
    of_rung("v17t_tma", "always the first phase", "s.full, k_tile % 2", "s.full, 0"),
    of_rung(
        "v17t_tma",
        "loads over a tile that is read",
        "    __syncthreads();  // all warps have read the tile: TMA may write over it\n",
        "",
    ),
    of_rung(
        "v17t_tma",
        "quarters of a transposed A exchanged",
        "k + lane / 16 * 8 + lane % 8, m + lane / 8 % 2 * 8",
        "k + lane / 8 % 2 * 8 + lane % 8, m + lane / 16 * 8",
    ),
    # v17w
    of_rung("v17w_wgmma", "eight rows are four", "8 * ROW_BYTES >> 4", "4 * ROW_BYTES >> 4"),
    of_rung("v17w_wgmma", "the next panel is this one", "16 : PANEL_BYTES)", "16 : 0)"),
    of_rung("v17w_wgmma", "reads without a swizzle", "swizzle = 1;", "swizzle = 0;"),
    of_rung("v17w_wgmma", "16 of k are 8 rows", "MMA_K * ROW_BYTES", "8 * ROW_BYTES"),
    of_rung("v17w_wgmma", "both halves of A are the first", "s.A + i * PANEL_BYTES", "s.A"),
    of_rung("v17w_wgmma", "always the first phase", "s.full, k_tile % 2", "s.full, 0"),
    of_rung("v17w_wgmma", "loads over a tile that is read", "wgmma_wait<0>", "wgmma_wait<1>"),
    # v18
    of_rung("v18_pipeline", "always the first phase", "phase = k_tile / STAGES;", "phase = 0;"),
    of_rung(
        "v18_pipeline",
        "loads over a k-tile that is read",
        "wgmma_wait<0>();\n    if",
        "wgmma_wait<1>();\n    if",
    ),
    of_rung(
        "v18_pipeline",
        "loads past the end of K",
        "k_tile < STAGES && k_tile < k_tiles",
        "k_tile < STAGES",
    ),
    of_rung("v18_pipeline", "no wgmma.fence", "    wgmma_fence();\n", ""),
    # v19
    of_rung("v19_warp_specialized", "phases never change", "      phase ^= 1;\n", ""),
    of_rung(
        "v19_warp_specialized",
        "frees the stage that is read",
        "mbarrier_arrive(&s.empty[last])",
        "mbarrier_arrive(&s.empty[stage])",
    ),
    of_rung("v19_warp_specialized", "waits for two consumers", "s.empty, 1)", "s.empty, 2)"),
    of_rung(
        "v19_warp_specialized",
        "the producer waits for the other phase",
        "state.phase ^ 1)",
        "state.phase)",
    ),
    # v20
    of_rung(
        "v20_two_consumers",
        "one consumer frees the stage for both",
        "if (tid % 128 == 0 && k_tile > 0) mbarrier_arrive(&s.empty[last]);",
        "if (tid == 0 && k_tile > 0)\n"
        "      mbarrier_arrive(&s.empty[last]), mbarrier_arrive(&s.empty[last]);",
    ),
    of_rung(
        "v20_two_consumers",
        "frees a stage before it is read",
        "wgmma_wait<1>();",
        "wgmma_wait<2>();",
    ),
    of_rung(
        "v20_two_consumers",
        "both consumers compute the same rows",
        "s.A[stage], wg * MMA_M)",
        "s.A[stage], 0 * MMA_M)",
    ),
    of_rung(
        "v20_two_consumers",
        "a k-tile is multiplied twice",
        "k_tile = 0, last = 0; k_tile < k_tiles",
        "k_tile = 0, last = 0; k_tile < k_tiles - 1",
    ),
    # v21
    of_rung(
        "v21_persistent",
        "the last stage of a tile is never freed",
        "    if (tid % 128 == 0 && k_tiles > 0) mbarrier_arrive(&s.empty[last]);  // the next tile wants it\n",
        "",
    ),
    of_rung(
        "v21_persistent",
        "the last tile is left out",
        "tile < int64_t{tiles_m} * tiles_n",
        "tile + 1 < int64_t{tiles_m} * tiles_n",
    ),
    of_rung(
        "v21_persistent",
        "accumulators are not cleared for the next tile",
        "    float acc[BN / 2] = {};\n    int last",
        "    static thread_local float all[384][BN / 2];\n    auto& acc = all[tid];\n    int last",
    ),
    # v22
    of_rung("v22_multicast", "counts one block's consumers", "CLUSTER * CONSUMERS)", "CONSUMERS)"),
    of_rung(
        "v22_multicast",
        "tells only its own block",
        "arrive_remote(barrier, rank",
        "arrive_remote(barrier, cluster_rank()",
    ),
    of_rung(
        "v22_multicast",
        "ends while the neighbour loads for it",
        "  cluster_arrive();\n  cluster_wait();  // the neighbour's last copies and arrivals have come\n",
        "",
    ),
    of_rung(
        "v22_multicast",
        "both load the same half",
        "mn + panel * Tile::WIDTH",
        "mn + i * Tile::WIDTH",
    ),
    # v23
    of_rung(
        "v23_tma_store",
        "writes over a tile that TMA reads",
        "      named_barrier_sync(1 + wg, 128);  // TMA has read the tile before this one\n",
        "",
    ),
    of_rung(
        "v23_tma_store",
        "stores before all have written",
        "      named_barrier_sync(1 + wg, 128);  // all have written\n",
        "",
    ),
    of_rung("v23_tma_store", "no fence.proxy.async", "      fence_proxy_async();\n", ""),
    of_rung(
        "v23_tma_store",
        "does not wait for the store before",
        "      if (leader) tma_store_wait_read<0>();\n      named",
        "      named",
    ),
    of_rung(
        "v23_tma_store",
        "ends before its store is read",
        "    if (leader) tma_store_wait_read<0>();\n  }",
        "  }",
    ),
    of_rung(
        "v23_tma_store",
        "stores a panel past the right edge",
        "m < p.M && n + c * 64 < p.N",
        "m < p.M",
        EQUIVALENT,
        "of a box outside of the matrix TMA stores nothing",
    ),
    # v24
    of_rung(
        "v24_pingpong",
        "does not wait for the ordered barrier",
        "if (k_tiles > 0) mbarrier_wait(&s.order[wg], parity);",
        "",
    ),
    of_rung(
        "v24_pingpong",
        "does not skip the other's k-tiles",
        "    state.skip(k_tiles);  // the other consumer's tile\n",
        "",
    ),
    of_rung(
        "v24_pingpong",
        "waits for the same phase of the ordered barrier again",
        "    parity ^= 1;\n",
        "",
    ),
    of_rung(
        "v24_pingpong",
        "never tells the other consumer",
        "      if (k_tile == k_tiles - 1 && tid % 32 == 0) mbarrier_arrive(other);\n",
        "",
    ),
    of_rung(
        "v24_pingpong",
        "ends before its store is read",
        "  if (tid % 32 == 0) tma_store_wait_read<0>();\n",
        "",
    ),
    # v27
    of_header(
        "src/engine/cluster_sums.cuh",
        "v27",
        "a part of the sums is left out",
        "part < part_count; ++part",
        "part < part_count - 1; ++part",
    ),
    of_header(
        "src/engine/tiles.cuh",
        "v27",
        "a batch has the first product's B for all",
        "one_b ? 0 : product",
        "0",
    ),
    of_header(
        "src/engine/tiles.cuh",
        "v27",
        "a batch's shared A is looked for at each product",
        "one_a ? 0 : product",
        "product",
    ),
    of_header(
        "persistent.cuh",
        "v27",
        "a batch's last product is left out",
        "unsigned product = tile / each;\n",
        "unsigned product = tile / each;\n      if (product + 1 == p.batch.count) break;\n",
    ),
    of_header(
        "src/engine/tiles.cuh",
        "v27",
        "a batch's panels are stored to the first product",
        "matrix_of_batch<BATCH>(map_c, product)",
        "matrix_of_batch<BATCH>(map_c, 0)",
    ),
    of_header(
        "src/engine/tiles.cuh",
        "v27",
        "the last rows of a group's tile are stored with the next group's",
        "(cut || left <= gridDim.x)",
        "(left <= gridDim.x)",
    ),
    of_header(
        "src/engine/tiles.cuh",
        "v27",
        "a group's tiles are loaded from the first row on",
        "rows.first + bm * BM, k, full);",
        "bm * BM, k, full);",
    ),
    of_header(
        "src/engine/tiles.cuh",
        "v27",
        "the first column of B stays for all",
        "raster.b_stays && bn == column",
        "raster.b_stays && column >= 0",
    ),
    of_header(
        "src/engine/tiles.cuh",
        "v27",
        "k-tiles of a B that stays change their stages",
        "raster.b_stays ? k_tiles : STAGES",
        "STAGES",
    ),
    of_header(
        "persistent.cuh",
        "v27",
        "a range does not wrap around",
        "    if (nth >= count) nth -= count;\n",
        "",
    ),
    of_header(
        "persistent.cuh",
        "v27",
        "a group's tiles are counted from the first group's",
        "      tile -= rows * tiles_n;\n",
        "",
    ),
    of_engine(
        "adds before all parts of the cluster have come",
        "  const auto wait_for_sums = [] {\n    cluster_arrive();\n    cluster_wait();\n  };",
        "  const auto wait_for_sums = [] {};",
    ),
    of_engine(
        "sends sums to a cluster's CTAs that still read k-tiles",
        "    if (!beside) cluster_arrive();  // this CTA's k-tiles have been read\n    cluster_wait();\n",
        "    if (beside) cluster_wait();\n",
    ),
    of_header(
        "src/engine/cluster_sums.cuh",
        "v27",
        "stores units that are not there",
        "return (units - cta + split - 1) / split;",
        "return most;",
    ),
    of_header(
        "src/engine/cluster_sums.cuh",
        "v27",
        "two units take one place",
        "cta = 0, ++nth;",
        "cta = 0;",
    ),
    of_header(
        "src/engine/config.h",
        "v27",
        "CTAs of a cluster have the same tiles along y",
        " + (rank >> cluster.log_x)};",
        "};",
    ),
    of_header(
        "pipeline.cuh",
        "v27",
        "phases of counted stages never change",
        "stage = 0, phase ^= 1;",
        "stage = 0;",
    ),
    of_header(
        "src/engine/launch.cuh",
        "v27",
        "a stage more than there is room for",
        "std::min(Shared::ROOM / bytes,",
        "std::min(Shared::ROOM / bytes + 1,",
    ),
    of_engine(
        "the second 64 rows of a consumer are stored over the first",
        "x + row + i * MMA_X, y, acc[i]",
        "x + row, y, acc[i]",
    ),
    of_engine(
        "the CTAs of a cluster compute the same part of K",
        "adds ? cta * clusters + blockIdx.x / cut.parts :",
        "adds ? blockIdx.x / cut.parts :",
    ),
    of_header(
        "src/engine/problem_of.h",
        "v27",
        "a batch whose B lies off 16 bytes is launched at once",
        "p.batch.stride_a * sizeof(T) % 16 == 0 && p.batch.stride_b * sizeof(T) % 16 == 0 &&",
        "p.batch.stride_a * sizeof(T) % 16 == 0 &&",
    ),
    of_header(
        "src/engine/tiles.cuh",
        "v27",
        "a group's last rows are cut one late",
        "m + MMA_X > rows.end;",
        "m + MMA_X > rows.end + 1;",
    ),
    # v28
    of_rung(
        "v28_dispatch",
        "of equal estimates the last one counts",
        "plan->makespan >= best.makespan",
        "plan->makespan > best.makespan",
        EQUIVALENT,
        "which kernel runs is a matter of speed",
    ),
    # v32
    of_rung(
        "v32_block_scales",
        "B's scales of the k-tile before",
        "block_[i][k_tile]",
        "block_[i][k_tile > 0 ? k_tile - 1 : 0]",
    ),
    of_rung(
        "v32_block_scales",
        "A's scales of the k-tile before",
        "map_scales, k_tile, bm * BM",
        "map_scales, k_tile > 0 ? k_tile - 1 : 0, bm * BM",
    ),
    of_rung(
        "v32_block_scales",
        "both rows of a thread have the first one's scale",
        "row[j] * column",
        "row[0] * column",
    ),
    of_rung(
        "v32_block_scales",
        "consumer 1 has the scales of consumer 0's rows",
        "[wg * MMA_M], k_tile",
        "[0], k_tile",
    ),
    of_rung(
        "v32_block_scales",
        "all columns of a tile have the first block's scale",
        "scale_[(first + i) * 2 / COLUMNS]",
        "scale_[0]",
    ),
    of_rung(
        "v32_block_scales",
        "reads scales of blocks of columns beyond B",
        "(first + i < last ? first + i : last)",
        "(first + i)",
    ),
    of_rung(
        "v32_block_scales",
        "announces no bytes of scales",
        "TileA::BYTES + TileB::BYTES + int{sizeof(s.scales[0])}",
        "TileA::BYTES + TileB::BYTES",
    ),
    of_rung(
        "v32_block_scales",
        "TMA reads scales that it cannot address",
        "scales.A.data, k_tiles, p.M, scales.A.ld",
        "p.scales.a, k_tiles, p.M, p.scales.lda",
    ),
)

HEADERS = (
    # Two-level sums.
    of_header(
        "promotion.cuh",
        "v31 v32",
        "partial sums are added again in the next k-tile",
        "k > 0 GEMM_CALLER_PASS",
        "true GEMM_CALLER_PASS",
    ),
    of_header(
        "promotion.cuh",
        "v31 v32",
        "the second half's sums are the first half's columns",
        "sB + nth * COLUMNS * TileB::ROW_BYTES",
        "sB",
    ),
    of_header(
        "promotion.cuh",
        "v31 v32",
        "promotes a half that is still multiplied",
        "wgmma_wait<BUFFERS - 1>(part[0]",
        "wgmma_wait<BUFFERS>(part[0]",
    ),
    # The tile layer.
    of_tiles("view.cuh", "reads what is masked out", "    if (!mask) return;\n", ""),
    of_tiles(
        "view.cuh",
        "stores past the last row",
        "if (this->template has_row<ROWS>(row) && this->template has_col<COLS>(col + v))\n            *at",
        "if (this->template has_col<COLS>(col + v))\n            *at",
    ),
    of_tiles(
        "expression.cuh",
        "leaves the activation out",
        "Epilogue{1, 0, activation, slope}.activate(x);",
        "",
    ),
    of_tiles(
        "view.cuh",
        "reads past the last row",
        "if (this->template has_row<ROWS>(row) && this->template has_col<COLS>(col + v))\n            x[",
        "if (this->template has_col<COLS>(col + v))\n            x[",
    ),
    of_tiles(
        "view.cuh",
        "reads groups past the last row",
        "if (!this->template has_row<ROWS>(row) || !this->template has_col<COLS>(col)) continue;"
        "\n        const auto word",
        "if (!this->template has_col<COLS>(col)) continue;\n        const auto word",
    ),
    of_tiles(
        "view.cuh",
        "stores groups past the last row",
        "if (!this->template has_row<ROWS>(row) || !this->template has_col<COLS>(col)) continue;"
        "\n        Element group[VEC];\n#pragma",
        "if (!this->template has_col<COLS>(col)) continue;\n        Element group[VEC];\n#pragma",
    ),
    of_tiles(
        "view.cuh",
        "takes the end of a row for a whole group",
        "row_stride % VEC == 0 && cols % VEC == 0",
        "row_stride % VEC == 0",
    ),
    of_tiles(
        "cp_async_loop.cuh",
        "copies B by groups, however it lies",
        "a == Access::any || b == Access::any ||",
        "a == Access::any ||",
    ),
    of_tiles(
        "cp_async_loop.cuh",
        "C by columns is the transposed product of what was not transposed",
        "p = {p.B.transposed(), a.transposed(), p.C",
        "p = {p.B.transposed(), a, p.C",
    ),
    of_tiles("registers.cuh", "a row without half of its lanes", "lanes = 16;", "lanes = 8;"),
    of_tiles("gemm.cuh", "every CTA computes the same tiles", "first_(first)", "first_(0)"),
    of_tiles(
        "wgmma_loop.cuh",
        "does not wait for the ordered barrier",
        "if (k_tiles > 0) mbarrier_wait(&shared.order[wg], order_phase);",
        "",
    ),
    of_tiles(
        "wgmma_loop.cuh",
        "consumer 1 begins with consumer 0's k-tiles",
        "      if (wg == 1) state.skip(k_tiles);  // the other consumer's tile\n",
        "",
    ),
    of_tiles(
        "mma_loop.cuh",
        "waits for one copy too few",
        "cp_async_wait<STAGES - 2>();\n          __syncthreads();",
        "cp_async_wait<STAGES - 1>();\n          __syncthreads();",
    ),
    of_tiles(
        "wgmma_loop.cuh",
        "consumer 0 goes on with consumer 1's k-tiles",
        "      if (wg == 0) state.skip(k_tiles);\n",
        "",
    ),
    of_tiles(
        "wgmma_loop.cuh",
        "waits for the ordered barrier's first phase again",
        "      order_phase ^= 1;\n",
        "",
    ),
    of_tiles(
        "mma_loop.cuh",
        "reads past the last row",
        "row + r < rows && col < cols ? 16",
        "col < cols ? 16",
    ),
    of_tiles(
        "mma_loop.cuh",
        "writes rows by the swizzle of another",
        "return rows % 8 == 0;",
        "return rows > 0;",
    ),
    of_tiles(
        "mma_loop.cuh",
        "a second pipeline overwrites what the first reads",
        "before shared memory is used anew\n    __syncthreads();",
        "before shared memory is used anew",
    ),
    of_tiles("mma_loop.cuh", "loads the k-tile that it has", "load(k + STAGES - 1)", "load(k)"),
    of_tiles(
        "ffma_loop.cuh",
        "never stores what it loads",
        "      ahead.step(BK);\n",
        "",
    ),
    of_tiles(
        "ffma_loop.cuh",
        "reads past the last row",
        "left = op.template has_row<X>(row) ? op.cols - k - col : 0;",
        "left = op.cols - k - col;",
    ),
    of_tiles("ffma_loop.cuh", "reads past the end of K", "p * PART_K < left", "left > 0"),
    of_tiles(
        "ffma_loop.cuh",
        "a second pipeline overwrites what the first reads",
        "before shared memory is used anew\n    __syncthreads();",
        "before shared memory is used anew",
    ),
    of_header(
        "epilogue.cuh",
        "v2",
        "C is read where beta is 0",
        "p.epilogue.reads_c() ? float(*c) : 0.0f",
        "float(*c)",
    ),
    Mutation(
        "src/epilogue.h",
        "alpha is left out where beta is 0",
        "return alpha == 1 && only_scales();",
        "return only_scales();",
        ("v24",),
    ),
    Mutation(
        "src/epilogue.h",
        "the activation is left out where beta is 0",
        "return beta == 0 && activation == Activation::none;",
        "return beta == 0;",
        ("v8", "v24"),
    ),
    Mutation(
        "src/epilogue.h",
        "relu lets half of what is negative through",
        "return x < 0 ? Real(0) : x;",
        "return x < -1 ? Real(0) : x;",
        ("v2",),
    ),
    of_header(
        "epilogue.cuh",
        "v8",
        "no right edge of 128-bit stores",
        "    if (m >= p.M || n >= p.N) return;\n    TC* c",
        "    if (m >= p.M) return;\n    TC* c",
    ),
    of_header(
        "epilogue.cuh",
        "v16",
        "the right one of a pair has the left one's C",
        "x[1] = p.epilogue.combine(right, was[1])",
        "x[1] = p.epilogue.combine(right, was[0])",
    ),
    of_header(
        "epilogue.cuh",
        "v16",
        "alpha only for the left one of a pair",
        "x[1] = p.epilogue.scale(right);",
        "x[1] = right;",
    ),
    of_header(
        "vec.cuh",
        "v8",
        "rows of any length are wide",
        "ld % VEC == 0 && cols % VEC == 0",
        "ld % VEC == 0",
    ),
    of_header(
        "vec.cuh",
        "v8",
        "any base is aligned",
        "reinterpret_cast<uintptr_t>(base) % 16 == 0 && ld",
        "ld",
    ),
    of_header(
        "vec.cuh",
        "v8",
        "the groups of a thread tile are neighbours in C",
        "i / VEC * (TILES * VEC) + t * VEC",
        "i / VEC * VEC + t * 2 * VEC",
    ),
    of_header(
        "tile_copy.cuh",
        "v6",
        "no lower edge of 128-bit loads",
        "if (row < rows && col < cols) v",
        "if (col < cols) v",
    ),
    of_header("tile_copy.cuh", "v4 v6", "zeros are ones", "T(0.0f)", "T(1.0f)"),
    of_header(
        "tile_copy.cuh",
        "v7",
        "a group is stored untransposed",
        "s[col + e][row] = v[e]",
        "s[col][row] = v[e]",
    ),
    of_header(
        "tile_copy_async.cuh",
        "v17",
        "cp.async past the lower edge",
        "T* to = swizzled(s, row + r, col);\n    if constexpr (ALIGNED)\n      cp_async_16(to, from, row + r < rows && col < cols ? 16 : 0);",
        "T* to = swizzled(s, row + r, col);\n    if constexpr (ALIGNED)\n      cp_async_16(to, from, col < cols ? 16 : 0);",
    ),
    of_header(
        "swizzle.cuh",
        "v16",
        "the swizzle leaves two chunks in one bank group",
        "col ^ (row * span >> 3 & (span - 16))",
        "col ^ (row * span >> 3 & (span - 32))",
    ),
    of_header(
        "swizzle.cuh", "v23", "swizzles other rows than TMA", "offset >> 3 &", "offset >> 4 &"
    ),
    of_header(
        "fragments.cuh",
        "v16",
        "A's right half is its left",
        "k + lane / 16 * (16 / int(sizeof(T)))",
        "k + lane / 32 * 8",
    ),
    of_header(
        "scheduler.cuh",
        "v13 v18",
        "groups overlap from the second on",
        "return {group * group_m + within % rows",
        "return {group * (group_m - 1) + within % rows",
    ),
    of_header(
        "scheduler.cuh",
        "v24",
        "uneven groups",
        "return cdiv(tiles_m, cdiv(tiles_m, group_m));",
        "return tiles_m < group_m ? tiles_m : group_m;",
        EQUIVALENT,
        "how tiles are grouped is for L2",
    ),
    of_header(
        "kernels/v13_ffma/ffma_loop.cuh",
        "v13",
        "a row of A past the edge is read",
        "if (inside && col",
        "if (col",
    ),
    of_header(
        "kernels/v13_ffma/ffma_loop.cuh",
        "v13",
        "B past the end of K is not zero",
        "row < left && c * COLS < left_x",
        "c * COLS < left_x",
    ),
    of_header(
        "kernels/v13_ffma/ffma_loop.cuh",
        "v13",
        "waits for too few copies",
        "  cp_async_wait<Tile::STAGES - 2>();\n  __syncthreads();\n  const float",
        "  cp_async_wait<Tile::STAGES - 1>();\n  __syncthreads();\n  const float",
    ),
    of_header(
        "kernels/v13_ffma/ffma_loop.cuh",
        "v13",
        "sums over copies in flight",
        "  cp_async_wait<0>();  // of copies past the end, before shared memory is used anew\n",
        "",
    ),
    of_header(
        "kernels/v13_ffma/ffma_loop.cuh",
        "v13",
        "one group's sums are left out",
        "g < Tile::K_GROUPS; ++g)",
        "g < (Tile::K_GROUPS + 1) / 2; ++g)",
    ),
    of_header(
        "kernels/v13_ffma/ffma_loop.cuh",
        "v13",
        "a block ends while its neighbour reads it",
        "    if constexpr (CLUSTER > 1) sync_cluster<CLUSTER>();  // nobody",
        "    if constexpr (CLUSTER > 9) sync_cluster<CLUSTER>();  // nobody",
    ),
    of_header(
        "kernels/v13_ffma/stream_k.cuh",
        "v13",
        "a helper's part is added too rarely",
        "h < work.helpers && work.begin(h) < begin + work.helped",
        "h < work.helpers - 1 && work.begin(h) < begin + work.helped",
    ),
    of_header(
        "kernels/v13_ffma/stream_k.cuh",
        "v13",
        "the last k-tile of a tile is cut short",
        "to < work.k_tiles ? to * Tile::BK : p.K",
        "to * Tile::BK < p.K ? to * Tile::BK : p.K - 1",
    ),
    of_header(
        "ffma_tile.cuh",
        "v13 v13s",
        "even and odd rows exchanged",
        "acc[i + 1 - e % 2][j + e / 2]",
        "acc[i + e % 2][j + e / 2]",
    ),
    of_header("split.cuh", "v14w", "halves run out of their range", "TOP = 14;", "TOP = 16;"),
    of_header(
        "split.cuh",
        "v14x",
        "all three parts are the first",
        "x -= float(p);  // exact",
        "x -= 0 * float(p);",
    ),
    of_header(
        "split.cuh",
        "v14w",
        "no low part",
        "half((x - float(part[0])) * (1 << LO_SHIFT))",
        "half(0.0f * x)",
    ),
    of_header(
        "split.cuh",
        "v14w",
        "no barrier in the reduction",
        "      largest[tid] = bits = bits < other ? other : bits;\n    }\n    __syncthreads();",
        "      largest[tid] = bits = bits < other ? other : bits;\n    }",
    ),
    of_header(
        "repack.cu",
        "v18",
        "the fast path reads past a row's end",
        "cols - UNROLL * STEP)",
        "cols - (UNROLL - 1) * STEP)",
    ),
    of_header(
        "repack.cu",
        "v18",
        "odd rows take the wrong half of a word",
        "lower[i] >> CUT(skew) | upper[i] << (32 - CUT(skew))",
        "lower[i] << CUT(skew) | upper[i] >> (32 - CUT(skew))",
    ),
    of_header(
        "repack.cuh", "v13", "rows of any stride are aligned", "from.ld % GROUP == 0 &&", "true &&"
    ),
    of_header(
        "repack.cu", "v21", "copies rows that are not there", "  if (m >= rows) return;\n", ""
    ),
    of_header(
        "vec.cuh",
        "v18",
        "rows of any stride count as aligned",
        "p.ldc % VEC == 0 &&",
        "true &&",
    ),
    of_header(
        "wgmma_epilogue.cuh",
        "v24",
        "lanes do not exchange the odd words",
        "a = __shfl_xor_sync(~0u, odd ? words[0] : words[1], 1);",
        "a = odd ? words[0] : words[1];",
    ),
    of_header(
        "wgmma_epilogue.cuh",
        "v23",
        "C is read past the right edge",
        "if (r < p.M && c < p.N) group = ",
        "if (r < p.M) group = ",
    ),
    of_header(
        "wgmma_epilogue.cuh",
        "v27",
        "transposed, C is read past the right edge",
        "row + (i + j * 4) * 2 < p.M && col < p.N) words[j]",
        "row + (i + j * 4) * 2 < p.M) words[j]",
    ),
    of_header(
        "wgmma_epilogue.cuh",
        "v27",
        "transposed, rows past the row panel are stored",
        "if (row + i * 2 < p.M && col < p.N) *",
        "if (col < p.N) *",
    ),
    of_header(
        "tma_epilogue.cuh",
        "v24",
        "writes over a panel that TMA reads",
        "if (leader) tma_store_wait_read<PENDING>();",
        "if (leader) tma_store_wait_read<PENDING + 1>();",
    ),
    of_header(
        "tma_epilogue.cuh",
        "v24",
        "lanes do not wait for their leader",
        "  __syncwarp();  // TMA has read what the warp wrote there before\n",
        "",
    ),
    of_header(
        "tma_epilogue.cuh",
        "v24",
        "stores before all lanes have written",
        "  __syncwarp();  // all lanes have written\n",
        "",
    ),
    of_header(
        "tma_epilogue.cuh",
        "v27",
        "warps do not wait for each other",
        "    sync();  // TMA has read what the warpgroup wrote there before\n",
        "",
    ),
    of_header(
        "tma_epilogue.cuh",
        "v27",
        "stores before all warps have written",
        "    sync();  // all have written\n",
        "",
    ),
    of_header(
        "tma_epilogue.cuh",
        "v24",
        "an odd row's last element is left out",
        "    if (next == 0 && cols > 0) c[0] = pair[1];\n",
        "",
    ),
    of_header("pipeline.cuh", "v20", "phases never change", "      phase ^= 1;\n", ""),
    of_header(
        "pipeline.cuh",
        "v24",
        "skipping past the last stage changes no phase",
        "    phase ^= stage / STAGES & 1;\n",
        "",
    ),
    of_header(
        "pipeline.cuh",
        "v24",
        "the ordered barrier counts too few arrivals",
        "&order[consumer], 4",
        "&order[consumer], 3",
    ),
    of_header(
        "pipeline.cuh",
        "v24",
        "the producer does not wait for empty stages",
        "    mbarrier_wait(&empty[state.stage], state.phase ^ 1 GEMM_CALLER_PASS);\n",
        "",
    ),
    of_header(
        "multicast.cuh",
        "v23",
        "counts one block's arrival twice",
        "mbarrier_arrive_remote(barrier, rank GEMM_CALLER_PASS)",
        "mbarrier_arrive_remote(barrier, 0 GEMM_CALLER_PASS)",
    ),
    of_header(
        "multicast.cuh",
        "v23",
        "both load the same part",
        "first = WHOLE ? part * PANELS : 0",
        "first = 0",
    ),
    of_header(
        "wgmma_main_loop.cuh",
        "v24 v29",
        "frees the stage that is read",
        "if (k_tile > 0) arrive_at_all<CLUSTER>(&empty[last]",
        "if (k_tile > 0) arrive_at_all<CLUSTER>(&empty[state.stage]",
    ),
    of_header(
        "wgmma_main_loop.cuh",
        "v24",
        "the last stage of a tile is never freed",
        "  if (k_tiles > 0) arrive_at_all<CLUSTER>(&empty[last] GEMM_CALLER_PASS);\n",
        "",
    ),
    of_header(
        "operand_tile.cuh",
        "v21",
        "multiplies before the accumulators are written",
        "  wgmma_fence();\n",
        "",
    ),
    of_header(
        "tma_epilogue.cuh",
        "v24",
        "all panels go through the first epilogue stage",
        "stages[(nth * PANELS + c) % EPILOGUE_STAGES]",
        "stages[0]",
    ),
    of_header(
        "operand_tile.cuh",
        "v18",
        "a panel of an MN-major tile is loaded twice",
        "map, k, mn + i * WIDTH, full",
        "map, k, mn + i / 2 * WIDTH, full",
    ),
    of_header(
        "operand_tile.cuh",
        "v18",
        "k steps of wgmma half as far",
        "(PANEL_BYTES) >> 4",
        "(PANEL_BYTES) >> 5",
    ),
    of_header(
        "row_panels.cuh",
        "v27",
        "short row panels lie a row too high",
        ": y * of(panels.rows_8) + tall_rows;",
        ": y * of(panels.rows_8) + tall_rows - 1;",
    ),
    of_header(
        "row_panels.cuh",
        "v27",
        "the other columns' row panels are left out",
        "const int tall1 = short0 + panels.tiles(1, false)",
        "const int tall1 = short0 + 0 * panels.tiles(1, false)",
    ),
    of_header(
        "src/plan/row_panels.h",
        "v27",
        "boxes are 8 rows short",
        "short_box() + (rows > short_box() ? 8 : 0)",
        "short_box()",
    ),
)

ENGINE = (
    of_engine(
        "too few arrivals release a stage",
        "CONSUMERS * (size_x + size_y - 1));",
        "CONSUMERS * (size_x + size_y - 2 + (size_x * size_y == 1)));",
    ),
    of_engine(
        "the other CTAs may have ended",
        "  cluster_arrive();\n  cluster_wait();  // the others' last k-tiles and arrivals have come\n",
        "",
    ),
    of_engine(
        "loads before the others' barriers are there",
        "  if (!alone) cluster_wait();  // the others' barriers are there\n",
        "",
    ),
    of_engine("X goes to the first row of CTAs", "  share_x <<= rank_x;\n", ""),
    of_engine(
        "all load the first part of X",
        "share_x, rank_y * loads.rows_x, alone_x);",
        "share_x, 0, alone_x);",
    ),
    of_engine(
        "a shared X comes to one CTA alone",
        "(size_y == 1 && sectors.x)",
        "sectors.x",
    ),
    of_engine(
        "all parts of K are the first",
        "load_k_tiles(s.full, s.empty, state, begin, end, loads.bytes, load);",
        "load_k_tiles(s.full, s.empty, state, 0, end - begin, loads.bytes, load);",
    ),
    of_engine("the last k-tile's stage stays taken", "      if (k_tiles > 0) release(last);\n", ""),
    of_engine(
        "all parts of a tile leave their sums in one place",
        "int64_t{nth * size + rank} * cut.parts + part;",
        "int64_t{nth * size + rank} * cut.parts;",
    ),
    of_engine(
        "a tile stores the next one's columns, or rows",
        "    tile.N = p.N < end ? p.N : end;",
        "    tile.N = p.N;",
    ),
    of_engine(
        "tall and short boxes change places",
        "height > panels.short_box() ? map_tall : map_short",
        "height > panels.short_box() ? map_short : map_tall",
    ),
    of_engine(
        "always forward along K",
        "nth++ % 2 == 1",
        "false",
        EQUIVALENT,
        "the order of k-tiles is for L2",
    ),
    of_header(
        "src/engine/reduce.cu",
        "v27",
        "the second kernel does not wait for the first",
        "  grid_dependency_wait(tile, unit);\n",
        "",
    ),
    of_header(
        "src/engine/reduce.cu",
        "v27",
        "each fourth part is left out",
        "for (int i = 0; i < ADDERS * 4; ++i)",
        "for (int i = 4; i < ADDERS * 4; ++i)",
    ),
    of_header(
        "src/engine/reduce.cu",
        "v27",
        "adds the last part up more than once",
        "first + i * ADDERS < cut.parts ? fours[i][e] : 0",
        "fours[i][e]",
    ),
    of_header(
        "src/engine/reduce.cu",
        "v27",
        "adds up before all have put their sums there",
        "  added[group][tid % 128] = four;\n  __syncthreads();\n",
        "  added[group][tid % 128] = four;\n",
    ),
)

MUTATIONS = CUDA_CORES + TENSOR_CORES + HOPPER + HEADERS + ENGINE
