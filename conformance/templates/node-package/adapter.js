#!/usr/bin/env node
// An adapter on the package @trunkline/sdk, on Node 20 or later. What it does is in `answer.js`.
import { serve } from "@trunkline/sdk";
import { answer } from "./answer.js";

await serve(answer);
