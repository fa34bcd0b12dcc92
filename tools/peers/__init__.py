"""Engines side by side: each in a process of its own that stays alive and is asked for one case at a time.

serving.py channel.py     the two ends of the pipe: JSON, a line a request and a line an answer
*_engine.py               what answers: this project, llama.cpp, transformers, vLLM. They may run under other Pythons, which lack vtcore
groups.py                 which models and cases are compared, and what is wanted
paired.py                 A B A B, and the ratios of neighbours
quiet.py                  whether anything else ran meanwhile
fresh.py                  what a fresh process is needed for: first token, peak memory
report.py                 the table"""
