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
                    .multiply = 1.228,
                    .alone = 0.8317,
                    .copy_4 = 44.77,
                    .copy_16 = 4.835,
                    .launch = 2.628,
                    .wave = 2.442,
                    .cluster = 0.9015,
                    .second = 2.076,
                    .l2 = 9.122,
                    .fetch = 0.06256,
                    .store = 125.9,
                    .send = 17.7,
                    // [/fitted]
                    .clusters = {0, 1, 1, 237.0 / 264, 248.0 / 264, 235.0 / 264, 234.0 / 264,
                                 224.0 / 264, 240.0 / 264},
                },
        },
    .engine =
        {
            // [fitted]
            .launch = 2.358,
            .cooperative = 0.3985,
            .k_tile = 0.08867,
            .tensor = 7.788,
            .ping_pong = 1.218,
            .memory = 4.631,
            .l2 = 20.17,
            .fetch = 0.1959,
            .sectors = 1.677,
            .edge = 0.301,
            .alone = 0.9399,
            .store = 39.96,
            .staged = 0.0003492,
            .moved = 163.2,
            .copies = 2.73,
            .copy_launch = 3.36,
            // [/fitted]
        },
    .clusters = {0, 1, 1, 117.0 / 132, 120.0 / 132, 110.0 / 132, 102.0 / 132, 105.0 / 132,
                 120.0 / 132},
    .unaligned = {.launch = 0.929, .k_tile = 3.05, .by_elements = 0.570, .results = 0.306},
};

}  // namespace gemm
