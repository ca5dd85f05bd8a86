"""cuTile's example: samples/MatMul.py, with the tiles that it takes for types of 16 bits."""

from typing import Any

import cuda.tile
import torch

from clones import example

kernel = example("cutile", "samples/MatMul.py").matmul_kernel
TILE = (128, 256, 64)


def cutile(a: Any, b: Any, out: Any) -> None:
    blocks = -(-out.shape[0] // TILE[0]) * -(-out.shape[1] // TILE[1])
    stream = torch.cuda.current_stream()
    cuda.tile.launch(stream, (blocks, 1, 1), kernel, (a, b, out, *TILE))
