import { VERSION } from "@diskmesh/domain";
import type { Action } from "./action.js";

export const version: Action = {
  usage: "version",
  summary: "print the version, as --version does; `diskmesh status` asks the services",
  example: "diskmesh version",
  run: async ({ output }) => output.answer({ version: VERSION }, `diskmesh ${VERSION}`),
};
