"""The servers that tests can have, by name, in the order in which they are worth having."""

from tests.servers.anvil import Anvil
from tests.servers.cassandra import Cassandra
from tests.servers.dynamodb import Dynamodb
from tests.servers.mariadb import Mariadb
from tests.servers.mongodb import Mongodb
from tests.servers.postgresql import Postgresql
from tests.servers.redis import Redis
from tests.servers.server import Recipe

__all__ = ["RECIPES", "SHARED"]

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (Postgresql(), Redis(), Dynamodb(), Mongodb(), Mariadb(), Cassandra(), Anvil())
}

SHARED: dict[str, Recipe] = {**RECIPES, "cassandra": Cassandra(lasting=False)}
"""The same for tests that share a server, which nobody restarts."""
