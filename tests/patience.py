"""How long a test waits for what must come. Only a fault makes it wait to the end, so a slow or busy machine has all the time it needs."""

SECONDS = 180
