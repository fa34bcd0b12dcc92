"""What the cache holds, told to others as it changes: blocks stored and removed, in the form that vLLM's consumers read.

config.py      the options
log.py         what happened in a step
publisher.py   ZeroMQ: messages with numbers, and a replay of the last ones"""
