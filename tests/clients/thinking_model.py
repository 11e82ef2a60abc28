"""A checkpoint that thinks before it answers, whatever it is asked: each token says by itself which one is next."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system" / "structured"))

import channel_model  # noqa: E402

CLOSES, ENDS = "</think>", "<｜end▁of▁sentence｜>"
SPECIALS = (CLOSES, ENDS)
# Behind the line end that a template puts after <think>. No token is there twice.
THOUGHT, ANSWER = "Two and", "4."
HIDDEN = 64
LOGIT = 32.0  # of the next token, all others' are 0: it is that at every temperature a client may ask for


def write(folder):
    made = channel_model.tokenizer((), SPECIALS)
    ids = {token["content"]: token["id"] for token in made["added_tokens"]}
    size = max(ids.values()) + 1
    chain = [*b"\n", *THOUGHT.encode(), ids[CLOSES], *ANSWER.encode(), ids[ENDS]]
    assert len(set(chain)) == len(chain) < HIDDEN

    # A token of the chain is a direction of its own, all others share the last one. The layer adds nothing.
    embedding, head = [0.0] * (size * HIDDEN), [0.0] * (size * HIDDEN)
    for token in range(size):
        embedding[token * HIDDEN + (chain.index(token) if token in chain else HIDDEN - 1)] = 1.0
    for place, follows in enumerate(chain[1:]):
        head[follows * HIDDEN + place] = LOGIT / HIDDEN**0.5  # the norm makes the direction that long
    square, ones = [0.0] * HIDDEN**2, [1.0] * HIDDEN
    layer = "model.layers.0."
    tensors = [("model.embed_tokens.weight", [size, HIDDEN], embedding), ("lm_head.weight", [size, HIDDEN], head)]
    tensors += [(name, [HIDDEN], ones) for name in (layer + "input_layernorm.weight", layer + "post_attention_layernorm.weight", "model.norm.weight")]
    tensors += [(f"{layer}self_attn.{name}_proj.weight", [HIDDEN, HIDDEN], square) for name in "qkvo"]
    tensors += [(f"{layer}mlp.{name}_proj.weight", [HIDDEN, HIDDEN], square) for name in ("gate", "up", "down")]
    channel_model.write_files(folder, tensors, {
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": size, "hidden_size": HIDDEN,
            "intermediate_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
            "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 4096,
            "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": ids[ENDS],
        },
        "tokenizer.json": made,
        "tokenizer_config.json": {"eos_token": ENDS},
        "generation_config.json": {"eos_token_id": ids[ENDS]},
    })  # fmt: skip
