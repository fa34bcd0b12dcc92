"""Where pages go when their pool needs the room: the host's memory, then a directory, and back by the same keys.

tier.py                what a tier is, and what it counts
eviction.py host.py    pages in the host's memory, and which goes first
page_file.py disk.py   pages as files that several processes share
rows.py                a page's bytes out of the cache's arrays, and into them
offload.py view.py     what the manager of the pages asks of all of them
make.py                the tiers that a configuration names"""
