"""`hf-vram-calc`: its columns "training" and "LoRA", by the classes that its command calls after the download."""

from __future__ import annotations

import contextlib
import io

from hf_vram_calc import ConfigManager, ModelConfig, ParallelizationCalculator, VRAMCalculator
from hf_vram_calc.calculator import LlmodelMemoryResult, ParameterCalculator

from plan_peers.case import GIB, Case, model_config

NAMES = {"float32": "fp32", "bfloat16": "bf16"}


def predicted_bytes(case: Case) -> float | None:
    """Weights times 4 times 1.3, divided by tp and pp; data ranks hold whole copies, and there is no cp."""
    if case.cp > 1 or case.shared_stage:
        return None
    config = ModelConfig(
        model_name=case.decoder.name,
        vocab_size=case.decoder.vocab,
        hidden_size=case.decoder.hidden,
        num_layers=case.decoder.num_layers,
        num_attention_heads=case.decoder.num_heads,
        num_key_value_heads=case.decoder.num_kv_heads,
        test_config=model_config(case.decoder),
    )
    result = LlmodelMemoryResult(
        NAMES[case.dtype],
        batch_size=case.micro_batch,
        sequence_length=case.decoder.num_tokens,
        lora_rank=case.lora_rank,
        tensor_parallel_size=case.tp,
    )
    with contextlib.redirect_stdout(io.StringIO()):  # it prints how it makes the model
        num_params = ParameterCalculator.calculate_transformer_params(config)
        result.calculate_all(config, num_params, VRAMCalculator(ConfigManager()))
    whole = result.lora_memory if case.lora_rank else result.training_memory
    spread = ParallelizationCalculator.calculate_combined_parallel
    return float(spread(whole, tp_size=case.tp, pp_size=case.pp, dp_size=case.num_data_ranks)) * GIB
