"""How the processes of a sharded product meet: an all-gather of a few bytes, by torch or by the caller."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Optional

from . import _library

# What this rank tells the others -> what each told, by rank.
Exchange = Callable[[bytes], Sequence[bytes]]
TIME_LIMIT = 600  # seconds, unless given: that of NCCL in torch

_products: dict[str, int] = {}  # made so far, by the name of a group


def of_group(group: Any, limit: int) -> tuple[int, int, Exchange]:
    """Rank, ranks and all-gather of a torch process group.

    By way of the group's store, where there is one: it needs no kernel, and gives up after `limit`
    seconds.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError("this process is not in the group")
    store_of = getattr(distributed_c10d, "_get_process_group_store", None)
    if store_of is None:

        def gather_objects(mine: bytes) -> list[bytes]:
            all_: list[Any] = [None] * ranks
            dist.all_gather_object(all_, mine, group=group)
            return all_

        return rank, ranks, gather_objects

    store = store_of(group)
    name = getattr(group, "group_name", "")
    number = _products[name] = _products.get(name, 0) + 1  # all ranks make as many
    rounds = iter(range(1 << 30))

    def by_store(mine: bytes) -> list[bytes]:
        round_ = f"gemm_ladder/{name}/{number}/{next(rounds)}"
        keys = [f"{round_}/{i}" for i in range(ranks)]
        store.set(keys[rank], mine)
        try:
            store.wait(keys, timedelta(seconds=limit))
        except dist.DistStoreError as error:
            missing = [i for i, key in enumerate(keys) if not store.check([key])]
            if not missing:
                raise
            told = f"rank {missing[0]} has not come within {limit} s to make this product"
            raise _library.RankFailed(told) from error
        return [store.get(key) for key in keys]

    return rank, ranks, by_store


class Callback:
    """An Exchange as the C interface calls it. What it raises is kept."""

    def __init__(self, exchange: Exchange, ranks: int) -> None:
        self.raised: Optional[BaseException] = None

        def call(_: int, mine: int, all_: int, size: int) -> int:
            try:
                told = list(exchange(ctypes.string_at(mine, size)))
                if len(told) != ranks or any(len(part) != size for part in told):
                    sizes = [len(part) for part in told]
                    raise ValueError(
                        f"exchange returned {sizes} bytes: wanted are {size} of each rank"
                    )
                ctypes.memmove(all_, b"".join(told), size * ranks)
                return 0
            except BaseException as error:
                self.raised = error
                return 1

        self.function = _library.Exchange(call)
