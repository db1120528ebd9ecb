"""Golden numbers from verl's own functions: `python make_verl.py`, which writes verl.json.

`core_algos` gives advantages, policy losses, KL estimates and their aggregation, put together as
`verl.workers.utils.losses.ppo_loss` does; `rollout_corr_helper` gives sampler weights and
rejections. The gradient is autograd's, in float64. Ray is not needed and stands in as a mock.
"""

import importlib.metadata
import os
import sys
from unittest.mock import MagicMock

import numpy as np
import torch
from omegaconf import OmegaConf

for name in ("ray", "ray.util", "ray.util.collective", "ray.util.placement_group",
             "ray.util.scheduling_strategies", "ray.experimental", "ray.experimental.state",
             "ray.experimental.state.api", "ray.actor"):
    sys.modules.setdefault(name, MagicMock())

import verl.trainer.config
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.trainer.ppo import rollout_corr_helper as correction
from verl.workers.config import ActorConfig

import inputs

torch.set_default_dtype(torch.float64)
LIMIT = 8


def padded(rows, width):
    return torch.tensor([row + [0.0] * (width - len(row)) for row in rows])


def actor(**overrides):
    return ActorConfig(
        strategy="fsdp", rollout_n=4, use_dynamic_bsz=True, use_torch_compile=False, **overrides
    )


class Given:
    """A case as padded tensors."""

    def __init__(self, case):
        self.case = case
        answers = case["answers"]
        self.width = max(len(a["logp"]) for a in answers)
        for field in inputs.FIELDS:
            setattr(self, field, padded([list(a[field]) for a in answers], self.width))
        self.mask = padded([[float(m) for m in a["mask"]] for a in answers], self.width)

    def cut(self, matrix):
        return [row[: len(a["logp"])].tolist() for a, row in zip(self.case["answers"], matrix)]


def advantages(case, estimator, **settings):
    """Of the answers that have a reward; null for the others."""
    flat = [(g, r) for g, group in enumerate(case["rewards"]) for r in group]
    kept = [(g, r) for g, r in flat if r is not None]
    rewards = torch.tensor([[r, 0.0] for _, r in kept])
    index = np.array([g for g, _ in kept])
    ones = torch.ones_like(rewards)
    result, _ = estimator(rewards.clone(), ones, index, **settings)
    values = iter(result[:, 0].tolist())
    return [None if r is None else next(values) for _, r in flat]


def run(given, told, config, weights=None, mask=None, mode=None):
    """One loss, as ppo_loss puts it together."""
    told = dict(told)
    name = told.pop("loss_mode", "vanilla")
    actor_config = actor(**told)
    actor_config.global_batch_info["loss_scale_factor"] = LIMIT
    mode = mode or actor_config.loss_agg_mode
    scores = advantages(given.case, core_algos.compute_grpo_outcome_advantage)
    scores = [0.0 if a is None else a for a in scores]
    mask = given.mask if mask is None else mask
    spread = torch.tensor(scores).float().double().unsqueeze(1) * mask
    logp = given.logp.clone().requires_grad_()
    loss, metrics = core_algos.get_policy_loss_fn(name)(
        old_log_prob=given.old,
        log_prob=logp,
        advantages=spread,
        response_mask=mask,
        loss_agg_mode=mode,
        config=actor_config,
        rollout_is_weights=weights,
    )
    if actor_config.use_kl_loss:
        kl = core_algos.kl_penalty(logp, given.reference, actor_config.kl_loss_type)
        kl = core_algos.agg_loss(kl, mask, mode, **actor_config.global_batch_info)
        loss = loss + actor_config.kl_loss_coef * kl
    loss.backward()
    health = {}
    if (given.logp - given.old).abs().max() <= 20:  # beyond, verl bounds what it reports
        health["drift"] = metrics["actor/ppo_kl"]
    if name == "vanilla":
        health["clipped"] = metrics["actor/pg_clipfrac"]
        health["clipped_dual"] = metrics["actor/pg_clipfrac_lower"]
    return {
        "config": config,
        "advantages": scores,
        "loss": loss.item(),
        "gradient": given.cut(logp.grad),
        "health": health,
    }


MODES = {
    "token-mean": "token-mean",
    "token-sum": "token-sum",
    "seq-mean-token-sum": "sequence-sum",
    "seq-mean-token-sum-norm": "constant",
    "seq-mean-token-mean": "sequence-mean",
}


