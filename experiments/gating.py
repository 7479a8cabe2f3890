"""Does a gate help at equal parameters? The same small model with six feed-forward networks.

    python experiments/gating.py [RATE ...]

Byte-level language models on Shakespeare's plays, Twelfth Night held out. With C = 48 an ungated network of
width 4C = 192 (two matrices) and a gated one of width 8/3 C = 128 (three) have exactly the same number of
parameters. All else is equal within a seed: the other weights at the start, the batches, AdamW. Two rates,
five seeds. Matrices start larger than the package's by √(512/48), so that gates and hidden values start at
the level they have in MiniLLaMA. One network has neither activation nor product: it says what any
nonlinearity is worth here. About six minutes on one free core; writes experiments/results/gating.json;
a rate that is named is run again, and what was recorded for the others is kept.
"""

import json
import statistics
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from twelfth_night import plays, windows

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM
from minillama.layers import Linear
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "gating.json"
CONFIG = MiniLLaMAConfig(
    vocab_size=256, d_model=48, n_layers=2, n_q_heads=4, n_kv_heads=2, head_dim=12, d_ffn=128, max_seq_len=64
)
RATES, SEEDS = (1e-3, 3e-3), (0, 1, 2, 3, 4)
STEPS, BATCH, T = 500, 8, 64
HELD_OUT = 65_536  # bytes of Twelfth Night


class Plain(nn.Module):
    """down(activation(up(x))), two matrices, width 4C."""

    def __init__(self, activation) -> None:
        super().__init__()
        self.activation = activation
        self.w_up = Linear(CONFIG.d_model, 4 * CONFIG.d_model)
        self.w_down = Linear(4 * CONFIG.d_model, CONFIG.d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w_down(self.activation(self.w_up(x)))


class Gated(nn.Module):
    """down(activation(gate(x)) · up(x)), three matrices, width 8/3 C."""

    def __init__(self, activation) -> None:
        super().__init__()
        self.activation = activation
        self.w_gate = Linear(CONFIG.d_model, CONFIG.d_ffn)
        self.w_up = Linear(CONFIG.d_model, CONFIG.d_ffn)
        self.w_down = Linear(CONFIG.d_ffn, CONFIG.d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w_down(self.activation(self.w_gate(x)) * self.w_up(x))


def identity(x: torch.Tensor) -> torch.Tensor:
    return x


NETWORKS = {
    "linear": lambda: Plain(identity),
    "ReLU": lambda: Plain(F.relu),
    "GELU": lambda: Plain(F.gelu),
    "SiLU": lambda: Plain(F.silu),
    "product": lambda: Gated(identity),
    "SwiGLU": lambda: Gated(F.silu),
}


def build(network: str, seed: int) -> MiniLLaMAForCausalLM:
    torch.manual_seed(seed)
    model = MiniLLaMAForCausalLM(CONFIG)
    torch.manual_seed(1000 + seed)
    for block in model.layers:
        block.ffn = NETWORKS[network]()
    with torch.no_grad():
        for block in model.layers:
            for parameter in block.parameters():
                if parameter.ndim == 2:
                    parameter *= (512 / CONFIG.d_model) ** 0.5
    return model


@torch.no_grad()
def held_out_loss(model: nn.Module, data: torch.Tensor) -> float:
    return statistics.fmean(model(x, labels=x)[1].item() for x in data.view(-1, T).split(128))


def train(network: str, rate: float, seed: int, data: torch.Tensor, held_out: torch.Tensor) -> float:
    model = build(network, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(2000 + seed)
    for step in range(STEPS):
        for group in optimizer.param_groups:  # 50 steps up, then a straight line down to a tenth
            group["lr"] = rate * min((step + 1) / 50, 1 - 0.9 * step / STEPS)
        x = windows(data, BATCH, T, generator)  # (BATCH, T)
        loss = model(x, labels=x)[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return held_out_loss(model, held_out)


def read(path: Path) -> list[int]:
    return list(path.read_bytes())


def main() -> None:
    torch.set_num_threads(1)
    twelfth, others = plays()
    held_out = torch.tensor(read(twelfth)[:HELD_OUT])
    data = torch.tensor([byte for p in others for byte in read(p)])
    sizes = {name: sum(p.numel() for p in build(name, 0).layers[0].ffn.parameters()) for name in NETWORKS}
    wanted = tuple(map(float, sys.argv[1:])) or RATES
    old = json.loads(RESULT.read_text(encoding="utf-8"))["runs"] if sys.argv[1:] else []
    runs = [run for run in old if run["rate"] not in wanted]
    for rate in wanted:
        for seed in SEEDS:
            for network in NETWORKS:
                loss = round(train(network, rate, seed, data, held_out), 4)
                runs.append({"network": network, "rate": rate, "seed": seed, "held_out": loss})
                print(f"rate {rate:g} seed {seed} {network:8} {loss:.4f}", flush=True)
    result = {
        "what": "held-out loss in nats per byte",
        "parameters_of_one_network": sizes,
        "steps": STEPS,
        "tokens_per_step": BATCH * T,
        "torch": torch.__version__.split("+")[0],
        "runs": sorted(runs, key=lambda run: run["rate"]),
    }
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
