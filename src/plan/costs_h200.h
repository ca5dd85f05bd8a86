// What the kernels' choices cost on an H200: read off its measurements at 512 to 16384.
#pragma once

#include "plan/arch.h"

namespace gemm {

constexpr Costs H200_COSTS = {
    .whole = {{128, 192, 1.0}, {128, 128, 1.01}, {64, 128, 1.15}},
    .cluster = {{256, 192, 1.4}, {256, 128, 1.7}, {128, 128, 2.2}},
    .stream_k = {{128, 192, 1.0, 0.1}, {128, 128, 1.02, 0.2}},
    .fixup_k = 400,
    .epilogue_k = {.residual = 1000, .vectors = 250, .activation = 1000},
    .straddled_stream_k = 1.75,
    .straddled_whole = 1.9,
    .straddled_clusters = 1.35,
    .transposed_epilogue = 250,
    .row_panels = {1, 1, 1},
    .wide_panels = 1,
    .column_panels = {1.05, 0.97, 1, 1.1, 0.95, 0.93},
    .column_epilogue_k = 0,
    .rows_of_pass = 0,
    // 4, 6 and 8 k-tiles are whole laps of the pipeline; else the last are zeros.
    .b_stationary = {2, 2, 1.1, 0.93, 0.85, 1.0, 0.91, 1.07, 0.97},
    .b_stationary_load = 0.45,
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
            .tensor = 11.9,
            .narrow = 9.501,
            .memory = 4.631,
            .l2 = 11.43,
            .fetch = 0.126,
            .uneven = 0.5998,
            .launch = 2.867,
            .wave = 2.221,
            .cluster = 1,
            .store = 287.1,
            .send = 49.98,
            .fixup = 1.1,
            .exchange = 120,
            .add = 290,
            .persistent_launch = 2.761,
            .epilogue_k = 109.7,
            // [/fitted]
            .clusters = {0, 1, 1, 117.0 / 132, 120.0 / 132, 110.0 / 132, 102.0 / 132, 105.0 / 132,
                         120.0 / 132},
            .alone = 1.35,
            .part = 0.33,
            // Fitted to 1270 times on H100s, all tiles and clusters; then to the choices of 235 shapes.
            .reduce = {.launch = 2.2,
                       .part = 0.06,
                       .store = 172,
                       .tensor = 0.79,
                       .l2 = 1.2,
                       .fetch = 2.5},
            // Fitted to 1802 times on two H100s: 99 shapes in all tiles and clusters, 918 in one. launch and
            // whole_lines then to the choices of 1700 shapes.
            .multicast = {.launch = 2.2,
                          .cluster = 1.34,
                          .k_tile = 0.113,
                          .wave = 0.16,
                          .store = 32,
                          .alone = 0.906,
                          .crowded = 1.14,
                          .sectors = 1.6,
                          .half = 2.17,
                          .whole_lines = 0.5,
                          .busy = 0.2155,
                          .tensor = 0.594,
                          .l2 = 1.45,
                          .fetch = 1.765,
                          .issue = 2.72,
                          .memory = 0.758},
        },
};

}  // namespace gemm
