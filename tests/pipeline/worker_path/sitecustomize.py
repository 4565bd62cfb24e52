"""Workers of Spark import this when they start: take its modules from the installed package.

Spark puts them on the workers' path as a zip file. Each task calls `importlib.invalidate_caches`,
which reads the directory of that file 16 times: half a second of CPU time.
"""

import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
