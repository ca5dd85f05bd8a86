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
                    .multiply = 1.281,
                    .alone = 0.779,
                    .copy_4 = 30.25,
                    .copy_16 = 3.666,
                    .launch = 2.95,
                    .wave = 2.431,
                    .cluster = 0.2656,
                    .second = 1.868,
                    .l2 = 6.202,
                    .fetch = 0.05527,
                    .store = 241.8,
                    .send = 6.364,
                    // [/fitted]
                    .clusters_of_four = 128.0 / 132,
                },
        },
    .engine =
        {
            // [fitted]
            .launch = 2.107,
            .cooperative = 0.4484,
            .k_tile = 0.09735,
            .tensor = 8.041,
            .ping_pong = 1.302,
            .memory = 4.928,
            .l2 = 17.3,
            .fetch = 0.1778,
            .sectors = 1.624,
            .edge = 0.2989,
            .alone = 0.9108,
            .store = 47.65,
            .staged = 0.0001813,
            .moved = 187.9,
            .copies = 2.73,
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
