"""The parts of record_vllm_cpu.py, which need neither vLLM nor Dynamo but for `engine`."""
