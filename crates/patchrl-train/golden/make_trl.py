"""Golden numbers from TRL's own GRPOTrainer: `python make_trl.py`, which writes trl.json.

`_generate_and_score_completions` gives advantages and sampler weights, `_compute_loss` the loss,
both called on a stand-in whose model returns the log-probabilities of inputs.py; the gradient is
autograd's, in float64.
"""

import os
import tempfile
from collections import defaultdict
from unittest.mock import MagicMock

import torch
import trl
from trl import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

import inputs

torch.set_default_dtype(torch.float64)
NAN = float("nan")


def padded(rows, width):
    return torch.tensor([row + [0.0] * (width - len(row)) for row in rows])


def trainer(case, overrides, limit=8):
    """A stand-in for a GRPOTrainer, with what its __init__ takes from the arguments."""
    sizes = {len(group) for group in case["rewards"]}
    (size,) = sizes
    args = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=True,
        bf16=False,
        report_to="none",
        per_device_train_batch_size=len(case["answers"]),
        num_generations=size,
        max_completion_length=limit,
        **overrides,
    )
    stub = MagicMock()
    stub.args = args
    for name in (
        "loss_type beta num_iterations importance_sampling_level scale_rewards top_entropy_quantile "
        "entropy_coef mask_truncated_completions off_policy_mask_threshold use_vllm "
        "vllm_importance_sampling_correction vllm_importance_sampling_mode "
        "vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min "
        "multi_objective_aggregation max_completion_length num_generations"
    ).split():
        setattr(stub, name, getattr(args, name))
    stub.epsilon_low = args.epsilon
    stub.epsilon_high = args.epsilon if args.epsilon_high is None else args.epsilon_high
    stub.use_adaptive_entropy = False
    stub._entropy_bonus_enabled = False
    stub.aux_loss_enabled = False
    stub.environment_factories = None
    stub.environments = None
    stub.tools = None
    stub.pad_to_multiple_of = None
    stub._tokenizer.pad_token_id = 0
    stub._pending_extra_logs = {}
    stub._pending_metrics = {}
    stub.reward_funcs, stub.reward_func_names = [None], ["reward"]
    stub.reward_weights = torch.ones(1)
    stub.current_gradient_accumulation_steps = 1
    stub.model.training = True
    stub.accelerator.device = "cpu"
    stub.accelerator.num_processes = 1
    stub.accelerator.process_index = 0
    stub.accelerator.gather = lambda x: x
    stub.accelerator.reduce = lambda x, reduction: x
    stub._metrics = defaultdict(lambda: defaultdict(list))
    stub.get_off_policy_mask = GRPOTrainer.get_off_policy_mask
    return stub


def rows(case, field):
    return [list(a[field]) for a in case["answers"]]


def scored(stub, case):
    """The trainer's own inputs of its loss."""
    answers = case["answers"]
    width = max(len(a["logp"]) for a in answers)
    rewards = [NAN if r is None else r for group in case["rewards"] for r in group]
    by_model = {
        id(stub.model): padded(rows(case, "old"), width),
        id(stub.ref_model): padded(rows(case, "reference"), width),
    }
    stub._get_per_token_logps_and_entropies = lambda model, *_, **__: (by_model[id(model)], None, None)
    stub._calculate_rewards = lambda *_: torch.tensor(rewards).unsqueeze(1)
    stub._generate = lambda prompts: (
        [[1]] * len(answers),
        [[2] * len(a["logp"]) for a in answers],
        [[int(m) for m in a["mask"]] for a in answers],
        [""] * len(answers),
        rows(case, "sampled"),
        {},
        None,
        None,
    )
    return GRPOTrainer._generate_and_score_completions(stub, [{"prompt": "p"}] * len(answers))


def cut(case, matrix):
    return [row[: len(a["logp"])].tolist() for a, row in zip(case["answers"], matrix)]


def run(case, overrides, config):
    stub = trainer(case, overrides)
    given = scored(stub, case)
    width = given["completion_ids"].size(1)
    logp = padded(rows(case, "logp"), width).requires_grad_()
    stub._get_per_token_logps_and_entropies = lambda *_, **__: (logp, torch.ones_like(logp), None)
    given.setdefault("old_per_token_logps", padded(rows(case, "old"), width))
    # The loss is compared at the advantages that an f32 holds.
    raw, given["advantages"] = given["advantages"], given["advantages"].float().double()
    stub._metrics.clear()
    loss = GRPOTrainer._compute_loss(stub, None, given)
    loss.backward()
    metrics = {name: values[0] for name, values in stub._metrics["train"].items()}
    told = {
        "kl": metrics.get("kl"),
        "clipped_low": metrics.get("clip_ratio/low_mean"),
        "clipped_high": metrics.get("clip_ratio/high_mean"),
    }
    return {
        "config": config,
        "advantages": raw.tolist(),
        "loss": loss.item(),
        "gradient": cut(case, logp.grad),
        "health": {k: v for k, v in told.items() if v is not None},
    }


def bnpo(case, overrides, config):
    """One group per local batch, accumulated over the groups, as a step of ours is cut."""
    size = len(case["rewards"][0])
    cases = [
        {"answers": case["answers"][i * size : (i + 1) * size], "rewards": [group]}
        for i, group in enumerate(case["rewards"])
    ]
    parts = [run(part, overrides, config) for part in cases]
    n = len(parts)
    return {
        "config": config,
        "advantages": [a for p in parts for a in p["advantages"]],
        "loss": sum(p["loss"] for p in parts) / n,
        "gradient": [[g / n for g in row] for p in parts for row in p["gradient"]],
        "health": {},
    }


