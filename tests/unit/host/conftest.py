from __future__ import annotations

import pytest

from tests.fakes import nvml


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> nvml.FakeNvml:
    return nvml.build(tmp_path_factory.mktemp("nvml"))
