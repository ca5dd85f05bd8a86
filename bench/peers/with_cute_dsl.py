"""CUTLASS's example for Hopper in the CuTe DSL: persistent, TMA, wgmma. Types of 16 bits."""

from typing import Any

import cutlass
import torch
from cuda.bindings.driver import CUstream
from cutlass import cute, utils
from cutlass.cute.runtime import from_dlpack

from clones import example

FILE = "examples/python/CuTeDSL/cute/hopper/kernel/dense_gemm/dense_gemm_persistent.py"
Kernel = example("cutlass", FILE).HopperWgmmaGemmPersistentKernel
TILE, CLUSTER = (128, 256), (2, 1)
compiled: dict[Any, Any] = {}


def cute_dsl(a: Any, b: Any, out: Any) -> None:
    # M x K, N x K and M x N, of one batch; which of the first two dimensions is contiguous
    whole = [(x[..., None], int(x.stride(1) == 1)) for x in (a, b.T, out)]
    tensors = [
        from_dlpack(x, assumed_align=16).mark_layout_dynamic(leading_dim=i) for x, i in whole
    ]
    stream = CUstream(torch.cuda.current_stream().cuda_stream)
    key = tuple(i for _, i in whole)
    if key not in compiled:
        clusters = utils.HardwareInfo().get_max_active_clusters(CLUSTER[0] * CLUSTER[1])
        kernel = Kernel(cutlass.Float32, TILE, CLUSTER, 1, True)
        compiled[key] = cute.compile(kernel, *tensors, clusters, stream)
    compiled[key](*tensors, stream)
