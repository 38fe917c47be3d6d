"""Which stores count as tested, and which have landed."""

from tests.stores_tested import StoresTested, has_landed


def test_a_store_has_landed_as_a_module_or_as_a_package(tmp_path):
    (tmp_path / "redis.py").touch()
    (tmp_path / "cassandra").mkdir()
    (tmp_path / "cassandra" / "__init__.py").touch()

    landed = [store for store in ("redis", "cassandra", "mongodb") if has_landed(store, tmp_path)]

    assert landed == ["redis", "cassandra"]


def test_a_store_with_a_failure_does_not_count_as_tested():
    plugin = StoresTested()
    plugin.passed["memory"] = 5
    plugin.failed["memory"] = 1

    assert plugin.sentence().startswith("stores tested: none; failed: memory; ")
