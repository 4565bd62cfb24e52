"""Build and check the source distribution and the wheels of the last commit (`make dist`).

One wheel is for every platform. The other one has the accelerator in C, for this platform; an index
takes it only after `auditwheel repair`. They are written to dist/. Everything is built twice, in
folders of different names, and must have the same bytes, which depend only on the commit and the
versions in constraints.txt. `twine check --strict` must pass, too.
"""

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"


def main() -> None:
    """Build, compare, check, and print the files with their hashes."""
    epoch = int(_run(["git", "log", "-1", "--format=%ct"]))
    if changed := _run(["git", "status", "--porcelain", "--untracked-files=no"]):
        print(f"note: only what is committed is built, without the changes in\n{changed}", file=sys.stderr)
    with TemporaryDirectory() as folder:
        first, second = (build(Path(folder) / name, epoch) for name in ("first", "another-name"))
        for one, other in zip(first, second, strict=True):
            if one.read_bytes() != other.read_bytes():
                sys.exit(f"error: {one.name} has other bytes when it is built again\n       compare with diffoscope")
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        files = [Path(shutil.copy(path, DIST)) for path in first]
    _run([sys.executable, "-P", "-m", "twine", "check", "--strict", *files])
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
    (DIST / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    print("\n".join(sums))


def build(folder: Path, epoch: int) -> list[Path]:
    """Build the source distribution from the last commit, and the wheels from that.

    `epoch`: the time in seconds since 1970 that all files get.
    """
    source, unpacked, out = folder / "source", folder / "unpacked", folder / "out"
    for each in (source, unpacked, out):
        each.mkdir(parents=True)
    committed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(committed)) as archive:
        archive.extractall(source, filter="data")
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
    command = [sys.executable, "-P", "-m", "build", "--no-isolation", "--outdir", out]
    _run([*command, "--sdist", source], environment)
    (sdist,) = out.glob("*.tar.gz")
    normalize(sdist, epoch)
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (inside,) = unpacked.iterdir()
    for native in ("0", "1"):
        shutil.rmtree(inside / "build", ignore_errors=True)
        _run([*command, "--wheel", inside], environment | {"QUORATE_NATIVE": native})
    wheels = sorted(out.glob("*.whl"))
    for wheel in wheels:
        compiled = [name for name in ZipFile(wheel).namelist() if name.endswith((".so", ".pyd"))]
        if bool(compiled) == wheel.name.endswith("-none-any.whl"):
            sys.exit(
                f"error: {wheel.name} has {compiled or 'no accelerator'}; it needs a C compiler and Python's headers"
            )
    return [sdist, *wheels]


def normalize(sdist: Path, epoch: int) -> None:
    """Sort the files, and set time, owner and modes, which setuptools takes from the machine."""
    packed = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with sdist.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=epoch) as compressed:
        compressed.write(packed.getvalue())


def _run(command: list[str | Path], environment: dict[str, str] | None = None) -> str:
    """Return what a command prints. Ends this one with its output if it fails."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
