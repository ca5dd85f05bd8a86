// What the kernels' choices cost on an H200: read off its measurements at 512 to 16384.
#pragma once

#include "plan/arch.h"

namespace gemm {

constexpr Costs H200_COSTS = {
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
    .engine =
        {
            // After the fit, memory was set by four rungs' times: plots/NOTES.md.
            // [fitted]
            .launch = 2.354,         .cluster = 0.8652,
            .wave = 0.482,           .k_tile = 0.1369,
            .k_tile_alone = 0.06424, .tensor = 7.838,
            .narrow = 4.352,         .ping_pong = 1.373,
            .memory = 3.5,           .l2 = 14.27,
            .fetch = 0.2247,         .sectors = 1.429,
            .half = 2.214,           .edge = 0.2658,
            .alone = 0.8932,         .store = 44.08,
            .staged = 3.249,         .residual = 2,
            .vectors = 0.5,          .function = 2,
            .store_sums = 136,       .reduce_launch = 1.809,
            .exchange = 149.7,       .add = 224.7,
            .copy_launch = 1.93,     .copies = 2.73,
            .apart = 345.8,
            // [/fitted]
        },
    .clusters = {0, 1, 1, 117.0 / 132, 120.0 / 132, 110.0 / 132, 102.0 / 132, 105.0 / 132,
                 120.0 / 132},
    .unaligned = {.launch = 1.336,
                  .k_tile = 2.58,
                  .by_elements = 0.2827,
                  .more_groups = 0.09571,
                  .results = 0.8558},
};

}  // namespace gemm
