"""The command line of the conformance run for clients."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from . import cases  # noqa: F401  (registers them)
from .driver import Driver, ProcessDriver
from .trial import CASES, Case, Verdict, run_case, select

USAGE = "run [--transport http|websocket|socket|command] [--only CASE] [--json] [--list] -- COMMAND..."


def main() -> int:
    """Runs the cases. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="run", usage=USAGE, description="Judges a client of the daemon by its driver.")
    parser.add_argument("--transport", choices=["http", "websocket", "socket", "command"], default="http")
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="a case or a pattern; repeatable")
    parser.add_argument("--except", action="append", default=[], metavar="CASE", dest="without")
    parser.add_argument("--jobs", type=int, default=6, metavar="N", help="cases at a time")
    parser.add_argument("--time-scale", type=float, default=1.0, metavar="X", help="multiplies each limit")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each verdict")
    parser.add_argument("--list", action="store_true", help="the cases and their clauses")
    parser.add_argument("--trace", action="store_true", help="the dialogue with the driver, and all requests")
    parser.add_argument("command", nargs="*", metavar="COMMAND")
    options = parser.parse_args()
    if options.list:
        for each in sorted(CASES, key=lambda each: each.id):
            print(f"{each.id}  {each.title}  ({each.clause}; {', '.join(each.transports)})")
        return 0
    chosen = select(options.only, options.without, options.transport)
    if not chosen:
        print("run: no case fits", file=sys.stderr)
        return 2
    if not options.command:
        print(f"usage: {USAGE}", file=sys.stderr)
        return 2
    return asyncio.run(judge(chosen, options))


async def judge(chosen: list[Case], options: argparse.Namespace) -> int:
    trace = (lambda line: print(f"    {line}", file=sys.stderr, flush=True)) if options.trace else None

    def make_driver(folder: Path) -> Driver:
        return ProcessDriver(options.command, folder, time_scale=options.time_scale, trace=trace)

    verdicts: list[Verdict] = []
    slots = asyncio.Semaphore(1 if options.trace else max(1, options.jobs))

    async def run(each: Case) -> None:
        async with slots:
            if trace:
                print(f"--- {each.id}", file=sys.stderr)
            verdict = await run_case(each, options.transport, make_driver, options.time_scale)
            verdicts.append(verdict)
            show(verdict, options.json)

    await asyncio.gather(*map(run, chosen))
    return summarize(verdicts, options)


def show(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        print(verdict.as_json(), flush=True)
    elif verdict.result == "fail":
        print(f"FAIL  {verdict.case.id}  {verdict.case.title}  {verdict.case.clause}")
        print(f"      expected  {verdict.expected}")
        print(f"      saw       {verdict.seen}", flush=True)


def summarize(verdicts: list[Verdict], options: argparse.Namespace) -> int:
    """Prints the summary. Returns the exit status."""
    by_result = {result: [each for each in verdicts if each.result == result] for result in ("pass", "fail", "skip")}
    if not options.json:
        for each in sorted(by_result["skip"], key=lambda each: each.case.id):
            print(f"skip  {each.case.id}  {each.reason}")
        counts = ", ".join(f"{len(found)} {name}" for name, found in by_result.items())
        print(f"result over {options.transport}: {counts}")
    if by_result["fail"] and all("does not start" in each.seen for each in by_result["fail"]):
        return 3
    return 1 if by_result["fail"] else 0


def begin() -> None:
    """Ends with the status of `main`."""
    try:
        status = main()
    except KeyboardInterrupt:
        status = 130
    sys.stdout.flush()
    os._exit(status)
