"""An MLP block trained by our operator and by torch's: the same losses.

python examples/mlp.py                      on the GPU where there is one
python examples/mlp.py --device cpu         in the simulator, small
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from gemm_ladder.torch import matmul

Weights = tuple[torch.Tensor, torch.Tensor]


def ours(x: torch.Tensor, w: Weights) -> torch.Tensor:
    return matmul(matmul(x, w[0], activation="gelu"), w[1], x, beta=1.0)  # x: the residual


def torchs(x: torch.Tensor, w: Weights) -> torch.Tensor:
    hidden: Any = torch.nn.functional.gelu(x @ w[0], approximate="tanh")
    return hidden @ w[1] + x


def train(block: Any, args: argparse.Namespace) -> list[float]:
    torch.manual_seed(1)
    width, hidden = args.width, 4 * args.width
    first = torch.randn(width, hidden) * width**-0.5
    second = torch.randn(hidden, width) * hidden**-0.5
    x = torch.randn(args.rows, width).to(args.device)
    target = torch.randn(args.rows, width).to(args.device)
    weights = (
        first.to(args.device).requires_grad_(),
        second.to(args.device).requires_grad_(),
    )
    optimizer = torch.optim.SGD(weights, lr=0.5)
    losses = []
    for _ in range(args.steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(block(x, weights), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> int:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--width", type=int)
    args = parser.parse_args()
    small = args.device == "cpu"
    args.rows = args.rows or (32 if small else 4096)
    args.width = args.width or (16 if small else 1024)
    torch.backends.cuda.matmul.allow_tf32 = False
    losses = train(ours, args), train(torchs, args)
    for step in range(0, args.steps, max(args.steps // 10, 1)):
        print(f"step {step:3}  loss {losses[0][step]:.6f}  torch {losses[1][step]:.6f}")
    worst = max(abs(a - b) / abs(b) for a, b in zip(*losses))
    same = worst <= 1e-3 and losses[0][-1] < losses[0][0]
    print(f"largest relative difference {worst:.1e}: {'same' if same else 'NOT the same'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
