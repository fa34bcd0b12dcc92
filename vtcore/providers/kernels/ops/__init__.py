"""The ops on accelerators, one file a family: bodies, launches and guards."""
