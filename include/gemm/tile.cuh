// The tile layer, for programs outside of this repository: compile with -I include -I src.
#pragma once

#include "tile/tile.cuh"
