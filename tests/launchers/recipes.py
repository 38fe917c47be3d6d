"""The servers that tests can have, by name, in the order in which they are worth having."""

from tests.launchers.anvil import Anvil
from tests.launchers.cassandra import Cassandra
from tests.launchers.dynamodb import Dynamodb
from tests.launchers.mariadb import Mariadb
from tests.launchers.mongodb import Mongodb
from tests.launchers.postgresql import Postgresql
from tests.launchers.redis import Redis
from tests.launchers.server import Recipe

__all__ = ["RECIPES"]

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (Postgresql(), Redis(), Dynamodb(), Mongodb(), Mariadb(), Cassandra(), Anvil())
}
