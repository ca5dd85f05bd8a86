// Stands for cuBLAS's header: kernels' files often include it and call none of its functions.
#pragma once

#include "own/cuda.h"

using cublasHandle_t = struct cublasContext*;
