#!/usr/bin/env python3
"""Runs packaging/install.sh against a server on loopback: what is right is installed, all else refused, and leaves nothing.

    packaging/test_install.py          a release of stand-ins
    packaging/test_install.py OUT      and the release that `packaging/finish` has completed there
"""

import hashlib
import io
import os
import platform
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SCRIPT = Path(__file__).resolve().with_name("install.sh")
NAME = f"trunkline-{platform.machine()}-unknown-linux-musl"
PROGRAM = "#!/bin/sh\necho 'trunkline 9.9.9'\n"


class Quiet(SimpleHTTPRequestHandler):
    elsewhere = ""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/elsewhere/latest/download/SHA256SUMS":
            self.send_response(302)
            self.send_header("Location", self.elsewhere)
            self.end_headers()
        else:
            super().do_GET()


def archive(**programs: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in programs.items():
            entry = tarfile.TarInfo(f"{NAME}/{name.replace('_', '-')}")
            entry.size, entry.mode = len(text.encode()), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


GOOD = archive(trunkline=PROGRAM, trunkline_conformance=PROGRAM)


def sums(content: bytes, name: str = f"{NAME}.tar.gz") -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n"


class Installer(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        self.release = self.root / "web/latest/download"
        self.release.mkdir(parents=True)
        self.temporary = self.root / "tmp"
        self.temporary.mkdir()
        self.bin = self.root / "bin"
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(self.root / "web")))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.address = f"http://127.0.0.1:{server.server_address[1]}"

    def publish(self, content: bytes, text: str | None, folder: Path | None = None) -> None:
        folder = folder or self.release
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.tar.gz").write_bytes(content)
        if text is not None:
            (folder / "SHA256SUMS").write_text(text)

    def install(self, script: Path = SCRIPT, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.temporary),
            "TRUNKLINE_BIN": str(self.bin),
            "TRUNKLINE_RELEASES": self.address,
            "no_proxy": "127.0.0.1",
        } | more
        run = subprocess.run(["sh", script], env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(list(self.temporary.iterdir()), [], "temporary files are left")
        return run

    def refused(self, why: str, **more: str) -> None:
        before = sorted((p.name, p.read_bytes()) for p in self.bin.iterdir()) if self.bin.exists() else None
        run = self.install(**more)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(why, run.stderr)
        self.assertIn("is not installed", run.stderr)
        after = sorted((p.name, p.read_bytes()) for p in self.bin.iterdir()) if self.bin.exists() else None
        self.assertEqual(after, before, "something was installed")

    def test_what_has_the_right_checksum_is_installed(self) -> None:
        self.publish(GOOD, sums(b"another", "other.tar.gz") + sums(GOOD))
        run = self.install()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("trunkline 9.9.9", run.stdout)
        self.assertEqual(sorted(p.name for p in self.bin.iterdir()), ["trunkline", "trunkline-conformance"])
        self.assertTrue(all(os.access(p, os.X_OK) for p in self.bin.iterdir()))

    def test_the_folder_of_the_user_is_the_default(self) -> None:
        self.publish(GOOD, sums(GOOD))
        self.assertEqual(self.install(TRUNKLINE_BIN="").returncode, 0)
        self.assertTrue((self.root / "home/.local/bin/trunkline").exists())

    def test_a_version_is_taken_from_its_own_folder(self) -> None:
        self.publish(GOOD, sums(GOOD), self.root / "web/download/v0.1.0")
        self.refused("could not be had")
        self.assertEqual(self.install(TRUNKLINE_VERSION="0.1.0").returncode, 0)
        self.assertEqual(self.install(TRUNKLINE_VERSION="v0.1.0").returncode, 0)
        self.refused("is no version", TRUNKLINE_VERSION="../latest")

    def test_a_wrong_checksum_is_refused_and_the_old_program_stays(self) -> None:
        self.publish(GOOD, sums(b"what it was"))
        self.refused("and not")
        self.bin.mkdir()
        (self.bin / "trunkline").write_text("the old one")
        self.refused("and not")

    def test_a_missing_checksum_is_refused(self) -> None:
        self.publish(GOOD, None)
        self.refused("could not be had")
        for text in [
            "",
            sums(GOOD, f"x{NAME}.tar.gz"),
            sums(GOOD, f"{NAME}.tar.gz.asc"),
            sums(GOOD, f"{NAME}-tar.gz"),
            sums(GOOD)[8:],
            "00000000" + sums(GOOD),
            sums(b"another") + sums(GOOD),
            f"{hashlib.sha256(GOOD).hexdigest().upper()}  {NAME}.tar.gz\n",
        ]:
            with self.subTest(text=text):
                self.publish(GOOD, text)
                self.refused("has no checksum")

    def test_what_is_cut_off_or_no_release_is_refused(self) -> None:
        half = GOOD[: len(GOOD) // 2]
        self.publish(half, sums(GOOD))
        self.refused("and not")
        self.publish(half, sums(half))
        self.refused("is no archive")
        lacks = archive(trunkline=PROGRAM)
        self.publish(lacks, sums(lacks))
        self.refused("has no trunkline-conformance")
        broken = archive(trunkline="#!/bin/sh\nexit 1\n", trunkline_conformance=PROGRAM)
        self.publish(broken, sums(broken))
        self.refused("does not run here")
        (self.release / f"{NAME}.tar.gz").unlink()
        self.refused("could not be had")

    def test_a_script_that_is_cut_off_does_nothing(self) -> None:
        self.publish(GOOD, sums(GOOD))
        lines = SCRIPT.read_text().splitlines(keepends=True)
        cut = self.root / "cut.sh"
        for end in range(len(lines)):
            text = "".join(lines[:end])
            if text.count("\nmain\n"):
                break
            cut.write_text(text)
            self.install(cut)
            self.assertFalse(self.bin.exists(), f"installed by {end} lines")

    def test_only_https_or_this_machine_is_asked(self) -> None:
        self.publish(GOOD, sums(GOOD))
        for address in ["http://example.org", "http://127.0.0.1.example.org", "file:///"]:
            self.refused("is neither https nor on 127.0.0.1", TRUNKLINE_RELEASES=address)
        for address in ["http://127.0.0.1:x@example.org", "http://127.0.0.1:80@example.org", "http://127.0.0.1:/"]:
            self.refused("is no address of this machine", TRUNKLINE_RELEASES=address)
        # Nor is a redirect to another protocol followed.
        with socket.create_server(("127.0.0.1", 0)) as other:
            Quiet.elsewhere = f"ftp://127.0.0.1:{other.getsockname()[1]}/SHA256SUMS"
            other.setblocking(False)
            self.refused("could not be had", TRUNKLINE_RELEASES=f"{self.address}/elsewhere")
            self.assertRaises(BlockingIOError, other.accept)
        self.refused("does not know where releases are", TRUNKLINE_RELEASES="")

    def test_an_unknown_system_is_refused(self) -> None:
        self.publish(GOOD, sums(GOOD))
        for system, processor, why in [("Darwin", "arm64", "Linux only"), ("Linux", "riscv64", "no build for riscv64")]:
            fake = self.root / system
            fake.mkdir()
            (fake / "uname").write_text(f"#!/bin/sh\n[ $1 = -s ] && echo {system} || echo {processor}\n")
            (fake / "uname").chmod(0o755)
            self.refused(why, PATH=f"{fake}:{os.environ['PATH']}")

    @unittest.skipUnless(len(sys.argv) > 1, "no release is named")
    def test_the_real_release_is_installed(self) -> None:
        out = Path(RELEASE)
        for file in [f"{NAME}.tar.gz", "SHA256SUMS"]:
            (self.release / file).symlink_to(out / file)
        run = self.install(out / "install.sh")
        self.assertEqual(run.returncode, 0, run.stderr)
        version = subprocess.run([self.bin / "trunkline", "version"], capture_output=True, text=True, check=True)
        self.assertIn(version.stdout.splitlines()[0], run.stdout)


if __name__ == "__main__":
    RELEASE = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
    unittest.main(argv=sys.argv[:1])
