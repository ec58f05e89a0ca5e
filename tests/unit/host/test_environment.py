from __future__ import annotations

from rlark.host.environment import allowed


def test_only_what_is_listed_is_handed_on():
    outer = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "https_proxy": "http://proxy",
        "AWS_SECRET_ACCESS_KEY": "s",
        "RLARK_TOKEN": "t",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert set(allowed(outer)) == {"PATH", "LC_ALL", "CUDA_DEVICE_ORDER", "https_proxy"}
