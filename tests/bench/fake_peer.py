"""A peer that takes no time to install: it speaks the protocol and makes its figures up. How it behaves stands in FAKE_PEER."""

import json
import os
import sys
import time


def answer(request):
    if request["do"] == "prefill":
        return {"tokens": request["tokens"], "seconds": {"slow": 2.0, "quick": 1.0}[request["variant"]]}
    if request["do"] == "decode":
        return {"tokens": request["batch"] * request["steps"], "seconds": {"slow": 1.0, "quick": 2.0}[request["variant"]]}
    return {"memory": {"bytes": 1000}, "greedy": {"tokens": [1, 2, 3], "margins": [0.5, 0.5, 0.5]}}[request["do"]]


def main():
    how = os.environ.get("FAKE_PEER", "")
    if "--first-token" in sys.argv:
        print("x")
    elif how == "missing":
        print(json.dumps({"missing": "No module named 'peer'"}), flush=True)
    elif how == "dies":
        sys.exit("it fell over")
    else:
        print(json.dumps({"about": "a fake", "variants": ["slow", "quick"]}), flush=True)
        for line in sys.stdin:
            if how == "refuses":
                print(json.dumps({"error": "ValueError: no"}), flush=True)
            elif how == "sleeps":
                time.sleep(60)
            elif how == "dies later":
                sys.exit("it fell over later")
            else:
                print(json.dumps(answer(json.loads(line))), flush=True)


main()
