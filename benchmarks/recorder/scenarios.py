"""The named scenarios: a small model with random weights, an engine's arguments and a load."""

from dataclasses import dataclass
from typing import Any

from recorder.load import Load, LogNormal

MAX_MODEL_LEN = 4096

# Four layers of width 256: some milliseconds a step on two cores. The vocabulary is small because
# nothing reads the text.
DENSE: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 2048,
    "max_position_embeddings": 16384,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SLIDING_WINDOW: dict[str, Any] = {
    **DENSE,
    "model_type": "mistral",
    "architectures": ["MistralForCausalLM"],
    "sliding_window": 512,
}
MOE: dict[str, Any] = {
    **DENSE,
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 352,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "attention_bias": False,
}

# What every engine is started with. Without AVX-512 or AMX, bfloat16 takes seconds a step.
ENGINE: dict[str, Any] = {
    "dtype": "float32",
    "enforce_eager": True,
    "load_format": "dummy",
    "skip_tokenizer_init": True,
    "max_model_len": MAX_MODEL_LEN,
    "disable_log_stats": True,
    "scheduler_cls": "dynamo.vllm.instrumented_scheduler.InstrumentedScheduler",
}


@dataclass(frozen=True)
class Scenario:
    """What is recorded under a name."""

    name: str
    shows: str
    model: dict[str, Any]
    engine: dict[str, Any]
    """Arguments beside those of every engine."""
    load: Load


_ALL = (
    Scenario(
        "dense",
        "mixed traffic at changing rates, some of it with a cached prefix",
        DENSE,
        {"max_num_batched_tokens": 1024, "max_num_seqs": 64},
        Load(
            (1.5, 4.0, 8.0, 3.0),
            LogNormal(150, 0.9, 4, 2048),
            LogNormal(65, 0.8, 4, 512),
            prefix_share=0.3,
            prefix_tokens=256,
        ),
    ),
    Scenario(
        "moe",
        "a mixture of 16 experts, 2 of them active",
        MOE,
        {"max_num_batched_tokens": 1024, "max_num_seqs": 64},
        Load(
            (1.0, 3.0, 6.0, 2.0),
            LogNormal(150, 0.9, 4, 2048),
            LogNormal(90, 0.8, 4, 512),
            prefix_share=0.2,
            prefix_tokens=256,
        ),
    ),
    Scenario(
        "sliding-window",
        "attention whose cost stops growing with the context, at 512 tokens",
        SLIDING_WINDOW,
        {"max_num_batched_tokens": 1024, "max_num_seqs": 64},
        Load(
            (0.6, 1.5, 3.0, 1.0),
            LogNormal(490, 0.9, 16, 2560),
            LogNormal(180, 0.7, 8, 768),
            prefix_share=0.1,
            prefix_tokens=256,
        ),
    ),
    Scenario(
        "ngram-speculation",
        "n-gram speculation of three tokens",
        DENSE,
        {
            "max_num_batched_tokens": 1024,
            "max_num_seqs": 64,
            "speculative_config": {
                "method": "ngram",
                "num_speculative_tokens": 3,
                "prompt_lookup_max": 4,
                "prompt_lookup_min": 2,
            },
        },
        Load(
            (1.5, 4.0, 6.0, 2.5),
            LogNormal(120, 0.8, 8, 2048),
            LogNormal(100, 0.8, 8, 512),
            prefix_share=0.2,
            prefix_tokens=256,
        ),
    ),
    Scenario(
        "prefill-only",
        "one token a request, as a prefill worker's",
        DENSE,
        {"max_num_batched_tokens": 512, "max_num_seqs": 32},
        Load(
            (8.0, 16.0, 24.0, 12.0),
            LogNormal(50, 0.9, 4, 2048),
            LogNormal(1, 0.0, 1, 1),
            prefix_share=0.4,
            prefix_tokens=128,
        ),
    ),
    Scenario(
        "decode-heavy",
        "short prompts and long outputs, in large decode batches",
        DENSE,
        {"max_num_batched_tokens": 2048, "max_num_seqs": 128},
        Load(
            (2.0, 5.0, 9.0, 3.0),
            LogNormal(25, 0.6, 4, 256),
            LogNormal(200, 0.6, 16, 1024),
            prefix_share=0.0,
            prefix_tokens=0,
        ),
    ),
)
SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _ALL}
