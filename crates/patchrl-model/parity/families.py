"""Compare patchrl-model with transformers and PEFT on small random checkpoints of every family.

    pip install torch transformers peft safetensors
    python families.py WORK_FOLDER [--engine BINARY] [--golden FOLDER]

For each case below, each figure with a bound of 1e-4; exit code 0 if all hold, 1 if one does not:
  read        logits of a checkpoint that transformers wrote
  written     a checkpoint that we wrote, loaded by transformers: its logits against the original's
  lora in     logits of an adapter that PEFT wrote
  lora out    an adapter that we wrote, loaded by PEFT: its logits against ours
  merged      the checkpoint with that adapter added in, loaded by transformers

`--golden` also writes what `tests/it/golden.rs` reads. The engine's side is `examples/families.rs`.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 1e-4
TOKENS = 32
SIZES = dict(vocab_size=48, hidden_size=32, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
WINDOW = dict(use_sliding_window=True, sliding_window=11)
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
# Name, configuration, type on disk, shards.
CASES = [
    ("smollm2-tied", LlamaConfig(**SIZES, tie_word_embeddings=True, rope_theta=100000.0), F32, False),
    ("llama3-untied", LlamaConfig(**SIZES, head_dim=12, rope_parameters=LLAMA3), BF16, True),
    ("llama3-tied", LlamaConfig(**SIZES, tie_word_embeddings=True, rope_parameters=LLAMA3), BF16, False),
    ("deepseek-untied", LlamaConfig(**SIZES, rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=100000.0)), BF16, False),
    ("mistral-window", MistralConfig(**SIZES, sliding_window=11, head_dim=12), F16, False),
    ("mistral-tied", MistralConfig(**SIZES, sliding_window=None, tie_word_embeddings=True), BF16, False),
    ("qwen2-tied", Qwen2Config(**SIZES, tie_word_embeddings=True), BF16, False),
    ("qwen2-window", Qwen2Config(**SIZES, **WINDOW, max_window_layers=1), BF16, False),
    ("qwen3-tied", Qwen3Config(**SIZES, head_dim=12, tie_word_embeddings=True), BF16, False),
    ("qwen3-window", Qwen3Config(**SIZES, **WINDOW, head_dim=8, max_window_layers=0), F16, False),
]
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
failures = []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--engine", type=pathlib.Path, help="the example, if it is built already")
    parser.add_argument("--golden", type=pathlib.Path, help="folder for the tests' fixtures")
    args = parser.parse_args()
    cargo = ["cargo", "run", "--quiet", "--release", "--package", "patchrl-model", "--example", "families", "--"]
    engine = [str(args.engine.resolve())] if args.engine else cargo
    torch.manual_seed(5)
    tokens = torch.randint(SIZES["vocab_size"], (1, TOKENS))
    for name, config, dtype, sharded in CASES:
        work = (args.work / name).resolve()
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        model = random_model(config, dtype)
        model.save_pretrained(work / "model", max_shard_size="16KB" if sharded else "1GB")
        (work / "tokens.json").write_text(json.dumps(tokens[0].tolist()))
        want = logits(load(work / "model"), tokens)
        write(work / "logits.f32", want)
        adapted = random_adapter(load(work / "model"))
        adapted.save_pretrained(work / "adapter")
        with_adapter = logits(adapted, tokens)
        write(work / "adapter.f32", with_adapter)
        subprocess.run([*engine, str(work)], cwd=HERE, check=True)
        compare(name, work, tokens, want, with_adapter)
        if args.golden:
            golden(work, args.golden / name, adapter=name in ("qwen3-tied", "mistral-window"))
    sys.exit(1 if failures else 0)


def random_model(config, dtype):
    """Numbers large enough that every part of the network shows in the logits."""
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.normal_(1.0, 0.2)
            else:
                parameter.normal_(0.0, 0.5 if name.endswith("bias") else 0.25)
    return model.to(dtype)


def random_adapter(model):
    config = LoraConfig(r=2, lora_alpha=3, target_modules=TARGETS, task_type="CAUSAL_LM")
    adapted = get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_(0.0, 0.2)
    return adapted.eval()


def load(folder):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    odd = [info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")]
    assert not any(odd), odd
    return model.eval()


def logits(model, tokens):
    with torch.inference_mode():
        return model(tokens).logits[0]


def compare(name, work, tokens, want, with_adapter):
    read = read_logits(work / "ours.f32")
    adapted = read_logits(work / "ours_adapter.f32")
    again = PeftModel.from_pretrained(load(work / "model"), work / "ours_adapter").eval()
    pairs = {
        "read": (read, want),
        "written": (logits(load(work / "ours"), tokens), want),
        "lora in": (adapted, with_adapter),
        "lora out": (logits(again, tokens), adapted),
        "merged": (logits(load(work / "ours_merged"), tokens), with_adapter),
    }
    errors = {what: relative(*pair) for what, pair in pairs.items()}
    holds = max(errors.values()) < LIMIT and relative(with_adapter, want) > 0.1
    figures = "  ".join(f"{what} {error:.1e}" for what, error in errors.items())
    print(f"{'ok  ' if holds else 'FAIL'}  {name:16} {figures}", flush=True)
    if not holds:
        failures.append(name)


def relative(got, want):
    """Worst position by norm, or the largest difference over the largest logit if that is more."""
    norm = ((got - want).norm(dim=-1) / want.norm(dim=-1)).max().item()
    return max(norm, ((got - want).abs().max() / want.abs().max()).item())


def write(path, rows):
    rows.numpy().astype("<f4").tofile(path)


def read_logits(path):
    return torch.from_numpy(np.fromfile(path, dtype="<f4").reshape(TOKENS, -1))


def golden(work, folder, adapter):
    shutil.rmtree(folder, ignore_errors=True)
    names = ["logits.f32", "tokens.json"] + [path.relative_to(work) for path in (work / "model").iterdir()]
    if adapter:
        names += ["adapter.f32", "adapter/adapter_config.json", "adapter/adapter_model.safetensors"]
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(work / name, target)
    if adapter:
        # PEFT writes where the base model was on the machine that made it.
        path = folder / "adapter" / "adapter_config.json"
        config = json.loads(path.read_text()) | {"base_model_name_or_path": "../model"}
        path.write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    print(f"torch {torch.__version__}, transformers {transformers.__version__}", flush=True)
    main()
