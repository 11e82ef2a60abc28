"""Makes the adapters of tests/golden/adapters and what `gqa_tied` must answer with each. README.md says what the files hold.

The adapters are PEFT's own, with random A and B; the answers are those of transformers with PEFT, in fp64, and only prompts are
used on which fp32 says the same.
"""

import itertools
import json
import pathlib
import shutil

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
BASE, ADAPTERS = "gqa_tied", HERE / "adapters"
VOCAB, GENERATED, LOGIT_GAP_MIN = 288, 16, 3e-3
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]

# Everything; two matrices of a fused one, scaled by the root; ranks and scales of their own; one layer's MLP alone.
SPECS = {
    "all": {"r": 4, "lora_alpha": 8, "target_modules": ATTENTION + MLP},
    "qv_root": {"r": 8, "lora_alpha": 4, "use_rslora": True, "target_modules": ["q_proj", "v_proj"]},
    "patterns": {
        "r": 2, "lora_alpha": 4, "target_modules": ["k_proj", "o_proj", "gate_proj"],
        "rank_pattern": {"o_proj": 5}, "alpha_pattern": {"layers.1.mlp.gate_proj": 6},
    },
    "mlp_of_one": {"r": 16, "lora_alpha": 16, "target_modules": MLP, "layers_to_transform": [1]},
}  # fmt: skip


def base(dtype):
    return LlamaForCausalLM.from_pretrained(HERE / BASE, dtype=dtype).eval()


def make_adapter(name, spec, seed):
    model = get_peft_model(base(torch.float32), LoraConfig(task_type="CAUSAL_LM", **spec))
    generator = torch.Generator().manual_seed(seed)
    for parameter_name, parameter in model.named_parameters():
        if "lora_" in parameter_name:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.15)
    folder = ADAPTERS / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = BASE
    config["target_modules"] = sorted(config["target_modules"])  # PEFT writes a set
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")


def greedy(model, ids):
    """Recomputes the whole text for every token: slow, and independent of any cache."""
    ids, rows = list(ids), []
    for _ in range(GENERATED):
        rows.append(model(torch.tensor([ids])).logits[0][-1])
        ids.append(int(rows[-1].argmax()))
    return ids[-GENERATED:], torch.stack(rows)


def goldens(name):
    models = {}
    for dtype in (torch.float32, torch.float64):
        models[dtype] = base(dtype)
        if name is not None:
            models[dtype] = PeftModel.from_pretrained(models[dtype], ADAPTERS / name).to(dtype).eval()
    found, error = [], 0.0
    for seed in itertools.count():
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(2, VOCAB, ((1, 17, 40)[len(found)],), generator=generator).tolist()
        tokens32, rows32 = greedy(models[torch.float32], ids)
        tokens, rows = greedy(models[torch.float64], ids)
        best = rows.topk(2, -1).values
        if tokens != tokens32 or float((best[:, 0] - best[:, 1]).min()) < LOGIT_GAP_MIN:
            continue
        log_probs = torch.log_softmax(rows, -1)
        error = max(error, float((torch.log_softmax(rows32, -1) - log_probs).abs().max()))
        found.append({
            "prompt_ids": ids, "tokens": tokens,
            "logprobs": [round(row.max().item(), 7) for row in log_probs],
        })  # fmt: skip
        if len(found) == 3:
            return {"logprob_error": float(f"{error:.3g}"), "prompts": found}


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for seed, (name, spec) in enumerate(SPECS.items()):
        make_adapter(name, spec, seed)
        with open(ADAPTERS / name / "greedy.json", "w") as out:
            json.dump(goldens(name), out, separators=(",", ":"))
            out.write("\n")


if __name__ == "__main__":
    main()
