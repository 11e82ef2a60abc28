#include "server/foreign_flags.h"

namespace hydrant {
namespace {

constexpr FlagAdvice kForeignFlags[] = {
    {"--ctx-size", "use --max-model-len"},
    {"--data-parallel-size", "a server is one replica: start several behind a balancer (docs/scale-out.md)"},
    {"--disable-log-requests", "leave it out: no request is logged before it has ended, and what it says never is"},
    {"--enable-auto-tool-choice", "leave it out: tools are called wherever a request has them"},
    {"--enable-chunked-prefill", "leave it out: long prompts are always computed in chunks"},
    {"--enable-reasoning", "leave it out: what the model thinks is told apart by its template"},
    {"--generation-config",
     "leave it out: the model's generation_config.json is read; --override-generation-config goes over it"},
    {"--load-format", "leave it out: a model's files say what they are"},
    {"--max-logprobs", "leave it out: a request may ask for up to 20"},
    {"--model", "MODEL is the first argument: hydrantd serve MODEL [flags]"},
    {"--n-gpu-layers", "use --device cuda, where all layers are on the GPU, or --device cpu"},
    {"--parallel", "use --max-num-seqs"},
    {"--pipeline-parallel-size", "all layers are on one device"},
    {"--reasoning-parser", "leave it out: what the model thinks is told apart by its template"},
    {"--seed", "leave it out: a request may have a 'seed'"},
    {"--ssl-certfile", "there is no TLS: put a proxy before the server (docs/deployment.md)"},
    {"--ssl-keyfile", "there is no TLS: put a proxy before the server (docs/deployment.md)"},
    {"--tokenizer", "leave it out: the model's own is used"},
    {"--trust-remote-code", "leave it out: no code of a model's is ever run"},
};

}  // namespace

std::span<const FlagAdvice> ForeignFlags() { return kForeignFlags; }

}  // namespace hydrant
