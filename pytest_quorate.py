"""Entry point of quorate's pytest plugin, `quorate.integration.plugin`.

It is a top-level module, because pytest rewrites asserts in the top-level modules of a plugin's
distribution. If there are none, it takes folders such as `codecs/` for modules, and warns each user
that `codecs`, the standard library's module, "cannot be rewritten".
"""

from quorate.integration.plugin import (
    pytest_addoption,
    pytest_configure,
    pytest_load_initial_conftests,
    pytest_pyfunc_call,
)

__all__ = ["pytest_addoption", "pytest_configure", "pytest_load_initial_conftests", "pytest_pyfunc_call"]
