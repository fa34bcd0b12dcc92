"""How fast a model runs here, measured through the engine that serves it: tokenizer, scheduler, block tables, model, sampler.

measured.py machine.py     what a figure is, and where it was taken
speed.py                   prefill and decode
first_token.py memory.py   a fresh process's first token, and the most memory that a process held
traffic.py                 weights read for a token, against what the memory can give
trace.py                   where the time goes: by op, and outside of native code
suite.py show.py           which sections there are, and how they are printed"""
