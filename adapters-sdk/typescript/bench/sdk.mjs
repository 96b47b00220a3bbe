import { serve } from "../dist/index.js";

await serve((turn, input) => turn.output(input.content));
