// For NVRTC, which knows CUDA's types and functions for kernels by itself.
#pragma once
using cudaStream_t = struct CUstream_st*;
void cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
