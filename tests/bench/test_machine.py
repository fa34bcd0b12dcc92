import numpy as np
import pytest

from vtcore.bench import machine
from vtcore.bench.memory import peak_memory
from vtcore.bench.traffic import array_bytes, numpy_rates
from vtcore.providers import ProviderOptions
from vtcore.providers.portable import make
from vtcore.providers.portable.read_bandwidth import REGISTERS, measure, read_all
from vtcore.tensor import of


def test_the_processor_has_a_name(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Quick 9000: the fast one\n\nmodel name\t: another\n")
    assert machine.processor(cpuinfo) == "Quick 9000: the fast one"
    cpuinfo.write_text("Features\t: fp asimd\n")
    assert machine.processor(cpuinfo)
    assert machine.processor(tmp_path / "none")


def test_the_largest_cache_is_found(tmp_path):
    for i, size in enumerate(["32K", "1M", "24576K", "?", ""]):
        (tmp_path / f"index{i}").mkdir()
        (tmp_path / f"index{i}" / "size").write_text(size + "\n")
    assert machine.largest_cache(tmp_path) == 24 << 20
    assert machine.largest_cache(tmp_path / "none") is None


def test_peak_memory_is_this_process_own(tmp_path):
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t 999 kB\nVmHWM:\t    321 kB\n")
    assert peak_memory(status) == 321 << 10
    held = bytearray(8 << 20)
    for read in (peak_memory(), peak_memory(tmp_path / "none")):
        assert read is None or read > len(held)


def test_every_pass_over_memory_gives_a_rate():
    provider = make(ProviderOptions(threads=2))
    try:
        for rates in (measure(provider, 1 << 20, 3), numpy_rates(1 << 20, 3, 2), measure(provider, 1, 3)):
            assert len(rates) == 3
            assert all(r > 0 for r in rates)
    finally:
        provider.close()
    assert array_bytes() > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_the_kernel_reads_every_byte(threads):
    provider = make(ProviderOptions(threads=threads))
    try:
        tasks, lanes = 7, provider.isa.lanes
        values = np.random.default_rng(0).integers(-(2**31), 2**31, tasks * REGISTERS * lanes).astype(np.int32)
        sums = of(np.zeros((threads, lanes), np.int32))
        provider.launch(read_all, [of(values), tasks, sums], 1 << 20)
        assert np.bitwise_xor.reduce(sums.numpy(), axis=None) == np.bitwise_xor.reduce(values)
    finally:
        provider.close()
