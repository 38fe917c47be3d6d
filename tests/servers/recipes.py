"""The servers that tests can have, by name, in the order in which they are worth having."""

from tests.servers.anvil import Anvil
from tests.servers.cassandra import Cassandra
from tests.servers.dynamodb import Dynamodb
from tests.servers.mariadb import Mariadb
from tests.servers.mongodb import Mongodb
from tests.servers.postgresql import Postgresql
from tests.servers.redis import Redis
from tests.servers.server import Recipe

__all__ = ["RECIPES"]

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (Postgresql(), Redis(), Dynamodb(), Mongodb(), Mariadb(), Cassandra(), Anvil())
}
