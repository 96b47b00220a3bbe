// The baseline: a synchronous echo without a library, and without most of what an adapter must do.
let rest = "";
process.stdin.setEncoding("utf8").on("data", (chunk) => {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop();
  let out = "";
  for (const line of lines) {
    const { type, session_id, content } = JSON.parse(line);
    if (type !== "user.input") continue;
    out += JSON.stringify({ type: "output", session_id, content, channel: "stdout" }) + "\n";
    out += JSON.stringify({ type: "turn.complete", session_id }) + "\n";
  }
  if (out) process.stdout.write(out);
});
