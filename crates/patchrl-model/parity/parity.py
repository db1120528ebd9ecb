"""Compare patchrl-model with transformers on the same dequantised weights.

    pip install torch transformers gguf safetensors regex
    python parity.py MODEL.gguf WORK_FOLDER [--instances SWE_BENCH.jsonl.gz] [--engine BINARY]

Checks, each with its figure; exit code 0 if all hold, 1 if one does not:
  weights     our dequantised tensors equal the `gguf` package's, bit for bit
  tokens      1,000 lines of code give the tokens of the reference tokenizers, and come back as text
  template    rendered chats equal transformers'
  logits      on ten prompts, float32, relative error below 1e-4
  checkpoint  a folder saved by us loads in transformers and gives transformers' logits

The engine's side is `examples/parity.rs`, built and run from here with cargo.
"""

import argparse
import gzip
import importlib
import inspect
import json
import pathlib
import subprocess
import sys
import sysconfig
import unicodedata

import gguf
import numpy as np
import regex
import torch
from gguf import GGUFReader
from safetensors.numpy import load_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 1e-4
LINES = 1000
PROMPTS = 10
failures = []


def verdict(name, holds, figure):
    print(f"{'ok  ' if holds else 'FAIL'}  {name:11} {figure}", flush=True)
    if not holds:
        failures.append(name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--instances", type=pathlib.Path, help="SWE-bench rows; their issue texts become the prompts")
    parser.add_argument("--engine", type=pathlib.Path, help="the example, if it is built already")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(2)

    lines = code_lines()
    prompts = real_prompts(args.instances)
    (args.work / "lines.json").write_text(json.dumps(lines))
    (args.work / "prompts.json").write_text(json.dumps(prompts))
    cargo = ["cargo", "run", "--quiet", "--release", "--package", "patchrl-model", "--example", "parity", "--"]
    engine = [str(args.engine.resolve())] if args.engine else cargo
    subprocess.run([*engine, str(args.model.resolve()), str(args.work.resolve())], cwd=HERE, check=True)

    fields = metadata(args.model)
    check_weights(args.model, args.work, fields)
    check_tokens(args.work, fields, lines)
    check_template(args.work, fields, prompts)
    check_logits(args.model, args.work)
    sys.exit(1 if failures else 0)


def code_lines():
    """Lines of the Python standard library, a third of them with characters beyond ASCII."""
    plain, other = [], []
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        for number, line in enumerate(text.split("\n")):
            if not line.strip() or len(line) > 400:
                continue
            if not line.isascii():
                other.append(line)
            elif number % 97 == 0:
                plain.append(line)
    def pick(pool, count):
        step = max(1, len(pool) // count)
        return pool[::step][:count]
    chosen = pick(other, LINES // 3)
    chosen += pick(plain, LINES - len(chosen))
    assert len(chosen) == LINES, len(chosen)
    return chosen


def real_prompts(instances):
    """Ten conversations: issue texts of SWE-bench, or functions of the standard library to repair."""
    if instances:
        opened = gzip.open(instances, "rt") if instances.suffix == ".gz" else open(instances)
        rows = [json.loads(line) for line in opened]
        texts = [row["problem_statement"][:1500] for row in rows[:: max(1, len(rows) // PROMPTS)][:PROMPTS]]
    else:
        names = "textwrap json.decoder shlex statistics string difflib fnmatch heapq calendar configparser".split()
        modules = [importlib.import_module(name) for name in names]
        texts = ["Something in this file is wrong. Write a patch.\n\n" + inspect.getsource(m)[:1500] for m in modules]
    prompts = [[{"role": "user", "content": text}] for text in texts]
    prompts[0].insert(0, {"role": "system", "content": "You fix bugs. Answer with a unified diff."})
    return prompts


def metadata(path):
    return {name: field.contents() for name, field in GGUFReader(path).fields.items()}


def check_weights(path, work, fields):
    """Bit for bit, after undoing llama.cpp's row order for query and key."""
    ours = load_file(work / "checkpoint" / "model.safetensors")
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    parts = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
             "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
             "ffn_down": "mlp.down_proj"}
    arch = fields["general.architecture"]
    different, numbers = [], 0
    for tensor in GGUFReader(path).tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape(tuple(int(n) for n in reversed(tensor.shape)))
        stem, leaf = tensor.name.rsplit(".", 1)
        if stem in names:
            name = f"{names[stem]}.{leaf}"
        else:
            _, layer, part = stem.split(".")
            name = f"model.layers.{layer}.{parts[part]}.{leaf}"
            if part in ("attn_q", "attn_k") and arch == "llama":
                heads = fields[f"{arch}.attention.head_count{'_kv' if part == 'attn_k' else ''}"]
                shape = values.shape
                values = values.reshape(heads, shape[0] // heads // 2, 2, *shape[1:]).swapaxes(1, 2).reshape(shape)
        numbers += values.size
        if not np.array_equal(values.view(np.uint32), ours.pop(name).view(np.uint32)):
            different.append(name)
    verdict("weights", not different and not ours, f"{numbers} numbers, tensors that differ: {len(different) + len(ours)}")


def hf_reference(fields):
    """SmolLM2's tokenizer.json, from the same vocabulary: single digits, then byte-level GPT-2 splitting."""
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: at for at, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, kinds) if kind == 3])
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def llama_cpp_reference(fields):
    """llama.cpp's rules for `smollm`, written out: its two patterns, bytes to characters, lowest-ranked merge first."""
    ids = {token: at for at, token in enumerate(fields["tokenizer.ggml.tokens"])}
    ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(fields["tokenizer.ggml.merges"])}
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    letters = {byte: chr(byte if byte in printable else next(spare)) for byte in range(256)}
    words = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

    def encode(text):
        out = []
        for piece in regex.findall(r"\p{N}|\P{N}+", text):
            for word in words.findall(piece):
                parts = [letters[byte] for byte in word.encode()]
                while len(parts) > 1:
                    rank, at = min((ranks.get(pair, 1 << 30), at) for at, pair in enumerate(zip(parts, parts[1:])))
                    if rank == 1 << 30:
                        break
                    parts[at:at + 2] = [parts[at] + parts[at + 1]]
                out += [ids[part] for part in parts]
        return out

    return encode


def check_tokens(work, fields, lines):
    ours = json.loads((work / "line_tokens.json").read_text())
    texts = json.loads((work / "line_texts.json").read_text())
    figures, holds = [], texts == lines
    for name, reference in (("tokenizers", hf_reference(fields)), ("llama.cpp's rules", llama_cpp_reference(fields))):
        wrong = [line for line, tokens in zip(lines, ours) if reference(line) != tokens]
        holds &= not wrong
        figures.append(f"{len(lines) - len(wrong)} of {len(lines)} lines as {name}")
    back = sum(a == b for a, b in zip(texts, lines))
    other = sum(not line.isascii() for line in lines)
    scripts = {unicodedata.name(c, "?").split()[0] for line in lines for c in line if c > "\x7f"}
    verdict("tokens", holds, f"{', '.join(figures)}; {back} decode to themselves; {sum(map(len, ours))} tokens; "
                             f"{other} lines beyond ASCII ({len(scripts)} scripts and symbol groups)")


def check_template(work, fields, prompts):
    saved = AutoTokenizer.from_pretrained(work / "checkpoint")
    rendered = json.loads((work / "rendered.json").read_text())
    tokens = json.loads((work / "prompt_tokens.json").read_text())
    same = 0
    for prompt, text, ids in zip(prompts, rendered, tokens):
        theirs = saved.apply_chat_template(prompt, chat_template=fields["tokenizer.chat_template"], tokenize=False, add_generation_prompt=True)
        same += theirs == text and saved(theirs, add_special_tokens=False)["input_ids"] == ids
    verdict("template", same == len(prompts), f"{same} of {len(prompts)} prompts rendered and encoded as transformers does")


def check_logits(path, work):
    reference = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    config = reference.config.to_dict()
    config.pop("quantization_config", None)
    plain = LlamaForCausalLM(LlamaConfig(**config))
    plain.load_state_dict(reference.state_dict(), strict=False)
    plain.eval()
    saved, info = AutoModelForCausalLM.from_pretrained(work / "checkpoint", dtype=torch.float32, output_loading_info=True)
    saved.eval()
    loaded = not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ours, again, positions, agree = [], [], 0, 0
    for at, ids in enumerate(json.loads((work / "prompt_tokens.json").read_text())):
        rows = torch.from_numpy(np.fromfile(work / "logits" / f"{at}.f32", dtype="<f4").reshape(len(ids), -1))
        with torch.inference_mode():
            want = plain(torch.tensor([ids])).logits[0]
            from_checkpoint = saved(torch.tensor([ids])).logits[0]
        ours.append(relative(rows, want))
        again.append(relative(from_checkpoint, want))
        positions += len(ids)
        agree += int((rows.argmax(-1) == want.argmax(-1)).sum())
    norm, most = (max(column) for column in zip(*ours))
    verdict("logits", max(norm, most) < LIMIT,
            f"{len(ours)} prompts, {positions} positions: worst position ||a-b||/||b|| = {norm:.1e}, worst prompt "
            f"max|a-b|/max|b| = {most:.1e}; same best token at {agree} of {positions}")
    norm, most = (max(column) for column in zip(*again))
    verdict("checkpoint", loaded and max(norm, most) < LIMIT,
            f"loads without missing or unexpected tensors: {loaded}; worst relative error {max(norm, most):.1e}")


def relative(got, want):
    """Worst position by norm, and the largest difference over the largest logit."""
    norm = ((got - want).norm(dim=-1) / want.norm(dim=-1)).max().item()
    return norm, ((got - want).abs().max() / want.abs().max()).item()


if __name__ == "__main__":
    main()
