// What the kernels' choices cost on an H200: read off its measurements at 512 to 16384.
#pragma once

#include "plan/arch.h"

namespace gemm {

constexpr Costs H200_COSTS = {
    .whole = {{128, 192, 1.0}, {128, 128, 1.01}, {64, 128, 1.15}},
    .cluster = {{256, 192, 1.207}, {256, 128, 1.48}, {128, 128, 1.607}},
    .stream_k = {{128, 192, 1.0, 0.1}, {128, 128, 1.02, 0.2}},
    .fixup_k = 400,
    .epilogue_k = {.residual = 1000, .vectors = 250, .activation = 1000},
    .straddled_stream_k = 1.476,
    .straddled_whole = 1.9,
    .straddled_clusters = 1.242,
    .transposed_epilogue = 250,
    .transposed_k = 1172,
    .row_panels = {1, 1, 1},
    .column_panels = {1.05, 0.97, 1, 1.1, 0.95, 0.93},
    .column_epilogue_k = 0,
    .rows_of_pass = 0,
    // 4, 6 and 8 k-tiles are whole laps of the pipeline; else the last are zeros.
    .b_stationary = {2, 1.5, 1.26, 0.8502, 0.7798, 0.9998, 0.9502, 1.07, 0.9698},
    .b_stationary_load = 0.3333,
    .b_stationary_next = 1.08,
    .fp32 =
        {
            .ffma = 0.496,
            .memory = 4.2,
            .sm_fetch = 0.06,
            .repack = 4,
            .begin = 0.9,
            .split =
                {
                    // [fitted]
                    .multiply = 1.293,
                    .alone = 0.776,
                    .copy_4 = 28.31,
                    .copy_16 = 2.251,
                    .launch = 2.82,
                    .wave = 2.557,
                    .cluster = 0.4024,
                    .second = 1.835,
                    .l2 = 6.989,
                    .fetch = 0.05131,
                    .store = 236.5,
                    .send = 5.69,
                    // [/fitted]
                    .clusters_of_four = 128.0 / 132,
                },
        },
    .wgmma =
        {
            // [fitted]
            .tensor = 10.82,
            .narrow = 8.919,
            .memory = 4.834,
            .l2 = 10.24,
            .fetch = 0.1206,
            .uneven = 0.5489,
            .launch = 2.264,
            .wave = 2.004,
            .cluster = 0.5981,
            .store = 215.6,
            .send = 53.31,
            .fixup = 0.8471,
            .exchange = 234.1,
            .add = 334.7,
            .persistent_launch = 2.275,
            .epilogue_k = 270,
            // [/fitted]
            .clusters = {0, 1, 1, 117.0 / 132, 120.0 / 132, 110.0 / 132, 102.0 / 132, 105.0 / 132,
                         120.0 / 132},
            .sectors = 1.369,
            .half = 1.739,
            .stream_memory = 0.8795,
            .apart = 376.2,
            .alone = 1.823,
            .part = 0.3497,
            // Fitted to 1270 times on H100s, all tiles and clusters; then to the choices of 235 shapes.
            .reduce = {.launch = 2.84,
                       .part = 0.04744,
                       .store = 178.2,
                       .tensor = 1.034,
                       .l2 = 0.889,
                       .fetch = 2.139},
            .copies = {.launch = 2.245, .memory = 0.9045},
            // Fitted to 1802 times on two H100s: 99 shapes in all tiles and clusters, 918 in one. launch and
            // whole_lines then to the choices of 1700 shapes.
            .multicast = {.launch = 1.609,
                          .cluster = 1.082,
                          .k_tile = 0.1081,
                          .wave = 0.1512,
                          .store = 39.03,
                          .alone = 0.8413,
                          .crowded = 127.6,
                          .whole_lines = 0.1822,
                          .drift = 0.2236,
                          .busy = 0.06215,
                          .tensor = 0.7778,
                          .l2 = 1.467,
                          .fetch = 1.449,
                          .issue = 1.409,
                          .memory = 0.9225},
        },
    .unaligned = {.launch = 1.2,
                  .k_tile = 2.644,
                  .by_elements = 0.3185,
                  .more_groups = 0.09631,
                  .results = 0.9165},
};

}  // namespace gemm
