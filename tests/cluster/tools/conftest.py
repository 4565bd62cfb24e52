"""The fixtures `tools`, one JVM that the files of this folder share, and `ok`."""

from tests.cluster.helpers.java_tools import ok as ok
from tests.cluster.helpers.java_tools import tools_of_group as tools_of_group
