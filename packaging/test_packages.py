#!/usr/bin/env python3
"""Builds the packages of the programs for Python and npm, installs them from these files alone, and runs what they install.

    packaging/test_packages.py [--target TRIPLE] [--out FOLDER] PROGRAMS

PROGRAMS is a folder with `trunkline` and `trunkline-conformance`; FOLDER keeps the packages. Nothing that runs has Rust in its
PATH. Needs npm and, from a package index, build and hatchling; without the latter it ends with status 77.
"""

import argparse
import json
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SDK = HERE.parent / "adapters-sdk"
PROCESSOR = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]

ADAPTER = """
import trunkline
trunkline.serve(lambda turn: turn.output(f"heard {turn.text}"), name="parrot", version="1.0.0")
"""


def run(*command: object, **options: object) -> str:
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Packages(unittest.TestCase):
    folder: Path
    out: Path
    environment: dict[str, str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.out = cls.folder / "out"
        tools = cls.folder / "tools"
        run(sys.executable, "-m", "venv", tools)
        installed = subprocess.run([tools / "bin/pip", "install", "--quiet", "build", "hatchling"])
        if installed.returncode:
            sys.exit(77)
        run(tools / "bin/python", HERE / "packages", ARGUMENTS.target, ARGUMENTS.programs, cls.out)
        if ARGUMENTS.out:
            shutil.copytree(cls.out, ARGUMENTS.out, dirs_exist_ok=True)
        run(tools / "bin/python", "-m", "build", "--wheel", "--no-isolation", "--outdir", cls.out, SDK / "python")
        node = Path(shutil.which("node") or "node").parent
        cls.environment = {"HOME": str(cls.folder), "PATH": f"{node}:/usr/bin:/bin", "XDG_STATE_HOME": str(cls.folder)}
        assert shutil.which("cargo", path=cls.environment["PATH"]) is None, "the PATH of the test has Rust"

    def install_python(self, name: str, *packages: str) -> Path:
        venv = self.folder / name
        run(sys.executable, "-m", "venv", venv)
        run(venv / "bin/pip", "install", "--quiet", "--no-index", "--find-links", self.out, *packages)
        return venv

    def install_npm(self, name: str, *patterns: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        (folder / "package.json").write_text("{}")
        files = [next(self.out.glob(f"{pattern}-[0-9]*.tgz")) for pattern in patterns]
        run("npm", "install", "--offline", "--no-audit", "--no-fund", "--omit=optional", *files, cwd=folder)
        return folder / "node_modules/.bin"

    def test_pip_installs_sdk_program_and_suite_together(self) -> None:
        venv = self.install_python("all", "trunkline[cli,conformance]")
        adapter = self.folder / "parrot.py"
        adapter.write_text(ADAPTER)
        command = f"{venv}/bin/python {adapter}"
        answer = run(venv / "bin/trunkline", "run", "--no-daemon", "--adapter", command, "hi", env=self.environment)
        self.assertEqual(answer, "heard hi\n")
        smoke = run(venv / "bin/trunkline-conformance", "smoke", "--", *command.split(), env=self.environment)
        self.assertRegex(smoke, r"[1-9]\d* pass")

    def test_program_is_found_outside_of_path(self) -> None:
        venv = self.install_python("module", "trunkline-cli")
        version = run(venv / "bin/python", "-m", "trunkline_cli", "--version", env=self.environment)
        self.assertRegex(version, r"^trunkline \d")
        target = self.folder / "target"
        run(venv / "bin/pip", "install", "-q", "--no-index", "--find-links", self.out, "--target", target, "trunkline-cli")
        found = "import trunkline_cli; print(trunkline_cli.find_program())"
        environment = {**self.environment, "PYTHONPATH": str(target)}
        program = run(sys.executable, "-c", found, env=environment).strip()
        self.assertEqual(program, str(target / "bin/trunkline"))
        (target / "bin/trunkline").unlink()
        missing = subprocess.run([sys.executable, "-c", found], env=environment, capture_output=True, text=True)
        self.assertIn("reinstall the package trunkline-cli", missing.stderr)

    def test_wheel_is_bound_to_its_platform(self) -> None:
        for name in ["trunkline_cli", "trunkline_conformance"]:
            (wheel,) = self.out.glob(f"{name}-*.whl")
            libraries = "manylinux_2_17" if ARGUMENTS.target.endswith("-musl") else "linux"
            self.assertIn(f"-py3-none-{libraries}_{platform.machine()}", wheel.name)

    def test_npm_installs_programs_that_run(self) -> None:
        own = f"linux-{PROCESSOR}"
        installed = self.install_npm(
            "npm", "trunkline-cli", f"trunkline-cli-{own}", "trunkline-conformance", f"trunkline-conformance-{own}"
        )
        self.assertEqual(run(installed / "trunkline", "run", "--no-daemon", "hi", env=self.environment), "hi\n")
        cases = json.loads(run(installed / "trunkline-conformance", "list", "--json", env=self.environment))
        self.assertTrue(cases)
        # The status of the program is that of the command.
        wrong = subprocess.run([installed / "trunkline", "nonsense"], env=self.environment, capture_output=True)
        self.assertEqual(wrong.returncode, 2)

    def test_npm_passes_on_input_and_signals(self) -> None:
        own = f"linux-{PROCESSOR}"
        installed = self.install_npm("signals", "trunkline-cli", f"trunkline-cli-{own}")
        command = [installed / "trunkline", "serve"]
        with subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as host:
            assert host.stdin and host.stdout
            host.stdin.write(b'{"type":"session.start","session_id":"s"}\n')
            host.stdin.write(b'{"type":"user.input","session_id":"s","content":"hi"}\n')
            host.stdin.flush()
            self.assertIn(b'"s"', host.stdout.readline())
            host.send_signal(signal.SIGTERM)
            host.stdout.read()
            self.assertIn(host.wait(timeout=60), [0, 128 + signal.SIGTERM])

    def test_npm_names_what_is_missing(self) -> None:
        installed = self.install_npm("alone", "trunkline-cli")
        failed = subprocess.run([installed / "trunkline"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(failed.returncode, 1)
        self.assertIn(f"@trunkline/cli-linux-{PROCESSOR} is not installed", failed.stderr)
        self.assertIn("--omit=optional", failed.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=f"{platform.machine()}-unknown-linux-gnu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("programs", type=Path)
    ARGUMENTS = parser.parse_args()
    signal.alarm(600)  # ends tests that hang
    unittest.main(argv=sys.argv[:1])
