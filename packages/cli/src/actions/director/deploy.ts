import { readFile } from "node:fs/promises";
import { messageOf } from "@diskmesh/domain";
import { UsageError } from "../../output/exit-codes.js";
import { type Action, textOption } from "../action.js";
import { followTask } from "../task-run.js";

export const deploy: Action = {
  usage: "deploy <manifest-file>",
  summary: "create or update a deployment from its manifest",
  options: [
    ["--recreate", "recreate every VM"],
    ["--canaries <count>", "overrides the manifest"],
    ["--max-in-flight <count>", "overrides the manifest"],
    ["--skip-drain", "skip pre-stop and drain scripts"],
    ["--no-wait", "start the task and do not wait for it"],
  ],
  example: "diskmesh deploy demo.yml",
  run: async (call) => {
    const { mesh, options } = call;
    const manifest = await read(call.args[0] ?? "");
    const updates = {
      canaries: textOption(options, "canaries"),
      maxInFlight: textOption(options, "maxInFlight"),
      skipDrain: options.skipDrain === true,
    };
    const recreate = options.recreate === true;
    const { task } = await mesh.deployments.deploy({ manifest, options: updates, recreate, wait: false });
    await followTask(call, task);
  },
};

async function read(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new UsageError(`cannot read the manifest: ${messageOf(error)}`);
  }
}
