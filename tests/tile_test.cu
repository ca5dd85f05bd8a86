// tile_test.cpp, compiled for the GPU.
#include "tile_test.cpp"
