import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { visible } from "../core/safe.ts";
import { Fault } from "./bits.tsx";

export function SignIn({ why, enter }: { why: string; enter: (token: string) => void }): JSX.Element {
  const [token, set] = useState("");
  useEffect(() => {
    document.title = "Sign in · trunkline";
  }, []);
  return (
    <main class="signin">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (token.trim() !== "") enter(token.trim());
        }}
      >
        <img src="/icon.svg" alt="" width={40} height={40} />
        <h1>trunkline</h1>
        <p>Run <code>trunkline open</code>, or paste a token.</p>
        <label class="field">
          <span>Token</span>
          <input
            type="password"
            name="token"
            value={token}
            autocomplete="off"
            spellcheck={false}
            placeholder="tlk_…"
            onInput={(event) => set(event.currentTarget.value)}
          />
        </label>
        <Fault text={visible(why)} />
        <button type="submit" class="primary">Sign in</button>
      </form>
    </main>
  );
}
