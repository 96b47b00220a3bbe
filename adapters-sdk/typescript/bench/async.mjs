import { serve } from "../dist/index.js";

await serve(async (turn, input) => {
  await turn.output(input.content);
});
