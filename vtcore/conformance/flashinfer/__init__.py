"""FlashInfer Trace: its definitions and workloads as cases, and ops, cases and results in its format.

Format: flashinfer-ai/flashinfer-bench, `flashinfer_bench.data`; docs/flashinfer-trace.md says what is understood. A directory holds
definitions/TYPE/NAME.json, workloads/TYPE/NAME.jsonl, traces/TYPE/NAME.jsonl, and tensors in safetensors files under blob/."""
