"""A GEMM as the user of a tile compiler writes it, over a tile layer made of NumPy.

Explained in kernels/99_closing.md. `gemm` is a whole product in tiles; nothing in it names a thread,
an address or an edge.
"""

from __future__ import annotations

import numpy as np

BM, BN, BK = 64, 32, 16


# [region layer]
def tile(x, shape):
    """The array of all tiles of x; -1 is the whole side. Its elements are views of x."""
    rows, cols = (n if s == -1 else s for s, n in zip(shape, x.shape))
    tiles = np.empty((-(-x.shape[0] // rows), -(-x.shape[1] // cols)), dtype=object)
    for i, j in np.ndindex(tiles.shape):
        tiles[i, j] = x[i * rows : (i + 1) * rows, j * cols : (j + 1) * cols]
    return tiles


def expand(x, shape):
    """The same tiles for every position along a side of length 1."""
    return np.broadcast_to(x, shape)


def squeeze(x, axis):
    """Drops a side of length 1 of every element."""
    dropped = np.empty(x.shape, dtype=object)
    for at in np.ndindex(x.shape):
        dropped[at] = x[at].squeeze(axis)
    return dropped


# [/region layer]


# [region gemm]
def arrange(A, B, C):
    """What each program gets: a tile of C, a row of tiles of A, a column of tiles of B."""
    c = tile(C, (BM, BN))  # tiles_m x tiles_n of BM x BN
    a = tile(tile(A, (BM, BK)), (1, -1))  # a tile of tiles: tiles_m x 1 of 1 x tiles_k of BM x BK
    a = squeeze(expand(a, c.shape), axis=0)  # tiles_m x tiles_n of tiles_k
    b = tile(tile(B, (BK, BN)), (-1, 1))
    b = squeeze(expand(b, c.shape), axis=1)
    return a, b, c


def program(a, b, c):
    """One block's work, in tiles."""
    acc = np.zeros(c.shape, np.float32)
    for a_k, b_k in zip(a, b):
        acc += a_k @ b_k
    c[...] = acc


def gemm(A, B, C):
    for a, b, c in zip(*(x.flat for x in arrange(A, B, C))):  # on a GPU: all at once
        program(a, b, c)


# [/region gemm]