VLLM = {"use_vllm": True, "vllm_mode": "server"}
PLAIN = {"sampler_weight": "off"}


def variants():
    """(what TRL is told, what we are told over the preset)"""
    yield {}, dict(PLAIN)
    for loss in ("grpo", "dr_grpo", "dapo", "sapo"):
        yield {"loss_type": loss}, {"loss": loss.replace("_", "-"), **PLAIN}
    gspo = {"loss_type": "grpo", "importance_sampling_level": "sequence"}
    yield gspo, {"loss": "gspo", **PLAIN}
    yield {**gspo, "epsilon": 3e-4, "epsilon_high": 4e-4}, \
        {"loss": "gspo", "clip_low": 3e-4, "clip_high": 4e-4, **PLAIN}
    yield {**gspo, "beta": 0.0625}, {"loss": "gspo", "kl_coef": 0.0625, **PLAIN}
    yield {**gspo, "loss_type": "dapo"}, {"loss": "gspo", "aggregation": "token-mean", **PLAIN}
    yield {**gspo, "loss_type": "luspo"}, {"loss": "gspo", "aggregation": "sequence-sum", **PLAIN}
    yield {"loss_type": "cispo", "epsilon_high": 1.5}, {"loss": "cispo", "clip_high": 1.5, **PLAIN}
    yield {"epsilon_high": 0.5}, {"clip_high": 0.5, **PLAIN}
    yield {"delta": 1.75}, {"dual_clip": 1.75, **PLAIN}
    yield {"beta": 0.0625}, {"kl_coef": 0.0625, **PLAIN}
    yield {"beta": 0.0625, "use_bias_correction_kl": False}, \
        {"kl_coef": 0.0625, "kl_gradient": "plain", **PLAIN}
    yield {"beta": 0.0625, "loss_type": "cispo", "epsilon_high": 5.0}, \
        {"loss": "cispo", "clip_high": 5.0, "kl_coef": 0.0625, **PLAIN}
    yield {"scale_rewards": "none"}, {"advantage_scale": "none", **PLAIN}
    yield {"scale_rewards": "batch"}, {"advantage_scale": "batch", **PLAIN}
    yield VLLM, {}
    for mode in ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"):
        bounds = {"vllm_importance_sampling_clip_min": 0.75, "vllm_importance_sampling_clip_max": 1.25}
        yield {**VLLM, **bounds, "vllm_importance_sampling_mode": mode}, {
            "sampler_weight": mode.replace("_", "-"),
            "sampler_weight_low": 0.75,
            "sampler_weight_high": 1.25,
        }
    tokens = {"vllm_importance_sampling_mode": "token_truncate"}
    yield {**VLLM, **tokens, **gspo}, {"loss": "gspo", "sampler_weight": "token-truncate"}
    yield {**VLLM, "off_policy_mask_threshold": 0.03125, "vllm_importance_sampling_correction": False}, \
        {"drift_limit": 0.03125, **PLAIN}


def unscored(case):
    """The sampler could not say two of the tokens."""
    answers = [dict(a, sampled=list(a["sampled"])) for a in case["answers"]]
    answers[0]["sampled"][1] = NAN
    answers[3]["sampled"][0] = NAN
    return dict(case, answers=answers)


def main():
    cases = inputs.cases()
    results = []
    for name, case in cases.items():
        for told, config in variants():
            results.append({"inputs": name, **run(case, told, {"preset": "trl-1.16", **config})})
        config = {"preset": "trl-1.16", "loss": "bnpo", **PLAIN}
        results.append({"inputs": name, **bnpo(case, {"loss_type": "bnpo"}, config)})
    cases["unscored"] = unscored(cases["mixed"])
    for told, config in ((VLLM, {}), (VLLM | {"off_policy_mask_threshold": 0.03125}, {"drift_limit": 0.03125})):
        result = run(cases["unscored"], told, {"preset": "trl-1.16", **config})
        results.append({"inputs": "unscored", **result})
    for a in cases["unscored"]["answers"]:
        a["sampled"] = [None if x != x else x for x in a["sampled"]]
    d = GRPOConfig(output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, report_to="none")
    defaults = {
        "lr": d.learning_rate,
        "group_size": d.num_generations,
        "updates_per_step": d.num_iterations,
        "kl_coef": d.beta,
        "clip_low": d.epsilon,
        "loss": d.loss_type,
        "advantage_scale": d.scale_rewards,
        "mask_truncated": d.mask_truncated_completions,
        "sampler_weight": d.vllm_importance_sampling_mode.replace("_", "-"),
        "sampler_weight_high": d.vllm_importance_sampling_clip_max,
        "kl_gradient": "ratio" if d.use_bias_correction_kl else "plain",
        "drift_limit": d.off_policy_mask_threshold or 0.0,
        "dual_clip": d.delta or 0.0,
        "sapo_tau_positive": d.sapo_temperature_pos,
        "sapo_tau_negative": d.sapo_temperature_neg,
    }
    document = {
        "made_by": f"trl {trl.__version__}, torch {torch.__version__}",
        "constant_length": 8,
        "defaults": defaults,
        "inputs": cases,
        "results": results,
    }
    inputs.write(os.path.join(os.path.dirname(__file__), "trl.json"), document)


main()
