// Stands for CUDA's header of this name: all of it is in one.
#pragma once

#include "own/cuda.h"
