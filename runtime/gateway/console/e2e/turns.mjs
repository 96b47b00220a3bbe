// Turns: inputs that wait, plans, and what stands beside the input.
import assert from "node:assert/strict";
import { XSS } from "../mock/material.mjs";
import { fresh } from "./basic.mjs";
import { clean, drawn, open, send, until, wholeText } from "./steps.mjs";

export const flows = {
  "queued-inputs": {
    async run(it) {
      const hash = await fresh(it, "Queue");
      const { page, wrong } = await open(it, hash);
      const tray = page.getByRole("list", { name: "Inputs that wait" });
      await send(page, "slow");
      await page.getByText("word3").waitFor();
      await page.setInputFiles("input[type=file]", [{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("notes") }]);
      await page.locator(".attached li.ready").waitFor();
      for (const text of ["stream the first", `second ${"long ".repeat(100)}`, `third ${XSS[0]}`]) await send(page, text);
      await page.waitForFunction(() => [...document.querySelectorAll(".tray li")].filter((each) => each.innerText.startsWith("queued")).length === 3);
      assert.match(await tray.getByRole("listitem").first().innerText(), /stream the first[^]*notes\.txt[^]*you/);
      // The running answer is one piece, and what waits is not in the transcript.
      assert.equal(await page.locator(".bubble").count(), 1);
      assert.equal(await page.locator(".rows .prose").count(), 1);
      // Another page sees the tray, and withdraws.
      const other = await open(it, hash);
      await other.page.locator(".tray li").nth(2).waitFor();
      await other.page.locator(".tray li", { hasText: "third" }).getByRole("button", { name: "Withdraw" }).click();
      await page.locator(".tray li", { hasText: "third" }).waitFor({ state: "detached" });
      // Edit brings text and files back, once it does not wait any more.
      await tray.getByRole("listitem").filter({ hasText: "stream the first" }).getByRole("button", { name: "Edit" }).click();
      await page.waitForFunction(() => document.querySelector("#input").value === "stream the first");
      await page.locator(".attached li", { hasText: "notes.txt" }).waitFor();
      await page.fill("#input", "stream again");
      await page.locator(".composer .primary").click();
      await tray.getByRole("listitem").filter({ hasText: "stream again" }).getByText("queued").waitFor();
      await page.getByRole("button", { name: "Stop the turn" }).click();
      await page.waitForFunction(() => !document.querySelector(".tray, .composer .stop"));
      const text = await wholeText(page);
      const order = ["slow", "word3", "stopped", "a queued input was withdrawn: “third", "a queued input was withdrawn: “stream the first", "second long", "mend the lexer", "stream again", "notes.txt", "mend the lexer"];
      let at = -1;
      for (const part of order) {
        const next = text.indexOf(part, at + 1);
        assert.ok(next > at, `${part} behind ${at}: ${text.slice(0, 3000)}`);
        at = next;
      }
      await clean(page, wrong);
      await clean(other.page, other.wrong);
    },
  },
  "withdrawn-too-late": {
    mock: true,
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Late"));
      const session = it.place.world.sessions.get("Late");
      await send(page, "slow");
      await page.getByText("word3").waitFor();
      await send(page, "slow again");
      const button = page.locator(".tray li").getByRole("button", { name: "Edit" });
      await button.waitFor();
      // The turn begins to run while the request is on its way.
      await page.route("**/stop", async (route) => {
        session.stopper.abort("stop");
        await until("the second turn", () => session.turns === 2);
        await route.continue();
      });
      await button.click();
      await page.getByText("It ran already, so it was not withdrawn").waitFor();
      await page.waitForFunction(() => document.querySelectorAll(".ended.stopped").length === 2);
      assert.equal(await page.inputValue("#input"), "", "nothing is put back");
      assert.equal(await page.getByText("a queued input was withdrawn").count(), 0);
      await drawn(page);
      await clean(page, wrong);
    },
  },
};
