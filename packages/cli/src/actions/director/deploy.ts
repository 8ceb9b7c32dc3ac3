import { readFile } from "node:fs/promises";
import { messageOf } from "@diskmesh/domain";
import { UsageError } from "../../output/exit-codes.js";
import { textOption } from "../action.js";
import { taskAction } from "../task-run.js";

export const deploy = taskAction({
  usage: "deploy <manifest-file>",
  summary: "create or update a deployment from its manifest",
  options: [
    ["--recreate", "recreate every VM"],
    ["--canaries <count>", "overrides the manifest"],
    ["--max-in-flight <count>", "overrides the manifest"],
    ["--skip-drain", "skip pre-stop and drain scripts"],
  ],
  example: "diskmesh deploy demo.yml",
  start: async ({ mesh, options, args: [file = ""] }) => {
    const manifest = await read(file);
    const updates = {
      canaries: textOption(options, "canaries"),
      maxInFlight: textOption(options, "maxInFlight"),
      skipDrain: options.skipDrain === true,
    };
    const recreate = options.recreate === true;
    return mesh.deployments.deploy({ manifest, options: updates, recreate, wait: false });
  },
});

async function read(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new UsageError(`cannot read the manifest: ${messageOf(error)}`);
  }
}
