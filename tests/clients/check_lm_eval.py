"""lm-evaluation-harness: log-likelihoods of continuations and of whole texts through `local-completions` with the server's own
tokenizer, equal to what the server says of the same tokens; generation through both endpoints."""

import json
import math
import pathlib
import tempfile

import lm_eval
from lm_eval.tasks import TaskManager

from client_server import MODEL, require, serve

PAIRS = [
    ("The capital of France is", " Paris"),
    ("The capital of Germany is", " Berlin"),
    ("Two plus two is", " four"),
    ("The sun rises in the", " east"),
    ("Water is made of hydrogen and", " oxygen"),
]

TASKS = {
    "continuations": """
task: continuations
output_type: loglikelihood
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
target_delimiter: ""
metric_list:
  - metric: acc
  - metric: perplexity
""",
    "texts": """
task: texts
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{q}}{{a}}"
metric_list:
  - metric: bits_per_byte
""",
    "answers": """
task: answers
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
generation_kwargs: {until: ["\\n", ".", ",", ";", "!"], max_gen_toks: 4, temperature: 0}
metric_list:
  - metric: exact_match
""",
}


def write_tasks(folder):
    data = folder / "pairs.jsonl"
    data.write_text("".join(json.dumps({"q": q, "a": a}) + "\n" for q, a in PAIRS))
    source = f"dataset_path: json\ndataset_kwargs: {{data_files: {data}}}\ntest_split: train\n"
    for name, body in TASKS.items():
        (folder / f"{name}.yaml").write_text(source + body.lstrip())


def loglikelihood(server, text, first):
    """The sum over tokens that begin at or after character `first`, and whether each was the likeliest."""
    answer = server.post("/v1/completions", {
        "model": MODEL, "prompt": text, "echo": True, "max_tokens": 0, "logprobs": 1, "temperature": 0,
    })  # fmt: skip
    logprobs = answer["choices"][0]["logprobs"]
    picked = [i for i, offset in enumerate(logprobs["text_offset"]) if offset >= first and i > 0]
    total = sum(logprobs["token_logprobs"][i] for i in picked)
    return total, all(logprobs["token_logprobs"][i] == max(logprobs["top_logprobs"][i].values()) for i in picked)


def evaluate(server, folder, model, path, tasks, **more):
    arguments = {"model": MODEL, "base_url": server.base + path, "num_concurrent": 4, "max_length": 1024, **more}
    result = lm_eval.simple_evaluate(
        model=model, model_args=",".join(f"{key}={value}" for key, value in arguments.items()), tasks=tasks,
        task_manager=TaskManager(include_path=str(folder), include_defaults=False), bootstrap_iters=0, log_samples=True,
        cache_requests=False, apply_chat_template=model.endswith("chat-completions"),
    )  # fmt: skip
    return result


def main():
    with tempfile.TemporaryDirectory() as name, serve() as server:
        folder = pathlib.Path(name)
        write_tasks(folder)
        result = evaluate(
            server, folder, "local-completions", "/v1/completions", ["continuations", "texts", "answers"],
            tokenizer_backend="remote",
        )  # fmt: skip
        pairs = [loglikelihood(server, q + a, len(q)) for q, a in PAIRS]
        metrics = result["results"]["continuations"]
        accuracy = sum(greedy for _, greedy in pairs) / len(pairs)
        require(metrics["acc,none"] == accuracy, "accuracy is that of the server's log-probabilities", (metrics, accuracy))
        perplexity = math.exp(-sum(total for total, _ in pairs) / len(pairs))
        require(math.isclose(metrics["perplexity,none"], perplexity, rel_tol=1e-6), "perplexity too", (metrics, perplexity))
        require(accuracy > 0, "the model knows something", accuracy)
        bits = result["results"]["texts"]["bits_per_byte,none"]
        require(0 < bits < 8, "whole texts have a log-likelihood", bits)
        matched = result["results"]["answers"]["exact_match,none"]
        require(matched == accuracy or matched > 0, "generation stops at its stop strings", result["samples"]["answers"])

        chat = evaluate(server, folder, "local-chat-completions", "/v1/chat/completions", ["answers"])
        answers = [sample["resps"][0][0] for sample in chat["samples"]["answers"]]
        require(len(answers) == len(PAIRS) and all(isinstance(a, str) for a in answers), "chat generation works", answers)


if __name__ == "__main__":
    main()
