"""Before a real server: a lost reply is a write that happened, a lost request is one that did not."""

import pytest

from onefold.testing.proxy import Drop, Mishap, Proxy, Swallow

losses = pytest.mark.parametrize(("mishap", "kept"), [(Swallow(), {1, 2}), (Drop(), {1})])


@losses
def test_postgresql_commits_what_it_received(postgresql_url, mishap: Mishap, kept):
    import psycopg

    with Proxy.before(postgresql_url) as proxy, psycopg.connect(postgresql_url, autocommit=True) as direct:
        direct.execute("CREATE TABLE notes (n int)")
        with psycopg.connect(proxy.url, autocommit=True) as client:
            client.execute("INSERT INTO notes VALUES (1)")
            proxy.arm(mishap, when=b"INSERT")
            with pytest.raises(psycopg.OperationalError):
                client.execute("INSERT INTO notes VALUES (2)")
        # Parted from gently, the server has done all that reached it when it hangs up.
        proxy.wait(lambda proxy: proxy.connected == 0)

        assert {n for (n,) in direct.execute("SELECT n FROM notes")} == kept


@losses
def test_redis_does_what_it_received(redis_url, mishap: Mishap, kept):
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    with Proxy.before(redis_url) as proxy, redis.Redis.from_url(redis_url) as direct:
        with redis.Redis.from_url(proxy.url, retry=Retry(NoBackoff(), 0)) as client:
            client.sadd("notes", 1)
            proxy.arm(mishap, when=b"SADD")
            with pytest.raises(redis.ConnectionError):
                client.sadd("notes", 2)
        proxy.wait(lambda proxy: proxy.connected == 0)

        assert {int(n) for n in direct.smembers("notes")} == kept


@losses
def test_mariadb_commits_what_it_received(mariadb_url, mishap: Mishap, kept):
    import pymysql

    from tests.launchers.mariadb import connected

    with Proxy.before(mariadb_url) as proxy, connected(mariadb_url) as direct:
        direct.execute("CREATE TABLE notes (n int)")
        with connected(proxy.url) as client:
            client.execute("INSERT INTO notes VALUES (1)")
            proxy.arm(mishap, when=b"INSERT")
            with pytest.raises(pymysql.OperationalError):
                client.execute("INSERT INTO notes VALUES (2)")
        proxy.wait(lambda proxy: proxy.connected == 0)
        direct.execute("SELECT n FROM notes")

        assert {n for (n,) in direct.fetchall()} == kept