def variants():
    """(what verl is told, what we are told over the preset)"""
    for mode, ours in MODES.items():
        yield {"loss_agg_mode": mode}, {"aggregation": ours}
    yield {}, {}
    yield {"clip_ratio_high": 0.5}, {"clip_high": 0.5}
    yield {"clip_ratio_c": 1.5}, {"dual_clip": 1.5}
    yield {"loss_mode": "gspo"}, {"loss": "gspo"}
    yield {"loss_mode": "gspo", "loss_agg_mode": "seq-mean-token-mean"}, \
        {"loss": "gspo", "aggregation": "sequence-mean"}
    yield {"loss_mode": "gspo", "clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4}, \
        {"loss": "gspo", "clip_low": 3e-4, "clip_high": 4e-4}
    yield {"loss_mode": "cispo"}, {"loss": "cispo"}
    yield {"loss_mode": "cispo", "clip_ratio_low": 1.0, "clip_ratio_high": 4.0}, \
        {"loss": "cispo", "clip_low": 1.0, "clip_high": 4.0}
    yield {"loss_mode": "sapo"}, {"loss": "sapo"}
    kinds = {
        "k1": ("k1", "plain"), "k2": ("k2", "plain"), "low_var_kl": ("k3", "plain"),
        "k1+": ("k1", "straight-through"), "k3+": ("k3", "straight-through"),
    }
    for kind, (estimator, gradient) in kinds.items():
        yield {"use_kl_loss": True, "kl_loss_coef": 0.0625, "kl_loss_type": kind}, \
            {"kl_coef": 0.0625, "kl_estimator": estimator, "kl_gradient": gradient}
    yield {"use_kl_loss": True, "kl_loss_coef": 0.0625, "loss_mode": "gspo",
           "loss_agg_mode": "seq-mean-token-mean"}, \
        {"loss": "gspo", "kl_coef": 0.0625, "aggregation": "sequence-mean"}


def corrected(given):
    """Weights and rejections of the sampler's difference, with the default loss."""
    ratio = given.old - given.sampled
    for level in ("token", "sequence"):
        for threshold, kind in ((1.25, "truncate"), ("0.75_1.25", "mask")):
            weights, told = correction.compute_rollout_correction_weights(
                ratio, given.mask, level, threshold
            )
            low = 0.0 if kind == "truncate" else 0.75
            config = {"sampler_weight": f"{level}-{kind}", "sampler_weight_low": low,
                      "sampler_weight_high": 1.25}
            result = run(given, {}, config, weights=weights)
            result["health"]["weight_mean"] = told["rollout_is_mean"]
            if level == "token":
                result["health"]["effective"] = told["rollout_is_eff_sample_size"]
            yield result
    # verl bounds the mean of sampler over trainer, we that of trainer over sampler.
    for low, high in ((0.75, 1.5), (0.875, 1.0625)):
        mask, _ = correction.compute_rollout_rejection_mask(
            ratio, given.mask, "seq_mean_k1", f"{1 / high}_{1 / low}"
        )
        if mask.sum() == 0:  # then verl divides by 0
            continue
        for mode in ("token-mean", "seq-mean-token-mean"):
            config = {"sampler_reject": "geometric", "sampler_reject_low": low,
                      "sampler_reject_high": high, "aggregation": MODES[mode]}
            yield run(given, {"loss_agg_mode": mode}, config, mask=mask)


def estimated(case):
    yield "group", 1e-6, advantages(case, core_algos.compute_grpo_outcome_advantage)
    yield "none", 0.0, advantages(
        case, core_algos.compute_grpo_outcome_advantage, norm_adv_by_std_in_grpo=False
    )
    yield "leave-one-out", 0.0, advantages(case, core_algos.compute_rloo_outcome_advantage)


def main():
    cases = inputs.cases()
    results, estimates = [], []
    for name, case in cases.items():
        given = Given(case)
        for told, config in variants():
            results.append({"inputs": name, **run(given, told, config)})
        if name in ("mixed", "short"):
            results += [{"inputs": name, **result} for result in corrected(given)]
        for scale, eps, values in estimated(case):
            estimates.append({"inputs": name, "scale": scale, "eps": eps, "advantages": values})
    for result in results:
        result["config"] = {"preset": "verl-0.9", **result["config"]}
    d = actor()
    algorithm = AlgoConfig()
    file = os.path.join(os.path.dirname(verl.trainer.config.__file__), "actor", "actor.yaml")
    defaults = {
        "lr": float(OmegaConf.load(file)["optim"]["lr"]),
        "updates_per_step": d.ppo_epochs,
        "kl_coef": d.kl_loss_coef if d.use_kl_loss else 0.0,
        "kl_estimator": {"low_var_kl": "k3"}[d.kl_loss_type],
        "clip_low": d.clip_ratio_low,
        "clip_high": d.clip_ratio_high,
        "dual_clip": d.clip_ratio_c,
        "aggregation": MODES[d.loss_agg_mode],
        "advantage_scale": "group" if algorithm.norm_adv_by_std_in_grpo else "none",
        "sapo_tau_positive": d.tau_pos,
        "sapo_tau_negative": d.tau_neg,
    }
    document = {
        "made_by": f"verl {importlib.metadata.version('verl')}, torch {torch.__version__}",
        "constant_length": LIMIT,
        "defaults": defaults,
        "inputs": cases,
        "results": results,
        "estimates": estimates,
    }
    inputs.write(os.path.join(os.path.dirname(__file__), "verl.json"), document)


main()
