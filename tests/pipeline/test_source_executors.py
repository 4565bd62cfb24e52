"""Executors get the package as a ZIP file with `--py-files`; they only have its dependencies."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

from tests.conftest import QUICK_JVM
from tests.pipeline.conftest import CAPTURES

ROOT = Path(__file__).resolve().parents[2]

JOB = """
import importlib.util, sys
from pyspark.sql import SparkSession
from quorate.pipeline import decode, register
from quorate.pipeline import source

assert ".zip" in source.__file__, source.__file__
spark = SparkSession.builder.getOrCreate()
register(spark)
reader = spark.read.format("consumer-offsets").option("types", "OffsetCommit").option("includeRaw", "true")
rows = reader.load(sys.argv[1])
decoded = decode(rows.select("key", "value"), types="OffsetCommit")
print("rows", *decoded.selectExpr("count(*)", "count(type)").first())
"""


def zipped(path: Path) -> Path:
    """Write the package to a ZIP file, as `pip install --target` and `zip -r` do."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("quorate")  # zipimport needs this entry for a package without __init__.py; wheels lack it
        for package, folder in settings["package-dir"].items():
            for file in (ROOT / folder).rglob("*.py"):
                archive.write(file, Path(*package.split(".")) / file.relative_to(ROOT / folder))
    return path


def test_executors_with_the_dependencies_need_only_a_zip_of_the_package(tmp_path: Path) -> None:
    package = zipped(tmp_path / "quorate.zip")
    # Without `site`, Python does not find the installed quorate; the libraries are on the path.
    python = tmp_path / "python"
    libraries = sysconfig.get_path("purelib")
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{libraries}:$PYTHONPATH" exec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    job = tmp_path / "job.py"
    job.write_text(JOB)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    environment |= {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    submit = Path(libraries) / "pyspark" / "bin" / "spark-submit"
    settings = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1", "--master", "local[1]"]
    settings += ["--conf", "spark.sql.codegen.wholeStage=false", "--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN"]
    settings += ["--driver-java-options", QUICK_JVM]
    command = [submit, *settings, "--py-files", package, job, CAPTURES / "classic-3.9"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert "rows 107 107" in done.stdout, done.stderr[-3000:]


def test_importing_the_source_imports_no_jobs() -> None:
    """Each process of Spark imports the source, which is part of the cost of each query."""
    code = (
        "import sys, quorate.pipeline.source; others = ('quorate.coordinator', 'quorate.assignors'); "
        "print([one for one in sys.modules if 'jobs' in one or one.startswith(others)])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "[]\n"
