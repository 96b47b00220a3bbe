#!/usr/bin/env python3
"""Tests how `.ci/first-run` compares units, on small graphs."""

import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("first_run", str(Path(__file__).resolve().parent / "first-run"))
SPEC = importlib.util.spec_from_loader("first_run", LOADER)
first_run = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(first_run)


def make_unit(package: str, profile: str, features: list[str] = [], below: list[int] = [], **settings: object) -> dict:
    return {
        "pkg_id": package,
        "target": {"name": package},
        "mode": "build",
        "platform": None,
        "features": features,
        "profile": {"name": profile, "debuginfo": 0, **settings},
        "dependencies": [{"index": index} for index in below],
    }


def make_package(name: str, features: dict = {}, dependencies: list[dict] = []) -> dict:
    return {"id": name, "name": name, "version": "1.0.0", "features": features, "dependencies": dependencies}


ASKS = {"name": "bytes", "features": ["serde"], "uses_default_features": True, "kind": "dev"}
METADATA = {
    "workspace_members": ["host"],
    "packages": [make_package("bytes", {"default": ["std"]}), make_package("host", dependencies=[ASKS])],
    "resolve": {
        "nodes": [
            {"id": "bytes", "features": ["default"], "deps": []},
            {"id": "host", "features": [], "deps": [{"pkg": "bytes"}]},
        ]
    },
}


def make_graph(profile: str, features: list[str] = [], **settings: object) -> list[dict]:
    return [make_unit("host", profile, below=[1], **settings), make_unit("bytes", profile, features)]


class Compare(unittest.TestCase):
    def compare(self, run: list[dict], test: list[dict]) -> dict:
        return first_run.compare_units(run, test, METADATA)

    def test_the_name_of_a_profile_makes_no_difference(self) -> None:
        found = self.compare(make_graph("dev"), make_graph("test"))
        self.assertEqual((found["run"], found["shared"], found["ours"], found["others"]), (2, 2, [], []))

    def test_a_feature_builds_everything_above_it_twice(self) -> None:
        found = self.compare(make_graph("dev"), make_graph("test", ["default", "serde", "std"]))
        self.assertEqual(found["shared"], 0)
        self.assertEqual((found["ours"], found["others"]), (["host 1.0.0"], ["bytes 1.0.0"]))
        lines = [
            "feature default for test only, by host (dev)",
            "feature serde for test only, by host (dev)",
            "feature std for test only, by its feature default",
        ]
        self.assertEqual(found["why"], {"bytes 1.0.0": lines})

    def test_a_feature_that_only_the_program_has_is_found(self) -> None:
        found = self.compare(make_graph("dev", ["serde"]), make_graph("test"))
        self.assertEqual(found["why"], {"bytes 1.0.0": ["feature serde for run only, by host (dev)"]})

    def test_a_setting_of_a_profile_is_found(self) -> None:
        found = self.compare(make_graph("dev"), make_graph("test", debuginfo=2))
        self.assertEqual((found["shared"], found["ours"]), (1, ["host 1.0.0"]))
        self.assertEqual(found["why"], {"host 1.0.0": ["debuginfo is 0 for run, 2 for test"]})

    def test_one_variant_of_many_suffices(self) -> None:
        test = [*make_graph("test"), make_unit("bytes", "test", ["serde"])]
        found = self.compare(make_graph("dev"), test)
        self.assertEqual((found["shared"], found["ours"]), (2, []))

    def test_two_variants_of_ours_among_the_tests_are_found(self) -> None:
        test = [*make_graph("test"), make_unit("host", "test", ["schema"])]
        found = self.compare(make_graph("dev"), test)
        self.assertEqual((found["shared"], found["ours"]), (2, ["host 1.0.0"]))
        self.assertEqual(found["why"], {"host 1.0.0": ["host has 2 variants for test"]})

    def test_the_seconds_of_a_crate_are_those_of_the_compiler(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, times in (("serde.17", "1m2.5s 0m0.25s"), ("serde.18", "0m1s 0m0s"), ("bytes.19", "0m0.04s 0m0s")):
                Path(folder, name).write_text(f"0m9s 0m9s\n{times}\n")
            self.assertEqual(first_run.sum_crates(Path(folder)), {"serde": 63.8, "bytes": 0.0})


if __name__ == "__main__":
    unittest.main()
