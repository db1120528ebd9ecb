"""Tokens a processor second of transformers' generate and of llama.cpp, f32, two threads.

pip install torch transformers            python sampling.py transformers MODEL_DIR
pip install xllamacpp gguf                python sampling.py llama MODEL.gguf

MODEL.gguf may be quantised: a copy in f32 is written beside it. Ours, on the same shapes:
`patchrl bench sample`. Decoding is what 64 tokens cost more than 1 after the same prompt of
512, so that loading and prefill drop out.
"""
import resource, sys, time, os

PROMPT, ANSWER, GROUPS = 512, 64, (1, 8, 16)
IDS = [(i * 7919 + 13) % 49000 for i in range(PROMPT)]


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measured(run, *arguments):
    before, start = cpu(), time.time()
    run(*arguments)
    return cpu() - before, time.time() - start


def report(name, run):
    run(1, 2)
    for group in GROUPS:
        best = [[min(column) for column in zip(*(measured(run, group, n) for _ in range(2)))] for n in (1, ANSWER)]
        tokens = group * (ANSWER - 1)
        used, wall = (long - short for short, long in zip(*best))
        print(f"{name}: {group:2} x {ANSWER} after {PROMPT}: decode {tokens / wall:.0f} tokens/s "
              f"({tokens / used:.0f} a processor second); first token after {best[0][1]:.2f} s", flush=True)


def with_transformers(folder):
    os.environ["OMP_NUM_THREADS"] = "2"
    import torch, transformers
    torch.set_num_threads(2)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([IDS])

    def run(group, new):
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, top_p=1.0,
                                 num_return_sequences=group, max_new_tokens=new, min_new_tokens=new, pad_token_id=0)
        assert out.shape == (group, PROMPT + new)

    report(f"transformers {transformers.__version__}", run)


def in_f32(path):
    import gguf, numpy
    target = path.replace(".gguf", "") + ".f32.gguf"
    if os.path.exists(target):
        return target
    source = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(target, "llama")
    for key, field in source.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, inner)
    for tensor in source.tensors:
        data = gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        writer.add_tensor(tensor.name, data.reshape(tuple(reversed(tensor.shape.tolist()))))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def with_llama(path):
    import concurrent.futures, xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path = in_f32(path)
    params.n_parallel = max(GROUPS)
    params.n_ctx = max(GROUPS) * 1024
    params.cpuparams.n_threads = 2
    params.cpuparams_batch.n_threads = 2
    params.warmup = False
    server = xllamacpp.Server(params)

    def run(group, new):
        # Every slot has read the prompt before: only its last token is read again.
        ask = {"prompt": IDS, "n_predict": new, "ignore_eos": True, "cache_prompt": True, "temperature": 1.0,
               "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 1}
        with concurrent.futures.ThreadPoolExecutor(group) as pool:
            done = list(pool.map(lambda slot: server.handle_completions({**ask, "id_slot": slot}), range(group)))
        for answer in done:
            assert answer["usage"]["completion_tokens"] == new, answer

    run(max(GROUPS), 1)
    report("llama.cpp", run)


if __name__ == "__main__":
    {"transformers": with_transformers, "llama": with_llama}[sys.argv[1]](sys.argv[2])
