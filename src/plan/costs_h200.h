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
                    .multiply = 1.142,
                    .alone = 0.7448,
                    .copy_4 = 56.3,
                    .copy_16 = 26.41,
                    .launch = 2.152,
                    .wave = 2.318,
                    .cluster = 0.9521,
                    .second = 2.305,
                    .l2 = 17.3,
                    .fetch = 0.1313,
                    .store = 122.5,
                    .send = 28.55,
                    // [/fitted]
                    .clusters = {0, 1, 1, 237.0 / 264, 248.0 / 264, 235.0 / 264, 234.0 / 264,
                                 224.0 / 264, 240.0 / 264},
                },
        },
    .engine =
        {
            // [fitted]
            .launch = 2.188,
            .cooperative = 0.4514,
            .k_tile = 0.08644,
            .tensor = 7.819,
            .ping_pong = 1.247,
            .memory = 4.669,
            .l2 = 18.82,
            .fetch = 0.1931,
            .sectors = 1.678,
            .edge = 0.2741,
            .alone = 0.9246,
            .store = 44.08,
            .staged = 0.0001169,
            .moved = 141.2,
            .copies = 2.73,
            .copy_launch = 3.36,
            // [/fitted]
        },
    .clusters = {0, 1, 1, 117.0 / 132, 120.0 / 132, 110.0 / 132, 102.0 / 132, 105.0 / 132,
                 120.0 / 132},
    .unaligned = {.launch = 1.734,
                  .k_tile = 1.313,
                  .group = 0.423,
                  .by_elements = 0.117,
                  .results = 0.317,
                  .cluster = 1.934},
};

}  // namespace gemm
