#!/usr/bin/env node
import { existsSync } from "node:fs";

const main = new URL("../dist/main.js", import.meta.url);
if (existsSync(main)) await import(main.href);
else {
  process.stderr.write("diskmesh is not built: run npm start, or npm run build, first\n");
  process.exitCode = 2;
}
